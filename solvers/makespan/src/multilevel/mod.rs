//! Multilevel partitioning, evaluated by the simulator.
//!
//! The phases are those of graph partitioners. *Coarsening* merges colocation classes with much communication into ever
//! larger clusters, while the precedence stays acyclic ([`coarsening`]). *Initial partitioning* assigns devices to the
//! clusters of some level, by several methods ([`initial`]). *Uncoarsening* goes back through the levels, and at each a
//! *refinement* moves clusters: first to reduce the cut between devices ([`refinement`]), then, as long as the
//! simulated step gets shorter, the clusters on its critical path ([`climb`]). Moving a large cluster moves many
//! operators at once, a change that no walk over single operators finds.
//!
//! *V-cycles* follow (Walshaw, "Multilevel refinement for combinatorial optimisation problems", Annals of Operations
//! Research 2004): the graph is coarsened again, in another random order, and the best schedule is refined along the
//! new levels. Only clusters on the same device are merged, so the schedule is also a partition of the coarsest level.
//! Three out of four cycles first move some clusters of some level at random; the result is kept only if it is better.
//! If a start is better than the result of the first descents, cycles run from both for one period, and then from the
//! better one.
//!
//! At the end, forward and backward passes improve the priorities of the best schedule ([`justify`]).
//!
//! Every partition is simulated with the priorities of [`assigned`](super::assigned) and without priorities. The list
//! schedules, or a warm start, take part, so the result is never worse than theirs.
//!
//! Herrmann, Özkaya, Uçar, Kaya and Çatalyürek, "Multilevel algorithms for acyclic partitioning of directed acyclic
//! graphs", SISC 2019 (dagP). Moreira, Popp and Schulz, "Graph partitioning with acyclicity constraints", SEA 2017.
//! Özkaya, Benoit, Uçar, Herrmann and Çatalyürek, "A scalable clustering-based task scheduler for homogeneous
//! processors using DAG partitioning", IPDPS 2019, schedules acyclic parts.

mod climb;
mod coarsening;
mod finest;
mod initial;
mod level;
mod refinement;

use std::time::Instant;

use rand::{Rng, RngExt};
use rayon::ThreadPool;
use rayon::prelude::*;
use stagewright_core::cluster::DeviceId;
use stagewright_core::seed;
use stagewright_core::solver::{Context, SolveError, Stop};

use self::climb::Climb;
use self::coarsening::{Limits, hierarchy};
use self::finest::Finest;
pub use self::level::{ClusterId, Level};
use super::instance::Instance;
use super::justify::{self, justified};
use super::schedule::{Best, Evaluator, Schedule, Score, is_better};
use super::search::{Search, SearchSolver};
use super::start::starts;

/// Number of clusters per device at the coarsest level, and minimum number in total.
const CLUSTERS_PER_DEVICE: usize = 8;
const FEWEST_CLUSTERS: usize = 24;
/// Number of randomised runs of growing for each number of parts.
const GROWN: u64 = 2;
/// Number of randomised runs of earliest finish for each level, and for each fine level: one with at least 1/`FINE` as
/// many clusters as there are colocation classes.
const SCHEDULED: u64 = 2;
const SCHEDULED_FINE: u64 = 12;
const FINE: usize = 16;
/// Number of partitions that are refined to the finest level, best first.
const REFINED: usize = 2;
/// Number of cycles that run side by side, independent of the number of threads.
const CYCLES: usize = 2;
/// Simulated operators in a period of ever shorter descents, and the range of the resulting number of simulations.
const EFFORT: u64 = 10_000_000;
const SIMULATIONS: [u64; 2] = [1000, 200_000];
/// A descent takes at most 1/`FOR_DESCENT` of the remaining simulations, and a level at most 1/`FOR_LEVEL` of the
/// simulations left to the descent.
const FOR_DESCENT: u64 = 3;
const FOR_LEVEL: u64 = 3;
/// Maximum number of clusters moved at random before a cycle.
const MAX_KICKED: usize = 3;
/// One cycle in `UNKICKED` moves nothing at random.
const UNKICKED: u64 = 4;
/// Cycles without an improvement after which a search ends.
const PATIENCE: usize = 300;
/// First random stream of the tasks of initial partitioning, far from the streams of cycles.
const TASKS: u64 = 1 << 48;

