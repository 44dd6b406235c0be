//! Total weight of the ancestors and of the descendants of every unit.

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::{Id, Keyed};
use stagewright_core::solver::Stop;

/// Total weight of the ancestors and of the descendants of every unit, both including the unit itself.
#[derive(Debug)]
pub(super) struct Reach {
    /// Weight of the unit and its ancestors.
    pub(super) ancestors: Keyed<UnitId, f64>,
    /// Weight of the unit and its descendants.
    pub(super) descendants: Keyed<UnitId, f64>,
}

impl Reach {
    /// Computes the weights along the order, with 64 units at a time as the bits of a word. O(units / 64 · (edges + 8
    /// units)). `None` if stopped.
    pub(super) fn new(units: &Units, weight: &[f64], stop: &Stop) -> Option<Reach> {
        let count = units.len();
        let nothing = Keyed::filled(0.0, count);
        let mut reach = Reach { ancestors: nothing.clone(), descendants: nothing };
        let mut seen = Keyed::filled(0u64, count);
        for begin in (0..count).step_by(64) {
            if stop.reason().is_some() {
                return None;
            }
            let end = (begin + 64).min(count);
            let sums = ByteSums::new(&weight[begin..end]);
            // Units are numbered topologically: descendants of a block do not precede its first unit.
            for unit in (begin..count).map(UnitId::new) {
                let own = if unit.index() < end { 1u64 << (unit.index() - begin) } else { 0 };
                let mask = units
                    .predecessors(unit)
                    .iter()
                    .rev()
                    .take_while(|before| before.index() >= begin)
                    .fold(own, |mask, &before| mask | seen[before]);
                seen[unit] = mask;
                if mask != 0 {
                    reach.ancestors[unit] += sums.of(mask);
                }
            }
            for unit in UnitId::first(end).rev() {
                let own = if unit.index() >= begin { 1u64 << (unit.index() - begin) } else { 0 };
                let mask = units
                    .successors(unit)
                    .iter()
                    .take_while(|after| after.index() < end)
                    .fold(own, |mask, &after| mask | seen[after]);
                seen[unit] = mask;
                if mask != 0 {
                    reach.descendants[unit] += sums.of(mask);
                }
            }
        }
        Some(reach)
    }
}

/// Sums of up to 64 weights over the set bits of a word, a byte at a time.
struct ByteSums {
    table: Vec<[f64; 256]>,
}

impl ByteSums {
    fn new(weights: &[f64]) -> ByteSums {
        let table = weights
            .chunks(8)
            .map(|chunk| {
                let mut sums = [0.0; 256];
                for byte in 1..256usize {
                    let low = byte.trailing_zeros() as usize;
                    sums[byte] = sums[byte & (byte - 1)] + chunk.get(low).copied().unwrap_or(0.0);
                }
                sums
            })
            .collect();
        ByteSums { table }
    }

    fn of(&self, mask: u64) -> f64 {
        self.table.iter().zip(mask.to_le_bytes()).map(|(sums, byte)| sums[usize::from(byte)]).sum()
    }
}
