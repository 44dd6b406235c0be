//! Runs solvers one after the other within one budget, each from the best plan so far.

use stagewright_core::bound::{LowerBound, strongest_before};
use stagewright_core::calls::assign_if_missing;
use stagewright_core::document::{ObjectiveKind, Split};
use stagewright_core::objective::{Objective, Throughput};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{
    Capabilities, Context, Event, Plan, Result, Solution, SolveError, Solver, Status,
};
use stagewright_core::tolerance;
use stagewright_dp::{Dp, MaxLoadSplit};
use stagewright_makespan::instance::Instance;
use stagewright_makespan::{
    ANNEALING, Exact, Fold, HEFT, LIST_SCHEDULES, MULTILEVEL, OrderSplit, SIMULATED, TABU, assigned,
};
use stagewright_search::dpl;
use stagewright_search::{LatencyGreedy, Local, OneDevice};

use crate::integer::{BNP_AFTER_SEARCH, LNS, MILP};

/// Solvers that run in sequence on one budget. Returns the best plan and the best bound of all.
pub(super) struct Portfolio {
    /// The kind of objective that the portfolio supports.
    kind: ObjectiveKind,
    summary: &'static str,
    /// Finds the plan to start from, within a share of the time.
    start: Start,
    /// Share of the time for finding the starting plan, in small and in large graphs.
    start_shares: [f64; 2],
    /// The solvers, each with its share of the remaining time.
    stages: &'static [(&'static dyn Solver, f64)],
}

