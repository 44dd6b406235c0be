//! Moves of projections to devices that do not have their layer.
//!
//! A plan without them leaves room on a device that is too small for another layer and large enough for a projection. Each
//! move gives a device the projections of one more layer that save most, twice a change of device included, as long as that
//! makes the plan faster.

use stagewright_core::solver::Stop;
use stagewright_formats::Result;
use stagewright_llamacpp::constants::HOP;
use stagewright_llamacpp::memory::{MARGIN, Memory};
use stagewright_llamacpp::{Device, DeviceId, Location, Override, Placement, Setting, place};

use crate::Plan;
use crate::model::Model;
use crate::plan::{Moved, overrides, without_effect};
use crate::question::Question;
use crate::tensors::Tensors;

/// Moves that are tried before a plan is left as it is.
const MOST_TRIALS: usize = 8;

/// Projections of layers that are alike, to a device.
struct Move {
    /// Layers, of which as many are moved as fit.
    slots: Vec<usize>,
    /// A bit for each projection.
    projections: u16,
    target: DeviceId,
    /// Seconds that it saves a byte.
    density: f64,
}

/// The fastest plan by moves from a setting, on its devices and then on others; `None` if none fits. Projections are where the
/// overrides of the setting say, or else where `moved` says. What is on the host may be larger than `largest` and too much for
/// RAM, as long as the moves mend that.
///
/// # Errors
/// If the memory of the model is not followed (L007, L009).
pub(crate) fn improve(
    label: &str,
    question: &Question<'_>,
    model: &Model<'_>,
    setting: Setting,
    moved: Option<&Moved>,
    largest: u64,
    stop: &Stop,
) -> Result<Option<Plan>> {
    let given = moved.is_none().then(|| elsewhere(model, &place(question.structure, &setting)));
    let mut setting = setting;
    // Overrides of a rule may move more than projections, which go back to their slots.
    let is_overridden = !std::mem::take(&mut setting.overrides).is_empty();
    let mut placement = place(question.structure, &setting);
    if is_overridden {
        setting.overrides = vec![Override::AllExperts];
    }
    for (&slot, away) in moved.or(given.as_ref()).into_iter().flatten() {
        for (position, group) in model.blocks[slot].groups.iter().enumerate() {
            if let Some((_, location)) = away.iter().find(|known| known.0 == group.module) {
                put(model, &mut placement, slot, position, *location);
            }
        }
    }
    let mut best = None;
    let moving = Moving { label, question, model, largest, stop };
    let Some(mut plan) = moving.judged(setting, placement)? else { return Ok(None) };
    moving.run(&mut plan, &mut best)?;
    for device in question.devices {
        if plan.setting.devices.iter().any(|known| known.name == device.name) {
            continue;
        }
        let wider = with_device(&plan.setting, device);
        let Some(mut wider) = moving.judged(wider, plan.placement.clone())? else { continue };
        let seconds = wider.seconds;
        moving.run(&mut wider, &mut best)?;
        if wider.seconds < seconds {
            plan = wider;
        }
    }
    best.map_or(Ok(None), |best| moving.written(best))
}

/// A setting with one more device, which has no slots.
fn with_device(setting: &Setting, device: &Device) -> Setting {
    let mut shares = setting.shares.clone();
    if shares.is_empty() {
        shares = vec![1.0; setting.devices.len()];
    }
    shares.push(0.0);
    let devices: Vec<Device> = setting.devices.iter().chain([device]).cloned().collect();
    // Without devices all slots are on the host.
    let layers = if setting.devices.is_empty() { Some(0) } else { setting.layers };
    Setting { devices: devices.into(), shares, layers, ..setting.clone() }
}

/// What moves have in common. Their plans have no overrides but [`Override::AllExperts`], if any projection is elsewhere than its
/// slot: patterns take long to match.
struct Moving<'a> {
    label: &'a str,
    question: &'a Question<'a>,
    model: &'a Model<'a>,
    largest: u64,
    stop: &'a Stop,
}

/// Puts a projection somewhere.
fn put(model: &Model<'_>, placement: &mut Placement, slot: usize, position: usize, location: Location) {
    for &tensor in &model.blocks[slot].groups[position].tensors {
        placement.tensors[tensor] = Some(location);
    }
}

