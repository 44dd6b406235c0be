//! Questions: a model, a machine and an objective.

use stagewright_llamacpp::{Device, Goal, Host, Setting};
use stagewright_structure::{Encoding, Structure};

/// A model on a machine, and what its plan minimises.
pub struct Question<'a> {
    /// The model.
    pub structure: &'a Structure,
    /// Devices that may be used, in the order in which llama.cpp lists them.
    pub devices: &'a [Device],
    /// The processor and its memory.
    pub host: Host,
    /// Seconds to minimise.
    pub goal: Goal,
    /// Tokens of all sequences together.
    pub context: u64,
    /// Sequences; several share the context in one cache.
    pub sequences: u64,
    /// Encoding of cached keys.
    pub keys: Encoding,
    /// Encoding of cached values.
    pub values: Encoding,
    /// Micro-batches to choose from, at least one.
    pub micro_batches: &'a [u64],
}

impl Question<'_> {
    /// The options that are given, for devices in some order.
    pub fn setting(&self, devices: Vec<Device>, micro_batch: u64) -> Setting {
        let default = Setting::new(devices);
        Setting {
            context: Some(self.context),
            sequences: self.sequences,
            unified: self.sequences > 1,
            keys: self.keys,
            values: self.values,
            batch: default.batch.max(micro_batch),
            micro_batch,
            ..default
        }
    }

    /// Whether devices share the memory of the processor.
    pub(crate) fn has_one_memory(&self) -> bool {
        self.devices.iter().any(|device| device.shares_ram)
    }

    /// The first device without the speed of products that a prompt needs.
    pub(crate) fn unmeasured(&self) -> Option<&Device> {
        let has_experts = self.structure.layers.iter().any(|layer| layer.mixture.is_some());
        self.devices.iter().find(|device| {
            let products = if has_experts { device.rates.expert_products } else { device.rates.products };
            self.goal.prompt() > 0 && products.is_none()
        })
    }
}

/// Devices that differ in nothing but their name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeviceKind {
    /// The first of them.
    pub(crate) device: Device,
    /// Positions of all of them among the devices.
    pub(crate) members: Vec<usize>,
}

/// Kinds of devices in the order of their first.
pub(crate) fn kinds(devices: &[Device]) -> Vec<DeviceKind> {
    let mut kinds: Vec<DeviceKind> = Vec::new();
    for (index, device) in devices.iter().enumerate() {
        let is_same = |kind: &&mut DeviceKind| {
            let renamed =
                Device { name: device.name.clone(), buffer: device.buffer.clone(), ..kind.device.clone() };
            renamed == *device
        };
        match kinds.iter_mut().find(is_same) {
            Some(kind) => kind.members.push(index),
            None => kinds.push(DeviceKind { device: device.clone(), members: vec![index] }),
        }
    }
    kinds
}
