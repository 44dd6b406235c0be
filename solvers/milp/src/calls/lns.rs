//! Latency in `lns`: the integer program of [`super`] re-optimises a few calls and the operators around them.
//!
//! Several neighbourhoods of one plan are solved in parallel, under a node limit instead of a time limit, so that the
//! plan does not depend on the number of threads. The moves of the best neighbourhood are applied, then the moves of
//! the others if they help too. After many batches without a better plan, neighbourhoods grow, since most are solved at
//! the root of the search tree, and a walk of local search from another seed follows.

use rand::{Rng, RngExt};
use rayon::ThreadPool;
use rayon::prelude::*;
use stagewright_core::call_timing::Offload;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Event, Plan, Result, Solution, Status, Stop};
use stagewright_core::tolerance;
use stagewright_search::latency::local::improve;

use super::exact::first;
use super::model::{CallsModel, Rows};
use super::neighbourhood::{Neighbourhood, SHAPES, Size, Timed};
use super::reach::Reach;
use super::scope::Scope;
use super::seats::{SeatId, Seats};
use super::writer::Range;
use crate::adaptive::Adaptive;
use crate::run::{RunEffort, solve as solve_program};
use crate::search::most_entries;

/// Node limit of one neighbourhood, and the gap at which it ends.
const NODES: u32 = 200;
const GAP: f64 = 1e-4;
/// Number of neighbourhoods solved in parallel.
const BATCH: usize = 4;
/// Batches without a better plan before a walk of local search, and consecutive walks that end the search.
const PATIENCE: u32 = 12;
const MAX_WALKS: u64 = 3;
/// Share of the remaining time for a walk.
const WALK_SHARE: f64 = 0.1;
/// The random stream of the neighbourhoods.
const STREAM: u64 = 1 << 33;

pub(crate) fn solve(name: &'static str, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
    let (bound, plan) = first(problem, context)?;
    let Some(plan) = plan else {
        let why = "no chain of blocks found fits the devices, and there is no other initial plan";
        let stop = context.stop().reason();
        return Ok(Solution::without_plan(name, Status::Unknown, bound, stop, why.into()));
    };
    let Some(seats) = Seats::new(problem) else {
        let why = "there are too many calls to choose from";
        let solution = Solution::with_plan(name, plan, bound, context.stop().reason());
        return Ok(Solution { reason: Some(why.into()), ..solution });
    };
    let offload = Offload::new(problem);
    let mut search = Search {
        problem,
        offload: &offload,
        seats: &seats,
        best: plan,
        scores: Adaptive::new(),
        size: Size::FIRST,
        most_entries: most_entries(context.limits.memory.map(|memory| memory / BATCH as u64)),
        solved: 0,
    };
    search.run(bound.value, context)?;
    let stop = context.end(search.best.value(), bound.value);
    let statistics = vec![("neighbourhoods", search.solved)];
    Ok(Solution { statistics, ..Solution::with_plan(name, search.best, bound, stop) })
}

struct Search<'a> {
    problem: &'a Problem,
    offload: &'a Offload<'a>,
    seats: &'a Seats,
    best: Plan,
    scores: Adaptive<{ SHAPES.len() }>,
    size: Size,
    /// Maximum number of matrix entries of a neighbourhood.
    most_entries: usize,
    solved: u64,
}

