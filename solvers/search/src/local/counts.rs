//! Sparse pin counts per net and place: most nets touch few places.

/// Counts per (net, place), where a place is a device or a group. A net of p pins touches at most p places,
/// so its row has room for min(p, places) entries, and the total memory is O(pins) for any number of places.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    /// Start of the row of each net.
    first: Vec<u32>,
    /// Number of entries in use per row.
    used: Vec<u32>,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    place: u32,
    count: u32,
}

impl Counts {
    /// All counts zero; `pins` is the number of pins of every net.
    pub(super) fn new(pins: impl Iterator<Item = usize>, places: usize) -> Counts {
        let mut first = Vec::new();
        let mut room = 0;
        for pins in pins {
            first.push(room as u32);
            room += pins.min(places);
        }
        Counts { used: vec![0; first.len()], first, entries: vec![Entry::default(); room] }
    }

    #[inline]
    fn row(&self, net: usize) -> &[Entry] {
        let first = self.first[net] as usize;
        &self.entries[first..first + self.used[net] as usize]
    }

    /// Pins of a net in a place, in O(places that the net touches).
    #[inline]
    pub(super) fn get(&self, net: usize, place: u32) -> u32 {
        self.row(net).iter().find(|entry| entry.place == place).map_or(0, |entry| entry.count)
    }

    /// The places that a net touches, with its pins there.
    pub(super) fn of(&self, net: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.row(net).iter().map(|entry| (entry.place, entry.count))
    }

    /// Adds a pin; returns the count before.
    #[inline]
    pub(super) fn put(&mut self, net: usize, place: u32) -> u32 {
        let (first, used) = (self.first[net] as usize, self.used[net] as usize);
        match self.entries[first..first + used].iter_mut().find(|entry| entry.place == place) {
            Some(entry) => {
                entry.count += 1;
                entry.count - 1
            }
            None => {
                self.entries[first + used] = Entry { place, count: 1 };
                self.used[net] += 1;
                0
            }
        }
    }

    /// Removes a pin; returns the count before, which is at least one.
    #[inline]
    pub(super) fn take(&mut self, net: usize, place: u32) -> u32 {
        let (first, used) = (self.first[net] as usize, self.used[net] as usize);
        let row = &mut self.entries[first..first + used];
        let Some(at) = row.iter().position(|entry| entry.place == place) else { return 0 };
        row[at].count -= 1;
        let left = row[at].count;
        if left == 0 {
            row.swap(at, used - 1);
            self.used[net] -= 1;
        }
        left + 1
    }
}
