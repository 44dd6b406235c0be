//! Models and machines.

use stagewright_llamacpp::{Class, Device, DeviceId, Location, Setting};
use stagewright_structure::Structure;

use crate::models::{self, Widths};

pub(crate) const GIB: u64 = 1 << 30;

/// A GeForce RTX 3090 by memory and speed, unless told otherwise.
pub(crate) fn device(name: &str) -> Device {
    Device::new(name, Class::Cuda, 24 * GIB, 936e9, 71e12)
}

/// As many devices, `CUDA0` first.
pub(crate) fn devices(count: usize) -> Vec<Device> {
    (0..count).map(|index| device(&format!("CUDA{index}"))).collect()
}

pub(crate) fn parse(count: usize, line: &str) -> Setting {
    Setting::parse("--flags", line, &devices(count)).unwrap_or_else(|error| panic!("{error}: {}", error.help))
}

pub(crate) fn on(index: u32) -> Location {
    Location::Device(DeviceId(index))
}

const WIDTHS: Widths =
    Widths { layers: 8, hidden: 512, heads: 8, kv_heads: 2, head: 64, inner: 1024, vocabulary: 1024 };

/// A dense model of 8 blocks.
pub(crate) fn dense() -> Structure {
    models::llama(&WIDTHS, false).structure()
}

/// A model of 8 blocks with 16 experts, of which 4 are active.
pub(crate) fn experts() -> Structure {
    models::qwen3_moe(&WIDTHS, 16, 4).structure()
}

/// A model of 8 blocks with windows of 128 tokens in every other block, from the first.
pub(crate) fn windows() -> Structure {
    models::gpt_oss(&WIDTHS, 16, 4).structure()
}
