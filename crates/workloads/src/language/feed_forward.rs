//! Dense feed-forward blocks, shared experts and mixtures of routed experts.
//!
//! Routed experts come in groups, and a group runs as one grouped product for each projection. With uniform routing, each
//! of n experts gets k/n of the tokens, and T tokens hit n · (1 − (1 − k/n)^T) distinct experts on average: that many
//! are read. Numbers of rows and of experts are expected ones, and need not be whole.

use std::num::NonZeroU32;

use stagewright_structure::{Mixture, Role};

use super::draw::{Cached, Draw};
use super::weights::Module;
use crate::operators::bilinear;
use crate::record::Product;
use crate::{Activation, Piece, Read, Record, Shape, Stored, Tensor};

/// Purposes of the projections of a block.
struct Roles {
    gate: Role,
    up: Role,
    gate_up: Role,
    down: Role,
}

const DENSE: Roles = Roles { gate: Role::Gate, up: Role::Up, gate_up: Role::GateUp, down: Role::Down };
const SHARED: Roles =
    Roles { gate: Role::SharedGate, up: Role::SharedUp, gate_up: Role::SharedGateUp, down: Role::SharedDown };

/// Experts of a group, and what a step expects of them.
struct Group {
    range: [u64; 2],
    count: u64,
    /// Rows of the group.
    rows: f64,
    /// Experts of the group that have rows.
    hit: f64,
}

impl Group {
    /// Name of a module of all experts, for those of the group.
    fn name(&self, module: &str) -> String {
        let [first, end] = self.range;
        let range = if end - first == 1 { first.to_string() } else { format!("{first}-{}", end - 1) };
        // Early GGUF files have a module for each expert.
        let numbered = module.rsplit_once('.').filter(|(_, last)| last.parse::<u64>().is_ok());
        match (module.split_once('*'), numbered) {
            (Some((before, after)), _) => format!("{before}{range}{after}"),
            (None, Some((stem, _))) => format!("{stem}.{range}"),
            (None, None) if end - first == self.count => module.to_owned(),
            (None, None) => format!("{module}.{range}"),
        }
    }
}

