//! Folding: plans of graphs that repeat, from plans of shorter graphs.
//!
//! A graph of many layers or time steps repeats itself: most values of such an axis have the same operators ([`axes`]). The
//! folded graph leaves out the middle of the repetition ([`folded`]), so that a search of
//! seconds tries enough plans. Its plan is unfolded ([`unfold`]): the first and the last values keep their devices, and
//! those between repeat the steady state. Some rules of unfolding are tried on a graph of medium size, the best of them on the
//! whole graph. Moves of whole repetitions ([`strands`]) and then forward and backward passes over the priorities
//! ([`justify`](super::justify)) improve the best.
//!
//! Beside the searches, a thread makes the list schedule of the whole graph, if the time suffices for it, so that no plan is worse,
//! and its bounds.
//!
//! The work of operators that belong to all values becomes less in proportion to the values left, and so does the
//! memory of the devices.

mod axes;
mod folded;
mod strands;
mod unfold;

use std::cmp::Ordering;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use stagewright_core::bound::strongest_before;
use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::OpId;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Capabilities, Context, Event, Plan, Solution, SolveError, Solver, Status};

use self::axes::Axes;
use self::folded::{Folded, Folding};
use self::strands::Strands;
use self::unfold::Unfolding;
use super::assigned;
use super::heft::HEFT;
use super::instance::Instance;
use super::justify::{self, justified};
use super::multilevel;
use super::order_split::equal_cuts;
use super::schedule::{Best, Evaluator, Schedule, Score, is_better, solution, solve_instance};
use super::search::{self, Goal};

/// Fewest and most operators of a folded graph, and the number for each device in the first one: many devices are busy only
/// where many periods overlap.
const SIZES: [usize; 2] = [6_000, 20_000];
const FOR_DEVICE: usize = 300;
/// Operators that a thread simulates in a second.
pub const SIMULATED: f64 = 2.5e6;
/// Number of simulations that a search needs: the graph of a round is small enough for that many.
const SIMULATIONS: f64 = 1500.0;
/// Share of the time for moves on the whole graph.
const WHOLE_SHARE: f64 = 0.25;
/// Number of moves for which the time must suffice, so that some are tried.
const FEWEST_MOVES: u32 = 12;
/// Largest number of operators for which moves on the whole graph are scored in parallel.
const LARGE: usize = 500_000;
/// Size of the graph of a round in relation to that and to the largest, in turn; they are also the rounds without a time limit.
const FACTORS: [f64; 3] = [1.0, 0.4, 0.7];
/// Size of the graph on which the rules are compared, in relation to the folded graph.
const TRIAL: usize = 3;
/// Share of the remaining time for the search of a round, and the least time for which a round begins.
const SEARCH_SHARE: f64 = 0.5;
const SHORTEST_SEARCH: Duration = Duration::from_millis(200);
const LONGEST_SEARCH: Duration = Duration::from_secs(3);
/// Number of rules that are tried on the whole graph.
const TRIED: usize = 2;
/// Largest share of the time for what runs beside the searches, and the number of simulations of the whole graph that may take
/// place after its time: those of its plan and of the best plan.
const BESIDE_SHARE: f64 = 0.75;
const BESIDE_RESERVE: u32 = 5;
/// Pairs of an operator and a device for which a list schedule estimates the end in a second. One that could not be completed
/// in the time is not begun, because it would slow the searches down.
const ESTIMATES: f64 = 1.5e7;

/// Plans of repetitive graphs by folding.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fold;

