//! Seconds and bytes of every slot on every kind of device, for one micro-batch and one first device.

use stagewright_formats::Result;
use stagewright_llamacpp::constants::{CROSSING, HOP};
use stagewright_llamacpp::memory::buffers::Held;
use stagewright_llamacpp::memory::{Cells, LARGE_BATCH, MARGIN, buffers, layer_bytes};
use stagewright_llamacpp::speed::batch_seconds;
use stagewright_llamacpp::speed::parts::{Multiplied, cache_seconds, token_seconds};
use stagewright_llamacpp::{Device, Setting};
use stagewright_structure::Structure;

use crate::model::{Block, Model};
use crate::question::{DeviceKind, Question};

/// Bytes that depend on the micro-batch alone.
pub(crate) struct Sizes {
    /// Bytes of the cache by slot; 0 for the output.
    pub(crate) caches: Vec<u64>,
    /// Bytes of the state by slot.
    states: Vec<u64>,
    /// Width of the widest layer, which the host and a device that works for it count.
    widest: u64,
    /// Widths of inputs: of the memory that has the first layer, and of the others.
    inputs: [u64; 2],
    /// Width of the output.
    output: u64,
    /// Width of the hidden state.
    hidden: u64,
    /// Bytes of masks.
    mask: u64,
    /// Tokens that buffers are made for.
    tokens: u64,
    /// Tokens of a micro-batch.
    pub(crate) micro_batch: u64,
}

impl Sizes {
    /// # Errors
    /// If the cache or the memory of a layer is not followed (L009), or the context is senseless (L007).
    pub(crate) fn new(label: &str, model: &Model<'_>, setting: &Setting) -> Result<Sizes> {
        let structure = model.structure;
        let cells = Cells::of(label, structure, setting)?;
        let tokens = cells.buffer_tokens(setting);
        let caches = (0..model.slots()).map(|slot| layer_bytes(label, structure, setting, cells, slot));
        let is_loaded = |slot: usize| model.blocks.get(slot).is_some_and(|block| !block.is_prediction);
        let state = |slot| if is_loaded(slot) { buffers::state_bytes(structure, setting, slot) } else { 0 };
        Ok(Sizes {
            caches: caches.collect::<Result<_>>()?,
            states: (0..model.slots()).map(state).collect(),
            widest: buffers::widest(structure),
            inputs: [true, false].map(|is_first| buffers::input_width(structure, 1, is_first)),
            output: structure.head.map_or(0, |_| buffers::output_width(structure)),
            hidden: structure.hidden,
            mask: buffers::mask_bytes(structure, setting, cells, tokens, 1),
            tokens,
            micro_batch: cells.micro_batch(setting),
        })
    }

    fn state(&self, slots: std::ops::Range<usize>) -> u64 {
        self.states[slots].iter().copied().max().unwrap_or(0)
    }
}

/// What one search fixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scenario {
    /// Kind of the first device, which multiplies large batches with weights of the host.
    pub(crate) first: usize,
    /// Bytes of the largest weight that may be on the host; 0 for none.
    pub(crate) largest: u64,
}

/// Movable projections that a slot on a device keeps there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    /// Projections that stay, a bit each.
    pub(crate) kept: u16,
    /// Bytes of the projections that stay.
    pub(crate) bytes: u64,
    /// Seconds of the slot.
    pub(crate) seconds: f64,
    /// Width of the buffer.
    pub(crate) width: u64,
}

/// Prices of a scenario.
pub(crate) struct Prices<'a> {
    pub(crate) model: &'a Model<'a>,
    pub(crate) sizes: &'a Sizes,
    pub(crate) kinds: &'a [DeviceKind],
    pub(crate) scenario: Scenario,
    /// Choices by kind and slot; the last one of a slot keeps all.
    pub(crate) choices: Vec<Vec<Vec<Choice>>>,
    /// Seconds of the first slots if all are on the host, by their number.
    pub(crate) host_seconds: Vec<f64>,
    /// Bytes of the first slots on the host, with their caches.
    pub(crate) host_bytes: Vec<u64>,
    /// Number of slots that the host may have.
    pub(crate) host_slots: usize,
    /// Bytes in RAM beside those of slots.
    pub(crate) base_bytes: u64,
    /// Seconds beside those of slots.
    pub(crate) base_seconds: f64,
    /// Seconds of a change from one device to another.
    pub(crate) hop: f64,
    /// Seconds of the factors of rotary positions by kind.
    rotary_seconds: Vec<f64>,
    /// Seconds of the factors of rotary positions on the host.
    host_rotary: f64,
    /// Sums of fixed bytes and caches of the first slots.
    fixed: Vec<u64>,
    /// Sums of movable bytes of the first slots.
    movable: Vec<u64>,
}

