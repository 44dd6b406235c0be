//! Tensors to devices, as `load_tensors` of llama.cpp 0c1e57098 puts them.
//!
//! A model of n blocks has n + 1 slots, the last for the output. With `--gpu-layers` k the first max(n + 1 − k, 0) slots are
//! on the host. Slot i of the others goes to the first device whose prefix share exceeds (i − start) / min(k, n + 1), where
//! prefix shares are sums of `--tensor-split` in 32 bits, divided by the last of them. A tensor of a block goes with its
//! slot, one at the input to the host, any other with the output, unless an override matches its name: the first in the
//! order of the line decides.
//!
//! Blocks that predict further tokens take slots, whether a file has their tensors or only counts them, but they are not loaded
//! without speculative decoding. A model whose output shares the table of tokens has a second copy of it with the output, unless both are in the same kind of
//! memory. Factors of rotary positions have a copy wherever there are blocks.

use stagewright_structure::{Role, Structure, Tensor};

use crate::device::{DeviceId, Location};
use crate::setting::{Override, Setting};

/// Projections of routed experts as `--cpu-moe` and `--n-cpu-moe` match them, by the beginning of the name below the block.
pub const EXPERTS: [&str; 8] = [
    "ffn_up_exps",
    "ffn_down_exps",
    "ffn_gate_exps",
    "ffn_gate_up_exps",
    "ffn_up_chexps",
    "ffn_down_chexps",
    "ffn_gate_chexps",
    "ffn_gate_up_chexps",
];

/// Modules at the input of a model, which stay on the host.
const INPUTS: [&str; 5] =
    ["token_embd", "position_embd", "token_types", "token_embd_norm", "per_layer_token_embd"];

/// Where slots and tensors are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Location of every block, then of the output. Caches are with their block. Slots of blocks that a file counts and
    /// lacks are left out.
    pub slots: Vec<Location>,
    /// Location of every tensor in the order of the structure; `None` if it is not loaded.
    pub tensors: Vec<Option<Location>>,
    /// Further copies: the index of a tensor, and where its copy is.
    pub copies: Vec<(usize, Location)>,
}

impl Placement {
    /// Location of the output.
    pub fn output(&self) -> Location {
        *self.slots.last().unwrap_or(&Location::Host)
    }

    /// Tensors with their locations: those that are loaded, then the copies.
    pub fn loaded<'a>(&'a self, structure: &'a Structure) -> impl Iterator<Item = (&'a Tensor, Location)> {
        let tensors = structure.tensors.iter().zip(&self.tensors);
        let copies = self.copies.iter().map(|&(index, location)| (&structure.tensors[index], location));
        tensors.filter_map(|(tensor, &location)| Some((tensor, location?))).chain(copies)
    }
}

/// Puts every tensor of a model read from a GGUF file somewhere, in time O(tensors · overrides).
///
/// ```
/// use stagewright_llamacpp::{Location, Setting, place};
/// # let config = br#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
/// #     "num_hidden_layers": 2, "vocab_size": 100}"#;
/// # use stagewright_structure::huggingface::{Reading, read};
/// # let structure = read("config.json", config, None, &Reading::default()).expect("a model");
/// // Without devices, all slots are on the host.
/// let placement = place(&structure, &Setting::new(Vec::new()));
/// assert_eq!(placement.slots, [Location::Host; 3]);
/// ```
pub fn place(structure: &Structure, setting: &Setting) -> Placement {
    let slots = slots(structure, setting);
    let tensors = structure.tensors.iter().map(|tensor| location(structure, setting, &slots, tensor));
    let mut placement = Placement { tensors: tensors.collect(), copies: Vec::new(), slots };
    placement.copies = copies(structure, setting, &placement);
    placement
}

/// Slots that llama.cpp divides: the blocks that a file counts, and the output.
pub fn slot_count(structure: &Structure) -> usize {
    let missing = usize::try_from(structure.missing_predictions).unwrap_or(usize::MAX);
    structure.layers.len().saturating_add(missing).saturating_add(1)
}

/// Location of every slot but those of missing blocks.
fn slots(structure: &Structure, setting: &Setting) -> Vec<Location> {
    let count = slot_count(structure);
    let given = setting.layers.map_or(count, |layers| usize::try_from(layers).unwrap_or(usize::MAX));
    let active = if setting.devices.is_empty() { 0 } else { given.min(count) };
    let start = count - active;
    let prefixes = prefix_shares(setting);
    let device = |slot: usize| {
        // A quotient of 32 bits, as the comparison is in llama.cpp.
        let position = (slot - start) as f32 / active as f32;
        let index = prefixes.partition_point(|&prefix| prefix <= position);
        DeviceId::new(index.min(prefixes.len() - 1))
    };
    (0..structure.layers.len())
        .chain([count - 1])
        .map(|slot| if slot < start { Location::Host } else { Location::Device(device(slot)) })
        .collect()
}

