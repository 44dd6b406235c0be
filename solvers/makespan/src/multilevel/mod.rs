//! Multilevel partitioning, evaluated by the simulator.
//!
//! The phases are those of graph partitioners. *Coarsening* merges colocation classes with much communication into ever
//! larger clusters, while the precedence stays acyclic ([`coarsening`]). *Initial partitioning* assigns devices to the
//! few clusters of the coarsest level, by several methods ([`initial`]). *Uncoarsening* goes back through the levels,
//! and at each a *refinement* moves clusters: first to reduce the cut between devices ([`refinement`]), then, as long
//! as the simulated step gets shorter, the clusters on its critical path ([`climb`]). A move of a large cluster moves
//! many operators together, which no walk over single operators finds.
//!
//! Then follow *V-cycles* (Walshaw, "Multilevel refinement for combinatorial optimisation problems", Annals of
//! Operations Research 2004): the graph is coarsened again, in another random order, and the best schedule refined
//! along the new levels. Only clusters on the same device are merged, so the schedule is also one of the coarsest
//! level. Three of four cycles first move some clusters of some level at random; the result is kept only if it is
//! better.
//!
//! Every candidate is simulated in full, with the priorities of [`assigned`](super::assigned) and without any. List
//! schedules and a warm start take part, so the result is never worse than theirs.
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

use rand::{Rng, RngExt};
use stagewright_core::cluster::DeviceId;
use stagewright_core::ids::Keyed;
use stagewright_core::seed;
use stagewright_core::solver::{Context, SolveError, Stop};

use self::climb::Climb;
use self::coarsening::{Limits, hierarchy};
use self::finest::Finest;
pub use self::level::{ClusterId, Level};
use super::instance::Instance;
use super::schedule::{Best, Evaluator, Schedule, Score};
use super::search::{Search, SearchSolver};
use super::start::starts;

/// Number of clusters of the coarsest level per device, and its minimum in total.
const CLUSTERS_PER_DEVICE: usize = 8;
const FEWEST_CLUSTERS: usize = 24;
/// Number of randomised seeds per method of initial partitioning.
const SEEDS: u64 = 2;
/// Number of partitions of the coarsest level that are refined to the finest, best first.
const REFINED: usize = 2;
/// Budget: simulated operators, and the range of the resulting number of simulations.
const EFFORT: u64 = 10_000_000;
const SIMULATIONS: [u64; 2] = [100, 200_000];
/// A descent takes at most 1/`FOR_DESCENT` of the remaining simulations, and a level 1/`FOR_LEVEL` of those left to its
/// descent.
const FOR_DESCENT: u64 = 3;
const FOR_LEVEL: u64 = 3;
/// Maximum number of clusters moved at random before a cycle.
const MAX_KICKED: usize = 3;
/// One cycle in `UNKICKED` moves nothing at random.
const UNKICKED: u64 = 4;
/// Cycles without an improvement after which a search ends.
const PATIENCE: u32 = 300;

/// Multilevel partitioning.
pub static MULTILEVEL: SearchSolver = SearchSolver {
    name: "multilevel",
    summary: "multilevel partitioning, evaluated on the simulator (makespan)",
    counts_simulations: false,
    begin: starts,
    run: cycles,
};

/// The finest level with at most `most` clusters, or else the coarsest level reached: the colocation classes themselves
/// if they are few enough, otherwise clusters of acyclic heavy-edge matching.
pub fn level_of(instance: &Instance<'_>, most: usize, rng: &mut dyn Rng) -> Level {
    let finest = Finest::new(instance);
    let limits = Limits::new(&finest, most);
    let mut levels = hierarchy(&finest, &limits, None, rng);
    let at = levels.iter().position(|level| level.len() <= most).unwrap_or(levels.len() - 1);
    levels.swap_remove(at)
}

