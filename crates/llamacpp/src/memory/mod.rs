//! Bytes that a setting takes on every device and in RAM.
//!
//! Weights are the tensors of [`Placement`], caches those of the module `caches`. Both equal what `llama-fit-params` of
//! llama.cpp 0c1e57098 prints, within its rounding of 1 MiB, in all 1,470 memories of 480 random cases: dense models with
//! and without a tied output, experts, latents, windows, linear attention, state-space layers, convolutions and layers of
//! prediction, on one to three devices. The tool cannot be asked about sequences that share a cache.
//!
//! Buffers of computation are bounded by the rules of [`buffers`]. In the same cases they are larger than the tool's by
//! 11 MiB in the median and 95 MiB at the ninth decile, smaller by more than 1 MiB in 14 memories, and by 42 MiB at most; so
//! a device [fits](Memory::shortfalls) only with [`MARGIN`] left. `llama-server` makes room for one output a sequence, not
//! for one a token as the tool and `llama-bench` do, and needs less.
//!
//! On CUDA two things are added. A context takes [`CUDA_CONTEXT`]. A batch of [`LARGE_BATCH`] tokens or more is multiplied
//! on the *first* device even with weights of the host, which are copied there one tensor at a time: room for the
//! largest of them, and for the results. No measurement has checked these two. Devices whose slots are all taken, without
//! overrides, pipeline micro-batches with [`PIPELINE_COPIES`] copies of their inputs.
//!
//! RAM has all weights and caches of the host. Weights that are mapped and not repacked are pages of the file, which the
//! system can drop, at the price of reading them again with every token; they count as well.

pub mod buffers;
mod caches;

pub use crate::device::CUDA_CONTEXT;
pub use caches::{Cells, layer_bytes};

use stagewright_core::ids::Keyed;
use stagewright_formats::code::L;
use stagewright_formats::{InputError, Result};
use stagewright_structure::{Role, Structure};

use buffers::Parts;

use crate::device::{DeviceId, Host, Location};
use crate::place::Placement;
use crate::setting::{Override, Setting};

/// Bytes that must be left on a device and in RAM. Buffers are known to be up to 42 MiB larger than their bound.
pub const MARGIN: u64 = 64 << 20;

/// Tokens of a batch from which products with weights on the host run on a device.
pub const LARGE_BATCH: u64 = 32;

/// Copies of the inputs of a pipelined micro-batch.
pub const PIPELINE_COPIES: u64 = 4;

/// Bytes in one memory, by purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bytes {
    /// Weights.
    pub weights: u64,
    /// Keys, values, latents and states of all sequences.
    pub cache: u64,
    /// Buffers of computation.
    pub compute: u64,
    /// Context of the device.
    pub context: u64,
    /// Room for weights of the host that a large batch needs.
    pub copies: u64,
}

impl Bytes {
    /// All bytes.
    pub fn total(&self) -> u64 {
        [self.cache, self.compute, self.context, self.copies]
            .into_iter()
            .fold(self.weights, u64::saturating_add)
    }
}

/// Bytes in every memory of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// Bytes on each device.
    pub devices: Keyed<DeviceId, Bytes>,
    /// Bytes in RAM.
    pub host: Bytes,
}