/// Multilevel partitioning.
pub static MULTILEVEL: SearchSolver = SearchSolver {
    name: "multilevel",
    summary: "multilevel partitioning, evaluated on the simulator (makespan)",
    counts_simulations: false,
    starts_from_plan: true,
    begin: starts,
    run: cycles_and_passes,
};

/// The finest level with at most `max_clusters` clusters, or else the coarsest level reached: the colocation classes
/// themselves if they are few enough, otherwise clusters of acyclic heavy-edge matching.
pub fn level_of(instance: &Instance<'_>, max_clusters: usize, rng: &mut dyn Rng) -> Level {
    let finest = Finest::new(instance);
    let limits = Limits::new(&finest, max_clusters);
    let mut levels = hierarchy(&finest, &limits, None, rng);
    let index = levels.iter().position(|level| level.len() <= max_clusters).unwrap_or(levels.len() - 1);
    levels.swap_remove(index)
}

/// The level of [`level_of`], with edges that are a precedence: if classes are on cycles, the finest level consists of
/// the units of a contiguous split, which fuse the cycles and mirror backward operators.
pub fn acyclic_level_of(instance: &Instance<'_>, max_clusters: usize, rng: &mut dyn Rng) -> Level {
    let finest = Finest::new(instance);
    let limits = Limits::new(&finest, max_clusters);
    let mut levels = hierarchy(&finest, &limits, None, rng);
    let first = usize::from(finest.is_fused());
    let index =
        (first..levels.len()).find(|&index| levels[index].len() <= max_clusters).unwrap_or(levels.len() - 1);
    levels.swap_remove(index)
}

/// A method of initial partitioning, with its level and its seed.
struct Task {
    at: usize,
    /// Number of parts to grow; `None` for earliest finish.
    parts: Option<usize>,
    seed: u64,
}

/// Data shared by all phases.
struct Cycles<'s, 'p> {
    instance: &'s Instance<'p>,
    finest: Finest<'s, 'p>,
    limits: Limits,
    stop: Stop,
    /// Makespan at which the search ends.
    target: f64,
}

impl<'s, 'p> Cycles<'s, 'p> {
    fn new(instance: &'s Instance<'p>, target: f64, stop: Stop) -> Cycles<'s, 'p> {
        let finest = Finest::new(instance);
        let fewest = (CLUSTERS_PER_DEVICE * instance.device_count()).max(FEWEST_CLUSTERS);
        let limits = Limits::new(&finest, fewest);
        Cycles { instance, finest, limits, stop, target }
    }

    /// The tasks of initial partitioning: growing the coarsest level into one part per device, or fewer, and scheduling
    /// every level by earliest finish. Clusters that are too large hide operators that can run side by side; with small
    /// clusters, refining the cut makes up for tensors between them.
    fn tasks(&self, levels: &[Level]) -> Vec<Task> {
        let mut tasks = Vec::new();
        for index in 0..levels.len() {
            let mut parts = if index + 1 == levels.len() { self.instance.device_count() } else { 0 };
            while parts > 0 {
                tasks.extend((0..GROWN).map(|seed| Task { at: index, parts: Some(parts), seed }));
                parts /= 2;
            }
            let is_fine = levels[index].len() * FINE >= levels[0].len();
            let seeds = if is_fine { SCHEDULED_FINE } else { SCHEDULED };
            tasks.extend((0..=seeds).map(|seed| Task { at: index, parts: None, seed }));
        }
        tasks
    }

    /// The refined partition of a task, as a schedule.
    fn partition(
        &self,
        task: &Task,
        level: &Level,
        evaluator: &mut Evaluator<'s, 'p>,
        rng: &mut dyn Rng,
    ) -> Option<Best> {
        let instance = self.instance;
        // The first run is not randomised.
        let rng = (task.seed > 0).then_some(rng);
        let mut partition = match task.parts {
            Some(parts) => {
                let mut chosen = initial::by_speed(instance, level);
                chosen.retain(|device| device.1 > 0.0);
                chosen.truncate(parts);
                // Devices of a group are adjacent, and so are consecutive parts.
                chosen.sort_by_key(|part| part.0);
                if chosen.is_empty() {
                    return None;
                }
                initial::grow(instance, level, &chosen, rng)
            }
            None => initial::earliest_finish(instance, level, rng),
        }?;
        refinement::refine(instance, level, &mut partition);
        let nothing = Best { score: Score::WORST, schedule: Schedule::without_priority(Vec::new()) };
        let mut climb = Climb::new(evaluator, &self.stop, nothing, u64::MAX, self.target);
        climb.offer(level.project(instance, &partition));
        Some(climb.current)
    }

