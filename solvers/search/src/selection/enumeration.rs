//! All plans of a tiny problem.

use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::{ObjectiveKind, Schedule};
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Plan, Stop};

use super::aim::Aim;
use super::moves::placed;

/// Maximum number of plans.
const MOST_PLANS: f64 = 50_000.0;
/// Maximum number of operators and tensors evaluated in all plans, which takes a few seconds.
const MOST_WORK: f64 = 40_000_000.0;
/// Plans between checks of the clock.
const BETWEEN_CHECKS: u64 = 16;

/// The best plan that meets the aim, `Some(None)` if there is none. `None` if the problem has too many plans, if the device of
/// every unit does not determine a plan, or if the solve has to stop first. Devices of a pool are used in order, which leaves
/// one of every set of plans that differ in the names of devices.
pub(super) fn best_of_all(
    problem: &Problem,
    units: &Units,
    aim: Aim<'_>,
    stop: &Stop,
) -> Option<Option<Plan>> {
    if !is_determined(problem, units) {
        return None;
    }
    let plans = most_plans(problem, units);
    if plans == 0.0 {
        return Some(None);
    }
    let size = problem.graph().operator_count() + problem.graph().tensor_count();
    if plans > MOST_PLANS || plans * size as f64 > MOST_WORK {
        return None;
    }
    let device_of = Keyed::filled(DeviceId(0), units.len());
    let used = vec![0; problem.pools().len()];
    let mut all = Enumeration { problem, units, aim, stop, device_of, used, seen: 0, best: None };
    all.place(UnitId(0))?;
    Some(all.best.map(|(_, plan)| plan))
}

/// Whether the device of every unit determines the value of a plan, and every plan keeps units whole: for latency, units join
/// classes between which a host could return to a call.
fn is_determined(problem: &Problem, units: &Units) -> bool {
    let objective = problem.objective();
    match objective.kind() {
        ObjectiveKind::Throughput => {
            objective.rules().schedule == Schedule::None && objective.rules().max_replicas == 1
        }
        ObjectiveKind::Latency => objective.calls() == 1 && units.len() == problem.graph().class_count(),
        ObjectiveKind::Makespan => false,
    }
}

/// At least the number of plans: the k-th unit is on one of the first k devices of a pool. Zero if a unit has no pool.
fn most_plans(problem: &Problem, units: &Units) -> f64 {
    let pools = problem.pools().iter().enumerate();
    let devices = |unit: UnitId| {
        let of_unit = pools.clone().filter(|&(pool, _)| units.supported(unit, pool));
        of_unit.map(|(_, pool)| f64::from(pool.count()).min(unit.index() as f64 + 1.0)).sum::<f64>()
    };
    units.ids().map(devices).product()
}

struct Enumeration<'a> {
    problem: &'a Problem,
    units: &'a Units,
    aim: Aim<'a>,
    stop: &'a Stop,
    device_of: Keyed<UnitId, DeviceId>,
    /// Devices in use of each pool.
    used: Vec<usize>,
    seen: u64,
    best: Option<(f64, Plan)>,
}

impl Enumeration<'_> {
    /// Places the units from `unit` on in every way; `None` if the solve has to stop.
    fn place(&mut self, unit: UnitId) -> Option<()> {
        self.seen += 1;
        if self.seen.is_multiple_of(BETWEEN_CHECKS) && self.stop.reason().is_some() {
            return None;
        }
        if unit.index() == self.units.len() {
            self.keep();
            return Some(());
        }
        for (pool, spec) in self.problem.pools().iter().enumerate() {
            if !self.units.supported(unit, pool) {
                continue;
            }
            let used = self.used[pool];
            for (index, &device) in spec.devices.iter().enumerate().take(used + 1) {
                self.device_of[unit] = device;
                self.used[pool] = used.max(index + 1);
                self.place(UnitId::new(unit.index() + 1))?;
            }
            self.used[pool] = used;
        }
        Some(())
    }

    /// Keeps the complete plan if it meets the aim and is better.
    fn keep(&mut self) {
        let placement = placed(self.problem, self.units, &self.device_of, None);
        let Ok(plan) = Plan::try_new(self.problem, placement) else { return };
        let measure = self.aim.measure.of(self.problem, &plan.evaluation);
        if self.aim.is_met(self.problem, &plan.evaluation)
            && self.best.as_ref().is_none_or(|(least, _)| measure < *least)
        {
            self.best = Some((measure, plan));
        }
    }
}
