//! The splitter as a solver: seed, caps and proof status.
//!
//! A run of the recurrence with cap T finds the best split below T or proves that there is none, so the first run takes
//! the seed's value as its cap. If that run takes too long, runs with lower caps come first. They are faster by orders
//! of magnitude, and each of them either raises the lower bound to its cap or finds the optimum. Only the hardest run
//! is then left to be interrupted by the time limit.

use stagewright_core::bound::{LowerBound, closed_form};
use stagewright_core::contraction::{NetId, UnitId, Units};
use stagewright_core::document::ObjectiveKind;
use stagewright_core::objective::Objective;
use stagewright_core::placement::StageAssignment;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{
    Capabilities, Context, Event, Plan, Result, Solution, SolveError, Solver, Status, StopReason,
};
use stagewright_core::tolerance;
use stagewright_search::dpl::{
    OrderEffort, Room, best_over_orders, improve_boundaries, plan_of, stage_loads,
    unsupported_for_contiguous_dp,
};
use stagewright_search::sweep::{Minimised, sweep};
use stagewright_search::usage::UsageSpace;

use crate::allowance::{Budget, Halt};
use crate::catalogue::Catalogue;
use crate::iterate;
use crate::latency;
use crate::lattice::Lattice;
use crate::recurrence::{Counts, Recurrence, Run};
use crate::uplink::{MAX_GROUPS, Uplinks};
use crate::weight::Weights;

/// Maximum number of device usages; with more, the tables alone would be too large.
const MAX_USAGES: usize = 1 << 20;
/// Supersets that a walk may examine before listing the lattice is tried.
const WALK_STEPS: u64 = 50_000;
/// Supersets that the first run may examine before lower caps are tried: a few tenths of a second.
const FIRST_RUN_STEPS: u64 = 3_000_000;
/// Supersets that a scan may examine before bounds are tried. A scan takes a fraction of a walk's time per superset.
const SHORT_SCAN_STEPS: u64 = 2_000_000;
/// Supersets that a scan may examine after bounds were tried: a few seconds.
const SCAN_STEPS: u64 = 60_000_000;
/// Caps as fractions of the gap between lower bound and value, used if the first run took too long, and with uplinks.
const LADDER: [f64; 11] = [0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// The exact splitter.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dp;

impl Solver for Dp {
    fn name(&self) -> &'static str {
        "dp"
    }

    fn summary(&self) -> &'static str {
        "dynamic programs over the lattice of ideals (contiguous throughput and iterations under a schedule, exact; latency, blocks and chains of calls)"
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        unsupported(objective)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { exact: true, starts_from_plan: true, depends_on_seed: true, ..Capabilities::default() }
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
        if problem.objective().kind() == ObjectiveKind::Latency {
            return latency::solve(self.name(), problem, context);
        }
        if problem.objective().times_iteration() {
            return iterate::solve(self.name(), problem, context);
        }
        self.split(problem, None, context)
    }
}

/// The exact splitter with a limit on its steps, the supersets of ideals that the search examines. Unlike a time limit,
/// a step limit leads to the same plan and bound on every machine. Orders and minimum cuts, which take no steps, are
/// tried until the steps are used up. The statistic `steps` of the solution counts the steps taken, which exceed the
/// limit by at most one batch.
#[derive(Debug, Clone, Copy)]
pub struct DpWithin {
    /// Maximum number of steps.
    pub steps: u64,
}

impl Solver for DpWithin {
    fn name(&self) -> &'static str {
        Dp.name()
    }

    fn summary(&self) -> &'static str {
        "the dynamic program over ideals within a number of steps (contiguous throughput)"
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        let is_timed = objective.kind() != ObjectiveKind::Throughput || objective.times_iteration();
        unsupported(objective).or(is_timed.then_some("a number of steps for this objective"))
    }

    fn capabilities(&self) -> Capabilities {
        Dp.capabilities()
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
        Dp.split(problem, Some(self.steps), context)
    }
}