/// Sums of shares up to every device, divided by the last: of `--tensor-split`, or else of free memory.
fn prefix_shares(setting: &Setting) -> Vec<f32> {
    let is_given = setting.shares.iter().any(|&share| share > 0.0);
    let share = |(device, index): (&crate::device::Device, usize)| match is_given {
        true => setting.shares.get(index).copied().unwrap_or(0.0),
        // llama.cpp asks for free memory when the context of the device is there.
        false => device.memory.saturating_sub(device.context_bytes()) as f32,
    };
    let shares = setting.devices.iter().zip(0..).map(share);
    let sums: Vec<f32> = shares
        .scan(0.0, |sum: &mut f32, share| {
            *sum += share;
            Some(*sum)
        })
        .collect();
    let total = sums.last().copied().unwrap_or(0.0);
    sums.into_iter().map(|sum| sum / total).collect()
}

/// Location of a tensor; `None` if it is not loaded.
fn location(
    structure: &Structure,
    setting: &Setting,
    slots: &[Location],
    tensor: &Tensor,
) -> Option<Location> {
    let layer = tensor.layer.and_then(|layer| usize::try_from(layer).ok());
    if layer.and_then(|layer| structure.layers.get(layer)).is_some_and(|layer| layer.is_prediction) {
        return None;
    }
    if let Some(target) = overridden(setting, &tensor.name) {
        return Some(target);
    }
    match layer {
        Some(layer) => slots.get(layer).copied(),
        None if is_input(tensor) => Some(Location::Host),
        // The first block of those that share the factors; the others have copies.
        None if is_rotary(tensor) => slots.first().copied(),
        None => slots.last().copied(),
    }
}

/// Location by the first override that matches a name.
fn overridden(setting: &Setting, name: &str) -> Option<Location> {
    setting.overrides.iter().find_map(|exception| match exception {
        Override::Tensors { pattern, target } => pattern.matches(name).then_some(*target),
        Override::FirstExperts(layers) => {
            expert_block(name).is_some_and(|block| block < *layers).then_some(Location::Host)
        }
        Override::AllExperts => expert_block(name).map(|_| Location::Host),
    })
}

/// Number of the block whose routed experts a tensor belongs to, by its name as `--n-cpu-moe` reads it.
fn expert_block(name: &str) -> Option<u64> {
    let (block, rest) = name.strip_prefix("blk.")?.split_once('.')?;
    EXPERTS.iter().any(|experts| rest.starts_with(experts)).then(|| block.parse().ok()).flatten()
}

fn is_input(tensor: &Tensor) -> bool {
    let module = tensor.name.strip_suffix(".weight").or_else(|| tensor.name.strip_suffix(".bias"));
    tensor.role == Role::Embedding || module.is_some_and(|module| INPUTS.contains(&module))
}

fn is_rotary(tensor: &Tensor) -> bool {
    tensor.name.starts_with("rope_f")
}

/// Copies of the table of tokens for a tied output, and of factors of rotary positions.
fn copies(structure: &Structure, setting: &Setting, placement: &Placement) -> Vec<(usize, Location)> {
    let is_tied = structure.head.is_some_and(|head| head.tied);
    let mut copies = Vec::new();
    for (index, tensor) in structure.tensors.iter().enumerate() {
        let Some(own) = placement.tensors[index] else { continue };
        // An override has the name of the table for both, and moves both.
        if overridden(setting, &tensor.name).is_some() || tensor.layer.is_some() {
            continue;
        }
        if tensor.role == Role::Embedding && is_tied && placement.output() != own {
            copies.push((index, placement.output()));
        } else if is_rotary(tensor) {
            let mut locations: Vec<Location> = blocks(structure, placement).collect();
            locations.sort_unstable();
            locations.dedup();
            copies.extend(locations.into_iter().filter(|&other| other != own).map(|other| (index, other)));
        }
    }
    copies
}

/// Locations of the blocks that are loaded.
fn blocks<'a>(structure: &'a Structure, placement: &'a Placement) -> impl Iterator<Item = Location> + 'a {
    let blocks = structure.layers.iter().zip(&placement.slots);
    blocks.filter(|(layer, _)| !layer.is_prediction).map(|(_, &location)| location)
}
