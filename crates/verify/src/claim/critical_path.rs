//! The critical path: a bound on the latency and the makespan of every plan, which needs no certificate.
//!
//! In any plan an operator runs on a device that can run its whole colocation class, so it takes at least its minimum
//! seconds over the kinds of such devices. On a path of the graph, a host operator starts when the operator before it
//! is ready. The part of the path inside a call is one piece, since the call is convex; the call starts when the
//! operator before that piece is ready, and takes at least the compute of all its operators. So the last operator of a
//! path is ready no sooner than the sum over the path, however long the transfers take. In a step, every operator of
//! the path starts when the operator before it has ended, or later.

use super::certificate::{Proof, runs_on};
use crate::read::{Problem, Tensor, cost};
use crate::topological;

/// Name of this bound's source in a plan.
pub(super) const SOURCE: &str = "critical-path";

/// The longest path with every operator at its minimum seconds. O(pins + operators · kinds).
pub(super) fn prove(problem: &Problem) -> Proof {
    let operators = problem.graph.operators;
    let mut least = vec![0.0; operators.len()];
    for (class, members) in problem.graph.classes.iter().enumerate() {
        let kinds: Vec<usize> = runs_on(problem, class).map(|(kind, _)| kind).collect();
        for &operator in members {
            let seconds = kinds
                .iter()
                .filter_map(|&kind| cost::seconds(&operators[operator], &problem.cluster.kinds[kind]));
            match seconds.reduce(f64::min) {
                Some(seconds) => least[operator] = seconds,
                None => return Proof::NoPlan,
            }
        }
    }
    let arcs: Vec<(usize, usize)> = problem.graph.tensors.iter().flat_map(Tensor::arcs).collect();
    let ends = topological::longest(&problem.graph.order, &arcs, &least);
    let bound = ends.into_iter().fold(0.0, f64::max);
    // An overflowed sum cannot be compared with a claim.
    if bound.is_finite() { Proof::Bound(bound) } else { Proof::Open }
}
