//! What a plan claims of its regret when costs are off.
//!
//! The value of the plan is computed again in every scenario, and the regret from it. The best values and bounds of the
//! scenarios have no evidence: they are only compared with the value of this plan, and with each other.

use stagewright_core::document::{OffDocument, PlanDocument, RegretCaseDocument, RegretDocument};
use stagewright_core::tolerance;

use crate::constraint::Placed;
use crate::error::CheckError;
use crate::read::Problem;
use crate::score::worst::{Worst, is_defined};
use crate::violation::{Findings, Subject, ViolationKind};

/// Absolute tolerance of a regret, a small difference of large numbers.
const REGRET_ABSOLUTE: f64 = 1e-6;

/// Reports wrong claims. `placed` is the placement, if it could be scored. O(operators log sources + pins + scenarios ·
/// devices).
pub(crate) fn check(
    problem: &Problem,
    plan: &PlanDocument,
    placed: Option<&Placed>,
    findings: &mut Findings,
) -> Result<(), CheckError> {
    let Some(claimed) = &plan.regret else { return Ok(()) };
    let mut wrong = |message: String| findings.push(ViolationKind::Robust, Subject::Plan, || message);
    if !is_defined(plan) {
        wrong("a regret is only defined for throughput, in one pass and without a schedule".into());
        return Ok(());
    }
    let worst = match placed {
        Some(placed) => Worst::new(problem, placed)?,
        None => None,
    };
    let Some(worst) = worst else {
        wrong("the plan claims a regret, but has no placement to evaluate".into());
        return Ok(());
    };
    if !(0.0..1.0).contains(&claimed.deviation) {
        wrong(format!("costs are off by {:?}, expected from 0 to below 1", claimed.deviation));
        return Ok(());
    }
    if claimed.cases.first().is_none_or(|case| case.off != OffDocument::Nothing) {
        wrong("the plan claims a regret, but its first scenario is not that of costs as they are".into());
    }
    for (at, case) in claimed.cases.iter().enumerate() {
        let factors = [1.0 - claimed.deviation, 1.0 + claimed.deviation];
        let is_nothing = case.off == OffDocument::Nothing;
        let expected = if is_nothing { [1.0, 1.0] } else { factors };
        if !expected.iter().any(|&factor| tolerance::same(factor, case.factor)) {
            wrong(format!("scenario {at} has the factor {:?}", case.factor));
            continue;
        }
        if !exists(problem, &case.off) {
            wrong(format!("scenario {at} names what the model and the cluster do not have"));
            continue;
        }
        let RegretCaseDocument { value_s, best_s, bound_s, .. } = *case;
        let actual = worst.value_if(&case.off, case.factor);
        if !tolerance::same(value_s, actual) {
            wrong(format!(
                "the plan claims a value of {value_s:?} s in scenario {at}, but it is {actual:?} s"
            ));
        }
        let ascend = bound_s >= 0.0 && at_most(bound_s, best_s) && at_most(best_s, actual);
        if !ascend {
            wrong(format!(
                "scenario {at} has the bound {bound_s:?} s, the best value {best_s:?} s and the value {actual:?} s"
            ));
        }
    }
    figures(claimed, &mut wrong);
    Ok(())
}

/// Whether a model and a cluster have what is off.
fn exists(problem: &Problem, off: &OffDocument) -> bool {
    match off {
        OffDocument::Nothing | OffDocument::Links => true,
        OffDocument::Class { class } => {
            problem.cluster.kinds.iter().any(|kind| kind.document.class == *class)
        }
        OffDocument::Kind { kind } => {
            let of = |operator: &stagewright_core::document::OperatorDocument| {
                operator.kind.as_deref().unwrap_or("") == kind
            };
            problem.graph.operators.iter().any(of)
        }
    }
}

/// Compares the regret with the values of the scenarios.
fn figures(claimed: &RegretDocument, wrong: &mut impl FnMut(String)) {
    let over = |value: f64, best: f64| if value > best { value / best - 1.0 } else { 0.0 };
    let regret = claimed.cases.iter().map(|case| over(case.value_s, case.best_s)).fold(0.0, f64::max);
    let most = claimed.cases.iter().map(|case| over(case.value_s, case.bound_s)).fold(0.0, f64::max);
    let agree = |one: f64, other: f64| (one - other).abs() <= REGRET_ABSOLUTE;
    if !agree(claimed.regret, regret) {
        wrong(format!("the plan claims a regret of {:?}, but its scenarios give {regret:?}", claimed.regret));
    }
    let is_right = match claimed.at_most {
        Some(claimed) => agree(claimed, most),
        None => most.is_infinite(),
    };
    if !is_right {
        let claimed = claimed.at_most;
        wrong(format!("the plan claims a regret of at most {claimed:?}, but its scenarios give {most:?}"));
    }
    let is_bound = claimed.bound >= 0.0 && claimed.bound <= claimed.regret + REGRET_ABSOLUTE;
    if !is_bound {
        let RegretDocument { bound, regret, .. } = claimed;
        wrong(format!("the bound on the regret is {bound:?}, but the plan has a regret of {regret:?}"));
    }
    let is_least = claimed.regret <= claimed.nominal_best_regret + REGRET_ABSOLUTE;
    if !is_least {
        let (own, other) = (claimed.regret, claimed.nominal_best_regret);
        wrong(format!("the regret of {own:?} exceeds that of the nominally best plan, {other:?}"));
    }
}

fn at_most(figure: f64, limit: f64) -> bool {
    figure <= limit * (1.0 + tolerance::VALUE_RELATIVE)
}
