//! Gradient descent with a serialisable state.

use std::collections::BTreeMap;

use candle_core::Tensor;

use super::adam::{Adam, AdamConfig, Gradients};
use super::error::TrainError;
use crate::checkpoint::CheckpointError;
use crate::weights::{Weights, WeightsError};

/// Name prefixes of the tensors of a state: parameters and their two moments.
const PARTS: [&str; 3] = ["weight.", "mean.", "square."];

/// An optimiser for one set of parameters.
#[derive(Debug)]
pub struct Descent {
    /// Hyperparameters of the optimiser.
    pub config: AdamConfig,
    adam: Adam,
}

impl Descent {
    /// An optimiser before its first step.
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub fn new(weights: &Weights, config: AdamConfig) -> candle_core::Result<Descent> {
        Ok(Descent { config, adam: Adam::new(weights)? })
    }

    /// Steps taken.
    pub fn steps(&self) -> u64 {
        self.adam.step
    }

    /// Takes one step against a loss at learning rate `rate`. Returns the gradient norm before clipping.
    ///
    /// # Errors
    /// If a gradient is not finite; then nothing changes.
    pub fn step(&mut self, weights: &Weights, loss: &Tensor, rate: f64) -> Result<f64, TrainError> {
        self.take(weights, &Gradients::from_loss(weights, loss)?, rate)
    }

    fn take(&mut self, weights: &Weights, gradients: &Gradients, rate: f64) -> Result<f64, TrainError> {
        let norm = self.adam.step(weights, gradients, &self.config, rate)?;
        match norm.is_finite() {
            true => Ok(norm),
            false => Err(TrainError::Diverged { step: self.adam.step }),
        }
    }

    /// Takes one step against the sum of several losses. Each loss is computed after the previous one has been
    /// differentiated, so only one is in memory at a time. `goes_on` is checked before each loss and before the step;
    /// once it returns false, nothing changes.
    ///
    /// # Errors
    /// If a gradient is not finite, in which case nothing changes, or if a loss cannot be computed.
    pub fn step_in_parts(
        &mut self,
        weights: &Weights,
        mut losses: impl Iterator<Item = candle_core::Result<Tensor>>,
        rate: f64,
        goes_on: impl Fn() -> bool,
    ) -> Result<(), TrainError> {
        let mut all = Gradients::default();
        while goes_on() {
            match losses.next() {
                Some(loss) => all.add(Gradients::from_loss(weights, &loss?)?)?,
                None => return self.take(weights, &all, rate).map(|_| ()),
            }
        }
        Ok(())
    }

    /// Parameters and moments by name.
    pub fn tensors(&self, weights: &Weights) -> BTreeMap<String, Tensor> {
        let mut tensors = BTreeMap::new();
        for (name, var) in weights.vars() {
            tensors.insert(format!("{}{name}", PARTS[0]), var.as_tensor().clone());
        }
        for (name, moments) in self.adam.moments() {
            for (part, moment) in PARTS[1..].iter().zip(moments) {
                tensors.insert(format!("{part}{name}"), moment.clone());
            }
        }
        tensors
    }

    /// Restores an optimiser after `steps` steps with the moments of a saved state.
    ///
    /// # Errors
    /// If a parameter has no moments of its shape.
    pub fn restore(
        weights: &Weights,
        config: AdamConfig,
        steps: u64,
        state: Parts,
    ) -> Result<Descent, CheckpointError> {
        let Parts([_, mut means, mut squares]) = state;
        let mut moments = BTreeMap::new();
        for (name, var) in weights.vars() {
            let take = |moments: &mut BTreeMap<String, Tensor>| {
                let moment = moments.remove(name).filter(|moment| moment.dims() == var.dims());
                let moment = moment.ok_or_else(|| WeightsError::Missing(format!("moments of {name}")))?;
                moment.to_device(var.device()).map_err(WeightsError::from)
            };
            moments.insert(name.clone(), [take(&mut means)?, take(&mut squares)?]);
        }
        let mut adam = Adam::new(weights).map_err(WeightsError::from)?;
        adam.restore(steps, moments);
        Ok(Descent { config, adam })
    }
}

