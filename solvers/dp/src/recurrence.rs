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
use stagewright_core::solver::{Stop, StopReason};
use stagewright_search::usage::UsageSpace;

use crate::catalogue::Catalogue;
use crate::lattice::{Lattice, members};
use crate::scan::Scanner;
use crate::stage::{Arrival, Found, Rules, Source};
use crate::table::{Table, hash};
use crate::walk::Walker;
use crate::window::Windows;

/// States expanded between two merges: as many as look at about this many supersets, by the last batch.
const STEPS_PER_BATCH: u64 = 2_000_000;
const LARGEST_BATCH: usize = 4096;
const SMALLEST_BATCH: usize = 16;
/// States that one task expands, so that small states do not drown in scheduling.
const TASK: usize = 8;

/// What a run may use.
#[derive(Clone, Copy)]
pub(crate) struct Budget<'a> {
    pub(crate) stop: &'a Stop,
    /// Bytes of tables.
    pub(crate) memory: Option<u64>,
    /// Supersets looked at.
    pub(crate) steps: Option<u64>,
}

/// Why a run ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    /// A limit of the solve.
    Stop(StopReason),
    /// The run's own budget of steps.
    Steps,
}

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
    full: Option<Completed>,
    steps: u64,
    halted: bool,
}

struct FoundSet {
    hash: u64,
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

/// Minimises the largest load of `pass` over the splits whose loads are all below the caps.
pub(crate) fn minimise(
    problem: &Problem,
    lattice: &Lattice,
    catalogue: Option<&Catalogue>,
    space: &UsageSpace,
    pass: usize,
    caps: [f64; 2],
    budget: Budget<'_>,
    counts: &mut Counts,
) -> Run {
    let mut windows = Windows::new(problem, lattice, space, caps);
    let mut caps = caps;
    let mut table = Table::new(lattice.len, lattice.words);
    let mut best: Option<Completed> = None;
    let mut steps = 0;
    let mut halt = None;
    let mut batch = SMALLEST_BATCH;
    'levels: for size in 0..lattice.len {
        let mut next = 0;
        while next < table.level(size).len() {
            let rules = Rules {
                lattice,
                objective: problem.objective(),
                pools: problem.pools(),
                space,
                windows: &windows,
                caps,
                pass,
                stop: budget.stop,
            };
            let end = (next + batch).min(table.level(size).len());
            let (steps_before, value_before) = (steps, best.map(|best| best.value));
            for task in expand_batch(&rules, catalogue, &table, &table.level(size)[next..end]) {
                steps += task.steps;
                if task.halted {
                    halt = Some(Halt::Stop(budget.stop.reason().unwrap_or(StopReason::Interrupted)));
                }
                merge(&mut table, &task, lattice.words);
                if let Some(full) = task.full
                    && best.is_none_or(|best| full.value < best.value)
                {
                    best = Some(full);
                }
            }
            counts.peak_bytes = counts.peak_bytes.max(table.bytes());
            halt = halt.or_else(|| halt_for(budget, table.bytes(), steps));
            if halt.is_some() {
                break 'levels;
            }
            if let Some(best) = best.filter(|best| Some(best.value) != value_before) {
                caps[pass] = caps[pass].min(best.value);
                windows = Windows::new(problem, lattice, space, caps);
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

fn halt_for(budget: Budget<'_>, bytes: u64, steps: u64) -> Option<Halt> {
    if let Some(reason) = budget.stop.reason() {
        Some(Halt::Stop(reason))
    } else if budget.memory.is_some_and(|limit| bytes > limit) {
        Some(Halt::Stop(StopReason::Memory))
    } else if budget.steps.is_some_and(|limit| steps > limit) {
        Some(Halt::Steps)
    } else {
        None
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

    fn expand(&mut self, source: Source<'_>, emit: impl FnMut(Found<'_>)) -> bool {
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
            batch.halted = !expander.expand(source, |found| collect(rules, table, &mut batch, &found));
            if batch.halted {
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

/// Keeps what improves on the table as it was before the batch.
fn collect(rules: &Rules<'_>, table: &Table, batch: &mut Batch, found: &Found<'_>) {
    let cap = rules.caps[rules.pass];
    if found.full {
        for arrival in found.arrivals {
            if arrival.value < batch.full.map_or(cap, |full| full.value) {
                let Found { pool, replicas, .. } = *found;
                batch.full = Some(Completed { value: arrival.value, parent: arrival.parent, pool, replicas });
            }
        }
        return;
    }
    let hash = hash(found.set);
    let known = table.find(found.set, hash);
    let count = batch.arrivals.len();
    batch.arrivals.extend(found.arrivals.iter().filter(|arrival| {
        let value = known.and_then(|ideal| table.value(ideal, arrival.usage as usize));
        value.is_none_or(|value| arrival.value < value)
    }));
    if batch.arrivals.len() > count {
        batch.sets.extend_from_slice(found.set);
        batch.found.push(FoundSet {
            hash,
            arrivals_end: batch.arrivals.len(),
            pool: found.pool,
            replicas: found.replicas,
        });
    }
}

fn merge(table: &mut Table, task: &Batch, words: usize) {
    let mut from = 0;
    for (set, found) in task.sets.chunks_exact(words).zip(&task.found) {
        let ideal = table.ideal(set, found.hash);
        for arrival in &task.arrivals[from..found.arrivals_end] {
            table.improve(ideal, arrival.usage, arrival.value, arrival.parent, found.pool, found.replicas);
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