impl Draw<'_> {
    /// The dense block of a layer.
    pub(super) fn dense(&mut self, base: &str, x: Tensor) -> Tensor {
        self.block(base, x, &DENSE)
    }

    fn block(&mut self, base: &str, x: Tensor, roles: &Roles) -> Tensor {
        let y = if let Some(module) = self.weights.take(roles.gate_up) {
            let both = self.linear(&module, x);
            self.gate(&format!("{base}.act_fn"), both, both.elements() / 2.0)
        } else {
            let gate = self.weights.take(roles.gate).map(|module| self.linear(&module, x));
            let gate = gate.map(|gate| self.activate(&format!("{base}.act_fn"), gate, Activation::Silu));
            let up = self.weights.take(roles.up).map_or(x, |module| self.linear(&module, x));
            match gate {
                Some(gate) => self.multiply(&format!("{base}.product"), [gate, up], up.elements()),
                None => self.activate(&format!("{base}.act_fn"), up, Activation::Gelu),
            }
        };
        self.weights.take(roles.down).map_or(y, |module| self.linear(&module, y))
    }

    /// A mixture: every token goes to its experts and back, weighted by the router, and to the shared experts.
    pub(super) fn mixture(&mut self, base: &str, mixture: &Mixture, x: Tensor) -> Tensor {
        let scores = match self.weights.take_joined(Role::Router) {
            Some(module) => {
                let scores = self.linear(&module, x);
                let record = Record::new("softmax", [scores])
                    .flop(6.0 * scores.elements())
                    .piece(Piece::whole(4.0 * scores.elements(), &[Read::Output]));
                self.push(&format!("{}.softmax", module.name), record, scores.shape, Cached::default())
            }
            None => x,
        };
        // The first layers of DeepSeek-V4 look the experts of a token up.
        let scores = self.tables(scores);
        let narrow = self.weights.take(Role::LatentDown).map_or(x, |module| self.linear(&module, x));
        let mut y = self.experts(mixture, scores, narrow);
        if let Some(module) = self.weights.take(Role::LatentUp) {
            y = self.linear(&module, y);
        }
        let shared = self.weights.first(&[SHARED.down, SHARED.up, SHARED.gate_up]);
        let Some(shared) = shared.map(|module| self.base(module, "ffn_shexp")) else { return y };
        let mut z = self.block(&shared, x, &SHARED);
        if let Some(module) = self.weights.take_joined(Role::SharedRouter) {
            let gate = self.linear(&module, x);
            let gate = self.activate(&format!("{shared}.gate_act"), gate, Activation::Sigmoid);
            z = self.weigh_rows(&format!("{shared}.gated"), z, gate);
        }
        self.sum(&format!("{base}.shared_sum"), y, z)
    }

    /// The product with a number for each row.
    fn weigh_rows(&mut self, name: &str, x: Tensor, by: Tensor) -> Tensor {
        let elements = x.elements();
        let record = Record::new("multiply", [x, by])
            .flop(elements)
            .piece(Piece::of_inputs("grad_0", &[0], elements, &[Read::Input(1)]))
            .piece(Piece::of_inputs("grad_1", &[1], 2.0 * elements, &[Read::Input(0)]));
        self.push(name, record, x.shape, Cached::default())
    }

    /// The sum of two tensors of the same shape.
    pub(super) fn sum(&mut self, name: &str, x: Tensor, y: Tensor) -> Tensor {
        let record = Record::new("add", [x, y]).flop(x.elements()).passes(0).passes(1);
        self.push(name, record, x.shape, Cached::default())
    }

    /// Routed experts between their dispatch and their combination.
    fn experts(&mut self, mixture: &Mixture, scores: Tensor, x: Tensor) -> Tensor {
        let (count, width) = (mixture.experts.max(1), x.last());
        let active = mixture.active.min(count) as f64;
        let rows = self.step.rows();
        let missed = (1.0 - active / count as f64).powf(rows);
        let hit = count as f64 * (1.0 - missed);
        let groups: Vec<Group> = (0..count)
            .step_by(usize::try_from(self.step.expert_group).unwrap_or(usize::MAX))
            .map(|first| {
                let end = first.saturating_add(self.step.expert_group).min(count);
                let share = (end - first) as f64 / count as f64;
                Group { range: [first, end], count, rows: rows * active * share, hit: hit * share }
            })
            .collect();
        let [gate, up, both, down] = [Role::ExpertGate, Role::ExpertUp, Role::ExpertGateUp, Role::ExpertDown]
            .map(|role| self.weights.take_joined(role));
        let Some(place) = [&down, &up, &both, &gate].into_iter().flatten().next() else { return x };
        let home = self.base(place, "ffn_exps");
        let parts = self.dispatch(&home, scores, x, &groups, mixture);
        let outputs: Vec<Tensor> = parts
            .into_iter()
            .zip(&groups)
            .map(|(part, group)| self.group(&home, group, part, mixture, [&gate, &up, &both, &down]))
            .collect();
        let flop = 2.0 * rows * active * width as f64;
        let inputs: Vec<Tensor> = std::iter::once(scores).chain(outputs).collect();
        let record = self.mixed("combine", &inputs, flop);
        let shape = x.shape;
        self.push(&format!("{home}.combine"), record, shape, Cached::default())
    }

    fn dispatch(
        &mut self,
        home: &str,
        scores: Tensor,
        x: Tensor,
        groups: &[Group],
        mixture: &Mixture,
    ) -> Vec<Tensor> {
        let shape = |group: &Group| Shape::from([(group.rows.ceil() as u64).max(1), x.last()]);
        let shapes: Vec<Shape> = groups.iter().map(shape).collect();
        let elements: Vec<f64> = groups.iter().map(|group| group.rows * x.last() as f64).collect();
        let copies: f64 = elements.iter().sum();
        let flop = (copies - x.elements()).max(0.0);
        let mut record = Record::new("dispatch", [x, scores]).piece(Piece::whole(flop, &[]));
        let is_grouped = groups.iter().any(|group| group.range[1] - group.range[0] > 1);
        record.experts = u32::try_from(mixture.experts).ok().and_then(NonZeroU32::new).filter(|_| is_grouped);
        self.push_all(&format!("{home}.dispatch"), record, &shapes, &elements, Cached::default())
    }

    /// The experts of a group.
    fn group(
        &mut self,
        home: &str,
        group: &Group,
        x: Tensor,
        mixture: &Mixture,
        [gate, up, both, down]: [&Option<Module>; 4],
    ) -> Tensor {
        let inner = group.rows * mixture.inner as f64;
        let name = |part: &str| format!("{}.{part}", group.name(&format!("{home}.*")));
        let project = |draw: &mut Self, module: &Option<Module>, x: Tensor, outputs: u64| {
            module.as_ref().map(|module| draw.grouped(module, group, x, outputs))
        };
        let y = match project(self, both, x, mixture.inner.saturating_mul(2)) {
            Some(both) => self.gate(&name("act_fn"), both, inner),
            None => {
                let gate = project(self, gate, x, mixture.inner);
                let gate =
                    gate.map(|gate| self.activate_part(&name("act_fn"), gate, inner, Activation::Silu));
                let up = project(self, up, x, mixture.inner).unwrap_or(x);
                match gate {
                    Some(gate) => self.multiply(&name("product"), [gate, up], inner),
                    None => self.activate_part(&name("act_fn"), up, inner, Activation::Gelu),
                }
            }
        };
        project(self, down, y, x.last()).unwrap_or(y)
    }

    /// A grouped product: every row by the matrix of its expert.
    fn grouped(&mut self, module: &Module, group: &Group, x: Tensor, outputs: u64) -> Tensor {
        let inputs = x.last().max(1) as f64;
        let part = module.part(group.name(&module.name), group.range, group.count);
        let size = (group.range[1] - group.range[0]) as f64;
        let mut record = Record::new("linear", [x]).parameters(part.elements);
        if !self.step.is_training {
            record.precision = part.precision;
            record = record.stored(Stored { held: part.bytes, read: part.bytes * group.hit / size });
        }
        let flop = 2.0 * group.rows * inputs * outputs as f64;
        let product = Product { batch: group.hit, m: group.rows / group.hit, n: outputs as f64, k: inputs };
        let record = bilinear(record, part.elements, flop, product);
        let elements = group.rows * outputs as f64;
        self.push_all(&part.name, record, &[x.shape.with_last(outputs)], &[elements], Cached::default())[0]
    }
}
