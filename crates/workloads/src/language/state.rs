//! Mixers with a state instead of a cache of tokens: linear attention, state-space layers, gated convolutions.
//!
//! The FLOP of a state are those of its recurrence, per number of the state and token. The delta rule decays the state (1),
//! reads the value of the key (2), adds the difference (2) and reads the query (2); a state-space layer decays (1), scales
//! and adds its input (2) and reads its output (2). Chunks of parallel forms compute more. A step reads the state of every
//! sequence if it has a context, and writes it once.

use stagewright_structure::{Convolution, Linear, Role, StateSpace};

use super::draw::{Cached, Draw};
use super::weights::Module;
use crate::{Piece, Read, Record, Tensor};

impl Draw<'_> {
    /// Linear attention.
    pub(super) fn linear_attention(&mut self, base: &str, linear: &Linear, x: Tensor, state: f64) -> Tensor {
        let numbers = linear.value_heads as f64 * linear.key as f64 * linear.value as f64;
        let inner = linear.value_heads.saturating_mul(linear.value);
        self.state(base, x, "linear_attention", 7.0 * numbers, inner, state)
    }

    /// A state-space layer.
    pub(super) fn state_space(&mut self, base: &str, space: &StateSpace, x: Tensor, state: f64) -> Tensor {
        let numbers = space.heads as f64 * space.width as f64 * space.state as f64;
        let inner = space.heads.saturating_mul(space.width);
        self.state(base, x, "state_space", 5.0 * numbers, inner, state)
    }

    /// A gated short convolution: its two gates are one FLOP each.
    pub(super) fn convolution(&mut self, base: &str, mixer: &Convolution, x: Tensor, state: f64) -> Tensor {
        self.state(base, x, "gated_convolution", 2.0 * mixer.width as f64, mixer.width, state)
    }

    /// Projections, convolutions, a core of some FLOP per token over a state of some bytes per sequence, a normalisation,
    /// and the projection out.
    fn state(
        &mut self,
        base: &str,
        x: Tensor,
        kind: &'static str,
        flop: f64,
        inner: u64,
        state: f64,
    ) -> Tensor {
        let mut inputs: Vec<Tensor> = Vec::new();
        for module in self.weights.take_all(Role::StateIn) {
            // The second of two projections of low rank reads the first.
            let from = inputs.last().copied().filter(|last| module.inputs == last.last());
            let from = from.filter(|_| module.inputs != x.last());
            let y = self.linear(&module, from.unwrap_or(x));
            match from {
                Some(from) => {
                    inputs.iter_mut().filter(|input| input.value == from.value).for_each(|input| *input = y)
                }
                None => inputs.push(y),
            }
        }
        for module in self.weights.take_all(Role::Convolution) {
            // A fused projection has the channels in it.
            let channels = module.rows;
            let place = inputs.iter().position(|input| input.last() == channels);
            match place {
                Some(place) => inputs[place] = self.short_convolution(&module, inputs[place]),
                None => {
                    let wider = inputs.iter().copied().find(|input| input.last() >= channels).unwrap_or(x);
                    inputs.push(self.short_convolution(&module, wider));
                }
            }
        }
        let inputs = if inputs.is_empty() { vec![x] } else { inputs };
        let mut record = self.mixed(kind, &inputs, self.step.rows() * flop);
        if let Some(module) = self.weights.take_joined(Role::State) {
            record = self.weigh(record, &module, 1.0).piece(Piece::of_weights(module.elements, 0.0, &[]));
        }
        let times = if self.step.context > 0 { 2.0 } else { 1.0 };
        let cached = self.cached(times * state * self.step.batch as f64, (self.index, false));
        let mut y = self.push(&format!("{base}.recurrence"), record, x.shape.with_last(inner), cached);
        let prefix = format!("{base}.");
        let is_inner = |module: &Module| {
            let name = module.name.strip_prefix(&prefix).unwrap_or(&module.name);
            module.role == Role::Norm && (["norm", "o_norm"].contains(&name) || name.ends_with("ssm_norm"))
        };
        if let Some(module) = self.weights.take_if(is_inner) {
            y = self.normalise(&module, y, module.elements as u64);
        }
        self.weights.take(Role::StateOut).map_or(y, |module| self.linear(&module, y))
    }

    /// A convolution of every channel over the latest tokens.
    fn short_convolution(&mut self, module: &Module, x: Tensor) -> Tensor {
        let rows = self.step.rows();
        let flop = 2.0 * rows * module.matrices;
        let channels = module.rows.max(1);
        let reads = [Read::Weights];
        let record = Record::new("short_convolution", [x])
            .flop(flop)
            .piece(Piece::of_inputs("grad_input", &[0], flop, &reads))
            .piece(Piece::of_weights(module.elements, flop, &[Read::Input(0)]));
        let record = self.weigh(record, module, 1.0);
        self.push(&module.name, record, x.shape.with_last(channels), Cached::default())
    }
}
