//! The dynamic program over labels.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use stagewright_core::bits;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::Schedule;
use stagewright_core::id;
use stagewright_core::ids::Keyed;
use stagewright_core::placement::{Placement, StageAssignment};
use stagewright_core::problem::Problem;
use stagewright_core::schedule::{StageTimes, iteration};
use stagewright_core::solver::{Context, Plan, StopReason};
use stagewright_core::tolerance;

use super::label::{Label, Rest, Rule, dominates};
use super::poset::{Poset, Position};
use super::stage::{Stage, Times};
use crate::usage::UsageSpace;

id! {
    /// Index of a set.
    SetId;
    /// Index of an entry.
    EntryId;
}

/// Steps between clock checks.
const STEPS_BETWEEN_CHECKS: u64 = 1024;
/// Labels may take 1/`SHARE` of the memory limit, and at most `MAX_BYTES`.
const SHARE: u64 = 4;
const MAX_BYTES: u64 = 2 << 30;
/// No entry.
const NONE: EntryId = EntryId(u32::MAX);
/// The set of a complete pipeline, which is not numbered.
const WHOLE: SetId = SetId(u32::MAX);

/// Which splits a search covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchMode {
    /// Splits from labels that no other label of the same state dominates.
    Labels,
    /// Every split whose bound is below the best value.
    Enumerate,
}

/// Result of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// Reason for an early stop; `None` if the search finished.
    pub stop: Option<StopReason>,
    /// If the search finished, a lower bound on the value of every split of the poset, up to rounding; infinite if
    /// there is no split.
    pub bound: f64,
    /// Number of sets visited.
    pub steps: u64,
}

/// A search for stages over the sets of a poset.
pub struct Search<'a> {
    problem: &'a Problem,
    units: &'a Units,
    space: &'a UsageSpace,
    times: Times,
}

