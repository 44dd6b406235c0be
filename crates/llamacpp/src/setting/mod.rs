//! Command lines of llama.cpp: the options that decide placement and memory.
//!
//! [`Setting::parse`] reads the options of `llama-server` (llama.cpp 0c1e57098), and [`Setting::line`] writes them. Overrides
//! keep the order of the line, because the first pattern that matches a tensor decides. Options that a line lacks have the
//! defaults of `llama-server`, with two that depend on the machine: `--flash-attn auto` counts as on, and
//! `--gpu-layers auto` as all layers, which is what `--fit` starts from and keeps if all fits.

mod options;
mod pattern;
mod words;
mod write;

pub use pattern::Pattern;

use stagewright_core::ids::Keyed;
use stagewright_formats::Result;
use stagewright_structure::Encoding;

use crate::device::{Device, DeviceId, Location};

/// Options of a command line that decide placement and memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Devices in the order of `--device`.
    pub devices: Keyed<DeviceId, Device>,
    /// `--gpu-layers`: slots on devices, counted from the output; all if `None`.
    pub layers: Option<u64>,
    /// `--tensor-split`: shares of slots by device; free memory if empty or all 0. Missing ones are 0.
    pub shares: Vec<f32>,
    /// `--override-tensor`, `--cpu-moe` and `--n-cpu-moe` in the order of the line.
    pub overrides: Vec<Override>,
    /// `--ctx-size`: tokens of all sequences together; that of the model if `None`.
    pub context: Option<u64>,
    /// `--parallel`: sequences.
    pub sequences: u64,
    /// `--kv-unified`: whether sequences share the cells of one cache.
    pub unified: bool,
    /// `--batch-size`: tokens of a logical batch.
    pub batch: u64,
    /// `--ubatch-size`: tokens of a micro-batch.
    pub micro_batch: u64,
    /// `--cache-type-k`: encoding of cached keys.
    pub keys: Encoding,
    /// `--cache-type-v`: encoding of cached values.
    pub values: Encoding,
    /// `--flash-attn`: whether attention is computed without its matrix of scores.
    pub flash_attention: bool,
    /// `--load-mode`: whether weights on the host are mapped from the file.
    pub mmap: bool,
    /// `--repack`: whether weights on the host are laid out for the processor, which copies them out of the mapping.
    pub repack: bool,
    /// `--kv-offload`: whether caches are on the device of their layer.
    pub cache_on_devices: bool,
    /// `--swa-full`: whether layers with a window keep a cell for every token.
    pub whole_windows: bool,
}

/// An exception from the placement by slots.
#[derive(Debug, Clone, PartialEq)]
pub enum Override {
    /// `--override-tensor`: tensors whose name has a match.
    Tensors {
        /// Pattern of names.
        pattern: Pattern,
        /// Where they go.
        target: Location,
    },
    /// `--n-cpu-moe`: routed experts of the first layers go to the host.
    FirstExperts(u64),
    /// `--cpu-moe`: all routed experts go to the host.
    AllExperts,
}

impl Setting {
    /// The defaults of `llama-server` on a machine: all layers on all devices in order, four sequences in one cache.
    pub fn new(devices: Vec<Device>) -> Setting {
        Setting {
            devices: devices.into(),
            layers: None,
            shares: Vec::new(),
            overrides: Vec::new(),
            context: None,
            sequences: options::AUTOMATIC_SEQUENCES,
            unified: true,
            batch: 2048,
            micro_batch: 512,
            keys: Encoding::F16,
            values: Encoding::F16,
            flash_attention: true,
            mmap: true,
            repack: true,
            cache_on_devices: true,
            whole_windows: false,
        }
    }

    /// Reads options, separated and quoted as in a shell, for the devices of a machine.
    ///
    /// `label` is the name of the text in errors, whose place is a column of it.
    ///
    /// # Errors
    /// If an option is unknown or malformed, or has no or a senseless value (L007), an override has a pattern that is no
    /// regular expression or a target that is no device (L008), or an option has an effect that is not followed (L009).
    ///
    /// ```
    /// use stagewright_llamacpp::{Class, Device, Setting};
    /// let device = |name: &str| Device::new(name, Class::Cuda, 24 << 30, 936e9, 71e12);
    /// let machine = [device("CUDA0"), device("CUDA1")];
    /// let setting = Setting::parse("--flags", "-ngl 40 -ts 3,1 -ncmoe 2 -c 8192", &machine).expect("a line");
    /// assert_eq!((setting.layers, setting.shares.as_slice()), (Some(40), [3.0, 1.0].as_slice()));
    /// assert_eq!(setting.line(), "-dev CUDA0,CUDA1 -ngl 40 -ts 3,1 -ncmoe 2 -c 8192");
    /// ```
    pub fn parse(label: &str, text: &str, machine: &[Device]) -> Result<Setting> {
        options::parse(label, text, machine)
    }

    /// Name of the buffer type of a place, as `--override-tensor` takes it.
    ///
    /// # Panics
    /// If the device is not one of the setting.
    pub fn buffer(&self, target: Location) -> &str {
        match target {
            Location::Host => options::HOST_BUFFER,
            Location::Device(device) => &self.devices[device].buffer,
        }
    }

    /// Names of the encodings that a cache can have (`--cache-type-k`).
    pub fn cache_types() -> &'static [&'static str] {
        options::CACHE_TYPES
    }

    /// The options as words of a shell, without those at their defaults; [`Setting::parse`] reads the same setting from them.
    pub fn line(&self) -> String {
        write::line(self)
    }
}
