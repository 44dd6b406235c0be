//! Ideals of the units: sets closed under predecessors, with the transitions between them.
//!
//! They are listed by size, for a recurrence that settles one size after the other. The ideals of
//! [`super::super::bound`] are over other nodes, classes that calls hold whole, and store their parents and open
//! tensors instead.

use rustc_hash::FxHashMap;
use stagewright_core::bits;
use stagewright_core::contract::Units;
use stagewright_core::solver::Stop;

/// Ideals by size, over units in a topological order.
#[derive(Debug)]
pub struct Ideals {
    /// Unit at each position.
    order: Vec<u32>,
    /// The positions in each ideal; `None` if the ideals are the prefixes of the order.
    sets: Option<Sets>,
    /// First transition of each ideal.
    first: Vec<u32>,
    /// Transitions in the order of their ideals: the position that joins, and the resulting ideal.
    transitions: Vec<(u32, u32)>,
    /// First ideal of each size.
    sizes: Vec<u32>,
}

/// Sets of positions in one array.
#[derive(Debug)]
struct Sets {
    /// Number of 64-bit words per set.
    words: usize,
    bits: Vec<u64>,
}

impl Sets {
    fn count(&self) -> usize {
        self.bits.len() / self.words
    }

    fn get(&self, at: usize) -> &[u64] {
        &self.bits[at * self.words..(at + 1) * self.words]
    }
}

/// Transitions between clock checks.
const BETWEEN_CHECKS: usize = 1 << 10;
/// Bytes of an entry of the table of sets, without the set itself.
const KEY_BYTES: usize = 32;

impl Ideals {
    /// The prefixes of an order.
    pub fn prefixes(order: Vec<u32>) -> Ideals {
        let len = order.len();
        Ideals {
            sets: None,
            first: (0..=len as u32).chain([len as u32]).collect(),
            transitions: (0..len as u32).map(|at| (at, at + 1)).collect(),
            sizes: (0..=len as u32 + 1).collect(),
            order,
        }
    }

    /// All ideals; `None` if they take more than `memory` bytes or `stop` ends the enumeration.
    pub fn all(units: &Units, order: Vec<u32>, memory: Option<u64>, stop: &Stop) -> Option<Ideals> {
        let len = order.len();
        let words = len.div_ceil(64).max(1);
        let mut position = vec![0u32; units.len()];
        for (at, &unit) in (0..).zip(&order) {
            position[unit as usize] = at;
        }
        let along =
            |numbers: &[u32]| -> Vec<u32> { numbers.iter().map(|&unit| position[unit as usize]).collect() };
        let predecessors: Vec<Vec<u32>> =
            order.iter().map(|&unit| along(units.predecessors(unit as usize))).collect();
        let successors: Vec<Vec<u32>> =
            order.iter().map(|&unit| along(units.successors(unit as usize))).collect();
        let mut sets = Sets { words, bits: vec![0; words] };
        let (mut first, mut transitions, mut sizes) = (vec![0u32], Vec::new(), vec![0u32]);
        let mut ready: Vec<Vec<u32>> =
            vec![(0..len as u32).filter(|&at| predecessors[at as usize].is_empty()).collect()];
        // Bytes of `ready` and `next_ready`.
        let mut lists: usize = ready.iter().map(|able| size_of_val(&**able) + size_of::<Vec<u32>>()).sum();
        for size in 0..=len {
            let (from, to) = (sizes[size] as usize, sets.count());
            sizes.push(to as u32);
            let mut next: FxHashMap<Box<[u64]>, u32> = FxHashMap::default();
            let mut next_ready: Vec<Vec<u32>> = Vec::new();
            for at in from..to {
                for &unit in &ready[at - from] {
                    // The joining positions of the ideals of this size and the next are stored for each, and each set
                    // is also a key.
                    let listed = size_of_val(&*sets.bits) + size_of_val(&*transitions) + size_of_val(&*first);
                    let bytes = listed + (words * 8 + KEY_BYTES) * next.len() + lists;
                    let too_much = memory.is_some_and(|most| bytes as u64 > most);
                    if too_much || (transitions.len() % BETWEEN_CHECKS == 0 && stop.reason().is_some()) {
                        return None;
                    }
                    let mut set: Box<[u64]> = sets.get(at).into();
                    bits::insert(&mut set, unit as usize);
                    let child = match next.get(&set) {
                        Some(&child) => child,
                        None => {
                            let child = u32::try_from(sets.count()).ok()?;
                            sets.bits.extend_from_slice(&set);
                            let inside = |at: &u32| bits::contains(&set, *at as usize);
                            let freed = successors[unit as usize].iter().copied();
                            let freed = freed.filter(|&next| predecessors[next as usize].iter().all(inside));
                            let mut able: Vec<u32> = ready[at - from]
                                .iter()
                                .copied()
                                .filter(|&other| other != unit)
                                .chain(freed)
                                .collect();
                            able.sort_unstable();
                            lists += size_of_val(&*able) + size_of::<Vec<u32>>();
                            next_ready.push(able);
                            next.insert(set, child);
                            child
                        }
                    };
                    transitions.push((unit, child));
                }
                first.push(u32::try_from(transitions.len()).ok()?);
            }
            lists -= ready.iter().map(|able| size_of_val(&**able) + size_of::<Vec<u32>>()).sum::<usize>();
            ready = next_ready;
        }
        Some(Ideals { order, sets: Some(sets), first, transitions, sizes })
    }

    /// Whether the ideals are the prefixes of the order.
    pub(super) fn are_prefixes(&self) -> bool {
        self.sets.is_none()
    }

    /// Number of ideals.
    pub fn count(&self) -> usize {
        self.first.len() - 1
    }

    /// The units by position.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// The ideals of each size, by increasing size.
    pub(super) fn levels(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        self.sizes.windows(2).map(|pair| pair[0] as usize..pair[1] as usize)
    }

    /// The positions that can join an ideal, ascending, each with the resulting ideal.
    #[inline]
    pub(super) fn transitions(&self, ideal: usize) -> &[(u32, u32)] {
        &self.transitions[self.first[ideal] as usize..self.first[ideal + 1] as usize]
    }

    fn contains(&self, ideal: usize, at: usize) -> bool {
        match &self.sets {
            Some(sets) => sets.get(ideal)[at / 64] >> (at % 64) & 1 == 1,
            None => at < ideal,
        }
    }

    /// The positions in an ideal.
    pub(super) fn members(&self, ideal: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.order.len()).filter(move |&at| self.contains(ideal, at))
    }

    /// The positions in one ideal and not in a smaller one.
    pub(super) fn difference(&self, smaller: usize, larger: usize) -> impl Iterator<Item = usize> + '_ {
        self.members(larger).filter(move |&at| !self.contains(smaller, at))
    }
}
