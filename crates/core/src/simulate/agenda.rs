//! A priority queue of pending events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Maximum number of items kept sorted.
const SOON: usize = 32;

/// A priority queue, smallest item first. The first items are kept sorted, and only the overflow is in a heap: a step
/// on a few devices has few pending events at any time, and a new event usually belongs among the first.
#[derive(Debug)]
pub(super) struct Agenda<T> {
    /// The first items, with the smallest last. Empty only if the queue is empty.
    soon: Vec<T>,
    /// The items that come after all of `soon`.
    later: BinaryHeap<Reverse<T>>,
}

impl<T: Ord + Copy> Agenda<T> {
    /// Empties the queue.
    pub(super) fn clear(&mut self) {
        self.soon.clear();
        self.later.clear();
    }

    /// Adds an item, in O(log n) on average for n pending items.
    #[inline]
    pub(super) fn push(&mut self, item: T) {
        if self.later.peek().is_some_and(|first| first.0 < item) {
            self.later.push(Reverse(item));
            return;
        }
        self.soon.push(item);
        let mut places = self.soon.iter_mut().rev();
        let Some(mut place) = places.next() else { return };
        for earlier in places.take_while(|other| **other < item) {
            *place = *earlier;
            place = earlier;
        }
        *place = item;
        if self.soon.len() > SOON {
            self.later.extend(self.soon.drain(..SOON / 2).map(Reverse));
        }
    }

    /// The smallest item.
    #[inline]
    pub(super) fn peek(&self) -> Option<T> {
        self.soon.last().copied()
    }

    /// Removes and returns the smallest item.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        let next = self.soon.pop();
        if self.soon.is_empty() && !self.later.is_empty() {
            self.refill();
        }
        next
    }

    /// Moves the first items of the heap to the sorted items.
    #[cold]
    fn refill(&mut self) {
        while self.soon.len() < SOON / 2
            && let Some(Reverse(next)) = self.later.pop()
        {
            self.soon.push(next);
        }
        self.soon.reverse();
    }

    /// Whether no item is left.
    pub(super) fn is_empty(&self) -> bool {
        self.soon.is_empty()
    }
}

impl<T: Ord> Default for Agenda<T> {
    /// An empty queue.
    fn default() -> Agenda<T> {
        Agenda { soon: Vec::new(), later: BinaryHeap::new() }
    }
}

impl<T: Clone> Clone for Agenda<T> {
    fn clone(&self) -> Agenda<T> {
        Agenda { soon: self.soon.clone(), later: self.later.clone() }
    }

    /// Does not allocate if the existing memory suffices.
    fn clone_from(&mut self, from: &Agenda<T>) {
        self.soon.clone_from(&from.soon);
        self.later.clone_from(&from.later);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// After any sequence of insertions and removals, the smallest item is removed next.
        #[test]
        fn the_least_is_next(steps in prop::collection::vec(prop::option::weighted(0.6, 0..1000u32), 0..1000)) {
            let (mut agenda, mut all) = (Agenda::default(), Vec::new());
            for step in steps {
                if let Some(item) = step {
                    agenda.push(item);
                    all.push(item);
                } else {
                    let least = all.iter().copied().min();
                    prop_assert_eq!(agenda.peek(), least);
                    prop_assert_eq!(agenda.pop(), least);
                    all.iter().position(|&item| Some(item) == least).map(|index| all.swap_remove(index));
                }
                prop_assert_eq!(agenda.is_empty(), all.is_empty());
            }
        }
    }
}
