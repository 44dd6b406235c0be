//! The status is consistent with the value and the bound.
//!
//! | status | value | bound |
//! | --- | --- | --- |
//! | optimal | given | given, and equal to the value within the optimality tolerance |
//! | feasible | given | any |
//! | infeasible | null, and no devices | any |
//! | unknown | null | any |
//!
//! A placement without claims, such as an expert's split, has status unknown and devices. A graph without
//! operators needs no value.

use stagewright_core::document::{PlanDocument, PlanStatus};
use stagewright_core::tolerance;
use stagewright_core::units::{seconds, seconds_apart};

use crate::violation::{Findings, Subject, ViolationKind};

/// Reports a status that contradicts the rest of the plan.
pub(crate) fn check(plan: &PlanDocument, operators: usize, findings: &mut Findings) {
    let mut wrong = |message: String| findings.push(ViolationKind::Status, Subject::Plan, || message);
    let value = plan.objective.value_s;
    match plan.status {
        PlanStatus::Optimal | PlanStatus::Feasible => {
            if value.is_none() && operators > 0 {
                wrong("the status promises a plan, but the value is null".to_owned());
            }
        }
        PlanStatus::Infeasible => {
            if value.is_some() || !plan.devices.is_empty() {
                wrong("the status is infeasible, but the plan has a value or devices".to_owned());
            }
        }
        PlanStatus::Unknown => {
            if let Some(value) = value {
                wrong(format!("the status is unknown, but the value is {}", seconds(value)));
            }
        }
    }
    if plan.status == PlanStatus::Optimal
        && let Some(value) = value
    {
        match plan.bound.value_s {
            None => wrong("the status is optimal, but there is no bound".to_owned()),
            Some(bound) if tolerance::gap(value, bound) > 0.0 => {
                let [value, bound] = seconds_apart(value, bound);
                wrong(format!("the status is optimal, but the value is {value} and the bound {bound}"));
            }
            Some(_) => {}
        }
    }
}
