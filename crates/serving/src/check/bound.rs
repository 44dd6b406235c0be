//! Verdict on the bound of a plan.

use stagewright_core::document::{PlanStatus, ServingCertificateDocument, ServingGoal, ServingPlanDocument};
use stagewright_core::tolerance::VALUE_RELATIVE;

use super::program::Program;
use super::report::{Findings, Verdict};
use super::space::Space;
use super::totals::price;
use super::{certificate, moves, table, witness};
use crate::fleet::Problem;

/// Judges the claimed bound. `value` is that of the plan, if it holds.
pub(super) fn judge(
    problem: &Problem,
    space: &Space,
    plan: &ServingPlanDocument,
    value: Option<f64>,
    findings: &mut Findings,
) -> Verdict {
    let sign = if problem.question.goal.is_maximised() { 1.0 } else { -1.0 };
    let is_infeasible = plan.status == PlanStatus::Infeasible;
    let claimed = plan.bound.value;
    if claimed.is_none() && !is_infeasible {
        return Verdict::NoClaim;
    }
    if claimed.is_some_and(|claimed| !claimed.is_finite()) {
        findings.wrong("figure", "bound.value", "it is not finite");
        return Verdict::NotVerified;
    }
    if let (Some(claimed), Some(value)) = (claimed, value) {
        let slack = VALUE_RELATIVE * claimed.abs().max(value.abs());
        if sign * value > sign * claimed + slack {
            let message = format!("the bound is {claimed}, and the plan has the value {value}");
            findings.wrong("bound", "bound.value", message);
            return Verdict::Refuted;
        }
    }
    let program = Program::new(problem, space);
    let proved = match &plan.bound.certificate {
        Some(ServingCertificateDocument::Tree { nodes }) => certificate::bound(&program, nodes),
        Some(ServingCertificateDocument::Table {}) => table::bound(problem, space),
        None => None,
    };
    // Numbers of devices are whole, so a lower bound on them is rounded up, unless it has a price of weights.
    let proved = match problem.question.goal {
        ServingGoal::Devices if problem.question.start.is_none() => proved.map(f64::floor),
        _ => proved,
    };
    // An upper bound of R is 0 up to the rounding of the largest rate that the program allows.
    let rounding = match problem.question.goal {
        ServingGoal::Throughput if is_infeasible => VALUE_RELATIVE * program.largest_rate(&program.ranges()),
        _ => 0.0,
    };
    let is_claimed = |proved: f64| match claimed {
        Some(claimed) => proved <= sign * claimed + VALUE_RELATIVE * claimed.abs() + rounding,
        None => true,
    };
    let has_load = problem.question.concurrency.is_some() || problem.question.rate.is_some();
    let is_empty = |proved: f64| match problem.question.goal {
        ServingGoal::Throughput => proved <= rounding,
        ServingGoal::Cache if has_load => proved < -moves::highest_price(problem),
        ServingGoal::Cache => proved <= 1.0 + VALUE_RELATIVE,
        ServingGoal::Devices => -proved > problem.fleet.devices() as f64 + moves::highest_price(problem),
        ServingGoal::Price => -proved > highest_price(problem) + moves::highest_price(problem),
    };
    match proved {
        Some(proved) if is_claimed(proved) && (!is_infeasible || is_empty(proved)) => {
            Verdict::Verified { proved: sign * proved }
        }
        _ if is_infeasible && (value.is_some() || witness::exists(problem, space)) => {
            findings.wrong("bound", "bound", "the question is claimed to be infeasible, and a plan exists");
            Verdict::Refuted
        }
        _ => Verdict::NotVerified,
    }
}

/// Price of an hour of all devices, rounded up.
fn highest_price(problem: &Problem) -> f64 {
    let kinds = problem.fleet.kinds.iter().enumerate();
    let all: f64 = kinds.map(|(index, kind)| kind.count as f64 * price(problem, index)).sum();
    all * (1.0 + VALUE_RELATIVE)
}
