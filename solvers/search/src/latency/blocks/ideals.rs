//! Ideals of the units: sets closed under predecessors, with the transitions between them.
//!
//! Ideals are listed by size, for a recurrence that settles one size after the other. The ideals of
//! [`super::super::bound`] are over other nodes, classes that calls hold whole, and store their parents and open
//! tensors instead.

use rustc_hash::FxHashMap;
use stagewright_core::bits;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::id;
use stagewright_core::ids::{Id, Keyed, places};
use stagewright_core::solver::Stop;

id! {
    /// Position in a topological order of the units.
    pub(super) Position;
    /// Index of an ideal.
    pub(super) IdealId;
}

/// Ideals by size, over units in a topological order.
#[derive(Debug)]
pub struct Ideals {
    /// Unit at each position.
    order: Keyed<Position, UnitId>,
    /// The positions in each ideal; `None` if the ideals are the prefixes of the order.
    sets: Option<Sets>,
    /// First transition of each ideal.
    first: Vec<u32>,
    /// Transitions in the order of their ideals: the position that joins, and the resulting ideal.
    transitions: Vec<(Position, IdealId)>,
    /// First ideal of each size.
    sizes: Vec<IdealId>,
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

    fn get(&self, ideal: IdealId) -> &[u64] {
        let index = ideal.index();
        &self.bits[index * self.words..(index + 1) * self.words]
    }
}

/// Transitions between clock checks.
const BETWEEN_CHECKS: usize = 1 << 10;
/// Bytes of an entry of the table of sets, without the set itself.
const KEY_BYTES: usize = 32;

/// Bytes of lists of positions.
fn list_bytes(lists: &[Vec<Position>]) -> usize {
    lists.iter().map(|list| size_of_val(&**list) + size_of::<Vec<Position>>()).sum()
}

impl Ideals {
    /// The prefixes of an order.
    pub fn prefixes(order: Vec<UnitId>) -> Ideals {
        let len = order.len();
        Ideals {
            sets: None,
            first: u32::first(len + 1).chain([u32::new(len)]).collect(),
            transitions: u32::first(len).map(|index| (Position(index), IdealId(index + 1))).collect(),
            sizes: IdealId::first(len + 2).collect(),
            order: order.into(),
        }
    }

    /// All ideals; `None` if they take more than `memory` bytes or `stop` ends the enumeration.
    pub fn all(units: &Units, order: Vec<UnitId>, memory: Option<u64>, stop: &Stop) -> Option<Ideals> {
        let len = order.len();
        let words = len.div_ceil(64).max(1);
        let order = Keyed::from(order);
        let position: Keyed<_, Position> = places(&order);
        let along =
            |units: &[UnitId]| -> Vec<Position> { units.iter().map(|&unit| position[unit]).collect() };
        let predecessors: Keyed<Position, Vec<Position>> =
            order.iter().map(|&unit| along(units.predecessors(unit))).collect();
        let successors: Keyed<Position, Vec<Position>> =
            order.iter().map(|&unit| along(units.successors(unit))).collect();
        let mut sets = Sets { words, bits: vec![0; words] };
        let (mut first, mut transitions, mut sizes) = (vec![0u32], Vec::new(), vec![IdealId(0)]);
        let mut ready: Vec<Vec<Position>> =
            vec![order.ids().filter(|&position| predecessors[position].is_empty()).collect()];
        // Bytes of `ready` and `next_ready`.
        let mut lists = list_bytes(&ready);
        for size in 0..=len {
            let (from, to) = (sizes[size].index(), sets.count());
            sizes.push(IdealId::new(to));
            let mut next: FxHashMap<Box<[u64]>, IdealId> = FxHashMap::default();
            let mut next_ready: Vec<Vec<Position>> = Vec::new();
            for index in from..to {
                for &unit in &ready[index - from] {
                    // Each ideal of this size and the next stores its joining positions, and each set is also a key.
                    let listed = size_of_val(&*sets.bits) + size_of_val(&*transitions) + size_of_val(&*first);
                    let bytes = listed + (words * 8 + KEY_BYTES) * next.len() + lists;
                    let too_much = memory.is_some_and(|limit| bytes as u64 > limit);
                    if too_much || (transitions.len() % BETWEEN_CHECKS == 0 && stop.reason().is_some()) {
                        return None;
                    }
                    let mut set: Box<[u64]> = sets.get(IdealId::new(index)).into();
                    bits::insert(&mut set, unit.index());
                    let child = match next.get(&set) {
                        Some(&child) => child,
                        None => {
                            let child = IdealId(u32::try_from(sets.count()).ok()?);
                            sets.bits.extend_from_slice(&set);
                            let inside = |position: &Position| bits::contains(&set, position.index());
                            let is_free = |next: &Position| predecessors[*next].iter().all(inside);
                            let freed = successors[unit].iter().filter(|next| is_free(next));
                            let others = ready[index - from].iter().filter(|&&other| other != unit);
                            let mut joining: Vec<Position> = others.chain(freed).copied().collect();
                            joining.sort_unstable();
                            lists += list_bytes(std::slice::from_ref(&joining));
                            next_ready.push(joining);
                            next.insert(set, child);
                            child
                        }
                    };
                    transitions.push((unit, child));
                }
                first.push(u32::try_from(transitions.len()).ok()?);
            }
            lists -= list_bytes(&ready);
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
    pub(super) fn order(&self) -> &Keyed<Position, UnitId> {
        &self.order
    }

    /// The ideals of each size, by increasing size.
    pub(super) fn levels(&self) -> impl Iterator<Item = impl Iterator<Item = IdealId> + Clone + Sync> {
        self.sizes.windows(2).map(|pair| (pair[0].0..pair[1].0).map(IdealId))
    }

    /// The positions that can join an ideal, ascending, each with the resulting ideal.
    #[inline]
    pub(super) fn transitions(&self, ideal: IdealId) -> &[(Position, IdealId)] {
        let index = ideal.index();
        &self.transitions[self.first[index] as usize..self.first[index + 1] as usize]
    }

    fn contains(&self, ideal: IdealId, position: Position) -> bool {
        match &self.sets {
            Some(sets) => bits::contains(sets.get(ideal), position.index()),
            None => position.0 < ideal.0,
        }
    }

    /// The positions in an ideal.
    pub(super) fn members(&self, ideal: IdealId) -> impl Iterator<Item = Position> + '_ {
        self.order.ids().filter(move |&position| self.contains(ideal, position))
    }

    /// The positions in one ideal and not in a smaller one.
    pub(super) fn difference(
        &self,
        smaller: IdealId,
        larger: IdealId,
    ) -> impl Iterator<Item = Position> + '_ {
        self.members(larger).filter(move |&position| !self.contains(smaller, position))
    }
}
