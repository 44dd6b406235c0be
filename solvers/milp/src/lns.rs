//! Large-neighbourhood search: the cut-net model re-optimises a few devices at a time.
//!
//! A neighbourhood is a pair or a triple of devices and at most [`MAX_FREE`] of their units; all other units are fixed.
//! Moving units among some devices does not change the loads of other devices: a net with pins on another device has
//! pins there, and pins elsewhere, before and after the move. Only uplinks may change, and plans that overload them are
//! rejected. Therefore the objective is the largest load of the chosen devices, disjoint neighbourhoods are solved in
//! parallel, and a plan is better if its loads, in descending order, are lexicographically smaller.
//!
//! The next shape of neighbourhood is drawn by recent success. Runs end at a node limit rather than a time limit, so
//! that the plan does not depend on the number of threads.

use rand::{Rng, RngExt};
use rayon::ThreadPool;
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use stagewright_core::bound::LowerBound;
use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{NetId, UnitId, Units};
use stagewright_core::document::ObjectiveKind;
use stagewright_core::evaluate::Evaluation;
use stagewright_core::ids::Keyed;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Capabilities, Context, Event, Plan, Result, Solution, Solver, Status, Stop};
use stagewright_search::local::{Polisher, placement};

use crate::adaptive::Adaptive;
use crate::calls;
use crate::cutnet::model::{CutNetModel, Domains, Minimise, Range, devices_of_units, domains};
use crate::first::{First, first_bound, first_plan};
use crate::milp::unsupported;
use crate::run::{RunEffort, solve};
use crate::search::MAX_ENTRIES;

/// Share of the time for the first plan.
const SEARCH_SHARE: f64 = 0.2;
/// Maximum number of pairs of a unit and a device, all of which are listed.
const MAX_PLACES: usize = 1 << 25;
/// Maximum number of units of a neighbourhood.
const MAX_FREE: usize = 90;
/// Node limit of one neighbourhood, and the gap at which it ends.
const NODES: u32 = 300;
const GAP: f64 = 1e-4;
/// Number of neighbourhoods solved in parallel, if that many are disjoint.
const BATCH: usize = 4;
/// Number of batches without a better plan before a walk of local search, number of moves of a walk per unit and at
/// most, and number of consecutive walks that end the search.
const PATIENCE: u32 = 8;
const WALK_PER_UNIT: u64 = 2_000;
const LONGEST_WALK: u64 = 200_000;
const MAX_WALKS: u32 = 12;
/// Large-neighbourhood search.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lns;

impl Solver for Lns {
    fn name(&self) -> &'static str {
        "lns"
    }

    fn summary(&self) -> &'static str {
        "large-neighbourhood search over the integer programs (free and convex throughput, latency; upper bound)"
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        unsupported(objective)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { starts_from_plan: true, depends_on_seed: true, ..Capabilities::default() }
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
        if problem.objective().kind() == ObjectiveKind::Latency {
            return calls::lns::solve(self.name(), problem, context);
        }
        let bound = first_bound(problem, context);
        let without =
            |status, stop, why| Solution::without_plan(self.name(), status, bound.clone(), stop, why);
        let plan = match first_plan(problem, &mut context.time_slice(SEARCH_SHARE))? {
            First::Impossible(why) => return Ok(without(Status::Infeasible, None, why)),
            First::Plan(None) => {
                let stop = context.stop().reason();
                return Ok(without(Status::Unknown, stop, "no initial plan was found".into()));
            }
            First::Plan(Some(plan)) => plan,
        };
        let (plan, neighbourhoods) = improve(problem, plan, &bound, context)?;
        let stop = context.end(plan.value(), bound.value);
        let mut solution = Solution::with_plan(self.name(), plan, bound, stop);
        if solution.status == Status::Feasible && places(problem, &Units::of(problem)) > MAX_PLACES {
            solution.reason =
                Some(format!("neighbourhoods are tried up to {MAX_PLACES} pairs of a unit and a device"));
        }
        Ok(Solution { statistics: vec![("neighbourhoods", neighbourhoods)], ..solution })
    }
}

/// Number of pairs of a unit and a device.
fn places(problem: &Problem, units: &Units) -> usize {
    units.len().saturating_mul(problem.cluster().device_count())
}