impl Dp {
    fn split(
        &self,
        problem: &Problem,
        most_steps: Option<u64>,
        context: &mut Context<'_>,
    ) -> Result<Solution> {
        let units = Units::of(problem);
        let best = best_over_orders(problem, &units, OrderEffort::Plain, context)?;
        let (bound, counts) = (closed_form(problem, context.stop()), Counts::default());
        let mut search = Search { problem, best, bound, counts, most_steps, units: &units };
        let (bound_value, source) = (search.bound.value, search.bound.source);
        context.emit(Event::Bound { value: bound_value, source });
        let outcome = search.run(context)?;
        let Search { best, bound, counts, .. } = search;
        let mut solution = match (best, outcome) {
            (Some(plan), outcome) => Solution::with_plan(self.name(), plan, bound, outcome),
            (None, None) => Solution::without_plan(
                self.name(),
                Status::Infeasible,
                bound,
                None,
                "every chain of ideals was excluded: no contiguous split fits the devices".into(),
            ),
            (None, Some(stop)) => Solution::without_plan(
                self.name(),
                Status::Unknown,
                bound,
                Some(stop),
                "the search ended before it found a split that fits".into(),
            ),
        };
        let (groups, usages) = (problem.cluster().group_count(), UsageSpace::size(problem, units.len()));
        if solution.status == Status::Feasible && usages > MAX_USAGES as f64 {
            solution.reason = Some(format!(
                "the devices can be used in {usages:.1e} ways, more than the {MAX_USAGES} that the search supports"
            ));
        } else if solution.status == Status::Feasible && solution.stop.is_none() && groups > MAX_GROUPS {
            solution.reason = Some(format!(
                "the uplinks of {groups} groups are scored, more than the {MAX_GROUPS} that the search supports"
            ));
        }
        solution.statistics =
            vec![("ideals", counts.ideals), ("steps", counts.steps), ("peak_bytes", counts.peak_bytes)];
        Ok(solution)
    }
}

fn unsupported(objective: &Objective) -> Option<&'static str> {
    match objective.kind() {
        ObjectiveKind::Latency => None,
        _ => unsupported_for_contiguous_dp(objective),
    }
}

struct Search<'a> {
    problem: &'a Problem,
    units: &'a Units,
    best: Option<Plan>,
    bound: LowerBound,
    counts: Counts,
    /// Maximum number of steps over all attempts.
    most_steps: Option<u64>,
}