impl<'a> Search<'a> {
    /// A search over the given usages of devices.
    pub fn new(problem: &'a Problem, units: &'a Units, space: &'a UsageSpace) -> Search<'a> {
        Search { problem, units, space, times: Times::new(problem, units) }
    }

    /// Looks for splits better than the best plan, which it replaces. Under zero-bubble it runs once for every number
    /// of stages, since that determines the activations in flight. Ends when the context requires it; otherwise the
    /// result depends only on the poset and the plan.
    pub fn run(
        &self,
        poset: &Poset,
        mode: SearchMode,
        best: &mut Option<Plan>,
        context: &mut Context<'_>,
    ) -> Found {
        let objective = self.problem.objective();
        let max_devices = (0..self.units.pools()).map(|pool| self.space.limit(pool)).sum::<u32>();
        let counts = match objective.rules().schedule {
            Schedule::ZeroBubble => (1..=max_devices).take(self.units.len()).map(Some).collect(),
            _ => vec![None],
        };
        let mut found = Found { stop: None, bound: f64::INFINITY, steps: 0 };
        for stages in counts {
            let rule = Rule {
                schedule: objective.rules().schedule,
                microbatches: objective.rules().microbatches,
                stages: stages.unwrap_or(0),
            };
            let bytes = context.limits.memory.map_or(MAX_BYTES, |limit| (limit / SHARE).min(MAX_BYTES));
            let mut program = Program {
                search: self,
                poset,
                rule,
                stages,
                enumerate: mode == SearchMode::Enumerate,
                bytes,
                steps: 0,
                has_plan: false,
                is_cut_short: false,
                sets: Keyed::default(),
                rests: Keyed::default(),
                numbers: FxHashMap::default(),
                levels: vec![Vec::new(); poset.len() + 1],
                labels: Keyed::default(),
                entries: Keyed::default(),
                bound: f64::INFINITY,
                best,
            };
            let stop = program.run(context);
            found.bound = found.bound.min(program.bound);
            found.steps += program.steps;
            if stop.is_some() {
                found.stop = stop;
                break;
            }
        }
        // A split that was pruned was not below the best value at the time, and so is not below the final value either.
        let value = best.as_ref().map_or(f64::INFINITY, Plan::value);
        found.bound = found.bound.min(value);
        found
    }
}

/// A label of a state, and the stage that was added last.
struct Entry {
    label: Label,
    times: StageTimes,
    parent: EntryId,
    /// The set of the state.
    set: SetId,
    pool: u16,
    replicas: u32,
}

/// A usage, and the entries with this usage that another stage may extend.
type Way = (usize, Vec<EntryId>);

/// The work that remains once the units of a set are placed.
#[derive(Clone, Copy)]
struct Left {
    rest: Rest,
    work: f64,
}

struct Program<'s, 'a> {
    search: &'s Search<'a>,
    poset: &'s Poset,
    rule: Rule,
    /// Required number of stages, if given.
    stages: Option<u32>,
    enumerate: bool,
    bytes: u64,
    steps: u64,
    /// Whether a split was evaluated since the last check of the clock; an evaluation may take as long as many steps.
    has_plan: bool,
    /// Whether splits below the value to beat were left out for lack of time, so that nothing is proved.
    is_cut_short: bool,
    /// Positions taken by each set, as bits.
    sets: Keyed<SetId, Box<[u64]>>,
    rests: Keyed<SetId, Left>,
    numbers: FxHashMap<Box<[u64]>, SetId>,
    /// Sets by number of units.
    levels: Vec<Vec<SetId>>,
    /// Entries per set and usage.
    labels: Keyed<SetId, BTreeMap<u32, Vec<EntryId>>>,
    entries: Keyed<EntryId, Entry>,
    /// Minimum value over the labels of complete pipelines.
    bound: f64,
    best: &'s mut Option<Plan>,
}

/// A level of the depth-first walk over the supersets of a set: the positions that may come next, the index of the next
/// one to try, and the work that remains once the units of the level's set are placed.
struct WalkLevel {
    ready: Vec<Position>,
    next: usize,
    left: Left,
}

/// The depth-first walk over the supersets of a set; the units that a superset adds form a stage.
struct Walk<'w, 'a> {
    poset: &'w Poset,
    stage: &'w mut Stage<'a>,
    /// Positions taken, as bits.
    taken: Vec<u64>,
    /// Number of positions that each position still waits for.
    waits: Keyed<Position, u32>,
    path: Vec<WalkLevel>,
}

impl<'w, 'a> Walk<'w, 'a> {
    fn new(poset: &'w Poset, stage: &'w mut Stage<'a>, set: &[u64], left: Left) -> Walk<'w, 'a> {
        let mut waits = poset.waits_for.clone();
        for index in bits::members(set) {
            for &freed in &poset.frees[Position::new(index)] {
                waits[freed] -= 1;
            }
        }
        let ready = waits
            .ids()
            .filter(|&position| waits[position] == 0 && !bits::contains(set, position.index()))
            .collect();
        let path = vec![WalkLevel { ready, next: 0, left }];
        Walk { poset, stage, taken: set.to_vec(), waits, path }
    }

    /// The next position to add to the stage, after leaving exhausted levels; `None` at the end.
    fn advance(&mut self) -> Option<Position> {
        loop {
            let step = self.path.last_mut()?;
            if let Some(&position) = step.ready.get(step.next) {
                step.next += 1;
                return Some(position);
            }
            self.path.pop();
            // The unit that led here leaves the stage.
            if let Some(step) = self.path.last() {
                self.leave(step.ready[step.next - 1]);
            }
        }
    }

    /// Adds a position to the stage. Returns the positions that may come next.
    fn enter(&mut self, position: Position) -> Vec<Position> {
        self.stage.add(self.poset.unit_at[position]);
        bits::insert(&mut self.taken, position.index());
        let step = &self.path[self.path.len() - 1];
        let mut ready = step.ready[step.next..].to_vec();
        for &freed in &self.poset.frees[position] {
            self.waits[freed] -= 1;
            if self.waits[freed] == 0 {
                let place = ready.partition_point(|&other| other < freed);
                ready.insert(place, freed);
            }
        }
        ready
    }

