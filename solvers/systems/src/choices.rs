//! Sampling from logits, and the log-probabilities of the samples.

use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::ops::log_softmax;
use rand::{Rng, RngExt};
use stagewright_core::ids::Id;

/// Log-probabilities, n × choices, of logits of the same shape.
pub(crate) fn log_probabilities(logits: &Tensor) -> Result<Tensor> {
    log_softmax(logits, D::Minus1)
}

/// Probabilities as plain numbers, row by row.
pub(crate) fn probabilities(log: &Tensor) -> Result<Vec<Vec<f64>>> {
    log.detach().exp()?.to_dtype(DType::F64)?.to_vec2()
}

/// Samples a choice with the given probabilities.
fn draw<C: Id>(shares: &[f64], rng: &mut impl Rng) -> C {
    let mut left = rng.random_range(0.0..1.0);
    for (choice, share) in shares.iter().enumerate() {
        left -= share;
        if left < 0.0 {
            return C::new(choice);
        }
    }
    // Probability lost to rounding goes to the most likely choice.
    likeliest(shares)
}

/// The most likely choice; ties go to the first.
pub(crate) fn likeliest<C: Id>(shares: &[f64]) -> C {
    let mut best = 0;
    for choice in 1..shares.len() {
        if shares[choice] > shares[best] {
            best = choice;
        }
    }
    C::new(best)
}

/// Log-probabilities of the chosen entries: n × 1 of n × choices.
pub(crate) fn chosen(log: &Tensor, choices: &[impl Id]) -> Result<Tensor> {
    let numbers = choices.iter().map(|choice| u32::new(choice.index())).collect();
    log.gather(&Tensor::from_vec(numbers, (choices.len(), 1), &Device::Cpu)?, 1)
}

/// The most likely choice if greedy, otherwise a sample.
pub(crate) fn pick<C: Id>(shares: &[f64], is_greedy: bool, rng: &mut impl Rng) -> C {
    if is_greedy { likeliest(shares) } else { draw(shares, rng) }
}
