//! The check of a serving plan, independent of the solver.
//!
//! A plan is checked replica by replica: its place in the space, memory, limits and figures; and then as a whole: devices, servers, load
//! and claims. Rates are recomputed by the cost model for the layers that a plan states. The bound is replayed from the prices of its
//! certificate, or by tables, over the whole space of replicas, which is enumerated without pruning (`docs/serving.md`).
//!
//! | file | has |
//! | --- | --- |
//! | `shapes` | kinds of stages and degrees, and the groups of devices that they take |
//! | `space` | replicas of all shapes at all batches, by sizes |
//! | `kept` | replicas that run already, and claims of a plan to keep them |
//! | `servers` | groups on servers |
//! | `totals` | sums of replicas, and the rows that they break |
//! | `moves` | the price of weights that are loaded |
//! | `replicas` | replicas of a plan |
//! | `claims` | figures, gap and status of a plan |
//! | `program` | rows, columns and the bound of prices |
//! | `certificate` | trees of branching |
//! | `table` | the optimum by dynamic programming |
//! | `witness` | simple plans, against claims that there is none |
//! | `bound` | the verdict |

mod bound;
mod certificate;
mod claims;
mod kept;
mod moves;
mod program;
mod replicas;
mod report;
mod servers;
mod shapes;
mod space;
mod table;
#[cfg(test)]
mod tests;
mod totals;
mod witness;

use stagewright_core::document::ServingPlanDocument;

pub use report::{Report, Verdict, Violation};

use crate::fleet::Problem;
use report::Findings;
use space::Space;

/// Checks a plan against a problem: every replica, devices, servers, load, claims, and the certificate of the bound.
///
/// Takes a prediction for every replica of the space, for every leaf of a tree time proportional to replicas times rows, and for tables
/// time proportional to the pairs of their vectors, which are at most 3 · 10⁸.
pub fn check(problem: &Problem, plan: &ServingPlanDocument) -> Report {
    let (mut space, mut findings) = (Space::new(problem), Findings::default());
    kept::extend(problem, &mut space);
    claims::names(problem, plan, &mut findings);
    let mut parts = Vec::with_capacity(plan.replicas.len());
    for (index, document) in plan.replicas.iter().enumerate() {
        parts.extend(replicas::part(
            problem,
            &space,
            (&format!("replicas[{index}]"), document),
            &mut findings,
        ));
    }
    kept::judge(problem, plan, &mut findings);
    // Sums of a plan with replicas outside of the space say nothing.
    let is_whole = !parts.is_empty() && parts.len() == plan.replicas.len();
    let sums = is_whole.then(|| totals::totals(problem, &parts, &mut findings));
    let value = sums.as_ref().filter(|_| !findings.is_broken).map(|sums| sums.value);
    claims::figures(problem, plan, sums.as_ref(), &mut findings);
    let bound = bound::judge(problem, &space, plan, value, &mut findings);
    Report { violations: findings.violations, value, bound }
}
