//! A path as a setting of llama.cpp.

use std::collections::BTreeMap;

use stagewright_llamacpp::setting::Pattern;
use stagewright_llamacpp::{Device, Location, Override, Placement, Setting};

use crate::chain::choices;
use crate::model::{Block, Model};
use crate::prices::Prices;
use crate::question::{DeviceKind, Question};
use crate::search::Path;
use crate::tensors::Choice;
use crate::unit::Unit;

/// Projections that are elsewhere than their slot, by slot.
pub(crate) type Moved = BTreeMap<usize, Vec<(&'static str, Location)>>;

/// The setting of a path. `micro_batch` is that of its scenario.
pub(crate) fn setting(
    question: &Question<'_>,
    prices: &Prices<'_>,
    unit: Unit,
    path: &Path,
    micro_batch: u64,
) -> Setting {
    let model = prices.model;
    let devices = devices(question, prices.kinds, path);
    let count = devices.len();
    let mut setting = question.setting(devices, micro_batch);
    setting.layers = Some((model.slots() - path.host_slots) as u64);
    if count > 1 {
        let slots = path.stages.iter().map(|stage| (stage.edge.end - stage.start.slot) as f32);
        setting.shares = slots.collect();
    }
    let mut moved = Moved::new();
    for stage in &path.stages {
        let mut chosen = choices(prices, unit, stage.start, &stage.edge);
        let first = stage.start.slot;
        earliest_first(model, first, &mut chosen);
        for (slot, choice) in (first..).zip(&chosen) {
            let away = model.blocks.get(slot).map(|block| to_host(block, choice.kept)).unwrap_or_default();
            if !away.is_empty() {
                moved.insert(slot, away);
            }
        }
    }
    setting.overrides = overrides(model, path.host_slots, moved);
    setting
}

/// The devices of a path, of each kind the first that are free.
fn devices(question: &Question<'_>, kinds: &[DeviceKind], path: &Path) -> Vec<Device> {
    let mut next = vec![0; kinds.len()];
    let member = |stage: &crate::search::Stage| {
        let kind = stage.start.kind;
        next[kind] += 1;
        question.devices[kinds[kind].members[next[kind] - 1]].clone()
    };
    path.stages.iter().map(member).collect()
}

/// The projections that a block does not keep, on the host.
pub(crate) fn to_host(block: &Block, kept: u16) -> Vec<(&'static str, Location)> {
    let groups = block.groups.iter().enumerate().filter(|(position, _)| kept >> position & 1 == 0);
    groups.map(|(_, group)| (group.module, Location::Host)).collect()
}

/// Among blocks that are alike, those that move most come first, so that `--n-cpu-moe` can say it.
fn earliest_first(model: &Model<'_>, first: usize, chosen: &mut [Choice]) {
    let (blocks, layers) = (&model.blocks, &model.structure.layers);
    let slots: Vec<usize> = (first..first + chosen.len()).filter(|&slot| slot < blocks.len()).collect();
    let is_alike = |a: usize, b: usize| {
        let alike = |a: &Block, b: &Block| {
            a.is_prediction == b.is_prediction
                && a.groups.len() == b.groups.len()
                && a.groups.iter().zip(&b.groups).all(|(a, b)| (a.module, a.bytes) == (b.module, b.bytes))
        };
        // Mixers decide how wide buffers are.
        let mixer = |slot: usize| layers.get(slot).map(|layer| &layer.mixer);
        alike(&blocks[a], &blocks[b]) && mixer(a) == mixer(b)
    };
    for (position, &slot) in slots.iter().enumerate() {
        let later = slots[position + 1..].iter().filter(|&&other| is_alike(slot, other));
        let key = |slot: usize| (chosen[slot - first].bytes, chosen[slot - first].kept);
        if let Some(&least) = later.min_by_key(|&&other| key(other)).filter(|&&other| key(other) < key(slot))
        {
            let seconds = (chosen[slot - first].seconds, chosen[least - first].seconds);
            chosen.swap(slot - first, least - first);
            (chosen[slot - first].seconds, chosen[least - first].seconds) = seconds;
        }
    }
}

/// Overrides for what is moved: `--n-cpu-moe` for the experts of the first blocks, and patterns for the rest.
pub(crate) fn overrides(model: &Model<'_>, host_slots: usize, mut moved: Moved) -> Vec<Override> {
    let mut overrides = Vec::new();
    let is_expert = |(module, location): &(&'static str, Location)| {
        module.ends_with("exps") && *location == Location::Host
    };
    let whole = |slot: usize, moved: &Moved| {
        let block = &model.blocks[slot];
        let mut experts = block.groups.iter().filter(|group| group.is_expert);
        let is_away = |group: &crate::model::Group| {
            moved.get(&slot).is_some_and(|away| away.contains(&(group.module, Location::Host)))
        };
        let is_on_host = |group| is_away(group) || (slot < host_slots && !moved.contains_key(&slot));
        !block.has_experts || experts.all(is_on_host)
    };
    let first = (0..model.blocks.len()).take_while(|&slot| whole(slot, &moved)).count();
    let moves_any = |slot: &usize| moved.get(slot).is_some_and(|away| away.iter().any(is_expert));
    if let Some(last) = (0..first).rev().find(moves_any) {
        overrides.push(Override::FirstExperts(last as u64 + 1));
        for slot in 0..=last {
            if let Some(away) = moved.get_mut(&slot) {
                away.retain(|entry| !is_expert(entry));
            }
        }
    }
    let mut by_modules: BTreeMap<(Vec<&'static str>, Location), Vec<usize>> = BTreeMap::new();
    for (slot, away) in moved {
        let mut by_target: BTreeMap<Location, Vec<&'static str>> = BTreeMap::new();
        for (module, location) in away {
            by_target.entry(location).or_default().push(module);
        }
        for (target, modules) in by_target {
            by_modules.entry((modules, target)).or_default().push(slot);
        }
    }
    let patterns =
        by_modules.into_iter().map(|((modules, target), slots)| (pattern(&slots, &modules), target));
    overrides.extend(patterns.map(|(pattern, target)| Override::Tensors { pattern, target }));
    overrides
}

fn pattern(slots: &[usize], modules: &[&str]) -> Pattern {
    let slots: Vec<String> = slots.iter().map(ToString::to_string).collect();
    let text = format!(r"blk\.({})\.({})\.", slots.join("|"), modules.join("|"));
    Pattern::new(&text).expect("names and numbers form a pattern")
}

/// The setting without a first device that has no slots; `None` if the first has some, or if overrides name devices.
pub(crate) fn without_idle_first(setting: &Setting) -> Option<Setting> {
    let is_to_device =
        |exception: &Override| matches!(exception, Override::Tensors { target: Location::Device(_), .. });
    if setting.shares.first() != Some(&0.0) || setting.overrides.iter().any(is_to_device) {
        return None;
    }
    let devices: Vec<Device> = setting.devices.iter().skip(1).cloned().collect();
    let shares = if devices.len() > 1 { setting.shares[1..].to_vec() } else { Vec::new() };
    Some(Setting { devices: devices.into(), shares, ..setting.clone() })
}

/// An override that moves nothing, since the norm of the output is where the output is. Any override ends the pipelining of
/// micro-batches and the memory that it takes.
pub(crate) fn without_effect(placement: &Placement) -> Option<Override> {
    let target = Some(placement.output()).filter(|output| *output != Location::Host)?;
    let pattern = Pattern::new(r"output_norm\.").ok()?;
    Some(Override::Tensors { pattern, target })
}