impl Solver for Fold {
    fn name(&self) -> &'static str {
        "fold"
    }

    fn summary(&self) -> &'static str {
        "plans of a shortened graph, unfolded along layers and time steps (makespan)"
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        crate::unsupported(objective)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { starts_from_plan: true, depends_on_seed: true, ..Capabilities::default() }
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        solve_instance(self.name(), problem, |instance| {
            let axes = Axes::new(instance);
            let size = (FOR_DEVICE * instance.device_count()).clamp(SIZES[0], SIZES[1]);
            let Some(first) = Folded::new(instance, &axes, size) else {
                let bound = strongest_before(problem, context.stop());
                let operators = problem.graph().operator_count();
                let reason = if axes.axes.is_empty() {
                    "no numbers in the names of operators show a repetition".into()
                } else if !Folding::shrinks(operators, size) {
                    format!("a graph of {operators} operators is hardly larger than a folded one")
                } else {
                    "the graph does not repeat as the numbers in the names of operators say".into()
                };
                let stop = context.stop().reason();
                return Ok(Solution::without_plan(self.name(), Status::Unknown, bound, stop, reason));
            };
            let simulation = Duration::from_secs_f64(problem.graph().operator_count() as f64 / SIMULATED);
            let left = context
                .stop()
                .remaining()
                .map(|left| left.saturating_sub(BESIDE_RESERVE * simulation).min(left.mul_f64(BESIDE_SHARE)));
            let estimates = (problem.graph().operator_count() * instance.device_count()) as f64;
            let is_in_time = left.is_none_or(|left| estimates / ESTIMATES < left.as_secs_f64());
            let (stop, needs_start) =
                (context.stop().within(left), context.warm_start.is_none() && is_in_time);
            // What does not depend on the folded graphs, and the plan that is the least to expect.
            let beside = move || {
                let plan = if needs_start { HEFT.plan(problem, &stop) } else { None };
                strongest_before(problem, &stop);
                plan
            };
            let best = if context.threads() > 1 {
                thread::scope(|scope| {
                    let beside = scope.spawn(beside);
                    let mut search = Search::new(instance, &axes, context);
                    search.rounds(&first, context)?;
                    search.take_plan(beside.join().unwrap_or_else(|panic| resume_unwind(panic)), context);
                    Ok::<_, SolveError>(search.finished(context))
                })
            } else {
                let plan = beside();
                let mut search = Search::new(instance, &axes, context);
                search.rounds(&first, context)?;
                // Only now, so that the moves on the whole graph start from the same plan as with more threads.
                search.take_plan(plan, context);
                Ok(search.finished(context))
            }?;
            let bound = strongest_before(problem, context.stop());
            solution(self.name(), instance, best, bound, context)
        })
    }
}

/// State between the rounds.
struct Search<'s, 'p> {
    instance: &'s Instance<'p>,
    axes: &'s Axes,
    evaluator: Evaluator<'s, 'p>,
    best: Option<Best>,
    /// The longest time that unfolding and simulating the whole graph took.
    longest: Duration,
    /// Time of the solve, if it is limited.
    time: Option<Duration>,
}

impl<'s, 'p> Search<'s, 'p> {
    /// Begins with the warm start, if there is one.
    fn new(instance: &'s Instance<'p>, axes: &'s Axes, context: &Context<'_>) -> Search<'s, 'p> {
        let mut evaluator = Evaluator::without_tails(instance);
        let warm = context.warm_start.as_ref().map(|warm| Schedule::of_placement(instance, warm));
        let warm = warm.filter(|warm| instance.admits(&warm.device_of));
        let best = warm.map(|schedule| Best { score: evaluator.score(&schedule), schedule });
        Search { instance, axes, evaluator, best, longest: Duration::ZERO, time: context.stop().remaining() }
    }

    /// Unfolds a list schedule of the first folded problem, and then the plans that searches of others find in the time.
    fn rounds(&mut self, first: &Folded<'_>, context: &mut Context<'_>) -> Result<(), SolveError> {
        self.first(first, context)?;
        let whole = self.time.map_or(Duration::ZERO, |time| time.mul_f64(WHOLE_SHARE));
        let whole = if whole < FEWEST_MOVES * self.longest { Duration::ZERO } else { whole };
        for round in 0.. {
            let reserve = whole + justify::reserve(self.longest, self.time);
            let is_last = match context.stop().remaining() {
                Some(left) => left.saturating_sub(reserve).mul_f64(SEARCH_SHARE) < SHORTEST_SEARCH,
                None => round >= FACTORS.len(),
            };
            if is_last || context.stop().reason().is_some() {
                break;
            }
            self.round(round, reserve, context)?;
        }
        self.whole(context)
    }

    /// Improves the best plan by moves on the whole graph.
    fn whole(&mut self, context: &mut Context<'_>) -> Result<(), SolveError> {
        let Some(best) = &self.best else { return Ok(()) };
        let reserve = justify::reserve(self.longest, self.time) + self.longest;
        let left = context.stop().remaining().map(|left| left.saturating_sub(reserve));
        if left.is_some_and(|left| left < FEWEST_MOVES / 2 * self.longest) {
            return Ok(());
        }
        let strands = Strands::new(self.instance.graph(), self.axes);
        // In a graph of a million operators, an evaluator takes hundreds of megabytes.
        let is_small = self.instance.graph().operator_count() <= LARGE;
        let others = if is_small { strands::DRAWN - 1 } else { 0 };
        let mut others: Vec<Evaluator<'_, '_>> = (0..others).map(|_| self.evaluator.clone()).collect();
        let evaluators = std::iter::once(&mut self.evaluator).chain(&mut others).collect();
        let device_of = best.schedule.device_of.clone();
        let found = strands.improved(evaluators, device_of, &context.stop().within(left), context)?;
        if let Some(found) = found {
            self.keep(found, context);
        }
        Ok(())
    }

