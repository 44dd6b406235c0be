//! Conversion of a placement to a pipeline that can be run task by task.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::contraction::{NetId, Shared, SharedId, UnitId, Units};
use crate::document::Schedule;
use crate::objective::PassSums;
use crate::placement::Placement;
use crate::problem::Problem;
use crate::schedule::{Pipeline, ScheduleError, Stage, StageTimes};
use crate::stage_load::StageLoad;

/// Returns the pipeline of a contiguous placement, for [`Pipeline::run`]. Its stage times are the loads that
/// [`evaluate`](super::evaluate) computes, communication included, so both give the same iteration time unless an
/// uplink takes longer than the devices. The number of microbatches is that of the objective.
///
/// Under interleaved 1F1B a device runs `chunks` stages, which a placement cannot express. Each stage is therefore
/// divided into `chunks` chunks: its units are taken in topological order and cut where the compute before the cut is
/// nearest to an equal share. The chunks of all stages, in pipeline order, are assigned to the devices as the schedule
/// requires. The time of a chunk is its time on the device to which it is assigned, including the tensors that other
/// devices read or write. A device holds a shared parameter, and synchronises its gradient, once for all of its chunks.
/// Under DualPipeV there are two chunks. Other schedules have one chunk per stage.
///
/// O(operators + pins + units · chunks).
///
/// # Errors
/// If the number of chunks is invalid, if a unit is on several devices or on one that cannot run it, or if a stage has
/// fewer units than chunks.
///
/// # Panics
/// If the objective is not the iteration time under a schedule, or the placement was made for another problem.
pub fn pipeline(
    problem: &Problem,
    placement: &Placement,
    schedule: Schedule,
    chunks: u32,
) -> Result<Pipeline, ScheduleError> {
    assert!(problem.objective().times_iteration(), "loads of passes that a schedule runs");
    let is_allowed = match schedule {
        Schedule::Interleaved => chunks > 0,
        Schedule::DualPipeV => chunks == 2,
        _ => chunks == 1,
    };
    if !is_allowed {
        return Err(ScheduleError::Chunks { chunks });
    }
    let units = Units::of(problem);
    let used = placement.used();
    let mut stages = Vec::new();
    let parts = chunks_of(problem, placement, &units, chunks as usize)?;
    let mut on_devices: Vec<OnDevice> = vec![OnDevice::default(); used.len()];
    let slot_of = |part_index: usize| schedule.device(part_index, used.len());
    for (part_index, part) in parts.iter().enumerate() {
        on_devices[slot_of(part_index)].count_pins(&units, part);
    }
    for (part_index, part) in parts.iter().enumerate() {
        let (device, on_device) = (used[slot_of(part_index)], &mut on_devices[slot_of(part_index)]);
        let (pool, replicas) = (problem.pool_of(device), placement.replicas(device));
        stages.push(stage(problem, &units, part, pool, replicas, on_device)?);
    }
    Ok(Pipeline {
        schedule,
        microbatches: problem.objective().rules().microbatches,
        devices: used.len() as u32,
        stages,
        transfers: Vec::new(),
    })
}

/// The units of every chunk, in the order of the pipeline.
fn chunks_of(
    problem: &Problem,
    placement: &Placement,
    units: &Units,
    chunks: usize,
) -> Result<Vec<Vec<UnitId>>, ScheduleError> {
    let used = placement.used();
    let slot = super::slots(problem, &used);
    let mut of_stage: Vec<Vec<UnitId>> = vec![Vec::new(); used.len()];
    for unit in units.ids() {
        let members = units.members(unit);
        let device = placement.device_of(members[0]);
        if let Some(&other) = members.iter().find(|&&op| placement.device_of(op) != device) {
            let operator = problem.graph().operator(other).name.clone();
            return Err(ScheduleError::Parted { operator });
        }
        of_stage[slot[device]].push(unit);
    }
    let mut all = Vec::new();
    for (&device, own) in used.iter().zip(&of_stage) {
        if own.len() < chunks {
            let device = problem.cluster().device_name(device);
            return Err(ScheduleError::FewUnits { device, units: own.len(), chunks });
        }
        let pool = problem.pool_of(device);
        let seconds = |unit: UnitId| units.seconds(unit, pool).unwrap_or(0.0);
        let total: f64 = own.iter().map(|&unit| seconds(unit)).sum();
        let (mut from, mut next_unit, mut before) = (0, 0, 0.0);
        for chunk in 1..=chunks {
            let share = total * chunk as f64 / chunks as f64;
            // Each chunk takes at least one unit and leaves at least one for each later chunk.
            let limit = own.len() - (chunks - chunk);
            while next_unit < limit {
                let next = before + seconds(own[next_unit]);
                if chunk < chunks && next_unit > from && next - share > share - before {
                    break;
                }
                (before, next_unit) = (next, next_unit + 1);
            }
            all.push(own[from..next_unit].to_vec());
            from = next_unit;
        }
    }
    Ok(all)
}

