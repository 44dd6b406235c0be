//! The ideals of a level in batches: expanded in parallel, their finds merged in order.
//!
//! What a task finds is compared with the table as it was before the batch and kept in arrays of the task's own, so a
//! batch gives the same whatever the number of threads.

use rayon::prelude::*;

use crate::allowance::Halt;
use crate::catalogue::Catalogue;
use crate::scan::Scanner;
use crate::stage::{Arrival, Found, Rules, Source};
use crate::table::{New, Table, hash};
use crate::uplink::{Labels, Uplinks};
use crate::walk::Walker;

/// States that one task expands, so that small states do not drown in scheduling.
const TASK: usize = 8;

/// What a task found: sets and arrivals in one array each.
#[derive(Default)]
pub(crate) struct Batch {
    sets: Vec<u64>,
    found: Vec<FoundSet>,
    arrivals: Vec<Arrival>,
    /// The label of each arrival, where uplinks count.
    labels: Labels,
    pub(crate) full: Option<Completed>,
    pub(crate) steps: u64,
    /// Bytes of the arrays that have been taken off the allowance.
    spent: u64,
    pub(crate) halt: Option<Halt>,
}

struct FoundSet {
    key: u64,
    arrivals_end: usize,
    pool: u16,
    replicas: u32,
}

/// A completed split: its value, and its last stage.
#[derive(Clone, Copy)]
pub(crate) struct Completed {
    pub(crate) value: f64,
    pub(crate) parent: u32,
    pub(crate) pool: u16,
    pub(crate) replicas: u32,
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
pub(crate) fn expand_batch(
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
    pub(crate) fn bytes(&self) -> u64 {
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
        let unspent = self.bytes() - self.spent;
        if unspent < rules.allowance.bytes_between_checks() {
            return Ok(());
        }
        self.spent += unspent;
        rules.allowance.spend(0, unspent)
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

    /// Arrivals that were kept.
    pub(crate) fn arrivals(&self) -> usize {
        self.arrivals.len()
    }

    /// Nets over the labels that were kept.
    pub(crate) fn spreads(&self) -> usize {
        self.labels.spreads()
    }

    /// Puts what was kept into the table.
    pub(crate) fn merge_into(&self, table: &mut Table, words: usize) {
        let mut from = 0;
        for (set, found) in self.sets.chunks_exact(words).zip(&self.found) {
            let ideal = table.ideal(set, found.key);
            for at in from..found.arrivals_end {
                let Arrival { usage, parent, value } = self.arrivals[at];
                let new = New { usage, value, parent, pool: found.pool, replicas: found.replicas };
                if self.labels.len() == 0 {
                    table.improve(ideal, new);
                } else {
                    table.improve_labelled(ideal, new, self.labels.get(at));
                }
            }
            from = found.arrivals_end;
        }
    }
}
