//! Local search for free splits.
//!
//! A free split puts any unit on any device, so there is no lattice to walk and no order to cut: the search
//! changes an assignment step by step. It rests on three ideas. A move changes the loads of only two devices
//! and is evaluated in time proportional to the nets of the unit ([`Assignment`] has the proof). The
//! bottleneck is flat, so the walk minimises a p-norm of all loads (`walk`). And it starts from the best
//! contiguous split rather than from a random one, and moves whole runs of units as well as single ones
//! (`start`, `moves`).
//!
//! Walks are simulated annealing, many of them side by side at different temperatures (`anneal`, `search`).
//! The result is never worse than the contiguous split that it starts from; it proves nothing beyond the
//! closed-form bounds. Replicas are never used: a plan without them is also a plan of a problem that allows
//! them.
//!
//! Literature: Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing", Science 1983; moves of
//! hypergraph partitioning with pin counts, Fiduccia and Mattheyses, DAC 1982; free splits and their benefit,
//! Tarnawski et al., NeurIPS 2020.

mod anneal;
mod counts;
mod moves;
mod polish;
mod search;
mod start;
mod state;
mod walk;

use stagewright_core::bound::strongest_before;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::{ObjectiveKind, Split};
use stagewright_core::evaluate::evaluate;
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Capabilities, Context, Event, Plan, Result, Solution, Solver, Status};
use stagewright_core::tolerance;
use stagewright_core::units::bytes_apart;

pub use polish::{Polisher, polish};
pub use state::{Assignment, Change, Delta, GroupId, placement};

use crate::dpl::{OrderEffort, best_over_orders};
use crate::latency;
use crate::one_device::everything_on;
use start::Unplaceable;

/// Maximum gap from which the target is derived: with a larger gap, every plan is close enough.
const LARGEST_GAP: f64 = 0.999;

/// Local search for free splits.
#[derive(Debug, Clone, Copy, Default)]
pub struct Local;

/// First feature of an objective that free throughput lacks, if any; shared by solvers built on local search.
pub fn unsupported_for_free_throughput(objective: &Objective) -> Option<&'static str> {
    if objective.kind() != ObjectiveKind::Throughput {
        Some("objectives other than throughput")
    } else if objective.rules().split != Split::Free {
        Some("splits other than free")
    } else {
        None
    }
}

impl Solver for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn summary(&self) -> &'static str {
        "local search (free throughput, from the best contiguous split; latency, from the best order of blocks)"
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        match objective.kind() {
            ObjectiveKind::Latency => None,
            _ => unsupported_for_free_throughput(objective),
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { starts_from_plan: true, depends_on_seed: true, ..Capabilities::default() }
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
        if problem.objective().kind() == ObjectiveKind::Latency {
            return latency::local::solve(self.name(), problem, context);
        }
        let units = Units::of(problem);
        let mut bound = strongest_before(problem, context.stop());
        context.establish(problem, None, &mut bound);
        if let Some(reason) = impossible(problem, &units) {
            return Ok(Solution::without_plan(self.name(), Status::Infeasible, bound, None, reason));
        }
        let contiguous = start::contiguous(problem);
        let lines = start::lines(&units, contiguous.as_ref());

        let mut best = None;
        if let Some((contiguous, coarse)) = &contiguous {
            let seed = best_over_orders(contiguous, coarse, OrderEffort::Plain, context)?;
            let is_late = context.stop().reason().is_some() && context.warm_start.is_some();
            best = seed.filter(|_| !is_late).and_then(|plan| feasible(problem, &units, &plan.placement));
        }
        for start in starts(problem, &units, &lines, best.is_some(), context) {
            if best.as_ref().is_none_or(|best| start.value() < best.value()) {
                context.emit(Event::Incumbent { value: start.value() });
                best = Some(start);
            }
        }
        let Some(best) = best else {
            let stop = context.stop().reason();
            let reason = "no initial plan found fits the memory of the devices".to_string();
            return Ok(Solution::without_plan(self.name(), Status::Unknown, bound, stop, reason));
        };

        context.emit(Event::Phase { name: "local search".into() });
        let gap = context.limits.gap.clamp(2.0 * tolerance::OPTIMAL_RELATIVE, LARGEST_GAP);
        let target = bound.value / (1.0 - gap);
        let outcome = search::search(&best, &lines, target, context)?;
        let plan = Plan::new(problem, placement(problem, &units, &outcome.device_of))?;
        let stop = context.end(plan.value(), bound.value);
        let solution = Solution::with_plan(self.name(), plan, bound, stop);
        Ok(Solution { statistics: vec![("steps", outcome.steps)], ..solution })
    }
}

/// A placement as an assignment, if it is feasible without its replicas and its order of stages.
fn feasible<'a>(problem: &'a Problem, units: &'a Units, placement: &Placement) -> Option<Assignment<'a>> {
    let assignment = Assignment::of_placement(problem, units, placement)?;
    evaluate(problem, &assignment.placement()).is_feasible().then_some(assignment)
}

/// Feasible starts other than the contiguous split.
fn starts<'a>(
    problem: &'a Problem,
    units: &'a Units,
    lines: &moves::Lines,
    seeded: bool,
    context: &Context<'_>,
) -> Vec<Assignment<'a>> {
    let stop = context.stop();
    let mut starts = Vec::new();
    if seeded && stop.reason().is_some() {
        return starts;
    }
    if let Some(warm) = &context.warm_start
        && let Some(warm) = Assignment::of_placement(problem, units, warm)
    {
        starts.extend(start::repaired(warm, lines, stop));
    }
    for pool in problem.pools().iter().take_while(|_| stop.reason().is_none()) {
        starts.extend(feasible(problem, units, &everything_on(problem, pool.devices[0])));
    }
    if !seeded {
        starts.extend(start::constructed(problem, units, lines, context.seed(), stop));
    }
    starts
}

/// Reason why there is no plan at all, if that is evident.
fn impossible(problem: &Problem, units: &Units) -> Option<String> {
    let name = |unit: UnitId| {
        let first = units.members(unit).first().map(|&op| problem.graph().operator(op).name.as_str());
        first.unwrap_or_default()
    };
    if let Some(unplaceable) = start::unplaceable(problem, units) {
        return Some(match unplaceable {
            Unplaceable::Unsupported(unit) => {
                format!("no device can run `{}` with its colocated operators", name(unit))
            }
            Unplaceable::TooLarge(unit) => {
                format!(
                    "no device that can run `{}` with its colocated operators has memory for them",
                    name(unit)
                )
            }
        });
    }
    let devices = problem.pools().iter().map(|pool| f64::from(pool.count()) * pool.memory);
    let (have, need) = (devices.sum::<f64>(), units.ids().map(|unit| units.bytes(unit, 1)).sum::<f64>());
    (!tolerance::fits(need, have)).then(|| {
        let [need, have] = bytes_apart(need, have);
        format!("the model needs {need}, all devices together have {have}")
    })
}