/// The tensors of a state by prefix.
pub struct Parts([BTreeMap<String, Tensor>; 3]);

impl Parts {
    /// Splits tensors by the prefix of their names.
    ///
    /// # Errors
    /// If a name has no known prefix.
    pub fn from_tensors(tensors: BTreeMap<String, Tensor>) -> Result<Parts, CheckpointError> {
        let mut parts: [BTreeMap<String, Tensor>; 3] = Default::default();
        for (name, tensor) in tensors {
            let found = PARTS
                .iter()
                .zip(&mut parts)
                .find_map(|(prefix, part)| name.strip_prefix(prefix).map(|name| (name.to_string(), part)));
            match found {
                Some((name, part)) => drop(part.insert(name, tensor)),
                None => {
                    return Err(CheckpointError::Foreign(format!(
                        "its tensor `{name}` is neither a parameter nor a moment of one"
                    )));
                }
            }
        }
        Ok(Parts(parts))
    }

    /// Takes out the parameters.
    pub fn take_weights(&mut self) -> BTreeMap<String, Tensor> {
        std::mem::take(&mut self.0[0])
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use candle_core::{DType, Device};

    use super::*;
    use crate::network::layers::Linear;
    use crate::weights::{ParameterBuilder, Source};

    type Tensors = BTreeMap<String, Vec<f32>>;

    /// Parameters and moments after one `step`, which receives a loss for each half of a batch.
    fn after(
        step: impl Fn(&mut Descent, &Weights, &dyn Fn(usize) -> candle_core::Result<Tensor>),
    ) -> (u64, Tensors) {
        let mut parameters = ParameterBuilder::new(Source::Seed(2), false, DType::F32, &Device::Cpu);
        let layer = Linear::new(&mut parameters, "layer", 3, 2).expect("a layer");
        let weights = parameters.finish().expect("all of them");
        let mut descent =
            Descent::new(&weights, AdamConfig { warmup: 0, ..AdamConfig::default() }).expect("moments");
        let rows = Tensor::arange(0.0f32, 12.0, &Device::Cpu).and_then(|rows| rows.reshape((4, 3)));
        let rows = rows.expect("twelve numbers");
        let loss = |half: usize| layer.forward(&rows.narrow(0, 2 * half, 2)?)?.sqr()?.sum_all();
        step(&mut descent, &weights, &loss);
        let numbers = |tensor: Tensor| tensor.flatten_all().and_then(|all| all.to_vec1()).expect("numbers");
        let tensors = descent.tensors(&weights).into_iter().map(|(name, tensor)| (name, numbers(tensor)));
        (descent.steps(), tensors.collect())
    }

    #[test]
    fn parts_are_one_step_against_their_sum() {
        let whole = after(|descent, weights, loss| {
            let sum = loss(0).and_then(|first| first + loss(1)?).expect("a loss");
            descent.step(weights, &sum, 0.1).expect("finite");
        });
        let parts = after(|descent, weights, loss| {
            descent.step_in_parts(weights, (0..2).map(loss), 0.1, || true).expect("finite");
        });
        assert_eq!((whole.0, parts.0), (1, 1));
        for (name, whole) in &whole.1 {
            let parts = &parts.1[name];
            let is_close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * a.abs().max(1e-3);
            assert!(whole.iter().zip(parts).all(is_close), "{name}: {whole:?} and {parts:?}");
        }
    }

    #[test]
    fn what_is_stopped_amid_its_parts_changes_nothing() {
        let before = after(|_, _, _| {});
        for limit in 0..3 {
            let computed = Cell::new(0);
            let found = after(|descent, weights, loss| {
                computed.set(0);
                let losses = (0..2).map(|half| {
                    computed.set(computed.get() + 1);
                    loss(half)
                });
                descent.step_in_parts(weights, losses, 0.1, || computed.get() < limit).expect("finite");
            });
            assert_eq!((computed.get(), &found), (limit, &before));
        }
    }
}
