//! The second goal of a plan: its recomputed value, and the limit on the plan's value.
//!
//! The bound on the second goal has no evidence: it is compared only with the value of this plan. That no plan is better than
//! `best_s` for the objective alone is not claimed.

use stagewright_core::document::{PlanDocument, SecondGoal};
use stagewright_core::tolerance;

use super::gap::GAP_ABSOLUTE;
use crate::constraint::Placed;
use crate::constraint::memory::Memory;
use crate::constraint::requirements::counted;
use crate::read::Problem;
use crate::report::Verdict;
use crate::score::Score;
use crate::violation::{Findings, Subject, ViolationKind};

/// Reports wrong claims, and returns the verdict on the bound of the second goal; `None` without a second goal.
pub(crate) fn check(
    problem: &Problem,
    plan: &PlanDocument,
    examined: Option<&(Placed<'_>, Vec<Memory>, Score)>,
    findings: &mut Findings,
) -> Option<Verdict> {
    let claimed = plan.second_goal.as_ref()?;
    let mut wrong = Vec::new();
    let figures = [claimed.within, claimed.best_s, claimed.value, claimed.bound, claimed.gap];
    if figures.iter().any(|figure| !figure.is_finite() || *figure < 0.0) {
        wrong.push("a figure of the second goal is negative or not finite".to_owned());
    }
    match examined {
        None => wrong.push("the plan claims a second goal, but has no placement to evaluate".into()),
        Some((placed, memory, score)) => {
            let actual = measured(problem, placed, memory, score, claimed.goal);
            let goal = claimed.goal.name();
            if !tolerance::same(claimed.value, actual) {
                let value = claimed.value;
                wrong.push(format!(
                    "the plan claims {value:?} for its second goal, {goal}, but it is {actual:?}"
                ));
            }
            let limit = claimed.best_s * (1.0 + claimed.within) * (1.0 + 2.0 * tolerance::VALUE_RELATIVE);
            if score.value > limit {
                wrong.push(format!(
                    "the value of {:?} s exceeds {limit:?} s, the limit of the second goal",
                    score.value
                ));
            }
            if findings.feasible() && claimed.bound > actual * (1.0 + tolerance::VALUE_RELATIVE) {
                wrong
                    .push(format!("the bound on {goal} is {:?}, but the plan has {actual:?}", claimed.bound));
            }
        }
    }
    let gap = tolerance::gap(claimed.value, claimed.bound);
    if (claimed.gap - gap).abs() > GAP_ABSOLUTE {
        wrong.push(format!("the gap of the second goal is {:?}, but its figures give {gap:?}", claimed.gap));
    }
    let verdict = if wrong.is_empty() { Verdict::NotVerified } else { Verdict::Refuted };
    for message in wrong {
        findings.push(ViolationKind::SecondGoal, Subject::Plan, || message);
    }
    Some(verdict)
}

fn measured(
    problem: &Problem,
    placed: &Placed<'_>,
    memory: &[Memory],
    score: &Score,
    goal: SecondGoal,
) -> f64 {
    let counted = counted(problem);
    let devices = placed.devices.iter().enumerate();
    let devices = devices.filter(|(_, device)| !device.operators.is_empty());
    match goal {
        SecondGoal::Communication => devices.map(|(index, _)| score.devices[index].communication).sum(),
        SecondGoal::Memory => devices
            .filter(|(_, device)| counted[device.kind])
            .map(|(index, _)| memory[index].bytes)
            .fold(0.0, f64::max),
        SecondGoal::Devices => devices
            .filter(|(_, device)| counted[device.kind])
            .map(|(_, device)| f64::from(device.document.replicas))
            .sum(),
    }
}
