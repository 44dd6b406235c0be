//! Queue of a device or a port.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Key that stands for an empty queue; all real keys are lower.
const NONE: u64 = u64::MAX;

/// A priority queue of keys, lowest first. Most keys arrive in ascending order and are in a deque; the others
/// are in a heap.
#[derive(Debug)]
pub(super) struct Queue {
    first: u64,
    /// The remaining keys that arrived in ascending order.
    line: VecDeque<u64>,
    others: BinaryHeap<Reverse<u64>>,
}

impl Queue {
    /// Empties the queue.
    pub(super) fn clear(&mut self) {
        self.first = NONE;
        self.line.clear();
        self.others.clear();
    }

    /// Adds a key.
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

    /// The lowest key.
    #[inline]
    pub(super) fn first(&self) -> Option<u64> {
        if self.first == NONE { None } else { Some(self.first) }
    }

    /// Removes and returns the lowest key.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<u64> {
        let first = self.first()?;
        self.first = self.next().unwrap_or(NONE);
        Some(first)
    }

    /// Removes and returns the lowest of the remaining keys.
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
    /// An empty queue.
    fn default() -> Queue {
        Queue { first: NONE, line: VecDeque::new(), others: BinaryHeap::new() }
    }
}

impl Clone for Queue {
    fn clone(&self) -> Queue {
        Queue { first: self.first, line: self.line.clone(), others: self.others.clone() }
    }

    /// Does not allocate if the existing memory suffices.
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
        /// After any sequence of insertions and removals, the lowest key comes first.
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
                    all.iter().position(|&key| Some(key) == lowest).map(|index| all.swap_remove(index));
                }
                prop_assert_eq!(queue.first(), all.iter().copied().min());
            }
        }
    }
}
