//! The critical path: one operator after another, each on its fastest pool.

use super::{Bound, LowerBound};
use crate::document::ObjectiveKind;
use crate::problem::Problem;
use crate::tolerance::round_down;

/// The longest path of operators, each at its minimum time on any pool.
///
/// *Proof.* By induction along a path: an operator v on the path is not ready before the sum of the least times up to
/// and including v. If v is on a host, it is ready its own time after the operator before it. If v is in a call, the
/// call is convex, so the operators of the path that it contains up to v are consecutive. The call starts no earlier
/// than the operator before them is ready, and computes for at least the sum of their least times. Transfers only add
/// to that. For the makespan, an operator starts after its predecessors have ended. Valid for latency and the makespan.
/// O(pools · operators + edges).
#[derive(Debug, Clone, Copy)]
pub struct CriticalPath;

impl Bound for CriticalPath {
    fn name(&self) -> &'static str {
        "critical-path"
    }

    fn applies(&self, problem: &Problem) -> bool {
        matches!(problem.objective().kind(), ObjectiveKind::Latency | ObjectiveKind::Makespan)
    }

    fn is_linear(&self) -> bool {
        true
    }

    fn compute(&self, problem: &Problem) -> Option<LowerBound> {
        let graph = problem.graph();
        let mut ready = vec![0.0f64; graph.operator_count()];
        for &op in graph.topological() {
            let pools = 0..problem.pools().len();
            let least = pools.filter_map(|pool| problem.seconds(op, pool)).min_by(f64::total_cmp)?;
            let inputs = graph.predecessors(op).iter().map(|&from| ready[from.index()]);
            ready[op.index()] = inputs.fold(0.0, f64::max) + least;
        }
        let longest = ready.into_iter().fold(0.0, f64::max);
        Some(LowerBound { value: round_down(longest), source: self.name(), certificate: None })
    }
}
