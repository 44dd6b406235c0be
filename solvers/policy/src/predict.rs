//! Predictions: the network's output for one input, as plain numbers.

use candle_core::{Result, Tensor};

use crate::features::Input;
use crate::network::Network;

/// The network's output for one input.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// By unit: priority; lower values run earlier.
    pub priority: Vec<f64>,
    /// By edge: probability that a good plan has both ends on the same device.
    pub together: Vec<f64>,
    /// By unit and device: probability that a good plan places the unit on the device; sums to 1 for each unit.
    pub affinity: Vec<f64>,
    /// Estimated natural logarithm of the best value over the lower bound.
    pub value: f64,
}

impl Prediction {
    /// Runs the network on one input: one pass over the graph, see [`Network::forward`].
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub fn new(network: &Network, input: &Input) -> Result<Prediction> {
        let output = network.forward(&network.batch(&[input])?)?;
        let all = [&output.priority, &output.together, &output.affinity, &output.value];
        for part in all {
            if !numbers(part)?.iter().all(|number| number.is_finite()) {
                return Err(candle_core::Error::Msg("its outputs are not finite".into()));
            }
        }
        let logits = numbers(&output.affinity)?;
        let affinity = logits.chunks(input.devices.max(1)).flat_map(shares).collect();
        Ok(Prediction {
            priority: numbers(&output.priority)?,
            together: numbers(&output.together)?
                .into_iter()
                .map(|logit| 1.0 / (1.0 + (-logit).exp()))
                .collect(),
            affinity,
            value: numbers(&output.value)?.first().copied().unwrap_or(0.0),
        })
    }

    /// Probabilities of a unit's devices.
    pub fn devices_of(&self, unit: usize, devices: usize) -> &[f64] {
        &self.affinity[unit * devices..(unit + 1) * devices]
    }
}

fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    tensor.flatten_all()?.to_dtype(candle_core::DType::F64)?.to_vec1()
}

fn shares(logits: &[f64]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logits.iter().map(|logit| (logit - largest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}
