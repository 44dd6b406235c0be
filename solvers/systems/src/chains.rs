//! Contraction of chains of units.

use stagewright_core::ids::Keyed;
use stagewright_makespan::ClusterId;

use crate::reading::Reading;

/// A partition of the units into chains. A unit joins the chain of its predecessor if it is that unit's only successor
/// and has no other predecessor.
pub(crate) struct Chains {
    /// The chain of every unit; chains are numbered in topological order of their first units.
    pub(crate) chain_of: Keyed<ClusterId, u32>,
    /// Number of chains.
    pub(crate) count: usize,
    /// Edges between chains, each once.
    pub(crate) ends: Vec<(u32, u32)>,
}

impl Chains {
    /// The chains of a reading.
    pub(crate) fn from_reading(reading: &Reading<'_, '_>) -> Chains {
        Chains::new(reading.subject.order(), &reading.ends)
    }

    /// The chains of units in topological order with the edges between them, each once. O(units + edges).
    fn new(order: &[ClusterId], ends: &[(ClusterId, ClusterId)]) -> Chains {
        let mut readers: Keyed<ClusterId, u32> = Keyed::filled(0, order.len());
        let mut sources: Keyed<ClusterId, (u32, Option<ClusterId>)> = Keyed::filled((0, None), order.len());
        for &(from, to) in ends {
            readers[from] += 1;
            let (count, source) = &mut sources[to];
            (*count, *source) = (*count + 1, Some(from));
        }
        let (mut chain_of, mut count) = (Keyed::filled(0, order.len()), 0u32);
        for &unit in order {
            chain_of[unit] = match sources[unit] {
                (1, Some(source)) if readers[source] == 1 => chain_of[source],
                _ => {
                    count += 1;
                    count - 1
                }
            };
        }
        let between = |&(from, to): &(ClusterId, ClusterId)| {
            let ends = (chain_of[from], chain_of[to]);
            (ends.0 != ends.1).then_some(ends)
        };
        // Two chains have at most one edge between them: only the last unit of the first chain sends, and only the
        // first unit of the second reads.
        let ends = ends.iter().filter_map(between).collect();
        Chains { chain_of, count: count as usize, ends }
    }
}

#[cfg(test)]
mod tests {
    use stagewright_core::ids::Id;

    use super::*;

    /// 0 → 1 → {2 → 3, 4} → 5 → 6, and 7 isolated, numbered backwards.
    #[test]
    fn what_nothing_parts_is_together() {
        let order: Vec<ClusterId> = ClusterId::first(8).rev().collect();
        let ends: Vec<(ClusterId, ClusterId)> = [(0, 1), (1, 2), (2, 3), (1, 4), (3, 5), (4, 5), (5, 6)]
            .iter()
            .map(|&(from, to)| (ClusterId(7 - from), ClusterId(7 - to)))
            .collect();
        let chains = Chains::new(&order, &ends);
        let by_place: Vec<u32> = order.iter().map(|&unit| chains.chain_of[unit]).collect();
        assert_eq!(by_place, [0, 0, 1, 1, 2, 3, 3, 4]);
        assert_eq!((chains.count, chains.ends), (5, vec![(0, 1), (0, 2), (1, 3), (2, 3)]));
    }

    #[test]
    fn nothing_is_no_chain_and_a_line_is_one() {
        let nothing = Chains::new(&[], &[]);
        assert_eq!((nothing.count, nothing.ends.len()), (0, 0));
        let line = Chains::new(
            &[0, 1, 2].map(ClusterId),
            &[(0, 1), (1, 2)].map(|(from, to)| (ClusterId(from), ClusterId(to))),
        );
        assert_eq!((line.chain_of, line.count, line.ends.len()), (vec![0, 0, 0].into(), 1, 0));
    }
}
