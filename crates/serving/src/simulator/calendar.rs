//! Events in the order of their times.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Added to the numbers of events that come at the end of their instant.
const LATE: u64 = 1 << 63;

/// Events to come, with the time of the last one taken. Events at one time come in the order in which they were added, so that
/// a simulation is the same in every run, but those that wait for the end of an instant come after all others.
#[derive(Debug)]
pub(super) struct Calendar<E> {
    entries: BinaryHeap<Entry<E>>,
    now: f64,
    added: u64,
}

#[derive(Debug)]
struct Entry<E> {
    time: f64,
    number: u64,
    event: E,
}

impl<E> Calendar<E> {
    /// A calendar without events at time 0.
    pub(super) fn new() -> Calendar<E> {
        Calendar { entries: BinaryHeap::new(), now: 0.0, added: 0 }
    }

    /// Time of the last event taken, in seconds.
    pub(super) fn now(&self) -> f64 {
        self.now
    }

    /// Adds an event some seconds from now. No event is before now, and one after no number of seconds never comes.
    pub(super) fn after(&mut self, seconds: f64, event: E) {
        self.at_time(self.now + seconds, event);
    }

    /// Adds an event at a time in seconds, or now if that has passed.
    pub(super) fn at_time(&mut self, time: f64, event: E) {
        if time.is_finite() {
            self.entries.push(Entry { time: time.max(self.now), number: self.added, event });
            self.added += 1;
        }
    }

    /// Adds an event now, after all others of this time.
    pub(super) fn at_end_of_instant(&mut self, event: E) {
        self.entries.push(Entry { time: self.now, number: LATE | self.added, event });
        self.added += 1;
    }

    /// Takes the next event, in time logarithmic in the number of events.
    pub(super) fn pop(&mut self) -> Option<E> {
        let entry = self.entries.pop()?;
        self.now = entry.time;
        Some(entry.event)
    }
}

impl<E> Ord for Entry<E> {
    /// Earlier entries are larger, since the heap gives the largest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.time.total_cmp(&self.time).then(other.number.cmp(&self.number))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::Calendar;

    #[test]
    fn events_come_by_time_and_then_in_their_order() {
        let mut calendar = Calendar::new();
        for (seconds, event) in [(2.0, 'c'), (1.0, 'a'), (1.0, 'b'), (f64::NAN, 'x'), (f64::INFINITY, 'x')] {
            calendar.after(seconds, event);
        }
        assert_eq!([calendar.pop(), calendar.pop()], [Some('a'), Some('b')]);
        calendar.at_end_of_instant('e');
        calendar.after(-5.0, 'd');
        assert_eq!([calendar.pop(), calendar.pop()], [Some('d'), Some('e')]);
        assert_eq!(calendar.now(), 1.0);
        assert_eq!((calendar.pop(), calendar.pop(), calendar.now()), (Some('c'), None, 2.0));
    }
}
