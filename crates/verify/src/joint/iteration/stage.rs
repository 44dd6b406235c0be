//! Time and memory of a stage.

use stagewright_core::document::{JointExecutionDocument, LinkDocument};

use super::collective::{all_gather, all_reduce, all_to_all, reduce_scatter};
use super::devices::Devices;
use super::model::{Divided, Layer, Model};
use crate::error::CheckError;
use crate::joint::JointViolation;
use crate::score::cost;

/// Configuration of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Configuration {
    /// Keeps what the backward pass reads.
    None,
    /// Computes again what is no product.
    Selective,
    /// Computes everything again.
    Full,
}

impl Configuration {
    /// The configuration of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Configuration::None),
            "selective" => Some(Configuration::Selective),
            "full" => Some(Configuration::Full),
            _ => None,
        }
    }
}

/// Sums over the layers of a stage.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    /// Seconds of the forward and of the backward pass of a microbatch.
    pub(super) passes: [f64; 2],
    /// Seconds after the last microbatch.
    pub(super) update: f64,
    /// Bytes of parameters, gradients and the optimizer.
    pub(super) state: f64,
    /// Bytes of the activations of a microbatch.
    pub(super) activations: f64,
    /// The largest workspace of a layer.
    pub(super) workspace: f64,
}

/// A stage: its devices, and how it runs the batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stage<'a> {
    model: &'a Model<'a>,
    devices: Devices<'a>,
    tensor: f64,
    expert: u64,
    zero: u32,
    /// Share of the graph's samples that a copy has in a microbatch.
    microbatch: f64,
}

impl<'a> Stage<'a> {
    /// `samples` is the number of samples of the graph.
    pub(super) fn new(
        model: &'a Model<'a>,
        devices: Devices<'a>,
        execution: &JointExecutionDocument,
        samples: f64,
    ) -> Self {
        Stage {
            model,
            devices,
            tensor: devices.tensor as f64,
            expert: u64::from(execution.expert),
            zero: execution.zero,
            microbatch: f64::from(execution.microbatch) / samples,
        }
    }

    /// σ: the share of the graph's samples, and of its operators, that a device has in a microbatch.
    pub(super) fn share(&self) -> f64 {
        self.microbatch / self.tensor
    }

    /// Adds a layer to the sums. Reports operators that cannot run on the devices.
    ///
    /// # Errors
    /// If a collective has no link.
    pub(super) fn add(
        &self,
        layer: &Layer,
        configuration: Configuration,
        sums: &mut Sums,
        violations: &mut Vec<JointViolation>,
    ) -> Result<(), CheckError> {
        let [forward, backward] = self.passes(layer, configuration, violations)?;
        let [gathered, scattered] = self.in_microbatch(layer)?;
        sums.passes[0] += forward + gathered;
        sums.passes[1] += backward + scattered;
        sums.update += self.once(layer)? + self.updates(layer, violations);

        sums.state += self.state(layer);
        let kept = match configuration {
            Configuration::None => layer.stashed,
            Configuration::Selective => layer.inputs + layer.products,
            Configuration::Full => layer.inputs,
        };
        sums.activations += kept * self.share();
        let recomputed = match configuration {
            Configuration::None => 0.0,
            Configuration::Selective | Configuration::Full => (layer.stashed - kept).max(0.0),
        };
        let gathered = if self.zero == 3 { self.per_device(&layer.parameters).iter().sum() } else { 0.0 };
        sums.workspace = sums.workspace.max((layer.workspace + recomputed) * self.share() + gathered);
        Ok(())
    }

    /// Seconds of the passes of a layer: its operators, conversions and exchanges, and what is computed again.
    fn passes(
        &self,
        layer: &Layer,
        configuration: Configuration,
        violations: &mut Vec<JointViolation>,
    ) -> Result<[f64; 2], CheckError> {
        let model = self.model;
        let (mut forward, mut others, mut backward) = (0.0, 0.0, 0.0);
        for &operator in &layer.forward {
            let seconds = self.seconds(operator, violations);
            forward += seconds;
            if !model.kinds.is_product[operator] {
                others += seconds;
            }
            if model.attention.is_first[operator] {
                backward += seconds;
            }
        }
        for &operator in &layer.backward {
            backward += self.seconds(operator, violations);
        }
        if self.devices.tensor > 1 && !layer.conversions.is_empty() {
            let link = self.devices.link(self.devices.tensor, "tensor parallelism")?;
            for conversion in &layer.conversions {
                let [there, back] = conversion.seconds(self.devices.tensor, self.microbatch, link);
                forward += there;
                backward += back;
            }
        }
        if self.expert > 1 && !layer.exchanges.is_empty() {
            let span = self.devices.tensor.saturating_mul(self.expert);
            let link = self.devices.link(span, "expert parallelism")?;
            for &bytes in &layer.exchanges {
                let bytes = self.expert as f64 * self.share() * bytes;
                let seconds = all_to_all(self.expert, bytes, link);
                forward += seconds;
                backward += seconds;
            }
        }
        backward += match configuration {
            Configuration::None => 0.0,
            Configuration::Selective => others,
            Configuration::Full => forward,
        };
        Ok([forward, backward])
    }

