//! The recurrence: all ideals that a chain of stages below the caps can reach, with the least bottleneck for each
//! usage of devices.
//!
//! ```text
//! f(nothing used, ∅) = 0        f(u + r·e_c, I) = min over J ⊂ I of max(f(u, J), load_c(I \ J) / r + sync)
//! ```
//!
//! Ideals are expanded in ascending order of their number of units, so that an ideal has all its entries before it is
//! expanded, once for all its usages. A level is expanded in batches. Each ideal of a batch is expanded by a search for
//! supersets of its own, in parallel; the results are then merged into the table in the order of the ideals. Batches do
//! not depend on the number of threads, and the first of equal results is kept, so the outcome does not depend on the
//! number of threads either. When a batch completes a split, the split's value becomes the cap for the batches that
//! follow.
//!
//! A run that is not halted has covered every split below its caps.

use stagewright_core::bits;
use stagewright_core::bits::members;
use stagewright_core::contraction::Units;
use stagewright_core::placement::StageAssignment;
use stagewright_core::problem::Problem;
use stagewright_core::solver::StopReason;
use stagewright_search::usage::UsageSpace;

use crate::allowance::{Allowance, Budget, Halt};
use crate::batch::{Batch, Completed, expand_batch};
use crate::catalogue::Catalogue;
use crate::lattice::{Lattice, Position};
use crate::stage::Rules;
use crate::table::Table;
use crate::uplink::Uplinks;
use crate::weight::Weights;
use crate::window::Windows;

/// Target number of supersets examined per batch; the number of states per batch adapts to it.
const STEPS_PER_BATCH: u64 = 2_000_000;
const LARGEST_BATCH: usize = 4096;
const SMALLEST_BATCH: usize = 16;

/// Counts summed over all runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) ideals: u64,
    pub(crate) steps: u64,
    pub(crate) peak_bytes: u64,
}

/// Result of a run: the best split found, and the reason if it was halted.
pub(crate) struct Run {
    pub(crate) best: Option<Vec<StageAssignment>>,
    pub(crate) halt: Option<Halt>,
}

/// A recurrence over the ideals of one lattice.
#[derive(Clone, Copy)]
pub(crate) struct Recurrence<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) units: &'a Units,
    pub(crate) lattice: &'a Lattice,
    pub(crate) weights: &'a Weights,
    pub(crate) space: &'a UsageSpace,
    /// All ideals, if few enough to be scanned.
    pub(crate) catalogue: Option<&'a Catalogue>,
    /// Uplinks, if their loads must be below the caps too.
    pub(crate) uplinks: Option<&'a Uplinks>,
}

impl<'a> Recurrence<'a> {
    /// A recurrence that finds stages by walks and ignores uplinks.
    pub(crate) fn new(
        problem: &'a Problem,
        units: &'a Units,
        lattice: &'a Lattice,
        weights: &'a Weights,
        space: &'a UsageSpace,
    ) -> Self {
        Recurrence { problem, units, lattice, weights, space, catalogue: None, uplinks: None }
    }