    /// Keeps a plan that was found beside the rounds, if it is the best.
    fn take_plan(&mut self, plan: Option<Plan>, context: &mut Context<'_>) {
        let Some(plan) = plan else { return };
        let score = Score { lack: 0.0, makespan: plan.value() };
        if self.best.as_ref().is_none_or(|best| is_better(score, best.score)) {
            self.keep(
                Best { score, schedule: Schedule::of_placement(self.instance, &plan.placement) },
                context,
            );
        }
    }

    /// The best schedule, with improved priorities.
    fn finished(mut self, context: &mut Context<'_>) -> Option<Best> {
        let best = self.best.take()?;
        // The plan is evaluated once more.
        let left = context.stop().remaining().map(|left| left.saturating_sub(self.longest));
        if left.is_some_and(|left| left.is_zero()) {
            return Some(best);
        }
        let found = justified(&mut self.evaluator, best.schedule.clone(), &context.stop().within(left));
        self.best = Some(best);
        self.keep(found, context);
        self.best
    }

    /// Unfolds the best of the equal cuts of linear orders of a folded problem, which is stretched, and a list schedule; the one
    /// that is better on the graph of medium size first.
    fn first(&mut self, folded: &Folded<'_>, context: &mut Context<'_>) -> Result<(), SolveError> {
        let instance = Instance::new(&folded.problem);
        let mut evaluator = Evaluator::without_tails(&instance);
        let mut plans = Vec::new();
        let cuts = equal_cuts(&instance).into_iter();
        let cut = cuts.map(|schedule| Best { score: evaluator.score(&schedule), schedule });
        if let Some(cut) = cut.reduce(|best, cut| if is_better(cut.score, best.score) { cut } else { best }) {
            plans.push((cut.schedule.device_of, vec![Unfolding::Stretched]));
        }
        if let Some(best) = HEFT.best(&mut evaluator, context.stop()) {
            plans.push((best.schedule.device_of, Unfolding::candidates(folded.longest())));
        }
        let mut ranked = Vec::new();
        for (device_of, candidates) in plans {
            let best = self.ranked(folded, &device_of, candidates, context)?.into_iter().next();
            ranked.extend(best.map(|(score, rule)| (score, rule, device_of)));
        }
        ranked.sort_by(|a, b| compare(a.0, b.0));
        for (_, rule, device_of) in ranked {
            self.try_out(folded, &device_of, &[rule], context);
        }
        Ok(())
    }

    /// Searches a folded problem and unfolds its plan.
    fn round(
        &mut self,
        round: usize,
        reserve: Duration,
        context: &mut Context<'_>,
    ) -> Result<(), SolveError> {
        let left = context.stop().remaining().map(|left| left.saturating_sub(reserve));
        let seconds = left.map(|left| left.mul_f64(SEARCH_SHARE).min(LONGEST_SEARCH).as_secs_f64());
        let share =
            seconds.zip(left).map_or(1.0, |(seconds, left)| seconds / left.as_secs_f64().max(seconds));
        let mut part = context.time_slice_without(reserve, share);
        part.shift_seed(round as u64);
        let mut part = part.for_auxiliary();
        let seconds = seconds.unwrap_or(f64::INFINITY);
        let size = (seconds * part.threads() as f64 * SIMULATED / SIMULATIONS).min(SIZES[1] as f64);
        let size = ((size * FACTORS[round % FACTORS.len()]) as usize).max(SIZES[0]);
        let Some(folded) = &Folded::new(self.instance, self.axes, size) else { return Ok(()) };
        let instance = Instance::new(&folded.problem);
        let mut evaluator = Evaluator::without_tails(&instance);
        let Some(best) = HEFT.best(&mut evaluator, part.stop()) else { return Ok(()) };
        evaluator.find_tails(part.stop());
        let goal = Goal { target: 0.0, stop: part.stop().clone() };
        let starts = vec![best.clone()];
        let mut search = search::Search { instance: &instance, evaluator, starts, best, goal };
        let start = search.best.score;
        multilevel::cycles(&mut search, &mut part)?;
        if round > 0 && !is_better(search.best.score, start) {
            return Ok(());
        }
        let found = search.best.schedule.device_of;
        let ranked = self.ranked(folded, &found, Unfolding::candidates(folded.longest()), context)?;
        let tried: Vec<Unfolding> = ranked.into_iter().take(TRIED).map(|(_, rule)| rule).collect();
        self.try_out(folded, &found, &tried, context);
        Ok(())
    }