/// Seconds of single tensors under a goal.
struct Tensors<'a> {
    question: &'a Question<'a>,
    setting: &'a Setting,
    first: &'a Device,
    batches: Vec<(u64, u64)>,
}

impl<'a> Tensors<'a> {
    fn memory(&self, device: Option<&'a Device>) -> Multiplied<'a> {
        Multiplied { device, first: Some(self.first), host: self.question.host }
    }

    /// Seconds of a tensor.
    fn tensor(&self, index: usize, is_output: bool, device: Option<&'a Device>) -> f64 {
        let structure: &Structure = self.question.structure;
        let (tensor, memory) = (&structure.tensors[index], self.memory(device));
        let (count, _) = self.question.goal.generated();
        let token = match count {
            0 => 0.0,
            _ => count as f64 * token_seconds(structure, tensor, is_output, memory),
        };
        let batch = |&(count, tokens): &(u64, u64)| {
            // A device without a measured speed was refused before.
            count as f64 * batch_seconds(structure, tensor, memory, tokens).unwrap_or(f64::INFINITY)
        };
        token + self.batches.iter().map(batch).sum::<f64>()
    }

    fn tensors(&self, indices: &[usize], is_output: bool, device: Option<&'a Device>) -> f64 {
        indices.iter().map(|&index| self.tensor(index, is_output, device)).sum()
    }

    /// Seconds to read the cache of a slot.
    fn cache(&self, slot: usize, device: Option<&'a Device>) -> f64 {
        let (count, tokens) = self.question.goal.generated();
        match self.question.structure.layers.get(slot) {
            Some(layer) if count > 0 => {
                count as f64 * cache_seconds(layer, self.setting, tokens, self.memory(device))
            }
            _ => 0.0,
        }
    }

    /// Seconds of a slot on the host.
    fn host_slot(&self, model: &Model<'_>, slot: usize) -> f64 {
        let count = self.question.goal.generated().0 as f64;
        let Some(block) = model.blocks.get(slot) else { return 0.0 };
        if block.is_prediction {
            return 0.0;
        }
        let movable = block.groups.iter().flat_map(|group| &group.tensors);
        self.tensors(&block.fixed, false, None)
            + movable.map(|&index| self.tensor(index, false, None)).sum::<f64>()
            + self.cache(slot, None)
            + count * self.question.host.layer
    }

    /// Choices of a slot on a device, the one that keeps all last.
    fn choices(&self, model: &Model<'_>, slot: usize, device: &'a Device, largest: u64) -> Vec<Choice> {
        let count = self.question.goal.generated().0 as f64;
        let own = Some(device);
        let Some(block) = model.blocks.get(slot) else {
            let seconds = self.tensors(&model.output, true, own) + count * device.rates.layer;
            return vec![Choice { kept: 0, bytes: 0, seconds, width: 0 }];
        };
        if block.is_prediction {
            return vec![Choice { kept: 0, bytes: 0, seconds: 0.0, width: 0 }];
        }
        let fixed =
            self.tensors(&block.fixed, false, own) + self.cache(slot, own) + count * device.rates.layer;
        let here: Vec<f64> =
            block.groups.iter().map(|group| self.tensors(&group.tensors, false, own)).collect();
        let away: Vec<f64> =
            block.groups.iter().map(|group| self.tensors(&group.tensors, false, None)).collect();
        let all = (1_u16 << block.groups.len()) - 1;
        let mut choices: Vec<Choice> = (0..=all)
            .filter(|kept| is_allowed(block, *kept, largest))
            .map(|kept| {
                let is_kept = |position: usize| kept >> position & 1 == 1;
                let groups = block.groups.iter().enumerate();
                let moved = groups
                    .map(|(position, _)| if is_kept(position) { here[position] } else { away[position] });
                let mut groups = block.groups.iter().enumerate();
                let has_experts = groups.any(|(position, group)| group.is_expert && is_kept(position));
                let crossing = if kept == all { 0.0 } else { CROSSING };
                let routing = if has_experts { device.rates.expert_layer } else { 0.0 };
                Choice {
                    kept,
                    bytes: kept_bytes(block, kept),
                    seconds: fixed + moved.sum::<f64>() + count * (crossing + routing),
                    width: buffers::layer_width(self.question.structure, slot, held(block, kept)),
                }
            })
            .collect();
        drop_dominated(&mut choices);
        choices
    }
}

/// Parts of a block that a memory has if it keeps some projections.
fn held(block: &Block, kept: u16) -> Held {
    let all = (1_u16 << block.groups.len()) - 1;
    let keeps = |is_expert: bool| {
        let mut groups = block.groups.iter().enumerate();
        groups.any(|(position, group)| group.is_expert == is_expert && kept >> position & 1 == 1)
    };
    Held {
        mixer: true,
        dense: block.has_fixed_dense || keeps(false),
        experts: keeps(true),
        away: kept != all,
    }
}

/// Whether no projection that is away is larger than allowed.
fn is_allowed(block: &Block, kept: u16, largest: u64) -> bool {
    block
        .groups
        .iter()
        .enumerate()
        .all(|(position, group)| kept >> position & 1 == 1 || group.largest <= largest)
}

/// Bytes of projections.
pub(crate) fn kept_bytes(block: &Block, kept: u16) -> u64 {
    let groups = block.groups.iter().enumerate();
    groups.map(|(position, group)| u64::from(kept >> position & 1) * group.bytes).sum()
}

/// Drops choices of the same bytes that are no better. Others stay even if they are slower with more bytes, which RAM may
/// lack.
fn drop_dominated(choices: &mut Vec<Choice>) {
    choices.sort_by(|a, b| (a.bytes, a.width).cmp(&(b.bytes, b.width)).then(a.seconds.total_cmp(&b.seconds)));
    let mut kept: Vec<Choice> = Vec::new();
    for choice in choices.drain(..) {
        let is_better = |other: &Choice| {
            other.bytes == choice.bytes && other.width <= choice.width && other.seconds <= choice.seconds
        };
        if !kept.iter().any(is_better) {
            kept.push(choice);
        }
    }
    *choices = kept;
}

impl<'a> Prices<'a> {
    pub(crate) fn new(
        question: &Question<'_>,
        setting: &Setting,
        model: &'a Model<'a>,
        sizes: &'a Sizes,
        kinds: &'a [DeviceKind],
        scenario: Scenario,
    ) -> Prices<'a> {
        let first = &kinds[scenario.first].device;
        let batches = question.goal.batches(setting.micro_batch.min(setting.batch));
        let tensors = Tensors { question, setting, first, batches };
        let slots = model.slots();
        let choices = kinds.iter().map(|kind| {
            let of_slot = |slot| tensors.choices(model, slot, &kind.device, scenario.largest);
            (0..slots).map(of_slot).collect()
        });
        let is_loaded = |slot: usize| model.blocks.get(slot).is_some_and(|block| !block.is_prediction);
        let held = |slot: usize| {
            let block = model.blocks.get(slot).filter(|_| is_loaded(slot));
            block.map_or([0, 0], |block| {
                [block.fixed_bytes.saturating_add(sizes.caches[slot]), block.movable_bytes()]
            })
        };
        let fixed = sums((0..slots).map(|slot| held(slot)[0]));
        let movable = sums((0..slots).map(|slot| held(slot)[1]));
        let blocks = model.blocks.iter();
        let host_slots =
            blocks.take_while(|block| block.is_prediction || block.largest <= scenario.largest).count();
        let mut host_seconds = vec![0.0];
        for slot in 0..model.blocks.len() {
            host_seconds.push(host_seconds[slot] + tensors.host_slot(model, slot));
        }
        Prices {
            choices: choices.collect(),
            host_bytes: fixed
                .iter()
                .zip(&movable)
                .map(|(fixed, movable)| fixed.saturating_add(*movable))
                .collect(),
            host_seconds,
            host_slots,
            base_bytes: model.input_bytes,
            base_seconds: tensors.tensors(&model.inputs, false, None),
            rotary_seconds: kinds
                .iter()
                .map(|kind| tensors.tensors(&model.rotary, false, Some(&kind.device)))
                .collect(),
            host_rotary: tensors.tensors(&model.rotary, false, None),
            hop: question.goal.generated().0 as f64 * HOP,
            fixed,
            movable,
            model,
            sizes,
            kinds,
            scenario,
        }
    }

