//! Minimising the makespan of one step.

use std::time::Instant;

use stagewright_core::bound::LowerBound;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Event, Solution, SolveError, Solver, Status};
use stagewright_makespan::guidance::Guidance;
use stagewright_makespan::instance::Instance;
use stagewright_makespan::schedule::{Best, Evaluator, Schedule, is_better, solution};
use stagewright_makespan::{MULTILEVEL, anneal, assigned, starts};
use stagewright_search::dpl;

use super::{MAX_UNITS, Parts, Policy};
use crate::decode::makespan::best_of_draws;
use crate::features::input;
use crate::guide::guidance;
use crate::network::Network;
use crate::predict::Prediction;
use crate::subject::{Base, Subject};

/// Shares of the remaining time for the members of the floor that can take long.
const MULTILEVEL_SHARE: f64 = 0.3;
const LINEAR_SHARE: f64 = 0.1;
/// Maximum number of rounds in which the network improves its own plan.
const REFINEMENTS: u64 = 3;
/// Evaluators among which draws are divided, independent of the number of threads.
const EVALUATORS: usize = 4;
/// Shares of the remaining time for the searches. Without a time limit, only the last ones run, each with its own limit
/// on simulations.
const SEARCHES: [f64; 7] = [0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 1.0];
const UNTIMED_SEARCHES: usize = 2;
/// Maximum fraction of a search's time that is spent on reading a new plan beforehand; the first plan is read in any
/// case.
const READING: f64 = 0.2;
/// Separates the random streams of the refinements.
const TASKS: u64 = 1 << 20;

pub(super) fn solve(
    name: &'static str,
    instance: &Instance<'_>,
    bound: LowerBound,
    network: Option<&Network>,
    parts: Parts,
    context: &mut Context<'_>,
) -> Result<Solution, SolveError> {
    let mut evaluator = Evaluator::new(instance);
    let better = |a: Best, b: Best| if is_better(b.score, a.score) { b } else { a };
    let Some(start) = starts(&mut evaluator, context)?.into_iter().reduce(better) else {
        return solution(name, instance, None, bound, context);
    };
    if instance.graph().operator_count() == 0 {
        return solution(name, instance, Some(start), bound, context);
    }
    let mut run = Run { instance, evaluator, base: start, best: None, asked: 0, seconds: 0.0 };
    if parts.floor {
        run.best = Some(run.base.clone());
        run.announce(context);
        run.floor(instance.problem(), context)?;
    }
    let mut reason = None;
    let mut reader = None;
    if let Some(network) = network.filter(|_| !run.is_over(&bound, context)) {
        let subject = Subject::new(instance, MAX_UNITS, false);
        reason = Policy::too_large(network, &subject, context);
        reader = reason.is_none().then_some((network, subject));
    }
    if let Some(why) = &reason {
        context.emit(Event::Phase { name: why.clone() });
    }
    let guide = match &reader {
        Some(reader) => run.refine(reader, &bound, parts.draws, context)?,
        None => None,
    };
    if parts.search {
        run.search(reader.as_ref(), guide, &bound, context)?;
    }
    let statistics = vec![
        ("own_simulations", run.evaluator.runs),
        ("predictions", run.asked),
        ("network_ms", (1e3 * run.seconds) as u64),
    ];
    let solution = solution(name, instance, run.best, bound, context)?;
    let reason = solution.reason.clone().or(reason.filter(|_| solution.status != Status::Optimal));
    Ok(Solution { statistics, reason, ..solution })
}

/// A network, and the subject that it reads.
type Reader<'n, 's, 'p> = (&'n Network, Subject<'s, 'p>);

/// State of a solve.
struct Run<'s, 'p> {
    instance: &'s Instance<'p>,
    evaluator: Evaluator<'s, 'p>,
    /// The schedule that the network reads.
    base: Best,
    /// The best schedule so far.
    best: Option<Best>,
    /// Number of predictions so far, and their seconds.
    asked: u64,
    seconds: f64,
}

impl<'s, 'p> Run<'s, 'p> {
    /// Computes the plans of the floor: the best contiguous split of a linear order, simulated as one step, and a plan
    /// from multilevel partitioning.
    fn floor(&mut self, problem: &Problem, context: &mut Context<'_>) -> Result<(), SolveError> {
        if let Some(device_of) = dpl::pipeline(problem, &mut context.time_slice(LINEAR_SHARE))?
            && self.instance.admits(&device_of)
        {
            let order = assigned::order(self.instance, &device_of);
            let found = Best::better_of(None, &mut self.evaluator, Schedule::by_order(device_of, &order));
            self.take(found, context);
        }
        let mut part = context.time_slice(MULTILEVEL_SHARE);
        part.warm_start = self.best.as_ref().map(|best| best.schedule.placement());
        if let Some(plan) = MULTILEVEL.solve(problem, &mut part)?.plan {
            let schedule = Schedule::of_placement(self.instance, &plan.placement);
            let found = Best::better_of(None, &mut self.evaluator, schedule);
            self.take(found, context);
        }
        Ok(())
    }