    /// Removes a position from the stage.
    fn leave(&mut self, position: Position) {
        self.stage.undo();
        bits::remove(&mut self.taken, position.index());
        for &freed in &self.poset.frees[position] {
            self.waits[freed] += 1;
        }
    }

    /// Empties the stage.
    fn clear(&mut self) {
        self.path.pop();
        while let Some(step) = self.path.pop() {
            self.leave(step.ready[step.next - 1]);
        }
    }
}

impl Program<'_, '_> {
    fn run(&mut self, context: &mut Context<'_>) -> Option<StopReason> {
        let words = self.poset.len().div_ceil(64);
        let left = self.left_by(&vec![0; words]);
        let nothing = self.number(vec![0; words].into(), 0, left);
        self.entries.push(Entry {
            label: Rule::NOTHING,
            times: StageTimes::default(),
            parent: NONE,
            set: nothing,
            pool: 0,
            replicas: 0,
        });
        self.labels[nothing].insert(0, vec![EntryId(0)]);
        let search = self.search;
        let mut stages: Vec<Stage<'_>> = Vec::new();
        for pool in 0..search.units.pools() {
            if let Some(stop) = context.stop().reason() {
                return Some(stop);
            }
            stages.push(Stage::new(search.problem, search.units, &search.times, pool));
        }
        for level in 0..self.poset.len() {
            let sets = std::mem::take(&mut self.levels[level]);
            for set in sets {
                let labels = std::mem::take(&mut self.labels[set]);
                for (pool, stage) in stages.iter_mut().enumerate() {
                    if let Some(stop) = self.expand(set, level, &labels, pool, stage, context) {
                        return Some(stop);
                    }
                }
            }
        }
        context.stop().reason().filter(|_| self.is_cut_short)
    }

    /// The value to beat.
    fn cap(&self) -> f64 {
        self.best.as_ref().map_or(f64::INFINITY, |plan| tolerance::round_down(plan.value()))
    }

    /// Adds every possible stage on a pool before a set.
    fn expand(
        &mut self,
        set: SetId,
        size: usize,
        labels: &BTreeMap<u32, Vec<EntryId>>,
        pool: usize,
        stage: &mut Stage<'_>,
        context: &mut Context<'_>,
    ) -> Option<StopReason> {
        let ways = self.ways(set, labels, pool);
        let max_replicas =
            ways.iter().map(|&(usage, _)| self.search.space.most_replicas(usage, pool)).max()?;
        let in_flight = ways.iter().map(|&(usage, _)| self.in_flight(usage)).min()?;
        let mut walk = Walk::new(self.poset, stage, &self.sets[set], self.rests[set]);
        while let Some(position) = walk.advance() {
            self.steps += 1;
            if let Some(stop) = self.has_to_stop(context) {
                walk.clear();
                return Some(stop);
            }
            let units = size + walk.path.len();
            let before = walk.path[walk.path.len() - 1].left;
            let left = self.without(before, self.poset.unit_at[position], units);
            let ready = walk.enter(position);
            if !walk.stage.supported()
                || !walk.stage.fits(in_flight)
                || !self.any_below_cap(&ways, left.rest, walk.stage, max_replicas)
            {
                walk.leave(position);
                continue;
            }
            if self.poset.is_state(units) {
                self.arrive(&ways, (&walk.taken, units, left), pool, walk.stage, context);
            }
            walk.path.push(WalkLevel { ready, next: 0, left });
        }
        None
    }

    /// The labels of a set that another stage on a pool may extend to a value below the cap, by usage.
    fn ways(&self, set: SetId, labels: &BTreeMap<u32, Vec<EntryId>>, pool: usize) -> Vec<Way> {
        let cap = self.cap();
        let left = self.rests[set].rest;
        let alive = |&entry: &EntryId| self.rule.value(self.entries[entry].label, left) < cap;
        labels
            .iter()
            .map(|(&usage, entries)| (usage as usize, entries))
            .filter(|&(usage, _)| self.search.space.most_replicas(usage, pool) > 0 && self.may_go_on(usage))
            .map(|(usage, entries)| (usage, entries.iter().copied().filter(alive).collect::<Vec<EntryId>>()))
            .filter(|(_, entries)| !entries.is_empty())
            .collect()
    }