/// Improves a plan until the time is up, the gap is small enough, or several walks and batches in a row have found
/// nothing. Also returns the number of neighbourhoods solved.
///
/// # Errors
/// If threads cannot be started.
pub(crate) fn improve(
    problem: &Problem,
    plan: Plan,
    bound: &LowerBound,
    context: &mut Context<'_>,
) -> Result<(Plan, u64)> {
    let units = Units::of(problem);
    if places(problem, &units) > MAX_PLACES || context.stop().reason().is_some() {
        return Ok((plan, 0));
    }
    let Some(domains) = domains(problem, &units) else { return Ok((plan, 0)) };
    let pool = context.pool()?;
    context.emit(Event::Phase { name: "large neighbourhoods".into() });
    let polisher = Polisher::new(problem, &units);
    let device_of = devices_of_units(&units, &plan.placement);
    let mut search = Search {
        problem,
        units: &units,
        domains: &domains,
        device_of,
        loads: sorted_loads(&plan.evaluation),
        best: plan,
        scores: Adaptive::new(),
        solved: 0,
    };
    let mut rng = seed::stream(context.seed(), LNS_STREAM);
    let walk = LONGEST_WALK.min(WALK_PER_UNIT * units.len() as u64);
    let (mut idle, mut walks, mut walked) = (0, 0, 0);
    while walks < MAX_WALKS && !search.is_done(bound, context) {
        if search.step(&mut rng, &pool, context) {
            (idle, walks) = (0, 0);
            continue;
        }
        idle += 1;
        if idle < PATIENCE {
            continue;
        }
        (idle, walks, walked) = (0, walks + 1, walked + 1);
        let stream = (context.seed(), LNS_STREAM + walked);
        let stop = context.stop().clone();
        let found = polisher
            .as_ref()
            .and_then(|polisher| polisher.polish(&search.best.placement, stream, walk, &stop));
        if let Some(found) = found
            && search.keep(found, context)
        {
            walks = 0;
        }
    }
    Ok((search.best, search.solved))
}

/// First task number of the random streams.
const LNS_STREAM: u64 = 1 << 32;

/// Shape of a neighbourhood.
#[derive(Debug, Clone, Copy)]
struct Shape {
    devices: usize,
    /// Whether the first device of a batch is the device with the largest load.
    bottleneck: bool,
}

const SHAPES: [Shape; 4] = [
    Shape { devices: 2, bottleneck: true },
    Shape { devices: 3, bottleneck: true },
    Shape { devices: 2, bottleneck: false },
    Shape { devices: 3, bottleneck: false },
];

struct Search<'a> {
    problem: &'a Problem,
    units: &'a Units,
    domains: &'a Domains,
    device_of: Keyed<UnitId, DeviceId>,
    /// Loads of the devices, largest first.
    loads: Vec<f64>,
    best: Plan,
    scores: Adaptive<{ SHAPES.len() }>,
    solved: u64,
}

