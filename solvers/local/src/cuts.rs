//! Cuts for plans with projections on any device, by local search.
//!
//! Given an order of devices and the slots of each, projections fill them greedily (module `moves`). Here the slots are chosen:
//! first the host has none, an eighth, and so on, and devices share the rest by memory; then a slot or several go over a cut as
//! long as that makes the plan faster. It finds plans whose caches are on the host and whose projections are on devices, which
//! pay where a long context is mostly empty.

use stagewright_core::solver::Stop;
use stagewright_formats::Result;
use stagewright_llamacpp::Device;

use crate::Plan;
use crate::model::Model;
use crate::moves;
use crate::plan::{Moved, to_host};
use crate::question::Question;

/// Parts of the slots that the host has to begin with.
const PARTS: usize = 8;

/// Slots that go over a cut at once.
const STEPS: [usize; 4] = [8, 4, 2, 1];

/// Limit of the devices whose orders are all tried.
const MOST_DEVICES: usize = 3;

/// A search with one micro-batch.
pub(crate) struct Cuts<'a> {
    pub(crate) label: &'a str,
    pub(crate) question: &'a Question<'a>,
    pub(crate) model: &'a Model<'a>,
    pub(crate) micro_batch: u64,
    pub(crate) stop: &'a Stop,
}

impl Cuts<'_> {
    /// The fastest plan that is found; `None` if there is none.
    ///
    /// # Errors
    /// If the memory of the model is not followed (L007, L009).
    pub(crate) fn run(&self) -> Result<Option<Plan>> {
        let slots = self.model.slots();
        let mut best: Option<(Plan, Vec<Device>, Vec<usize>)> = None;
        for order in orders(self.question.devices) {
            for part in 0..=PARTS {
                if self.stop.reason().is_some() {
                    return Ok(best.map(|best| best.0));
                }
                let host_slots = (slots - 1) * part / PARTS;
                let cuts = by_memory(&order, host_slots, slots - host_slots);
                let found = self.filled(&order, &cuts)?;
                let is_better =
                    |found: &Plan| best.as_ref().is_none_or(|best| found.seconds < best.0.seconds);
                if let Some(found) = found.filter(is_better) {
                    best = Some((found, order.clone(), cuts));
                }
            }
        }
        let Some((mut plan, order, mut cuts)) = best else { return Ok(None) };
        for step in STEPS {
            while let Some((better, next)) = self.shifted(&plan, &order, &cuts, step)? {
                (plan, cuts) = (better, next);
            }
        }
        Ok(Some(plan))
    }

    /// A faster plan with slots shifted over one cut.
    fn shifted(
        &self,
        plan: &Plan,
        order: &[Device],
        cuts: &[usize],
        step: usize,
    ) -> Result<Option<(Plan, Vec<usize>)>> {
        for giver in 0..cuts.len() {
            for taker in 0..cuts.len() {
                let mut next = cuts.to_vec();
                // The output stays on a device.
                let is_last_of_all = cuts[1..].iter().sum::<usize>() <= step && taker == 0;
                if giver == taker || next[giver] < step || is_last_of_all {
                    continue;
                }
                next[giver] -= step;
                next[taker] += step;
                if self.stop.reason().is_some() {
                    return Ok(None);
                }
                let found = self.filled(order, &next)?.filter(|found| found.seconds < plan.seconds);
                if let Some(found) = found {
                    return Ok(Some((found, next)));
                }
            }
        }
        Ok(None)
    }

    /// A plan with slots of the host and of each device, filled greedily.
    fn filled(&self, order: &[Device], cuts: &[usize]) -> Result<Option<Plan>> {
        let host_slots = cuts[0];
        let mut setting = self.question.setting(order.to_vec(), self.micro_batch);
        setting.layers = Some((self.model.slots() - host_slots) as u64);
        setting.shares = cuts[1..].iter().map(|&slots| slots as f32).collect();
        let blocks = self.model.blocks.iter().enumerate().skip(host_slots);
        let moved: Moved = blocks
            .filter(|(_, block)| !block.is_prediction && !block.groups.is_empty())
            .map(|(slot, block)| (slot, to_host(block, 0)))
            .collect();
        moves::improve(self.label, self.question, self.model, setting, Some(&moved), 0, self.stop)
    }
}

/// Slots of the host and of each device, by memory.
fn by_memory(order: &[Device], host_slots: usize, slots: usize) -> Vec<usize> {
    let free = |device: &Device| device.memory.saturating_sub(device.context_bytes()) as f64;
    let total: f64 = order.iter().map(free).sum();
    let (mut sum, mut given) = (0.0, 0);
    let mut cuts = vec![host_slots];
    for device in order {
        sum += free(device) / total.max(1.0);
        let end = ((sum * slots as f64).round() as usize).clamp(given, slots);
        cuts.push(end - given);
        given = end;
    }
    if let Some(last) = cuts.last_mut() {
        *last += slots - given;
    }
    cuts
}

/// All orders of a few devices, of which those that are alike count once; else the given order.
fn orders(devices: &[Device]) -> Vec<Vec<Device>> {
    if devices.len() > MOST_DEVICES {
        return vec![devices.to_vec()];
    }
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in devices {
        let longer = all.into_iter().flat_map(|order| {
            let rest: Vec<usize> = (0..devices.len()).filter(|index| !order.contains(index)).collect();
            rest.into_iter().map(move |index| order.iter().copied().chain([index]).collect())
        });
        all = longer.collect();
    }
    let named = |order: Vec<usize>| order.into_iter().map(|index| devices[index].clone()).collect();
    let mut all: Vec<Vec<Device>> = all.into_iter().map(named).collect();
    let nameless = |order: &[Device]| -> Vec<Device> {
        order
            .iter()
            .map(|device| Device { name: String::new(), buffer: String::new(), ..device.clone() })
            .collect()
    };
    let mut seen: Vec<Vec<Device>> = Vec::new();
    all.retain(|order| {
        let known = nameless(order);
        let is_new = !seen.contains(&known);
        seen.push(known);
        is_new
    });
    all
}
