//! Bytes of buffers of computation, with flash attention.
//!
//! llama.cpp plans the graph of a micro-batch, and a buffer is as large as the tensors that live at once, in 32 bits, and the
//! gaps between them. The rules here bound it from above by the widest layer of a memory. For a layer of hidden width d with
//! q numbers of queries, inner width f and k experts a token, of V tokens of the vocabulary, and with c copies of inputs, a
//! token takes
//!
//! | part | numbers |
//! | --- | --- |
//! | inputs of a layer | cd in the first memory, 2cd in the others |
//! | mixer, without what follows | q + 3d |
//! | dense block | 3f + q + 3d |
//! | experts | k · max(3f, f + 2d) + q + 3d |
//! | weights elsewhere | 5d more |
//! | output | V + 12d |
//!
//! and the mask takes 2c bytes for every cell of a cache. Copies are [`PIPELINE_COPIES`](super::PIPELINE_COPIES) where
//! micro-batches are pipelined, and 1 elsewhere. A block or an expert counts wherever one of its weights is, because a
//! product runs where its weight is. States live twice beside them. The host, if it has weights of any layer, and the first
//! device, if it multiplies large batches with them, count as if they had the widest layer of all. How the bounds compare with the tool is in the module
//! [`memory`](super).

use stagewright_structure::{Mixer, Role, Structure, Tensor};

use super::{Cells, LARGE_BATCH, caches};
use crate::device::Location;
use crate::place::Placement;
use crate::setting::Setting;

/// Bytes of the mask for a token and a cell.
const MASK: u64 = 2;

/// Bytes of a number.
const NUMBER: u64 = 4;

/// Bytes of positions, indices and gaps, whatever the model.
const OTHER: u64 = 2 << 20;

/// Parts of a layer of which a memory has weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// Mixer of tokens, with its cache or state.
    pub mixer: bool,
    /// Dense block or shared expert.
    pub dense: bool,
    /// Routed experts.
    pub experts: bool,
    /// Whether weights of the layer are in another memory too, so that results go there and back.
    pub away: bool,
}

impl Held {
    /// All parts, on both sides of a way between memories.
    pub const ALL: Held = Held { mixer: true, dense: true, experts: true, away: true };
}

/// Numbers for each token that live at once in the widest layer that is loaded, beside its inputs.
pub fn widest(structure: &Structure) -> u64 {
    let layers = structure.layers.iter().enumerate().filter(|(_, layer)| !layer.is_prediction);
    layers.map(|(index, _)| layer_width(structure, index, Held::ALL)).max().unwrap_or(0)
}

/// Numbers for each token that live at once in a layer, beside its inputs; 0 if a memory has nothing of it.
pub fn layer_width(structure: &Structure, index: usize, held: Held) -> u64 {
    let Some(layer) = structure.layers.get(index).filter(|_| held != Held::default()) else { return 0 };
    let hidden = structure.hidden;
    let (queries, alone) = if held.mixer { mixer_width(structure, index) } else { (0, 0) };
    let shared = layer.mixture.as_ref().and_then(|mixture| mixture.shared.as_ref());
    let inner = layer.dense.as_ref().map(|dense| dense.inner).max(shared.map(|shared| shared.inner));
    let dense = inner.filter(|_| held.dense).map_or(0, |inner| 3 * inner);
    let experts = layer.mixture.as_ref().filter(|_| held.experts).map_or(0, |mixture| {
        mixture.active.saturating_mul((3 * mixture.inner).max(mixture.inner + 2 * hidden))
    });
    let states = if held.away { 8 * hidden } else { 3 * hidden };
    dense.max(experts).saturating_add(queries).max(alone).saturating_add(states)
}

/// Numbers that stay from a mixer while what follows it is computed, and those that live at once within it.
fn mixer_width(structure: &Structure, index: usize) -> (u64, u64) {
    match &structure.layers[index].mixer {
        Mixer::Attention(attention) => {
            let queries = attention.heads * attention.key;
            let all = if attention.gate { 3 * queries } else { 2 * queries };
            (queries, all + 2 * attention.kv_heads * (attention.key + attention.value))
        }
        Mixer::Latent(latent) => {
            let key = latent.plain + latent.rotary;
            let wide = if caches::has_fused_projection(structure, index) {
                key
            } else {
                latent.rank + latent.rotary
            };
            (latent.heads * key, latent.heads * (2 * key + 2 * wide))
        }
        Mixer::Compressed(compressed) => {
            (compressed.heads * compressed.width, 3 * compressed.heads * compressed.width)
        }
        Mixer::Linear(linear) => {
            let [keys, values] = [linear.key_heads * linear.key, linear.value_heads * linear.value];
            (values, 6 * (2 * keys + values))
        }
        Mixer::StateSpace(space) => {
            let channels = space.heads * space.width;
            (channels, 8 * channels + 4 * space.groups * space.state)
        }
        Mixer::Convolution(convolution) => (convolution.width, 6 * convolution.width),
        Mixer::None => (0, 0),
    }
}

