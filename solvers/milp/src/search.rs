//! Search on HiGHS from a first plan to a proof: a short run, then a long one from the best plan so far; without a time
//! limit, runs of growing length.
//!
//! HiGHS reports nothing while it runs, so its plans are available only between runs. The bounds of all runs count.
//! Without a time limit, runs end at a node limit, so that the plan does not depend on the clock.

use stagewright_core::bound::LowerBound;
use stagewright_core::contraction::Units;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Event, Plan, Result, Solution, Status, Stop};
use stagewright_core::tolerance;
use stagewright_core::units::bytes;

use crate::run::{Ending, Outcome, RunEffort, RunError, TOLERANCE};

/// Source of the bound.
const SOURCE: &str = "milp";
/// Share of the time for the first run; the second run has the rest.
const FIRST_SHARE: f64 = 0.15;
/// Node limit of the first run if there is no time limit. The limit doubles with every run.
const FIRST_NODES: u32 = 500;
/// Number of matrix entries beyond which not even the relaxation is solved in minutes.
pub(crate) const MAX_ENTRIES: usize = 4_000_000;
/// Bytes that HiGHS takes per matrix entry, including cuts, presolve and the search tree: a rough measurement.
const BYTES_PER_ENTRY: u64 = 600;

/// Maximum number of matrix entries of a program under a memory limit.
pub(crate) fn most_entries(memory: Option<u64>) -> usize {
    let room = memory.map_or(u64::MAX, |memory| memory / BYTES_PER_ENTRY);
    usize::try_from(room).map_or(MAX_ENTRIES, |room| room.min(MAX_ENTRIES))
}

/// The integer programs of one problem.
pub(crate) trait Programs {
    /// A choice of an item.
    type Choice;

    /// Runs a program from the known plan, if any, for values above the bound and up to the plan's.
    ///
    /// # Errors
    /// If HiGHS fails.
    fn run(
        &mut self,
        known: Known<'_>,
        effort: RunEffort,
        stop: &Stop,
    ) -> Result<Outcome<Self::Choice>, RunError>;

    /// The placement that some choices determine.
    fn placement(&self, chosen: &[Self::Choice]) -> Placement;

    /// Adds the rows that a run lacked, after the run returned a placement that is not a plan. Returns whether there
    /// were any such rows to add.
    fn complete(&mut self, chosen: &[Self::Choice]) -> bool;

    /// Explanation of infeasibility.
    fn why_infeasible(&self, stop: &Stop) -> String;
}

/// Plan and bound known before a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    /// The best plan.
    pub(crate) plan: Option<&'a Plan>,
    /// A lower bound.
    pub(crate) bound: f64,
}

/// Best plan and best bound so far, and the reason why the search ended.
pub(crate) struct Search<'a> {
    problem: &'a Problem,
    plan: Option<Plan>,
    bound: LowerBound,
    /// Explanation of infeasibility, if it is proved.
    pub(crate) infeasible: Option<String>,
    pub(crate) reason: Option<String>,
    nodes: u64,
}

