//! Adam with decoupled weight decay and gradient clipping.
//!
//! Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015; Loshchilov and Hutter, "Decoupled weight
//! decay regularization", ICLR 2019. candle's own optimiser does not expose its moments, so training could not resume
//! exactly, and it does not clip gradients.

use std::collections::BTreeMap;

use candle_core::{DType, Result, Tensor};
use serde::{Deserialize, Serialize};

use crate::weights::Weights;

/// Hyperparameters of the optimiser.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdamConfig {
    /// Learning rate after the warm-up.
    #[serde(rename = "rate")]
    pub learning_rate: f64,
    /// Number of warm-up steps, during which the learning rate rises linearly from zero.
    pub warmup: u64,
    /// Learning rate at the last step, as a fraction of `learning_rate`.
    #[serde(rename = "last")]
    pub final_lr_fraction: f64,
    /// Weight decay.
    #[serde(rename = "decay")]
    pub weight_decay: f64,
    /// Maximum norm of the gradient over all parameters.
    #[serde(rename = "clip")]
    pub max_grad_norm: f64,
}

impl Default for AdamConfig {
    fn default() -> AdamConfig {
        AdamConfig {
            learning_rate: 1e-3,
            warmup: 100,
            final_lr_fraction: 0.05,
            weight_decay: 1e-4,
            max_grad_norm: 1.0,
        }
    }
}

impl AdamConfig {
    /// Learning rate at `step` (from 0) of `steps`: a linear warm-up, then a cosine decay.
    pub fn rate_at(&self, step: u64, steps: u64) -> f64 {
        if step < self.warmup {
            return self.learning_rate * (step + 1) as f64 / self.warmup as f64;
        }
        let whole = steps.saturating_sub(self.warmup).max(1) as f64;
        let done = ((step - self.warmup) as f64 / whole).min(1.0);
        let cosine = 0.5 * (1.0 + (std::f64::consts::PI * done).cos());
        self.learning_rate * (self.final_lr_fraction + (1.0 - self.final_lr_fraction) * cosine)
    }
}

const BETA: [f64; 2] = [0.9, 0.999];
const EPSILON: f64 = 1e-8;

/// Gradients of a loss by parameter name; parameters that the loss does not depend on have no entry.
#[derive(Debug, Default)]
pub(super) struct Gradients(BTreeMap<String, Tensor>);

impl Gradients {
    /// The gradients of a loss, detached from its computation graph, which candle would otherwise keep alive.
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub(super) fn from_loss(weights: &Weights, loss: &Tensor) -> Result<Gradients> {
        let mut all = loss.backward()?;
        let named = |(name, var): (&String, &candle_core::Var)| {
            all.remove(var).map(|gradient| (name.clone(), gradient.detach()))
        };
        Ok(Gradients(weights.vars().iter().filter_map(named).collect()))
    }

    /// Adds the gradients of another loss.
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub(super) fn add(&mut self, other: Gradients) -> Result<()> {
        for (name, gradient) in other.0 {
            let sum = match self.0.get(&name) {
                Some(before) => (before + gradient)?,
                None => gradient,
            };
            self.0.insert(name, sum);
        }
        Ok(())
    }
}

/// Optimiser state: the moments of every parameter.
#[derive(Debug, Clone)]
pub(super) struct Adam {
    /// Steps taken.
    pub(super) step: u64,
    moments: BTreeMap<String, [Tensor; 2]>,
}

impl Adam {
    /// State before the first step.
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub(super) fn new(weights: &Weights) -> Result<Adam> {
        let zero = |(name, var): (&String, &candle_core::Var)| {
            Ok((name.clone(), [var.zeros_like()?, var.zeros_like()?]))
        };
        Ok(Adam { step: 0, moments: weights.vars().iter().map(zero).collect::<Result<_>>()? })
    }

    /// Moments by parameter name.
    pub(super) fn moments(&self) -> &BTreeMap<String, [Tensor; 2]> {
        &self.moments
    }

    /// Restores saved state.
    pub(super) fn restore(&mut self, step: u64, moments: BTreeMap<String, [Tensor; 2]>) {
        (self.step, self.moments) = (step, moments);
    }

    /// Takes one step at learning rate `rate` and returns the gradient norm before clipping. If the norm is not finite,
    /// nothing changes.
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub(super) fn step(
        &mut self,
        weights: &Weights,
        Gradients(gradients): &Gradients,
        config: &AdamConfig,
        rate: f64,
    ) -> Result<f64> {
        let mut squares = 0.0;
        for gradient in gradients.values() {
            squares += gradient.sqr()?.sum_all()?.to_dtype(DType::F64)?.to_scalar::<f64>()?;
        }
        let norm = squares.sqrt();
        if !norm.is_finite() {
            return Ok(norm);
        }
        let scale = if norm > config.max_grad_norm { config.max_grad_norm / norm } else { 1.0 };
        self.step += 1;
        let correct = BETA.map(|beta| 1.0 - beta.powf(self.step as f64));
        for (name, var) in weights.vars() {
            let Some(gradient) = gradients.get(name) else { continue };
            let Some([mean, square]) = self.moments.get_mut(name) else { continue };
            let gradient = (gradient * scale)?;
            *mean = ((&*mean * BETA[0])? + (&gradient * (1.0 - BETA[0]))?)?;
            *square = ((&*square * BETA[1])? + (gradient.sqr()? * (1.0 - BETA[1]))?)?;
            let deviation = ((&*square / correct[1])?.sqrt()? + EPSILON)?;
            let step = ((&*mean * (rate / correct[0]))? / deviation)?;
            let kept = (var.as_tensor().detach() * (1.0 - rate * config.weight_decay))?;
            var.set(&(kept - step)?)?;
        }
        Ok(norm)
    }
}