    /// Minimises the largest load of `pass` over the splits whose loads are all below the caps.
    pub(crate) fn minimise(
        &self,
        pass: usize,
        mut caps: [f64; 2],
        budget: Budget<'_>,
        counts: &mut Counts,
    ) -> Run {
        let Recurrence { problem, lattice, weights, space, catalogue, uplinks, .. } = *self;
        if lattice.len == 0 {
            return Run { best: Some(lattice.all_weightless()), halt: None };
        }
        let mut windows = Windows::new(problem, weights, space, caps);
        let listed = catalogue.map(Catalogue::len);
        let labels = uplinks.map(Uplinks::start);
        let mut table = Table::new(lattice.len, lattice.words, listed, space.len(), labels);
        let listed_bytes = catalogue.map_or(0, Catalogue::bytes);
        let mut best: Option<Completed> = None;
        let mut steps = 0;
        let mut halt = None;
        let mut batch = SMALLEST_BATCH;
        'levels: for size in 0..lattice.len {
            let mut next = 0;
            while next < table.level(size).len() {
                let allowance = Allowance::new(budget, steps, table.bytes() + listed_bytes);
                let rules = self.rules(pass, &windows, caps, &allowance);
                let end = (next + batch).min(table.level(size).len());
                let tasks = expand_batch(&rules, catalogue, &table, &table.level(size)[next..end]);
                let spent: u64 = tasks.iter().map(|task| task.steps).sum();
                let bytes = table.bytes() + listed_bytes + tasks.iter().map(Batch::bytes).sum::<u64>();
                counts.peak_bytes = counts.peak_bytes.max(bytes);
                halt = halt_for(&table, &tasks, budget, steps + spent, bytes);
                // If there are several tasks, the number of threads decides which of them exceed the allowance.
                if tasks.len() > 1 && halt.is_some_and(|halt| !halt.by_clock()) {
                    break 'levels;
                }
                steps += spent;
                let value_before = best.map(|best| best.value);
                best = merge(tasks, &mut table, lattice.words, halt.is_some(), best);
                if halt.is_some() {
                    break 'levels;
                }
                if let Some(best) = best.filter(|best| Some(best.value) != value_before) {
                    caps[pass] = caps[pass].min(best.value);
                    windows = Windows::new(problem, weights, space, caps);
                }
                next = end;
                batch = next_batch(batch, spent);
            }
        }
        counts.steps += steps;
        counts.ideals += table.len() as u64;
        Run { best: best.map(|last| reconstruct(problem, lattice, &table, last)), halt }
    }

    /// Parameters of the tasks of a batch.
    fn rules<'r>(
        &self,
        pass: usize,
        windows: &'r Windows<'r>,
        caps: [f64; 2],
        allowance: &'r Allowance<'r>,
    ) -> Rules<'r>
    where
        'a: 'r,
    {
        Rules {
            lattice: self.lattice,
            objective: self.problem.objective(),
            units: self.units,
            pools: self.problem.pools(),
            space: self.space,
            windows,
            caps,
            pass,
            uplinks: self.uplinks,
            allowance,
        }
    }
}

/// Merges the results of a batch into the table, and returns the best split so far. In the last batch only completed
/// splits matter: with many kinds, merging a batch takes longer than expanding it.
fn merge(
    tasks: Vec<Batch>,
    table: &mut Table,
    words: usize,
    is_last: bool,
    mut best: Option<Completed>,
) -> Option<Completed> {
    for task in tasks {
        if !is_last {
            task.merge_into(table, words);
        }
        if let Some(full) = task.full
            && best.is_none_or(|best| full.value < best.value)
        {
            best = Some(full);
        }
    }
    best
}

/// Number of states of the next batch, given the size of the last batch and the steps that it took.
fn next_batch(batch: usize, spent: u64) -> usize {
    match spent {
        few if few < STEPS_PER_BATCH / 2 => (2 * batch).min(LARGEST_BATCH),
        many if many > STEPS_PER_BATCH => (batch / 2).max(SMALLEST_BATCH),
        _ => batch,
    }
}

/// Reason to end a run after a batch: a limit that all tasks together exceed, or the reason that a task halted.
fn halt_for(table: &Table, tasks: &[Batch], budget: Budget<'_>, steps: u64, bytes: u64) -> Option<Halt> {
    let arrivals = tasks.iter().map(Batch::arrivals).sum();
    let spreads = tasks.iter().map(Batch::spreads).sum();
    if budget.memory.is_some_and(|limit| bytes > limit) || !table.has_room_for(arrivals, spreads) {
        Some(Halt::Stop(StopReason::Memory))
    } else if budget.steps.is_some_and(|limit| steps > limit) {
        Some(Halt::Steps)
    } else {
        let first = tasks.iter().find_map(|task| task.halt);
        first.or_else(|| budget.stop.reason().map(Halt::Stop))
    }
}

/// Stages of a complete split, with the weightless units reinserted.
fn reconstruct(problem: &Problem, lattice: &Lattice, table: &Table, last: Completed) -> Vec<StageAssignment> {
    let mut stages = Vec::new();
    let mut after: Vec<u64> = vec![0; lattice.words];
    for index in 0..lattice.len {
        bits::insert(&mut after, index);
    }
    let Completed { mut parent, mut pool, mut replicas, .. } = last;
    loop {
        let entry = table.entry(parent);
        let before = table.set(entry.ideal);
        let difference: Vec<u64> = after.iter().zip(before).map(|(after, before)| after & !before).collect();
        stages.push(StageAssignment {
            pool: usize::from(pool),
            replicas,
            units: members(&difference).map(|index| lattice.unit_at[Position::new(index)]).collect(),
        });
        if before.iter().all(|&word| word == 0) {
            break;
        }
        after = before.to_vec();
        (parent, pool, replicas) = (entry.parent, entry.pool, entry.replicas);
    }
    // In a reversed lattice, stages were peeled from the end.
    if !problem.objective().memory_depends_on_stage() {
        stages.reverse();
    }
    lattice.place_weightless(&mut stages);
    stages
}