/// The shared parameters and gradients that a device holds once for all of its chunks.
#[derive(Debug, Clone, Default)]
struct OnDevice {
    /// For each net, the number of units on the device that have a pin in it.
    pins: FxHashMap<NetId, usize>,
    gradients: FxHashSet<NetId>,
    parameters: FxHashSet<SharedId>,
}

impl OnDevice {
    fn count_pins(&mut self, units: &Units, part: &[UnitId]) {
        for &net in part.iter().flat_map(|&unit| units.nets_of(unit)) {
            *self.pins.entry(net).or_default() += 1;
        }
    }

    /// Takes the tensors that never leave the device out of the sums of the passes of a chunk.
    fn keep(&self, units: &Units, part: &[UnitId], pool: usize, sums: &mut [PassSums; 2]) {
        let mut inside: FxHashMap<NetId, (usize, bool)> = FxHashMap::default();
        for &unit in part {
            for &net in units.nets_of(unit) {
                let (count, is_produced) = inside.entry(net).or_default();
                *count += 1;
                *is_produced |= units.nets()[net].producer == unit;
            }
        }
        for (net_id, (count, is_produced)) in inside {
            let (net, pins) = (units.nets()[net_id], units.pins(net_id).len());
            if !net.is_gradient() && count < pins && self.pins.get(&net_id) == Some(&pins) {
                let sums = &mut sums[usize::from(net.pass)];
                let moved = if is_produced { &mut sums.sent } else { &mut sums.received };
                *moved = (*moved - units.transfer(net_id, pool)).max(0.0);
            }
        }
    }

    /// Shared parameters of a chunk that an earlier chunk of the device already holds.
    fn parameters(&mut self, units: &Units, part: &[UnitId]) -> Shared {
        let mut held = Shared { bytes: 0.0, synchronised: 0.0 };
        let mut own = FxHashSet::default();
        for &parameter in part.iter().flat_map(|&unit| units.shared_of(unit)) {
            if own.insert(parameter) && !self.parameters.insert(parameter) {
                let shared = units.shared()[parameter];
                held.bytes += shared.bytes;
                held.synchronised += shared.synchronised;
            }
        }
        held
    }

    /// Seconds to synchronise, with other devices, the gradients that this chunk is the first on the device to read.
    fn gradients(&mut self, units: &Units, part: &[UnitId], pool: usize) -> f64 {
        let mut seconds = 0.0;
        for &net in part.iter().flat_map(|&unit| units.nets_of(unit)) {
            let is_shared = self.pins.get(&net).is_some_and(|&pins| pins < units.pins(net).len());
            if units.nets()[net].is_gradient() && is_shared && self.gradients.insert(net) {
                seconds += units.transfer(net, pool);
            }
        }
        seconds
    }
}

fn stage(
    problem: &Problem,
    units: &Units,
    part: &[UnitId],
    pool: usize,
    replicas: u32,
    on_device: &mut OnDevice,
) -> Result<Stage, ScheduleError> {
    let (graph, spec) = (problem.graph(), &problem.pools()[pool]);
    let mut load = StageLoad::new(units, problem.objective(), pool);
    let mut stage = Stage::default();
    let mut deferred = 0.0;
    for &unit in part {
        load.add(unit);
        for &op in units.members(unit) {
            let document = graph.operator(op);
            let Some(seconds) = problem.seconds(op, pool) else {
                let device = problem.cluster().device_name(spec.devices[0]);
                return Err(ScheduleError::Unsupported { operator: document.name.clone(), device });
            };
            deferred += if problem.is_deferred(op) { seconds } else { 0.0 };
            if units.bytes_are_sums() {
                stage.fixed_bytes += document.parameter_bytes + document.optimizer_bytes;
                stage.workspace_bytes += document.workspace_bytes;
                stage.activation_bytes += document.activation_bytes;
            }
        }
    }
    if !units.bytes_are_sums() {
        let bytes = load.memory().bytes();
        stage.fixed_bytes = bytes.fixed;
        stage.activation_bytes = bytes.activations + bytes.stash;
        // A running microbatch needs more than its stash, or less if it never holds the whole stash at once.
        let beyond = bytes.peak - bytes.stash;
        stage.fixed_bytes += beyond.min(0.0);
        stage.workspace_bytes = beyond.max(0.0);
    }
    let held = on_device.parameters(units, part);
    stage.fixed_bytes -= held.bytes;
    let synchronised = spec.synchronisation(load.parameter_bytes() - held.synchronised, replicas);
    let mut sums = [load.sums(0), load.sums(1)];
    sums[1].synchronised = on_device.gradients(units, part, pool);
    on_device.keep(units, part, pool, &mut sums);
    stage.times = StageTimes::new(problem.objective(), &sums, deferred, replicas, synchronised);
    Ok(stage)
}