type Start = fn(&Problem, f64, &mut Context<'_>) -> Result<Option<Plan>>;

/// The portfolio for splits without a stage order.
///
/// The contiguous splitter comes first, so the result is never worse than its best plan. Local search follows, because
/// it finds a good plan quickly. Column generation proves most problems optimal. On the others, large neighbourhood
/// search gains the last tenths of a percent; it also gets the remaining time. The integer program between its two
/// turns raises the bound in two cases: with hundreds of small units, where column generation's bound hardly exceeds
/// that from the work alone, and with uplinks, which column generation ignores. In large graphs, methods that move
/// single operators or replan a few devices hardly improve on the contiguous split, so the splitter gets more time
/// there.
static SPLITS: Portfolio = Portfolio {
    kind: ObjectiveKind::Throughput,
    summary: "the contiguous splitter, local search, column generation, large neighbourhoods and the integer program in turn",
    start: contiguous,
    start_shares: [0.15, 0.6],
    stages: &[(&Local, 0.15), (&BNP_AFTER_SEARCH, 0.5), (&LNS, 0.35), (&MILP, 0.75), (&LNS, 1.0)],
};

/// The portfolio for latency. The best order of blocks and the best chain of calls take milliseconds, and the chain
/// often proves its plan optimal. Local search and large neighbourhoods find plans with more overlap, and the integer
/// program is exact on small graphs.
static CALLS: Portfolio = Portfolio {
    kind: ObjectiveKind::Latency,
    summary: "the block program, local search, large neighbourhoods and the integer program in turn",
    start: baselines,
    start_shares: [0.1, 0.3],
    stages: &[(&Dp, 0.5), (&Local, 0.3), (&LNS, 0.5), (&MILP, 0.5), (&Local, 1.0)],
};

/// The portfolio for the makespan: list schedulers, which take milliseconds, folding, if the graph is large and repeats, and the
/// pipeline of a linear order; then splits of linear orders, for steps that are nearly sequential; multilevel partitioning; the bound between
/// bottlenecks and the exact search, for small graphs; and finally tabu search and annealing.
static STEPS: Portfolio = Portfolio {
    kind: ObjectiveKind::Makespan,
    summary: "list schedulers, folding, splits of linear orders, multilevel partitioning, branch and bound, tabu search and annealing in turn",
    start: schedulers,
    start_shares: [0.3, 0.3],
    stages: &[
        (&OrderSplit, 0.05),
        (&MULTILEVEL, 0.65),
        (&Exact::BUDGETED, 0.4),
        (&TABU, 0.5),
        (&ANNEALING, 1.0),
    ],
};

/// All portfolios. Each applies to any objective of its kind that at least one of its solvers supports, and the one for
/// splits also to convex splits in builds without a solver for them.
pub(super) static PORTFOLIOS: [&Portfolio; 3] = [&SPLITS, &CALLS, &STEPS];

/// Source of the integer program's bounds, and the gap that counts as closed for them: its arithmetic does not resolve
/// smaller gaps.
const INTEGER_PROGRAM: &str = "milp";
const SOLVED: f64 = 2e-6;
/// Share of the time for finding starting plans that is spent on the pipeline of a linear order.
const PIPELINE_SHARE: f64 = 0.5;
/// Number of evaluations of a step in whose time the pipeline of a linear order contracts the graph and evaluates its plans,
/// which no limit interrupts.
const PIPELINE_EVALUATIONS: u32 = 5;
/// Number of operators above which a graph counts as large.
const LARGE: usize = 10_000;
/// Fewest operators of a graph that is folded.
const FOLDED: usize = 30_000;
/// Share of the time for folding where it suffices for fewer than a number of simulations of the whole graph: with few, searches
/// that move single operators hardly get anywhere.
const FOLDING_SHARES: [(f64, f64); 2] = [(300.0, 0.95), (6000.0, 0.7)];
/// Share of the time for folding where it suffices for more.
const FOLDING_SHARE: f64 = 0.25;

impl Portfolio {
    /// The solvers that support an objective.
    fn supporting(&self, objective: &Objective) -> impl Iterator<Item = (&'static dyn Solver, f64)> {
        self.stages.iter().copied().filter(|(solver, _)| solver.unsupported(objective).is_none())
    }
}

impl Solver for Portfolio {
    fn name(&self) -> &'static str {
        "portfolio"
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        if objective.kind() != self.kind {
            return Some("objectives of another kind");
        }
        // In a build without HiGHS no stage supports convex splits, but the best contiguous split, with which the portfolio
        // starts, is convex.
        let is_started = self.kind == ObjectiveKind::Throughput && objective.rules().split == Split::Convex;
        let is_supported = is_started || self.supporting(objective).next().is_some();
        (!is_supported).then_some("what none of its solvers supports")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { exact: true, starts_from_plan: true, depends_on_seed: true, ..Capabilities::default() }
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
        let share = self.start_shares[usize::from(is_large(problem))];
        let plan = (self.start)(problem, share, context)?;
        let mut so_far = SoFar { plan, ..SoFar::default() };
        for (stage, (solver, share)) in (0..).zip(self.supporting(problem.objective())) {
            if is_late(problem, so_far.plan.is_some(), context) || so_far.is_enough(context) {
                break;
            }
            context.emit(Event::Phase { name: solver.name().into() });
            let mut part = context.time_slice_without(problem.overhead(), share);
            // With a different seed, the second turn of a solver explores other plans.
            part.shift_seed(stage);
            if let Some(plan) = &so_far.plan {
                part.warm_start = Some(plan.placement.clone());
            }
            let solution = solver.solve(problem, &mut part)?;
            if solution.status == Status::Infeasible {
                return match so_far.plan {
                    None => Ok(Solution { solver: self.name(), ..solution }),
                    Some(_) => {
                        let name = solver.name();
                        Err(SolveError::Invariant(format!("`{name}` reports infeasible, but a plan exists")))
                    }
                };
            }
            so_far.take(solution);
        }
        so_far.bound = so_far.bound.max(strongest_before(problem, context.stop()));
        so_far.solution(self.name(), context)
    }
}

fn is_large(problem: &Problem) -> bool {
    problem.graph().operator_count() > LARGE
}

/// Whether no further solver may start: no time remains, or less than every solver spends outside its search. In a
/// small graph without a plan, solvers still start, because their first steps may find one.
fn is_late(problem: &Problem, has_plan: bool, context: &Context<'_>) -> bool {
    let is_over = context.stop().reason().is_some()
        || context.stop().remaining().is_some_and(|left| left <= problem.overhead());
    is_over && (has_plan || is_large(problem))
}

