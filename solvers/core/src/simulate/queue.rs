//! Who waits for a device or a port.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Nobody. Keys are lower.
const NONE: u64 = u64::MAX;

/// Those who wait for something, by keys of which the lowest goes first. Most keys come in rising order and
/// form a line; the others are in a heap.
#[derive(Debug)]
pub(super) struct Queue {
    first: u64,
    /// Of the rest, those who came in order.
    line: VecDeque<u64>,
    others: BinaryHeap<Reverse<u64>>,
}

impl Queue {
    /// Nobody waits any more.
    pub(super) fn clear(&mut self) {
        self.first = NONE;
        self.line.clear();
        self.others.clear();
    }

    /// Somebody waits as well.
    #[inline]
    pub(super) fn push(&mut self, key: u64) {
        if self.first == NONE {
            self.first = key;
            return;
        }
        let next = key.max(self.first);
        self.first = key.min(self.first);
        match self.line.back() {
            Some(&last) if last > next => self.others.push(Reverse(next)),
            _ => self.line.push_back(next),
        }
    }

    /// The key of who is first.
    #[inline]
    pub(super) fn first(&self) -> Option<u64> {
        if self.first == NONE { None } else { Some(self.first) }
    }

    /// Who is first goes.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<u64> {
        let first = self.first()?;
        self.first = self.next().unwrap_or(NONE);
        Some(first)
    }

    /// Takes who is first of the rest.
    #[inline]
    fn next(&mut self) -> Option<u64> {
        match self.others.peek() {
            Some(other) if self.line.front().is_none_or(|next| *next > other.0) => {
                self.others.pop().map(|other| other.0)
            }
            _ => self.line.pop_front(),
        }
    }
}

impl Default for Queue {
    /// Nobody waits.
    fn default() -> Queue {
        Queue { first: NONE, line: VecDeque::new(), others: BinaryHeap::new() }
    }
}

impl Clone for Queue {
    fn clone(&self) -> Queue {
        Queue { first: self.first, line: self.line.clone(), others: self.others.clone() }
    }

    /// Allocates nothing where there were as many.
    fn clone_from(&mut self, from: &Queue) {
        self.first = from.first;
        self.line.clone_from(&from.line);
        self.others.clone_from(&from.others);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whoever comes and goes in whatever order, the lowest key goes first.
        #[test]
        fn the_lowest_goes_first(steps in prop::collection::vec(prop::option::weighted(0.6, 0..1000u64), 0..300)) {
            let (mut queue, mut all) = (Queue::default(), Vec::new());
            for step in steps {
                if let Some(key) = step {
                    queue.push(key);
                    all.push(key);
                } else {
                    let lowest = all.iter().copied().min();
                    prop_assert_eq!(queue.pop(), lowest);
                    all.iter().position(|&key| Some(key) == lowest).map(|at| all.swap_remove(at));
                }
                prop_assert_eq!(queue.first(), all.iter().copied().min());
            }
        }
    }
}