impl<'a> Search<'a> {
    pub(crate) fn new(problem: &'a Problem, plan: Option<Plan>, bound: LowerBound) -> Search<'a> {
        Search { problem, plan, bound, infeasible: None, reason: None, nodes: 0 }
    }

    /// Whether a program with `entries` entries is too large; records the reason if so.
    pub(crate) fn is_too_large(&mut self, entries: usize, context: &Context<'_>) -> bool {
        if entries > MAX_ENTRIES {
            self.reason = Some(format!("the integer program would have about {entries:.1e} entries"));
            return true;
        }
        let needed = entries as u64 * BYTES_PER_ENTRY;
        let too_large = context.limits.memory.is_some_and(|memory| needed > memory);
        if too_large {
            self.reason = Some(format!("the integer program would take about {}", bytes(needed as f64)));
        }
        too_large
    }

    /// Runs until a proof or a limit.
    pub(crate) fn run<C>(&mut self, programs: &mut dyn Programs<Choice = C>, context: &mut Context<'_>) {
        let mut time = context.stop().remaining().map(|left| left.mul_f64(FIRST_SHARE));
        let mut nodes = FIRST_NODES;
        while !self.done(context) {
            let length = match time {
                Some(time) => format!("{:.1} s", time.as_secs_f64()),
                None => format!("{nodes} nodes"),
            };
            context.emit(Event::Phase { name: format!("integer program, {length}") });
            let nodes_now = if time.is_none() { Some(nodes) } else { None };
            let effort = RunEffort { time, nodes: nodes_now, gap: context.limits.gap, seed: context.seed() };
            let stop = context.stop().clone();
            let guessed = self.plan.is_none();
            let known = Known { plan: self.plan.as_ref(), bound: self.bound.value };
            let outcome = match programs.run(known, effort, &stop) {
                Ok(outcome) => outcome,
                Err(error) => {
                    self.reason = Some(error.to_string());
                    return;
                }
            };
            let ending = outcome.ending;
            let again = self.take(outcome, programs, context);
            if ending == Ending::Abandoned {
                // The abandoned run may still hold its thread and its memory: start no other run beside it.
                if !stop.is_interrupted() {
                    self.reason = Some("HiGHS exceeded its time limit and was abandoned".into());
                }
                return;
            }
            // Without a plan the scale of a program is a guess; a plan makes the scale more precise.
            let rescaled = guessed && self.plan.is_some();
            if ending != Ending::Limit && !again && !rescaled {
                return;
            }
            time = context.stop().remaining();
            nodes = nodes.saturating_mul(2);
            if nodes == u32::MAX {
                return;
            }
        }
    }

    fn done(&self, context: &Context<'_>) -> bool {
        let enough = |plan: &Plan| {
            tolerance::gap(plan.value(), self.bound.value) <= 2.0 * TOLERANCE
                || context.gap_reached(plan.value(), self.bound.value)
        };
        self.plan.as_ref().is_some_and(enough) || context.stop().reason().is_some()
    }

    /// Keeps the results of a run. Returns whether missing rows were added, so that another run can find more.
    fn take<C>(
        &mut self,
        outcome: Outcome<C>,
        programs: &mut dyn Programs<Choice = C>,
        context: &mut Context<'_>,
    ) -> bool {
        let Outcome { ending, bound, chosen, nodes } = outcome;
        self.nodes += nodes;
        let high = self.plan.as_ref().map_or(f64::INFINITY, Plan::value);
        let found = chosen.as_deref().map(|chosen| Plan::new(self.problem, programs.placement(chosen)));
        let rejected = matches!(found, Some(Err(_)));
        context.keep(&mut self.plan, found.and_then(Result::ok));
        let again = rejected && programs.complete(&chosen.unwrap_or_default());
        match (ending, &self.plan) {
            _ if again => {}
            (Ending::Infeasible, None) => {
                self.infeasible = Some(programs.why_infeasible(context.stop()));
            }
            _ if rejected => {
                let why = match Units::of(self.problem).bytes_are_sums() {
                    true => {
                        "the plan of the integer program violates a limit by less than its numerical tolerance"
                    }
                    false => {
                        "the plan of the integer program does not fit: its constraints only bound live tensors from \
                         below"
                    }
                };
                self.reason = Some(why.into());
            }
            (Ending::Optimal | Ending::Infeasible, Some(_)) => {
                self.reason = Some(format!(
                    "the integer program is solved, to its numerical tolerance of {TOLERANCE:.0e}"
                ));
            }
            _ => {}
        }
        // If no choice satisfies the rows below the value of the plan, the plan is optimal up to the tolerance.
        let bound = match (ending, bound) {
            (Ending::Infeasible, _) => Some(high * (1.0 - TOLERANCE)).filter(|bound| bound.is_finite()),
            (_, bound) => bound,
        };
        if let Some(value) = bound {
            self.raise(LowerBound { value, source: SOURCE, certificate: None }, context);
        }
        again
    }

    /// Keeps a bound if it is stronger.
    pub(crate) fn raise(&mut self, bound: LowerBound, context: &mut Context<'_>) {
        context.raise(&mut self.bound, bound);
    }

    /// The solution with the best plan and the best bound.
    ///
    /// # Errors
    /// If the plan is below the bound.
    pub(crate) fn solution(self, name: &'static str, context: &Context<'_>) -> Result<Solution> {
        let stop = context.stop().reason();
        let statistics = vec![("nodes", self.nodes)];
        let solution = match (self.plan, self.infeasible) {
            (None, Some(why)) => Solution::without_plan(name, Status::Infeasible, self.bound, None, why),
            (None, None) => {
                let reason = self.reason.unwrap_or_else(|| "the search ended before it found a plan".into());
                Solution::without_plan(name, Status::Unknown, self.bound, stop, reason)
            }
            (Some(plan), _) => {
                // A free check of the bound: a plan below the bound would disprove it.
                plan.check_bound(&self.bound)?;
                let mut bound = self.bound;
                if bound.source == SOURCE {
                    // A run that ended with its share of the time may have come within the tolerance before the run
                    // that solved the program, with a bound of its own. The solution has the same bound in both cases.
                    bound.value = bound.value.min(plan.value() * (1.0 - 2.0 * TOLERANCE));
                }
                let stop = context.end(plan.value(), bound.value);
                let solution = Solution::with_plan(name, plan, bound, stop);
                let reason = self.reason.filter(|_| solution.status != Status::Optimal);
                Solution { reason, ..solution }
            }
        };
        Ok(Solution { statistics, ..solution })
    }
}
