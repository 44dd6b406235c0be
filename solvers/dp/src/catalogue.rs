//! List of all ideals of a small lattice, with the data that a scan over pairs of ideals needs.
//!
//! Positions are in topological order, so adding units by ascending position reaches every ideal exactly once: listing
//! the ideals needs no hash table and takes time linear in the size of the list.

use std::ops::Range;

use stagewright_core::bits;
use stagewright_core::ids::Keyed;
use stagewright_core::solver::Stop;

use crate::lattice::{Lattice, LocalNet, Position};
use crate::weight::Weights;
use crate::window::Interval;

/// Maximum number of listed ideals, since a scan visits pairs of them.
const MAX_IDEALS: usize = 1 << 16;
/// Maximum bytes of sets, weights and crossing nets.
const MAX_BYTES: usize = 64 << 20;
/// Ideals between two checks of the clock.
const IDEALS_BETWEEN_CHECKS: usize = 4096;

/// A net that crosses an ideal, with pins on both sides.
#[derive(Clone, Copy)]
pub(crate) struct CrossingNet {
    pub(crate) net: LocalNet,
    /// Number of pins inside the ideal.
    pub(crate) inside: u32,
}

/// All nonempty ideals of a lattice, ascending by rank.
pub(crate) struct Catalogue {
    words: usize,
    weights: usize,
    pools: usize,
    /// Index of the weight that ranks the ideals; `ranks` holds its values.
    ranked_by: usize,
    ranks: Vec<f64>,
    sizes: Vec<u32>,
    sets: Vec<u64>,
    weight: Vec<f64>,
    unsupported: Vec<u32>,
    crossing_seconds: Vec<[f64; 2]>,
    crossing_of: Vec<(u32, u32)>,
    crossing: Vec<CrossingNet>,
}

impl Catalogue {
    /// Lists the ideals. `None` if there are too many, if they take too many bytes, or if the solve has to stop.
    pub(crate) fn new(
        lattice: &Lattice,
        weights: &Weights,
        memory: Option<u64>,
        stop: &Stop,
    ) -> Option<Catalogue> {
        let most_bytes = memory.map_or(MAX_BYTES, |limit| MAX_BYTES.min((limit / 8) as usize));
        let mut listing = Listing::new(lattice, weights);
        let mut unit = 0;
        loop {
            // Find the next unit to add, or backtrack.
            while listing.waiting.get(unit).is_some_and(|&waiting| waiting > 0) {
                unit += 1;
            }
            if unit == lattice.len {
                match listing.remove_last() {
                    Some(last) => unit = last.index() + 1,
                    None => return Some(listing.sorted()),
                }
                continue;
            }
            listing.add(Position::new(unit));
            unit += 1;
            let count = listing.ideals.len();
            if count > MAX_IDEALS
                || listing.bytes() > most_bytes
                || (count.is_multiple_of(IDEALS_BETWEEN_CHECKS) && stop.reason().is_some())
            {
                return None;
            }
        }
    }

    /// Number of ideals.
    pub(crate) fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> u64 {
        let Catalogue {
            ranks,
            sizes,
            sets,
            weight,
            unsupported,
            crossing_seconds,
            crossing_of,
            crossing,
            ..
        } = self;
        let small = size_of_val(&**ranks) + size_of_val(&**sizes) + size_of_val(&**unsupported);
        let crossed =
            size_of_val(&**crossing_seconds) + size_of_val(&**crossing_of) + size_of_val(&**crossing);
        (small + crossed + size_of_val(&**sets) + size_of_val(&**weight)) as u64
    }

    /// Index range of the ideals whose rank lies in the interval of the ranking weight: a superset of the ideals whose
    /// weights all lie in their intervals.
    pub(crate) fn within(&self, weights: &[Interval]) -> Range<usize> {
        let Interval { low, high } = weights[self.ranked_by];
        let from = self.ranks.partition_point(|&rank| rank < low);
        let to = self.ranks.partition_point(|&rank| rank <= high);
        from..to.max(from)
    }

    /// Number of units of an ideal.
    #[inline]
    pub(crate) fn size(&self, ideal: usize) -> u32 {
        self.sizes[ideal]
    }

    #[inline]
    pub(crate) fn set(&self, ideal: usize) -> &[u64] {
        &self.sets[ideal * self.words..(ideal + 1) * self.words]
    }

    #[inline]
    pub(crate) fn weights(&self, ideal: usize) -> &[f64] {
        &self.weight[ideal * self.weights..(ideal + 1) * self.weights]
    }

    /// Number of units of an ideal that a pool does not support.
    #[inline]
    pub(crate) fn unsupported(&self, ideal: usize, pool: usize) -> u32 {
        self.unsupported[ideal * self.pools + pool]
    }

    #[inline]
    pub(crate) fn crossing(&self, ideal: usize) -> &[CrossingNet] {
        &self.crossing[range(self.crossing_of[ideal])]
    }

    /// Sum of the minimum transfer times of the nets that cross an ideal, per pass.
    #[inline]
    pub(crate) fn crossing_seconds(&self, ideal: usize) -> [f64; 2] {
        self.crossing_seconds[ideal]
    }
}

/// Index range of an ideal's crossing nets.
#[inline]
fn range((from, to): (u32, u32)) -> Range<usize> {
    from as usize..to as usize
}

/// One ideal of a listing; sets, weights and counts are in parallel arrays.
struct Listed {
    size: u32,
    crossing_seconds: [f64; 2],
    crossing: (u32, u32),
}