impl Search<'_> {
    fn is_done(&self, bound: &LowerBound, context: &Context<'_>) -> bool {
        context.stop().reason().is_some() || context.is_enough(self.best.value(), bound.value)
    }

    /// Solves a batch of neighbourhoods; returns whether any improved the plan.
    fn step(&mut self, rng: &mut impl Rng, pool: &ThreadPool, context: &mut Context<'_>) -> bool {
        let shape = self.scores.draw(rng);
        let batch: Vec<Neighbourhood> =
            self.batch(SHAPES[shape], rng).into_iter().map(|devices| self.around(&devices, rng)).collect();
        let stop = context.stop().clone();
        let seed = rng.random_range(0..1 << 31);
        let found: Vec<Option<Keyed<UnitId, DeviceId>>> = pool.install(|| {
            batch.par_iter().map(|neighbourhood| self.plan_anew(neighbourhood, seed, &stop)).collect()
        });
        self.solved += batch.len() as u64;
        let mut improved = false;
        for (neighbourhood, found) in batch.iter().zip(found) {
            let Some(found) = found else { continue };
            let mut device_of = self.device_of.clone();
            for &unit in &neighbourhood.free {
                device_of[unit] = found[unit];
            }
            let placement = placement(self.problem, self.units, &device_of);
            if let Ok(plan) = Plan::new(self.problem, placement) {
                improved |= self.keep(plan, context);
            }
        }
        self.scores.learn(shape, improved);
        improved
    }

    /// Draws disjoint sets of devices, each for one neighbourhood.
    fn batch(&self, shape: Shape, rng: &mut impl Rng) -> Vec<Vec<DeviceId>> {
        let mut devices: Vec<DeviceId> = self.problem.cluster().devices().collect();
        for index in (1..devices.len()).rev() {
            devices.swap(index, rng.random_range(0..=index));
        }
        if shape.bottleneck {
            let loads = &self.best.evaluation.devices;
            let largest = loads.iter().max_by(|a, b| a.load().total_cmp(&b.load()));
            let bottleneck = largest.map(|load| load.device);
            devices.sort_by_key(|&device| Some(device) != bottleneck);
        }
        let size = shape.devices.min(devices.len());
        devices.chunks_exact(size.max(1)).take(BATCH).map(<[DeviceId]>::to_vec).collect()
    }

    /// The neighbourhood of some devices: all their movable units if these are few, otherwise the units nearest to a
    /// random unit next to a cut.
    fn around(&self, devices: &[DeviceId], rng: &mut impl Rng) -> Neighbourhood {
        let is_here = |unit: UnitId| devices.contains(&self.device_of[unit]);
        let movable = |unit: UnitId| {
            let domain = &self.domains[unit];
            devices.iter().filter(|&device| domain.contains(device)).count() > 1
        };
        let mut free: Vec<UnitId> = self.units.ids().filter(|&unit| is_here(unit) && movable(unit)).collect();
        if free.len() > MAX_FREE {
            // By net: the first of these devices that the net is on, and the first other device. A net of many pins is
            // visited once.
            let mut devices_of: FxHashMap<NetId, [Option<DeviceId>; 2]> = FxHashMap::default();
            let mut two_devices = |net: NetId| {
                *devices_of.entry(net).or_insert_with(|| {
                    let pins = self.units.pins(net).iter().copied();
                    let mut here = pins.filter(|&pin| is_here(pin)).map(|pin| self.device_of[pin]);
                    let first = here.next();
                    [first, here.find(|&device| Some(device) != first)]
                })
            };
            let mut next_to_cut = |unit: &UnitId| {
                let own = self.device_of[*unit];
                let mut nets = self.units.nets_of(*unit).iter();
                nets.any(|&net| two_devices(net).into_iter().flatten().any(|device| device != own))
            };
            let mut cut = free.clone();
            cut.retain(|unit| next_to_cut(unit));
            let roots = if cut.is_empty() { &free } else { &cut };
            free = self.nearest(roots[rng.random_range(0..roots.len())], &free);
        }
        Neighbourhood { devices: devices.to_vec(), free }
    }

    /// Candidates nearest to a root along nets, breadth first.
    fn nearest(&self, root: UnitId, candidates: &[UnitId]) -> Vec<UnitId> {
        let candidates: FxHashSet<UnitId> = candidates.iter().copied().collect();
        let mut seen: FxHashSet<UnitId> = [root].into_iter().collect();
        let mut seen_nets: FxHashSet<NetId> = FxHashSet::default();
        let mut queue = vec![root];
        let mut next = 0;
        while next < queue.len() && queue.len() < MAX_FREE {
            for &net in self.units.nets_of(queue[next]) {
                if !seen_nets.insert(net) {
                    continue;
                }
                for &pin in self.units.pins(net) {
                    if candidates.contains(&pin) && seen.insert(pin) {
                        queue.push(pin);
                    }
                }
            }
            next += 1;
        }
        queue.truncate(MAX_FREE);
        queue.sort_unstable();
        queue
    }

    /// Solves a neighbourhood; returns a device for every unit if a solution was found.
    fn plan_anew(
        &self,
        neighbourhood: &Neighbourhood,
        seed: u64,
        stop: &Stop,
    ) -> Option<Keyed<UnitId, DeviceId>> {
        let mut domains: Domains = self.device_of.iter().map(|&device| vec![device]).collect();
        for &unit in &neighbourhood.free {
            let allowed = &self.domains[unit];
            domains[unit] =
                neighbourhood.devices.iter().copied().filter(|device| allowed.contains(device)).collect();
        }
        if CutNetModel::size(self.problem, self.units, &domains) > MAX_ENTRIES {
            return None;
        }
        let loads = self.best.evaluation.devices.iter();
        let chosen = loads.filter(|load| neighbourhood.devices.contains(&load.device));
        let high = chosen.map(|load| load.load()).fold(0.0, f64::max);
        let uplinks = self.best.evaluation.uplinks.iter().map(|uplink| uplink[0] + uplink[1]);
        let range = Range { low: 0.0, high: uplinks.fold(high, f64::max) };
        let model =
            CutNetModel::new(self.problem, self.units, &domains, &[], range, Minimise::Changing, stop)?;
        let effort = RunEffort { time: None, nodes: Some(NODES), gap: GAP, seed };
        let start = model.start(&self.device_of);
        // A failed run counts as a neighbourhood without a better plan.
        solve(model, Some(start), effort, stop).ok()?.chosen.map(Keyed::from)
    }

    /// Keeps a plan if its loads are smaller; returns whether they are.
    fn keep(&mut self, plan: Plan, context: &mut Context<'_>) -> bool {
        let loads = sorted_loads(&plan.evaluation);
        if plan.value() > self.best.value() || !is_smaller(&loads, &self.loads) {
            return false;
        }
        if plan.value() < self.best.value() {
            context.emit(Event::Incumbent { value: plan.value() });
        }
        self.device_of = devices_of_units(self.units, &plan.placement);
        self.loads = loads;
        self.best = plan;
        true
    }
}

/// Devices, and their units that are re-optimised.
struct Neighbourhood {
    devices: Vec<DeviceId>,
    free: Vec<UnitId>,
}

fn sorted_loads(evaluation: &Evaluation) -> Vec<f64> {
    let mut loads: Vec<f64> = evaluation.devices.iter().map(|device| device.load()).collect();
    loads.sort_by(|a, b| b.total_cmp(a));
    loads
}

/// Whether loads are lexicographically smaller, up to rounding.
fn is_smaller(loads: &[f64], than: &[f64]) -> bool {
    let scale = than.first().copied().unwrap_or(0.0);
    for (load, than) in loads.iter().zip(than) {
        if (load - than).abs() > 1e-7 * scale {
            return load < than;
        }
    }
    false
}
