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

use stagewright_structure::{Mixer, Structure};

use super::Cells;
use crate::device::Location;
use crate::place::Placement;
use crate::setting::Setting;

/// Bytes of the mask for a token and a cell.
const MASK: u64 = 8;

/// Bytes of a number.
const NUMBER: u64 = 4;

/// Locations that hold routed experts of each layer, in time O(tensors).
pub(super) fn expert_locations(structure: &Structure, placement: &Placement) -> Vec<Vec<Location>> {
    let mut found: Vec<Vec<Location>> = vec![Vec::new(); structure.layers.len()];
    for (tensor, location) in placement.loaded(structure).filter(|(tensor, _)| tensor.role.is_expert()) {
        let layer = tensor.layer.and_then(|layer| found.get_mut(usize::try_from(layer).ok()?));
        if let Some(locations) = layer.filter(|locations| !locations.contains(&location)) {
            locations.push(location);
        }
    }
    found
}

/// Buffer of a memory; 0 if it has no slot. `experts` has the locations of each layer's routed experts.
pub(super) fn bytes(
    structure: &Structure,
    setting: &Setting,
    placement: &Placement,
    experts: &[Vec<Location>],
    cells: Cells,
    location: Location,
) -> u64 {
    let layers = structure.layers.iter().zip(&placement.slots).zip(experts).enumerate();
    let here = layers.filter(|&(_, ((layer, &slot), _))| slot == location && !layer.is_prediction);
    let layers = here.map(|(index, (_, experts))| layer_width(structure, index, experts.contains(&location)));
    let is_last = placement.output() == location && structure.head.is_some();
    let output = is_last.then(|| output_width(structure));
    let tokens = cells.buffer_tokens(setting);
    layers.chain(output).max().map_or(0, |width| buffer_bytes(width, cells, tokens))
}

/// Bytes of the inputs of a micro-batch of as many tokens: its hidden state and its mask.
pub fn inputs(structure: &Structure, cells: Cells, micro_batch: u64) -> u64 {
    buffer_bytes(structure.hidden, cells, micro_batch)
}

/// Bytes of a buffer. `width` is the largest count of numbers for a token that a layer or the output needs at once.
pub fn buffer_bytes(width: u64, cells: Cells, micro_batch: u64) -> u64 {
    let mask = cells.cells.saturating_mul(MASK * micro_batch);
    width.saturating_mul(NUMBER * micro_batch).saturating_add(mask)
}

/// Numbers for each token that live at once in the output.
pub fn output_width(structure: &Structure) -> u64 {
    structure.vocabulary.saturating_add(structure.hidden.saturating_mul(9))
}

/// Numbers for each token that live at once in a layer, whose routed experts are partly in the same memory or not; 0 if the
/// model has no such layer.
pub fn layer_width(structure: &Structure, index: usize, has_experts: bool) -> u64 {
    let Some(layer) = structure.layers.get(index) else { return 0 };
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
