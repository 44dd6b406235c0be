//! Sampling from logits, and the log-probabilities of the samples.

use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::ops::log_softmax;
use rand::{Rng, RngExt};

/// Log-probabilities, n × choices, of logits of the same shape.
pub(crate) fn log_probabilities(logits: &Tensor) -> Result<Tensor> {
    log_softmax(logits, D::Minus1)
}

/// Probabilities as plain numbers, row by row.
pub(crate) fn probabilities(log: &Tensor) -> Result<Vec<Vec<f64>>> {
    log.detach().exp()?.to_dtype(DType::F64)?.to_vec2()
}

/// Samples a choice with the given probabilities.
pub(crate) fn draw(shares: &[f64], rng: &mut impl Rng) -> u32 {
    let mut at = rng.random_range(0.0..1.0);
    for (choice, share) in shares.iter().enumerate() {
        at -= share;
        if at < 0.0 {
            return choice as u32;
        }
    }
    // Probability lost to rounding goes to the most likely choice.
    likeliest(shares)
}

/// The most likely choice; ties go to the first.
pub(crate) fn likeliest(shares: &[f64]) -> u32 {
    let mut best = 0;
    for choice in 1..shares.len() {
        if shares[choice] > shares[best] {
            best = choice;
        }
    }
    best as u32
}

/// Log-probabilities of the chosen entries: n × 1 of n × choices.
pub(crate) fn chosen(log: &Tensor, choices: &[u32]) -> Result<Tensor> {
    log.gather(&Tensor::from_slice(choices, (choices.len(), 1), &Device::Cpu)?, 1)
}

/// The most likely choice if greedy, otherwise a sample.
pub(crate) fn pick(shares: &[f64], is_greedy: bool, rng: &mut impl Rng) -> u32 {
    if is_greedy { likeliest(shares) } else { draw(shares, rng) }
}
