//! A split within milliseconds, if a limit ends the program over orders before it has one.
//!
//! Devices are filled one after the other along an order until a stage takes as long as a target, and targets are tried
//! from the lower bound upwards. O(pins · targets), whatever the number of devices.

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::placement::{Placement, StageAssignment};
use stagewright_core::problem::Problem;
use stagewright_core::solver::Plan;
use stagewright_core::stage_load::StageLoad;

/// Targets as multiples of a lower bound. Under the last one, only memory limits a stage.
const TARGETS: [f64; 5] = [1.05, 1.25, 1.6, 3.0, f64::INFINITY];

/// The best split that filling finds; `None` if no target leaves room for every unit.
pub(crate) fn fill(problem: &Problem, units: &Units) -> Option<Plan> {
    let bound = share(problem, units);
    let mut loads: Vec<StageLoad<'_>> =
        (0..problem.pools().len()).map(|pool| StageLoad::new(units, problem.objective(), pool)).collect();
    // Larger targets make longer stages, so the first target that yields a split yields the best one.
    TARGETS.iter().find_map(|multiple| {
        let target = if multiple.is_infinite() { f64::INFINITY } else { multiple * bound };
        let stages = stages(problem, units, &mut loads, target)?;
        Plan::try_new(problem, Placement::from_stages(problem, units, &stages)).ok()
    })
}

/// The longest unit, or the minimum seconds of all units divided among all devices: a lower bound that is quick to
/// compute.
fn share(problem: &Problem, units: &Units) -> f64 {
    let least = |unit: UnitId| {
        let seconds = (0..problem.pools().len()).filter_map(|pool| units.seconds(unit, pool));
        seconds.fold(f64::INFINITY, f64::min)
    };
    let devices = problem.cluster().device_count().max(1) as f64;
    let (sum, longest) = units
        .ids()
        .map(least)
        .fold((0.0, 0.0f64), |(sum, longest), seconds| (sum + seconds, longest.max(seconds)));
    longest.max(sum / devices)
}

fn stages(
    problem: &Problem,
    units: &Units,
    loads: &mut [StageLoad<'_>],
    target: f64,
) -> Option<Vec<StageAssignment>> {
    let objective = problem.objective();
    // The maximum number of microbatches that a stage may have to keep.
    let in_flight = objective.in_flight(u32::MAX);
    let mut stages = Vec::new();
    // Units are numbered topologically, so their numbers are an order.
    let order: Vec<UnitId> = units.ids().collect();
    let mut next = 0;
    for (pool, spec) in problem.pools().iter().enumerate() {
        for _ in 0..spec.count() {
            let load = &mut loads[pool];
            load.clear();
            let first = next;
            let mut marks = Vec::new();
            while next < units.len() {
                let before = load.mark();
                load.add(order[next]);
                let compute = (0..objective.passes()).map(|pass| load.compute(pass)).fold(0.0, f64::max);
                let is_full = next > first && compute > target;
                if is_full || !load.supported() || !load.memory().may_fit(in_flight, spec.memory) {
                    load.undo(order[next], before);
                    break;
                }
                marks.push(before);
                next += 1;
            }
            // The sums in `may_fit` bound memory from below: the memory of a stage is computed O(log units) times.
            let mut step = 1;
            while next > first && !load.memory().fits(in_flight, spec.memory) {
                for _ in 0..step.min(next - first) {
                    next -= 1;
                    load.undo(order[next], marks[next - first]);
                }
                step *= 2;
            }
            stages.push(StageAssignment { pool, replicas: 1, units: order[first..next].to_vec() });
        }
    }
    (next == units.len()).then_some(stages)
}
