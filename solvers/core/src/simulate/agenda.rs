//! What is to come, the first next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// As many of what comes first are kept sorted, at most.
const SOON: usize = 32;

/// What is to come, in order. What comes first is sorted, and only what there is no room for is in a heap: a
/// step on a few devices has few events to come at any time, and what is added comes soon or among these few.
#[derive(Debug)]
pub(super) struct Agenda<T> {
    /// What comes first, the next one last. Empty only where nothing is to come.
    soon: Vec<T>,
    /// What comes after all of that.
    later: BinaryHeap<Reverse<T>>,
}

impl<T: Ord + Copy> Agenda<T> {
    /// Nothing is to come.
    pub(super) fn clear(&mut self) {
        self.soon.clear();
        self.later.clear();
    }

    /// Adds something, on average in O(log of what is to come).
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

    /// The next one.
    #[inline]
    pub(super) fn peek(&self) -> Option<T> {
        self.soon.last().copied()
    }

    /// Takes the next one.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        let next = self.soon.pop();
        if self.soon.is_empty() && !self.later.is_empty() {
            self.refill();
        }
        next
    }

    /// Sorts what comes first of what comes later.
    #[cold]
    fn refill(&mut self) {
        while self.soon.len() < SOON / 2
            && let Some(Reverse(next)) = self.later.pop()
        {
            self.soon.push(next);
        }
        self.soon.reverse();
    }

    /// Whether nothing is to come.
    pub(super) fn is_empty(&self) -> bool {
        self.soon.is_empty()
    }
}

impl<T: Ord> Default for Agenda<T> {
    /// Nothing is to come.
    fn default() -> Agenda<T> {
        Agenda { soon: Vec::new(), later: BinaryHeap::new() }
    }
}

impl<T: Clone> Clone for Agenda<T> {
    fn clone(&self) -> Agenda<T> {
        Agenda { soon: self.soon.clone(), later: self.later.clone() }
    }

    /// Allocates nothing where there was as much.
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
        /// Whatever is added and taken in whatever order, what is taken is the least there is.
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
                    all.iter().position(|&item| Some(item) == least).map(|at| all.swap_remove(at));
                }
                prop_assert_eq!(agenda.is_empty(), all.is_empty());
            }
        }
    }
}