/// Numbers for each token that a memory receives. The first memory with layers receives the hidden state of the tokens, others
/// also what is added to it, or the projection into a state-space layer.
pub fn input_width(structure: &Structure, copies: u64, is_first: bool) -> u64 {
    let projected = structure.layers.iter().filter_map(|layer| match &layer.mixer {
        Mixer::StateSpace(space) => {
            Some(3 * space.heads * space.width + 2 * space.groups * space.state + space.heads)
        }
        _ => None,
    });
    let added = if is_first { 0 } else { projected.max().unwrap_or(0).max(structure.hidden) };
    structure.hidden.saturating_add(added).saturating_mul(copies)
}

/// Numbers for each token that live at once in the output, with its inputs.
pub fn output_width(structure: &Structure) -> u64 {
    structure.vocabulary.saturating_add(structure.hidden.saturating_mul(12))
}

/// Bytes of a buffer of as many numbers for each of its tokens, which has the mask of attention or not. `states` are the
/// bytes of the largest [state](state_bytes) of its layers.
pub fn buffer_bytes(width: u64, tokens: u64, mask: u64, states: u64) -> u64 {
    if width == 0 {
        return 0;
    }
    let numbers = width.saturating_mul(NUMBER * tokens);
    numbers.saturating_add(mask).saturating_add(states.saturating_mul(2)).saturating_add(OTHER)
}

/// Bytes of the masks of a micro-batch of as many tokens.
pub fn mask_bytes(structure: &Structure, setting: &Setting, cells: Cells, tokens: u64, copies: u64) -> u64 {
    let windows = structure.layers.iter().filter_map(|layer| match &layer.mixer {
        Mixer::Attention(attention) => attention.window,
        _ => None,
    });
    let windows = windows.max().map_or(0, |window| cells.of_window(setting, window));
    (cells.cells + windows).saturating_mul(MASK * tokens * copies)
}

/// Bytes of the state that a layer keeps for all sequences; 0 for a layer with a cache.
pub fn state_bytes(structure: &Structure, setting: &Setting, index: usize) -> u64 {
    structure.layers.get(index).map_or(0, |layer| caches::state_bytes(&layer.mixer, setting))
}

/// What every memory has of every layer.
pub(super) struct Parts {
    layers: Vec<Vec<(Location, Held)>>,
    /// Where the projection to the vocabulary is.
    outputs: Vec<Location>,
    /// Slot of the output, with the last normalisation.
    last: Location,
    /// Whether a mixer may read a cache of another memory, which is then copied.
    copies_caches: bool,
    /// The device that multiplies large batches with weights of layers on the host, if there are any.
    helper: Option<Location>,
}

impl Parts {
    /// Goes over all tensors, in time O(tensors · memories).
    pub(super) fn of(structure: &Structure, setting: &Setting, placement: &Placement, cells: Cells) -> Parts {
        let mut parts = Parts {
            layers: vec![Vec::new(); structure.layers.len()],
            outputs: outputs(structure, placement),
            last: placement.output(),
            copies_caches: false,
            helper: None,
        };
        for (index, (layer, &slot)) in structure.layers.iter().zip(&placement.slots).enumerate() {
            if !layer.is_prediction {
                parts.held(index, slot).mixer = true;
                if !setting.cache_on_devices {
                    parts.held(index, Location::Host).mixer = true;
                }
            }
        }
        placement.loaded(structure).for_each(|(tensor, location)| parts.add(location, tensor));
        let are_apart = |all: &Vec<(Location, Held)>| all.iter().filter(|(_, held)| held.mixer).count() > 1;
        parts.copies_caches = parts.layers.iter().any(are_apart);
        // Products of a large batch with weights of the host run on the first device.
        let helper = setting.devices.enumerate().next().filter(|(_, first)| first.class.is_cuda());
        if let Some((first, _)) = helper.filter(|_| cells.micro_batch(setting) >= LARGE_BATCH) {
            let has_layers = |(tensor, location): (&Tensor, Location)| {
                location == Location::Host && tensor.layer.is_some()
            };
            parts.helper = placement.loaded(structure).any(has_layers).then_some(Location::Device(first));
            if parts.outputs.contains(&Location::Host) {
                parts.outputs.push(Location::Device(first));
            }
        }
        for all in &mut parts.layers {
            let away = all.len() > 1;
            all.iter_mut().for_each(|(_, held)| held.away = away);
        }
        parts
    }

