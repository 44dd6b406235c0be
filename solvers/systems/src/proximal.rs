//! Proximal policy optimisation of sampled placements.
//!
//! The advantage of a placement is relative to the other samples of the same graph, so no baseline has to be learned.
//! Probability ratios are clipped per unit: the ratio of a whole placement is a product over thousands of units and
//! always out of range.
//!
//! Schulman, Wolski, Dhariwal, Radford and Klimov, "Proximal policy optimization algorithms", 2017. Advantages within a
//! group of samples: Kool, van Hoof and Welling, "Buy 4 REINFORCE samples, get a baseline for free!", 2019.

use candle_core::{Result, Tensor};
use stagewright_policy::learn::column;
use stagewright_policy::rows::Rows;

/// Rewards whose standard deviation is below this share of the largest reward differ only by rounding.
pub(crate) const LEAST_DEVIATION: f64 = 1e-6;

/// Standardised rewards: distances from the mean over the standard deviation, or over `least_deviation` if that is
/// larger.
pub(crate) fn relative(rewards: &[f64], least_deviation: f64) -> Vec<f64> {
    let count = rewards.len().max(1) as f64;
    let mean = rewards.iter().sum::<f64>() / count;
    let variance = rewards.iter().map(|reward| (reward - mean).powi(2)).sum::<f64>() / count;
    let deviation = variance.sqrt().max(least_deviation);
    rewards.iter().map(|reward| (reward - mean) / deviation).collect()
}

/// Mean clipped surrogate objective of PPO. `likely` are the current log-probabilities of all choices, n × 1; `chosen`
/// indexes the sampled ones; `old` and `advantages` hold their log-probabilities at sampling time and their advantages.
///
/// # Errors
/// If a tensor operation fails.
pub(crate) fn clipped_gain(
    likely: &Tensor,
    chosen: &[u32],
    old: &[f32],
    advantages: &[f32],
    clip: f64,
) -> Result<Tensor> {
    let (dtype, device) = (likely.dtype(), likely.device());
    let chosen = Rows::gather(likely.dim(0)?, chosen.to_vec()).map_err(candle_core::Error::wrap)?;
    let ratio = (chosen.sum(likely)? - column(old.to_vec(), dtype, device)?)?.exp()?;
    let advantages = column(advantages.to_vec(), dtype, device)?;
    let clipped = ratio.clamp(1.0 - clip, 1.0 + clip)?;
    (&ratio * &advantages)?.minimum(&(clipped * &advantages)?)?.sum_all()? * (1.0 / old.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;

    /// A ratio outside the range is not clipped where clipping would make the objective larger.
    #[test]
    fn a_gain_beyond_the_clip_has_no_gradient() -> Result<()> {
        let ratios = [1.1, 1.5, 0.5, 1.5, 0.9];
        let likely: Vec<f64> = ratios.iter().map(|ratio: &f64| ratio.ln()).collect();
        let likely = Var::from_vec(likely, (5, 1), &Device::Cpu)?;
        let gain = clipped_gain(&likely, &[4, 3, 2, 1, 0], &[0.0; 5], &[2.0, -1.0, -1.0, 1.0, 1.0], 0.2)?;
        let terms = [1.1, 1.2, -0.8, -1.5, 1.8];
        assert!((gain.to_scalar::<f64>()? - terms.iter().sum::<f64>() / 5.0).abs() < 1e-12, "{gain}");
        let gradients = gain.backward()?;
        let gradient = gradients.get(&likely).expect("a gradient").flatten_all()?.to_vec1::<f64>()?;
        for (slope, wanted) in gradient.iter().zip([1.1, 0.0, 0.0, -1.5, 1.8]) {
            assert!((slope - wanted / 5.0).abs() < 1e-12, "{gradient:?}");
        }
        Ok(())
    }

    #[test]
    fn rewards_are_standardised_unless_they_differ_by_rounding() {
        assert_eq!(relative(&[1.0, 3.0], 1e-6), [-1.0, 1.0]);
        assert_eq!(relative(&[1.0, 3.0], 2.0), [-0.5, 0.5]);
        assert_eq!(relative(&[5.0, 5.0], 1e-6), [0.0, 0.0]);
    }
}
