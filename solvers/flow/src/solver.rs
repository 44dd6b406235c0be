//! The solve: chains, blocks and annealing from below, prices from above.

use rayon::prelude::*;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Event, SolveError, Status, StopReason};
use stagewright_core::tolerance;

use crate::blocks;
use crate::bound::{at_plan, of_hops, tighten};
use crate::chain::{best_chain, loose_chains};
use crate::problem::Problem;
use crate::routing::{Ranges, route};
use crate::search::{Search, Walk};
use crate::solution::{Bound, Plan, Request, Solution};

/// Steps of an annealing for each node.
const STEPS: u64 = 2_000;
/// First temperatures of annealings, and their weights of room: no pair is best for every network.
const WALKS: [(f64, f64); 3] = [(0.02, 1.0), (0.005, 0.3), (0.002, 0.3)];
/// Chains that annealing starts from.
const CHAINS: usize = 8;
/// Rounds of annealings, each from the best plan and from all chains.
const ROUNDS: u64 = 3;
/// Steps of the bisection for blocks.
const BISECTIONS: usize = 12;

/// Finds ranges of layers through which most tokens flow, and an upper bound on the flow of every plan.
///
/// The first plan is the best chain. Prices of nodes then bound the flow from above: if they exclude more than the flow of
/// the plan, it is optimal. Otherwise blocks of parallel chains and annealing of ranges look for more, until the bound is
/// reached or their steps are done. The number of steps, and so the plan, does not depend on the machine, but for limits of time.
///
/// # Errors
/// If threads cannot be started.
pub fn solve(
    problem: &Problem,
    request: &Request,
    context: &mut Context<'_>,
) -> Result<Solution, SolveError> {
    let mut run = Run {
        problem,
        max_hops: request.max_hops,
        best: None,
        bound: of_hops(problem, request.max_hops, context.stop()),
    };
    run.phase("chains", context);
    let limit = run.limit();
    if let Some(ranges) = best_chain(problem, limit) {
        run.offer(&ranges, context);
    }
    run.phase("prices", context);
    run.prove(context);
    if !run.is_done(context) {
        run.tighten(context);
    }
    if !run.is_done(context) {
        run.phase("blocks", context);
        run.blocks(context);
        run.prove(context);
    }
    if !run.is_done(context) {
        run.phase("annealing", context);
        run.anneal(context)?;
    }
    Ok(run.solution(context))
}

struct Run<'p> {
    problem: &'p Problem,
    max_hops: Option<u32>,
    best: Option<Plan>,
    bound: Bound,
}

