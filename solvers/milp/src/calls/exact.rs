//! Latency in `milp`: the best order of blocks, a short local search, then the integer program, starting from the plan
//! found.

use stagewright_core::bits;
use stagewright_core::bound::LowerBound;
use stagewright_core::call_timing::{Call, Offload, Site};
use stagewright_core::calls::assign_if_missing;
use stagewright_core::contraction::Units;
use stagewright_core::document::Split;
use stagewright_core::objective::Throughput;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Plan, Result, Solution, Stop};
use stagewright_core::tolerance;
use stagewright_search::latency::blocks::over_orders;
use stagewright_search::latency::bound;
use stagewright_search::latency::local::improve;

use super::model::{CallsModel, Rows};
use super::nodes::Nodes;
use super::reach::Reach;
use super::scope::{CallId, Scope};
use super::seats::{SeatId, Seats};
use super::writer::Range;
use crate::cutnet::infeasible::explained;
use crate::run::{Outcome, RunEffort, RunError, TOLERANCE, solve as solve_program};
use crate::search::{Known, MAX_ENTRIES, Programs, Search, most_entries};

/// Source of the bound from [`Reach`].
const LONGEST_PATH: &str = "longest-path";
/// Shares of the time for the first plan and for local search.
const FIRST_SHARE: f64 = 0.1;
const SEARCH_SHARE: f64 = 0.15;

/// Initial bound and initial plan: the warm start, the best order of blocks, or the plan that the bound suggests,
/// improved by local search.
///
/// # Errors
/// If worker threads cannot be started, or an invariant is broken.
pub(crate) fn first(problem: &Problem, context: &mut Context<'_>) -> Result<(LowerBound, Option<Plan>)> {
    let (bound, suggested) = bound::first(problem, context.time_slice(FIRST_SHARE).stop());
    let suggested = suggested.map(|placement| Plan::new(problem, placement)).transpose()?;
    let warm = context.warm_start.clone().map(|warm| assign_if_missing(problem, warm));
    let warm = warm.and_then(|warm| Plan::new(problem, warm).ok());
    let first = match warm {
        Some(plan) => Some(plan),
        None => over_orders(problem, &Units::of(problem), &mut context.time_slice(FIRST_SHARE))?,
    };
    let plans = [first, suggested].into_iter().flatten();
    let Some(first) = plans.min_by(|a, b| a.value().total_cmp(&b.value())) else { return Ok((bound, None)) };
    let (plan, _) = improve(problem, first, bound.value, &mut context.time_slice(SEARCH_SHARE))?;
    Ok((bound, Some(plan)))
}

pub(crate) fn solve(name: &'static str, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
    let (bound, plan) = first(problem, context)?;
    let mut search = Search::new(problem, plan, bound);
    run(problem, &mut search, context);
    search.solution(name, context)
}

fn run(problem: &Problem, search: &mut Search<'_>, context: &mut Context<'_>) {
    let offload = Offload::new(problem);
    let graph = problem.graph();
    let blocks = if problem.objective().calls() == 1 { graph.class_count() } else { graph.operator_count() };
    let few = |seats: &Seats| seats.len().saturating_mul(blocks) <= MAX_ENTRIES;
    let Some(seats) = Seats::new(problem).filter(few) else {
        search.reason = Some("the integer program would be too large to start".into());
        return;
    };
    let Some(scope) = Scope::whole(&offload, &seats) else {
        search.infeasible = Some("a colocation class cannot run on any device".into());
        return;
    };
    let longest = tolerance::round_down(Reach::new(&scope).longest());
    search.raise(LowerBound { value: longest, source: LONGEST_PATH, certificate: None }, context);
    if !search.is_too_large(scope.entries(), context) {
        let entries = scope.entries().saturating_add(scope.order_entries());
        let has_order = entries <= most_entries(context.limits.memory);
        search.run(&mut Calls { scope, rows: Rows::default(), has_order }, context);
    }
}

struct Calls<'a> {
    scope: Scope<'a>,
    rows: Rows,
    /// Whether there is enough memory for the rows of the order.
    has_order: bool,
}