/// Builder of a catalogue: a depth-first walk that adds one unit at a time.
struct Listing<'a> {
    lattice: &'a Lattice,
    weights: &'a Weights,
    /// Units of the current ideal in the order in which they were added, each with the index of the resulting ideal.
    path: Vec<(Position, usize)>,
    set: Vec<u64>,
    waiting: Keyed<Position, u32>,
    pins_inside: Keyed<LocalNet, u32>,
    ideals: Vec<Listed>,
    sets: Vec<u64>,
    weight: Vec<f64>,
    unsupported: Vec<u32>,
    crossing: Vec<CrossingNet>,
}

impl<'a> Listing<'a> {
    fn new(lattice: &'a Lattice, weights: &'a Weights) -> Self {
        Listing {
            lattice,
            weights,
            path: Vec::new(),
            set: vec![0; lattice.words],
            waiting: lattice.predecessor_count.clone(),
            pins_inside: Keyed::filled(0, lattice.net_count()),
            ideals: Vec::new(),
            sets: Vec::new(),
            weight: Vec::new(),
            unsupported: Vec::new(),
            crossing: Vec::new(),
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.ideals)
            + size_of_val(&*self.sets)
            + size_of_val(&*self.weight)
            + size_of_val(&*self.unsupported)
            + size_of_val(&*self.crossing)
    }

    /// Adds a unit to the current ideal and lists the result.
    fn add(&mut self, unit: Position) {
        let Listing { lattice, weights, .. } = *self;
        let before = self.path.last().map(|&(_, ideal)| ideal);
        bits::insert(&mut self.set, unit.index());
        for &next in lattice.successors(unit) {
            self.waiting[next] -= 1;
        }
        let index = self.ideals.len();
        self.path.push((unit, index));
        self.sets.extend_from_slice(&self.set);
        for (weight, own) in weights.of(unit).iter().enumerate() {
            let sum = before.map_or(0.0, |ideal| self.weight[ideal * weights.count + weight]);
            self.weight.push(sum + own);
        }
        for (pool, costs) in lattice.pools.iter().enumerate() {
            let count = before.map_or(0, |ideal| self.unsupported[ideal * lattice.pools.len() + pool]);
            self.unsupported.push(count + u32::from(!costs.supported[unit]));
        }
        let crossing = self.cross(before, unit);
        let mut crossing_seconds = [0.0; 2];
        for &CrossingNet { net, .. } in &self.crossing[range(crossing)] {
            let pass = usize::from(lattice.net_pass[net]);
            crossing_seconds[pass] += lattice.least_transfer[net];
        }
        self.ideals.push(Listed { size: self.path.len() as u32, crossing_seconds, crossing });
    }

    /// Lists the nets that cross the ideal `before` plus `unit`: the nets of `before` that still cross, and new ones.
    /// Returns their index range.
    fn cross(&mut self, before: Option<usize>, unit: Position) -> (u32, u32) {
        let lattice = self.lattice;
        let from = self.crossing.len();
        for &net in lattice.nets_of(unit) {
            self.pins_inside[net] += 1;
        }
        let old = before.map_or((0, 0), |ideal| self.ideals[ideal].crossing);
        for index in range(old) {
            let net = self.crossing[index].net;
            let inside = self.pins_inside[net];
            if lattice.crosses(net, inside) {
                self.crossing.push(CrossingNet { net, inside });
            }
        }
        let begins = |&&net: &&LocalNet| self.pins_inside[net] == 1;
        let new = lattice.nets_of(unit).iter().filter(begins);
        self.crossing.extend(new.map(|&net| CrossingNet { net, inside: 1 }));
        (from as u32, self.crossing.len() as u32)
    }

    /// Removes the unit added last and returns it.
    fn remove_last(&mut self) -> Option<Position> {
        let (unit, _) = self.path.pop()?;
        bits::remove(&mut self.set, unit.index());
        for &next in self.lattice.successors(unit) {
            self.waiting[next] += 1;
        }
        for &net in self.lattice.nets_of(unit) {
            self.pins_inside[net] -= 1;
        }
        Some(unit)
    }

    /// The finished catalogue, ranked by the time on a pool that pays for communication, since that varies most.
    fn sorted(self) -> Catalogue {
        let Listing { lattice, ideals, .. } = &self;
        let (words, weights, pools) = (lattice.words, self.weights.count, lattice.pools.len());
        let pool = lattice.pools.iter().position(|pool| !pool.host).unwrap_or(0);
        let ranked_by = self.weights.own[pool][0];
        let mut order: Vec<usize> = (0..ideals.len()).collect();
        order.sort_by(|&a, &b| {
            self.weight[a * weights + ranked_by].total_cmp(&self.weight[b * weights + ranked_by])
        });
        let rows = |width: usize| order.iter().map(move |&ideal| ideal * width..(ideal + 1) * width);
        Catalogue {
            words,
            weights,
            pools,
            ranked_by,
            ranks: order.iter().map(|&ideal| self.weight[ideal * weights + ranked_by]).collect(),
            sizes: order.iter().map(|&ideal| ideals[ideal].size).collect(),
            sets: rows(words).flat_map(|row| self.sets[row].iter().copied()).collect(),
            weight: rows(weights).flat_map(|row| self.weight[row].iter().copied()).collect(),
            unsupported: rows(pools).flat_map(|row| self.unsupported[row].iter().copied()).collect(),
            crossing_seconds: order.iter().map(|&ideal| ideals[ideal].crossing_seconds).collect(),
            crossing_of: order.iter().map(|&ideal| ideals[ideal].crossing).collect(),
            crossing: self.crossing,
        }
    }
}
