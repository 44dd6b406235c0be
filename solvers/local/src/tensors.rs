//! Seconds of single tensors and of slots under a goal, wherever they are.

use stagewright_llamacpp::constants::{CROSSING, HOP};
use stagewright_llamacpp::memory::buffers;
use stagewright_llamacpp::memory::buffers::Held;
use stagewright_llamacpp::speed::batch_seconds;
use stagewright_llamacpp::speed::parts::{Multiplied, cache_seconds, token_seconds};
use stagewright_llamacpp::{Device, Setting};

use crate::guests::Guests;
use crate::model::{Block, Group, Model};
use crate::question::{DeviceKind, Question};

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

/// Seconds of tensors.
pub(crate) struct Tensors<'a> {
    question: &'a Question<'a>,
    setting: &'a Setting,
    first: &'a Device,
    batches: Vec<(u64, u64)>,
    /// Kinds of devices.
    kinds: &'a [DeviceKind],
    /// Bytes of the largest weight that may be on the host.
    largest: u64,
    /// What memories ask for projections of other slots; `None` if only the host has them.
    guests: Option<&'a Guests>,
}

/// Seconds of a projection elsewhere than its slot, infinite where it may not be.
#[derive(Debug, Clone, Copy)]
struct Away {
    /// On the host.
    host: f64,
    /// On the best device.
    device: f64,
}

