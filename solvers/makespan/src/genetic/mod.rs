//! A biased random-key genetic algorithm over placements and priorities.
//!
//! A chromosome has, for every operator, an affinity for each device and a priority, all between 0 and 1
//! ([`chromosome`]). A generation keeps its best individuals, the *elite*, adds some *mutants*, which are new random
//! chromosomes, and fills up with children of one elite and one other parent; a child has each key of the elite parent
//! with a probability above one half.
//!
//! In a large graph, operators that a multilevel coarsening merges share their keys: a priority then moves its
//! operators up or down together, relative to their upward ranks. The first generation includes the schedules of list
//! schedulers and a warm start, and mutants of each, in which only some of the keys are changed.
//!
//! Every generation is simulated in parallel. Since the elite stays, the simulation of a child ends as soon as the
//! child is certain not to enter the elite; the other parents are chosen regardless of their score.
//!
//! Gonçalves and Resende, "Biased random-key genetic algorithms for combinatorial optimization", Journal of
//! Heuristics 2011, for the algorithm and the ranges of its parameters. Paliwal, Gimeno, Nair, Li, Lubin, Kohli and
//! Vinyals, "Reinforced genetic algorithm learning for optimizing computation graphs", ICLR 2020 (REGAL), for the
//! chromosome; there a network proposes the distribution of a mutant's keys, here the best schedule known does.

mod chromosome;
mod population;

use rand::RngExt;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Event, SolveError};

use self::chromosome::Code;
use self::population::{Individual, Population};
use super::schedule::{Best, is_better};
use super::search::{Search, SearchSolver};
use super::start::starts;

/// Maximum number of groups of operators with keys of their own.
const MAX_GROUPS: usize = 512;
/// Range to which the number of individuals per generation is clamped; within it, there is one individual per group.
const INDIVIDUALS: [usize; 2] = [24, 100];
/// Minimum number of individuals for breeding.
const FEWEST: usize = 8;
/// Fractions of a generation. Gonçalves and Resende recommend 10 to 25 % elite and 10 to 30 % mutants.
const ELITE: f64 = 0.2;
const MUTANTS: f64 = 0.15;
/// Probability that a child inherits a key from its elite parent; 50 to 80 % are recommended.
const FROM_ELITE: f64 = 0.7;
/// Generations without an improvement after which a search ends, and maximum number of generations.
const PATIENCE: u32 = 400;
const GENERATIONS: u64 = 10_000;

/// The biased random-key genetic algorithm.
pub static BRKGA: SearchSolver = SearchSolver {
    name: "brkga",
    summary: "genetic search over device affinities and priorities, on the simulator (makespan)",
    counts_simulations: false,
    starts_from_plan: true,
    begin: starts,
    run: evolve,
};

/// Evolves generations until one of the limits.
fn evolve(search: &mut Search<'_, '_>, context: &mut Context<'_>) -> Result<(), SolveError> {
    let (instance, stop) = (search.instance, context.stop().clone());
    let code = Code::new(instance, MAX_GROUPS, &mut seed::stream(context.seed(), 0));
    // Old and new chromosomes are in memory together.
    let room = context.limits.memory.map_or(usize::MAX, |bytes| bytes as usize / (2 * code.bytes()));
    let size = code.groups().clamp(INDIVIDUALS[0], INDIVIDUALS[1]).min(room);
    if size < FEWEST {
        context.emit(Event::Phase { name: "too little memory for a generation".into() });
        return Ok(());
    }
    let elite = (size as f64 * ELITE).ceil() as usize;
    let mutants = (size as f64 * MUTANTS).ceil() as usize;
    let pool = context.pool()?;
    let mut population = Population::new(search.evaluator.clone(), pool.current_num_threads());

    let mut rng = seed::stream(context.seed(), 1);
    let mut fresh: Vec<_> =
        search.starts.iter().map(|start| code.encode(&start.schedule, &mut rng)).collect();
    fresh.truncate(size);
    while fresh.len() < size {
        let model = &fresh[rng.random_range(0..search.starts.len().min(size))];
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
        individuals.extend(pool.install(|| population.evaluate(&code, fresh, limit, &stop)));
        // Stable: ties go to the older individual.
        individuals.sort_by(|a, b| a.score.energy().total_cmp(&b.score.energy()));
        idle += 1;
        let by_score = |a: &&Individual, b: &&Individual| {
            a.score.lack.total_cmp(&b.score.lack).then(a.score.makespan.total_cmp(&b.score.makespan))
        };
        if let Some(leader) =
            individuals.iter().min_by(by_score).filter(|leader| is_better(leader.score, search.best.score))
        {
            search.take(Best { score: leader.score, schedule: code.decode(&leader.keys) }, context);
            idle = 0;
        }
        if search.is_over() {
            break;
        }
        generation += 1;
        let mut rng = seed::stream(context.seed(), 1 + generation);
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
