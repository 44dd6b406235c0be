//! Expands the ideals of a level in batches: in parallel, with results merged in order.
//!
//! A task compares the ideals that it reaches with the table as of the start of the batch and keeps them in its own
//! arrays, so the result of a batch does not depend on the number of threads.

use rayon::prelude::*;

use crate::allowance::Halt;
use crate::catalogue::Catalogue;
use crate::scan::Scanner;
use crate::stage::{Arrival, Found, Rules, Source};
use crate::table::{EntryId, IdealId, New, Table, hash};
use crate::uplink::{Labels, Uplinks};
use crate::walk::Walker;

/// States per task, enough to amortise scheduling when states are small.
const TASK: usize = 8;

/// Results of a task, in flat arrays.
#[derive(Default)]
pub(crate) struct Batch {
    sets: Vec<u64>,
    found: Vec<FoundSet>,
    arrivals: Vec<Arrival>,
    /// Label of each arrival, if uplinks are modelled.
    labels: Labels,
    pub(crate) full: Option<Completed>,
    pub(crate) steps: u64,
    /// Bytes of the arrays already charged to the allowance.
    spent: u64,
    pub(crate) halt: Option<Halt>,
}

struct FoundSet {
    key: u64,
    arrivals_end: usize,
    pool: u16,
    replicas: u32,
}

/// Value and last stage of a complete split.
#[derive(Clone, Copy)]
pub(crate) struct Completed {
    pub(crate) value: f64,
    pub(crate) parent: EntryId,
    pub(crate) pool: u16,
    pub(crate) replicas: u32,
}

/// Search for the next stages: by a walk or by a scan.
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

/// Expands ideals in parallel. Returns the results of the tasks, in the order of the ideals.
pub(crate) fn expand_batch(
    rules: &Rules<'_>,
    catalogue: Option<&Catalogue>,
    table: &Table,
    ideals: &[IdealId],
) -> Vec<Batch> {
    let work = |expander: &mut Expander<'_>, ideals: &[IdealId]| {
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

    /// Keeps the arrivals that improve on the table as of the start of the batch.
    fn collect(&mut self, rules: &Rules<'_>, table: &Table, found: &Found<'_>) -> Result<(), Halt> {
        let key = found.listed.map_or_else(|| hash(found.set), u64::from);
        let known = if found.full { None } else { table.find(found.set, key) };
        let count = self.arrivals.len();
        for &arrival in found.arrivals {
            match rules.uplinks {
                None => {
                    let value = known.and_then(|ideal| table.value(ideal, arrival.usage));
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

    /// Keeps an arrival with its label if the uplink loads stay below the caps.
    fn collect_labelled(
        &mut self,
        rules: &Rules<'_>,
        uplinks: &Uplinks,
        table: &Table,
        (found, known): (&Found<'_>, Option<IdealId>),
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

    /// Keeps a complete split if it is the best so far.
    fn complete(&mut self, rules: &Rules<'_>, found: &Found<'_>, arrival: Arrival) {
        if arrival.value < self.full.map_or(rules.caps[rules.pass], |full| full.value) {
            let Found { pool, replicas, .. } = *found;
            self.full = Some(Completed { value: arrival.value, parent: arrival.parent, pool, replicas });
        }
    }

    /// Number of arrivals kept.
    pub(crate) fn arrivals(&self) -> usize {
        self.arrivals.len()
    }

    /// Number of crossing nets over the labels kept.
    pub(crate) fn spreads(&self) -> usize {
        self.labels.spreads()
    }

    /// Merges the kept arrivals into the table.
    pub(crate) fn merge_into(&self, table: &mut Table, words: usize) {
        let mut from = 0;
        for (set, found) in self.sets.chunks_exact(words).zip(&self.found) {
            let ideal = table.ideal(set, found.key);
            for index in from..found.arrivals_end {
                let Arrival { usage, parent, value } = self.arrivals[index];
                let new = New { usage, value, parent, pool: found.pool, replicas: found.replicas };
                if self.labels.len() == 0 {
                    table.improve(ideal, new);
                } else {
                    table.improve_labelled(ideal, new, self.labels.get(index));
                }
            }
            from = found.arrivals_end;
        }
    }
}
