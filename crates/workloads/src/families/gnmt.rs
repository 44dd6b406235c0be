//! GNMT: Wu et al., "Google's Neural Machine Translation System" (2016), in the version of the MLPerf
//! training benchmark (GNMT v2): the first encoder layer is bidirectional, the first decoder layer queries a
//! single additive attention (Bahdanau, Cho and Bengio 2015) whose context every later decoder layer reads,
//! and residuals start at the third layer. Source and target have the same length here, and every step is
//! unrolled.
//!
//! | variant | parameters |
//! | --- | --- |
//! | 2 | 118,695,489 |
//! | 4 | 160,671,297 |
//! | 8 | 244,622,913 |
//!
//! Sources: the MLPerf reference model (`rnn_translator`), with a vocabulary of 32,320 and an embedding
//! shared between encoder and decoder; the profile of PipeDream (Narayanan et al. 2019) lists the same
//! layers. The other sizes follow from the closed form of these layers. The training graph of `8` exceeds
//! 50,000 operators at sequence length 80.

use crate::blocks::recurrent::{Biases, Lstm, STEP_OPERATORS, sequence_of, steps_of, unroll};
use crate::{Activation, Definition, Loss, Size, Sizes, Tape, Tensor, WorkloadError};

pub(crate) struct Gnmt {
    /// Layers of the encoder and of the decoder.
    layers: u64,
}

pub(crate) static FAMILY: Definition<Gnmt> = Definition {
    name: "gnmt",
    summary: "unrolled recurrent translation models with attention",
    sizes: &[Size::Batch, Size::Sequence, Size::Hidden, Size::Layers, Size::Vocabulary],
    variants: &[("4", Gnmt { layers: 4 }), ("2", Gnmt { layers: 2 }), ("8", Gnmt { layers: 8 })],
    record,
};

fn record(tape: &mut Tape, gnmt: &Gnmt, sizes: &Sizes) -> Result<(), WorkloadError> {
    let (batch, length) = (sizes.batch(128)?, sizes.sequence(50)?);
    let hidden = sizes.or(Size::Hidden, 1024, 1)?;
    let vocabulary = sizes.vocabulary(32_320)?;
    let layers = sizes.or(Size::Layers, gnmt.layers, 2)?;
    tape.expect((2 * layers + 1) * length * STEP_OPERATORS)?;
    tape.holds(batch, Some(length));
    // One table serves both languages, so source and target are one sequence of indices.
    let tokens = tape.indices("tokens", [batch, 2 * length]);
    let (source, target) = tape.scope("embedding", |tape| {
        let (x, _) = tape.embedding("tokens", tokens, vocabulary, [batch, 2 * length, hidden]);
        let mut steps = steps_of(tape, "steps", x);
        let target = steps.split_off(steps.len() / 2);
        (steps, target)
    });
    let memory = encode(tape, source, batch, hidden, layers);
    let steps = decode(tape, target, memory, layers);
    tape.scope("classifier", |tape| {
        let x = sequence_of(tape, "sequence", &steps);
        let x = tape.linear("projection", x, vocabulary);
        tape.loss("loss", x, Loss::CrossEntropy);
    });
    Ok(())
}

fn encode(tape: &mut Tape, source: Vec<Tensor>, batch: u64, hidden: u64, layers: u64) -> Tensor {
    let run = |tape: &mut Tape, name: String, steps: &[Tensor], input: u64, backwards: bool| {
        tape.scope(name, |tape| {
            let lstm = Lstm::new(tape, batch, input, hidden, Biases::Two);
            unroll(tape, lstm, steps, backwards)
        })
    };
    let forwards = run(tape, "encoder.layer.0.forwards".into(), &source, hidden, false);
    let backwards = run(tape, "encoder.layer.0.backwards".into(), &source, hidden, true);
    let both: Vec<Tensor> = tape.scope("encoder.layer.0.concat", |tape| {
        let pairs = forwards.iter().zip(&backwards).enumerate();
        pairs
            .map(|(step, (&first, &second))| tape.concat(&format!("step{step}"), &[first, second], 1))
            .collect()
    });
    let mut steps = run(tape, "encoder.layer.1".into(), &both, 2 * hidden, false);
    for layer in 2..layers {
        let next = run(tape, format!("encoder.layer.{layer}"), &steps, hidden, false);
        steps = residual(tape, &format!("encoder.layer.{layer}"), &next, &steps);
    }
    tape.scope("encoder.memory", |tape| sequence_of(tape, "sequence", &steps))
}

fn decode(tape: &mut Tape, target: Vec<Tensor>, memory: Tensor, layers: u64) -> Vec<Tensor> {
    let (batch, hidden) = (memory.dim(0), memory.last());
    let mut steps = tape.scope("decoder.layer.0", |tape| {
        let lstm = Lstm::new(tape, batch, hidden, hidden, Biases::Two);
        unroll(tape, lstm, &target, false)
    });
    let contexts = tape.scope("decoder.attention", |tape| attend(tape, &steps, memory));
    for layer in 1..layers {
        let name = format!("decoder.layer.{layer}");
        let next = tape.scope(&name, |tape| {
            let inputs: Vec<Tensor> = steps
                .iter()
                .zip(&contexts)
                .enumerate()
                .map(|(step, (&x, &context))| tape.concat(&format!("step{step}.concat"), &[x, context], 1))
                .collect();
            let lstm = Lstm::new(tape, batch, 2 * hidden, hidden, Biases::Two);
            unroll(tape, lstm, &inputs, false)
        });
        steps = if layer == 1 { next } else { residual(tape, &name, &next, &steps) };
    }
    steps
}

fn residual(tape: &mut Tape, layer: &str, next: &[Tensor], steps: &[Tensor]) -> Vec<Tensor> {
    tape.scope(layer, |tape| {
        let pairs = next.iter().zip(steps).enumerate();
        pairs.map(|(step, (&next, &x))| tape.add(&format!("step{step}.residual"), next, x)).collect()
    })
}

/// Normalised additive attention: scores vᵀ tanh(W q + U k + b), with v scaled by one learned number.
fn attend(tape: &mut Tape, queries: &[Tensor], memory: Tensor) -> Vec<Tensor> {
    let (batch, length, hidden) = (memory.dim(0), memory.dim(1), memory.last());
    let keys = tape.project("keys", memory, hidden);
    let weights = tape.variable("query_weights", [hidden, hidden]);
    let direction = tape.variable("direction", [hidden]);
    let scale = tape.variable("scale", [1]);
    let bias = tape.variable("bias", [hidden]);
    let scaled = tape.multiply("scaled_direction", direction, scale);
    let biased = tape.add("biased_keys", keys, bias);
    queries
        .iter()
        .enumerate()
        .map(|(step, &query)| {
            tape.under(format!("step{step}"), |tape| {
                let query = tape.contract("query", query, weights, hidden, [batch, hidden]);
                let sum = tape.add("sum", biased, query);
                let energy = tape.activate("tanh", sum, Activation::Tanh);
                let scores = tape.contract("scores", energy, scaled, hidden, [batch, length]);
                let shares = tape.softmax("softmax", scores);
                tape.contract("context", shares, memory, length, [batch, hidden])
            })
        })
        .collect()
}
