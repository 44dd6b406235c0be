//! A biased random-key genetic algorithm over placements and priorities.
//!
//! A chromosome has, for every operator, an affinity for each device and a priority, all between 0 and 1
//! ([`chromosome`]). A generation keeps its best, the *elite*, adds some *mutants*, which are new random
//! chromosomes, and fills up with children of one parent of the elite and one of the others; a child has each key of
//! the elite parent with more than even probability.
//!
//! In a large graph, operators that a multilevel coarsening merges share their keys: a priority then moves its
//! operators up or down together, relative to their upward ranks. The first generation has the schedules of list
//! schedulers and a warm start among it; around each, mutants take only some keys anew.
//!
//! Every generation is simulated in parallel. Since the elite stays, a child that would not enter it is simulated
//! no further than that is plain; the others are chosen as parents whatever they are worth.
//!
//! Gonçalves and Resende, "Biased random-key genetic algorithms for combinatorial optimization", Journal of
//! Heuristics 2011, for the algorithm and the ranges of its parameters. Paliwal, Gimeno, Nair, Li, Lubin, Kohli and
//! Vinyals, "Reinforced genetic algorithm learning for optimizing computation graphs", ICLR 2020 (REGAL), for the
//! chromosome; there a network proposes the distribution of a mutant's keys, here the best schedule known does.

mod chromosome;
mod population;

use rand::RngExt;
use stagewright_core::bound::strongest;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Capabilities, Context, Event, Solution, SolveError, Solver, Status};
use stagewright_core::tolerance;

use self::chromosome::Code;
use self::population::{Individual, Population};
use super::HEURISTIC;
use super::scene::Scene;
use super::schedule::{Best, Judge, solution};
use super::start::starts;

/// The share of the time that list schedulers may take: where memory is short, they try again and again.
const FOR_STARTS: f64 = 0.3;
/// Most groups of operators that have keys of their own.
const MOST_GROUPS: usize = 512;
/// Individuals of a generation: as many as there are groups, within these.
const INDIVIDUALS: [usize; 2] = [24, 100];
/// Shares of a generation. Gonçalves and Resende recommend 10 to 25 % elite and 10 to 30 % mutants.
const ELITE: f64 = 0.2;
const MUTANTS: f64 = 0.15;
/// Probability that a key of a child is that of its elite parent; 50 to 80 % are recommended.
const FROM_ELITE: f64 = 0.7;
/// Generations without a better schedule after which a search ends, and generations in all.
const PATIENCE: u32 = 400;
const GENERATIONS: u64 = 10_000;
/// The gap that a makespan is stopped at is at most this.
const LARGEST_GAP: f64 = 0.999;

/// The biased random-key genetic algorithm.
#[derive(Debug, Clone, Copy, Default)]
pub struct Brkga;

impl Solver for Brkga {
    fn name(&self) -> &'static str {
        "brkga"
    }

    fn summary(&self) -> &'static str {
        "genetic search over device affinities and priorities, on the simulator (makespan)"
    }

    fn capabilities(&self) -> Capabilities {
        HEURISTIC
    }

    /// Takes O(generations · individuals · operators log operators) in all, where nothing stops it.
    fn solve(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        SolveError::check(self, problem)?;
        let bound = strongest(problem);
        let scene = Scene::new(problem);
        if let Some(reason) = scene.impossible() {
            return Ok(Solution::without_plan(self.name(), Status::Infeasible, bound, None, reason));
        }
        let mut judge = Judge::new(&scene);
        let starts = starts(&mut judge, &context.part(FOR_STARTS));
        let mut best = starts.first().cloned();
        let gap = context.limits.gap.clamp(tolerance::OPTIMAL_RELATIVE, LARGEST_GAP);
        let target = bound.value / (1.0 - gap);
        if let Some(best) = best.as_mut().filter(|_| problem.graph().operator_count() > 0) {
            announce(best, context);
            evolve(&scene, judge, &starts, best, target, context)?;
        }
        solution(self.name(), &scene, best, bound, context)
    }
}

/// Generation after generation, until one of the limits.
fn evolve(
    scene: &Scene<'_>,
    judge: Judge<'_, '_>,
    starts: &[Best],
    best: &mut Best,
    target: f64,
    context: &mut Context<'_>,
) -> Result<(), SolveError> {
    let stop = context.stop().clone();
    let is_over =
        |best: &Best| stop.reason().is_some() || (best.score.fits() && best.score.makespan <= target);
    if is_over(best) {
        return Ok(());
    }
    let code = Code::new(scene, MOST_GROUPS, &mut seed::stream(context.seed, 0));
    let size = code.groups().clamp(INDIVIDUALS[0], INDIVIDUALS[1]);
    let elite = (size as f64 * ELITE).ceil() as usize;
    let mutants = (size as f64 * MUTANTS).ceil() as usize;
    let pool = context.pool()?;
    let mut population = Population::new(judge, pool.current_num_threads());

    let mut rng = seed::stream(context.seed, 1);
    let mut fresh: Vec<_> = starts.iter().map(|start| code.encode(&start.schedule, &mut rng)).collect();
    fresh.truncate(size);
    while fresh.len() < size {
        let model = &fresh[rng.random_range(0..starts.len().min(size))];
        fresh.push(code.mutant(model, &mut rng));
    }
    let (mut generation, mut idle) = (0, 0);
    let mut individuals: Vec<Individual> = Vec::new();
    while generation < GENERATIONS && idle < PATIENCE {
        let limit = match individuals.get(elite - 1) {
            Some(last) if last.score.fits() => last.score.makespan,
            _ => f64::INFINITY,
        };
        individuals.truncate(elite);
        individuals.extend(pool.install(|| population.judge(&code, fresh, limit, &stop)));
        // Stable: of equals, the one that was there first.
        individuals.sort_by(|a, b| a.score.energy().total_cmp(&b.score.energy()));
        idle += 1;
        let by_score = |a: &&Individual, b: &&Individual| {
            a.score.lack.total_cmp(&b.score.lack).then(a.score.makespan.total_cmp(&b.score.makespan))
        };
        if let Some(leader) = individuals.iter().min_by(by_score).filter(|leader| leader.score < best.score) {
            *best = Best { score: leader.score, schedule: code.decode(&leader.keys) };
            announce(best, context);
            idle = 0;
        }
        if is_over(best) {
            break;
        }
        generation += 1;
        let mut rng = seed::stream(context.seed, 1 + generation);
        let leader = &individuals[0].keys;
        fresh = (0..mutants).map(|_| code.mutant(leader, &mut rng)).collect();
        for _ in elite + mutants..size {
            let best = &individuals[rng.random_range(0..elite)].keys;
            let other = &individuals[rng.random_range(elite..individuals.len())].keys;
            fresh.push(code.child(best, other, FROM_ELITE, &mut rng));
        }
    }
    Ok(())
}

fn announce(best: &Best, context: &mut Context<'_>) {
    if best.score.fits() {
        context.emit(Event::Incumbent { value: best.score.makespan });
    }
}
