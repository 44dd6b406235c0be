//! What a plan claims of costs that are off: its worst value, when that occurs, and the figures beside it.
//!
//! The worst value is computed again, and so is the value in the scenario that the plan names. The bound on the worst value
//! of every plan has no evidence, so it is only compared with the worst value of this one, which is feasible.

use std::collections::BTreeSet;

use stagewright_core::document::{PlanDocument, RobustDocument};
use stagewright_core::tolerance;

use super::gap::GAP_ABSOLUTE;
use crate::constraint::Placed;
use crate::error::CheckError;
use crate::read::Problem;
use crate::score::worst::{Scenario, Worst, is_defined};
use crate::violation::{Findings, Subject, ViolationKind};

/// Reports wrong claims. `placed` is the placement, if it could be scored. O(operators log sources + pins).
pub(crate) fn check(
    problem: &Problem,
    plan: &PlanDocument,
    placed: Option<&Placed>,
    findings: &mut Findings,
) -> Result<(), CheckError> {
    let Some(claimed) = &plan.robust else { return Ok(()) };
    let mut wrong = |message: String| findings.push(ViolationKind::Robust, Subject::Plan, || message);
    let RobustDocument { deviation, budget, worst_s, bound_s, gap, .. } = *claimed;
    if !is_defined(plan) {
        wrong("a worst case is only defined for throughput, in one pass and without a schedule".into());
        return Ok(());
    }
    if !(0.0..=1.0).contains(&deviation) || budget == 0 {
        wrong(format!("costs are off by {deviation:?}, from at most {budget} sources"));
        return Ok(());
    }
    let scenario = scenario(problem, claimed, &mut wrong);
    let worst = match placed {
        Some(placed) => Worst::new(problem, placed)?,
        None => None,
    };
    let Some(worst) = worst else {
        wrong("the plan claims a worst case, but has no placement to evaluate".into());
        return Ok(());
    };
    let actual = worst.worst(budget, deviation);
    if !tolerance::same(worst_s, actual) {
        wrong(format!("the plan claims a worst case of {worst_s:?} s, but it is {actual:?} s"));
    }
    if let Some(scenario) = scenario {
        let value = worst.value(&scenario, deviation);
        if !tolerance::same(value, actual) {
            wrong(format!(
                "the value is {value:?} s in the scenario of the worst case, but {actual:?} s in the worst"
            ));
        }
    }
    let at_most = |figure: f64, limit: f64| figure <= limit * (1.0 + tolerance::VALUE_RELATIVE);
    if !at_most(bound_s, actual) || bound_s < 0.0 {
        wrong(format!("the bound on the worst case is {bound_s:?} s, but it is {actual:?} s"));
    }
    if !at_most(worst_s, claimed.nominal_best_worst_s) {
        let other = claimed.nominal_best_worst_s;
        wrong(format!(
            "the worst case of {worst_s:?} s exceeds that of the nominally best plan, {other:?} s"
        ));
    }
    if !at_most(claimed.nominal_best_s, claimed.nominal_best_worst_s) {
        wrong("the worst case of the nominally best plan is below its value".into());
    }
    let expected = tolerance::gap(worst_s, bound_s);
    let is_right = (gap - expected).abs() <= GAP_ABSOLUTE;
    if !is_right {
        wrong(format!("the gap of the worst case is {gap:?}, but its value and bound give {expected:?}"));
    }
    Ok(())
}

/// The scenario that the plan names, if its sources exist and are no more than the budget.
fn scenario<'a>(
    problem: &Problem,
    claimed: &'a RobustDocument,
    wrong: &mut impl FnMut(String),
) -> Option<Scenario<'a>> {
    let known: BTreeSet<&str> =
        problem.graph.operators.iter().map(|operator| operator.kind.as_deref().unwrap_or("")).collect();
    let document = &claimed.scenario;
    let kinds: BTreeSet<&str> = document.kinds.iter().map(String::as_str).collect();
    if let Some(unknown) = kinds.iter().find(|kind| !known.contains(*kind)) {
        wrong(format!("the worst case names operators of kind {unknown:?}, which the model does not have"));
        return None;
    }
    let count = kinds.len() + usize::from(document.links);
    if kinds.len() < document.kinds.len() || count as u64 > u64::from(claimed.budget) {
        let budget = claimed.budget;
        wrong(format!("the worst case names a source twice, or more than {budget} of them"));
        return None;
    }
    Some(Scenario { kinds, links: document.links })
}
