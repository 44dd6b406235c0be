//! What copies of a stage have in common: states that they divide, the collectives over them, and updates.

use stagewright_core::document::{LinkDocument, RamDocument};

use super::{Devices, Divided, Group, Home, Layer, Stage, Work};
use crate::error::CheckError;
use crate::joint::iteration::collective::{all_gather, all_reduce, reduce_scatter, tree_all_reduce};

impl Stage<'_> {
    /// Seconds of the updates of a layer, each divided among the devices that share it.
    pub(super) fn updates(&self, layer: &Layer, work: &Work) -> f64 {
        match self.home {
            Home::Device => self.updates_on_device(work),
            Home::Host(ram) => self.updates_on_host(layer, &ram),
        }
    }

    fn updates_on_device(&self, work: &Work) -> f64 {
        let mut sum = 0.0;
        for (tensor, seconds) in [1.0, self.tensor].into_iter().zip(work.updates) {
            for (is_expert, seconds) in seconds.into_iter().enumerate() {
                let mut devices = tensor;
                if is_expert == 1 {
                    devices *= self.expert as f64;
                }
                if self.zero > 0 {
                    devices *= self.dividing()[is_expert].count as f64;
                }
                sum += seconds / devices;
            }
        }
        sum
    }

    /// Seconds to move gradients to the host, to update parameters there, and to move them back.
    fn updates_on_host(&self, layer: &Layer, ram: &RamDocument) -> f64 {
        let reached = self.devices.runtime.map_or(1.0, |runtime| runtime.memory);
        let moved = self.on_device(&layer.moved, self.zero > 0) / (ram.bandwidth * reached);
        let exchanged = [&layer.gradients, &layer.parameters]
            .map(|amount| self.on_device(amount, self.zero > 0) / ram.link_bandwidth);
        moved + exchanged.into_iter().sum::<f64>()
    }

    /// The copies that divide states outside experts, and those of experts.
    fn dividing(&self) -> [Group; 2] {
        let Devices { tensor, copies, .. } = self.devices;
        let span = self.devices.of_stage();
        match self.shards {
            None => [1, self.expert.max(1)].map(|expert| Group {
                count: (copies / expert).max(1),
                apart: tensor.saturating_mul(expert),
                span,
            }),
            Some(shards) => [Group { count: shards, apart: tensor, span: tensor.saturating_mul(shards) }; 2],
        }
    }

    /// The copies that have the same part of states.
    fn with_same_part(&self, shards: u64) -> Group {
        let Devices { tensor, copies, .. } = self.devices;
        Group {
            count: copies / shards.max(1),
            apart: tensor.saturating_mul(shards),
            span: self.devices.of_stage(),
        }
    }

    /// The parts outside and inside experts on a device.
    pub(super) fn per_device(&self, amount: &Divided) -> [f64; 2] {
        amount.per_device(self.tensor, self.expert as f64)
    }

    /// An amount on a device, with both parts; `is_divided` says whether copies divide it.
    fn on_device(&self, amount: &Divided, is_divided: bool) -> f64 {
        let parts = self.dividing().into_iter().zip(self.per_device(amount));
        parts
            .map(|(copies, amount)| if is_divided { amount / copies.count.max(1) as f64 } else { amount })
            .sum()
    }

    /// Seconds of two collectives over copies of `factor` times an amount: one for the parts outside experts, and one for
    /// the experts.
    fn over_copies(
        &self,
        groups: [Group; 2],
        amount: &Divided,
        factor: f64,
        collective: fn(u64, f64, &LinkDocument) -> f64,
    ) -> Result<f64, CheckError> {
        let runtime = self.devices.runtime;
        let mut seconds = 0.0;
        for (group, bytes) in groups.into_iter().zip(self.per_device(amount)) {
            let bytes = factor * bytes;
            if group.count > 1 && bytes > 0.0 {
                let mut link = self.devices.link(group, "data parallelism")?;
                // Each of the buckets is a collective.
                link.latency_s *= runtime.map_or(1.0, |runtime| runtime.buckets);
                seconds += collective(group.count, bytes, &link);
            }
        }
        Ok(runtime.map_or(1.0, |runtime| runtime.copies) * seconds)
    }

    /// Seconds of a collective over copies of parameters.
    fn over_parameters(&self, layer: &Layer) -> Result<f64, CheckError> {
        self.over_copies(self.dividing(), &layer.parameters, 1.0, all_gather)
    }

    /// Seconds of a collective over copies of gradients.
    fn over_gradients(
        &self,
        layer: &Layer,
        collective: fn(u64, f64, &LinkDocument) -> f64,
    ) -> Result<f64, CheckError> {
        self.over_copies(self.dividing(), &layer.gradients, self.reduction(), collective)
    }

    /// Factor of the bytes of reduced gradients.
    fn reduction(&self) -> f64 {
        self.devices.runtime.map_or(1.0, |runtime| runtime.reduction)
    }

    /// Seconds of the collectives over copies in a microbatch: of parameters in both passes, and of gradients.
    pub(super) fn in_microbatch(&self, layer: &Layer) -> Result<[f64; 2], CheckError> {
        let gathered = match self.zero {
            3 => self.over_parameters(layer)?,
            _ => 0.0,
        };
        let scattered = match self.zero {
            2 | 3 => self.over_gradients(layer, reduce_scatter)?,
            _ => 0.0,
        };
        Ok([gathered, scattered])
    }

    /// Seconds of the collectives over copies after the last microbatch.
    pub(super) fn once(&self, layer: &Layer) -> Result<f64, CheckError> {
        let gathered = match self.zero {
            1 | 2 => self.over_parameters(layer)?,
            _ => 0.0,
        };
        let reduce = if self.devices.runtime.is_some() { tree_all_reduce } else { all_reduce };
        let gradients = match self.zero {
            0 => self.over_gradients(layer, reduce)?,
            1 => self.over_gradients(layer, reduce_scatter)?,
            _ => 0.0,
        };
        let parts = match self.shards {
            Some(shards) => {
                let groups = [self.with_same_part(shards); 2];
                self.over_copies(groups, &layer.gradients, self.reduction() / shards as f64, reduce)?
            }
            None => 0.0,
        };
        Ok(gathered + gradients + parts)
    }

    /// Bytes of states of a layer in the memory of a device, and in that of its host.
    pub(super) fn states(&self, layer: &Layer) -> [f64; 2] {
        let runtime = self.devices.runtime;
        // With a runtime, a pipeline divides only the states of the optimizer at ZeRO 3.
        let is_in_part = runtime.is_some() && self.depth.is_pipeline() && self.zero == 3;
        let zero = if is_in_part { 1 } else { self.zero };
        let parameters = self.on_device(&layer.parameters, zero >= 3);
        let factor = runtime.map_or(1.0, |runtime| runtime.gradients);
        let gradients = factor * self.on_device(&layer.gradients, zero >= 2);
        let optimizer = self.on_device(&layer.optimizer, zero >= 1);
        match self.home {
            Home::Device => [parameters + gradients + optimizer, 0.0],
            Home::Host(_) => [parameters + gradients, optimizer],
        }
    }
}
