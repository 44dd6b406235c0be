//! Sparse pin counts per net and place: most nets touch few places.

use std::ops::Range;

use stagewright_core::ids::{Id, Keyed};

/// Counts per (net, place), where a place is a device or a group. A net of p pins touches at most p places,
/// so its row has room for min(p, places) entries, and the total memory is O(pins) for any number of places.
#[derive(Debug, Clone)]
pub(super) struct Counts<N, P> {
    /// Start of the row of each net.
    first: Keyed<N, u32>,
    /// Number of entries in use per row.
    used: Keyed<N, u32>,
    entries: Vec<Entry<P>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry<P> {
    place: P,
    count: u32,
}

impl<N: Id, P: Copy + Default + PartialEq> Counts<N, P> {
    /// All counts zero; `pins` is the number of pins of every net.
    pub(super) fn new(pins: impl Iterator<Item = usize>, places: usize) -> Counts<N, P> {
        let mut first = Keyed::default();
        let mut room = 0;
        for pins in pins {
            first.push(room as u32);
            room += pins.min(places);
        }
        Counts { used: Keyed::filled(0, first.len()), first, entries: vec![Entry::default(); room] }
    }

    #[inline]
    fn row(&self, net: N) -> Range<usize> {
        let first = self.first[net] as usize;
        first..first + self.used[net] as usize
    }

    /// Pins of a net in a place, in O(places that the net touches).
    #[inline]
    pub(super) fn get(&self, net: N, place: P) -> u32 {
        self.entries[self.row(net)].iter().find(|entry| entry.place == place).map_or(0, |entry| entry.count)
    }

    /// The places that a net touches, with its pins there.
    pub(super) fn of(&self, net: N) -> impl Iterator<Item = (P, u32)> + '_ {
        self.entries[self.row(net)].iter().map(|entry| (entry.place, entry.count))
    }

    /// Adds a pin; returns the count before.
    #[inline]
    pub(super) fn put(&mut self, net: N, place: P) -> u32 {
        let row = self.row(net);
        match self.entries[row.clone()].iter_mut().find(|entry| entry.place == place) {
            Some(entry) => {
                entry.count += 1;
                entry.count - 1
            }
            None => {
                self.entries[row.end] = Entry { place, count: 1 };
                self.used[net] += 1;
                0
            }
        }
    }

    /// Removes a pin; returns the count before, which is at least one.
    #[inline]
    pub(super) fn take(&mut self, net: N, place: P) -> u32 {
        let row = self.row(net);
        let row = &mut self.entries[row];
        let Some(at) = row.iter().position(|entry| entry.place == place) else { return 0 };
        row[at].count -= 1;
        let left = row[at].count;
        if left == 0 {
            row.swap(at, row.len() - 1);
            self.used[net] -= 1;
        }
        left + 1
    }
}