impl Search<'_> {
    fn run(&mut self, bound: f64, context: &mut Context<'_>) -> Result<()> {
        context.emit(Event::Phase { name: "large neighbourhoods".into() });
        let pool = context.pool()?;
        let mut rng = seed::stream(context.seed(), STREAM);
        let (mut idle, mut walks, mut walked) = (0, 0, 0);
        let is_done = |best: &Plan, context: &Context<'_>| {
            context.stop().reason().is_some() || context.is_enough(best.value(), bound)
        };
        while walks < MAX_WALKS && !is_done(&self.best, context) {
            if self.step(&mut rng, &pool, context) {
                (idle, walks) = (0, 0);
                continue;
            }
            idle += 1;
            if idle < PATIENCE {
                continue;
            }
            (idle, walks, walked) = (0, walks + 1, walked + 1);
            self.size = self.size.grown();
            let mut part = context.time_slice(WALK_SHARE);
            part.shift_seed(STREAM + walked);
            let (found, _) = improve(self.problem, self.best.clone(), bound, &mut part)?;
            if self.keep(found, context) {
                walks = 0;
            }
        }
        Ok(())
    }

    /// Solves a batch of neighbourhoods; returns whether any improved the plan.
    fn step(&mut self, rng: &mut impl Rng, pool: &ThreadPool, context: &mut Context<'_>) -> bool {
        let Some(plan) = self.seats.of_placement(self.problem, &self.best.placement) else { return false };
        let Some(timed) = Timed::new(self.offload, self.seats, &plan) else { return false };
        let shape = self.scores.draw(rng);
        let batch: Vec<Neighbourhood> =
            (0..BATCH).map(|_| timed.draw(SHAPES[shape], self.size, rng)).collect();
        let (stop, seed) = (context.stop().clone(), rng.random_range(0..1 << 31));
        let found: Vec<Option<Vec<SeatId>>> = pool
            .install(|| batch.par_iter().map(|chosen| self.plan_anew(&plan, chosen, seed, &stop)).collect());
        self.solved += batch.len() as u64;
        let as_plan = |seats: &[SeatId]| Plan::new(self.problem, self.seats.placement(seats)).ok();
        let mut better: Vec<(Plan, Vec<SeatId>)> =
            found.into_iter().flatten().filter_map(|seats| Some((as_plan(&seats)?, seats))).collect();
        better.sort_by(|a, b| a.0.value().total_cmp(&b.0.value()));
        let mut best: Option<(Plan, Vec<SeatId>)> = None;
        for (found, seats) in better {
            match &best {
                None => best = Some((found, seats)),
                Some((known, earlier)) => {
                    let moved =
                        (0..plan.len()).map(|op| if seats[op] == plan[op] { earlier[op] } else { seats[op] });
                    let both: Vec<SeatId> = moved.collect();
                    if let Some(found) = as_plan(&both).filter(|found| found.value() < known.value()) {
                        best = Some((found, both));
                    }
                }
            }
        }
        let helped = best.is_some_and(|(found, _)| self.keep(found, context));
        self.scores.learn(shape, helped);
        helped
    }

    /// Solves a neighbourhood; returns a seat for every operator if the plan may be better.
    fn plan_anew(
        &self,
        plan: &[SeatId],
        neighbourhood: &Neighbourhood,
        seed: u64,
        stop: &Stop,
    ) -> Option<Vec<SeatId>> {
        if stop.reason().is_some() {
            return None;
        }
        let Neighbourhood { open, free } = neighbourhood;
        let scope = Scope::around(self.offload, self.seats, plan, open, free)?;
        let high = self.best.value();
        // The fixed part alone may take as long as the best plan.
        if scope.latest_known >= high * (1.0 - tolerance::OPTIMAL_RELATIVE) {
            return None;
        }
        let scope = scope.excluding(high);
        if scope.entries() > self.most_entries {
            return None;
        }
        let reach = Reach::new(&scope);
        if scope.decisions() == 0 || reach.longest() >= high * (1.0 - tolerance::OPTIMAL_RELATIVE) {
            return None;
        }
        let effort = RunEffort { time: None, nodes: Some(NODES), gap: GAP, seed };
        let solved = |positions| {
            let rows = Rows { positions, ..Rows::default() };
            let model = CallsModel::new(&scope, &reach, Range { low: 0.0, high }, rows, stop)?;
            let start = model.start(&scope.chosen(plan), |_, _| false);
            // A failed run counts as a neighbourhood without a better plan.
            let chosen = solve_program(model, Some(start), effort, stop).ok()?.chosen?;
            Some(scope.seats_of(&chosen, Some(plan))).filter(|seats| seats != plan)
        };
        let seats = solved(false)?;
        let has_order = Timed::new(self.offload, self.seats, &seats).is_some();
        if has_order || !scope.has_positions() { Some(seats) } else { solved(true) }
    }

    fn keep(&mut self, plan: Plan, context: &mut Context<'_>) -> bool {
        let better = plan.value() < self.best.value() * (1.0 - tolerance::OPTIMAL_RELATIVE);
        if better {
            context.emit(Event::Incumbent { value: plan.value() });
            self.best = plan;
        }
        better
    }
}
