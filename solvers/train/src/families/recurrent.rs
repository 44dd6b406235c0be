//! Unrolled recurrent translation: an encoder grid of layers and time steps, a decoder grid, and attention from every
//! decoder step to the whole encoder.
//!
//! Wu et al., "Google's neural machine translation system", 2016.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::super::draw::log_uniform_count;
use super::super::shape::{Role, Shape};

/// Maximum number of layers of each grid.
const DEEPEST: usize = 8;

/// A shape of about `operators` operators: l layers and t steps give (2 l + 2) t + 4.
pub(super) fn shape(rng: &mut ChaCha8Rng, operators: usize) -> Shape {
    // Leaves room for at least two steps.
    let deepest = (operators.saturating_sub(4) / 4).saturating_sub(1).clamp(1, DEEPEST);
    let layers = log_uniform_count(rng, 1, deepest);
    let steps = (operators.saturating_sub(4) / (2 * layers + 2)).max(1);
    let is_residual = rng.random_bool(0.5);
    let mut shape = Shape::default();
    let tokens = shape.add(Role::Input, &[]);
    let table = shape.add(Role::Embedding, &[tokens]);
    let source = vec![table; steps];
    let top = grid(&mut shape, source, layers, is_residual, None);
    let memory = shape.add(Role::Combine, &top);
    let target: Vec<usize> = (0..steps).map(|_| shape.add(Role::Pointwise, &[table])).collect();
    let top = grid(&mut shape, target, layers, is_residual, Some(memory));
    shape.add(Role::Product, &top);
    shape
}

/// Adds a grid over some inputs: one cell per layer and step, which reads the layer below and the previous step.
/// Returns the outputs of the top layer. With a memory, the first layer attends to it.
fn grid(
    shape: &mut Shape,
    inputs: Vec<usize>,
    layers: usize,
    is_residual: bool,
    memory: Option<usize>,
) -> Vec<usize> {
    let mut below = inputs;
    for layer in 0..layers {
        let lower = below.clone();
        let mut before: Option<usize> = None;
        for step in 0..below.len() {
            let mut reads = vec![lower[step]];
            reads.extend(before);
            // In every second layer the output of a step is its cell plus its input, so the next step reads both.
            if is_residual && layer % 2 == 1 && step > 0 {
                reads.push(lower[step - 1]);
            }
            let cell = shape.add(Role::Product, &reads);
            before = Some(cell);
            below[step] = match memory {
                Some(memory) if layer == 0 => shape.add(Role::Attention, &[cell, memory]),
                _ => cell,
            };
        }
    }
    below
}