    /// Refines a schedule along levels, coarsest first.
    fn descend(&self, climb: &mut Climb<'_, '_, '_>, levels: &[Level]) {
        let mut left = climb.left();
        for (index, level) in levels.iter().enumerate().rev() {
            if climb.is_over() {
                return;
            }
            let mut devices = level.devices(self.instance, &climb.current.schedule.device_of);
            let before = devices.clone();
            refinement::refine(self.instance, level, &mut devices);
            if devices != before {
                climb.offer(level.project(self.instance, &devices));
            }
            let share = if index == 0 { left } else { left / FOR_LEVEL };
            left -= share;
            climb.climb(level, share);
        }
    }

    /// The best result of the first coarsening, with a share of the simulations for each descent.
    fn first(
        &self,
        evaluator: &mut Evaluator<'s, 'p>,
        share: u64,
        pool: &ThreadPool,
        random: u64,
    ) -> Option<Best> {
        let levels = hierarchy(&self.finest, &self.limits, None, &mut seed::stream(random, 0));
        let tasks = self.tasks(&levels);
        let partition = |evaluator: &mut Evaluator<'s, 'p>, index: usize| {
            let task = &tasks[index];
            let mut rng = seed::stream(random, TASKS + index as u64);
            Some((self.partition(task, &levels[task.at], evaluator, &mut rng)?, task.at))
        };
        let mut tried = self.parallel(evaluator, pool, tasks.len(), partition);
        tried.sort_by(|a, b| a.0.score.energy().total_cmp(&b.0.score.energy()));
        tried.dedup_by(|a, b| a.0.schedule == b.0.schedule);
        tried.truncate(REFINED);
        let descent = |evaluator: &mut Evaluator<'s, 'p>, index: usize| {
            let (start, level): &(Best, usize) = &tried[index];
            let until = evaluator.runs + share;
            let mut climb = Climb::new(evaluator, &self.stop, start.clone(), until, self.target);
            self.descend(&mut climb, &levels[..=*level]);
            Some(climb.current)
        };
        let found = self.parallel(evaluator, pool, tried.len(), descent);
        found.into_iter().reduce(|best, other| if other.score < best.score { other } else { best })
    }

    /// The results of some tasks, in the order of the tasks, with the simulations added to those of the evaluator.
    /// Tasks that have not begun when the search is stopped yield no result.
    fn parallel<T: Send>(
        &self,
        evaluator: &mut Evaluator<'s, 'p>,
        pool: &ThreadPool,
        tasks: usize,
        run: impl Fn(&mut Evaluator<'s, 'p>, usize) -> Option<T> + Sync,
    ) -> Vec<T> {
        let mut fresh = evaluator.clone();
        fresh.runs = 0;
        let unless_stopped = |evaluator: &mut Evaluator<'s, 'p>, index: usize| {
            evaluator.runs = 0;
            let found = if self.stop.reason().is_none() { run(evaluator, index) } else { None };
            (found, evaluator.runs)
        };
        let found: Vec<(Option<T>, u64)> =
            pool.install(|| (0..tasks).into_par_iter().map_init(|| fresh.clone(), unless_stopped).collect());
        evaluator.runs += found.iter().map(|(_, runs)| runs).sum::<u64>();
        found.into_iter().filter_map(|(found, _)| found).collect()
    }

    /// Result of one V-cycle from a schedule, optionally after moving some clusters at random.
    fn cycle(
        &self,
        evaluator: &mut Evaluator<'s, 'p>,
        start: &Best,
        share: u64,
        is_kicked: bool,
        rng: &mut dyn Rng,
    ) -> Best {
        let levels = hierarchy(&self.finest, &self.limits, Some(&start.schedule.device_of), rng);
        let (mut start, mut levels) = (start.clone(), &levels[..]);
        if is_kicked {
            levels = &levels[..rng.random_range(1..=levels.len())];
            let level = &levels[levels.len() - 1];
            let mut devices = level.devices(self.instance, &start.schedule.device_of);
            for _ in 0..rng.random_range(1..=MAX_KICKED) {
                let cluster = ClusterId::new(rng.random_range(0..level.len()));
                let capable = self.capable(level, cluster);
                devices[cluster] = capable[rng.random_range(0..capable.len())];
            }
            start.schedule.device_of = level.project(self.instance, &devices);
            start.score = evaluator.score(&start.schedule);
        }
        let mut climb = Climb::new(evaluator, &self.stop, start, evaluator.runs + share, self.target);
        self.descend(&mut climb, levels);
        climb.current
    }

