//! One device that runs given operators one after another, each with a head before which it cannot start and
//! a tail that follows its end.
//!
//! If tasks have heads only, running them in the order of their heads ends earliest. With tails as well the problem is
//! hard (1 | r_j, q_j | C_max), but not with preemption: then the device always runs the available operator with the
//! largest tail (Jackson; Carlier, "The one-machine sequencing problem", EJOR 1982). The preemptive value is the
//! maximum, over all sets of operators, of the least head plus all seconds plus the least tail.

use std::collections::BinaryHeap;

use super::Reach;
use crate::bound::{Bound, LowerBound};
use crate::document::ObjectiveKind;
use crate::graph::OpId;
use crate::problem::Problem;
use crate::stop::Stop;
use crate::tolerance::round_down;

/// A colocation class on its device: the maximum over classes of the minimum over pools of the time that a single
/// device of the pool needs for all operators of the class, with their heads and tails there. For a class of one
/// operator this is head + seconds + tail.
///
/// *Proof.* All operators of a class run on one device, so one after another. On a device of pool k, v starts
/// at head(v, k) or later, and tail(v, k) follows its end ([`Reach`]). Preemption only shortens that. Valid
/// for the makespan, any priority. O(pools · operators log operators) after [`Reach`].
#[derive(Debug, Clone, Copy)]
pub struct OneMachine;

impl Bound for OneMachine {
    fn name(&self) -> &'static str {
        "one-machine"
    }

    fn applies(&self, problem: &Problem) -> bool {
        problem.objective().kind() == ObjectiveKind::Makespan
    }

    fn compute(&self, problem: &Problem) -> Option<LowerBound> {
        self.before(problem, &Stop::never())
    }

    fn before(&self, problem: &Problem, stop: &Stop) -> Option<LowerBound> {
        let reach = Reach::before(problem, stop)?;
        let value = longest_class(problem, &reach);
        Some(LowerBound { value: round_down(value), source: self.name(), certificate: None })
    }
}

/// The bound before rounding.
pub(super) fn longest_class(problem: &Problem, reach: &Reach<'_>) -> f64 {
    let classes = problem.graph().class_ids().map(|class| problem.graph().class(class));
    let mut machine = Machine::default();
    classes
        .map(|class| machine.of_class(problem, class, |op, pool| Job::new(reach, op, pool)))
        .fold(0.0, f64::max)
}

/// Lower bound on the step if a single device runs all of these operators, each given by its head, seconds and tail
/// there. O(operators log operators).
pub fn one_device(operators: impl Iterator<Item = [f64; 3]>) -> f64 {
    let jobs = operators.map(|[head, seconds, tail]| Job { head, seconds, tail }).collect();
    Machine { jobs, available: BinaryHeap::new() }.end()
}

/// An operator on a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) head: f64,
    pub(super) seconds: f64,
    pub(super) tail: f64,
}

impl Job {
    pub(super) fn new(reach: &Reach<'_>, op: OpId, pool: usize) -> Job {
        Job { head: reach.head(op, pool), seconds: reach.seconds(op, pool), tail: reach.tail(op, pool) }
    }
}

/// A device that may preempt its operators.
#[derive(Debug, Default)]
pub(super) struct Machine {
    jobs: Vec<Job>,
    /// The available operators: tail, as the bits of a non-negative double, and remaining seconds.
    available: BinaryHeap<(u64, u64)>,
}

impl Machine {
    /// Minimum over pools of the time that a single device needs for the operators of a class. `job` describes an
    /// operator on a pool.
    pub(super) fn of_class(
        &mut self,
        problem: &Problem,
        class: &[OpId],
        job: impl Fn(OpId, usize) -> Job,
    ) -> f64 {
        let on_pool = |pool: usize| {
            self.jobs.clear();
            self.jobs.extend(class.iter().map(|&op| job(op, pool)));
            self.end()
        };
        (0..problem.pools().len()).map(on_pool).fold(f64::INFINITY, f64::min)
    }

    /// Latest end of an operator plus its tail. O(jobs log jobs).
    fn end(&mut self) -> f64 {
        if let [job] = *self.jobs {
            return job.head + job.seconds + job.tail;
        }
        if self.jobs.iter().any(|job| !(job.head + job.seconds + job.tail).is_finite()) {
            return f64::INFINITY;
        }
        self.jobs.sort_unstable_by(|a, b| a.head.total_cmp(&b.head));
        self.available.clear();
        let (mut now, mut end) = (0.0f64, 0.0f64);
        let mut coming = self.jobs.iter().peekable();
        loop {
            if self.available.is_empty() {
                match coming.peek() {
                    Some(next) => now = now.max(next.head),
                    None => return end,
                }
            }
            while let Some(job) = coming.next_if(|job| job.head <= now) {
                self.available.push((job.tail.to_bits(), job.seconds.to_bits()));
            }
            let Some((tail, left)) = self.available.pop() else { continue };
            let (tail_seconds, left) = (f64::from_bits(tail), f64::from_bits(left));
            match coming.peek() {
                Some(next) if next.head < now + left => {
                    let rest = (now + left - next.head).min(left);
                    now = next.head;
                    self.available.push((tail, rest.to_bits()));
                }
                _ => {
                    now += left;
                    end = end.max(now + tail_seconds);
                }
            }
        }
    }
}

/// Operators of one device in the order of their heads, and the earliest time at which the last can end.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Head and seconds of each operator, sorted by head.
    jobs: Vec<[f64; 2]>,
    /// Upper bound on the end.
    at_most: f64,
}

impl Queue {
    pub(super) fn clear(&mut self) {
        self.jobs.clear();
        self.at_most = 0.0;
    }

    pub(super) fn push(&mut self, head: f64, seconds: f64) {
        let place = self.jobs.partition_point(|job| job[0] <= head);
        self.jobs.insert(place, [head, seconds]);
        self.at_most = self.at_most.max(head) + seconds;
    }

    /// Earliest time at which the last operator can end.
    pub(super) fn end(&self) -> f64 {
        self.jobs.iter().fold(0.0, |end: f64, &[head, seconds]| end.max(head) + seconds)
    }

    /// Whether the last operator cannot end before `time`. Computes the end only if the upper bound does not decide
    /// that.
    pub(super) fn lasts_until(&mut self, time: f64) -> bool {
        if self.at_most >= time {
            self.at_most = self.end();
        }
        self.at_most >= time
    }
}
