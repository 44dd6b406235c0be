//! The recurrence over usages: every ideal that a chain of stages below the caps can reach, with the least
//! bottleneck of reaching it.
//!
//! ```text
//! f(∅, ∅) = 0        f(u + r·e_c, I) = min over J ⊂ I of max(f(u, J), load_c(I \ J) / r + sync)
//! ```
//!
//! States are expanded by usage, in batches: the states of a batch in parallel, each by its own walk over its
//! supersets; then what they found goes into the tables one after the other. Batches do not depend on the number
//! of threads, and what was found first wins a tie, so neither does the result. When a batch completes a split,
//! its value becomes the cap for what follows.
//!
//! A run that ends without being stopped has looked at every split below its caps.

use rayon::prelude::*;
use stagewright_core::placement::StageAssignment;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Stop, StopReason};
use stagewright_search::usage::UsageSpace;

use crate::expand::{Expander, Rules, Source};
use crate::lattice::{Lattice, members};
use crate::table::{Step, Table, hash};
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
    pub(crate) states: u64,
    pub(crate) steps: u64,
    pub(crate) peak_bytes: u64,
}

/// The best split of a run, complete or not.
pub(crate) struct Run {
    pub(crate) best: Option<Vec<StageAssignment>>,
    pub(crate) halt: Option<Halt>,
}

/// What a task found: sets in one array.
#[derive(Default)]
struct Batch {
    sets: Vec<u64>,
    found: Vec<(u32, u64, f64, Step)>,
    /// Completed splits: value and last step.
    full: Option<(f64, u32, Step)>,
    steps: u64,
    alive: bool,
}

/// Minimises the largest load of `pass` over the splits whose loads are all below the caps.
pub(crate) fn minimise(
    problem: &Problem,
    lattice: &Lattice,
    space: &UsageSpace,
    pass: usize,
    caps: [f64; 2],
    budget: Budget<'_>,
    counts: &mut Counts,
) -> Run {
    let mut windows = Windows::new(problem, lattice, space, caps);
    let mut caps = caps;
    let mut tables: Vec<Table> = (0..space.len()).map(|_| Table::new(lattice.words)).collect();
    let nothing = vec![0; lattice.words];
    let no_step = Step { usage: 0, state: 0, pool: 0, replicas: 0 };
    tables[0].improve(&nothing, hash(&nothing), 0.0, no_step);
    let mut best: Option<(f64, u32, Step)> = None;
    let mut steps = 0;
    let mut halt = None;
    // Sealed tables keep their size; only those ahead still grow.
    let mut sealed_bytes = 0;
    let mut batch = SMALLEST_BATCH;
    'usages: for usage in 0..space.len() {
        let mut next = 0;
        while next < tables[usage].len() {
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
            let end = (next + batch).min(tables[usage].len());
            let steps_before = steps;
            let tasks = expand_batch(&rules, &tables, usage, next..end);
            let value_before = best.as_ref().map(|best| best.0);
            for task in tasks {
                steps += task.steps;
                if !task.alive {
                    halt = Some(Halt::Stop(budget.stop.reason().unwrap_or(StopReason::Interrupted)));
                }
                merge(&mut tables, &task, lattice.words);
                if let Some(full) = task.full
                    && best.as_ref().is_none_or(|best| full.0 < best.0)
                {
                    best = Some(full);
                }
            }
            let bytes = sealed_bytes + tables[usage..].iter().map(Table::bytes).sum::<u64>();
            counts.peak_bytes = counts.peak_bytes.max(bytes);
            if halt.is_none() {
                halt = halt_for(budget, bytes, steps);
            }
            if halt.is_some() {
                break 'usages;
            }
            let value = best.as_ref().map(|best| best.0);
            if value != value_before {
                caps[pass] = caps[pass].min(value.unwrap_or(f64::INFINITY));
                windows = Windows::new(problem, lattice, space, caps);
            }
            next = end;
            batch = match steps - steps_before {
                few if few < STEPS_PER_BATCH / 2 => (2 * batch).min(LARGEST_BATCH),
                many if many > STEPS_PER_BATCH => (batch / 2).max(SMALLEST_BATCH),
                _ => batch,
            };
        }
        tables[usage].seal();
        sealed_bytes += tables[usage].bytes();
    }
    counts.steps += steps;
    counts.states += tables.iter().map(|table| table.len() as u64).sum::<u64>();
    let best = best.map(|(_, _, step)| reconstruct(problem, lattice, &tables, step));
    Run { best, halt }
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

/// Expands some states of one usage in parallel; the tasks come back in the order of the states.
fn expand_batch(rules: &Rules<'_>, tables: &[Table], usage: usize, states: std::ops::Range<usize>) -> Vec<Batch> {
    let table = &tables[usage];
    let starts: Vec<usize> = states.clone().step_by(TASK).collect();
    starts
        .into_par_iter()
        .map_init(
            || Expander::new(rules),
            |expander, start| {
                let mut batch = Batch { alive: true, ..Batch::default() };
                let before = expander.steps();
                for state in start..(start + TASK).min(states.end) {
                    let value = table.value(state);
                    if value >= rules.caps[rules.pass] {
                        continue;
                    }
                    let source = Source { usage, state, set: table.set(state) };
                    batch.alive &= expander.expand(source, |found| {
                        let value = value.max(found.loads[rules.pass]);
                        if found.full {
                            if batch.full.is_none_or(|full| value < full.0) {
                                batch.full = Some((value, found.usage as u32, found.step));
                            }
                            return;
                        }
                        let key = hash(found.set);
                        if tables[found.usage].value_of(found.set, key).is_some_and(|known| known <= value) {
                            return;
                        }
                        batch.sets.extend_from_slice(found.set);
                        batch.found.push((found.usage as u32, key, value, found.step));
                    });
                    if !batch.alive {
                        break;
                    }
                }
                batch.steps = expander.steps() - before;
                batch
            },
        )
        .collect()
}

fn merge(tables: &mut [Table], task: &Batch, words: usize) {
    for (set, &(usage, key, value, step)) in task.sets.chunks_exact(words).zip(&task.found) {
        tables[usage as usize].improve(set, key, value, step);
    }
}

/// The stages that end with a step to the full set.
fn reconstruct(
    problem: &Problem,
    lattice: &Lattice,
    tables: &[Table],
    last: Step,
) -> Vec<StageAssignment> {
    let mut stages = Vec::new();
    let mut after: Vec<u64> = (0..lattice.words).map(|_| 0).collect();
    for at in 0..lattice.len {
        after[at / 64] |= 1 << (at % 64);
    }
    let mut step = last;
    loop {
        let before = tables[step.usage as usize].set(step.state as usize);
        let difference: Vec<u64> = after.iter().zip(before).map(|(after, before)| after & !before).collect();
        let mut units: Vec<u32> = members(&difference).map(|at| lattice.unit_at[at]).collect();
        units.sort_unstable();
        stages.push(StageAssignment {
            pool: usize::from(step.pool),
            replicas: u32::from(step.replicas),
            units,
        });
        if before.iter().all(|&word| word == 0) {
            break;
        }
        after = before.to_vec();
        step = tables[step.usage as usize].step(step.state as usize);
    }
    // Stages were peeled from the end where the lattice is reversed.
    if !problem.objective().memory_depends_on_stage() {
        stages.reverse();
    }
    stages
}