    /// Bytes that slots on a device leave for movable projections, if its buffer is no wider than `width`; `None` if they do not fit.
    pub(crate) fn room(
        &self,
        kind: usize,
        slots: std::ops::Range<usize>,
        is_first: bool,
        width: u64,
    ) -> Option<u64> {
        let (device, model, sizes) = (&self.kinds[kind].device, self.model, self.sizes);
        let is_last = slots.end == model.slots();
        let helps = is_first && copies(device, sizes.micro_batch) && self.scenario.largest > 0;
        let (start, end) = (slots.start, slots.end);
        let has_blocks = model.has_blocks(slots.clone());
        let layers = match (helps, has_blocks) {
            (true, _) => sizes.widest,
            (false, true) => width,
            (false, false) => 0,
        };
        let layers = layers.max(if is_last { 3 * sizes.hidden } else { 0 });
        let layers = layers.saturating_add(sizes.inputs[usize::from(start > 0)]);
        let output = if is_last { sizes.output } else { 0 };
        let states = if helps { sizes.state(0..model.slots()) } else { sizes.state(slots) };
        let mask = if helps || has_blocks { sizes.mask } else { 0 };
        let parts = [
            device.context_bytes(),
            MARGIN,
            self.fixed[end] - self.fixed[start],
            if is_last { model.output_bytes } else { 0 },
            if has_blocks { model.rotary_bytes } else { 0 },
            buffers::buffer_bytes(layers.max(output), sizes.tokens, mask, states),
            if helps { self.scenario.largest } else { 0 },
        ];
        device.memory.checked_sub(parts.into_iter().fold(0, u64::saturating_add))
    }