    /// Draws schedules from the network, which reads each new best schedule until its draws bring no improvement.
    /// Returns the guidance from the last reading, unless that reading led to a better schedule.
    fn refine(
        &mut self,
        (network, subject): &Reader<'_, 's, 'p>,
        bound: &LowerBound,
        draws: usize,
        context: &mut Context<'_>,
    ) -> Result<Option<Guidance>, SolveError> {
        let mut guide = None;
        for refinement in 0..REFINEMENTS {
            if self.is_over(bound, context) {
                break;
            }
            let (prediction, base) = self.ask(network, subject, bound.value, context)?;
            context.emit(Event::Phase { name: "plans sampled from the network".into() });
            let found = self.draw(subject, &base, &prediction, draws, refinement, context)?;
            guide = Some(guidance(subject, &base, &prediction));
            if !self.take(found, context) {
                break;
            }
            guide = None;
        }
        Ok(guide)
    }

    /// Searches from the best schedule, guided by the network's latest reading of a schedule.
    fn search(
        &mut self,
        reader: Option<&Reader<'_, 's, 'p>>,
        mut guide: Option<Guidance>,
        bound: &LowerBound,
        context: &mut Context<'_>,
    ) -> Result<(), SolveError> {
        let mut is_new = false;
        let is_timed = context.stop().remaining().is_some();
        let skipped = if is_timed { 0 } else { SEARCHES.len() - UNTIMED_SEARCHES };
        for (number, share) in (1..).zip(SEARCHES).skip(skipped) {
            if self.is_over(bound, context) {
                break;
            }
            let left = context.stop().remaining().map_or(f64::INFINITY, |left| left.as_secs_f64());
            if let Some((network, subject)) = reader
                && (guide.is_none() || is_new && self.reads_within(READING * share * left))
            {
                let (prediction, base) = self.ask(network, subject, bound.value, context)?;
                guide = Some(guidance(subject, &base, &prediction));
                is_new = false;
            }
            context.emit(Event::Phase { name: "search".into() });
            let mut part = context.time_slice(share);
            // Every search has its own random streams, far from those of other seeds.
            part.shift_seed(number << 32);
            let from = self.best.clone().unwrap_or_else(|| self.base.clone());
            let found = anneal(self.instance, from, guide.as_ref(), bound, &mut part)?;
            is_new |= self.take(Some(found), context);
        }
        Ok(())
    }

    /// Runs the network on the schedule to improve on.
    fn ask(
        &mut self,
        network: &Network,
        subject: &Subject<'s, 'p>,
        bound: f64,
        context: &mut Context<'_>,
    ) -> Result<(Prediction, Base), SolveError> {
        let began = Instant::now();
        let base = Base::new(subject, &mut self.evaluator, &self.base.schedule);
        let prediction = Policy::ask(network, &input(subject, &base, base.seconds, bound), context)?;
        self.asked += 1;
        self.seconds += began.elapsed().as_secs_f64();
        Ok((prediction, base))
    }

    fn draw(
        &mut self,
        subject: &Subject<'s, 'p>,
        base: &Base,
        prediction: &Prediction,
        draws: usize,
        refinement: u64,
        context: &mut Context<'_>,
    ) -> Result<Option<Best>, SolveError> {
        let mut evaluators = vec![self.evaluator.clone(); EVALUATORS];
        let before = self.evaluator.runs;
        let (seed, stop) = ((context.seed(), refinement * TASKS), context.stop().clone());
        let read = (base, &self.base.schedule);
        let found = context
            .in_pool(|| best_of_draws(subject, read, prediction, &mut evaluators, draws, seed, &stop))?;
        self.evaluator.runs += evaluators.iter().map(|evaluator| evaluator.runs - before).sum::<u64>();
        Ok(found)
    }

    /// Keeps a schedule if it is better than the best, and returns whether it was.
    fn take(&mut self, found: Option<Best>, context: &mut Context<'_>) -> bool {
        let Some(found) = found else { return false };
        let is_new = self.best.as_ref().is_none_or(|best| is_better(found.score, best.score));
        if is_new {
            self.base = found.clone();
            self.best = Some(found);
            self.announce(context);
        }
        is_new
    }

    /// Whether time is up or the gap is closed. Always false before the first schedule, so that the solve returns one.
    fn is_over(&self, bound: &LowerBound, context: &Context<'_>) -> bool {
        self.best.as_ref().is_some_and(|best| {
            let is_enough = best.score.fits() && context.is_enough(best.score.makespan, bound.value);
            is_enough || context.stop().reason().is_some()
        })
    }

    /// Whether the network takes at most `seconds` to read a schedule, judging by its readings so far.
    fn reads_within(&self, seconds: f64) -> bool {
        self.seconds <= seconds * self.asked as f64
    }

    fn announce(&self, context: &mut Context<'_>) {
        if let Some(best) = self.best.as_ref().filter(|best| best.score.fits()) {
            context.emit(Event::Incumbent { value: best.score.makespan });
        }
    }
}
