//! The plan of least relative regret over listed scenarios.

use stagewright_core::bound::LowerBound;
use stagewright_core::evaluate::evaluate;
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Event, Plan, Result, Solution, Solver};
use stagewright_core::tolerance;
use stagewright_core::uncertainty::{Off, Scenario, Scenarios, SourceId, Sources};

use super::play::proved;
use super::search::Search;
use super::{check, solve_nominal, with_best, with_plan};

/// Number of kinds of operators, those with the most seconds, that are off in scenarios of their own.
const KINDS: usize = 3;
/// Share of the time for the nominal problem.
const NOMINAL_SHARE: f64 = 0.25;
/// Time for the search after the scenarios, in slices of one scenario by scenario.
const SEARCH_SLICES: f64 = 0.7;

/// Source of the bound of zero.
const NO_REGRET: &str = "a regret is at least zero";

/// One scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct RegretCase {
    /// The scenario, without its weight.
    pub scenario: Scenario,
    /// Value of the plan.
    pub value: f64,
    /// Value of the nominal plan.
    pub nominal: f64,
    /// Best value known.
    pub best: f64,
    /// Lower bound on the value of every plan.
    pub bound: f64,
}

/// The outcome of [`regret`].
#[derive(Debug, Clone)]
pub struct Regret {
    /// The nominal problem, solved; if the search found a better plan of it, with that plan.
    pub nominal: Solution,
    /// The sources of error.
    pub sources: Sources,
    /// The plan of least regret; `None` without a plan.
    pub plan: Option<Plan>,
    /// The scenarios, of which the first is the costs as predicted; none without a plan.
    pub cases: Vec<RegretCase>,
    /// Lower bound on the regret of every plan.
    pub bound: f64,
    /// Source of the bound.
    pub source: &'static str,
}

impl Regret {
    /// The regret of the plan against the best values known: max value / best value − 1.
    pub fn regret(&self) -> f64 {
        largest(self.cases.iter().map(|case| (case.value, case.best)))
    }

    /// The regret that the bounds allow: max value / bound − 1. Infinite if a bound is zero.
    pub fn at_most(&self) -> f64 {
        largest(self.cases.iter().map(|case| (case.value, case.bound)))
    }

    /// The regret of the nominal plan against the best values known.
    pub fn of_nominal(&self) -> f64 {
        largest(self.cases.iter().map(|case| (case.nominal, case.best)))
    }

    /// The solution of the nominal problem with the plan of least regret in place of its own.
    pub fn solution(&self, context: &Context<'_>) -> Solution {
        with_plan(&self.nominal, self.plan.as_ref(), context)
    }
}

/// The largest ratio of two values, less one; zero where the values agree within the optimality tolerance.
fn largest(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let ratio =
        |(value, best): (f64, f64)| if tolerance::gap(value, best) > 0.0 { value / best - 1.0 } else { 0.0 };
    pairs.map(ratio).fold(0.0, f64::max)
}

/// The scenarios of a problem: costs as predicted; then, by a factor of 1 + `deviation` and of 1 − `deviation`, every
/// class of devices, the links, and the three kinds of operators with the most seconds. The only kind on the only class is
/// left out, as both are all compute. O(operators · pools).
///
/// The only class of a cluster is a scenario of its own: with all compute at 1 − p the regrets are those with all links
/// at 1 / (1 − p), which is more than 1 + p.
pub fn listed(problem: &Problem, sources: &Sources, deviation: f64) -> Vec<Scenario> {
    let cluster = problem.cluster();
    let kinds = 0..cluster.kind_count();
    let class = |kind: usize| cluster.kind(kind).class.as_str();
    let mut off = Vec::new();
    for kind in kinds.clone().filter(|&kind| cluster.kind(kind).count > 0) {
        let of_class = Off::Class(kinds.clone().map(|other| class(other) == class(kind)).collect());
        if !off.contains(&of_class) {
            off.push(of_class);
        }
    }
    let is_one_class = off.len() == 1;
    off.push(Off::Source(sources.links()));
    let longest = longest_kinds(problem, sources);
    if !is_one_class || longest.len() > 1 {
        off.extend(longest.into_iter().map(Off::Source));
    }
    let both = |off: Off| {
        [1.0 + deviation, 1.0 - deviation].map(|factor| Scenario { off: off.clone(), factor, weight: 1.0 })
    };
    let nominal = Scenario { off: Off::Nothing, factor: 1.0, weight: 1.0 };
    std::iter::once(nominal).chain(off.into_iter().flat_map(both)).collect()
}