    /// Bytes of movable projections of slots.
    pub(crate) fn movable(&self, slots: std::ops::Range<usize>) -> u64 {
        self.movable[slots.end] - self.movable[slots.start]
    }

    /// Bytes in RAM beside projections that are moved there, if the host has the first slots.
    pub(crate) fn ram(&self, host_slots: usize) -> u64 {
        let sizes = self.sizes;
        let has_blocks = self.model.has_blocks(0..host_slots);
        let rotary = if has_blocks { self.model.rotary_bytes } else { 0 };
        let has_layers = has_blocks || self.scenario.largest > 0;
        let inputs = sizes.inputs[usize::from(host_slots == 0)];
        let layers = if has_layers { sizes.widest.saturating_add(inputs) } else { 0 };
        let states = if has_layers { sizes.state(0..self.model.slots()) } else { 0 };
        let buffer = buffers::buffer_bytes(layers.max(2 * sizes.hidden), sizes.tokens, sizes.mask, states);
        let parts = [self.host_bytes[host_slots], rotary, buffer, MARGIN];
        parts.into_iter().fold(self.base_bytes, u64::saturating_add)
    }

    /// Seconds of the factors of rotary positions where slots have blocks.
    pub(crate) fn rotary(&self, kind: Option<usize>, slots: std::ops::Range<usize>) -> f64 {
        match kind {
            _ if !self.model.has_blocks(slots) => 0.0,
            Some(kind) => self.rotary_seconds[kind],
            None => self.host_rotary,
        }
    }
}

/// Whether room for copies of weights of the host is needed on a device that is the first.
pub(crate) fn copies(device: &Device, micro_batch: u64) -> bool {
    device.class.is_cuda() && micro_batch >= LARGE_BATCH
}

/// Sums of the first values, from none to all.
fn sums(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut sums = vec![0_u64];
    for value in values {
        sums.push(sums[sums.len() - 1].saturating_add(value));
    }
    sums
}
