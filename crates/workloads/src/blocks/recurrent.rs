//! Unrolled long short-term memory: Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al.
//! 2000.
//!
//! ```text
//! [i f g o] = W x + U h + b        c' = σ(f) c + σ(i) tanh(g)        h' = σ(o) tanh(c')
//! ```
//!
//! The weights are variables that every step reads.

use crate::{Activation, Tape, Tensor};

/// Number of operators in a step with one bias, for estimates.
pub(crate) const STEP_OPERATORS: u64 = 14;

/// The state passed from step to step.
#[derive(Debug, Clone, Copy)]
struct LstmState {
    hidden: Tensor,
    cell: Tensor,
}

/// Biases of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Biases {
    /// One bias of `[4 hidden]`.
    One,
    /// One bias per product, as in cuDNN.
    Two,
}

/// A layer: maps `[batch, input]` to `[batch, hidden]` at each step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lstm {
    hidden: u64,
    input_weights: Tensor,
    hidden_weights: Tensor,
    bias: Tensor,
    hidden_bias: Option<Tensor>,
    state: LstmState,
}

impl Lstm {
    /// A layer before its first step, recorded under the tape's current layer path.
    pub(crate) fn new(tape: &mut Tape, batch: u64, input: u64, hidden: u64, biases: Biases) -> Lstm {
        Lstm {
            hidden,
            input_weights: tape.variable("input_weights", [input, 4 * hidden]),
            hidden_weights: tape.variable("hidden_weights", [hidden, 4 * hidden]),
            bias: tape.variable("bias", [4 * hidden]),
            hidden_bias: (biases == Biases::Two).then(|| tape.variable("hidden_bias", [4 * hidden])),
            state: LstmState {
                hidden: tape.input("initial_hidden", [batch, hidden]),
                cell: tape.input("initial_cell", [batch, hidden]),
            },
        }
    }

    /// Records one step.
    pub(crate) fn step(&mut self, tape: &mut Tape, index: usize, x: Tensor) -> Tensor {
        tape.under(format!("step{index}"), |tape| self.gates(tape, x))
    }

    fn gates(&mut self, tape: &mut Tape, x: Tensor) -> Tensor {
        let (batch, hidden) = (x.dim(0), self.hidden);
        let LstmState { hidden: h, cell } = self.state;
        let mut from_input = tape.contract("input", x, self.input_weights, x.last(), [batch, 4 * hidden]);
        let from_hidden = tape.contract("hidden", h, self.hidden_weights, hidden, [batch, 4 * hidden]);
        if let Some(bias) = self.hidden_bias {
            from_input = tape.add("hidden_bias", from_input, bias);
        }
        let gates = tape.add("sum", from_input, from_hidden);
        let gates = tape.add("bias", gates, self.bias);
        let parts = tape.split("split", gates, 1, &[hidden; 4]);
        let input = tape.activate("input_gate", parts[0], Activation::Sigmoid);
        let forget = tape.activate("forget_gate", parts[1], Activation::Sigmoid);
        let fresh = tape.activate("candidate", parts[2], Activation::Tanh);
        let output = tape.activate("output_gate", parts[3], Activation::Sigmoid);
        let kept = tape.multiply("kept", forget, cell);
        let added = tape.multiply("added", input, fresh);
        let cell = tape.add("cell", kept, added);
        let shown = tape.activate("shown", cell, Activation::Tanh);
        let hidden = tape.multiply("output", output, shown);
        self.state = LstmState { hidden, cell };
        hidden
    }
}

/// Unrolls a layer over a whole sequence, forwards or backwards.
pub(crate) fn unroll(tape: &mut Tape, mut layer: Lstm, steps: &[Tensor], backwards: bool) -> Vec<Tensor> {
    let mut outputs = steps.to_vec();
    for count in 0..steps.len() {
        let index = if backwards { steps.len() - 1 - count } else { count };
        outputs[index] = layer.step(tape, index, steps[index]);
    }
    outputs
}

/// Splits a sequence of `[batch, steps, width]` into its steps.
pub(crate) fn steps_of(tape: &mut Tape, name: &str, x: Tensor) -> Vec<Tensor> {
    let (batch, count, width) = (x.dim(0), x.dim(1), x.dim(2));
    let parts = tape.split(name, x, 1, &vec![1; count as usize]);
    parts.into_iter().map(|part| part.view([batch, width])).collect()
}

/// Joins steps of `[batch, width]` into one sequence.
pub(crate) fn sequence_of(tape: &mut Tape, name: &str, steps: &[Tensor]) -> Tensor {
    let steps: Vec<Tensor> = steps.iter().map(|step| step.view([step.dim(0), 1, step.last()])).collect();
    tape.concat(name, &steps, 1)
}
