//! The program over all ideals of a small lattice, which is exact.

use rustc_hash::FxHashMap;
use stagewright_core::bits;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::solver::Stop;

use super::states::{Recurrence, Stages};
use super::{Growing, Program};

/// Maximum number of ideals.
const MOST_IDEALS: u64 = 1 << 14;
/// Maximum number of units visited by all searches for stages together, which take a few seconds.
const MOST_STEPS: u64 = 40_000_000;
/// Maximum number of units visited while the ideals are listed.
const MOST_LISTED: u64 = 100_000_000;
/// Ideals listed between checks of the clock.
const IDEALS_BETWEEN_CHECKS: usize = 64;

/// Sets closed under predecessors, by size.
struct Ideals {
    sets: Vec<Vec<u64>>,
    index: FxHashMap<Vec<u64>, usize>,
}

impl Ideals {
    /// Lists all ideals. `None` if there are too many, if they take more than `most_bytes`, or if the solve has to stop
    /// first.
    fn new(units: &Units, most_bytes: u64, stop: &Stop) -> Option<Ideals> {
        let words = bits::words(units.len());
        let limit = MOST_IDEALS.min(most_bytes / bytes(units, 1));
        let mut ideals = Ideals { sets: vec![vec![0; words]], index: FxHashMap::default() };
        ideals.index.insert(ideals.sets[0].clone(), 0);
        let mut looked_at = 0;
        let mut next = 0;
        while let Some(set) = ideals.sets.get(next).cloned() {
            next += 1;
            looked_at += units.len() as u64;
            for unit in units.ids().filter(|&unit| is_next(units, &set, unit)) {
                let mut larger = set.clone();
                bits::insert(&mut larger, unit.index());
                if !ideals.index.contains_key(&larger) {
                    ideals.index.insert(larger.clone(), ideals.sets.len());
                    ideals.sets.push(larger);
                }
            }
            let has_to_stop = next.is_multiple_of(IDEALS_BETWEEN_CHECKS) && stop.reason().is_some();
            if ideals.sets.len() as u64 > limit || looked_at > MOST_LISTED || has_to_stop {
                return None;
            }
        }
        Some(ideals)
    }
}

/// Bytes of a list of ideals, in which each set occurs twice.
fn bytes(units: &Units, count: usize) -> u64 {
    let set = size_of::<Vec<u64>>() + size_of::<u64>() * bits::words(units.len());
    (count * (2 * set + size_of::<usize>())) as u64
}

/// Whether a unit is not in an ideal, but all its predecessors are.
fn is_next(units: &Units, set: &[u64], unit: UnitId) -> bool {
    let holds = |unit: UnitId| bits::contains(set, unit.index());
    !holds(unit) && units.predecessors(unit).iter().all(|&before| holds(before))
}

impl<G: Growing> Program<'_, G> {
    /// The best stages with a score below the cap, over all contiguous splits; `Some(None)` if there are no such
    /// stages. `None` if the lattice is too large, or the solve has to stop first. O(ideals² · (units + replicas
    /// · usages)) scores and states at most.
    pub(crate) fn over_ideals(&self, cap: f64) -> Option<Option<Stages>> {
        let ideals = Ideals::new(self.units, self.room, &self.stop)?;
        let count = ideals.sets.len();
        let space = self.usages(bytes(self.units, count), count, false)?;
        let mut recurrence = Recurrence::new(self, &space, count, cap);
        let mut steps = 0;
        // Larger ideals come later, so the value of a state is final when the state is extended.
        for start in 0..count {
            for pool in 0..self.problem.pools().len() {
                if !recurrence.begin(start, pool) {
                    continue;
                }
                let mut set = ideals.sets[start].clone();
                let mut added = Vec::new();
                let mut from = 0;
                // Visit every superset once: the units beyond the start are added in the order of their indices, which
                // is topological.
                loop {
                    let next = (from..self.units.len())
                        .map(UnitId::new)
                        .find(|&unit| is_next(self.units, &set, unit));
                    steps += (next.map_or(self.units.len(), UnitId::index) - from) as u64 + 1;
                    if steps > MOST_STEPS {
                        return None;
                    }
                    let Some(unit) = next else {
                        let Some((unit, before)) = added.pop() else { break };
                        recurrence.undo(unit, before);
                        bits::remove(&mut set, unit.index());
                        from = unit.index() + 1;
                        continue;
                    };
                    from = unit.index() + 1;
                    let before = recurrence.add(unit)?;
                    if recurrence.is_hopeless() {
                        recurrence.undo(unit, before);
                        continue;
                    }
                    bits::insert(&mut set, unit.index());
                    added.push((unit, before));
                    recurrence.end(ideals.index[&set])?;
                }
            }
        }
        Some(recurrence.best(count - 1, |start, end| {
            bits::difference(&ideals.sets[end], &ideals.sets[start]).map(UnitId::new).collect()
        }))
    }
}