/// Like [`level_of`], except if classes are on cycles: then the finest level is the units of a contiguous split, which
/// fuse the cycles and mirror backward operators, so that the edges of the level are a precedence.
pub fn acyclic_level_of(instance: &Instance<'_>, most: usize, rng: &mut dyn Rng) -> Level {
    let finest = Finest::new(instance);
    let limits = Limits::new(&finest, most);
    let mut levels = hierarchy(&finest, &limits, None, rng);
    let first = usize::from(finest.is_fused());
    let at = (first..levels.len()).find(|&at| levels[at].len() <= most).unwrap_or(levels.len() - 1);
    levels.swap_remove(at)
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

    /// Partitions of a level, each refined.
    fn partitions(&self, level: &Level, rng: &mut dyn Rng) -> Vec<Keyed<ClusterId, DeviceId>> {
        let instance = self.instance;
        let devices: Vec<(DeviceId, f64)> =
            initial::by_speed(instance, level).into_iter().filter(|device| device.1 > 0.0).collect();
        let mut found = Vec::new();
        let mut parts = devices.len();
        while parts > 0 {
            let mut chosen = devices[..parts].to_vec();
            // Devices of a group are adjacent, and so are consecutive parts.
            chosen.sort_by_key(|part| part.0);
            found.extend(initial::grow(instance, level, &chosen, None));
            for _ in 1..SEEDS {
                found.extend(initial::grow(instance, level, &chosen, Some(&mut *rng)));
            }
            parts /= 2;
        }
        found.extend(initial::earliest_finish(instance, level, None));
        for _ in 1..=SEEDS {
            found.extend(initial::earliest_finish(instance, level, Some(&mut *rng)));
        }
        for partition in &mut found {
            if self.stop.reason().is_some() {
                break;
            }
            refinement::refine(instance, level, partition);
        }
        found.sort();
        found.dedup();
        found
    }

    /// Refines a schedule along levels, coarsest first.
    fn descend(&self, climb: &mut Climb<'_, '_, '_>, levels: &[Level]) {
        let mut left = climb.left();
        for (at, level) in levels.iter().enumerate().rev() {
            if climb.is_over() {
                return;
            }
            let mut devices = level.devices(self.instance, &climb.at.schedule.device_of);
            let before = devices.clone();
            refinement::refine(self.instance, level, &mut devices);
            if devices != before {
                climb.offer(level.project(self.instance, &devices));
            }
            let share = if at == 0 { left } else { left / FOR_LEVEL };
            left -= share;
            climb.climb(level, share);
        }
    }

    /// The best result of the first coarsening.
    fn first(&self, evaluator: &mut Evaluator<'s, 'p>, until: u64, rng: &mut dyn Rng) -> Option<Best> {
        let levels = hierarchy(&self.finest, &self.limits, None, rng);
        let coarsest = levels.last()?;
        let mut tried: Vec<Best> = Vec::new();
        for partition in self.partitions(coarsest, rng) {
            if self.stop.reason().is_some() {
                break;
            }
            let nothing = Best { score: Score::WORST, schedule: Schedule::without_priority(Vec::new()) };
            let mut climb = Climb::new(evaluator, &self.stop, nothing, u64::MAX, self.target);
            climb.offer(coarsest.project(self.instance, &partition));
            tried.push(climb.at);
        }
        tried.sort_by(|a, b| a.score.energy().total_cmp(&b.score.energy()));
        tried.truncate(REFINED);
        let mut best: Option<Best> = None;
        for start in tried {
            let share = until.saturating_sub(evaluator.runs) / FOR_DESCENT;
            let mut climb = Climb::new(evaluator, &self.stop, start, evaluator.runs + share, self.target);
            self.descend(&mut climb, &levels);
            if best.as_ref().is_none_or(|best| climb.at.score < best.score) {
                best = Some(climb.at);
            }
        }
        best
    }

    /// Result of one V-cycle from a schedule, optionally after moving some clusters at random.
    fn cycle(
        &self,
        evaluator: &mut Evaluator<'s, 'p>,
        start: &Best,
        until: u64,
        is_kicked: bool,
        rng: &mut dyn Rng,
    ) -> Best {
        let levels = hierarchy(&self.finest, &self.limits, Some(&start.schedule.device_of), rng);
        let share = (until.saturating_sub(evaluator.runs) / FOR_DESCENT).max(1);
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
        climb.at
    }

    /// The devices that can run a cluster; at least one.
    fn capable(&self, level: &Level, cluster: ClusterId) -> Vec<DeviceId> {
        let problem = self.instance.problem();
        let can = |device: &DeviceId| level.seconds(cluster, problem.pool_of(*device)).is_finite();
        problem.cluster().devices().filter(can).collect()
    }
}

/// A first descent, then cycles until one of the limits. O(effort · log operators) in total.
fn cycles(search: &mut Search<'_, '_>, context: &mut Context<'_>) -> Result<(), SolveError> {
    let operators = search.instance.graph().operator_count() as u64;
    let levels = Cycles::new(search.instance, search.goal.target, search.goal.stop.clone());
    let until = search.evaluator.runs + (EFFORT / operators).clamp(SIMULATIONS[0], SIMULATIONS[1]);
    if let Some(first) = levels.first(&mut search.evaluator, until, &mut seed::stream(context.seed, 0)) {
        search.take(first, context);
    }
    let (mut cycle, mut idle) = (0, 0);
    while idle < PATIENCE && search.evaluator.runs < until && !search.is_over() {
        cycle += 1;
        idle += 1;
        let mut rng = seed::stream(context.seed, cycle);
        let is_kicked = !cycle.is_multiple_of(UNKICKED);
        let found = levels.cycle(&mut search.evaluator, &search.best, until, is_kicked, &mut rng);
        if search.take(found, context) {
            idle = 0;
        }
    }
    Ok(())
}
