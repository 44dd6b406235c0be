//! Number of device usages for which the tables have room.
//!
//! A table has a state for every cut position and every usage of devices, and the number of usages is the product of
//! the pool sizes. If the table exceeds its share of the memory limit, the program runs on fewer devices of the largest
//! pools. A plan that leaves devices idle is still a plan, and its value is valid; only the claim that it is the best
//! over the order is lost.

use stagewright_core::bound::LowerBound;
use stagewright_core::contraction::Units;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Limits, Plan, Solution, Status, StopReason};
use stagewright_core::units;

use super::chain::STATE_BYTES;
use super::positions::MOST;
use crate::usage::UsageSpace;

/// The tables take 1/`SHARE` of the memory limit. The rest is for the problem, the units and the caller. Larger tables
/// would also take hours to fill.
const SHARE: u64 = 4;

/// Bytes for tables under a memory limit in bytes. Without a limit the default limit applies, since a failed allocation
/// ends the process.
pub(crate) fn table_bytes(memory: Option<u64>) -> u64 {
    memory.or(Limits::default().memory).unwrap_or(0) / SHARE
}

/// The usages that fit, and the reason if some do not.
#[derive(Debug, Clone)]
pub struct Room {
    /// The usages of the devices; `None` if the memory limit is too small for any.
    pub space: Option<UsageSpace>,
    /// The devices left out, and why; `None` if all usages fit.
    pub lack: Option<String>,
}

impl Room {
    /// Usages of a problem's devices for tables over all orders of `units`, under a limit in bytes.
    pub fn new(problem: &Problem, units: &Units, memory: Option<u64>) -> Room {
        let bytes = table_bytes(memory);
        let per_usage = STATE_BYTES * (units.len().min(MOST) as u64 + 1);
        // Usages are numbered with 32 bits.
        let limit = (bytes / per_usage).min(u64::from(u32::MAX)) as usize;
        let size = UsageSpace::size(problem, units.len());
        let space = UsageSpace::fitting(problem, units.len(), limit);
        let needs = format!(
            "the tables for every use of the devices take {}, but the memory limit leaves {}",
            units::bytes(size * per_usage as f64),
            units::bytes(bytes as f64)
        );
        let lack = match &space {
            None => Some(format!("{needs}, too little even for one device of each pool")),
            Some(space) if (space.len() as f64) < size => {
                Some(format!("{needs}: planned on {}", devices(problem, space)))
            }
            Some(_) => None,
        };
        Room { space, lack }
    }

    /// The outcome of a search within this memory. Lack of memory is its stop reason, unless the plan is optimal
    /// anyway.
    pub fn solution(
        &self,
        solver: &'static str,
        plan: Option<Plan>,
        bound: LowerBound,
        stop: Option<StopReason>,
        no_plan: &str,
    ) -> Solution {
        let stop = stop.or(self.lack.as_ref().map(|_| StopReason::Memory));
        match plan {
            Some(plan) => {
                let mut solution = Solution::with_plan(solver, plan, bound, stop);
                if solution.status != Status::Optimal {
                    solution.reason.clone_from(&self.lack);
                }
                solution
            }
            None => {
                let reason = match (&self.lack, &self.space) {
                    (Some(lack), None) => lack.clone(),
                    (Some(lack), Some(_)) => format!("{no_plan}; {lack}"),
                    (None, _) => no_plan.into(),
                };
                Solution::without_plan(solver, Status::Unknown, bound, stop, reason)
            }
        }
    }
}

/// Number of usable devices of each kind that the space truncates, for display.
fn devices(problem: &Problem, space: &UsageSpace) -> String {
    let cluster = problem.cluster();
    let cut = (0..cluster.kind_count()).filter_map(|kind| {
        let pools = problem.pools().iter().enumerate().filter(|(_, pool)| pool.kind == kind);
        let used: u32 = pools.map(|(pool, _)| space.limit(pool)).sum();
        let spec = cluster.kind(kind);
        (used < spec.count).then(|| format!("{used} of the {} devices of kind `{}`", spec.count, spec.name))
    });
    cut.collect::<Vec<_>>().join(" and ")
}
