//! Free splits with a proof: plans from search, bounds from column generation, and branch and price to close
//! the gap.
//!
//! The linear relaxation of the cover by columns is tight on pipelines of neural networks: on most of the
//! published instances its bound reaches the value of the best plan, which is a proof (`root`). If it leaves
//! a gap, dives look for better plans, and trees over pairs of units prove what the relaxation cannot
//! (`below`). Large-neighbourhood search then improves the plan in the remaining time.

mod below;
mod root;

use stagewright_core::bound::LowerBound;
use stagewright_core::contract::Units;
use stagewright_core::document::Split;
use stagewright_core::objective::{Objective, Throughput};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{
    Capabilities, Context, Event, Plan, Result, Solution, SolveError, Solver, Status,
};
use stagewright_search::Local;
use stagewright_search::dpl::{OrderEffort, best_over_orders};
use stagewright_search::local::unsupported_for_free_throughput;

use crate::first::{First, first_bound, first_plan};
use crate::lns::improve;
use crate::milp::unsupported_for_cut_nets;

use below::Below;
use root::{Root, prepare};

/// Share of the time for the first search for a plan.
const SEARCH_SHARE: f64 = 0.3;
/// Share of the time then remaining for the bound; the rest is for plans again.
const BOUND_SHARE: f64 = 0.8;
/// Shares of the remaining time for dives and then for trees. Both begin only if every threshold was decided
/// at the root. Otherwise, on graphs of hundreds of small units, a relaxation takes seconds and its shares
/// are too small to guide a dive: dives then end with half of the units placed, and the time is better spent
/// on neighbourhoods.
const DIVE_SHARE: f64 = 0.25;
const TREE_SHARE: f64 = 0.75;

/// Local search and dives for the plan, column generation and branch and price for the bound.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bnp;

impl Solver for Bnp {
    fn name(&self) -> &'static str {
        "bnp"
    }

    fn summary(&self) -> &'static str {
        "branch and price over sets of units per device, with plans from search (free throughput)"
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        unsupported_for_free_throughput(objective)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { exact: true, ..Capabilities::default() }
    }

    fn solve(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
        SolveError::check(self, problem)?;
        let bound = first_bound(problem, context.stop());
        let without =
            |status, stop, why| Ok(Solution::without_plan(self.name(), status, bound.clone(), stop, why));
        let found = match first_plan(problem, &mut context.time_slice(SEARCH_SHARE))? {
            First::Impossible(why) => return without(Status::Infeasible, None, why),
            First::Plan(found) => found,
        };
        let replicated = contiguous_with_replicas(problem, &mut context.time_slice(SEARCH_SHARE))?;
        let plans = [found, replicated].into_iter().flatten();
        let Some(plan) = plans.min_by(|a, b| a.value().total_cmp(&b.value())) else {
            let stop = context.stop().reason();
            return without(Status::Unknown, stop, "no initial plan found fits the devices".into());
        };
        let mut answer = Answer { plan, bound, reason: None, statistics: Vec::new() };
        answer.price(problem, context)?;
        if answer.goes_on(context) {
            answer.search_on(problem, context)?;
        }
        answer.solution(self.name(), context)
    }
}

/// Best plan and best bound so far.
struct Answer {
    plan: Plan,
    bound: LowerBound,
    /// Reason why the bound is no higher.
    reason: Option<String>,
    statistics: Vec<(&'static str, u64)>,
}

impl Answer {
    /// Whether the plan is proved optimal or within the requested gap of the bound.
    fn enough(&self, context: &Context<'_>) -> bool {
        context.is_enough(self.plan.value(), self.bound.value)
    }

    /// Keeps a plan if it is better.
    fn keep(&mut self, plan: Plan, context: &mut Context<'_>) {
        if plan.value() < self.plan.value() {
            context.emit(Event::Incumbent { value: plan.value() });
            self.plan = plan;
        }
    }

    /// Whether to continue: the gap is open, and no limit is reached.
    fn goes_on(&self, context: &Context<'_>) -> bool {
        !self.enough(context) && context.stop().reason().is_none()
    }

    /// Runs the root, dives and trees.
    fn price(&mut self, problem: &Problem, context: &mut Context<'_>) -> Result<()> {
        if self.enough(context) {
            return Ok(());
        }
        let units = Units::new(problem);
        let mut part = context.time_slice(BOUND_SHARE);
        let Some(preparation) = prepare(problem, &units, self, &mut part) else { return Ok(()) };
        let mut root = Root::new(problem, &units, &preparation, &part);
        let decided = root.raise(self, &mut part);
        if decided && self.goes_on(context) {
            let below = Below::new(problem, &units, &preparation, root.columns(), context);
            let value = self.plan.value();
            below.dive(self, &mut context.time_slice(DIVE_SHARE))?;
            if self.plan.value() < value && self.goes_on(context) {
                // A bound from the relaxation has a certificate, a bound from a tree has none.
                root.raise(self, &mut context.time_slice(BOUND_SHARE));
            }
            if self.goes_on(context) {
                below.branch(self, &mut context.time_slice(TREE_SHARE))?;
            }
        }
        self.statistics.extend(root.statistics());
        Ok(())
    }

    /// Improves the plan in the remaining time: by large neighbourhoods, or by local search if those do not
    /// support the objective.
    fn search_on(&mut self, problem: &Problem, context: &mut Context<'_>) -> Result<()> {
        if unsupported_for_cut_nets(problem.objective()).is_none() {
            let (better, neighbourhoods) = improve(problem, self.plan.clone(), &self.bound, context)?;
            self.statistics.push(("neighbourhoods", neighbourhoods));
            self.plan = better;
            return Ok(());
        }
        let mut part = context.time_slice(1.0);
        part.warm_start = Some(self.plan.placement.clone());
        let again = Local.solve(problem, &mut part)?;
        self.statistics.extend(again.statistics);
        if let Some(plan) = again.plan {
            self.keep(plan, context);
        }
        Ok(())
    }

    fn solution(self, solver: &'static str, context: &Context<'_>) -> Result<Solution> {
        let Answer { plan, bound, reason, statistics } = self;
        // A free check of the bound: a plan below it would disprove it.
        plan.check_bound(&bound)?;
        let stop = context.end(plan.value(), bound.value);
        let solution = Solution::with_plan(solver, plan, bound, stop);
        let reason = reason.filter(|_| solution.status != Status::Optimal);
        Ok(Solution { statistics, reason, ..solution })
    }
}

/// Best contiguous split with replicated stages, if replicas are allowed; local search does not use them.
fn contiguous_with_replicas(problem: &Problem, context: &mut Context<'_>) -> Result<Option<Plan>> {
    if problem.objective().rules().max_replicas == 1 {
        return Ok(None);
    }
    let objective = Throughput { split: Split::Contiguous, ..problem.objective().rules() };
    let Ok(contiguous) = problem.with_objective(objective) else { return Ok(None) };
    // A warm start of the free problem need not be contiguous.
    context.warm_start = None;
    let Some(plan) = best_over_orders(&contiguous, &Units::new(&contiguous), OrderEffort::Plain, context)?
    else {
        return Ok(None);
    };
    // A free split has no order of stages.
    let used = plan.placement.used();
    let replicas = used.iter().map(|&device| (device, plan.placement.replicas(device)));
    let replicas = replicas.filter(|&(_, replicas)| replicas > 1).collect();
    let device_of = problem.graph().operators().map(|op| plan.placement.device_of(op)).collect();
    Plan::new(problem, Placement::with_stages(device_of, Vec::new(), replicas)).map(Some)
}
