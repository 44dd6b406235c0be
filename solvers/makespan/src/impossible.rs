//! Proofs without a search that a problem has no plan, because it exceeds the memory.
//!
//! While an operator runs, its device holds what it reads and writes, whatever the schedule. And while operator v
//! runs, some device holds every tensor that v or a predecessor of v writes, and v or a successor of v reads: it
//! exists already, and a reader still waits for it. In a training step, these are the activations of the whole
//! forward pass, if v is the loss.

use std::collections::BTreeSet;

use stagewright_core::graph::{ClassId, OpId};
use stagewright_core::ids::Keyed;
use stagewright_core::tolerance;
use stagewright_core::units::bytes_apart;

use super::instance::Instance;

impl Instance<'_> {
    /// Reason why no plan of a step exists, if that is evident: one of [`Instance::unplaceable`]; an operator that
    /// reads and writes more than the devices that can run it have; or more bytes at one time than all devices hold
    /// together. O(operators · pools + pins).
    pub fn impossible(&self) -> Option<String> {
        let starved = || self.graph().class_ids().find_map(|class| self.starved(class));
        self.unplaceable().or_else(starved).or_else(|| self.crowded(self.fixed(), self.have()))
    }

    /// Reason why no placement exists under any objective, if that is evident: a class that no device can run, or
    /// whose parameters and optimiser state fit on no device that can run it; or more parameters and optimiser state
    /// than all devices hold together. O(operators · pools).
    pub fn unplaceable(&self) -> Option<String> {
        let graph = self.graph();
        let name = |class: ClassId| graph.operator(graph.class(class)[0]).name.as_str();
        let homeless = |class: ClassId| {
            let Some(most) = self.most_memory(class) else {
                return Some(format!("no device can run `{}` with its colocated operators", name(class)));
            };
            (!tolerance::fits(self.standing(class), most)).then(|| {
                let name = name(class);
                format!("no device that can run `{name}` with its colocated operators has memory for them")
            })
        };
        graph.class_ids().find_map(homeless).or_else(|| {
            let (need, have) = (self.fixed(), self.have());
            (!tolerance::fits(need, have)).then(|| {
                let [need, have] = bytes_apart(need, have);
                format!("parameters and optimiser state need {need}, all devices together have {have}")
            })
        })
    }

    /// Memory of all devices.
    fn have(&self) -> f64 {
        self.problem().cluster().devices().map(|device| self.memory(device)).sum()
    }

    /// Parameters and optimiser state of all operators, shared ones once.
    fn fixed(&self) -> f64 {
        let graph = self.graph();
        let own: f64 = graph.class_ids().map(|class| self.fixed_bytes(class)).sum();
        let read = (0..graph.parameters().len()).filter(|&parameter| !graph.readers(parameter).is_empty());
        own + read.map(|parameter| self.shared_bytes(parameter as u32)).sum::<f64>()
    }

    /// Parameters and optimiser state of a class, with the shared ones that it reads.
    fn standing(&self, class: ClassId) -> f64 {
        let graph = self.graph();
        let read = graph.class(class).iter().flat_map(|&op| graph.parameters_of(op));
        let shared: BTreeSet<u32> = read.copied().collect();
        let shared = shared.into_iter().map(|parameter| self.shared_bytes(parameter));
        self.fixed_bytes(class) + shared.sum::<f64>()
    }

    /// Memory of the largest device that can run a class; `None` if no device can.
    fn most_memory(&self, class: ClassId) -> Option<f64> {
        let first = self.graph().class(class)[0];
        let pools = self.problem().pools().iter().enumerate();
        let able =
            pools.filter(|&(index, pool)| pool.count() > 0 && self.seconds_on(first, index).is_finite());
        able.map(|(_, pool)| pool.memory).reduce(f64::max)
    }

    /// Reason why no device has room for what an operator of a class reads and writes.
    fn starved(&self, class: ClassId) -> Option<String> {
        let graph = self.graph();
        let (fixed, most) = (self.standing(class), self.most_memory(class)?);
        graph.class(class).iter().find_map(|&op| {
            let touched = graph.inputs(op).iter().chain(graph.outputs(op));
            let working = touched.map(|&tensor| graph.bytes(tensor)).sum::<f64>()
                + graph.operator(op).workspace_bytes;
            (!tolerance::fits(fixed + working, most)).then(|| {
                let name = &graph.operator(op).name;
                let [need, most] = bytes_apart(fixed + working, most);
                format!(
                    "`{name}` needs {need} for what it reads and writes and for its parameters, and no device that can \
                     run it has more than {most}"
                )
            })
        })
    }

    /// Reason why all devices together have too little memory at one time.
    fn crowded(&self, fixed: f64, have: f64) -> Option<String> {
        let graph = self.graph();
        let mut rank: Keyed<OpId, u32> = Keyed::filled(0, graph.operator_count());
        for (position, &op) in (0..).zip(graph.topological()) {
            rank[op] = position;
        }
        // In any order, at least what `held` counts is live, so an operator whose turn has less proves nothing.
        let mut changes = vec![0.0; graph.operator_count() + 1];
        for tensor in graph.tensors() {
            let last = graph.consumers(tensor).iter().map(|&reader| rank[reader]).max();
            if let Some(last) = last {
                changes[rank[graph.producer(tensor)] as usize] += graph.bytes(tensor);
                changes[last as usize + 1] -= graph.bytes(tensor);
            }
        }
        let mut live = 0.0;
        let turns = graph.topological().iter().zip(changes).map(|(&op, change)| {
            live += change;
            (live + graph.operator(op).workspace_bytes, op)
        });
        let (most, fullest) =
            turns.reduce(|fullest, turn| if turn.0 > fullest.0 { turn } else { fullest })?;
        if tolerance::fits(fixed + most, have) {
            return None;
        }
        let turns_back = |op: &OpId| {
            graph.is_forward(*op) && graph.successors(*op).iter().any(|&reader| !graph.is_forward(reader))
        };
        let loss = graph.topological().iter().rev().copied().find(turns_back);
        [Some(fullest), loss].into_iter().flatten().find_map(|op| {
            let held = self.held(op);
            (!tolerance::fits(fixed + held, have)).then(|| {
                let [need, have] = bytes_apart(fixed + held, have);
                let name = &graph.operator(op).name;
                format!(
                    "parameters, optimiser state and the tensors that exist while `{name}` runs need {need}, all devices \
                     together have {have}"
                )
            })
        })
    }

    /// Bytes of tensors and workspace that are held while an operator runs, under any schedule.
    fn held(&self, op: OpId) -> f64 {
        let graph = self.graph();
        let before = self.closure(op, |op| graph.predecessors(op));
        let behind = self.closure(op, |op| graph.successors(op));
        let is_held = |&tensor: &_| {
            before[graph.producer(tensor)] && graph.consumers(tensor).iter().any(|&reader| behind[reader])
        };
        let bytes: f64 = graph.tensors().filter(is_held).map(|tensor| graph.bytes(tensor)).sum();
        bytes + graph.operator(op).workspace_bytes
    }

    /// Whether each operator is `start` or can be reached from it.
    fn closure<'g>(&self, start: OpId, next: impl Fn(OpId) -> &'g [OpId]) -> Keyed<OpId, bool> {
        let mut reached = Keyed::filled(false, self.graph().operator_count());
        reached[start] = true;
        let mut waiting = vec![start];
        while let Some(op) = waiting.pop() {
            for &other in next(op) {
                if !std::mem::replace(&mut reached[other], true) {
                    waiting.push(other);
                }
            }
        }
        reached
    }
}
