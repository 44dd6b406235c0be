//! Conversion of a placement to a pipeline that can be run task by task.

use crate::contract::Units;
use crate::document::Schedule;
use crate::meter::Meter;
use crate::placement::Placement;
use crate::problem::Problem;
use crate::schedule::{Pipeline, ScheduleError, Stage, StageTimes};

/// Returns the pipeline of a contiguous placement, for [`Pipeline::run`]. Its stage times are the loads that
/// [`evaluate`](super::evaluate) scores, communication included, so both give the same iteration time unless an uplink
/// takes longer than the devices. The number of microbatches is the objective's.
///
/// Under interleaved 1F1B a device runs `chunks` stages, which a placement cannot express. Each stage is therefore
/// divided into `chunks` chunks: its units in topological order, cut where the compute before the cut is nearest to an
/// equal share. The chunks of all stages, in pipeline order, are assigned to the devices in turn, as the schedule
/// requires. The time of a chunk is its time on the device that it is assigned to, including the tensors that it cuts
/// there. Other schedules have one chunk per stage.
///
/// O(operators + pins + units · chunks).
///
/// # Errors
/// An invalid number of chunks, a unit on several devices or on one that cannot run it, and a stage with fewer units
/// than chunks.
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
    if chunks == 0 || (chunks > 1 && schedule != Schedule::Interleaved) {
        return Err(ScheduleError::Chunks { chunks });
    }
    let units = Units::new(problem);
    let used = placement.used();
    let mut stages = Vec::new();
    for (at, part) in (0..).zip(chunks_of(problem, placement, &units, chunks as usize)?) {
        let device = used[at % used.len()];
        stages.push(stage(problem, &units, &part, problem.pool_of(device), placement.replicas(device))?);
    }
    Ok(Pipeline {
        schedule,
        microbatches: problem.objective().microbatches,
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
) -> Result<Vec<Vec<u32>>, ScheduleError> {
    let used = placement.used();
    let slot = super::slots(problem, &used);
    let mut of_stage: Vec<Vec<u32>> = vec![Vec::new(); used.len()];
    for unit in 0..units.len() {
        let members = units.members(unit);
        let device = placement.device_of(members[0]);
        if let Some(&other) = members.iter().find(|&&op| placement.device_of(op) != device) {
            let operator = problem.graph().operator(other).name.clone();
            return Err(ScheduleError::Parted { operator });
        }
        of_stage[slot[device.index()] as usize].push(unit as u32);
    }
    let mut all = Vec::new();
    for (&device, own) in used.iter().zip(&of_stage) {
        if own.len() < chunks {
            let device = problem.cluster().device_name(device);
            return Err(ScheduleError::FewUnits { device, units: own.len(), chunks });
        }
        let pool = problem.pool_of(device);
        let seconds = |unit: u32| units.seconds(unit as usize, pool).unwrap_or(0.0);
        let total: f64 = own.iter().map(|&unit| seconds(unit)).sum();
        let (mut from, mut at, mut before) = (0, 0, 0.0);
        for chunk in 1..=chunks {
            let share = total * chunk as f64 / chunks as f64;
            // Each chunk takes at least one unit and leaves at least one for each later chunk.
            let most = own.len() - (chunks - chunk);
            while at < most {
                let next = before + seconds(own[at]);
                if chunk < chunks && at > from && next - share > share - before {
                    break;
                }
                (before, at) = (next, at + 1);
            }
            all.push(own[from..at].to_vec());
            from = at;
        }
    }
    Ok(all)
}

fn stage(
    problem: &Problem,
    units: &Units,
    part: &[u32],
    pool: usize,
    replicas: u32,
) -> Result<Stage, ScheduleError> {
    let (graph, spec) = (problem.graph(), &problem.pools()[pool]);
    let mut meter = Meter::new(units, problem.objective(), pool);
    let mut stage = Stage::default();
    let mut put_off = 0.0;
    for &unit in part {
        meter.add(unit as usize);
        for &op in units.members(unit as usize) {
            let document = graph.operator(op);
            let Some(seconds) = problem.seconds(op, pool) else {
                let device = problem.cluster().device_name(spec.devices[0]);
                return Err(ScheduleError::Unsupported { operator: document.name.clone(), device });
            };
            put_off += if problem.is_put_off(op) { seconds } else { 0.0 };
            if units.bytes_are_sums() {
                stage.fixed_bytes += document.parameter_bytes + document.optimizer_bytes;
                stage.workspace_bytes += document.workspace_bytes;
                stage.activation_bytes += document.activation_bytes;
            }
        }
    }
    if !units.bytes_are_sums() {
        let bytes = meter.holdings().bytes();
        stage.fixed_bytes = bytes.fixed;
        stage.activation_bytes = bytes.activations + bytes.stash;
        // Bytes of a running microbatch beyond its stash between the passes; negative if it never holds all of it.
        stage.workspace_bytes = bytes.peak - bytes.stash;
    }
    let synchronised = spec.synchronisation(meter.parameter_bytes(), replicas);
    let sums = [meter.sums(0), meter.sums(1)];
    stage.times = StageTimes::of(problem.objective(), &sums, put_off, replicas, synchronised);
    Ok(stage)
}
