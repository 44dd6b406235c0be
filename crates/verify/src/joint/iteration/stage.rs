//! Time and memory of a stage.

use stagewright_core::document::{JointExecutionDocument, LinkDocument, Schedule};

use super::collective::{all_gather, all_reduce, all_to_all, reduce_scatter};
use super::devices::Devices;
use super::model::{Divided, Layer};
use super::schedule::Times;
use super::work::Work;
use crate::error::CheckError;
use crate::read::cost::Parts;

/// Configuration of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Configuration {
    /// Keeps the tensors that the backward pass reads.
    None,
    /// Recomputes all operators except products.
    Selective,
    /// Recomputes all operators.
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

/// Costs of a layer in a configuration.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Costs {
    /// Seconds of the forward pass, the backward pass and the weight gradients of a microbatch.
    pub(super) passes: Times,
    /// Seconds after the last microbatch.
    pub(super) update: f64,
    /// Bytes of parameters, gradients and the optimizer.
    pub(super) state: f64,
    /// Bytes of the activations of a microbatch that are kept until the backward pass, and until the weight gradients.
    pub(super) activations: [f64; 2],
    pub(super) workspace: f64,
}

/// Sums over the layers of a stage, and the maximum of the workspace.
pub(super) type Sums = Costs;

impl Sums {
    /// Adds a layer.
    pub(super) fn add(&mut self, layer: &Costs) {
        let add =
            |sum: &mut [f64], more: &[f64]| sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        add(&mut self.passes, &layer.passes);
        self.update += layer.update;
        self.state += layer.state;
        add(&mut self.activations, &layer.activations);
        self.workspace = self.workspace.max(layer.workspace);
    }
}

/// A stage: its devices, and how it runs the batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stage<'a> {
    devices: Devices<'a>,
    tensor: f64,
    expert: u64,
    zero: u32,
    /// Share of the graph's samples that a copy processes in a microbatch.
    microbatch: f64,
    /// Whether weight gradients of layers that are not recomputed run separately.
    has_weights_apart: bool,
}

impl<'a> Stage<'a> {
    /// A stage on `devices`; `samples` is the number of samples of the graph.
    pub(super) fn new(devices: Devices<'a>, execution: &JointExecutionDocument, samples: f64) -> Self {
        Stage {
            devices,
            tensor: devices.tensor as f64,
            expert: u64::from(execution.expert),
            zero: execution.zero,
            microbatch: f64::from(execution.microbatch) / samples,
            has_weights_apart: execution.schedule == Schedule::ZeroBubble,
        }
    }

    /// σ: the share of the graph's samples, and of its operators, that a device processes in a microbatch.
    pub(super) fn share(&self) -> f64 {
        self.microbatch / self.tensor
    }

    /// The costs of a layer. `work` is the work of its operators on the kind of the devices.
    ///
    /// # Errors
    /// If a collective has no link.
    pub(super) fn costs(
        &self,
        layer: &Layer,
        work: &Work,
        configuration: Configuration,
    ) -> Result<Costs, CheckError> {
        let kept = match configuration {
            Configuration::None => layer.stashed,
            Configuration::Selective => layer.inputs + layer.products,
            Configuration::Full => layer.inputs,
        };
        let recomputed = match configuration {
            Configuration::None => 0.0,
            Configuration::Selective | Configuration::Full => (layer.stashed - kept).max(0.0),
        };
        let gathered = if self.zero == 3 { self.per_device(&layer.parameters).iter().sum() } else { 0.0 };
        let kept = kept * self.share();
        let is_apart = self.has_weights_apart && configuration == Configuration::None;
        Ok(Costs {
            passes: self.passes(layer, work, configuration, is_apart)?,
            update: self.once(layer)? + self.updates(work),
            state: self.state(layer),
            activations: if is_apart { [0.0, kept] } else { [kept, 0.0] },
            workspace: (layer.workspace + recomputed) * self.share() + gathered,
        })
    }

    /// Seconds of the passes of a layer: its operators, conversions, exchanges and collectives over copies, and
    /// recomputation.
    fn passes(
        &self,
        layer: &Layer,
        work: &Work,
        configuration: Configuration,
        is_apart: bool,
    ) -> Result<Times, CheckError> {
        let seconds = |parts: Parts| parts.launch + parts.work * self.share();
        let mut forward = seconds(work.forward);
        let mut backward = seconds(work.backward) + seconds(work.again);
        let mut weights = seconds(work.weights);
        if self.devices.tensor > 1 && !layer.conversions.is_empty() {
            let link = self.devices.link(self.devices.tensor, "tensor parallelism")?;
            for conversion in &layer.conversions {
                let found = conversion.seconds(self.devices.tensor, self.microbatch, link);
                forward += found.there;
                backward += found.there;
                weights += found.again;
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
            Configuration::Selective => seconds(work.others),
            Configuration::Full => forward,
        };
        let [gathered, scattered] = self.in_microbatch(layer)?;
        weights += scattered;
        forward += gathered;
        backward += gathered;
        Ok(if is_apart { [forward, backward, weights] } else { [forward, backward + weights, 0.0] })
    }

    /// Seconds of the updates of a layer, each divided among the devices that share it.
    fn updates(&self, work: &Work) -> f64 {
        let mut sum = 0.0;
        for (tensor, seconds) in [1.0, self.tensor].into_iter().zip(work.updates) {
            for (is_expert, seconds) in seconds.into_iter().enumerate() {
                let mut devices = tensor;
                if is_expert == 1 {
                    devices *= self.expert as f64;
                }
                if self.zero > 0 {
                    devices *= self.copies()[is_expert] as f64;
                }
                sum += seconds / devices;
            }
        }
        sum
    }

    /// Numbers of copies outside experts, and of experts.
    fn copies(&self) -> [u64; 2] {
        [self.devices.data, (self.devices.data / self.expert.max(1)).max(1)]
    }

    /// The parts outside and inside experts on a device.
    fn per_device(&self, amount: &Divided) -> [f64; 2] {
        amount.per_device(self.tensor, self.expert as f64)
    }

    /// Seconds of two collectives over copies: one for the parts outside experts, and one for the experts.
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

    /// Seconds of the collectives over copies in a microbatch: of parameters in both passes, and of gradients.
    fn in_microbatch(&self, layer: &Layer) -> Result<[f64; 2], CheckError> {
        let gathered = match self.zero {
            3 => self.over_copies(&layer.parameters, all_gather)?,
            _ => 0.0,
        };
        let scattered = match self.zero {
            2 | 3 => self.over_copies(&layer.gradients, reduce_scatter)?,
            _ => 0.0,
        };
        Ok([gathered, scattered])
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