    /// Checks the clock and the memory periodically, and the clock after every plan.
    fn has_to_stop(&mut self, context: &Context<'_>) -> Option<StopReason> {
        let is_due = self.steps.is_multiple_of(STEPS_BETWEEN_CHECKS);
        if !std::mem::take(&mut self.has_plan) && !is_due {
            return None;
        }
        let is_full = || (is_due && self.used() > self.bytes).then_some(StopReason::Memory);
        context.stop().reason().or_else(is_full)
    }

    /// Whether another stage may be added to a usage, given the required number of stages.
    fn may_go_on(&self, usage: usize) -> bool {
        self.stages.is_none_or(|stages| self.search.space.stages(usage) < stages)
    }

    fn in_flight(&self, usage: usize) -> u32 {
        let from_last = self.search.space.stages(usage) + 1;
        let stages = self.stages.unwrap_or(from_last);
        self.search.problem.objective().in_flight_of(from_last, stages)
    }

    /// Whether the compute of the stage alone leaves some label below the cap. If not, no larger stage does either: a
    /// unit takes at least as long on the stage as its minimum time in the rest.
    fn any_below_cap(&self, ways: &[Way], left: Rest, stage: &Stage<'_>, max_replicas: u32) -> bool {
        let (cap, least) = (self.cap(), stage.at_least(max_replicas));
        ways.iter().any(|(usage, entries)| {
            let behind = self.search.space.stages(*usage);
            entries.iter().any(|&entry| {
                let label = self.rule.extend(self.entries[entry].label, &least, behind);
                self.rule.value(label, left) * (1.0 - tolerance::OPTIMAL_RELATIVE) < cap
            })
        })
    }

    /// Extends the labels by a stage, for every number of replicas, and adds the new labels to the set that the stage
    /// leads to.
    fn arrive(
        &mut self,
        ways: &[Way],
        (taken, size, left): (&[u64], usize, Left),
        pool: usize,
        stage: &Stage<'_>,
        context: &mut Context<'_>,
    ) {
        let space = self.search.space;
        let is_whole = size == self.poset.len();
        let mut set = None;
        for (usage, entries) in ways {
            if !stage.fits(self.in_flight(*usage)) {
                continue;
            }
            for replicas in 1..=space.most_replicas(*usage, pool) {
                let times = stage.on(replicas);
                let after = space.after(*usage, pool, replicas);
                let behind = space.stages(*usage);
                if is_whole && self.stages.is_some_and(|stages| behind + 1 != stages) {
                    continue;
                }
                if !is_whole && !self.has_room(after, left) {
                    continue;
                }
                for &parent in entries {
                    let label = self.rule.extend(self.entries[parent].label, &times, behind);
                    let value = self.rule.value(label, left.rest);
                    if value >= self.cap() {
                        continue;
                    }
                    let last = Entry { label, times, parent, set: WHOLE, pool: pool as u16, replicas };
                    if is_whole {
                        if self.has_plan && context.stop().reason().is_some() {
                            self.is_cut_short = true;
                            return;
                        }
                        self.has_plan = true;
                        if !self.enumerate {
                            self.bound = self.bound.min(value);
                        }
                        self.complete(last, taken, context);
                    } else {
                        let number = match set {
                            Some(number) => number,
                            None => self.number(taken.into(), size, left),
                        };
                        set = Some(number);
                        self.keep(Entry { set: number, ..last }, after as u32);
                    }
                }
            }
        }
    }

    /// Whether the remaining devices can run the remaining work below the value to beat, and another stage is still
    /// allowed.
    fn has_room(&self, usage: usize, left: Left) -> bool {
        let space = self.search.space;
        let devices: u32 = (0..self.search.units.pools()).map(|pool| space.left(usage, pool)).sum();
        if self.stages.is_some_and(|stages| space.stages(usage) >= stages) {
            return false;
        }
        let busy = f64::from(self.rule.microbatches) * left.work * (1.0 - tolerance::OPTIMAL_RELATIVE);
        devices > 0 && busy < f64::from(devices) * self.cap()
    }

