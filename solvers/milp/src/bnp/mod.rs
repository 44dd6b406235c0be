//! Free splits with a proof: plans from search, bounds from column generation, and branch and price to close
//! the gap.
//!
//! The linear relaxation of the cover by columns is tight on pipelines of neural networks: on most of the
//! published instances its bound reaches the value of the best plan, which is a proof (`root`). If it leaves
//! a gap, dives look for better plans, and trees over pairs of units prove what the relaxation cannot
//! (`below`). Large-neighbourhood search then improves the plan in the remaining time.
//!
//! A given start may already be optimal, as the plan of a similar problem often is. A few rounds of column generation
//! try to prove the start optimal; if they fail, local search improves it.

mod below;
mod root;

use stagewright_core::bound::LowerBound;
use stagewright_core::contraction::Units;
use stagewright_core::document::Split;
use stagewright_core::objective::{Objective, Throughput};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Capabilities, Context, Event, Plan, Result, Solution, Solver, Status};
use stagewright_search::Local;
use stagewright_search::dpl::{OrderEffort, best_over_orders};
use stagewright_search::local::unsupported_for_free_throughput;

use crate::first::{First, first_bound, first_plan, warm_plan};
use crate::lns::improve;
use crate::milp::unsupported_for_cut_nets;

use below::Below;
use root::{Root, prepare};

/// Share of the remaining time for the first search for a plan.
const SEARCH_SHARE: f64 = 0.3;
/// Share of the remaining time for the proof of a given start.
const PROOF_SHARE: f64 = 0.25;
/// Share of the remaining time for preparing the bound, and again for raising it; the rest of the time goes to plans
/// again.
const BOUND_SHARE: f64 = 0.8;
/// Shares of the remaining time for dives and then for trees. Both begin only if every threshold was decided at the
/// root. Otherwise, on graphs of hundreds of small units, a relaxation takes seconds and the shares of its columns are
/// too small to guide a dive: dives then end with half of the units placed, and the time is better spent on
/// neighbourhoods.
const DIVE_SHARE: f64 = 0.25;
const TREE_SHARE: f64 = 0.75;

/// Local search and dives for the plan, column generation and branch and price for the bound.
#[derive(Debug, Clone, Copy)]
pub struct Bnp {
    /// Whether a given start is already the result of local search.
    is_start_searched: bool,
}

impl Bnp {
    /// Tries to prove a given start optimal, then improves it by local search.
    pub const ALONE: Bnp = Bnp { is_start_searched: false };
    /// Takes a given start as the result of local search, as in a portfolio.
    pub const AFTER_SEARCH: Bnp = Bnp { is_start_searched: true };
}

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
        Capabilities { exact: true, starts_from_plan: true, depends_on_seed: true, ..Capabilities::default() }
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
        let bound = first_bound(problem, context);
        let without =
            |status, stop, why| Ok(Solution::without_plan(self.name(), status, bound.clone(), stop, why));
        let start = warm_plan(problem, context).filter(|_| !self.is_start_searched);
        let is_unsearched = start.is_some();
        let found = match start {
            Some(start) => {
                context.emit(Event::Incumbent { value: start.value() });
                First::Plan(Some(start))
            }
            None => first_plan(problem, &mut context.time_slice(SEARCH_SHARE))?,
        };
        let found = match found {
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
        answer.price(problem, is_unsearched, context)?;
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
    /// Reason why the bound is not higher.
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

    /// Runs the root, dives and trees. If local search has not run from the start yet, the start is improved first,
    /// unless the root proves it optimal.
    fn price(&mut self, problem: &Problem, is_unsearched: bool, context: &mut Context<'_>) -> Result<()> {
        if self.enough(context) {
            return Ok(());
        }
        let units = Units::of(problem);
        let preparation = prepare(problem, &units, self, &mut context.time_slice(BOUND_SHARE));
        let mut root =
            preparation.as_ref().map(|preparation| Root::new(problem, &units, preparation, context));
        if is_unsearched {
            if let Some(root) = &mut root {
                root.try_to_prove(self, &mut context.time_slice(PROOF_SHARE));
            }
            if self.goes_on(context) {
                self.search_locally(problem, &mut context.time_slice(SEARCH_SHARE))?;
            }
        }
        let (Some(preparation), Some(mut root)) = (&preparation, root) else { return Ok(()) };
        let decided = self.goes_on(context) && root.raise(self, &mut context.time_slice(BOUND_SHARE));
        if decided && self.goes_on(context) {
            let below = Below::new(problem, &units, preparation, root.columns(), context);
            let value = self.plan.value();
            below.dive(self, &mut context.time_slice(DIVE_SHARE))?;
            if self.plan.value() < value && self.goes_on(context) {
                // A bound from the relaxation has a certificate; a bound from a tree has none.
                root.raise(self, &mut context.time_slice(BOUND_SHARE));
            }
            if self.goes_on(context) {
                below.branch(self, &mut context.time_slice(TREE_SHARE))?;
            }
        }
        self.statistics.extend(root.statistics());
        Ok(())
    }

    /// Improves the plan in the remaining time: by large-neighbourhood search, or by local search if the former does not
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
        // Use walks other than those of the first search.
        part.shift_seed(1);
        let statistics = self.search_locally(problem, &mut part)?;
        self.statistics.extend(statistics);
        Ok(())
    }

    /// Runs local search from the start of the context, and returns the statistics.
    fn search_locally(
        &mut self,
        problem: &Problem,
        context: &mut Context<'_>,
    ) -> Result<Vec<(&'static str, u64)>> {
        let found = Local.solve(problem, context)?;
        if let Some(plan) = found.plan {
            self.keep(plan, context);
        }
        Ok(found.statistics)
    }

    fn solution(self, solver: &'static str, context: &Context<'_>) -> Result<Solution> {
        let Answer { plan, bound, reason, statistics } = self;
        // A free check of the bound: a plan below the bound would disprove it.
        plan.check_bound(&bound)?;
        let stop = context.end(plan.value(), bound.value);
        let solution = Solution::with_plan(solver, plan, bound, stop);
        let reason = reason.filter(|_| solution.status != Status::Optimal);
        Ok(Solution { statistics, reason, ..solution })
    }
}

/// Best contiguous split with replicated stages, if replicas are allowed; local search does not use replicas.
fn contiguous_with_replicas(problem: &Problem, context: &mut Context<'_>) -> Result<Option<Plan>> {
    if problem.objective().rules().max_replicas == 1 {
        return Ok(None);
    }
    let objective = Throughput { split: Split::Contiguous, ..problem.objective().rules() };
    let Ok(contiguous) = problem.with_objective(objective) else { return Ok(None) };
    // A warm start of the free problem need not be contiguous.
    context.warm_start = None;
    let Some(plan) = best_over_orders(&contiguous, &Units::of(&contiguous), OrderEffort::Plain, context)?
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
