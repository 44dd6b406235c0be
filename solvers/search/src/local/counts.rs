//! Sparse pin counts per net and place: most nets touch few places.

use std::ops::Range;

use stagewright_core::ids::{Id, Keyed};

/// Minimum number of places for which rows with an entry for every place are indexed by place instead of searched.
const MANY_PLACES: usize = 64;

/// Counts per (net, place), where a place is a device or a group. A net of p pins touches at most p places,
/// so its row has room for min(p, places) entries, and the total memory is O(pins) for any number of places.
#[derive(Debug, Clone)]
pub(super) struct Counts<N, P> {
    /// Start of the row of each net, and the end.
    first: Keyed<N, u32>,
    end: u32,
    /// Number of entries in use per row.
    used: Keyed<N, u32>,
    entries: Vec<Entry<P>>,
    places: usize,
    /// By place, the number of the place's entry in a row, for rows with room for all of many places; meaningless if
    /// the place has no entry. Empty if there are few places.
    numbers: Vec<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry<P> {
    place: P,
    count: u32,
}

impl<N: Id, P: Id + Default> Counts<N, P> {
    /// All counts zero; `pins` is the number of pins of every net.
    pub(super) fn new(pins: impl Iterator<Item = usize>, places: usize) -> Counts<N, P> {
        let mut first = Keyed::default();
        let mut room = 0;
        for pins in pins {
            first.push(room as u32);
            room += pins.min(places);
        }
        let numbers = if places >= MANY_PLACES { vec![0; room] } else { Vec::new() };
        let (used, entries) = (Keyed::filled(0, first.len()), vec![Entry::default(); room]);
        Counts { used, first, end: room as u32, entries, places, numbers }
    }

    #[inline]
    fn row(&self, net: N) -> Range<usize> {
        let first = self.first[net] as usize;
        first..first + self.used[net] as usize
    }

    /// Whether the entries of a row can be looked up by place, which holds if the row has room for all of many places.
    #[inline]
    fn has_numbers(&self, net: N) -> bool {
        if self.numbers.is_empty() {
            return false;
        }
        let next = N::new(net.index() + 1);
        let end = if next.index() < self.first.len() { self.first[next] } else { self.end };
        (end - self.first[net]) as usize == self.places
    }

    /// Number within the row of a net of the entry of a place.
    #[inline]
    fn position(&self, net: N, place: P) -> Option<usize> {
        let row = &self.entries[self.row(net)];
        if self.has_numbers(net) {
            let number = self.numbers[self.first[net] as usize + place.index()] as usize;
            return row.get(number).filter(|entry| entry.place == place).map(|_| number);
        }
        row.iter().position(|entry| entry.place == place)
    }

    /// Pins of a net in a place, in O(1) or O(places that the net touches).
    #[inline]
    pub(super) fn get(&self, net: N, place: P) -> u32 {
        let first = self.first[net] as usize;
        self.position(net, place).map_or(0, |number| self.entries[first + number].count)
    }

    /// The places that a net touches, with its pins there.
    pub(super) fn of(&self, net: N) -> impl Iterator<Item = (P, u32)> + '_ {
        self.entries[self.row(net)].iter().map(|entry| (entry.place, entry.count))
    }

    /// Adds a pin; returns the count before.
    #[inline]
    pub(super) fn put(&mut self, net: N, place: P) -> u32 {
        let row = self.row(net);
        match self.position(net, place) {
            Some(number) => {
                let entry = &mut self.entries[row.start + number];
                entry.count += 1;
                entry.count - 1
            }
            None => {
                self.entries[row.end] = Entry { place, count: 1 };
                self.number(net, row.len());
                self.used[net] += 1;
                0
            }
        }
    }

    /// Records the number of an entry in its row, if the row is indexed by place.
    #[inline]
    fn number(&mut self, net: N, number: usize) {
        if self.has_numbers(net) {
            let first = self.first[net] as usize;
            let place = self.entries[first + number].place;
            self.numbers[first + place.index()] = number as u32;
        }
    }

    /// Removes a pin; returns the count before, which is at least one.
    #[inline]
    pub(super) fn take(&mut self, net: N, place: P) -> u32 {
        let row = self.row(net);
        let Some(number) = self.position(net, place) else { return 0 };
        let entry = &mut self.entries[row.start + number];
        entry.count -= 1;
        let left = entry.count;
        if left == 0 {
            self.entries.swap(row.start + number, row.end - 1);
            self.number(net, number);
            self.used[net] -= 1;
        }
        left + 1
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use stagewright_core::cluster::DeviceId;
    use stagewright_core::contraction::NetId;
    use stagewright_core::seed;

    use super::*;

    /// Few and many places, and nets with fewer and with more pins than places, compared with counts in a table.
    #[test]
    fn counts_are_those_of_a_table() {
        for places in [3, MANY_PLACES, 100] {
            let pins = [2, 63, 64, 100, 500];
            let mut rng = seed::stream(places as u64, 0);
            let mut counts: Counts<NetId, DeviceId> = Counts::new(pins.into_iter(), places);
            let mut table = vec![vec![0u32; places]; pins.len()];
            for _ in 0..20_000 {
                let row = rng.random_range(0..pins.len());
                let (net, place) = (NetId::new(row), rng.random_range(0..places));
                let device = DeviceId::new(place);
                assert_eq!(counts.get(net, device), table[row][place]);
                let is_full = table[row].iter().sum::<u32>() as usize == pins[row];
                if table[row][place] > 0 && (is_full || rng.random_bool(0.4)) {
                    assert_eq!(counts.take(net, device), table[row][place]);
                    table[row][place] -= 1;
                } else if !is_full {
                    assert_eq!(counts.put(net, device), table[row][place]);
                    table[row][place] += 1;
                }
                let mut touched: Vec<(usize, u32)> =
                    counts.of(net).map(|(device, count)| (device.index(), count)).collect();
                touched.sort_unstable();
                let known = table[row].iter().copied().enumerate().filter(|&(_, count)| count > 0);
                assert_eq!(touched, known.collect::<Vec<_>>());
            }
        }
    }
}
