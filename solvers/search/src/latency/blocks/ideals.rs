//! Ideals of the units: sets closed under predecessors, with the units that lead from one to the next.

use rustc_hash::FxHashMap;
use stagewright_core::contract::Units;
use stagewright_core::solver::Stop;

/// Ideals by size, over units in a topological order.
#[derive(Debug)]
pub struct Ideals {
    /// Unit at each position.
    order: Vec<u32>,
    /// 64-bit words of a set.
    words: usize,
    /// Positions in each ideal.
    sets: Vec<u64>,
    /// First transition of each ideal.
    first: Vec<u32>,
    /// Position that joins, and the ideal that it leads to, by position.
    transitions: Vec<(u32, u32)>,
    /// First ideal of each size.
    sizes: Vec<u32>,
}

/// Ideals between two looks at the clock.
const BETWEEN_CHECKS: usize = 1 << 10;

impl Ideals {
    /// The prefixes of an order.
    pub fn prefixes(order: Vec<u32>) -> Ideals {
        let len = order.len();
        let words = len.div_ceil(64).max(1);
        let mut sets = vec![0u64; words * (len + 1)];
        for at in 0..len {
            sets.copy_within(at * words..(at + 1) * words, (at + 1) * words);
            sets[(at + 1) * words + at / 64] |= 1 << (at % 64);
        }
        Ideals {
            words,
            sets,
            first: (0..=len as u32).chain([len as u32]).collect(),
            transitions: (0..len as u32).map(|at| (at, at + 1)).collect(),
            sizes: (0..=len as u32 + 1).collect(),
            order,
        }
    }

    /// All ideals, unless they take more than `memory` bytes or `stop` ends the listing.
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
        let mut ideals = Ideals {
            words,
            sets: vec![0; words],
            first: vec![0],
            transitions: Vec::new(),
            sizes: vec![0],
            order,
        };
        let mut ready: Vec<Vec<u32>> =
            vec![(0..len as u32).filter(|&at| predecessors[at as usize].is_empty()).collect()];
        for size in 0..=len {
            let from = ideals.sizes[size] as usize;
            let to = ideals.sets.len() / words;
            ideals.sizes.push(to as u32);
            let mut next: FxHashMap<Box<[u64]>, u32> = FxHashMap::default();
            let mut next_ready: Vec<Vec<u32>> = Vec::new();
            for at in from..to {
                if at % BETWEEN_CHECKS == 0
                    && (stop.reason().is_some() || memory.is_some_and(|most| ideals.bytes() > most))
                {
                    return None;
                }
                for &unit in &ready[at - from] {
                    let mut set: Box<[u64]> = ideals.set(at).into();
                    set[unit as usize / 64] |= 1 << (unit % 64);
                    let child = match next.get(&set) {
                        Some(&child) => child,
                        None => {
                            let child = u32::try_from(ideals.sets.len() / words).ok()?;
                            ideals.sets.extend_from_slice(&set);
                            let inside = |at: &u32| set[*at as usize / 64] >> (at % 64) & 1 == 1;
                            let freed = successors[unit as usize].iter().copied();
                            let freed = freed.filter(|&next| predecessors[next as usize].iter().all(inside));
                            let mut able: Vec<u32> = ready[at - from]
                                .iter()
                                .copied()
                                .filter(|&other| other != unit)
                                .chain(freed)
                                .collect();
                            able.sort_unstable();
                            next_ready.push(able);
                            next.insert(set, child);
                            child
                        }
                    };
                    ideals.transitions.push((unit, child));
                }
                ideals.first.push(u32::try_from(ideals.transitions.len()).ok()?);
            }
            ready = next_ready;
        }
        Some(ideals)
    }

    fn bytes(&self) -> u64 {
        (size_of_val(&*self.sets) + size_of_val(&*self.transitions) + size_of_val(&*self.first)) as u64
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

    /// The positions that can join an ideal, ascending, each with the ideal that it makes.
    #[inline]
    pub(super) fn transitions(&self, ideal: usize) -> &[(u32, u32)] {
        &self.transitions[self.first[ideal] as usize..self.first[ideal + 1] as usize]
    }

    fn set(&self, ideal: usize) -> &[u64] {
        &self.sets[ideal * self.words..(ideal + 1) * self.words]
    }

    /// The positions in an ideal.
    pub(super) fn members(&self, ideal: usize) -> impl Iterator<Item = usize> + '_ {
        let set = self.set(ideal);
        (0..self.order.len()).filter(move |at| set[at / 64] >> (at % 64) & 1 == 1)
    }

    /// The positions in one ideal and not in a smaller one.
    pub(super) fn difference(&self, smaller: usize, larger: usize) -> impl Iterator<Item = usize> + '_ {
        let before = self.set(smaller);
        self.members(larger).filter(move |at| before[at / 64] >> (at % 64) & 1 == 0)
    }
}
