//! The recurrence: every ideal that a chain of stages below the caps can reach, with the least bottleneck of
//! reaching it for each usage of devices.
//!
//! ```text
//! f(nothing used, ∅) = 0        f(u + r·e_c, I) = min over J ⊂ I of max(f(u, J), load_c(I \ J) / r + sync)
//! ```
//!
//! Ideals are expanded by number of units, so that an ideal is complete before it is expanded, and each once for
//! all its usages. A level is expanded in batches: the ideals of a batch in parallel, each by its own walk over its
//! supersets; then what they found goes into the table in the order of the ideals. Batches do not depend on the
//! number of threads, and what was found first wins a tie, so neither does the result. When a batch completes a
//! split, its value becomes the cap for what follows.
//!
//! A run that ends without being halted has looked at every split below its caps.

use rayon::prelude::*;
use stagewright_core::placement::StageAssignment;
use stagewright_core::problem::Problem;
use stagewright_core::solver::StopReason;
use stagewright_search::usage::UsageSpace;

use crate::allowance::{Allowance, Budget, Halt};
use crate::catalogue::Catalogue;
use crate::lattice::{Lattice, members};
use crate::scan::Scanner;
use crate::stage::{Arrival, Found, Rules, Source};
use crate::table::{New, Table, hash};
use crate::uplink::{Labels, Uplinks};
use crate::walk::Walker;
use crate::weight::Weights;
use crate::window::Windows;

/// States expanded between two merges: as many as look at about this many supersets, by the last batch.
const STEPS_PER_BATCH: u64 = 2_000_000;
const LARGEST_BATCH: usize = 4096;
const SMALLEST_BATCH: usize = 16;
/// States that one task expands, so that small states do not drown in scheduling.
const TASK: usize = 8;
/// Bytes of a batch between two looks at the allowance.
const BYTES_BETWEEN_CHECKS: u64 = 1 << 20;

/// Counts over all runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) ideals: u64,
    pub(crate) steps: u64,
    pub(crate) peak_bytes: u64,
}

/// The best split of a run, complete or not.
pub(crate) struct Run {
    pub(crate) best: Option<Vec<StageAssignment>>,
    pub(crate) halt: Option<Halt>,
}

/// What a task found: sets and arrivals in one array each.
#[derive(Default)]
struct Batch {
    sets: Vec<u64>,
    found: Vec<FoundSet>,
    arrivals: Vec<Arrival>,
    /// The label of each arrival, where uplinks count.
    labels: Labels,
    full: Option<Completed>,
    steps: u64,
    /// Bytes of the arrays that have been taken off the allowance.
    spent: u64,
    halt: Option<Halt>,
}

struct FoundSet {
    key: u64,
    arrivals_end: usize,
    pool: u16,
    replicas: u32,
}

/// A completed split: its value, and its last stage.
#[derive(Clone, Copy)]
struct Completed {
    value: f64,
    parent: u32,
    pool: u16,
    replicas: u32,
}

/// A recurrence over the ideals of one lattice.
#[derive(Clone, Copy)]
pub(crate) struct Recurrence<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) lattice: &'a Lattice,
    pub(crate) weights: &'a Weights,
    pub(crate) space: &'a UsageSpace,
    /// Every ideal, where they are few enough to be scanned.
    pub(crate) catalogue: Option<&'a Catalogue>,
    /// Uplinks, where their loads are to be below the caps as well.
    pub(crate) uplinks: Option<&'a Uplinks>,
}

impl<'a> Recurrence<'a> {
    /// A recurrence whose stages are found by walks, uplinks left out.
    pub(crate) fn new(
        problem: &'a Problem,
        lattice: &'a Lattice,
        weights: &'a Weights,
        space: &'a UsageSpace,
    ) -> Self {
        Recurrence { problem, lattice, weights, space, catalogue: None, uplinks: None }
    }