/// The kinds of operators with the most seconds, each operator on the pool where it is fastest.
fn longest_kinds(problem: &Problem, sources: &Sources) -> Vec<SourceId> {
    let mut seconds: Keyed<SourceId, f64> = Keyed::filled(0.0, sources.count());
    for op in problem.graph().operators() {
        let times = (0..problem.pools().len()).filter_map(|pool| problem.seconds(op, pool));
        seconds[sources.of(op)] += times.reduce(f64::min).unwrap_or(0.0);
    }
    let mut kinds: Vec<SourceId> = seconds.ids().filter(|&source| seconds[source] > 0.0).collect();
    kinds.sort_by(|&one, &other| seconds[other].total_cmp(&seconds[one]).then(one.cmp(&other)));
    kinds.truncate(KINDS);
    kinds
}

/// Finds a plan of least relative regret over the scenarios of [`listed`], and bounds that regret. The time is that of
/// `solver` for every scenario and up to ten averages of them, and of the programs over orders and ideals.
///
/// # Errors
/// An objective whose worst case is not defined or that the solver does not support, or a broken invariant.
pub fn regret(
    problem: &Problem,
    deviation: f64,
    solver: &dyn Solver,
    context: &mut Context<'_>,
) -> Result<Regret> {
    check(problem)?;
    let sources = Sources::new(problem.graph());
    let mut scenarios = listed(problem, &sources, deviation);
    let count = if deviation == 0.0 { 1 } else { scenarios.len() };
    scenarios.truncate(count);
    let share = if count == 1 { 1.0 } else { NOMINAL_SHARE };
    let nominal = solve_nominal(problem, solver, share, context)?;
    let Some(plan) = nominal.plan.clone() else {
        return Ok(Regret { nominal, sources, plan: None, cases: Vec::new(), bound: 0.0, source: "none" });
    };
    let mut plans = vec![plan.clone()];
    let mut bounds = vec![proved(&nominal).unwrap_or(0.0).max(0.0)];
    let problems: Vec<Problem> = scenarios.iter().map(|it| it.apply(problem, &sources)).collect();
    for (at, changed) in problems.iter().enumerate().skip(1) {
        context.emit(Event::Phase { name: format!("scenario {at} of {}", count - 1) });
        // Equal slices, of which some are left for the search.
        let rest = (count - at) as f64 + SEARCH_SLICES * count as f64;
        let mut auxiliary = context.for_auxiliary();
        let mut part = auxiliary.time_slice(1.0 / rest);
        part.warm_start = Some(plan.placement.clone());
        let solution = solver.solve(changed, &mut part)?;
        bounds.push(proved(&solution).unwrap_or(0.0).max(0.0));
        if let Some(found) = solution.plan {
            plans.push(Plan::new(problem, found.placement)?);
        }
    }
    let value_in = |plan: &Plan, changed: &Problem| evaluate(changed, &plan.placement).value;
    let least =
        |changed: &Problem| plans.iter().map(|plan| value_in(plan, changed)).fold(f64::INFINITY, f64::min);
    let mut bests: Vec<f64> = problems.iter().map(least).collect();
    for (scenario, &best) in scenarios.iter_mut().zip(&bests) {
        // A plan without work has no regret.
        scenario.weight = if best > 0.0 { best.recip() } else { 1.0 };
    }
    let listed = Scenarios::Listed(scenarios.clone());
    let mut search = Search::new(problem, &sources, listed, plan.clone());
    for (scenario, bound) in scenarios.iter().zip(&bounds) {
        search.raise(scenario.weight * bound, NO_REGRET);
    }
    for plan in plans.into_iter().skip(1) {
        search.keep(plan);
    }
    if count > 1 {
        search.run(solver, context)?;
    }
    let Search { best, nominal: other, bound: LowerBound { value: ratio, source, .. }, .. } = search;
    let nominal = with_best(nominal, &other.plan, context)?;
    let values = |plan: &Plan| problems.iter().map(|it| value_in(plan, it)).collect::<Vec<f64>>();
    let (own, of_nominal) = (values(&best.plan), values(&other.plan));
    for (at, best) in bests.iter_mut().enumerate() {
        *best = best.min(own[at]).min(of_nominal[at]);
    }
    // A best value that is that of one of these plans raises the regret of the other: compare again.
    let over = |values: &[f64]| largest(values.iter().copied().zip(bests.iter().copied()));
    let (plan, own) = match over(&of_nominal) < over(&own) {
        true => (other.plan, of_nominal.clone()),
        false => (best.plan, own),
    };
    let mut cases = Vec::with_capacity(count);
    for (at, scenario) in scenarios.into_iter().enumerate() {
        let scenario = Scenario { weight: 1.0, ..scenario };
        let (value, nominal, best) = (own[at], of_nominal[at], bests[at]);
        cases.push(RegretCase { scenario, value, nominal, best, bound: bounds[at].min(best) });
    }
    let (bound, source) = if ratio > 1.0 { (ratio - 1.0, source) } else { (0.0, NO_REGRET) };
    Ok(Regret { nominal, sources, plan: Some(plan), cases, bound, source })
}
