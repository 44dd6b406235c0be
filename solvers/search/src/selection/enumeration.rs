//! All plans of a tiny problem.

use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::{ObjectiveKind, Schedule};
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Plan, Stop};

use super::aim::Aim;
use super::moves::placed;

/// Maximum number of plans, complete or not.
const MOST_PLANS: u64 = 50_000;
/// Plans between checks of the clock.
const BETWEEN_CHECKS: u64 = 64;

/// The best plan that meets the aim, `Some(None)` if there is none. `None` if the problem has too many plans, if devices
/// alone do not determine a plan, or if the solve has to stop first. Devices of a pool are used in order, which leaves one of
/// every set of plans that differ in the names of devices.
pub(super) fn best_of_all(
    problem: &Problem,
    units: &Units,
    aim: Aim<'_>,
    stop: &Stop,
) -> Option<Option<Plan>> {
    if !is_determined(problem) || !are_few(problem, units) {
        return None;
    }
    let device_of = Keyed::filled(DeviceId(0), units.len());
    let used = vec![0; problem.pools().len()];
    let mut all = Enumeration { problem, units, aim, stop, device_of, used, seen: 0, best: None };
    all.from(UnitId(0))?;
    Some(all.best.map(|(_, plan)| plan))
}

/// Whether the device of every unit determines the value of a plan.
fn is_determined(problem: &Problem) -> bool {
    let objective = problem.objective();
    match objective.kind() {
        ObjectiveKind::Throughput => {
            objective.rules().schedule == Schedule::None && objective.rules().max_replicas == 1
        }
        ObjectiveKind::Latency => objective.calls() == 1,
        ObjectiveKind::Makespan => false,
    }
}

/// Whether the assignments of units to pools alone are few enough to start.
fn are_few(problem: &Problem, units: &Units) -> bool {
    let choices = |unit| (0..problem.pools().len()).filter(|&pool| units.supported(unit, pool)).count();
    units.ids().map(|unit| (choices(unit).max(1) as f64).ln()).sum::<f64>() <= (MOST_PLANS as f64).ln()
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
    /// Places the units from `unit` on in every way; `None` if there are too many, or the solve has to stop.
    fn from(&mut self, unit: UnitId) -> Option<()> {
        self.seen += 1;
        let has_to_stop = self.seen.is_multiple_of(BETWEEN_CHECKS) && self.stop.reason().is_some();
        if self.seen > MOST_PLANS || has_to_stop {
            return None;
        }
        if unit.index() == self.units.len() {
            self.see();
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
                self.from(UnitId::new(unit.index() + 1))?;
            }
            self.used[pool] = used;
        }
        Some(())
    }

    /// Keeps the complete plan if it meets the aim and is better.
    fn see(&mut self) {
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