    /// Minimises the largest load of `pass` over the splits whose loads are all below the caps.
    pub(crate) fn minimise(
        &self,
        pass: usize,
        mut caps: [f64; 2],
        budget: Budget<'_>,
        counts: &mut Counts,
    ) -> Run {
        let Recurrence { problem, lattice, weights, space, catalogue, uplinks } = *self;
        if lattice.len == 0 {
            return Run { best: Some(lattice.all_weightless()), halt: None };
        }
        let mut windows = Windows::new(problem, weights, space, caps);
        let listed = catalogue.map(Catalogue::len);
        let mut table = Table::new(lattice.len, lattice.words, listed, uplinks.map(Uplinks::start));
        let mut best: Option<Completed> = None;
        let mut steps = 0;
        let mut halt = None;
        let mut batch = SMALLEST_BATCH;
        'levels: for size in 0..lattice.len {
            let mut next = 0;
            while next < table.level(size).len() {
                let allowance = Allowance::new(budget, steps, table.bytes());
                let rules = Rules {
                    lattice,
                    objective: problem.objective(),
                    pools: problem.pools(),
                    space,
                    windows: &windows,
                    caps,
                    pass,
                    uplinks,
                    allowance: &allowance,
                };
                let end = (next + batch).min(table.level(size).len());
                let tasks = expand_batch(&rules, catalogue, &table, &table.level(size)[next..end]);
                let steps_before = steps;
                steps += tasks.iter().map(|task| task.steps).sum::<u64>();
                let bytes = table.bytes() + tasks.iter().map(|task| task.bytes()).sum::<u64>();
                counts.peak_bytes = counts.peak_bytes.max(bytes);
                halt = halt_for(&table, &tasks, budget, steps, bytes);
                // Which tasks an allowance ended depends on the threads, unless there is one task.
                if tasks.len() > 1 && halt.is_some_and(|halt| !halt.by_clock()) {
                    break 'levels;
                }
                let value_before = best.map(|best| best.value);
                for task in tasks {
                    merge(&mut table, &task, lattice.words);
                    if let Some(full) = task.full
                        && best.is_none_or(|best| full.value < best.value)
                    {
                        best = Some(full);
                    }
                }
                if halt.is_some() {
                    break 'levels;
                }
                if let Some(best) = best.filter(|best| Some(best.value) != value_before) {
                    caps[pass] = caps[pass].min(best.value);
                    windows = Windows::new(problem, weights, space, caps);
                }
                next = end;
                batch = match steps - steps_before {
                    few if few < STEPS_PER_BATCH / 2 => (2 * batch).min(LARGEST_BATCH),
                    many if many > STEPS_PER_BATCH => (batch / 2).max(SMALLEST_BATCH),
                    _ => batch,
                };
            }
        }
        counts.steps += steps;
        counts.ideals += table.len() as u64;
        Run { best: best.map(|last| reconstruct(problem, lattice, &table, last)), halt }
    }
}

/// What ends a run after a batch: what halted a task, or what all tasks together exceed.
fn halt_for(table: &Table, tasks: &[Batch], budget: Budget<'_>, steps: u64, bytes: u64) -> Option<Halt> {
    let clock = tasks.iter().filter_map(|task| task.halt).next();
    let arrivals = tasks.iter().map(|task| task.arrivals.len()).sum();
    if budget.memory.is_some_and(|limit| bytes > limit) || !table.has_room_for(arrivals) {
        Some(Halt::Stop(StopReason::Memory))
    } else if budget.steps.is_some_and(|limit| steps > limit) {
        Some(Halt::Steps)
    } else {
        clock.or_else(|| budget.stop.reason().map(Halt::Stop))
    }
}

/// One of the two searches for stages.
enum Expander<'a> {
    Walk(Walker<'a>),
    Scan(Scanner<'a>),
}

impl<'a> Expander<'a> {
    fn new(rules: &'a Rules<'a>, catalogue: Option<&'a Catalogue>, table: &'a Table) -> Self {
        match catalogue {
            Some(catalogue) => Expander::Scan(Scanner::new(rules, catalogue, table)),
            None => Expander::Walk(Walker::new(rules)),
        }
    }

    fn steps(&self) -> u64 {
        match self {
            Expander::Walk(walker) => walker.steps(),
            Expander::Scan(scanner) => scanner.steps(),
        }
    }

    fn expand(
        &mut self,
        source: Source<'_>,
        emit: impl FnMut(Found<'_>) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        match self {
            Expander::Walk(walker) => walker.expand(source, emit),
            Expander::Scan(scanner) => scanner.expand(source, emit),
        }
    }
}

/// Expands some ideals in parallel; the tasks come back in the order of the ideals.
fn expand_batch(
    rules: &Rules<'_>,
    catalogue: Option<&Catalogue>,
    table: &Table,
    ideals: &[u32],
) -> Vec<Batch> {
    let work = |expander: &mut Expander<'_>, ideals: &[u32]| {
        let mut batch = Batch::default();
        let mut alive = Vec::new();
        let before = expander.steps();
        for &ideal in ideals {
            table.alive(ideal, rules.caps[rules.pass], rules.space, &mut alive);
            if alive.is_empty() {
                continue;
            }
            let source = Source { set: table.set(ideal), alive: &alive };
            let expanded = expander.expand(source, |found| batch.collect(rules, table, &found));
            if let Err(halt) = expanded {
                batch.halt = Some(halt);
                break;
            }
        }
        batch.steps = expander.steps() - before;
        batch
    };
    if ideals.len() <= TASK {
        return vec![work(&mut Expander::new(rules, catalogue, table), ideals)];
    }
    ideals.par_chunks(TASK).map_init(|| Expander::new(rules, catalogue, table), work).collect()
}

impl Batch {
    /// Bytes in use, spare capacity included.
    fn bytes(&self) -> u64 {
        let arrays = self.sets.capacity() * size_of::<u64>()
            + self.found.capacity() * size_of::<FoundSet>()
            + self.arrivals.capacity() * size_of::<Arrival>();
        arrays as u64 + self.labels.bytes()
    }

