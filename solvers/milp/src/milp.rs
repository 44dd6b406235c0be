//! The cut-net model as a solver: a short run of HiGHS and a long one from the best plan so far; without a time limit, runs
//! of growing length.
//!
//! HiGHS tells nothing while it runs, so what it found comes out between runs. The bound of every run counts. Without a
//! time limit it is nodes of the search tree that end a run, so that the plan does not depend on the clock.

use stagewright_core::bound::LowerBound;
use stagewright_core::contract::Units;
use stagewright_core::document::{ObjectiveKind, Split};
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{
    Capabilities, Context, Event, Plan, Solution, SolveError, Solver, Status, StopReason,
};
use stagewright_core::tolerance;
use stagewright_search::local::placement;

use crate::cutnet::infeasible::irreducible;
use crate::cutnet::model::{CutNetModel, Minimise, Range, devices_of_units, domains};
use crate::cutnet::run::{Effort, Ending, Outcome, TOLERANCE, solve};
use crate::cutnet::symmetry::{canonical, leaders, restrict};
use crate::first::{First, first_bound, first_plan};

/// Source of the bound.
const SOURCE: &str = "milp";
/// Share of the time for the search for a first plan.
const SEARCH_SHARE: f64 = 0.2;
/// Share of the time for the first run; the second has the rest.
const FIRST_SHARE: f64 = 0.15;
/// Nodes of the first run where there is no limit. Each that follows has twice as many.
const FIRST_NODES: u32 = 500;
/// Entries of the matrix beyond which not even the relaxation is solved in minutes.
pub(crate) const MOST_ENTRIES: usize = 4_000_000;
/// Bytes that HiGHS takes for one entry of the matrix, cuts, presolve and the search tree included, as measured roughly.
const BYTES_PER_ENTRY: u64 = 600;
/// Most units named in the reason for infeasibility.
const MOST_NAMED: usize = 4;

/// The mixed-integer program on HiGHS.
#[derive(Debug, Clone, Copy, Default)]
pub struct Milp;

/// What the cut-net model lacks for an objective, if anything.
pub(crate) fn missing_for_cut_nets(objective: &Objective) -> Option<&'static str> {
    if objective.kind != ObjectiveKind::Throughput {
        Some("objectives other than throughput")
    } else if objective.split == Split::Contiguous {
        Some("contiguous splits")
    } else if objective.max_replicas > 1 {
        Some("replicated stages")
    } else {
        None
    }
}

impl Solver for Milp {
    fn name(&self) -> &'static str {
        "milp"
    }

    fn summary(&self) -> &'static str {
        "mixed-integer program over cut nets on HiGHS (free and convex throughput)"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { missing: missing_for_cut_nets, exact: true, deterministic_across_threads: true }
    }

    fn solve(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        SolveError::check(self, problem)?;
        let units = Units::new(problem);
        let (plan, infeasible) = match first_plan(problem, &mut context.part(SEARCH_SHARE))? {
            First::Plan(plan) => (plan, None),
            First::Impossible(why) => (None, Some(why)),
        };
        let bound = first_bound(problem);
        let mut search = Search { problem, units: &units, plan, bound, infeasible, reason: None, nodes: 0 };
        if search.infeasible.is_none() {
            search.run(context)?;
        }
        search.solution(self.name(), context)
    }
}

struct Search<'a> {
    problem: &'a Problem,
    units: &'a Units,
    plan: Option<Plan>,
    bound: LowerBound,
    /// Why there is no plan, where that is proved.
    infeasible: Option<String>,
    reason: Option<String>,
    nodes: u64,
}