    /// The devices that can run a cluster; at least one.
    fn capable(&self, level: &Level, cluster: ClusterId) -> Vec<DeviceId> {
        let problem = self.instance.problem();
        let can = |device: &DeviceId| level.seconds(cluster, problem.pool_of(*device)).is_finite();
        problem.cluster().devices().filter(can).collect()
    }
}

/// Runs cycles, and then forward and backward passes that improve the priorities of the best schedule. Cycles compare schedules
/// with priorities by the longest path: passes between them would make every other partition look worse than it is.
fn cycles_and_passes<'s, 'p>(
    search: &mut Search<'s, 'p>,
    context: &mut Context<'_>,
) -> Result<(), SolveError> {
    let begin = Instant::now();
    search.evaluator.score(&search.best.schedule);
    let reserve = justify::reserve(begin.elapsed(), context.stop().remaining());
    let stop = search.goal.stop.clone();
    let mut part = context.time_slice_without(reserve, 1.0);
    search.goal.stop = part.stop().clone();
    cycles(search, &mut part)?;
    search.goal.stop = stop;
    if !search.is_over() {
        let found = justified(&mut search.evaluator, search.best.schedule.clone(), context.stop());
        search.take(found, context);
    }
    Ok(())
}

/// Runs the first descents, then cycles until a limit applies. Cycles run in periods of ever shorter descents; there is
/// only one period if neither time nor simulations are limited. In the first period, a start that is better than the
/// first descents has cycles of its own beside theirs. The simulations of initial partitions count, but are not
/// limited. O(effort · log operators) for each period.
pub(super) fn cycles<'s, 'p>(
    search: &mut Search<'s, 'p>,
    context: &mut Context<'_>,
) -> Result<(), SolveError> {
    let operators = search.instance.graph().operator_count() as u64;
    let levels = Cycles::new(search.instance, search.goal.target, search.goal.stop.clone());
    let pool = context.pool()?;
    let limit = context.limits.simulations.unwrap_or(u64::MAX);
    let period = (EFFORT / operators).clamp(SIMULATIONS[0], SIMULATIONS[1]).min(limit);
    let mut lineages = [&search.best; CYCLES].map(Best::clone);
    // The better schedule may lead to a worse result, so cycles run from both schedules for a period.
    let mut is_race = false;
    if let Some(first) = levels.first(&mut search.evaluator, period / FOR_DESCENT, &pool, context.seed()) {
        is_race = is_better(search.best.score, first.score);
        lineages[1] = first.clone();
        search.take(first, context);
    }
    let mut until = (search.evaluator.runs + period).min(limit);
    let (mut round, mut idle) = (0, 0);
    while idle < PATIENCE && !search.is_over() {
        if search.evaluator.runs >= until {
            let is_one_period = context.stop().remaining().is_none() && limit == u64::MAX;
            if is_one_period || search.evaluator.runs >= limit {
                break;
            }
            until = (search.evaluator.runs + period).min(limit);
            is_race = false;
        }
        let share = ((until - search.evaluator.runs) / FOR_DESCENT).max(1);
        if !is_race {
            lineages.fill(search.best.clone());
        }
        let seed = context.seed();
        let cycle = |evaluator: &mut Evaluator<'s, 'p>, index: usize| {
            let number = (CYCLES * round + index + 1) as u64;
            let mut rng = seed::stream(seed, number);
            let is_kicked = !number.is_multiple_of(UNKICKED);
            Some((index, levels.cycle(evaluator, &lineages[index], share, is_kicked, &mut rng)))
        };
        let found = levels.parallel(&mut search.evaluator, &pool, CYCLES, cycle);
        round += 1;
        idle += CYCLES;
        for (index, found) in found {
            if is_better(found.score, lineages[index].score) {
                lineages[index] = found.clone();
                idle = 0;
            }
            search.take(found, context);
        }
    }
    Ok(())
}
