//! The operators that must be on an operator's own device for it to start before a given time, and their
//! duration.
//!
//! Let v be on a device d. If an operator u that it reads is on another device, v cannot start before the arrival of
//! u's tensors, at a(u). So for v to start at T < a(u), u must be on d. The same then applies to the inputs of u: if
//! such an input w is not on d, u starts no earlier than a(w), and v no earlier than a(w) + p(u). So for v to start
//! before that, w must be on d, and so on. Let S(T) be the set of all operators whose arrival, plus the duration of the
//! operators that must run on d between their arrival and v, is later than T. S(T) grows as T falls, and d runs its
//! operators before v, one after another, none before its own head; let M(S) be the end of that sequence. Then v cannot
//! start before the least T with M(S(T)) ≤ T. This T is found by lowering T from arrival to arrival.
//!
//! Jung, Kirousis and Spirakis, "Lower bounds and efficient algorithms for multiprocessor scheduling of directed
//! acyclic graphs with communication delays" (Information and Computation 1993), use the same sets for identical
//! processors and a uniform delay.

use std::collections::BinaryHeap;

use super::one_machine::Queue;
use crate::graph::OpId;
use crate::ids::Keyed;

/// Maximum number of operators of a set S(T), and of operators that each of them adds to the search. M(S) of fewer
/// operators is still a bound.
const MAX_OPERATORS: usize = 32;

/// Minimum of the limit on operators per set, which large problems reach, and limit over all sets together.
const FEWEST_OPERATORS: usize = 4;
const MAX_IN_ALL: usize = 1 << 19;

/// An operator that v's device may have to run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Neighbour {
    pub(super) op: OpId,
    /// Arrival time of the operator's tensors if the operator is on another device; infinite if it cannot be.
    pub(super) arrival: f64,
    /// Lower bound on the start of the operator on v's device.
    pub(super) head: f64,
    /// Seconds of the operator on v's device; infinite if it cannot be there.
    pub(super) seconds: f64,
}

/// An operator, ordered by the time at which v could start if this operator were on another device.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    neighbour: Neighbour,
    /// Seconds that pass on v's device between the end of the operator and the start of v.
    lag: f64,
}

impl Waiting {
    fn start(&self) -> f64 {
        self.neighbour.arrival + self.lag
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.start().total_cmp(&other.start()).then(other.neighbour.op.cmp(&self.neighbour.op))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

/// Search for the sets S(T); reuses its memory from operator to operator.
#[derive(Debug)]
pub(super) struct Local {
    most: usize,
    heap: BinaryHeap<Waiting>,
    queue: Queue,
    taken: Vec<OpId>,
    sorted: Keyed<u32, Neighbour>,
    by_head: Vec<u32>,
}

impl Local {
    /// Creates the search for `sets` sets, each of at most `limit` operators.
    pub(super) fn new(sets: usize, limit: usize) -> Local {
        Local {
            most: (MAX_IN_ALL / sets.max(1)).clamp(FEWEST_OPERATORS, MAX_OPERATORS).min(limit),
            heap: BinaryHeap::new(),
            queue: Queue::default(),
            taken: Vec::new(),
            sorted: Keyed::default(),
            by_head: Vec::new(),
        }
    }

    /// Lower bound on the start of v, from the operators that v reads, `direct`, and from those that each of these
    /// reads in turn, `reads`. Takes O(d log² d) for d operators in `direct`, and a bounded number of calls of `reads`.
    pub(super) fn start<I: Iterator<Item = Neighbour>>(
        &mut self,
        direct: impl Iterator<Item = Neighbour>,
        reads: impl Fn(OpId) -> I,
    ) -> f64 {
        self.sorted.clear();
        self.sorted.extend(direct);
        match **self.sorted {
            [] => 0.0,
            // The head of the only input already accounts for its own inputs.
            [job] => job.arrival.min(job.head + job.seconds),
            _ => {
                let direct = self.of_direct();
                // If v starts when the last input arrives, as with all inputs on other devices, no set raises the
                // bound.
                if self.sorted[0].arrival <= direct { direct } else { direct.max(self.of_all(reads)) }
            }
        }
    }

    /// Bound with S(T) restricted to direct inputs, however many, by bisection over their arrivals.
    fn of_direct(&mut self) -> f64 {
        self.sorted.sort_unstable_by(|a, b| b.arrival.total_cmp(&a.arrival).then(a.op.cmp(&b.op)));
        self.by_head.clear();
        self.by_head.extend(self.sorted.ids());
        let sorted = &self.sorted;
        self.by_head.sort_unstable_by(|&a, &b| sorted[a].head.total_cmp(&sorted[b].head).then(a.cmp(&b)));
        // The end of the first `count` inputs on this device, and the arrival of the next one from elsewhere.
        let end = |count: usize| {
            let local = self.by_head.iter().filter(|&&index| (index as usize) < count);
            local.fold(0.0, |end: f64, &index| end.max(sorted[index].head) + sorted[index].seconds)
        };
        let next = |count: usize| sorted.get(count).map_or(0.0, |next| next.arrival);
        let (mut low, mut high) = (0, sorted.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if end(middle) >= next(middle) { high = middle } else { low = middle + 1 }
        }
        // The end is non-decreasing and the arrival non-increasing in `count`, so the least of their maxima is where
        // the two meet.
        let before = if low == 0 { f64::INFINITY } else { next(low - 1) };
        end(low).max(next(low)).min(before)
    }

    /// Bound with S(T) over all ancestors, up to a number of operators.
    fn of_all<I: Iterator<Item = Neighbour>>(&mut self, reads: impl Fn(OpId) -> I) -> f64 {
        self.heap.clear();
        self.queue.clear();
        self.taken.clear();
        self.heap.extend(self.sorted.iter().map(|&neighbour| Waiting { neighbour, lag: 0.0 }));
        // The queue holds S(T) for all T from the start of the next operator up to `from`.
        let mut from = f64::INFINITY;
        while let Some(next) = self.heap.peek().copied() {
            if self.taken.len() == self.most || self.queue.lasts_until(next.start()) {
                break;
            }
            self.heap.pop();
            if self.taken.contains(&next.neighbour.op) {
                continue;
            }
            from = from.min(next.start());
            let Neighbour { op, head, seconds, .. } = next.neighbour;
            if seconds.is_infinite() {
                return from;
            }
            self.taken.push(op);
            self.queue.push(head, seconds);
            let lag = next.lag + seconds;
            self.heap.extend(reads(op).take(self.most).map(|neighbour| Waiting { neighbour, lag }));
        }
        from.min(self.queue.end())
    }
}