impl Search<'_> {
    fn keep(&mut self, plan: Option<Plan>, context: &mut Context<'_>) {
        let Some(plan) = plan else { return };
        if self.plan.as_ref().is_none_or(|best| plan.value() < best.value()) {
            context.emit(Event::Incumbent { value: plan.value() });
            self.plan = Some(plan);
        }
    }

    fn done(&self, context: &Context<'_>) -> bool {
        let enough = |plan: &Plan| {
            tolerance::gap(plan.value(), self.bound.value) <= 2.0 * TOLERANCE
                || context.gap_reached(plan.value(), self.bound.value)
        };
        self.plan.as_ref().is_some_and(enough) || context.stop().reason().is_some()
    }

    fn run(&mut self, context: &mut Context<'_>) -> Result<(), SolveError> {
        let (problem, units) = (self.problem, self.units);
        let devices: usize = problem.pools().iter().map(|pool| pool.devices.len()).sum();
        if units.len().saturating_mul(devices) > MOST_ENTRIES {
            self.reason = Some("the integer program would be too large to begin with".into());
            return Ok(());
        }
        let Some(mut domains) = domains(problem, units) else {
            self.infeasible = Some("some unit can run on no device".into());
            return Ok(());
        };
        let leaders = leaders(problem, units);
        restrict(problem, &leaders, &mut domains);
        let entries = CutNetModel::size(problem, units, &domains);
        if entries > MOST_ENTRIES {
            self.reason = Some(format!("the integer program would have about {entries:.1e} entries"));
            return Ok(());
        }
        let bytes = entries as u64 * BYTES_PER_ENTRY;
        if context.limits.memory.is_some_and(|memory| bytes > memory) {
            self.reason = Some(format!("the integer program would take about {bytes:.1e} bytes"));
            return Ok(());
        }
        let mut time = context.stop().remaining().map(|left| left.mul_f64(FIRST_SHARE));
        let mut nodes = FIRST_NODES;
        while !self.done(context) {
            let length = match time {
                Some(time) => format!("{:.1} s", time.as_secs_f64()),
                None => format!("{nodes} nodes"),
            };
            context.emit(Event::Phase { name: format!("integer program, {length}") });
            let high = self.plan.as_ref().map_or(f64::INFINITY, Plan::value);
            let range = Range { low: self.bound.value, high };
            let model = CutNetModel::new(problem, units, &domains, range, Minimise::All);
            let start = self
                .plan
                .as_ref()
                .map(|plan| canonical(problem, &leaders, &devices_of_units(units, &plan.placement)));
            let nodes_now = if time.is_none() { Some(nodes) } else { None };
            let effort = Effort { time, nodes: nodes_now, gap: context.limits.gap, seed: context.seed };
            let stop = context.stop().clone();
            match solve(model, start.as_deref(), effort, &stop) {
                Err(error) => {
                    self.reason = Some(error.to_string());
                    return Ok(());
                }
                Ok(outcome) => {
                    let ending = outcome.ending;
                    self.take(outcome, context);
                    if ending != Ending::Limit {
                        break;
                    }
                }
            }
            time = context.stop().remaining();
            nodes = nodes.saturating_mul(2);
            if nodes == u32::MAX {
                break;
            }
        }
        Ok(())
    }

    fn take(&mut self, outcome: Outcome, context: &mut Context<'_>) {
        let Outcome { ending, bound, device_of, nodes } = outcome;
        self.nodes += nodes;
        let high = self.plan.as_ref().map_or(f64::INFINITY, Plan::value);
        let found = device_of.map(|device_of| placement(self.problem, self.units, &device_of));
        let found = found.map(|placement| Plan::new(self.problem, placement));
        let rejected = matches!(found, Some(Err(_)));
        self.keep(found.and_then(Result::ok), context);
        match (ending, &self.plan) {
            (Ending::Infeasible, None) => {
                self.infeasible = Some(self.why_infeasible(context));
            }
            _ if rejected => {
                let why =
                    "the plan of the integer program breaks a limit by less than its arithmetic resolves";
                self.reason = Some(why.into());
            }
            (Ending::Optimal | Ending::Infeasible, Some(_)) => {
                self.reason = Some(format!(
                    "the integer program is solved, to the tolerance of {TOLERANCE:.0e} of its arithmetic"
                ));
            }
            _ => {}
        }
        // Rows that leave nothing below the value of the plan prove it, up to the tolerance.
        let bound = match (ending, bound) {
            (Ending::Infeasible, _) => Some(high * (1.0 - TOLERANCE)).filter(|bound| bound.is_finite()),
            (_, bound) => bound,
        };
        if let Some(value) = bound.filter(|&bound| bound > self.bound.value) {
            self.bound = LowerBound { value, source: SOURCE, certificate: None };
            context.emit(Event::Bound { value, source: SOURCE });
        }
    }

    fn why_infeasible(&self, context: &Context<'_>) -> String {
        let Some(set) = irreducible(self.problem, self.units, context.stop()) else {
            return "no placement meets memory, colocation, pins and the split rule together".into();
        };
        let name = |&unit: &u32| {
            let first = self.units.members(unit as usize)[0];
            format!("`{}`", self.problem.graph().operator(first).name)
        };
        let named: Vec<String> = set.iter().take(MOST_NAMED).map(name).collect();
        let more = match set.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let bytes: f64 = set.iter().map(|&unit| self.units.bytes(unit as usize, 1)).sum();
        format!(
            "an irreducible set: the devices cannot hold {}{more} together, {bytes} bytes with what is colocated \
             with them, but can when any one of these is left out",
            named.join(", ")
        )
    }

    fn solution(self, name: &'static str, context: &Context<'_>) -> Result<Solution, SolveError> {
        let stop = context.stop().reason();
        let statistics = vec![("nodes", self.nodes)];
        let solution = match (self.plan, self.infeasible) {
            (None, Some(why)) => Solution::without_plan(name, Status::Infeasible, self.bound, None, why),
            (None, None) => {
                let reason = self.reason.unwrap_or_else(|| "the search ended before it found a plan".into());
                Solution::without_plan(name, Status::Unknown, self.bound, stop, reason)
            }
            (Some(plan), _) => {
                // The one check of a bound that costs nothing.
                if self.bound.value > plan.value() * (1.0 + tolerance::VALUE_RELATIVE) {
                    let (bound, value) = (self.bound.value, plan.value());
                    return Err(SolveError::Invariant(format!(
                        "a plan of {value} s below the bound of {bound} s"
                    )));
                }
                let gap = context.gap_reached(plan.value(), self.bound.value);
                let stop = if gap { Some(StopReason::Gap) } else { stop };
                let solution = Solution::with_plan(name, plan, self.bound, stop);
                let reason = self.reason.filter(|_| solution.status != Status::Optimal);
                Solution { reason, ..solution }
            }
        };
        Ok(Solution { statistics, ..solution })
    }
}
