//! Adam with decoupled weight decay and clipped gradients.
//!
//! Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015; Loshchilov and Hutter, "Decoupled weight decay
//! regularization", ICLR 2019. candle's own keeps its moments to itself, so a training that stopped could not go on as
//! if it had not; and it clips nothing.

use std::collections::BTreeMap;

use candle_core::{DType, Result, Tensor};
use serde::{Deserialize, Serialize};

use crate::weights::Weights;

/// How steps are made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdamConfig {
    /// The learning rate after the warm-up.
    pub rate: f64,
    /// Steps in which the learning rate rises from nothing.
    pub warmup: u64,
    /// The share of the learning rate that is left at the end.
    pub last: f64,
    /// Weight decay.
    pub decay: f64,
    /// The most that the norm of all gradients together may be.
    pub clip: f64,
}

impl Default for AdamConfig {
    fn default() -> AdamConfig {
        AdamConfig { rate: 1e-3, warmup: 100, last: 0.05, decay: 1e-4, clip: 1.0 }
    }
}

impl AdamConfig {
    /// The learning rate of a step, counted from zero, of so many: it rises to the full rate and falls along a cosine.
    pub fn rate_at(&self, step: u64, steps: u64) -> f64 {
        if step < self.warmup {
            return self.rate * (step + 1) as f64 / self.warmup as f64;
        }
        let whole = steps.saturating_sub(self.warmup).max(1) as f64;
        let done = ((step - self.warmup) as f64 / whole).min(1.0);
        let cosine = 0.5 * (1.0 + (std::f64::consts::PI * done).cos());
        self.rate * (self.last + (1.0 - self.last) * cosine)
    }
}

const BETA: [f64; 2] = [0.9, 0.999];
const EPSILON: f64 = 1e-8;

/// The gradients of a loss by the name of their parameter; none of what the loss does not depend on.
#[derive(Debug, Default)]
pub(super) struct Gradients(BTreeMap<String, Tensor>);

impl Gradients {
    /// Those of a loss. They are off the graph that it was computed by, which candle's own would keep.
    ///
    /// # Errors
    /// Where tensors cannot be made.
    pub(super) fn of(weights: &Weights, loss: &Tensor) -> Result<Gradients> {
        let mut all = loss.backward()?;
        let named = |(name, var): (&String, &candle_core::Var)| {
            all.remove(var).map(|gradient| (name.clone(), gradient.detach()))
        };
        Ok(Gradients(weights.vars().iter().filter_map(named).collect()))
    }

    /// Adds those of another loss.
    ///
    /// # Errors
    /// Where tensors cannot be made.
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

/// The moments of every parameter.
#[derive(Debug, Clone)]
pub(super) struct Adam {
    /// Steps made.
    pub(super) step: u64,
    moments: BTreeMap<String, [Tensor; 2]>,
}

impl Adam {
    /// Before the first step.
    ///
    /// # Errors
    /// Where tensors cannot be made.
    pub(super) fn new(weights: &Weights) -> Result<Adam> {
        let zero = |(name, var): (&String, &candle_core::Var)| {
            Ok((name.clone(), [var.zeros_like()?, var.zeros_like()?]))
        };
        Ok(Adam { step: 0, moments: weights.vars().iter().map(zero).collect::<Result<_>>()? })
    }

    /// The moments by the name of their parameter.
    pub(super) fn moments(&self) -> &BTreeMap<String, [Tensor; 2]> {
        &self.moments
    }

    /// Goes on from where another training was.
    pub(super) fn restore(&mut self, step: u64, moments: BTreeMap<String, [Tensor; 2]>) {
        (self.step, self.moments) = (step, moments);
    }

    /// One step at a learning rate; answers the norm of the gradients before clipping. Where it is no finite number,
    /// nothing is changed.
    ///
    /// # Errors
    /// Where tensors cannot be made.
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
        let scale = if norm > config.clip { config.clip / norm } else { 1.0 };
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
            let kept = (var.as_tensor().detach() * (1.0 - rate * config.decay))?;
            var.set(&(kept - step)?)?;
        }
        Ok(norm)
    }
}