    /// Seconds of an operator of the forward or backward pass in a microbatch.
    fn seconds(&self, operator: usize, violations: &mut Vec<JointViolation>) -> f64 {
        let attention = &self.model.attention;
        match self.parts(operator, attention.unmoved[operator], violations) {
            Some(_) if attention.is_inside[operator] => 0.0,
            Some(parts) => parts.launch + parts.work * self.share(),
            None => 0.0,
        }
    }

    /// Seconds of the updates of a layer, each on one of the devices that share it.
    fn updates(&self, layer: &Layer, violations: &mut Vec<JointViolation>) -> f64 {
        let mut sum = 0.0;
        for &operator in &layer.updates {
            let Some(parts) = self.parts(operator, 0.0, violations) else { continue };
            let is_expert = self.model.experts.is_expert[operator];
            let mut devices = if self.model.is_split[operator] { self.tensor } else { 1.0 };
            if is_expert {
                devices *= self.expert as f64;
            }
            if self.zero > 0 {
                devices *= self.copies()[usize::from(is_expert)] as f64;
            }
            sum += (parts.launch + parts.work) / devices;
        }
        sum
    }

    fn parts(
        &self,
        operator: usize,
        unmoved: f64,
        violations: &mut Vec<JointViolation>,
    ) -> Option<cost::Parts> {
        let document = &self.model.graph.operators[operator];
        let parts = cost::parts(document, self.devices.kind, unmoved);
        if parts.is_none() {
            let why = format!("cannot run on kind {:?}", self.devices.kind.document.name);
            violations.push(JointViolation::Operator { operator: document.name.clone(), why });
        }
        parts
    }

    /// Numbers of copies of what is not of experts, and of what is.
    fn copies(&self) -> [u64; 2] {
        [self.devices.data, (self.devices.data / self.expert.max(1)).max(1)]
    }

    /// What is not of experts on a device, and what is.
    fn per_device(&self, amount: &Divided) -> [f64; 2] {
        amount.per_device(self.tensor, self.expert as f64)
    }

    /// Seconds of a collective over copies: one for what is not of experts, and one for what is.
    fn over_copies(
        &self,
        amount: &Divided,
        collective: fn(u64, f64, &LinkDocument) -> f64,
    ) -> Result<f64, CheckError> {
        let mut seconds = 0.0;
        for (copies, bytes) in self.copies().into_iter().zip(self.per_device(amount)) {
            if copies > 1 && bytes > 0.0 {
                let span = self.devices.tensor.saturating_mul(self.devices.data);
                seconds += collective(copies, bytes, self.devices.link(span, "data parallelism")?);
            }
        }
        Ok(seconds)
    }

    /// Seconds of the collectives over copies in the passes of a microbatch.
    fn in_microbatch(&self, layer: &Layer) -> Result<[f64; 2], CheckError> {
        let gathered = match self.zero {
            3 => self.over_copies(&layer.parameters, all_gather)?,
            _ => 0.0,
        };
        let scattered = match self.zero {
            2 | 3 => self.over_copies(&layer.gradients, reduce_scatter)?,
            _ => 0.0,
        };
        Ok([gathered, gathered + scattered])
    }

    /// Seconds of the collectives over copies after the last microbatch.
    fn once(&self, layer: &Layer) -> Result<f64, CheckError> {
        let gathered = match self.zero {
            1 | 2 => self.over_copies(&layer.parameters, all_gather)?,
            _ => 0.0,
        };
        let gradients = match self.zero {
            0 => self.over_copies(&layer.gradients, all_reduce)?,
            1 => self.over_copies(&layer.gradients, reduce_scatter)?,
            _ => 0.0,
        };
        Ok(gathered + gradients)
    }

    /// Bytes of parameters, gradients and the optimizer on a device.
    fn state(&self, layer: &Layer) -> f64 {
        [(&layer.parameters, 3), (&layer.gradients, 2), (&layer.optimizer, 1)]
            .into_iter()
            .map(|(amount, divided_from)| {
                let parts = self.copies().into_iter().zip(self.per_device(amount));
                parts
                    .map(|(copies, bytes)| match self.zero >= divided_from {
                        true => bytes / copies.max(1) as f64,
                        false => bytes,
                    })
                    .sum::<f64>()
            })
            .sum()
    }
}
