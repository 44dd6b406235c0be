//! The priority of a plan, if any, names every operator exactly once.
//!
//! The priority is the order in which the ready operators of a device run. If it is absent or empty, they run in the
//! order in which they became ready.

use stagewright_core::document::PlanDocument;

use crate::read::Problem;
use crate::violation::{Findings, Subject, ViolationKind};

/// Order in which ready operators of a device run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Precedence {
    /// By the time at which operators became ready.
    ByTime,
    /// By the priority; the rank of each operator.
    ByRank(Vec<usize>),
}

/// Reads the priority and reports violations. Returns `None` if the priority does not name every operator exactly once,
/// which leaves the order undefined. O(operators + names).
pub(crate) fn check(problem: &Problem, plan: &PlanDocument, findings: &mut Findings) -> Option<Precedence> {
    let Some(priority) = plan.priority.as_ref().filter(|priority| !priority.is_empty()) else {
        return Some(Precedence::ByTime);
    };
    let mut sound = true;
    let mut wrong = |name: &String, message: &dyn Fn() -> String| {
        sound = false;
        findings.push(ViolationKind::Priority, Subject::Operator(name.clone()), message);
    };
    let mut rank_of: Vec<Option<usize>> = vec![None; problem.graph.operators.len()];
    for (rank, name) in priority.iter().enumerate() {
        let Some(operator) = problem.graph.find(name) else {
            wrong(name, &|| format!("the priority names {name:?}, which the graph lacks"));
            continue;
        };
        match rank_of[operator] {
            Some(_) => wrong(name, &|| format!("the priority names operator {name:?} more than once")),
            None => rank_of[operator] = Some(rank),
        }
    }
    for (operator, rank) in problem.graph.operators.iter().zip(&rank_of) {
        if rank.is_none() {
            wrong(&operator.name, &|| format!("the priority leaves operator {:?} out", operator.name));
        }
    }
    let ranks: Option<Vec<usize>> = rank_of.into_iter().collect();
    ranks.filter(|_| sound).map(Precedence::ByRank)
}
