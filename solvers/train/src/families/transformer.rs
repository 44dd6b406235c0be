//! Transformer blocks of attention and feed-forward layers, optionally with parallel heads, experts, and a decoder that
//! attends to the encoder.
//!
//! Vaswani et al., "Attention is all you need", NeurIPS 2017; experts as in Shazeer et al., "Outrageously large neural
//! networks", ICLR 2017.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::super::shape::{Role, Shape};

/// Design of a block.
#[derive(Debug, Clone, Copy)]
struct Design {
    /// Parallel attention operators.
    heads: usize,
    /// Parallel feed-forward layers.
    experts: usize,
}

/// A shape of about `operators` operators.
pub(super) fn shape(rng: &mut ChaCha8Rng, operators: usize) -> Shape {
    let wide = operators >= 60;
    let heads = if wide && rng.random_bool(0.4) { rng.random_range(2..=8) } else { 1 };
    let experts = if wide && rng.random_bool(0.25) { rng.random_range(2..=8) } else { 1 };
    let design = Design { heads, experts };
    let has_decoder = operators >= 80 && rng.random_bool(0.3);
    let mut shape = Shape::default();
    let tokens = shape.add(Role::Input, &[]);
    let table = shape.add(Role::Embedding, &[tokens]);
    // The head of the model has two operators.
    let until = operators.saturating_sub(2);
    let encoder = if has_decoder { until / 2 } else { until };
    let mut last = stack(&mut shape, table, design, encoder, None);
    if has_decoder {
        last = stack(&mut shape, table, design, until, Some(last));
    }
    shape.chain(&[Role::Norm, Role::Product], &[last]);
    shape
}

/// Adds blocks, at least one, while the next keeps the number of operators within `until`; returns the last output.
fn stack(shape: &mut Shape, input: usize, design: Design, until: usize, memory: Option<usize>) -> usize {
    let mut last = input;
    loop {
        let before = shape.len();
        last = attend(shape, last, last, design.heads);
        if let Some(memory) = memory {
            last = attend(shape, last, memory, design.heads);
        }
        last = feed_forward(shape, last, design.experts);
        if shape.len() + (shape.len() - before) > until {
            return last;
        }
    }
}

/// Adds attention from the output of `x` to that of `memory`, with a residual connection.
fn attend(shape: &mut Shape, x: usize, memory: usize, heads: usize) -> usize {
    let norm = shape.add(Role::Norm, &[x]);
    let source = if memory == x { norm } else { memory };
    let query = shape.add(Role::Product, &[norm]);
    let [key, value] = [0; 2].map(|_| shape.add(Role::Product, &[source]));
    let heads: Vec<usize> = (0..heads)
        .map(|_| shape.chain(&[Role::Attention, Role::Pointwise, Role::Attention], &[query, key]))
        .collect();
    for &head in &heads {
        shape.join(value, head);
    }
    let out = shape.add(Role::Product, &heads);
    shape.add(Role::Combine, &[out, x])
}

/// Adds parallel feed-forward layers with a residual connection.
fn feed_forward(shape: &mut Shape, x: usize, experts: usize) -> usize {
    let norm = shape.add(Role::Norm, &[x]);
    let mut summed = vec![x];
    for _ in 0..experts {
        summed.push(shape.chain(&[Role::Product, Role::Pointwise, Role::Product], &[norm]));
    }
    shape.add(Role::Combine, &summed)
}
