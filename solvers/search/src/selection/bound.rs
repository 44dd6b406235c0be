//! Bounds on second goals, and requirements that no plan can meet, from counts and sums.

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::{ObjectiveKind, Schedule, SecondGoal};
use stagewright_core::problem::{Pool, Problem};
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
    let usable = requirements.stages.map_or(units, u64::from).saturating_mul(replicas);
    (requirements.all_devices && counted > usable)
        .then(|| format!("{counted} devices must have work, but at most {usable} can"))
}

/// A lower bound on the second goal of every plan with at most the value `limit` that meets the requirements.
///
/// *Memory.* The parameters of a unit that no host can run are on one counted device, and those of all such units on all of
/// them together. *Devices.* The devices in use hold these parameters, and their compute at most `limit` seconds each. Both
/// hold for throughput, whose plans keep units whole.
pub(super) fn least(problem: &Problem, goal: SecondGoal, limit: f64, requirements: &Requirements) -> f64 {
    match goal {
        SecondGoal::Communication => 0.0,
        SecondGoal::Memory => tolerance::round_down(memory(problem)),
        SecondGoal::Devices => devices(problem, limit, requirements),
    }
}

/// Units with parameters that no host can hold, under throughput; none under other objectives.
fn held(problem: &Problem) -> Vec<f64> {
    if problem.objective().kind() != ObjectiveKind::Throughput {
        return Vec::new();
    }
    let units = Units::of(problem);
    let pools = 0..problem.pools().len();
    let is_held =
        |unit: &UnitId| pools.clone().all(|pool| is_counted(problem, pool) || !units.supported(*unit, pool));
    units.ids().filter(is_held).map(|unit| units.fixed_bytes(unit)).collect()
}

fn counted(problem: &Problem) -> impl Iterator<Item = &Pool> {
    let pools = problem.pools().iter().enumerate();
    pools.filter(|&(pool, _)| is_counted(problem, pool)).map(|(_, pool)| pool)
}

fn memory(problem: &Problem) -> f64 {
    let held = held(problem);
    let devices: u32 = counted(problem).map(Pool::count).sum();
    let largest = held.iter().copied().fold(0.0, f64::max);
    largest.max(held.iter().sum::<f64>() / f64::from(devices.max(1)))
}

fn devices(problem: &Problem, limit: f64, requirements: &Requirements) -> f64 {
    let held = held(problem);
    let total: f64 = held.iter().sum();
    let rooms = counted(problem).flat_map(|pool| std::iter::repeat_n(pool.memory, pool.devices.len()));
    let mut rooms: Vec<f64> = rooms.collect();
    rooms.sort_by(|left, right| right.total_cmp(left));
    let (count, mut room) = (rooms.len() as f64, 0.0);
    let needed = rooms.iter().take_while(|&&next| {
        let is_short = !tolerance::fits(total, room);
        room += next;
        is_short
    });
    let for_memory = needed.count() as f64;
    let hosts = problem.pools().iter().map(|pool| pool.devices.len()).sum::<usize>() as f64 - count;
    let for_stages = f64::from(requirements.stages.unwrap_or(0)) - hosts;
    // Plans may exceed the limit by rounding.
    let for_compute = (compute(problem) / limit * (1.0 - 4.0 * tolerance::VALUE_RELATIVE) - hosts).ceil();
    let for_all = if requirements.all_devices { count } else { f64::from(u8::from(!held.is_empty())) };
    for_memory.max(for_stages).max(for_compute).max(for_all)
}

/// Seconds of compute that every plan has at least, if its value is at least the compute of every device; otherwise 0.
fn compute(problem: &Problem) -> f64 {
    let rules = problem.objective().rules();
    if problem.objective().kind() != ObjectiveKind::Throughput || rules.schedule != Schedule::None {
        return 0.0;
    }
    let units = Units::of(problem);
    let fastest = |unit: UnitId| {
        let seconds = (0..problem.pools().len()).filter_map(|pool| units.seconds(unit, pool));
        seconds.fold(f64::INFINITY, f64::min)
    };
    units.ids().map(fastest).filter(|seconds| seconds.is_finite()).sum()
}
