//! The destructive bound: the largest target found that can be refuted.

use super::Windows;
use super::part::part;
use super::refutation::Refutation;
use super::segments::sum_of_segments;
use crate::bound::{Bound, LowerBound, strongest_before};
use crate::problem::Problem;
use crate::stop::Stop;
use crate::tolerance::{LARGEST_SUM, round_down};

/// Maximum number of operators of a segment whose length is refuted, then of a graph that is refuted as a whole.
const MAX_IN_SEGMENT: usize = 300;
const MAX_OPERATORS: usize = 1000;

/// Maximum number of nodes for one target: in a segment; for the whole graph in the first round, which precedes the
/// segments, and in the last round. Then the growth of this number from round to round.
const SEGMENT_NODES: usize = 100;
const FIRST_NODES: usize = 25;
const MAX_NODES: usize = FIRST_NODES << 16;
const GROWTH: usize = 4;

/// Maximum work ([`work`]) of all nodes together: as much for the segments as for the whole graph. The first constant
/// applies without a time limit, the second with one.
const MAX_WORK: usize = 5 << 19;
const MAX_TIMED_WORK: usize = 5 << 22;

/// Share of the time limit for the first round, then share of the remaining time for the segments.
const FIRST_SHARE: f64 = 0.1;
const SEGMENTS_SHARE: f64 = 0.5;

/// The first increase from a bound to the target above it, and the least. The first is halved from round to round, but
/// stays at least twice the least.
const FIRST_STEP: f64 = 0.04;
const LEAST_STEP: f64 = 0.001;

/// The largest T found, within limits of work, for which assuming that the step is shorter leads to a contradiction.
/// The segments of [`Segments`](super::Segments) are bounded in the same way, which raises the sum of their lengths.
///
/// *Proof.* The ends of an arc are on one device or on two, and a search tree branches on that (`refutation.rs`). A
/// step shorter than T belongs to one of the leaves. The bounds of a leaf hold for all its steps, so if they reach T in
/// every leaf, no step is shorter. A segment is a problem of its own (`part.rs`). Valid for the makespan, any priority.
/// O(pools² · arcs + pools · arcs · operators of a class · log) for a node.
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
        self.before(problem, &Stop::never())
    }

    fn before(&self, problem: &Problem, stop: &Stop) -> Option<LowerBound> {
        self.between(problem, [strongest_before(problem, stop).value, f64::INFINITY], stop)
    }
}

impl Destructive {
    /// The bound, given a known bound and the value of a plan (infinite without a plan), between which targets are
    /// chosen. `None` if no placement is feasible.
    pub fn between(&self, problem: &Problem, known: [f64; 2], stop: &Stop) -> Option<LowerBound> {
        let [mut value, limit] = known;
        let max_work = if stop.remaining().is_some() { MAX_TIMED_WORK } else { MAX_WORK };
        let share = |share: f64| stop.within(stop.remaining().map(|time| time.mul_f64(share)));
        let operators = problem.graph().operator_count();
        let left = if operators <= MAX_OPERATORS { max_work } else { 0 };
        let mut whole = Rounds { left, nodes: FIRST_NODES, step: FIRST_STEP };
        whole.run(problem, &mut value, limit, &share(FIRST_SHARE));
        let mut segments = Rounds { left: max_work, nodes: SEGMENT_NODES, step: FIRST_STEP };
        let segments_stop = share(SEGMENTS_SHARE);
        let sum = sum_of_segments(problem, stop, |ends, between, mut seconds| {
            let inside = between.len() + ends.iter().flatten().count();
            if between.len() <= MAX_IN_SEGMENT
                && inside < operators
                && segments.left > 0
                && segments_stop.reason().is_none()
                && let Some(part) = part(problem, ends, between)
            {
                segments.run(&part, &mut seconds, f64::INFINITY, &segments_stop);
            }
            seconds
        })?;
        value = value.max(round_down(sum));
        while value < round_down(limit)
            && whole.left > 0
            && whole.nodes < MAX_NODES
            && stop.reason().is_none()
        {
            whole.nodes *= GROWTH;
            whole.step = (whole.step / 2.0).max(2.0 * LEAST_STEP);
            whole.run(problem, &mut value, limit, stop);
        }
        // A larger value excludes every placement: no feasible step takes that long.
        (value <= LARGEST_SUM).then_some(LowerBound { value, source: self.name(), certificate: None })
    }
}

/// Refutations of increasing targets.
struct Rounds {
    /// Work that is left to spend.
    left: usize,
    /// Maximum number of nodes for one target.
    nodes: usize,
    /// The first increase from a bound to the target above it.
    step: f64,
}

impl Rounds {
    /// Raises `value`, a lower bound on the length of the step, to at most `limit`.
    fn run(&mut self, problem: &Problem, value: &mut f64, limit: f64, stop: &Stop) {
        let work = work(problem);
        let mut reached = *value;
        // Lowest target that was not refuted.
        let (mut least_open, mut step) = (f64::INFINITY, self.step);
        while reached > 0.0
            && reached < limit.min(LARGEST_SUM)
            && step > LEAST_STEP
            && self.left >= work
            && stop.reason().is_none()
        {
            let target = (reached * (1.0 + step)).min(limit);
            if target < least_open {
                let max_nodes = self.nodes.min(self.left / work);
                let mut refutation = Refutation { target, max_nodes, nodes: 0, stop };
                if refutation.succeeds(problem) {
                    reached = target;
                    *value = value.max(round_down(target));
                    step *= 1.5;
                } else {
                    least_open = target;
                }
                self.left = self.left.saturating_sub(refutation.nodes * work);
            }
            if target >= least_open {
                step *= 0.5;
            }
        }
    }
}

/// Work of a node, roughly: pools · (operators + arcs).
fn work(problem: &Problem) -> usize {
    let graph = problem.graph();
    let arcs: usize = graph.operators().map(|op| graph.successors(op).len()).sum();
    problem.pools().len() * (graph.operator_count() + arcs).max(1)
}
