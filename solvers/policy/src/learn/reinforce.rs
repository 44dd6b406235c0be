//! Reinforcement learning by proximal policy optimisation.
//!
//! Several plans of a graph are sampled from the affinities and simulated. The reward of a plan is the logarithm of a
//! reference value over its value. Its advantage is relative to the other samples of the same graph, so no baseline has
//! to be learned. Probability ratios are clipped per unit: the ratio of a whole plan is a product over thousands of
//! units and always out of range.
//!
//! Schulman, Wolski, Dhariwal, Radford and Klimov, "Proximal policy optimization algorithms", 2017. Advantages within a
//! group of samples: Kool, van Hoof and Welling, "Buy 4 REINFORCE samples, get a baseline for free!", 2019.

use candle_core::{DType, Result, Tensor};
use rand::Rng;
use serde::{Deserialize, Serialize};
use stagewright_core::ids::Id;

use super::loss::{column, log_probabilities, number};
use crate::choices::draw;
use crate::network::{Batch, Output};
use crate::predict::Prediction;
use crate::rows::Rows;

/// Hyperparameters of reinforcement learning.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reinforce {
    /// Samples per graph.
    pub draws: usize,
    /// Optimiser steps per batch of samples.
    pub epochs: usize,
    /// Clipping range of a unit's probability ratio around 1.
    pub clip: f64,
    /// Weight of the entropy bonus.
    pub entropy: f64,
}

impl Default for Reinforce {
    fn default() -> Reinforce {
        Reinforce { draws: 32, epochs: 2, clip: 0.2, entropy: 0.003 }
    }
}

/// Samples of one graph with their advantages.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// By sample: the device of every unit.
    pub choices: Vec<Vec<u32>>,
    /// By sample: its advantage over the other samples.
    pub advantages: Vec<f64>,
    /// By sample and unit: log-probability of the choice when it was sampled.
    pub likely: Vec<Vec<f64>>,
}

impl Episode {
    /// Samples from a prediction. Advantages are set later, by [`Episode::reward`].
    pub fn draw(
        prediction: &Prediction,
        [units, devices]: [usize; 2],
        draws: usize,
        rng: &mut impl Rng,
    ) -> Episode {
        let (mut choices, mut likely) = (Vec::with_capacity(draws), Vec::with_capacity(draws));
        for _ in 0..draws {
            let (mut choice, mut chance) = (Vec::with_capacity(units), Vec::with_capacity(units));
            for unit in 0..units {
                let shares = prediction.devices_of(unit, devices);
                let device: u32 = draw(shares, rng);
                choice.push(device);
                chance.push(shares[device as usize].max(f64::MIN_POSITIVE).ln());
            }
            choices.push(choice);
            likely.push(chance);
        }
        Episode { choices, advantages: Vec::new(), likely }
    }

    /// Sets the advantages from the rewards, one per sample.
    pub fn reward(&mut self, rewards: &[f64]) {
        self.advantages = relative(rewards, LEAST_DEVIATION);
    }
}

/// Smallest standard deviation of log rewards that is not rounding. For rewards with a unit, a share of the largest
/// reward.
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

/// The clipped loss of an episode, for a batch of its graph only, and the mean entropy of the choices.
///
/// # Errors
/// If a tensor operation fails.
pub fn proximal(
    output: &Output,
    batch: &Batch,
    episode: &Episode,
    config: &Reinforce,
) -> Result<(Tensor, f64)> {
    let [units, devices] = batch.sizes[0];
    let likely = log_probabilities(&output.affinity, batch)?;
    let pair = |(unit, &device): (usize, &u32)| u32::new(unit * devices) + device;
    let chosen: Vec<u32> =
        episode.choices.iter().flat_map(|choice| choice.iter().enumerate().map(pair)).collect();
    let old: Vec<f32> = episode.likely.iter().flatten().map(|&likely| likely as f32).collect();
    let advantage = |(choice, &advantage): (&Vec<u32>, &f64)| vec![advantage as f32; choice.len()];
    let advantages: Vec<f32> = episode.choices.iter().zip(&episode.advantages).flat_map(advantage).collect();
    let gain = clipped_gain(&likely, &chosen, &old, &advantages, config.clip)?;
    let entropy = ((likely.exp()? * &likely)?.sum_all()?.neg()? * (1.0 / units.max(1) as f64))?;
    let loss = (gain.neg()? - (&entropy * config.entropy)?)?;
    let entropy = number(&entropy.to_dtype(DType::F64)?)?;
    Ok((loss, entropy))
}
