//! Bounds on second goals, and requirements that no plan can meet, from counts and sums.

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::{ObjectiveKind, Schedule, SecondGoal};
use stagewright_core::problem::Problem;
use stagewright_core::tolerance;

use super::Requirements;
use super::measure::is_counted;

/// The reason why no plan meets the requirements, if counting alone shows it.
pub(super) fn impossible(problem: &Problem, requirements: &Requirements) -> Option<String> {
    let units = problem.graph().class_count() as u64;
    let pools = problem.pools();
    let devices: u64 = pools.iter().map(|pool| u64::from(pool.count())).sum();
    let counted = (0..pools.len()).filter(|&pool| is_counted(problem, pool));
    let counted: u64 = counted.map(|pool| u64::from(pools[pool].count())).sum();
    let replicas = u64::from(problem.objective().rules().max_replicas);
    match requirements.stages.map(u64::from) {
        Some(0) if units > 0 => return Some("0 stages hold no operators".into()),
        Some(stages) if stages > devices => return Some(format!("{stages} stages on {devices} devices")),
        Some(stages) if stages > units => {
            return Some(format!("{stages} stages of {units} operators or colocation groups"));
        }
        _ => {}
    }
    let most = requirements.stages.map_or(units, u64::from).saturating_mul(replicas);
    (requirements.all_devices && counted > most)
        .then(|| format!("{counted} devices must have work, but at most {most} can"))
}

/// A lower bound on the second goal of every plan with at most the value `limit` that meets the requirements.
///
/// *Memory.* The parameters of a unit that no host can run are on one counted device, and those of all such units on all of
/// them together. *Devices.* The devices in use hold these parameters, and their compute at most `limit` seconds each.
pub(super) fn least(problem: &Problem, goal: SecondGoal, limit: f64, requirements: &Requirements) -> f64 {
    let units = Units::of(problem);
    let pools = problem.pools();
    let is_bound = |unit: &UnitId| {
        (0..pools.len()).all(|pool| is_counted(problem, pool) || !units.supported(*unit, pool))
    };
    let bytes = |unit: UnitId| units.fixed_bytes(unit);
    let bound: Vec<UnitId> = units.ids().filter(is_bound).collect();
    let total: f64 = bound.iter().map(|&unit| bytes(unit)).sum();
    let counted: Vec<usize> = (0..pools.len()).filter(|&pool| is_counted(problem, pool)).collect();
    let devices: u32 = counted.iter().map(|&pool| pools[pool].count()).sum();
    let least = match goal {
        SecondGoal::Communication => 0.0,
        SecondGoal::Memory if devices == 0 => 0.0,
        SecondGoal::Memory => {
            let largest = bound.iter().map(|&unit| bytes(unit)).fold(0.0, f64::max);
            largest.max(total / f64::from(devices))
        }
        SecondGoal::Devices => {
            let mut rooms: Vec<f64> = counted
                .iter()
                .flat_map(|&pool| std::iter::repeat_n(pools[pool].memory, pools[pool].count() as usize))
                .collect();
            rooms.sort_by(|left, right| right.total_cmp(left));
            let mut room = 0.0;
            let needed = rooms.iter().take_while(|&&next| {
                let is_short = !tolerance::fits(total, room);
                room += next;
                is_short
            });
            let for_memory = needed.count() as f64;
            let hosts: u32 = pools.iter().map(|pool| pool.count()).sum::<u32>() - devices;
            let for_stages = f64::from(requirements.stages.unwrap_or(0)) - f64::from(hosts);
            let for_compute = compute(problem, &units) / limit - f64::from(hosts);
            let for_any = f64::from(u8::from(!bound.is_empty()));
            for_memory.max(for_stages).max((for_compute * (1.0 - 1e-9)).ceil()).max(for_any)
        }
    };
    tolerance::round_down(least.max(0.0)).max(if goal == SecondGoal::Devices { least } else { 0.0 })
}

/// Seconds of compute that every plan has at least, if its value is at least the compute of every device; otherwise 0.
fn compute(problem: &Problem, units: &Units) -> f64 {
    let rules = problem.objective().rules();
    if problem.objective().kind() != ObjectiveKind::Throughput || rules.schedule != Schedule::None {
        return 0.0;
    }
    let fastest = |unit: UnitId| {
        let seconds = (0..problem.pools().len()).filter_map(|pool| units.seconds(unit, pool));
        seconds.fold(f64::INFINITY, f64::min)
    };
    units.ids().map(fastest).filter(|seconds| seconds.is_finite()).sum()
}
