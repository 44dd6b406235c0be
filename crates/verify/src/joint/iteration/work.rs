//! Seconds of the operators of a layer on a kind of devices, split by what they depend on.

use stagewright_core::document::Pass;

use super::model::{Layer, Model};
use crate::joint::JointViolation;
use crate::read::Kind;
use crate::read::cost::{self, Parts, Terms};

/// Seconds of operators in a pass, by what they depend on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seconds {
    /// Seconds for all samples of the graph, divided over a tensor-parallel group.
    shared: f64,
    /// Seconds for all samples of the graph of operators that every device of the group runs in full.
    whole: f64,
    /// Seconds to launch kernels.
    launch: f64,
}

impl Seconds {
    fn add(&mut self, parts: Parts, is_whole: bool) {
        *(if is_whole { &mut self.whole } else { &mut self.shared }) += parts.work;
        self.launch += parts.launch;
    }

    /// Seconds of a `microbatch`, as the share of the samples of the graph, on one of `tensor` devices.
    pub(super) fn of(&self, microbatch: f64, tensor: f64) -> f64 {
        self.launch + self.shared * (microbatch / tensor) + self.whole * microbatch
    }
}

/// Seconds of the operators of a layer, for all samples of the graph.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Work {
    pub(super) forward: Seconds,
    /// Forward operators that are not products.
    pub(super) others: Seconds,
    /// First products of attentions, which run again in the backward pass.
    pub(super) again: Seconds,
    /// Backward operators other than weight gradients.
    pub(super) backward: Seconds,
    pub(super) weights: Seconds,
    /// Products of attentions in the forward and in the backward pass, which are among the operators above.
    pub(super) attended: [Seconds; 2],
    /// Updates, by `[is split][is of experts]`.
    pub(super) updates: [[f64; 2]; 2],
}

impl Work {
    /// Adds up the seconds of the operators of a layer. Reports operators that cannot run on the kind.
    pub(super) fn new(
        model: &Model,
        layer: &Layer,
        kind: &Kind,
        violations: &mut Vec<JointViolation>,
    ) -> Self {
        let mut parts = |operator: usize| {
            let document = &model.graph.operators[operator];
            let parts = cost::parts(document, kind, &terms(model, operator));
            if parts.is_none() {
                let why = format!("cannot run on kind {:?}", kind.document.name);
                violations.push(JointViolation::Operator { operator: document.name.clone(), why });
            }
            parts.unwrap_or_default()
        };
        let mut in_pass = |operator: usize| {
            let parts = parts(operator);
            // Operators inside an attention run in its kernel.
            if model.attention.is_inside[operator] { Parts::default() } else { parts }
        };
        let mut work = Work::default();
        for &operator in &layer.forward {
            let (parts, is_whole) = (in_pass(operator), model.is_whole[operator]);
            work.forward.add(parts, is_whole);
            if !model.kinds.is_product[operator] {
                work.others.add(parts, is_whole);
            }
            if model.attention.runs_again[operator] {
                work.again.add(parts, is_whole);
                work.attended[1].add(parts, is_whole);
            }
            if model.attention.is_product[operator] {
                work.attended[0].add(parts, is_whole);
            }
        }
        for &operator in &layer.backward {
            let (parts, is_whole) = (in_pass(operator), model.is_whole[operator]);
            let sum = if model.is_weight[operator] { &mut work.weights } else { &mut work.backward };
            sum.add(parts, is_whole);
            if model.attention.is_product[operator] {
                work.attended[1].add(parts, is_whole);
            }
        }
        for &operator in &layer.updates {
            let Parts { work: seconds, launch } = parts(operator);
            let (is_split, is_expert) = (model.is_split[operator], model.experts.is_expert[operator]);
            work.updates[usize::from(is_split)][usize::from(is_expert)] += seconds + launch;
        }
        work
    }

    /// All figures that the seconds of a layer depend on.
    pub(super) fn figures(&self) -> impl Iterator<Item = u64> {
        let Work { forward, others, again, backward, weights, attended, updates } = *self;
        let parts = [forward, others, again, backward, weights].into_iter().chain(attended);
        let parts = parts.flat_map(|Seconds { shared, whole, launch }| [shared, whole, launch]);
        parts.chain(updates.into_iter().flatten()).map(f64::to_bits)
    }
}

/// What counts of an operator: a kernel does not move what stays in it. A runtime reaches a share of the memory bandwidth,
/// moves the bytes of operators other than products several times, and launches no kernels one by one.
fn terms(model: &Model, operator: usize) -> Terms {
    let (kinds, attention) = (&model.kinds, &model.attention);
    let stated = Terms { unmoved: attention.unmoved[operator], ..Terms::STATED };
    let Some(runtime) = model.runtime else { return stated };
    let is_trained = kinds.is_product[operator];
    let terms = Terms { bandwidth: runtime.memory, launch: 0.0, is_trained, ..stated };
    if model.graph.pass(operator) == Pass::Update {
        return terms;
    }
    let passes = if attention.has_scores[operator] { runtime.scores } else { runtime.passes };
    let moved = match (kinds.is_product[operator], kinds.is_norm[operator]) {
        (true, _) => 1.0,
        (false, true) => passes * runtime.norms,
        (false, false) => passes,
    };
    Terms { flop: attention.flop[operator], moved, ..terms }
}
