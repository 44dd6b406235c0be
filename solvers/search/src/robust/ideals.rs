//! The program over all ideals of a small lattice, which is exact.

use rustc_hash::FxHashMap;
use stagewright_core::bits;
use stagewright_core::contract::{UnitId, Units};
use stagewright_core::placement::StageAssignment;

use super::search::Program;
use super::states::States;
use crate::usage::UsageSpace;

/// Maximum number of ideals.
const MOST_IDEALS: usize = 1 << 14;
/// Maximum number of states.
const MOST_STATES: usize = 1 << 22;
/// Maximum number of units that all searches for stages look at, a few seconds' worth.
const MOST_STEPS: u64 = 40_000_000;
/// Maximum number of units that the listing looks at.
const MOST_LISTED: u64 = 100_000_000;

/// Sets closed under predecessors, by size.
struct Ideals {
    sets: Vec<Vec<u64>>,
    index: FxHashMap<Vec<u64>, usize>,
}

impl Ideals {
    /// Lists all ideals; `None` if there are too many.
    fn new(units: &Units) -> Option<Ideals> {
        let words = bits::words(units.len());
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
            if ideals.sets.len() > MOST_IDEALS || looked_at > MOST_LISTED {
                return None;
            }
        }
        Some(ideals)
    }
}

/// Whether a unit is not in an ideal, but all its predecessors are.
fn is_next(units: &Units, set: &[u64], unit: UnitId) -> bool {
    let holds = |unit: UnitId| bits::contains(set, unit.index());
    !holds(unit) && units.predecessors(unit).iter().all(|&before| holds(before))
}

/// The stages of a finished program: the best below the cap, or `None` if there are none.
pub(super) type Finished = Option<(f64, Vec<StageAssignment>)>;

impl Program<'_> {
    /// The best stages with a worst value below the cap, over all contiguous splits. `None` if the lattice is too large
    /// or the solve has to stop first. O(ideals² · (units + sources + usages)) at most.
    pub(super) fn over_ideals(&self, cap: f64) -> Option<Finished> {
        let ideals = Ideals::new(self.units)?;
        let space = UsageSpace::new(self.problem, self.units.len(), MOST_STATES / ideals.sets.len())?;
        let mut states = States::new(&space, ideals.sets.len());
        let mut steps = 0;
        let mut meters: Vec<_> = (0..self.problem.pools().len()).map(|pool| self.meter(pool)).collect();
        let mut open = Vec::new();
        // Larger ideals come later, so a state is final when it is extended.
        for start in 0..ideals.sets.len() {
            if self.stop.reason().is_some() {
                return None;
            }
            for (pool, meter) in meters.iter_mut().enumerate() {
                states.open(start, pool, cap, &mut open);
                if open.is_empty() {
                    continue;
                }
                let most = self.most_replicas(pool);
                meter.clear();
                let mut set = ideals.sets[start].clone();
                let mut added = Vec::new();
                let mut from = 0;
                // Every superset once: its units beyond the start are added in the order of their indices, which is
                // topological.
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
                        meter.undo(unit, before);
                        bits::remove(&mut set, unit.index());
                        from = unit.index() + 1;
                        continue;
                    };
                    from = unit.index() + 1;
                    let before = meter.add(unit);
                    if meter.is_hopeless(cap, most) {
                        meter.undo(unit, before);
                        continue;
                    }
                    bits::insert(&mut set, unit.index());
                    added.push((unit, before));
                    for replicas in 1..=most {
                        let load = meter.worst(replicas);
                        if load < cap {
                            if !meter.fits() {
                                break;
                            }
                            states.extend(&open, start, ideals.index[&set], (pool, replicas), load);
                        }
                    }
                }
            }
        }
        let full = ideals.sets.len() - 1;
        let Some((usage, value)) = states.best(full) else { return Some(None) };
        let stages = states.stages(full, usage).into_iter().map(|(last, end)| StageAssignment {
            pool: last.pool as usize,
            replicas: last.replicas,
            units: bits::difference(&ideals.sets[end], &ideals.sets[last.start as usize])
                .map(UnitId::new)
                .collect(),
        });
        Some(Some((value, stages.collect())))
    }
}
