//! The lines before the ports.
//!
//! Requests come in the order of time, so a line is a queue: a port has as many places as transfers that ever
//! ask for it, all ports' places are one table, and its line moves from the first of its places to the last.
//! Only requests of one instant may have to pass each other.

use super::clock::above;

/// The lines of all ports.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines {
    lines: Vec<Line>,
    /// Transfers by their requests.
    places: Vec<u64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Line {
    /// Those who wait, from the first place to before the last. Who holds the port has left the line.
    first: u32,
    last: u32,
    is_held: bool,
    /// When somebody left the port last, by the number of the instant, and who.
    left: u64,
}

impl Lines {
    /// Empties all lines, for ports that have these places.
    pub(super) fn reset(&mut self, places: &[u32]) {
        self.places.resize(places.last().map_or(0, |&count| count as usize), 0);
        self.lines.clear();
        let line = |two: &[u32]| Line { first: two[0], last: two[0], ..Line::default() };
        self.lines.extend(places.windows(2).map(line));
    }

    /// A transfer joins a line behind all whose keys are lower.
    #[inline]
    pub(super) fn join(&mut self, port: u32, key: u64) {
        let line = &mut self.lines[port as usize];
        let [first, last] = [line.first, line.last].map(|place| place as usize);
        line.last += 1;
        let mut at = last;
        if first < last && self.places[last - 1] > key {
            at = first + self.places[first..last].partition_point(|&waiting| waiting < key);
            self.places.copy_within(at..last, at + 1);
        }
        self.places[at] = key;
    }

    /// The first in line.
    #[inline]
    pub(super) fn first(&self, port: u32) -> Option<u32> {
        let line = &self.lines[port as usize];
        (line.first < line.last).then(|| self.places[line.first as usize] as u32)
    }

    /// Whether a transfer is first in line at a port that carries no other.
    #[inline]
    pub(super) fn is_free_for(&self, port: u32, transfer: u32) -> bool {
        !self.lines[port as usize].is_held && self.first(port) == Some(transfer)
    }

    /// The first in line takes the port. Returns when it was left last and by whom, later times being
    /// greater; zero where nobody held it before.
    #[inline]
    pub(super) fn take(&mut self, port: u32) -> u64 {
        let line = &mut self.lines[port as usize];
        line.first += 1;
        line.is_held = true;
        line.left
    }

    /// A transfer leaves a port.
    #[inline]
    pub(super) fn leave(&mut self, port: u32, instant: u32, transfer: u32) {
        let line = &mut self.lines[port as usize];
        line.is_held = false;
        line.left = above(instant + 1, transfer);
    }
}
