//! Seconds and bytes of every slot on every kind of device, for one micro-batch and one first device.

use stagewright_formats::Result;
use stagewright_llamacpp::constants::HOP;
use stagewright_llamacpp::memory::{Cells, LARGE_BATCH, MARGIN, buffers, layer_bytes};
use stagewright_llamacpp::{Device, Setting};

use crate::guests::Guests;
use crate::model::Model;
use crate::question::{DeviceKind, Question};
use crate::tensors::{Choice, Tensors};
use crate::unit::Unit;

/// Bytes that depend on the micro-batch alone.
pub(crate) struct Sizes {
    /// Bytes of the cache by slot; 0 for the output.
    pub(crate) caches: Vec<u64>,
    /// Bytes of the state by slot.
    states: Vec<u64>,
    /// Bytes of the largest state.
    largest_state: u64,
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
        let states: Vec<u64> = (0..model.slots()).map(state).collect();
        Ok(Sizes {
            caches: caches.collect::<Result<_>>()?,
            largest_state: states.iter().copied().max().unwrap_or(0),
            states,
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
        if self.largest_state == 0 {
            return 0;
        }
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

/// Prices of a scenario.
pub(crate) struct Prices<'a> {
    pub(crate) model: &'a Model<'a>,
    pub(crate) sizes: &'a Sizes,
    pub(crate) kinds: &'a [DeviceKind],
    pub(crate) scenario: Scenario,
    /// Choices by kind and slot; the last one of a slot keeps all.
    pub(crate) choices: Vec<Vec<Vec<Choice>>>,
    /// Seconds of the first slots if all are on the host, by their number.
    host_seconds: Vec<f64>,
    /// Bytes of the first slots on the host, with their caches.
    pub(crate) host_bytes: Vec<u64>,
    /// Number of slots that the host may have.
    pub(crate) host_slots: usize,
    /// Bytes in RAM beside those of slots.
    pub(crate) base_bytes: u64,
    /// Seconds beside those of slots.
    base_seconds: f64,
    /// Seconds of a change from one device to another.
    pub(crate) hop: f64,
    /// Seconds of the factors of rotary positions by kind.
    rotary_seconds: Vec<f64>,
    /// Seconds of the factors of rotary positions on the host.
    host_rotary: f64,
    /// Seconds of the output on the host.
    pub(crate) host_output: f64,
    /// Bytes of RAM.
    memory: u64,
    /// Sums of fixed bytes and caches of the first slots.
    fixed: Vec<u64>,
    /// Sums of movable bytes of the first slots.
    movable: Vec<u64>,
    /// What other devices and RAM ask for projections; `None` if projections are with their slot or on the host.
    pub(crate) guests: Option<Guests>,
}

impl<'a> Prices<'a> {
    pub(crate) fn new(
        question: &Question<'_>,
        setting: &Setting,
        model: &'a Model<'a>,
        sizes: &'a Sizes,
        kinds: &'a [DeviceKind],
        scenario: Scenario,
        guests: Option<Guests>,
    ) -> Prices<'a> {
        let first = &kinds[scenario.first].device;
        let tensors = Tensors::new(question, setting, first);
        let tensors = tensors.with(kinds, scenario.largest, guests.as_ref());
        let slots = model.slots();
        let choices = (0..kinds.len()).map(|kind| {
            let of_slot = |slot| tensors.choices(model, slot, kind);
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
        let mut host_seconds = vec![0.0];
        for slot in 0..model.blocks.len() {
            host_seconds.push(host_seconds[slot] + tensors.host_slot(model, slot));
        }
        let host_slots = host_seconds.iter().take_while(|seconds| seconds.is_finite()).count() - 1;
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
            memory: question.host.memory,
            host_output: tensors.tensors(&model.output, true, None) + tensors.count() * question.host.layer,
            fixed,
            movable,
            guests,
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
        let layers = layers.saturating_add(sizes.inputs[usize::from(start > 0 || slots.is_empty())]);
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

    /// Bytes that a first device without slots leaves, which multiplies large batches in place of the others; `None` if there are no
    /// such batches or it has no room. `start` is the first slot that is not on the host.
    pub(crate) fn idle_room(&self, start: usize) -> Option<u64> {
        let device = &self.kinds[self.scenario.first].device;
        match self.sizes.micro_batch >= LARGE_BATCH && self.scenario.largest > 0 {
            true if copies(device, self.sizes.micro_batch) => {
                self.room(self.scenario.first, start..start, true, 0)
            }
            true => device.memory.checked_sub(device.context_bytes().saturating_add(MARGIN)),
            false => None,
        }
    }

    /// Seconds that a kind of device earns for free bytes, with whole projections of `unit` or with parts of some.
    pub(crate) fn earned(&self, kind: usize, free: u64, unit: Option<Unit>) -> f64 {
        match (&self.guests, unit) {
            (None, _) => 0.0,
            (Some(guests), Some(unit)) => {
                guests.earned(kind, usize::try_from(free / unit.bytes).unwrap_or(usize::MAX))
            }
            (Some(guests), None) => guests.earned_by_parts(kind, free as f64),
        }
    }

    /// Seconds that a device of each kind earns without slots, with whole projections of `unit` or with parts of some.
    pub(crate) fn earned_idle(&self, unit: Option<Unit>) -> Vec<f64> {
        let free = |device: &Device| device.memory.saturating_sub(device.context_bytes() + MARGIN);
        let kinds = self.kinds.iter().enumerate();
        kinds.map(|(kind, known)| self.earned(kind, free(&known.device), unit)).collect()
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

    /// Seconds of everything before the first device, if the host has as many slots, and of RAM at its price.
    pub(crate) fn before(&self, host_slots: usize) -> f64 {
        let ram = self.guests.as_ref().map_or(0.0, |guests| {
            // Projections are priced one by one.
            let bytes = self.ram(host_slots) - self.movable(0..host_slots);
            guests.ram * (bytes as f64 - self.memory as f64)
        });
        self.base_seconds + self.host_seconds[host_slots] + self.rotary(None, 0..host_slots) + ram
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
fn copies(device: &Device, micro_batch: u64) -> bool {
    device.class.is_cuda() && micro_batch >= LARGE_BATCH
}

/// First devices with the largest weights that may be on the host.
pub(crate) fn scenarios_of(
    question: &Question<'_>,
    model: &Model<'_>,
    kinds: &[DeviceKind],
    sizes: &Sizes,
) -> Vec<Scenario> {
    let mut largest: Vec<u64> = model.blocks.iter().map(|block| block.largest_fixed).collect();
    largest.extend(model.blocks.iter().flat_map(|block| block.groups.iter().map(|group| group.largest)));
    largest.push(0);
    largest.sort_unstable();
    largest.dedup();
    let of_kind = |(first, kind): (usize, &DeviceKind)| {
        let largest = match copies(&kind.device, sizes.micro_batch) {
            _ if question.has_one_memory() => vec![0],
            true => largest.clone(),
            false => vec![0, u64::MAX],
        };
        largest.into_iter().map(move |largest| Scenario { first, largest })
    };
    kinds.iter().enumerate().flat_map(of_kind).collect()
}

/// Sums of the first values, from none to all.
fn sums(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut sums = vec![0_u64];
    for value in values {
        sums.push(sums[sums.len() - 1].saturating_add(value));
    }
    sums
}