    fn add(&mut self, location: Location, tensor: &Tensor) {
        let index = tensor.layer.and_then(|layer| usize::try_from(layer).ok());
        let Some(index) = index.filter(|&index| index < self.layers.len()) else { return };
        let held = self.held(index, location);
        match tensor.role {
            Role::Norm => {}
            role if role.is_expert() => held.experts = true,
            Role::Gate | Role::Up | Role::GateUp | Role::Down => held.dense = true,
            Role::SharedGate | Role::SharedUp | Role::SharedGateUp | Role::SharedDown => held.dense = true,
            // Routers are narrow, and whatever else a block has belongs to its mixer.
            Role::Router | Role::SharedRouter => {}
            _ => held.mixer = true,
        }
    }

    fn held(&mut self, index: usize, location: Location) -> &mut Held {
        let all = &mut self.layers[index];
        let position = all.iter().position(|(other, _)| *other == location).unwrap_or_else(|| {
            all.push((location, Held::default()));
            all.len() - 1
        });
        &mut all[position].1
    }

    /// Bytes of the buffer of a memory.
    pub(super) fn bytes(
        &self,
        structure: &Structure,
        setting: &Setting,
        cells: Cells,
        copies: u64,
        largest_cache: u64,
        location: Location,
    ) -> u64 {
        let tokens = cells.buffer_tokens(setting);
        let parts = self.layers.iter().enumerate().filter_map(|(index, all)| {
            let held = all.iter().find(|(other, _)| *other == location)?.1;
            Some((index, held))
        });
        let parts: Vec<(usize, Held)> = parts.filter(|&(_, held)| held != Held::default()).collect();
        let first = self.layers.first().and_then(|all| all.first());
        let is_first = first.is_none_or(|first| first.0 == location);
        let is_widest = self.helper == Some(location) || (location == Location::Host && !parts.is_empty());
        let width = match is_widest {
            true => Some(widest(structure)),
            false => parts.iter().map(|&(index, held)| layer_width(structure, index, held)).max(),
        };
        let last = (self.last == location).then_some(3 * structure.hidden);
        let width =
            width.max(last).map_or(0, |width| width.saturating_add(input_width(structure, copies, is_first)));
        let has_output = structure.head.is_some() && self.outputs.contains(&location);
        let output = if has_output { output_width(structure) } else { 0 };
        // Inputs begin on the host.
        let inputs = if location == Location::Host { structure.hidden.saturating_mul(copies + 1) } else { 0 };
        let all = (0..structure.layers.len()).filter(|_| is_widest);
        let mixers = parts.iter().filter(|(_, held)| held.mixer).map(|&(index, _)| index).chain(all);
        let has_mask = location == Location::Host || mixers.clone().next().is_some();
        let mask = if has_mask { mask_bytes(structure, setting, cells, tokens, copies) } else { 0 };
        let states = mixers.map(|index| state_bytes(structure, setting, index)).max().unwrap_or(0);
        let cache = if self.copies_caches && width > 0 { largest_cache } else { 0 };
        buffer_bytes(width.max(output).max(inputs), tokens, mask, states).saturating_add(cache)
    }
}

/// Where the projection to the vocabulary is; of a tied one, its copy or the table itself.
fn outputs(structure: &Structure, placement: &Placement) -> Vec<Location> {
    let is_tied = structure.head.is_some_and(|head| head.tied);
    let role = if is_tied { Role::Embedding } else { Role::Head };
    let loaded =
        placement.loaded(structure).filter(|(tensor, _)| tensor.role == role && tensor.layer.is_none());
    // A copy comes after the table.
    loaded.last().map_or_else(|| vec![placement.output()], |(_, location)| vec![location])
}