impl Moving<'_> {
    /// A plan that fits its devices once no larger weight is on the host than may be.
    fn judged(&self, mut setting: Setting, placement: Placement) -> Result<Option<Plan>> {
        let structure = self.question.structure;
        if !setting.overrides.is_empty() || !elsewhere(self.model, &placement).is_empty() {
            setting.overrides = vec![Override::AllExperts];
        }
        let memory = Memory::of(self.label, structure, &setting, &placement)?;
        let seconds = self.question.goal.seconds(structure, &setting, &placement, self.question.host);
        let plan = seconds.map(|seconds| Plan { setting, placement, memory, seconds });
        let fits = |plan: &Plan| {
            let devices = plan.setting.devices.enumerate();
            devices.into_iter().all(|(id, device)| self.taken(plan, id) <= device.memory)
        };
        Ok(plan.filter(fits))
    }

    /// The plan with the overrides that say where its projections are.
    fn written(&self, plan: Plan) -> Result<Option<Plan>> {
        let host_slots = plan.placement.slots.iter().take_while(|slot| **slot == Location::Host).count();
        let mut setting = plan.setting;
        let any = !setting.overrides.is_empty();
        setting.overrides = overrides(self.model, host_slots, elsewhere(self.model, &plan.placement));
        if any && setting.overrides.is_empty() {
            setting.overrides.extend(without_effect(&plan.placement));
        }
        let found = Plan::of(self.label, self.question, setting)?;
        debug_assert!(
            found.as_ref().is_some_and(|found| found.placement == plan.placement),
            "overrides say it"
        );
        Ok(found)
    }

    /// Bytes that a device must have.
    fn taken(&self, plan: &Plan, id: DeviceId) -> u64 {
        let bytes = &plan.memory.devices[id];
        bytes.total() - bytes.copies + bytes.copies.min(self.largest) + MARGIN
    }

    /// Moves until none is left, and keeps the fastest plan that fits.
    fn run(&self, plan: &mut Plan, best: &mut Option<Plan>) -> Result<()> {
        loop {
            let fits = plan.memory.shortfalls(&plan.setting, self.question.host).is_empty();
            if fits && best.as_ref().is_none_or(|best| plan.seconds < best.seconds) {
                *best = Some(plan.clone());
            }
            match self.moved(plan)? {
                Some(faster) if self.stop.reason().is_none() => *plan = faster,
                _ => return Ok(()),
            }
        }
    }

    /// A plan with one more move; `None` if none makes it faster.
    fn moved(&self, plan: &Plan) -> Result<Option<Plan>> {
        let mut moves = self.moves(plan);
        moves.sort_by(|a, b| b.density.total_cmp(&a.density));
        for chosen in moves.iter().take(MOST_TRIALS) {
            let mut count = chosen.slots.len();
            while count > 0 {
                let mut placement = plan.placement.clone();
                for &slot in &chosen.slots[..count] {
                    let positions = 0..self.model.blocks[slot].groups.len();
                    for position in positions.filter(|position| chosen.projections >> position & 1 == 1) {
                        put(self.model, &mut placement, slot, position, Location::Device(chosen.target));
                    }
                }
                let found = self.judged(plan.setting.clone(), placement)?;
                let found = found.filter(|found| found.seconds < plan.seconds);
                if found.is_some() {
                    return Ok(found);
                }
                count /= 2;
            }
        }
        Ok(None)
    }

    /// Moves that save seconds, each of as many layers as may fit.
    fn moves(&self, plan: &Plan) -> Vec<Move> {
        let devices = &plan.setting.devices;
        let Some(first) = devices.iter().next() else { return Vec::new() };
        let tensors = Tensors::new(self.question, &plan.setting, first);
        let mut moves = Vec::new();
        for ((home, places), slots) in alike(self.model, plan) {
            let groups = &self.model.blocks[slots[0]].groups;
            let seconds = |position: usize, location: Option<Location>| {
                let device = match location {
                    Some(Location::Device(id)) => Some(&devices[id]),
                    _ => None,
                };
                tensors.tensors(&groups[position].tensors, false, device)
            };
            let is_elsewhere =
                |place: &Place| matches!(place.2, Some(Location::Device(_))) && place.2 != Some(home);
            let hops = if places.iter().any(is_elsewhere) { 0.0 } else { 2.0 * tensors.count() * HOP };
            for target in devices.ids() {
                let is_home = Location::Device(target) == home;
                let free = devices[target].memory.saturating_sub(self.taken(plan, target));
                let there = Some(Location::Device(target));
                for projections in 1..1_u16 << groups.len() {
                    let chosen = || (0..groups.len()).filter(|position| projections >> position & 1 == 1);
                    let bytes = chosen().map(|position| groups[position].bytes).fold(0, u64::saturating_add);
                    let fitting = usize::try_from(free / bytes.max(1)).unwrap_or(usize::MAX);
                    let saved =
                        |position: usize| seconds(position, places[position].2) - seconds(position, there);
                    let hops = if is_home { 0.0 } else { hops };
                    let density = (chosen().map(saved).sum::<f64>() - hops) / bytes.max(1) as f64;
                    if fitting > 0 && density > 0.0 {
                        let slots = slots.iter().copied().take(fitting).collect();
                        moves.push(Move { slots, projections, target, density });
                    }
                }
            }
        }
        moves
    }
}

/// Location of a projection.
fn location(model: &Model<'_>, placement: &Placement, slot: usize, position: usize) -> Option<Location> {
    placement.tensors[*model.blocks[slot].groups[position].tensors.first()?]
}

/// Projections that are elsewhere than their slot.
fn elsewhere(model: &Model<'_>, placement: &Placement) -> Moved {
    let mut moved = Moved::new();
    for (slot, block) in model.blocks.iter().enumerate().filter(|(_, block)| !block.is_prediction) {
        let Some(&home) = placement.slots.get(slot) else { continue };
        let away = block.groups.iter().enumerate().filter_map(|(position, group)| {
            let location = location(model, placement, slot, position)?;
            (location != home).then_some((group.module, location))
        });
        let away: Vec<_> = away.collect();
        if !away.is_empty() {
            moved.insert(slot, away);
        }
    }
    moved
}

/// Name, bytes and location of a projection.
type Place = (&'static str, u64, Option<Location>);

/// A layer's own location, and its projections.
type Places = (Location, Vec<Place>);

/// Layers by what is where.
fn alike(model: &Model<'_>, plan: &Plan) -> Vec<(Places, Vec<usize>)> {
    let mut all: Vec<(Places, Vec<usize>)> = Vec::new();
    for (slot, block) in model.blocks.iter().enumerate().filter(|(_, block)| !block.is_prediction) {
        let Some(&home) = plan.placement.slots.get(slot) else { continue };
        let groups = block.groups.iter().enumerate();
        let places = groups.map(|(position, group)| {
            (group.module, group.bytes, location(model, &plan.placement, slot, position))
        });
        let places = (home, places.collect());
        match all.iter_mut().find(|known| known.0 == places) {
            Some((_, slots)) => slots.push(slot),
            None => all.push((places, vec![slot])),
        }
    }
    all
}
