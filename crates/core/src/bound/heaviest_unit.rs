//! The heaviest unit: the least time that the heaviest colocation class takes on any stage.

use super::{Bound, LowerBound, class_seconds};
use crate::certificate::Certificate;
use crate::document::ObjectiveKind;
use crate::problem::Problem;
use crate::tolerance::round_down;

/// The maximum, over colocation classes u, of the minimum, over kinds, of the time of u divided by the maximum number
/// of replicas of a stage on that kind.
///
/// *Proof.* Some stage holds the whole class. Its load, in every communication mode, is at least its compute divided by
/// its replicas r ≤ min(R, count of the kind). With `separate` training the value is at least the forward plus the
/// backward load of that stage, and under a schedule an iteration of m microbatches takes at least m times that. For
/// the makespan, which has no replicas, one device runs the whole class, one operator after another. Valid for
/// throughput, every split rule, and for the makespan.
#[derive(Debug, Clone, Copy)]
pub struct HeaviestUnit;

impl Bound for HeaviestUnit {
    fn name(&self) -> &'static str {
        "heaviest-unit"
    }

    fn applies(&self, problem: &Problem) -> bool {
        matches!(problem.objective().kind(), ObjectiveKind::Throughput | ObjectiveKind::Makespan)
    }

    fn is_linear(&self) -> bool {
        true
    }

    fn compute(&self, problem: &Problem) -> Option<LowerBound> {
        let mut best = LowerBound::TRIVIAL;
        for (class, row) in class_seconds(problem).enumerate() {
            let least = row
                .iter()
                .enumerate()
                .filter_map(|(kind, &seconds)| {
                    let replicas =
                        problem.objective().rules().max_replicas.min(problem.cluster().kind(kind).count);
                    Some(seconds? / f64::from(replicas))
                })
                .min_by(f64::total_cmp)?;
            let value = round_down(problem.objective().repetitions() * least);
            if value > best.value {
                best = LowerBound {
                    value,
                    source: self.name(),
                    certificate: Some(Certificate::HeaviestUnit {
                        operator: problem.graph().class(class)[0],
                    }),
                };
            }
        }
        Some(best)
    }
}