impl Run<'_> {
    fn phase(&self, name: &str, context: &mut Context<'_>) {
        context.emit(Event::Phase { name: name.into() });
    }

    /// Largest number of nodes on a path.
    fn limit(&self) -> usize {
        self.max_hops.map_or(usize::MAX, |hops| hops as usize)
    }

    fn value(&self) -> f64 {
        self.best.as_ref().map_or(0.0, |plan| plan.flow)
    }

    /// Whether nothing more can be found, or enough was.
    fn is_done(&self, context: &Context<'_>) -> bool {
        let gap = tolerance::gap(self.bound.flow, self.value());
        context.stop().reason().is_some() || gap == 0.0 || context.gap_reached(self.bound.flow, self.value())
    }

    /// Keeps a plan if it is better than the best one. Nodes through which nothing flows hold nothing.
    fn offer(&mut self, ranges: &Ranges, context: &mut Context<'_>) {
        let routing = route(self.problem, ranges);
        let mut used = ranges.clone();
        for (range, &carried) in used.iter_mut().zip(&routing.nodes) {
            if carried <= 0.0 {
                *range = (0, 0);
            }
        }
        if routing.flow > self.value() && routing.hops(&used) <= self.limit() {
            context.emit(Event::Incumbent { value: routing.flow });
            self.best = Some(Plan { flow: routing.flow, ranges: used, routing });
        }
    }

    /// Looks for a proof that the best plan is optimal, unless there is one.
    fn prove(&mut self, context: &mut Context<'_>) {
        if tolerance::gap(self.bound.flow, self.value()) > 0.0
            && let Some(bound) = at_plan(self.problem, self.value(), context.stop())
        {
            self.lower(bound, context);
        }
    }

    /// Looks for a lower bound. Most of the time is for plans.
    fn tighten(&mut self, context: &mut Context<'_>) {
        let stop = context.stop().within(context.stop().remaining().map(|left| left / 4));
        let bound = tighten(self.problem, self.value(), self.bound.clone(), &stop);
        self.lower(bound, context);
    }

    fn lower(&mut self, bound: Bound, context: &mut Context<'_>) {
        if bound.flow < self.bound.flow {
            context.emit(Event::Bound { value: bound.flow, source: bound.source() });
            self.bound = bound;
        }
    }

    /// Plans of blocks, by bisection of the flow between the best plan and the bound.
    fn blocks(&mut self, context: &mut Context<'_>) {
        let (mut low, mut high) = (self.value(), self.bound.flow);
        for _ in 0..BISECTIONS {
            if self.is_done(context) || high - low <= 1e-4 * high {
                return;
            }
            let middle = f64::midpoint(low, high);
            match blocks::plan(self.problem, middle, context.stop()) {
                Some(ranges) => {
                    self.offer(&ranges, context);
                    low = middle.max(self.value());
                }
                None => high = middle,
            }
        }
    }

    /// Rounds of annealings from the best plan and from chains, on all threads. The results of a round are merged in the
    /// order of its tasks.
    fn anneal(&mut self, context: &mut Context<'_>) -> Result<(), SolveError> {
        let chains = loose_chains(self.problem, CHAINS);
        let steps = STEPS * self.problem.nodes() as u64;
        for round in 0..ROUNDS {
            if self.is_done(context) {
                break;
            }
            let starts: Vec<&Ranges> = self.best.iter().map(|plan| &plan.ranges).chain(&chains).collect();
            let walks = WALKS.map(|(heat, room)| Walk { heat, room, steps });
            let tasks: Vec<(u64, &Ranges, Walk)> = starts
                .iter()
                .flat_map(|&start| walks.map(|walk| (start, walk)))
                .zip(1000 * round..)
                .map(|((start, walk), task)| (task, start, walk))
                .collect();
            let (problem, limit, target) = (self.problem, self.limit(), self.bound.flow);
            let (seed, stop) = (context.seed(), context.stop().clone());
            let annealed = |&(task, start, walk): &(u64, &Ranges, Walk)| {
                let mut random = seed::stream(seed, task);
                Search::new(problem, limit, target, walk).anneal(start.clone(), &mut random, &stop)
            };
            let found: Vec<Ranges> = context.in_pool(|| tasks.par_iter().map(annealed).collect())?;
            let before = self.value();
            for ranges in found {
                self.offer(&ranges, context);
            }
            if self.value() > before {
                self.prove(context);
            }
        }
        Ok(())
    }

    fn solution(self, context: &Context<'_>) -> Solution {
        let is_closed = tolerance::gap(self.bound.flow, self.value()) == 0.0;
        let status = match (&self.best, is_closed) {
            (Some(_), true) => Status::Optimal,
            (Some(_), false) => Status::Feasible,
            (None, _) if self.bound.flow <= 0.0 => Status::Infeasible,
            (None, _) => Status::Unknown,
        };
        let is_limited = matches!(status, Status::Feasible | Status::Unknown);
        let stop = is_limited.then(|| {
            let is_near = context.gap_reached(self.bound.flow, self.value());
            context.stop().reason().or(is_near.then_some(StopReason::Gap))
        });
        Solution { status, plan: self.best, bound: self.bound, stop: stop.flatten() }
    }
}
