//! A model as the search sees it: what of a block stays with its slot, and what an override can move to the host.

use stagewright_llamacpp::place::{EXPERTS, slot_count};
use stagewright_llamacpp::{Location, Setting, place};
use stagewright_structure::{Role, Structure};

/// Projections of dense feed-forward blocks that an override can move, by their names below the block, beside those of routed
/// experts ([`EXPERTS`]). Routers and shared experts stay, as with `--n-cpu-moe`.
const DENSE: [&str; 3] = ["ffn_up", "ffn_down", "ffn_gate"];

/// Tensors of a projection, which move together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    /// Name below the block.
    pub(crate) module: &'static str,
    /// Indices of its tensors: weights, and biases or scales.
    pub(crate) tensors: Vec<usize>,
    /// Bytes of all.
    pub(crate) bytes: u64,
    /// Bytes of the largest.
    pub(crate) largest: u64,
    /// Whether they are of routed experts.
    pub(crate) is_expert: bool,
}

/// A block.
#[derive(Debug, Clone, Default)]
pub(crate) struct Block {
    /// Tensors that stay with the slot.
    pub(crate) fixed: Vec<usize>,
    /// Bytes of the tensors that stay.
    pub(crate) fixed_bytes: u64,
    /// Projections that can move.
    pub(crate) groups: Vec<Group>,
    /// Bytes of the largest tensor that stays with the slot and that a product reads.
    pub(crate) largest_fixed: u64,
    /// Whether the block predicts further tokens, and is not loaded.
    pub(crate) is_prediction: bool,
    /// Whether a shared expert or a dense block stays with the slot.
    pub(crate) has_fixed_dense: bool,
    /// Whether the block has routed experts.
    pub(crate) has_experts: bool,
}

impl Block {
    /// Bytes of the projections that can move.
    pub(crate) fn movable_bytes(&self) -> u64 {
        self.groups.iter().map(|group| group.bytes).fold(0, u64::saturating_add)
    }
}

/// A model.
pub(crate) struct Model<'a> {
    pub(crate) structure: &'a Structure,
    /// Blocks by slot.
    pub(crate) blocks: Vec<Block>,
    /// Blocks that are loaded among the first, by their number.
    loaded: Vec<usize>,
    /// Tensors with the slot of the output, its copy of a tied table among them.
    pub(crate) output: Vec<usize>,
    /// Bytes of the tensors with the output.
    pub(crate) output_bytes: u64,
    /// Factors of rotary positions, of which there is a copy wherever there are blocks.
    pub(crate) rotary: Vec<usize>,
    /// Bytes of one copy of the factors.
    pub(crate) rotary_bytes: u64,
    /// Tensors that are always on the host.
    pub(crate) inputs: Vec<usize>,
    /// Bytes of the tensors that are always on the host.
    pub(crate) input_bytes: u64,
}

impl<'a> Model<'a> {
    /// Divides the tensors of a structure, in time O(tensors). `probe` is a setting with one device for all slots: what it
    /// leaves on the host is an input, and what it copies belongs to the output.
    pub(crate) fn new(structure: &'a Structure, probe: &Setting) -> Model<'a> {
        let placement = place(structure, probe);
        // Blocks that a file counts and lacks are slots as well.
        let mut blocks = vec![Block { is_prediction: true, ..Block::default() }; slot_count(structure) - 1];
        for (block, layer) in blocks.iter_mut().zip(&structure.layers) {
            block.is_prediction = layer.is_prediction;
            block.has_experts = layer.mixture.is_some();
        }
        let loaded = blocks.iter().scan(0, |count, block| {
            *count += usize::from(!block.is_prediction);
            Some(*count)
        });
        let mut model = Model {
            structure,
            loaded: std::iter::once(0).chain(loaded).collect(),
            blocks,
            output: placement.copies.iter().map(|&(index, _)| index).collect(),
            output_bytes: 0,
            rotary: Vec::new(),
            rotary_bytes: 0,
            inputs: Vec::new(),
            input_bytes: 0,
        };
        for (index, (tensor, location)) in structure.tensors.iter().zip(&placement.tensors).enumerate() {
            let Some(location) = location else { continue };
            let block = tensor.layer.and_then(|layer| usize::try_from(layer).ok());
            match block.and_then(|block| model.blocks.get_mut(block)) {
                Some(block) => block.add(index, tensor),
                None if *location == Location::Host => model.inputs.push(index),
                None if tensor.name.starts_with("rope_f") => model.rotary.push(index),
                None => model.output.push(index),
            }
        }
        let bytes = |tensors: &[usize]| {
            tensors.iter().map(|&index| structure.tensors[index].bytes).fold(0, u64::saturating_add)
        };
        model.output_bytes = bytes(&model.output);
        model.rotary_bytes = bytes(&model.rotary);
        model.input_bytes = bytes(&model.inputs);
        model
    }

    /// Number of slots: the blocks, and the output.
    pub(crate) fn slots(&self) -> usize {
        self.blocks.len() + 1
    }

    /// Whether slots are more than blocks that are not loaded.
    pub(crate) fn is_loaded(&self, slots: std::ops::Range<usize>) -> bool {
        slots.end > self.blocks.len() || self.has_blocks(slots)
    }

    /// Whether slots have blocks that are loaded.
    pub(crate) fn has_blocks(&self, slots: std::ops::Range<usize>) -> bool {
        let last = self.blocks.len();
        self.loaded[slots.end.min(last)] > self.loaded[slots.start.min(last)]
    }
}

impl Block {
    fn add(&mut self, index: usize, tensor: &stagewright_structure::Tensor) {
        let is_product = tensor.shape.len() > 1 && !matches!(tensor.role, Role::Embedding | Role::Positions);
        let name = tensor.name.split('.').nth(2).unwrap_or_default();
        let Some(&module) = EXPERTS.iter().chain(&DENSE).find(|&&module| module == name) else {
            self.has_fixed_dense |= matches!(tensor.role, Role::Gate | Role::Up | Role::GateUp | Role::Down)
                || matches!(
                    tensor.role,
                    Role::SharedGate | Role::SharedUp | Role::SharedGateUp | Role::SharedDown
                );
            self.largest_fixed = self.largest_fixed.max(if is_product { tensor.bytes } else { 0 });
            self.fixed.push(index);
            self.fixed_bytes = self.fixed_bytes.saturating_add(tensor.bytes);
            return;
        };
        let group = match self.groups.iter_mut().position(|group| group.module == module) {
            Some(position) => &mut self.groups[position],
            None => {
                let is_expert = tensor.role.is_expert();
                self.groups.push(Group { module, tensors: Vec::new(), bytes: 0, largest: 0, is_expert });
                self.groups.last_mut().expect("a group was added")
            }
        };
        group.tensors.push(index);
        group.bytes = group.bytes.saturating_add(tensor.bytes);
        if is_product {
            group.largest = group.largest.max(tensor.bytes);
        }
    }
}