impl<'a> Tensors<'a> {
    pub(crate) fn new(question: &'a Question<'a>, setting: &'a Setting, first: &'a Device) -> Tensors<'a> {
        let batches = question.goal.batches(setting.micro_batch.min(setting.batch));
        Tensors { question, setting, first, batches, kinds: &[], largest: u64::MAX, guests: None }
    }

    /// With the kinds of devices, the largest weight that may be on the host, and what memories ask for guests.
    pub(crate) fn with(
        self,
        kinds: &'a [DeviceKind],
        largest: u64,
        guests: Option<&'a Guests>,
    ) -> Tensors<'a> {
        Tensors { kinds, largest, guests, ..self }
    }

    /// Tokens whose generation counts.
    pub(crate) fn count(&self) -> f64 {
        self.question.goal.generated().0 as f64
    }

    fn memory(&self, device: Option<&'a Device>) -> Multiplied<'a> {
        Multiplied { device, first: Some(self.first), host: self.question.host }
    }

    /// Seconds of a tensor.
    fn tensor(&self, index: usize, is_output: bool, device: Option<&'a Device>) -> f64 {
        let structure = self.question.structure;
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

    /// Seconds of tensors on a device, or on the host. `is_output` says whether they are where the output is.
    pub(crate) fn tensors(&self, indices: &[usize], is_output: bool, device: Option<&'a Device>) -> f64 {
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

    /// Seconds of a projection on the host, and on the device that is best for a slot on a kind of device or on the host.
    fn away(&self, group: &Group, own: Option<usize>) -> Away {
        let bytes = group.bytes as f64;
        let ram = self.guests.map_or(0.0, |guests| guests.ram * bytes);
        let host = match group.largest <= self.largest {
            true => self.tensors(&group.tensors, false, None) + ram,
            false => f64::INFINITY,
        };
        let device = self.guests.map_or(f64::INFINITY, |guests| {
            let others = self.kinds.iter().enumerate();
            let others = others.filter(|(kind, known)| own != Some(*kind) || known.members.len() > 1);
            let seconds = others.map(|(kind, known)| {
                self.tensors(&group.tensors, false, Some(&known.device)) + guests.rates[kind] * bytes
            });
            seconds.fold(f64::INFINITY, f64::min)
        });
        Away { host, device }
    }

    /// The fewest seconds of projections that a slot does not keep, a bit each: on the host, at `crossing` seconds a slot, or on
    /// other devices, at two changes of device a slot.
    fn fewest(&self, away: &[Away], rest: u16, crossing: f64) -> f64 {
        if rest == 0 {
            return 0.0;
        }
        let back = 2.0 * self.count() * HOP;
        let sum = |seconds: fn(&Away) -> f64| -> f64 {
            let rest = away.iter().enumerate().filter(|(position, _)| rest >> position & 1 == 1);
            rest.map(|(_, away)| seconds(away)).sum()
        };
        let on_host = crossing + sum(|away| away.host);
        let on_devices = back + sum(|away| away.device);
        on_host.min(on_devices).min(back + crossing + sum(|away| away.host.min(away.device)))
    }

    /// Seconds of a slot on the host, infinite if it may not be there.
    pub(crate) fn host_slot(&self, model: &Model<'_>, slot: usize) -> f64 {
        let Some(block) = model.blocks.get(slot) else { return 0.0 };
        if block.is_prediction {
            return 0.0;
        }
        if block.largest_fixed > self.largest {
            return f64::INFINITY;
        }
        let away: Vec<Away> = block.groups.iter().map(|group| self.away(group, None)).collect();
        self.tensors(&block.fixed, false, None)
            + self.fewest(&away, all_kept(block), 0.0)
            + self.cache(slot, None)
            + self.count() * self.question.host.layer
    }

    /// Choices of a slot on a kind of device, the one that keeps all last.
    pub(crate) fn choices(&self, model: &Model<'_>, slot: usize, kind: usize) -> Vec<Choice> {
        let device: &'a Device = &self.kinds[kind].device;
        let (count, own) = (self.count(), Some(device));
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
        let away: Vec<Away> = block.groups.iter().map(|group| self.away(group, Some(kind))).collect();
        let all = all_kept(block);
        let mut choices: Vec<Choice> = (0..=all)
            .map(|kept| {
                let is_kept = |position: &usize| kept >> position & 1 == 1;
                let stays = (0..here.len()).filter(is_kept).map(|position| here[position]);
                let has_experts =
                    (0..here.len()).filter(is_kept).any(|position| block.groups[position].is_expert);
                let routing = if has_experts { count * device.rates.expert_layer } else { 0.0 };
                let rest = self.fewest(&away, all & !kept, count * CROSSING);
                Choice {
                    kept,
                    bytes: kept_bytes(block, kept),
                    seconds: fixed + stays.sum::<f64>() + routing + rest,
                    width: buffers::layer_width(self.question.structure, slot, held(block, kept)),
                }
            })
            .filter(|choice| choice.seconds.is_finite())
            .collect();
        drop_dominated(&mut choices);
        choices
    }

    /// The highest price a byte at which a kind of device would be sent projections, if else they are on the host, and if else they
    /// are on their own device: above it, sending costs more.
    pub(crate) fn highest_rates(&self, model: &Model<'_>, kind: usize) -> [f64; 2] {
        let back = 2.0 * self.count() * HOP;
        let mut highest = [0.0_f64; 2];
        for block in &model.blocks {
            let on = |device: Option<&'a Device>| -> Vec<f64> {
                block.groups.iter().map(|group| self.tensors(&group.tensors, false, device)).collect()
            };
            let (there, host) = (on(Some(&self.kinds[kind].device)), on(None));
            let homes = self
                .kinds
                .iter()
                .map(|home| (on(Some(&home.device)), self.count() * home.device.rates.expert_layer));
            let homes: Vec<(Vec<f64>, f64)> = homes.collect();
            for sent in 1..=all_kept(block) {
                let bytes = kept_bytes(block, sent).max(1) as f64;
                let gain = |elsewhere: &[f64], extra: f64| {
                    let sent = (0..there.len()).filter(|position| sent >> position & 1 == 1);
                    let gain: f64 = sent.map(|position| elsewhere[position] - there[position]).sum();
                    (gain + extra - back) / bytes
                };
                highest[0] = highest[0].max(gain(&host, self.count() * CROSSING));
                for (own, routing) in &homes {
                    highest[1] = highest[1].max(gain(own, *routing));
                }
            }
        }
        highest
    }
}

/// All projections of a block, a bit each.
fn all_kept(block: &Block) -> u16 {
    (1_u16 << block.groups.len()) - 1
}

/// Parts of a block that a memory has if it keeps some projections.
fn held(block: &Block, kept: u16) -> Held {
    let keeps = |is_expert: bool| {
        let mut groups = block.groups.iter().enumerate();
        groups.any(|(position, group)| group.is_expert == is_expert && kept >> position & 1 == 1)
    };
    Held {
        mixer: true,
        dense: block.has_fixed_dense || keeps(false),
        experts: keeps(true),
        away: kept != all_kept(block),
    }
}

/// Bytes of projections.
fn kept_bytes(block: &Block, kept: u16) -> u64 {
    let groups = block.groups.iter().enumerate();
    let bytes = groups.map(|(position, group)| u64::from(kept >> position & 1) * group.bytes);
    bytes.fold(0, u64::saturating_add)
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
