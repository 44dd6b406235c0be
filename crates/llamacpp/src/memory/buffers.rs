//! Bytes of buffers of computation, with flash attention.
//!
//! llama.cpp plans the graph of a micro-batch and keeps the largest set of tensors that live at once, in 32 bits. For a
//! micro-batch of u tokens, hidden width d, inner width f, k experts a token and V tokens of the vocabulary, measured by
//! `llama-fit-params` of llama.cpp 0c1e57098, the widest layer of a device decides:
//!
//! | layer | bytes |
//! | --- | --- |
//! | dense | 4u · (3f + 6d + heads · width) + mask |
//! | experts on the device | 4u · (2kd + kf + 6d) + mask |
//! | experts elsewhere | 24ud + mask |
//! | output | 4u · (V + 9d) + mask |
//!
//! where the mask is 8u bytes for every cell of the cache. Dense blocks count as if nothing of them were elsewhere, and layers
//! with a state as dense ones, which no measurement has checked.

use stagewright_structure::{Layer, Mixer, Structure};

use super::Cells;
use crate::device::Location;
use crate::place::Placement;
use crate::setting::Setting;

/// Bytes of the mask for a token and a cell.
const MASK: u64 = 8;

/// Bytes of a number.
const NUMBER: u64 = 4;

/// Buffer of a memory; 0 if it has no slot.
pub(super) fn bytes(
    structure: &Structure,
    setting: &Setting,
    placement: &Placement,
    cells: Cells,
    location: Location,
) -> u64 {
    let layers = structure.layers.iter().zip(&placement.slots).enumerate();
    let here = layers.filter(|&(_, (layer, &slot))| slot == location && !layer.is_prediction);
    let layers = here.map(|(index, (layer, _))| {
        layer_width(structure, layer, has_experts(structure, placement, index, location))
    });
    let hidden = structure.hidden;
    let is_last = placement.output() == location && structure.head.is_some();
    let output = is_last.then_some(structure.vocabulary + 9 * hidden);
    let micro_batch = cells.micro_batch(setting);
    layers.chain(output).max().map_or(0, |width| {
        width.saturating_mul(NUMBER * micro_batch).saturating_add(mask(micro_batch, cells))
    })
}

/// Bytes of the inputs of a micro-batch: its hidden state and its mask.
pub(super) fn inputs(structure: &Structure, setting: &Setting, cells: Cells) -> u64 {
    let micro_batch = cells.micro_batch(setting);
    NUMBER * micro_batch * structure.hidden + mask(micro_batch, cells)
}

fn mask(micro_batch: u64, cells: Cells) -> u64 {
    cells.cells.saturating_mul(MASK * micro_batch)
}

/// Numbers for each token that live at once in a layer.
fn layer_width(structure: &Structure, layer: &Layer, has_experts: bool) -> u64 {
    let hidden = structure.hidden;
    let queries = match &layer.mixer {
        Mixer::Attention(attention) => attention.heads * attention.key,
        Mixer::Latent(latent) => latent.heads * (latent.plain + latent.rotary),
        Mixer::Compressed(compressed) => compressed.heads * compressed.width,
        Mixer::Linear(linear) => linear.value_heads * linear.value,
        Mixer::StateSpace(space) => space.heads * space.width,
        Mixer::Convolution(convolution) => convolution.width,
        Mixer::None => 0,
    };
    let shared = layer.mixture.as_ref().and_then(|mixture| mixture.shared.as_ref());
    let inner = layer.dense.as_ref().map(|dense| dense.inner).or(shared.map(|shared| shared.inner));
    let dense = inner.map_or(0, |inner| 3 * inner + queries);
    let experts = layer.mixture.as_ref().filter(|_| has_experts);
    let experts = experts.map_or(0, |mixture| mixture.active.saturating_mul(2 * hidden + mixture.inner));
    dense.max(experts).saturating_add(6 * hidden)
}

/// Whether any of a layer's routed experts are in a memory.
fn has_experts(structure: &Structure, placement: &Placement, layer: usize, location: Location) -> bool {
    let mut tensors = structure.tensors.iter().zip(&placement.tensors);
    tensors.any(|(tensor, &place)| {
        tensor.layer == Some(layer as u64) && tensor.role.is_expert() && place == Some(location)
    })
}
