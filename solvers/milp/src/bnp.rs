//! Free splits with a proof: plans from search, bounds from column generation.
//!
//! The linear relaxation of the cover by columns is tight on pipelines of neural networks: on most of the published
//! instances it ends at the value of the best plan, which is a proof. It is the root of a branch and price. There is
//! no branching yet: where the relaxation leaves a gap, the gap stays.

use stagewright_core::bound::LowerBound;
use stagewright_core::certificate::Certificate;
use stagewright_core::contract::Units;
use stagewright_core::document::Split;
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{
    Capabilities, Context, Event, Plan, Solution, SolveError, Solver, Status, StopReason,
};
use stagewright_core::tolerance;
use stagewright_search::Local;
use stagewright_search::dpl::{Effort, best_over_orders};
use stagewright_search::local::missing_for_free_throughput;

use crate::colgen::ascent::raise;
use crate::colgen::generation::{Generation, Prices};
use crate::colgen::preparation::Preparation;
use crate::colgen::pricing::FEWEST_CELLS;
use crate::first::{First, first_bound, first_plan};
use crate::lns::improve;
use crate::milp::missing_for_cut_nets;

/// Source of the bound.
const SOURCE: &str = "column-generation";
/// Share of the time for the first search for a plan, and of what is left then for the bound. The rest is for plans
/// again.
const SEARCH_SHARE: f64 = 0.3;
const BOUND_SHARE: f64 = 0.8;
/// Most states of the state graph, and the share of the memory limit for it and pricing's table over it.
const MOST_STATES: usize = 1 << 20;
const STATES_SHARE: f64 = 0.5;

/// Local search for the plan, column generation for the bound.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bnp;

impl Solver for Bnp {
    fn name(&self) -> &'static str {
        "bnp"
    }

    fn summary(&self) -> &'static str {
        "column generation over what one device can hold, with plans from search (free throughput)"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { missing: missing_for_free_throughput, exact: true, deterministic_across_threads: true }
    }

    fn solve(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        SolveError::check(self, problem)?;
        let mut relaxation = Relaxation { bound: first_bound(problem), reason: None };
        let bound = relaxation.bound.clone();
        let without = |status, stop, why| Ok(Solution::without_plan(self.name(), status, bound, stop, why));
        let found = match first_plan(problem, &mut context.part(SEARCH_SHARE))? {
            First::Impossible(why) => return without(Status::Infeasible, None, why),
            First::Plan(found) => found,
        };
        let replicated = contiguous_with_replicas(problem, &mut context.part(SEARCH_SHARE))?;
        let plans = [found, replicated].into_iter().flatten();
        let Some(mut plan) = plans.min_by(|a, b| a.value().total_cmp(&b.value())) else {
            let stop = context.stop().reason();
            return without(Status::Unknown, stop, "no start that was tried fits the devices".into());
        };
        let mut statistics = Vec::new();
        if !relaxation.enough(&plan, context) {
            let mut part = context.part(BOUND_SHARE);
            relaxation.raise(problem, &plan, &mut statistics, &mut part);
        }
        if !relaxation.enough(&plan, context) && context.stop().reason().is_none() {
            plan = self.search_on(problem, plan, &relaxation.bound, &mut statistics, context)?;
        }
        let Relaxation { bound, reason } = relaxation;
        // The one check of a bound that costs nothing: a plan below it would disprove it.
        if bound.value > plan.value() * (1.0 + tolerance::VALUE_RELATIVE) {
            let (bound, value) = (bound.value, plan.value());
            return Err(SolveError::Invariant(format!("a plan of {value} s below the bound of {bound} s")));
        }
        let stop = match context.gap_reached(plan.value(), bound.value) {
            true => Some(StopReason::Gap),
            false => context.stop().reason(),
        };
        let solution = Solution::with_plan(self.name(), plan, bound, stop);
        let reason = reason.filter(|_| solution.status != Status::Optimal);
        Ok(Solution { statistics, reason, ..solution })
    }
}

