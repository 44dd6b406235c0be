//! A priority, where the plan has one, names every operator once.
//!
//! It is the order in which operators that are ready on one device run. A plan without one, or with an empty
//! one, leaves that to the time at which they are ready.

use stagewright_core::document::PlanDocument;

use crate::read::Problem;
use crate::violation::{Findings, Subject, ViolationKind};

/// Who runs first of the operators that are ready on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Precedence {
    /// That which was ready first.
    ByTime,
    /// That which comes first in the priority; for each operator its place there.
    ByRank(Vec<usize>),
}

/// Reads the priority and reports what is wrong with it; none where some operator is not in it exactly once,
/// so that nothing says when it runs. O(operators + names).
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