impl Memory {
    /// Bytes that a placement takes under a setting. `label` is the name of the setting in errors.
    ///
    /// # Errors
    /// If the context is neither in the setting nor in the model, or rows of a cache are no whole number of blocks of its
    /// type (L007), or a layer, or attention without `--flash-attn`, has memory that is not followed (L009).
    pub fn of(
        label: &str,
        structure: &Structure,
        setting: &Setting,
        placement: &Placement,
    ) -> Result<Memory> {
        if !setting.flash_attention {
            let message = "buffers of attention are known for `--flash-attn on` alone";
            let help = "leave `--flash-attn off` out, which also saves memory";
            return Err(InputError::at_path(L::L009, label, "--flash-attn", message, help));
        }
        let cells = Cells::of(label, structure, setting)?;
        let none = Keyed::filled(Bytes::default(), setting.devices.len());
        let mut memory = Memory { devices: none, host: Bytes::default() };
        for (tensor, location) in placement.loaded(structure) {
            memory.at(location).weights += tensor.bytes;
        }
        let mut largest_cache = 0;
        for (layer, &slot) in (0..structure.layers.len()).zip(&placement.slots) {
            let location = if setting.cache_on_devices { slot } else { Location::Host };
            let bytes = layer_bytes(label, structure, setting, cells, layer)?;
            largest_cache = largest_cache.max(bytes);
            let cache = &mut memory.at(location).cache;
            *cache = cache.saturating_add(bytes);
        }
        memory.buffers(structure, setting, placement, cells, largest_cache);
        Ok(memory)
    }

    /// Buffers, contexts and copies.
    fn buffers(
        &mut self,
        structure: &Structure,
        setting: &Setting,
        placement: &Placement,
        cells: Cells,
        largest_cache: u64,
    ) {
        let copies = if is_pipelined(setting, placement) { PIPELINE_COPIES } else { 1 };
        let parts = Parts::of(structure, setting, placement, cells);
        let bytes = |location| parts.bytes(structure, setting, cells, copies, largest_cache, location);
        for (id, device) in setting.devices.enumerate() {
            self.devices[id].compute = bytes(Location::Device(id));
            self.devices[id].context = device.context_bytes();
        }
        self.host.compute = bytes(Location::Host);
        let is_large = cells.micro_batch(setting) >= LARGE_BATCH;
        if let Some(first) = setting.devices.ids().next().filter(|_| is_large)
            && setting.devices[first].class.is_cuda()
        {
            self.devices[first].copies = largest_of_host(structure, placement);
        }
    }

    fn at(&mut self, location: Location) -> &mut Bytes {
        match location {
            Location::Host => &mut self.host,
            Location::Device(device) => &mut self.devices[device],
        }
    }

    /// Memories that are too small, each with the bytes that it lacks: for the placement and [`MARGIN`]. RAM holds what is on
    /// devices that share it as well.
    pub fn shortfalls(&self, setting: &Setting, host: Host) -> Vec<(Location, u64)> {
        let devices =
            || self.devices.enumerate().map(|(id, bytes)| (id, &setting.devices[id], bytes.total()));
        let in_ram = devices().filter(|(_, device, _)| device.shares_ram).map(|(_, _, bytes)| bytes);
        let in_ram = in_ram.fold(self.host.total(), u64::saturating_add);
        let on_devices = devices().map(|(id, device, bytes)| (Location::Device(id), bytes, device.memory));
        let all = on_devices.chain([(Location::Host, in_ram, host.memory)]);
        let lacking = all
            .map(|(location, bytes, memory)| (location, bytes.saturating_add(MARGIN).saturating_sub(memory)));
        lacking.filter(|&(_, bytes)| bytes > 0).collect()
    }
}

/// Whether micro-batches are pipelined: all slots on several devices, with their caches, and no override.
pub fn is_pipelined(setting: &Setting, placement: &Placement) -> bool {
    setting.devices.len() > 1
        && !placement.slots.contains(&Location::Host)
        && setting.cache_on_devices
        && setting.overrides.iter().all(|exception| *exception == Override::FirstExperts(0))
}

/// Bytes of the largest weight that a product reads from the host. Tables of tokens and positions are looked up.
fn largest_of_host(structure: &Structure, placement: &Placement) -> u64 {
    let on_host = placement.loaded(structure).filter(|&(_, location)| location == Location::Host);
    let products = on_host.filter(|(tensor, _)| !matches!(tensor.role, Role::Embedding | Role::Positions));
    products.map(|(tensor, _)| tensor.bytes).max().unwrap_or(0)
}