impl Search<'_> {
    /// Searches until value and bound meet or the solve has to stop; returns the stop reason in the latter case.
    fn run(&mut self, context: &mut Context<'_>) -> Result<Option<StopReason>> {
        let Some(space) = UsageSpace::new(self.problem, self.units.len(), MAX_USAGES) else {
            self.improve_boundaries(context)?;
            return Ok(Some(StopReason::Memory));
        };
        if self.units.is_empty() {
            context.keep(&mut self.best, Some(plan_of(self.problem, self.units, &[])?));
            return Ok(None);
        }
        if let Some(end) = context.done(self.best.as_ref(), self.bound.value) {
            return Ok(end.reason());
        }
        context.emit(Event::Phase { name: "ideals".into() });
        let seed = self.best.as_ref().map(Plan::value);
        let top = seed.unwrap_or_else(|| above_every_load(self.problem, self.units));
        let lattice = Lattice::new(self.problem, self.units, top);
        let weights = Weights::new(self.problem, &lattice);
        let mut recurrence = Recurrence::new(self.problem, self.units, &lattice, &weights, &space);
        // Without a seed there is no value to climb towards: any split that fits is an improvement.
        let catalogue;
        match self.attempt(&recurrence, top, seed.map(|_| WALK_STEPS), context)? {
            None => {}
            Some(halt) if halt.by_clock() || self.best.is_none() || self.is_spent() => {
                return Ok(Some(stop_of(halt)));
            }
            Some(_) => {
                catalogue = Catalogue::new(&lattice, &weights, context.limits.memory, context.stop());
                recurrence.catalogue = catalogue.as_ref();
                if let Some(stop) = self.climb(&mut recurrence, context)? {
                    return Ok(Some(stop));
                }
            }
        }
        let uplinks = Uplinks::new(self.problem, self.units, &lattice);
        let Some(uplinks) = uplinks.filter(|_| self.best.is_some()) else { return Ok(None) };
        if let Some(end) = context.done(self.best.as_ref(), self.bound.value) {
            return Ok(end.reason());
        }
        context.emit(Event::Phase { name: "ideals with uplinks".into() });
        recurrence.uplinks = Some(&uplinks);
        // With uplinks, steps take longer, and the best split is seldom much worse than the best one without uplinks.
        self.raise_caps(&recurrence, context)
    }

    /// Finds the best split without uplinks and proves it optimal: in one run if that is short, otherwise by raising
    /// caps from below.
    fn climb(
        &mut self,
        recurrence: &mut Recurrence<'_>,
        context: &mut Context<'_>,
    ) -> Result<Option<StopReason>> {
        let runs: &[u64] = match recurrence.catalogue {
            Some(_) => &[SHORT_SCAN_STEPS, SCAN_STEPS],
            None => &[FIRST_RUN_STEPS],
        };
        for (run, &steps) in runs.iter().enumerate() {
            let Some(top) = self.best.as_ref().map(Plan::value) else { return Ok(None) };
            match self.attempt(recurrence, top, Some(steps), context)? {
                None => return Ok(None),
                Some(halt) if halt.by_clock() || self.is_spent() => return Ok(Some(stop_of(halt))),
                Some(_) => {}
            }
            if run == 0 {
                // Bounds take less time than the rest of the search, and often close the gap.
                context.emit(Event::Phase { name: "bounds".into() });
                context.establish(self.problem, self.best.as_ref().map(Plan::value), &mut self.bound);
                if let Some(end) = context.done(self.best.as_ref(), self.bound.value) {
                    return Ok(end.reason());
                }
            }
        }
        // Lower caps take fewer steps and less memory, and raise the bound. They help a walk, but hardly a scan.
        recurrence.catalogue = None;
        context.emit(Event::Phase { name: "more orders".into() });
        let best = self.best.as_ref().map(|plan| plan.placement.clone());
        let given = std::mem::replace(&mut context.warm_start, best);
        let better = best_over_orders(self.problem, self.units, OrderEffort::Lasting, context);
        context.warm_start = given;
        context.keep(&mut self.best, better?);
        self.improve_boundaries(context)?;
        self.raise_caps(recurrence, context)
    }

    /// Runs the recurrence with ever higher caps until it finds a split, which is then optimal.
    fn raise_caps(
        &mut self,
        recurrence: &Recurrence<'_>,
        context: &mut Context<'_>,
    ) -> Result<Option<StopReason>> {
        for share in LADDER {
            if let Some(end) = context.done(self.best.as_ref(), self.bound.value) {
                return Ok(end.reason());
            }
            let Some(value) = self.best.as_ref().map(Plan::value) else { return Ok(None) };
            let cap =
                if share == 1.0 { value } else { self.bound.value + share * (value - self.bound.value) };
            context.emit(Event::Phase { name: format!("ideals, cap at {:.1}% of the gap", 100.0 * share) });
            match self.attempt(recurrence, cap, None, context)? {
                // Higher caps would find the same split again.
                None if self.bound.value < tolerance::round_down(cap) => return Ok(None),
                None => {}
                Some(halt) => return Ok(Some(stop_of(halt))),
            }
        }
        Ok(None)
    }

    /// Improves the plan and the bound by minimum cuts, which on large graphs achieve more than ideals.
    fn improve_boundaries(&mut self, context: &mut Context<'_>) -> Result<()> {
        let room = Room::new(self.problem, self.units, context.limits.memory);
        improve_boundaries(self.problem, self.units, &room, &mut self.best, &mut self.bound, context)
    }

    /// Whether the steps of all attempts are used up.
    fn is_spent(&self) -> bool {
        self.most_steps.is_some_and(|limit| self.counts.steps >= limit)
    }

    /// Runs the recurrence below a cap. A finished run raises the bound to the value of the best split that it found,
    /// or to the cap if it found none.
    fn attempt(
        &mut self,
        recurrence: &Recurrence<'_>,
        cap: f64,
        steps: Option<u64>,
        context: &mut Context<'_>,
    ) -> Result<Option<Halt>> {
        let stop = context.stop().clone();
        let (memory, most_steps) = (context.limits.memory, self.most_steps);
        let (problem, units, counts) = (self.problem, self.units, &mut self.counts);
        let mut is_spent = false;
        let (found, halt) = context.in_pool(|| {
            let mut call = |pass, caps| {
                let left = most_steps.map(|limit| limit.saturating_sub(counts.steps));
                let steps = [steps, left].into_iter().flatten().min();
                let run = recurrence.minimise(pass, caps, Budget { stop: &stop, memory, steps }, counts);
                // A batch that exceeds the remaining steps is dropped and not counted.
                is_spent = run.halt == Some(Halt::Steps) && steps == left;
                run
            };
            if problem.objective().passes() == 1 {
                let run = call(0, [cap, cap]);
                Ok((run.best, run.halt))
            } else {
                separate(recurrence, units, cap, call)
            }
        })??;
        if is_spent {
            self.most_steps = Some(self.counts.steps);
        }
        let plan = match &found {
            Some(stages) => Some(plan_of(self.problem, self.units, stages)?),
            None => None,
        };
        if halt.is_none() {
            // Uplinks only increase a split's value, so the minimum without them is a lower bound.
            let loads = found.as_ref().map(|stages| largest_loads(recurrence, self.units, stages));
            let proved = loads.transpose()?.map_or(cap, |loads| loads.iter().sum());
            let value = tolerance::round_down(proved);
            let bound = LowerBound { value, source: LowerBound::SEARCHED, certificate: None };
            context.raise(&mut self.bound, bound);
        }
        context.keep(&mut self.best, plan);
        Ok(halt)
    }
}

