//! Steps against a loss, and their state as tensors to go on from.

use std::collections::BTreeMap;

use candle_core::Tensor;

use super::adam::{Adam, AdamConfig, Gradients};
use super::trainer::TrainError;
use crate::checkpoint::CheckpointError;
use crate::weights::{Weights, WeightsError};

/// What tensors of a state are called: parameters, and the moments of each.
const PARTS: [&str; 3] = ["weight.", "mean.", "square."];

/// Steps of one set of parameters.
#[derive(Debug)]
pub struct Descent {
    /// How steps are made.
    pub config: AdamConfig,
    adam: Adam,
}

impl Descent {
    /// Before the first step.
    ///
    /// # Errors
    /// Where tensors cannot be made.
    pub fn new(weights: &Weights, config: AdamConfig) -> candle_core::Result<Descent> {
        Ok(Descent { config, adam: Adam::new(weights)? })
    }

    /// Steps made.
    pub fn steps(&self) -> u64 {
        self.adam.step
    }

    /// One step against a loss at a learning rate. Answers the norm of the gradients before clipping.
    ///
    /// # Errors
    /// Where they are no numbers; then nothing is changed.
    pub fn step(&mut self, weights: &Weights, loss: &Tensor, rate: f64) -> Result<f64, TrainError> {
        self.take(weights, &Gradients::of(weights, loss)?, rate)
    }

    fn take(&mut self, weights: &Weights, gradients: &Gradients, rate: f64) -> Result<f64, TrainError> {
        let norm = self.adam.step(weights, gradients, &self.config, rate)?;
        match norm.is_finite() {
            true => Ok(norm),
            false => Err(TrainError::Diverged { step: self.adam.step }),
        }
    }

    /// One step against the sum of several losses, each computed when the one before has been taken apart, so that no more than
    /// one is held at a time. No step, and nothing to say of it, where `goes_on` says so before any of them.
    ///
    /// # Errors
    /// As [`Descent::step`], and where a loss cannot be computed.
    pub(crate) fn step_in_parts(
        &mut self,
        weights: &Weights,
        losses: impl Iterator<Item = candle_core::Result<Tensor>>,
        rate: f64,
        goes_on: impl Fn() -> bool,
    ) -> Result<Option<f64>, TrainError> {
        let mut all = Gradients::default();
        for loss in losses {
            if !goes_on() {
                return Ok(None);
            }
            all.add(Gradients::of(weights, &loss?)?)?;
        }
        self.take(weights, &all, rate).map(Some)
    }

    /// Parameters and moments by name.
    pub(crate) fn tensors(&self, weights: &Weights) -> BTreeMap<String, Tensor> {
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

    /// Goes on after so many steps with the moments of a state.
    pub(crate) fn restore(
        weights: &Weights,
        config: AdamConfig,
        steps: u64,
        state: Parts,
    ) -> Result<Descent, CheckpointError> {
        let Parts([_, mut means, mut squares]) = state;
        let mut moments = BTreeMap::new();
        for (name, var) in weights.vars() {
            let take = |of: &mut BTreeMap<String, Tensor>| {
                let moment = of.remove(name).filter(|moment| moment.dims() == var.dims());
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

/// The tensors of a state by what they are.
pub(crate) struct Parts([BTreeMap<String, Tensor>; 3]);

impl Parts {
    /// Sorts tensors by their names.
    pub(crate) fn of(tensors: BTreeMap<String, Tensor>) -> Result<Parts, CheckpointError> {
        let mut parts: [BTreeMap<String, Tensor>; 3] = Default::default();
        for (name, tensor) in tensors {
            let found = PARTS
                .iter()
                .zip(&mut parts)
                .find_map(|(prefix, part)| name.strip_prefix(prefix).map(|name| (name.to_string(), part)));
            match found {
                Some((name, part)) => drop(part.insert(name, tensor)),
                None => return Err(CheckpointError::Foreign(format!("say nothing of `{name}`"))),
            }
        }
        Ok(Parts(parts))
    }

    /// Takes the parameters out.
    pub(crate) fn take_weights(&mut self) -> BTreeMap<String, Tensor> {
        std::mem::take(&mut self.0[0])
    }
}
