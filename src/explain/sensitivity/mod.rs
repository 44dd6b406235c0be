//! How sensitive a plan is to its costs.
//!
//! *Interval.* Let every cost lie within ±p of its prediction, independently of the others. A load, the iteration of a
//! schedule (the longest path over fixed orders) and the latency of fixed calls do not decrease when a cost grows, and
//! scale by 1 ± p when all costs do. So the value lies between (1 − p) and (1 + p) times the predicted one, and both
//! ends are attained. This does not hold for the makespan: a list schedule may take longer when operators take less
//! (Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 1969), so no interval is given.
//!
//! *Regret.* A slowdown common to all plans does not affect the choice among them. The regret of a plan under other
//! costs is its excess time over the best plan for these costs (Kouvelis and Yu, "Robust discrete optimization and its
//! applications", 1997). The changed problems are solved again, starting from this plan. In *cases*, one class of
//! devices, the links or one kind of operator is faster or slower as a whole, because the errors of cost models are
//! systematic; in *draws*, every operator on every class and every transfer is off by a share of its own, uniform
//! within ±p. An unfinished solve returns a plan and a bound, which give a lower and an upper limit on the regret.
//!
//! *Boundaries.* If a better plan exists, its stages differ. A boundary has moved if no boundary of the better plan has
//! the same operators before it.

mod boundary;
mod costs;
mod text;

use serde::Serialize;
use stagewright_core::document::ObjectiveKind;
use stagewright_core::evaluate::evaluate;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Settings, Silent, SolveError, Solver, Status};
use stagewright_core::tolerance;
use stagewright_core::uncertainty::Sources;

use boundary::Boundaries;
pub use boundary::Boundary;
use costs::{Costs, systematic};

use crate::bounds::Proving;
use crate::portfolio;

/// Number of draws.
const DRAWS: u64 = 32;

/// The sensitivity of a plan to its costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sensitivity {
    /// Share by which costs are off.
    pub deviation: f64,
    /// Minimum and maximum value if every cost is off by at most `deviation`, independently of the others. `None` for
    /// the makespan, which need not grow with every cost.
    pub interval_s: Option<[f64; 2]>,
    /// Minimum and maximum value over the cases and draws.
    pub seen_s: Option<[f64; 2]>,
    /// Number of cases and draws that were evaluated.
    pub samples: usize,
    /// Number of samples solved to optimality.
    pub solved: usize,
    /// Loss of the plan for the costs as predicted. A plan counts as better in a sample only if it saves more than
    /// this.
    pub nominal_loss: f64,
    /// Number of samples with a better plan.
    pub better: usize,
    /// Loss over the draws; `None` if there were no draws.
    pub drawn: Option<Drawn>,
    /// The cases, in pairs of opposite direction.
    pub cases: Vec<Case>,
    /// The boundaries between stages that moved, the most often moved first.
    pub boundaries: Vec<Boundary>,
    /// Reason why samples are missing, if any are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

impl Sensitivity {
    /// A sensitivity without samples.
    fn new(deviation: f64, interval_s: Option<[f64; 2]>, nominal_loss: f64) -> Sensitivity {
        Sensitivity {
            deviation,
            interval_s,
            seen_s: None,
            samples: 0,
            solved: 0,
            nominal_loss,
            better: 0,
            drawn: None,
            cases: Vec::new(),
            boundaries: Vec::new(),
            missing: None,
        }
    }

    /// Counts a sample.
    fn count(&mut self, sample: &Sample, is_better: bool) {
        self.samples += 1;
        self.solved += usize::from(sample.is_optimal);
        let [low, high] = self.seen_s.unwrap_or([sample.value; 2]);
        self.seen_s = Some([low.min(sample.value), high.max(sample.value)]);
        self.better += usize::from(is_better);
    }
}

/// The loss over the draws.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drawn {
    /// Number of draws.
    pub draws: usize,
    /// Number of draws with a better plan.
    pub better: usize,
    /// Median of the losses.
    pub median_loss: f64,
    /// Largest loss.
    pub largest_loss: f64,
    /// Largest loss that the bounds allow; `None` if one is missing.
    pub largest_possible_loss: Option<f64>,
}

/// One case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Case {
    /// Description of the costs that are off, and in which direction.
    pub costs: String,
    /// Value of the plan under the changed costs.
    pub value_s: f64,
    /// Best value known under the changed costs.
    pub best_s: f64,
    /// Lower bound on the value of every plan under the changed costs.
    pub bound_s: Option<f64>,
    /// Loss: value / best value − 1.
    pub loss: f64,
}

/// Results for one set of changed costs: the value of the plan, and the best plan found.
struct Sample {
    value: f64,
    best: f64,
    bound: Option<f64>,
    is_optimal: bool,
    better: Option<Placement>,
}