/// A cap above the value of every split: all compute and all transfers, on the slowest pools.
fn above_every_load(problem: &Problem, units: &Units) -> f64 {
    let pools = 0..problem.pools().len();
    let slowest =
        |unit: UnitId| pools.clone().filter_map(|pool| units.seconds(unit, pool)).fold(0.0, f64::max);
    let dearest = |net: NetId| pools.clone().map(|pool| units.transfer(net, pool)).fold(0.0, f64::max);
    let compute: f64 = units.ids().map(slowest).sum();
    let transfer: f64 = units.nets().ids().map(dearest).sum();
    let synchronised = match problem.objective().rules().max_replicas {
        0 | 1 => 0.0,
        _ => {
            let own: f64 = units.ids().map(|unit| units.parameter_bytes(unit)).sum();
            let parameters = own + units.shared().iter().map(|shared| shared.synchronised).sum::<f64>();
            let slowest_link =
                problem.pools().iter().map(|pool| pool.bandwidth).fold(f64::INFINITY, f64::min);
            if parameters > 0.0 { 2.0 * parameters / slowest_link } else { 0.0 }
        }
    };
    2.0 * (compute + transfer + synchronised) + 1.0
}

/// Stop reason of a halt. A step limit bounds the work, and is therefore reported as a time limit.
fn stop_of(halt: Halt) -> StopReason {
    match halt {
        Halt::Stop(reason) => reason,
        Halt::Steps => StopReason::Time,
    }
}

/// Largest load of the stages per pass, including uplinks if the recurrence models them.
pub(crate) fn largest_loads(
    recurrence: &Recurrence<'_>,
    units: &Units,
    stages: &[StageAssignment],
) -> Result<[f64; 2]> {
    let larger = |largest: [f64; 2], loads: [f64; 2]| [largest[0].max(loads[0]), largest[1].max(loads[1])];
    let problem = recurrence.problem;
    let devices = stages.iter().map(|stage| stage_loads(problem, units, stage)).fold([0.0; 2], larger);
    match recurrence.uplinks {
        None => Ok(devices),
        Some(_) => {
            let uplinks = plan_of(problem, units, stages)?.evaluation.uplinks;
            Ok(uplinks.into_iter().fold(devices, larger))
        }
    }
}

/// The best split under `separate` training, by sweeping the cap on forward loads. If a run is interrupted, its split
/// is kept.
fn separate(
    recurrence: &Recurrence<'_>,
    units: &Units,
    cap: f64,
    mut call: impl FnMut(usize, [f64; 2]) -> Run,
) -> Result<(Option<Vec<StageAssignment>>, Option<Halt>)> {
    let mut unfinished: Option<(f64, Vec<StageAssignment>)> = None;
    let swept = sweep(cap, |pass, caps| {
        let run = call(pass, caps);
        let found = match run.best {
            Some(stages) => {
                let loads = largest_loads(recurrence, units, &stages).map_err(Ended::Failed)?;
                Some(Minimised { loads, placement: stages })
            }
            None => None,
        };
        match run.halt {
            None => Ok(found),
            Some(halt) => {
                unfinished = found.map(|found| (found.loads[0] + found.loads[1], found.placement));
                Err(Ended::Halted(halt))
            }
        }
    });
    match swept {
        Ok(best) => Ok((best.map(|(_, stages)| stages), None)),
        Err((Ended::Failed(error), _)) => Err(error),
        Err((Ended::Halted(halt), best)) => {
            let better = [best, unfinished].into_iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0));
            Ok((better.map(|(_, stages)| stages), Some(halt)))
        }
    }
}

/// Reason that a sweep did not finish.
enum Ended {
    Halted(Halt),
    Failed(SolveError),
}
