//! The formula by tensor and by layer, for searches that move one at a time.
//!
//! The sum over all tensors and layers, with their hops, is [`decode`](super::decode) and [`prefill`](super::prefill).

use stagewright_structure::{Layer, Structure, Tensor};

use super::work::{active_share, cache_bytes};
use crate::device::{Device, Host};
use crate::setting::Setting;

/// Memory that a tensor is in.
#[derive(Debug, Clone, Copy)]
pub struct Multiplied<'a> {
    /// Device of the tensor; `None` for the host.
    pub device: Option<&'a Device>,
    /// First device of the setting, which multiplies large batches with tensors of the host; `None` without devices.
    pub first: Option<&'a Device>,
    /// The processor.
    pub host: Host,
}

/// Seconds to read a tensor for a token. `is_at_output` says whether the tensor is where the output is.
pub fn token_seconds(
    structure: &Structure,
    tensor: &Tensor,
    is_at_output: bool,
    memory: Multiplied<'_>,
) -> f64 {
    let bytes = active_share(structure, tensor, is_at_output) * tensor.bytes as f64;
    match memory.device {
        Some(device) => {
            let factor = device.rates.factor(tensor.encoding.bytes_per_number());
            bytes / factor / (device.bandwidth * device.rates.efficiency)
        }
        None => bytes / (memory.host.bandwidth * memory.host.efficiency),
    }
}

/// Seconds to read the cache of a layer for a token after `tokens` earlier ones.
pub fn cache_seconds(layer: &Layer, setting: &Setting, tokens: u64, memory: Multiplied<'_>) -> f64 {
    let bytes = cache_bytes(layer, setting, tokens);
    match memory.device {
        Some(device) => bytes / (device.bandwidth * device.rates.efficiency),
        None => bytes / (memory.host.bandwidth * memory.host.efficiency),
    }
}
