//! The pipeline of a plan: an order of its devices in which all forward tensors point forward.

use std::collections::BTreeSet;

use petgraph::algo::toposort;
use petgraph::graph::{DiGraph, NodeIndex};
use stagewright_core::graph::OpId;

use super::error::{ExportError, Result};
use super::placed::Placed;

/// The stages of a plan.
#[derive(Debug)]
pub struct Pipeline {
    /// The devices, in stage order.
    pub devices: Vec<usize>,
    /// The stage of each device.
    pub stage_of: Vec<usize>,
}

impl Pipeline {
    /// The stages of the plan if it has them, otherwise an order that the tensors of the model allow.
    ///
    /// Takes time O(pins) with the model, otherwise O(devices · log devices).
    ///
    /// # Errors
    /// If a stage has several devices, a device has several calls, or there is no such order (E007 to E009).
    pub fn new(placed: &Placed, runtime: &'static str) -> Result<Pipeline> {
        placed.one_device_each(runtime)?;
        Pipeline::replicated(placed, runtime)
    }

    /// The stages of the plan if it has them, otherwise an order that the tensors of the model allow, for a runtime
    /// that supports stages of several devices.
    ///
    /// # Errors
    /// If a device has several calls or there is no order (E008 and E009).
    pub fn replicated(placed: &Placed, runtime: &'static str) -> Result<Pipeline> {
        placed.one_call_each(runtime)?;
        let devices = given(placed).or_else(|| derived(placed)).ok_or(ExportError::NoOrder { runtime })?;
        let mut stage_of = vec![0; devices.len()];
        for (stage, &device) in devices.iter().enumerate() {
            stage_of[device] = stage;
        }
        let pipeline = Pipeline { devices, stage_of };
        pipeline.check(placed, runtime)?;
        Ok(pipeline)
    }

    /// The stage of an operator.
    pub fn stage(&self, placed: &Placed, operator: usize) -> usize {
        self.stage_of[placed.operators[operator].device]
    }

    /// Number of stages.
    pub fn stages(&self) -> usize {
        self.devices.len()
    }

    /// The devices in stage order, for display.
    pub fn ranks(&self, placed: &Placed) -> String {
        let names: Vec<String> = self.devices.iter().map(|&device| placed.shown(device)).collect();
        format!("stages in order: {}", names.join(", "))
    }

    /// Whether a stage is the first or the last, where runtimes run the operators outside of the stack.
    pub fn is_end(&self, stage: usize) -> bool {
        stage == 0 || stage + 1 == self.stages()
    }

    /// Refuses hosts, for runtimes whose stages are accelerators.
    ///
    /// # Errors
    /// If a stage is on a host (E016).
    pub fn on_accelerators(&self, placed: &Placed, rule: &'static str) -> Result<()> {
        let host = (0..placed.devices.len()).find(|&device| placed.devices[device].host);
        let Some(host) = host else { return Ok(()) };
        Err(ExportError::Devices { what: format!("the host {}", placed.shown(host)), rule })
    }

    /// The error for an operator in a stage where the runtime does not run it, with the runtime's rule and a hint.
    pub fn misplaced(
        &self,
        placed: &Placed,
        operator: usize,
        (rule, help): (&'static str, &'static str),
    ) -> ExportError {
        ExportError::Misplaced {
            operator: Box::new(placed.sited(&placed.operators[operator])),
            stage: self.stage(placed, operator) + 1,
            stages: self.stages(),
            rule,
            help,
        }
    }

    fn check(&self, placed: &Placed, runtime: &'static str) -> Result<()> {
        for (from, to) in forward_edges(placed) {
            if self.stage(placed, from) > self.stage(placed, to) {
                return Err(ExportError::Backwards {
                    runtime,
                    producer: Box::new(placed.sited(&placed.operators[from])),
                    reader: Box::new(placed.sited(&placed.operators[to])),
                });
            }
        }
        Ok(())
    }
}

/// The stages of the plan, if every device has a distinct one.
fn given(placed: &Placed) -> Option<Vec<usize>> {
    let stages: Option<Vec<u32>> = placed.devices.iter().map(|device| device.document.stage).collect();
    let stages = stages?;
    let mut devices: Vec<usize> = (0..stages.len()).collect();
    devices.sort_by_key(|&device| stages[device]);
    let distinct: BTreeSet<u32> = stages.iter().copied().collect();
    (distinct.len() == stages.len()).then_some(devices)
}

/// An order in which all forward tensors point forward, if the model is given and has one.
fn derived(placed: &Placed) -> Option<Vec<usize>> {
    placed.graph?;
    let mut quotient: DiGraph<(), ()> = DiGraph::new();
    for _ in &placed.devices {
        quotient.add_node(());
    }
    for (from, to) in forward_edges(placed) {
        let (from, to) = (placed.operators[from].device, placed.operators[to].device);
        if from != to {
            quotient.update_edge(NodeIndex::new(from), NodeIndex::new(to), ());
        }
    }
    let order = toposort(&quotient, None).ok()?;
    Some(order.into_iter().map(NodeIndex::index).collect())
}

/// Producers and readers of the tensors between forward operators; empty without the model.
pub fn forward_edges(placed: &Placed) -> impl Iterator<Item = (usize, usize)> {
    let forward = |op: &OpId| placed.operators[op.index()].is_forward();
    placed.graph.into_iter().flat_map(move |graph| {
        graph.operators().filter(forward).flat_map(move |from| {
            let readers = graph.successors(from).iter().filter(move |op| forward(op));
            readers.map(move |to| (from.index(), to.index()))
        })
    })
}
