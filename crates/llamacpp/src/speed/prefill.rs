//! Seconds for a prompt.

use stagewright_structure::{Mixture, Role, Structure, Tensor};

use super::parts::Multiplied;
use super::work::active_share;
use crate::constants::COPY_BANDWIDTH;
use crate::device::{Device, Host, Location};
use crate::memory::LARGE_BATCH;
use crate::place::Placement;
use crate::setting::Setting;

/// Seconds until a prompt of `tokens` is read, on devices that have been measured; `None` if one of those that work has not.
///
/// The prompt goes through the devices in micro-batches, one after the other. Each computes 2 FLOP for a weight and a
/// token that needs it, at a share of the peak of its device. In a micro-batch of [`LARGE_BATCH`] tokens or more, weights on the host
/// are copied to the first device and multiplied there; of experts, those that any of its tokens chose, so that large
/// micro-batches copy each expert once for more tokens. Without devices, or below that size, the processor reads its weights
/// for every micro-batch. Products of attention, which grow with the square of the prompt, are left out, and so is the
/// pipelining of several devices.
///
/// Of four runs of a model with experts on the host (gpt-oss-120b on one GeForce RTX 3090, micro-batches from 512 to 8192
/// tokens) the largest error is 6%; both constants that matter there were fitted to the same runs.
pub fn prefill(
    structure: &Structure,
    setting: &Setting,
    placement: &Placement,
    host: Host,
    tokens: u64,
) -> Option<f64> {
    let size = setting.micro_batch.min(setting.batch).max(1);
    let batch = |tokens: u64| micro_batch(structure, setting, placement, host, tokens);
    let (whole, rest) = (tokens / size, tokens % size);
    let whole = if whole > 0 { whole as f64 * batch(size)? } else { 0.0 };
    let rest = if rest > 0 { batch(rest)? } else { 0.0 };
    Some(whole + rest)
}

fn micro_batch(
    structure: &Structure,
    setting: &Setting,
    placement: &Placement,
    host: Host,
    tokens: u64,
) -> Option<f64> {
    let first = setting.devices.first();
    let mut seconds = 0.0;
    for (tensor, location) in placement.loaded(structure) {
        let device = match location {
            Location::Host => None,
            Location::Device(device) => Some(&setting.devices[device]),
        };
        seconds += batch_seconds(structure, tensor, Multiplied { device, first, host }, tokens)?;
    }
    Some(seconds)
}

/// Seconds of a tensor in a micro-batch of `tokens`; `None` if the device that works has not been measured.
pub fn batch_seconds(
    structure: &Structure,
    tensor: &Tensor,
    memory: Multiplied<'_>,
    tokens: u64,
) -> Option<f64> {
    // Vectors cost nothing, tables are looked up, and the output is computed for the last token alone.
    let is_product = tensor.shape.len() > 1;
    if !is_product || matches!(tensor.role, Role::Embedding | Role::Positions | Role::Head) {
        return Some(0.0);
    }
    let flop = 2.0 * tokens as f64 * active_share(structure, tensor, false) * tensor.elements() as f64;
    let used = || tensor.bytes as f64 * used_share(structure, tensor, tokens);
    Some(match (memory.device, memory.first.filter(|_| tokens >= LARGE_BATCH)) {
        (Some(device), _) => flop / products(structure, device)?,
        (None, Some(first)) => used() / COPY_BANDWIDTH + flop / products(structure, first)?,
        (None, None) => used() / (memory.host.bandwidth * memory.host.efficiency),
    })
}

/// FLOP a second that products of a model reach on a device; `None` if not measured.
fn products(structure: &Structure, device: &Device) -> Option<f64> {
    let rates = device.rates;
    let has_experts = structure.layers.iter().any(|layer| layer.mixture.is_some());
    Some(device.peak * if has_experts { rates.expert_products } else { rates.products }?)
}

/// Share of a tensor that some token of a micro-batch needs: of experts, if each token chooses evenly, 1 − (1 − k/n)^tokens.
fn used_share(structure: &Structure, tensor: &Tensor, tokens: u64) -> f64 {
    let layer = tensor.layer.and_then(|layer| structure.layers.get(usize::try_from(layer).ok()?));
    match layer.and_then(|layer| layer.mixture.as_ref()) {
        Some(Mixture { experts, active, .. }) if tensor.role.is_expert() => {
            let unused = 1.0 - *active as f64 / (*experts).max(1) as f64;
            1.0 - unused.powf(tokens as f64)
        }
        _ => 1.0,
    }
}