/// The best of the warm start and the common baselines, so that the result is never worse than any of them. The
/// baselines fill accelerators in turn, or build the pipeline of least load.
fn baselines(problem: &Problem, share: f64, context: &mut Context<'_>) -> Result<Option<Plan>> {
    let warm = context.warm_start.take().map(|warm| assign_if_missing(problem, warm));
    let context = &mut context.time_slice(share);
    let best = announced(warm, problem, context);
    best_of(&[&LatencyGreedy, &MaxLoadSplit], problem, best, context)
}

/// The best of the warm start, folding, list schedulers, a single device and the pipeline of a linear order.
fn schedulers(problem: &Problem, share: f64, context: &mut Context<'_>) -> Result<Option<Plan>> {
    let warm = context.warm_start.take();
    let mut best = announced(warm, problem, context);
    let operators = problem.graph().operator_count();
    if operators >= FOLDED {
        let seconds = context.stop().remaining().map_or(f64::INFINITY, |left| left.as_secs_f64());
        let simulations = seconds * context.threads() as f64 * SIMULATED / operators as f64;
        let share = FOLDING_SHARES
            .iter()
            .find(|&&(fewer, _)| simulations < fewer)
            .map_or(FOLDING_SHARE, |share| share.1);
        best = folded(problem, best, &mut context.time_slice_without(problem.overhead(), share))?;
    }
    if best.is_none() {
        // This scheduler gets all of the time, so that even under a limit the result is at least as good as its own.
        let first = HEFT.plan(problem, context.stop());
        context.keep(&mut best, first);
    }
    let context = &mut context.time_slice(share);
    let beats_one_device = |plan: &Plan| plan.value() < OneDevice::least_makespan(problem);
    if best.is_none() || (context.stop().reason().is_none() && !best.as_ref().is_some_and(beats_one_device)) {
        // Kept first, so that the simplest plan wins a tie.
        let one_device = OneDevice::plan(problem, context.stop()).ok();
        context.keep(&mut best, one_device);
    }
    if !is_late(problem, best.is_some(), context) {
        best = best_of(&[&LIST_SCHEDULES], problem, best, context)?;
    }
    let is_enough =
        |plan: &Plan| context.is_enough(plan.value(), strongest_before(problem, context.stop()).value);
    let reserve = PIPELINE_EVALUATIONS * problem.overhead();
    let has_time = context.stop().remaining().is_none_or(|left| left > reserve);
    if context.stop().reason().is_none() && has_time && !best.as_ref().is_some_and(is_enough) {
        let pipeline = pipeline(problem, context)?;
        context.keep(&mut best, pipeline);
    }
    Ok(best)
}

/// The better of a plan and that of folding, which begins with it, or else with the list schedule that this portfolio makes first.
fn folded(problem: &Problem, mut best: Option<Plan>, context: &mut Context<'_>) -> Result<Option<Plan>> {
    context.emit(Event::Phase { name: Fold.name().into() });
    context.warm_start = best.as_ref().map(|plan| plan.placement.clone());
    let found = Fold.solve(problem, context)?.plan;
    context.keep(&mut best, found);
    Ok(best)
}

/// The best contiguous split of a linear order, as the plan of one step. In large recurrent graphs, its stages lead to
/// better plans than list schedules.
fn pipeline(problem: &Problem, context: &mut Context<'_>) -> Result<Option<Plan>> {
    let devices = dpl::pipeline(problem, &mut context.time_slice(PIPELINE_SHARE))?;
    Ok(devices.and_then(|device_of| {
        let order = assigned::order(&Instance::new(problem), &device_of);
        Plan::try_new(problem, Placement::with_priority(device_of, order)).ok()
    }))
}