    /// Rules of unfolding a plan with their scores on a graph of medium size, the best first.
    fn ranked(
        &self,
        folded: &Folded<'_>,
        device_of: &[DeviceId],
        candidates: Vec<Unfolding>,
        context: &Context<'_>,
    ) -> Result<Vec<(Score, Unfolding)>, SolveError> {
        let wanted = TRIAL * folded.kept.len();
        match Folded::new(self.instance, self.axes, wanted) {
            Some(trial) => {
                let instance = Instance::new(&trial.problem);
                let fresh = Evaluator::without_tails(&instance);
                ranked(candidates, &fresh, context, |unfolding| {
                    let values = folded.values_in(&trial, unfolding);
                    folded.unfold(&instance, trial.kept.iter().copied(), device_of, &values)
                })
            }
            // The whole graph is hardly larger.
            None => ranked(candidates, &self.evaluator, context, |unfolding| {
                self.unfolded(folded, device_of, unfolding)
            }),
        }
    }

    /// Keeps the best plan that some rules make of the plan of a folded problem, if it is the best of all.
    fn try_out(
        &mut self,
        folded: &Folded<'_>,
        device_of: &[DeviceId],
        rules: &[Unfolding],
        context: &mut Context<'_>,
    ) {
        for &unfolding in rules {
            let is_over = context.stop().reason().is_some()
                || context.stop().remaining().is_some_and(|left| left < self.longest);
            if is_over && self.best.is_some() {
                break;
            }
            let begin = Instant::now();
            let schedule = by_rank(self.instance, self.unfolded(folded, device_of, unfolding));
            let found = Best { score: self.evaluator.score(&schedule), schedule };
            self.longest = self.longest.max(begin.elapsed());
            self.keep(found, context);
        }
    }

    /// The devices of all operators by a rule.
    fn unfolded(&self, folded: &Folded<'_>, device_of: &[DeviceId], unfolding: Unfolding) -> Vec<DeviceId> {
        let operators = self.instance.graph().operators();
        folded.unfold(self.instance, operators, device_of, &folded.values(unfolding))
    }

    fn keep(&mut self, found: Best, context: &mut Context<'_>) {
        if self.best.as_ref().is_none_or(|best| is_better(found.score, best.score)) {
            if found.score.fits() {
                context.emit(Event::Incumbent { value: found.score.makespan });
            }
            self.best = Some(found);
        }
    }
}

/// Rules with the scores of their schedules, the best first.
fn ranked<'s, 'p>(
    candidates: Vec<Unfolding>,
    fresh: &Evaluator<'s, 'p>,
    context: &Context<'_>,
    devices: impl Fn(Unfolding) -> Vec<DeviceId> + Sync,
) -> Result<Vec<(Score, Unfolding)>, SolveError> {
    let stop = context.stop();
    let score = |evaluator: &mut Evaluator<'s, 'p>, unfolding: &Unfolding| -> Score {
        match stop.reason() {
            Some(_) => Score::WORST,
            None => evaluator.score(&by_rank(evaluator.instance(), devices(*unfolding))),
        }
    };
    let scores: Vec<Score> =
        context.in_pool(|| candidates.par_iter().map_init(|| fresh.clone(), score).collect())?;
    let mut ranked: Vec<(Score, Unfolding)> = scores.into_iter().zip(candidates).collect();
    ranked.sort_by(|a, b| compare(a.0, b.0));
    Ok(ranked)
}

fn compare(a: Score, b: Score) -> Ordering {
    a.lack.total_cmp(&b.lack).then(a.makespan.total_cmp(&b.makespan))
}

/// The schedule of an assignment with priorities by the longest path to the end.
fn by_rank(instance: &Instance<'_>, device_of: Vec<DeviceId>) -> Schedule {
    let order: Vec<OpId> = assigned::order(instance, &device_of);
    Schedule::by_order(device_of, &order)
}

#[cfg(test)]
mod tests;
