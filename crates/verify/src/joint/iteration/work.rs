//! Seconds of the operators of a layer on a kind of devices, split by what they depend on.

use super::model::{Layer, Model};
use crate::joint::JointViolation;
use crate::read::Kind;
use crate::read::cost::{self, Parts};

/// Seconds of the operators of a layer, for all samples of the graph.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Work {
    pub(super) forward: Parts,
    /// Forward operators that are not products.
    pub(super) others: Parts,
    /// First products of attentions, which run again in the backward pass.
    pub(super) again: Parts,
    /// Backward operators other than weight gradients.
    pub(super) backward: Parts,
    pub(super) weights: Parts,
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
        let mut parts = |operator: usize, unmoved: f64| {
            let document = &model.graph.operators[operator];
            let parts = cost::parts(document, kind, unmoved);
            if parts.is_none() {
                let why = format!("cannot run on kind {:?}", kind.document.name);
                violations.push(JointViolation::Operator { operator: document.name.clone(), why });
            }
            parts.unwrap_or_default()
        };
        let mut in_pass = |operator: usize| {
            let parts = parts(operator, model.attention.unmoved[operator]);
            // Operators inside an attention run in its kernel.
            if model.attention.is_inside[operator] { Parts::default() } else { parts }
        };
        let mut work = Work::default();
        for &operator in &layer.forward {
            let parts = in_pass(operator);
            add(&mut work.forward, parts);
            if !model.kinds.is_product[operator] {
                add(&mut work.others, parts);
            }
            if model.attention.is_first[operator] {
                add(&mut work.again, parts);
            }
        }
        for &operator in &layer.backward {
            let parts = in_pass(operator);
            add(if model.is_weight[operator] { &mut work.weights } else { &mut work.backward }, parts);
        }
        for &operator in &layer.updates {
            let Parts { work: seconds, launch } = parts(operator, model.attention.unmoved[operator]);
            let (is_split, is_expert) = (model.is_split[operator], model.experts.is_expert[operator]);
            work.updates[usize::from(is_split)][usize::from(is_expert)] += seconds + launch;
        }
        work
    }

    /// All figures that the seconds of a layer depend on.
    pub(super) fn figures(&self) -> impl Iterator<Item = u64> {
        let Work { forward, others, again, backward, weights, updates } = *self;
        let parts = [forward, others, again, backward, weights];
        let parts = parts.into_iter().flat_map(|parts| [parts.work, parts.launch]);
        parts.chain(updates.into_iter().flatten()).map(f64::to_bits)
    }
}

fn add(sum: &mut Parts, parts: Parts) {
    sum.work += parts.work;
    sum.launch += parts.launch;
}