/// The plan of a warm start, if it is valid. Announces the plan to the observer.
fn announced(warm: Option<Placement>, problem: &Problem, context: &mut Context<'_>) -> Option<Plan> {
    let plan = warm.and_then(|warm| Plan::try_new(problem, warm).ok());
    if let Some(plan) = &plan {
        context.emit(Event::Incumbent { value: plan.value() });
    }
    plan
}

/// The best of a plan and the plans of several solvers.
fn best_of(
    solvers: &[&dyn Solver],
    problem: &Problem,
    mut best: Option<Plan>,
    context: &mut Context<'_>,
) -> Result<Option<Plan>> {
    for solver in solvers {
        if best.is_some() && context.stop().reason().is_some() {
            break;
        }
        // A solver that finds only one plan may not have announced it.
        let found = solver.solve(problem, &mut context.time_slice(1.0))?.plan;
        context.keep(&mut best, found);
    }
    Ok(best)
}

/// The better of the warm start and the best contiguous split without replicas, both as plans of `problem`.
fn contiguous(problem: &Problem, share: f64, context: &mut Context<'_>) -> Result<Option<Plan>> {
    let warm = context.warm_start.take();
    let context = &mut context.time_slice(share);
    let warm = announced(warm, problem, context);
    let rules = Throughput { split: Split::Contiguous, max_replicas: 1, ..problem.objective().rules() };
    let Ok(contiguous) = problem.with_objective(rules) else { return Ok(warm) };
    context.emit(Event::Phase { name: "the best contiguous split".into() });
    let Some(found) = Dp.solve(&contiguous, &mut context.for_restriction())?.plan else { return Ok(warm) };
    let device_of = problem.graph().operators().map(|op| found.placement.device_of(op)).collect();
    let found = Plan::new(problem, Placement::new(device_of)).ok();
    Ok([warm, found].into_iter().flatten().min_by(|a, b| a.value().total_cmp(&b.value())))
}

/// The best plan and the best bound found so far.
struct SoFar {
    plan: Option<Plan>,
    bound: LowerBound,
    /// The reason given by the solver whose bound is kept or, without a plan, by one that found none.
    reason: Option<String>,
    statistics: Vec<(&'static str, u64)>,
}

impl Default for SoFar {
    fn default() -> Self {
        SoFar { plan: None, bound: LowerBound::TRIVIAL, reason: None, statistics: Vec::new() }
    }
}

impl SoFar {
    fn take(&mut self, solution: Solution) {
        let Solution { plan, bound, reason, statistics, .. } = solution;
        if bound.value > self.bound.value {
            (self.bound, self.reason) = (bound, reason);
        } else if self.plan.is_none() && plan.is_none() {
            self.reason = reason;
        }
        if let Some(plan) = plan
            && self.plan.as_ref().is_none_or(|best| plan.value() < best.value())
        {
            self.plan = Some(plan);
        }
        for (name, count) in statistics {
            match self.statistics.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += count,
                None => self.statistics.push((name, count)),
            }
        }
    }

    fn is_enough(&self, context: &Context<'_>) -> bool {
        let none = if self.bound.source == INTEGER_PROGRAM { SOLVED } else { 0.0 };
        self.plan.as_ref().is_some_and(|plan| {
            tolerance::gap(plan.value(), self.bound.value) <= none
                || context.gap_reached(plan.value(), self.bound.value)
        })
    }

    fn solution(self, name: &'static str, context: &Context<'_>) -> Result<Solution> {
        let stop = context.stop().reason();
        let Some(plan) = self.plan else {
            let reason = self.reason.unwrap_or_else(|| "no solver found a plan".into());
            let solution = Solution::without_plan(name, Status::Unknown, self.bound, stop, reason);
            return Ok(Solution { statistics: self.statistics, ..solution });
        };
        // A plan of one solver with a value below the bound of another would refute that bound.
        plan.check_bound(&self.bound)?;
        let stop = context.end(plan.value(), self.bound.value);
        let solution = Solution::with_plan(name, plan, self.bound, stop);
        let reason = self.reason.filter(|_| solution.status != Status::Optimal);
        Ok(Solution { reason, statistics: self.statistics, ..solution })
    }
}