impl Sample {
    fn loss(&self) -> f64 {
        loss(self.value, self.best)
    }
}

/// Relative excess of one value over another.
fn loss(value: f64, best: f64) -> f64 {
    if best > 0.0 { (value / best - 1.0).max(0.0) } else { 0.0 }
}

/// Evaluates and solves the cases, then the draws, until the time is over. `nominal_best` is the best value known for
/// the costs as predicted. Each solve gets an equal share of the remaining time. There are at most 32 draws, and two
/// cases each for every class, for the links, and for three kinds of operators.
///
/// # Errors
/// A defect of a solver.
pub fn sensitivity(
    problem: &Problem,
    placement: &Placement,
    deviation: f64,
    nominal_best: Option<f64>,
    settings: &Settings,
) -> Result<Sensitivity, SolveError> {
    let value = evaluate(problem, placement).value;
    let is_monotone = problem.objective().kind() != ObjectiveKind::Makespan;
    let interval_s = is_monotone.then_some([(1.0 - deviation) * value, (1.0 + deviation) * value]);
    let nominal_loss = nominal_best.map_or(0.0, |best| loss(value, best));
    let mut result = Sensitivity::new(deviation, interval_s, nominal_loss);
    if !evaluate(problem, placement).is_feasible() {
        let why = "the plan breaks constraints, which `check` lists, so other plans are not compared with it";
        result.missing = Some(why.into());
        return Ok(result);
    }
    let mut boundaries = Boundaries::new(problem, placement);
    let mut silent = Silent;
    let mut context = Context::new(settings.clone(), &mut silent);

    let sources = Sources::new(problem.graph());
    let mut plans = systematic(problem, &sources, deviation);
    let cases = plans.len();
    plans.extend((0..DRAWS).map(|draw| Costs::Drawn { deviation, seed: settings.seed, draw }));
    let least = result.nominal_loss.max(settings.limits.gap).max(2.0 * tolerance::OPTIMAL_RELATIVE);
    let mut drawn: Vec<Sample> = Vec::new();
    for (index, costs) in plans.iter().enumerate() {
        if context.stop().reason().is_some() {
            result.missing =
                Some(format!("{index} of {} changed problems were tried in the time", plans.len()));
            break;
        }
        let share = 1.0 / (plans.len() - index) as f64;
        let sample = sample(&costs.apply(problem, &sources), placement, &mut context.time_slice(share))?;
        let loss = sample.loss();
        let is_better = loss > least;
        result.count(&sample, is_better);
        boundaries.compare(sample.better.as_ref().filter(|_| is_better), loss);
        if index < cases {
            let Sample { value, best, bound, .. } = sample;
            let costs = costs.describe(&sources);
            result.cases.push(Case { costs, value_s: value, best_s: best, bound_s: bound, loss });
        } else {
            drawn.push(sample);
        }
    }
    result.drawn = summary(&drawn, least);
    result.boundaries = boundaries.moved();
    if portfolio::auto(problem.objective()).is_err() {
        result.missing = Some("no solver supports the objective, so there is nothing to compare with".into());
    }
    Ok(result)
}

/// Evaluates the plan on a problem, then solves the problem, starting from the plan.
fn sample(problem: &Problem, placement: &Placement, context: &mut Context<'_>) -> Result<Sample, SolveError> {
    let value = evaluate(problem, placement).value;
    let mut sample = Sample { value, best: value, bound: None, is_optimal: false, better: None };
    let Ok(choice) = portfolio::auto(problem.objective()) else { return Ok(sample) };
    context.warm_start = Some(placement.clone());
    let solution = Proving(choice.solver).solve(problem, context)?;
    sample.is_optimal = solution.status == Status::Optimal;
    sample.bound = (solution.status != Status::Infeasible).then_some(solution.bound.value);
    if let Some(plan) = solution.plan.filter(|plan| plan.value() < value) {
        sample.best = plan.value();
        sample.better = Some(plan.placement);
    }
    Ok(sample)
}

fn summary(drawn: &[Sample], least: f64) -> Option<Drawn> {
    let mut losses: Vec<f64> = drawn.iter().map(Sample::loss).collect();
    losses.sort_by(f64::total_cmp);
    let possible = drawn
        .iter()
        .map(|sample| sample.bound.filter(|&bound| bound > 0.0).map(|bound| loss(sample.value, bound)));
    Some(Drawn {
        draws: losses.len(),
        better: losses.iter().filter(|&&loss| loss > least).count(),
        median_loss: median(&losses)?,
        largest_loss: *losses.last()?,
        largest_possible_loss: possible.reduce(|left, right| Some(left?.max(right?)))?,
    })
}

/// The median of numbers in ascending order; for an even count, the mean of the middle two.
fn median(sorted: &[f64]) -> Option<f64> {
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some(0.5 * (low + high))
}