    /// Keeps what improves on the table as it was before the batch.
    fn collect(&mut self, rules: &Rules<'_>, table: &Table, found: &Found<'_>) -> Result<(), Halt> {
        let key = found.listed.map_or_else(|| hash(found.set), u64::from);
        let known = if found.full { None } else { table.find(found.set, key) };
        let count = self.arrivals.len();
        for &arrival in found.arrivals {
            match rules.uplinks {
                None => {
                    let value = known.and_then(|ideal| table.value(ideal, arrival.usage as usize));
                    if found.full {
                        self.complete(rules, found, arrival);
                    } else if value.is_none_or(|value| arrival.value < value) {
                        self.arrivals.push(arrival);
                    }
                }
                Some(uplinks) => self.collect_labelled(rules, uplinks, table, (found, known), arrival),
            }
        }
        if self.arrivals.len() > count {
            self.sets.extend_from_slice(found.set);
            let arrivals_end = self.arrivals.len();
            self.found.push(FoundSet { key, arrivals_end, pool: found.pool, replicas: found.replicas });
        }
        match self.bytes() - self.spent {
            unspent if unspent >= BYTES_BETWEEN_CHECKS => {
                self.spent += unspent;
                rules.allowance.spend(0, unspent)
            }
            _ => Ok(()),
        }
    }

    /// Keeps an arrival with its label, if its uplinks stay below the caps.
    fn collect_labelled(
        &mut self,
        rules: &Rules<'_>,
        uplinks: &Uplinks,
        table: &Table,
        (found, known): (&Found<'_>, Option<u32>),
        arrival: Arrival,
    ) {
        let Some(label) = table.label(arrival.parent) else { return };
        let before = table.set(table.entry(arrival.parent).ideal);
        let labels = &mut self.labels;
        uplinks.extend(rules.lattice, label, (before, found.set), usize::from(found.pool), labels);
        let label = labels.get(labels.len() - 1);
        let passes = rules.lattice.passes;
        let below = (0..passes).all(|pass| label.load(pass, passes) < rules.caps[pass]);
        let value = arrival.value.max(label.load(rules.pass, passes));
        let known = known.is_some_and(|ideal| table.dominated(ideal, arrival.usage, value, label));
        if below && !known && !found.full {
            self.arrivals.push(Arrival { value, ..arrival });
            return;
        }
        labels.pop();
        if below && found.full {
            self.complete(rules, found, Arrival { value, ..arrival });
        }
    }

    /// Keeps a completed split, if it is the best.
    fn complete(&mut self, rules: &Rules<'_>, found: &Found<'_>, arrival: Arrival) {
        if arrival.value < self.full.map_or(rules.caps[rules.pass], |full| full.value) {
            let Found { pool, replicas, .. } = *found;
            self.full = Some(Completed { value: arrival.value, parent: arrival.parent, pool, replicas });
        }
    }
}

fn merge(table: &mut Table, task: &Batch, words: usize) {
    let mut from = 0;
    for (set, found) in task.sets.chunks_exact(words).zip(&task.found) {
        let ideal = table.ideal(set, found.key);
        for at in from..found.arrivals_end {
            let Arrival { usage, parent, value } = task.arrivals[at];
            let new = New { usage, value, parent, pool: found.pool, replicas: found.replicas };
            if task.labels.len() == 0 {
                table.improve(ideal, new);
            } else {
                table.improve_labelled(ideal, new, task.labels.get(at));
            }
        }
        from = found.arrivals_end;
    }
}

/// The stages of a completed split, with the units that the lattice leaves out put where they cost nothing.
fn reconstruct(problem: &Problem, lattice: &Lattice, table: &Table, last: Completed) -> Vec<StageAssignment> {
    let mut stages = Vec::new();
    let mut after: Vec<u64> = vec![0; lattice.words];
    for at in 0..lattice.len {
        after[at / 64] |= 1 << (at % 64);
    }
    let Completed { mut parent, mut pool, mut replicas, .. } = last;
    loop {
        let entry = table.entry(parent);
        let before = table.set(entry.ideal);
        let difference: Vec<u64> = after.iter().zip(before).map(|(after, before)| after & !before).collect();
        stages.push(StageAssignment {
            pool: usize::from(pool),
            replicas,
            units: members(&difference).map(|at| lattice.unit_at[at]).collect(),
        });
        if before.iter().all(|&word| word == 0) {
            break;
        }
        after = before.to_vec();
        (parent, pool, replicas) = (entry.parent, entry.pool, entry.replicas);
    }
    // Stages were peeled from the end where the lattice is reversed.
    if !problem.objective().memory_depends_on_stage() {
        stages.reverse();
    }
    lattice.place_weightless(&mut stages);
    stages
}