impl Bnp {
    /// Plans again, in the time that the bound left: by large neighbourhoods, or where those lack something by local
    /// search from the plan.
    fn search_on(
        &self,
        problem: &Problem,
        plan: Plan,
        bound: &LowerBound,
        statistics: &mut Vec<(&'static str, u64)>,
        context: &mut Context<'_>,
    ) -> Result<Plan, SolveError> {
        if missing_for_cut_nets(problem.objective()).is_none() {
            let (better, neighbourhoods) = improve(problem, plan, bound, context)?;
            statistics.push(("neighbourhoods", neighbourhoods));
            return Ok(better);
        }
        let mut part = context.part(1.0);
        part.warm_start = Some(plan.placement.clone());
        let again = Local.solve(problem, &mut part)?;
        statistics.extend(again.statistics);
        Ok(again.plan.filter(|again| again.value() < plan.value()).unwrap_or(plan))
    }
}

/// The best contiguous split with replicated stages, which local search does not use, where they are allowed.
fn contiguous_with_replicas(
    problem: &Problem,
    context: &mut Context<'_>,
) -> Result<Option<Plan>, SolveError> {
    if problem.objective().max_replicas == 1 {
        return Ok(None);
    }
    let objective = Objective { split: Split::Contiguous, ..*problem.objective() };
    let Ok(contiguous) = problem.with_objective(objective) else { return Ok(None) };
    // A warm start of the free problem need not be contiguous.
    context.warm_start = None;
    let Some(plan) = best_over_orders(&contiguous, &Units::new(&contiguous), Effort::Plain, context)? else {
        return Ok(None);
    };
    // A free split has no order of stages.
    let used = plan.placement.used();
    let replicas = used.iter().map(|&device| (device, plan.placement.replicas(device)));
    let replicas = replicas.filter(|&(_, replicas)| replicas > 1).collect();
    let device_of = problem.graph().operators().map(|op| plan.placement.device_of(op)).collect();
    Plan::new(problem, Placement::with_stages(device_of, Vec::new(), replicas)).map(Some)
}

/// The bound, and what held it back.
struct Relaxation {
    bound: LowerBound,
    reason: Option<String>,
}

impl Relaxation {
    /// Whether a plan is proved, or as near to the bound as was asked for.
    fn enough(&self, plan: &Plan, context: &Context<'_>) -> bool {
        tolerance::gap(plan.value(), self.bound.value) == 0.0
            || context.gap_reached(plan.value(), self.bound.value)
    }

    /// Column generation up to the value of a plan.
    fn raise(
        &mut self,
        problem: &Problem,
        plan: &Plan,
        statistics: &mut Vec<(&'static str, u64)>,
        context: &mut Context<'_>,
    ) {
        context.emit(Event::Phase { name: "column generation".into() });
        let units = Units::new(problem);
        let stop = context.stop().clone();
        let most = most_states(&units, context.limits.memory);
        let Some(preparation) = Preparation::new(problem, &units, most, &stop) else {
            self.reason = Some("column generation had no time or memory to begin".into());
            return;
        };
        if preparation.relaxed {
            self.reason =
                Some("column generation left out the cheapest of the nets, which are too many".into());
        }
        let (value, gap) = (plan.value(), context.limits.gap);
        let enough = |low: f64| gap > 0.0 && tolerance::gap(value, low) <= gap;
        let mut generation = Generation::new(problem, &units, &preparation, context.limits.memory);
        let raised = raise(&mut generation, [self.bound.value, value], enough, &stop, |low, prices| {
            let certificate = Some(certificate(problem, &units, &preparation, low, &prices));
            self.bound = LowerBound { value: low, source: SOURCE, certificate };
            context.emit(Event::Bound { value: low, source: SOURCE });
        });
        match raised {
            Err(error) => self.reason = Some(error.to_string()),
            Ok(decided) if self.reason.is_none() && stop.reason().is_none() => {
                let reason = match decided {
                    true => "the linear relaxation of column generation ends here, without branching",
                    false => {
                        "column generation ended with its rounds or its memory, some thresholds undecided"
                    }
                };
                self.reason = Some(reason.into());
            }
            Ok(_) => {}
        }
        let (rounds, columns) = (generation.rounds(), generation.columns().len() as u64);
        statistics.extend([
            ("states", preparation.states.len() as u64),
            ("rounds", rounds),
            ("columns", columns),
        ]);
    }
}

/// The evidence that a threshold is excluded: prices of units and devices, the zeros aside, and the order of decisions.
fn certificate(
    problem: &Problem,
    units: &Units,
    preparation: &Preparation,
    threshold: f64,
    prices: &Prices,
) -> Certificate {
    let operator = |unit: usize| units.members(unit)[0];
    let units_priced = prices.units.iter().enumerate().map(|(unit, &price)| (operator(unit), price));
    let pools = problem.pools().iter().map(|pool| pool.devices[0]);
    Certificate::ColumnGeneration {
        threshold,
        prices: units_priced.filter(|&(_, price)| price > 0.0).collect(),
        devices: pools.zip(prices.devices.iter().copied()).filter(|&(_, price)| price > 0.0).collect(),
        order: preparation.states.order().iter().map(|&unit| operator(unit as usize)).collect(),
    }
}

/// States that the memory has room for, with the least table over them.
fn most_states(units: &Units, memory: Option<u64>) -> usize {
    let bytes =
        size_of::<[u32; 2]>() + units.pools() * size_of::<[f64; 2]>() + (FEWEST_CELLS + 1) * size_of::<f32>();
    let room = memory.map_or(f64::INFINITY, |memory| memory as f64 * STATES_SHARE / bytes as f64);
    (MOST_STATES as f64).min(room) as usize
}