    fn keep(&mut self, entry: Entry, usage: u32) {
        let Program { labels, entries, enumerate, .. } = self;
        let known = labels[entry.set].entry(usage).or_default();
        if !*enumerate {
            if known.iter().any(|&other| dominates(&entries[other].label, &entry.label)) {
                return;
            }
            known.retain(|&other| !dominates(&entry.label, &entries[other].label));
        }
        known.push(entries.push(entry));
    }

    /// Scores a complete pipeline by its iteration, and keeps it as a plan if it beats the best.
    fn complete(&mut self, last: Entry, taken: &[u64], context: &mut Context<'_>) {
        let mut times = vec![last.times];
        let mut entry = last.parent;
        while self.entries[entry].parent != NONE {
            times.push(self.entries[entry].times);
            entry = self.entries[entry].parent;
        }
        if iteration(self.rule.schedule, &times, self.rule.microbatches) >= self.cap() {
            return;
        }
        let (problem, units) = (self.search.problem, self.search.units);
        let mut stages = Vec::with_capacity(times.len());
        let (mut whole, mut entry) = (taken.to_vec(), &last);
        loop {
            if entry.parent == NONE {
                break;
            }
            let before = &self.entries[entry.parent];
            let inner = &self.sets[before.set];
            let own: Vec<u64> = whole.iter().zip(inner.iter()).map(|(all, inner)| all & !inner).collect();
            let units = bits::members(&own).map(|index| self.poset.unit_at[Position::new(index)]).collect();
            stages.push(StageAssignment { pool: usize::from(entry.pool), replicas: entry.replicas, units });
            whole = inner.to_vec();
            entry = before;
        }
        // Labels ignore uplinks, so the plan may be worse than its labels.
        let plan = Plan::try_new(problem, Placement::from_stages(problem, units, &stages));
        context.keep(self.best, plan.ok());
    }

    /// Returns the index of a set, adding the set if it is new.
    fn number(&mut self, taken: Box<[u64]>, size: usize, left: Left) -> SetId {
        if let Some(&number) = self.numbers.get(&taken) {
            return number;
        }
        let number = self.sets.push(taken.clone());
        self.numbers.insert(taken, number);
        self.rests.push(left);
        self.labels.push(BTreeMap::new());
        self.levels[size].push(number);
        number
    }

    /// The work that remains once the units of a set are placed.
    fn left_by(&self, taken: &[u64]) -> Left {
        let mut left = Left { rest: Rest { forward: 0.0, passes: 0.0 }, work: 0.0 };
        for (position, &unit) in self.poset.unit_at.enumerate() {
            if !bits::contains(taken, position.index()) {
                let Times { least, work, .. } = &self.search.times;
                left.rest.forward += least[unit].forward;
                left.rest.passes += least[unit].passes;
                left.work += work[unit];
            }
        }
        left
    }

    /// The work that remains after one more unit is placed. Each difference is lowered by its possible rounding error.
    fn without(&self, left: Left, unit: UnitId, size: usize) -> Left {
        let nothing = Left { rest: Rest { forward: 0.0, passes: 0.0 }, work: 0.0 };
        if size == self.poset.len() {
            return nothing;
        }
        let Times { least, work, .. } = &self.search.times;
        let minus = |sum: f64, item: f64| (sum - item - sum * ROUNDING).max(0.0);
        Left {
            rest: Rest {
                forward: minus(left.rest.forward, least[unit].forward),
                passes: minus(left.rest.passes, least[unit].passes),
            },
            work: minus(left.work, work[unit]),
        }
    }

    /// Bytes of labels and sets.
    fn used(&self) -> u64 {
        let words = self.poset.len().div_ceil(64) as u64;
        let per_set = 2 * 8 * words + 128;
        (self.entries.len() * (size_of::<Entry>() + 8)) as u64 + self.sets.len() as u64 * per_set
    }
}

/// Upper bound on the rounding of one subtraction, relative to the minuend.
const ROUNDING: f64 = 4.0 * f64::EPSILON;
