//! Choices drawn from logits, and how likely they are.

use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::ops::log_softmax;
use rand::{Rng, RngExt};

/// Logarithms of likelihoods, n × choices, of logits of the same shape.
pub(crate) fn log_likelihoods(logits: &Tensor) -> Result<Tensor> {
    log_softmax(logits, D::Minus1)
}

/// Likelihoods as plain numbers, row by row.
pub(crate) fn likelihoods(log: &Tensor) -> Result<Vec<Vec<f64>>> {
    log.detach().exp()?.to_dtype(DType::F64)?.to_vec2()
}

/// A choice from likelihoods.
pub(crate) fn draw(shares: &[f64], rng: &mut impl Rng) -> u32 {
    let mut at = rng.random_range(0.0..1.0);
    for (choice, share) in shares.iter().enumerate() {
        at -= share;
        if at < 0.0 {
            return choice as u32;
        }
    }
    // What rounding leaves at the end goes to the likeliest.
    likeliest(shares)
}

/// The likeliest choice, the first of equals.
pub(crate) fn likeliest(shares: &[f64]) -> u32 {
    let mut best = 0;
    for choice in 1..shares.len() {
        if shares[choice] > shares[best] {
            best = choice;
        }
    }
    best as u32
}

/// The logarithms of the likelihoods of what was chosen: n × 1 of n × choices.
pub(crate) fn chosen(log: &Tensor, choices: &[u32]) -> Result<Tensor> {
    log.gather(&Tensor::from_slice(choices, (choices.len(), 1), &Device::Cpu)?, 1)
}

/// How choices are made.
pub(crate) fn pick(shares: &[f64], is_greedy: bool, rng: &mut impl Rng) -> u32 {
    if is_greedy { likeliest(shares) } else { draw(shares, rng) }
}
