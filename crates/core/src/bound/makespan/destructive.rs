//! The destructive bound: the largest step that can be refuted.

use super::Windows;
use super::part::part;
use super::refutation::Refutation;
use super::segments::sum_of_segments;
use crate::bound::{Bound, LowerBound, strongest};
use crate::problem::Problem;
use crate::stop::Stop;
use crate::tolerance::round_down;

/// Maximum number of operators of a segment whose length is refuted, and of a graph that is refuted as a whole.
const MAX_IN_SEGMENT: usize = 300;
const MAX_OPERATORS: usize = 1000;

/// Maximum number of nodes for one target: in a segment; for the whole graph, before the segments and in the last round
/// after them; and its growth from round to round.
const SEGMENT_NODES: usize = 100;
const FIRST_NODES: usize = 25;
const MAX_NODES: usize = FIRST_NODES << 16;
const GROWTH: usize = 4;

/// Maximum number of operators of all nodes together: for the segments, and once more for the whole graph. With a time
/// limit there may be more.
const MAX_WORK: usize = 1 << 20;
const MAX_TIMED_WORK: usize = 1 << 23;

/// Share of a time limit for the segments.
const SEGMENTS_SHARE: f64 = 0.5;

/// The first increase from a bound to the target above it, halved from round to round, and the least one.
const FIRST_STEP: f64 = 0.04;
const LEAST_STEP: f64 = 0.001;

/// The largest T for which the assumption that the step is shorter leads to a contradiction. The same for the segments
/// of [`Segments`](super::Segments), whose lengths then sum to more.
///
/// *Proof.* The ends of an arc are on one device or on two: a tree branches on that (`refutation.rs`). A step shorter
/// than T is a step of one of its leaves. The bounds of a leaf hold for all its steps; if they reach T in every leaf,
/// there is none. A segment is a problem of its own (`part.rs`). Valid for the makespan, any priority. O(work · arcs per
/// operator · log) after the segments.
///
/// Klein and Scholl, "Computing lower bounds by destructive improvement: an application to resource-constrained project
/// scheduling", European Journal of Operational Research 1999.
#[derive(Debug, Clone, Copy)]
pub struct Destructive;

impl Bound for Destructive {
    fn name(&self) -> &'static str {
        "destructive"
    }

    fn applies(&self, problem: &Problem) -> bool {
        Windows.applies(problem)
    }

    fn compute(&self, problem: &Problem) -> Option<LowerBound> {
        self.before(problem, &Stop::new(None, Default::default()))
    }

    fn before(&self, problem: &Problem, stop: &Stop) -> Option<LowerBound> {
        self.between(problem, [strongest(problem).value, f64::INFINITY], stop)
    }
}

impl Destructive {
    /// The bound, given one that is known and the value of a plan, infinite without one: targets are between these.
    pub fn between(&self, problem: &Problem, known: [f64; 2], stop: &Stop) -> Option<LowerBound> {
        let [mut value, most] = known;
        let work = if stop.remaining().is_some() { MAX_TIMED_WORK } else { MAX_WORK };
        let operators = problem.graph().operator_count();
        let mut whole = Rounds {
            left: if operators <= MAX_OPERATORS { work } else { 0 },
            nodes: FIRST_NODES,
            step: FIRST_STEP,
        };
        whole.next(problem, &mut value, most, stop);
        let mut segments = Rounds { left: work, nodes: SEGMENT_NODES, step: FIRST_STEP };
        let first = stop.within(stop.remaining().map(|time| time.mul_f64(SEGMENTS_SHARE)));
        let sum = sum_of_segments(problem, stop, |ends, between, mut seconds| {
            let inside = between.len() + ends.iter().flatten().count();
            if between.len() <= MAX_IN_SEGMENT
                && inside < operators
                && segments.left > 0
                && let Some(part) = part(problem, ends, between)
            {
                segments.next(&part, &mut seconds, f64::INFINITY, &first);
            }
            seconds
        })?;
        value = value.max(round_down(sum));
        while value < round_down(most)
            && whole.left > 0
            && whole.nodes <= MAX_NODES
            && stop.reason().is_none()
        {
            whole.nodes *= GROWTH;
            whole.step = (whole.step / 2.0).max(2.0 * LEAST_STEP);
            whole.next(problem, &mut value, most, stop);
        }
        Some(LowerBound { value, source: self.name(), certificate: None })
    }
}

/// Refutations of growing targets.
struct Rounds {
    /// Number of operators of nodes that remain.
    left: usize,
    /// Maximum number of nodes for one target.
    nodes: usize,
    /// The first increase from a bound to the target above it.
    step: f64,
}

impl Rounds {
    /// Raises a lower bound on the step, to at most `most`.
    fn next(&mut self, problem: &Problem, value: &mut f64, most: f64, stop: &Stop) {
        let mut reached = *value;
        let (mut open, mut step) = (f64::INFINITY, self.step);
        while reached > 0.0 && reached < most && step > LEAST_STEP && self.left > 0 && stop.reason().is_none()
        {
            let target = (reached * (1.0 + step)).min(most);
            if target < open {
                let mut refutation = Refutation { target, most: self.nodes, nodes: 0, stop };
                if refutation.succeeds(problem) {
                    reached = target;
                    *value = value.max(round_down(target));
                    step *= 1.5;
                } else {
                    open = target;
                }
                self.left = self.left.saturating_sub(refutation.nodes * problem.graph().operator_count());
            }
            if target >= open {
                step *= 0.5;
            }
        }
    }
}
