//! Work of a token: bytes that each memory is read for, layers, hops and crossings.

use stagewright_core::ids::Keyed;
use stagewright_structure::{Layer, Mixer, Role, Structure, Tensor, cache};

use crate::device::{DeviceId, Location};
use crate::place::Placement;
use crate::setting::Setting;

/// Work of one memory for a token.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reads {
    /// Bytes; those of weights on a device divided by [`Rates::factor`](crate::constants::Rates::factor).
    pub bytes: f64,
    /// Slots.
    pub layers: u64,
    /// Layers of which routed experts are in this memory. Measurements have all of a layer's or none.
    pub expert_layers: u64,
}

/// Work of a machine for a token.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Work {
    /// Work of each device.
    pub devices: Keyed<DeviceId, Reads>,
    /// Work of the processor.
    pub host: Reads,
    /// Changes from one device to another.
    pub hops: u64,
    /// Layers of a device with weights on the host.
    pub crossings: u64,
}

impl Work {
    /// Work of a token after `tokens` earlier ones of its sequence, alone in its batch.
    ///
    /// Of routed experts the active ones are read, of tables of tokens a row, of everything else all.
    pub fn of(structure: &Structure, setting: &Setting, placement: &Placement, tokens: u64) -> Work {
        let none = Keyed::filled(Reads::default(), setting.devices.len());
        let mut work = Work { devices: none, ..Work::default() };
        for (tensor, location) in placement.loaded(structure) {
            let share = active_share(structure, tensor, location == placement.output());
            let factor = match location {
                Location::Host => 1.0,
                Location::Device(id) => setting.devices[id].rates.factor(tensor.encoding.bytes_per_number()),
            };
            work.at(location).bytes += share * tensor.bytes as f64 / factor;
        }
        for (layer, &slot) in structure.layers.iter().zip(&placement.slots) {
            let location = if setting.cache_on_devices { slot } else { Location::Host };
            work.at(location).bytes += cache_bytes(layer, setting, tokens);
        }
        work.slots(structure, placement);
        work
    }

    /// Layers, hops and crossings.
    fn slots(&mut self, structure: &Structure, placement: &Placement) {
        let parts = parts(structure, placement);
        let mut before = None;
        for (index, &slot) in placement.slots.iter().enumerate() {
            let layer = structure.layers.get(index);
            if layer.is_some_and(|layer| layer.is_prediction) {
                continue;
            }
            let Parts { on_host, on_devices, has_experts } = parts.get(index).copied().unwrap_or_default();
            let reads = self.at(slot);
            reads.layers += 1;
            reads.expert_layers += u64::from(has_experts);
            if slot != Location::Host {
                self.crossings += u64::from(on_host);
                self.hops += u64::from(before.is_some_and(|before| before != slot));
                before = Some(slot);
            }
            // To the other device, and back.
            self.hops += 2 * u64::from(on_devices);
        }
    }

    fn at(&mut self, location: Location) -> &mut Reads {
        match location {
            Location::Host => &mut self.host,
            Location::Device(device) => &mut self.devices[device],
        }
    }
}

/// Share of a tensor that a token needs.
pub(super) fn active_share(structure: &Structure, tensor: &Tensor, is_at_output: bool) -> f64 {
    let is_tied = structure.head.is_some_and(|head| head.tied);
    match tensor.role {
        // The output reads the whole table where it shares it, once for both.
        Role::Embedding if is_tied && is_at_output && tensor.layer.is_none() => 1.0,
        Role::Embedding | Role::Positions => 0.0,
        role if role.is_expert() => {
            let layer = tensor.layer.and_then(|layer| structure.layers.get(usize::try_from(layer).ok()?));
            let mixture = layer.and_then(|layer| layer.mixture.as_ref());
            mixture.map_or(1.0, |mixture| mixture.active as f64 / mixture.experts.max(1) as f64)
        }
        _ => 1.0,
    }
}

/// Bytes of the cache that a token of a sequence reads in a layer.
pub(super) fn cache_bytes(layer: &Layer, setting: &Setting, tokens: u64) -> f64 {
    if layer.is_prediction {
        return 0.0;
    }
    let keys = cache::layer_cache(layer, tokens, setting.keys).bytes();
    let Mixer::Attention(attention) = &layer.mixer else { return keys };
    let values = cache::layer_cache(layer, tokens, setting.values).bytes();
    let width = (attention.key + attention.value).max(1) as f64;
    (keys * attention.key as f64 + values * attention.value as f64) / width
}

/// Where weights of a layer's products are.
#[derive(Clone, Copy, Default)]
struct Parts {
    /// Whether some are on the host, and the layer is not.
    on_host: bool,
    /// Whether some are on another device.
    on_devices: bool,
    /// Whether some of its routed experts are with the layer.
    has_experts: bool,
}

fn parts(structure: &Structure, placement: &Placement) -> Vec<Parts> {
    let mut parts = vec![Parts::default(); structure.layers.len()];
    for (tensor, &location) in structure.tensors.iter().zip(&placement.tensors) {
        let index = tensor.layer.and_then(|layer| usize::try_from(layer).ok());
        let (Some(index), Some(location)) = (index, location) else { continue };
        let (Some(part), Some(&slot)) = (parts.get_mut(index), placement.slots.get(index)) else { continue };
        if tensor.shape.len() <= 1 {
            continue;
        }
        match (slot == location, location) {
            (true, _) => part.has_experts |= tensor.role.is_expert(),
            (false, Location::Host) => part.on_host = true,
            (false, Location::Device(_)) => part.on_devices = true,
        }
    }
    parts
}