impl Programs for Calls<'_> {
    type Choice = SeatId;

    fn run(&mut self, known: Known<'_>, effort: RunEffort, stop: &Stop) -> Result<Outcome<SeatId>, RunError> {
        let high = known.plan.map_or_else(|| self.scope.one_after_the_other(), Plan::value);
        let scope = self.scope.excluding(high);
        let reach = Reach::new(&scope);
        let range = Range { low: known.bound, high };
        let Some(model) = CallsModel::new(&scope, &reach, range, self.rows, stop) else {
            return Ok(Outcome::NOTHING);
        };
        let start = known.plan.and_then(|plan| start(&scope, &model, &plan.placement));
        let outcome = solve_program(model, start, effort, stop)?;
        // If the relaxation takes too long without the rows of the order, it takes too long with them as well.
        self.rows.order |= self.has_order && outcome.bound.is_some();
        // Without a plan, the unit of the model is a guess, and the tolerances are relative to the guess.
        let less = if known.plan.is_some() { 0.0 } else { TOLERANCE * high };
        Ok(Outcome { bound: outcome.bound.map(|bound| (bound - less).max(0.0)), ..outcome })
    }

    fn placement(&self, chosen: &[SeatId]) -> Placement {
        self.scope.seats.placement(&self.scope.seats_of(chosen, None))
    }

    fn complete(&mut self, _chosen: &[SeatId]) -> bool {
        self.scope.has_positions() && !std::mem::replace(&mut self.rows.positions, true)
    }

    fn why_infeasible(&self, stop: &Stop) -> String {
        let problem = self.scope.offload.problem();
        // Packing does not depend on the objective.
        let objective = Throughput { split: Split::Free, ..problem.objective().rules() };
        let packing = problem.with_objective(objective).ok();
        let set = packing.and_then(|packing| explained(&packing, &Units::of(&packing), stop));
        set.unwrap_or_else(|| {
            let calls = problem.objective().calls();
            format!(
                "no placement meets memory, colocation and pins with at most {calls} calls per accelerator"
            )
        })
    }
}

/// Moves each block on a host outside its domain to a host in the domain that is as fast for the whole class and has
/// room for everything.
fn change_hosts(scope: &Scope<'_>, plan: &mut [SeatId]) {
    let (offload, seats) = (scope.offload, scope.seats);
    let pools = offload.problem().pools();
    for block in scope.blocks.iter() {
        let own = plan[block.ops[0].index()];
        if scope.call_at(own).is_some() || block.domain.contains(&own) {
            continue;
        }
        let class = offload.graph().class(block.class);
        let is_as_good = |&seat: &SeatId| {
            let [here, there] = [own, seat].map(|seat| seats.pool(seat));
            pools[there].host
                && seats.all_fit(pools[there].memory)
                && class.iter().all(|&op| offload.seconds(op, there) <= offload.seconds(op, here))
        };
        if let Some(host) = block.domain.iter().copied().find(is_as_good) {
            block.ops.iter().for_each(|op| plan[op.index()] = host);
        }
    }
}

/// Column values of a plan.
fn start(scope: &Scope<'_>, model: &CallsModel, placement: &Placement) -> Option<Vec<f64>> {
    let graph = scope.offload.graph();
    let mut plan = scope.seats.of_placement(scope.offload.problem(), placement)?;
    change_hosts(scope, &mut plan);
    let site = |&seat: &SeatId| match scope.call_at(seat) {
        Some(call) => Site::Call(call.0),
        None => Site::Host(scope.seats.seat(seat).pool),
    };
    let sites: Vec<Site> = plan.iter().map(site).collect();
    let calls: Vec<Call> =
        scope.calls.iter().map(|&seat| Call { pool: scope.seats.seat(seat).pool, after: None }).collect();
    let nodes = Nodes::new(graph, &sites, &calls)?;
    // Calls that each node waits for, as a bit set.
    let words = calls.len().div_ceil(64);
    let mut waits = vec![0u64; words * nodes.count()];
    for &node in nodes.order() {
        let mut here = waits[node.index() * words..][..words].to_vec();
        if let Some(call) = nodes.call(node) {
            bits::insert(&mut here, call as usize);
        }
        for next in nodes.successors(node) {
            let there = &mut waits[next.index() * words..][..words];
            there.iter_mut().zip(&here).for_each(|(there, here)| *there |= here);
        }
    }
    let follows = |call: CallId, next: CallId| {
        bits::contains(&waits[nodes.of_call(next.0).index() * words..], call.index())
    };
    Some(model.start(&scope.chosen(&plan), follows))
}
