//! The aim of a search: a measure, requirements, and limits on the value and on a second goal.

use stagewright_core::document::SecondGoal;
use stagewright_core::evaluate::Evaluation;
use stagewright_core::problem::Problem;
use stagewright_core::tolerance::VALUE_RELATIVE;

use super::Requirements;
use super::measure::{Measure, measured, shortfall};

/// The plan of least measure among those that meet requirements and are within limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Aim<'a> {
    pub(super) requirements: &'a Requirements,
    pub(super) measure: Measure,
    /// Largest value of a plan, in seconds; infinite if any will do.
    pub(super) limit: f64,
    /// Most of a second goal that a plan may have, in its unit.
    pub(super) most: Option<(SecondGoal, f64)>,
}

impl Aim<'_> {
    /// Whether the value of a plan is within the limit.
    pub(super) fn is_within(&self, evaluation: &Evaluation) -> bool {
        evaluation.value <= self.limit * (1.0 + VALUE_RELATIVE)
    }

    /// The second goal of a plan that exceeds its limit; otherwise 0.
    pub(super) fn excess(&self, problem: &Problem, evaluation: &Evaluation) -> f64 {
        let excess = |(goal, limit): (SecondGoal, f64)| {
            Some(measured(problem, goal, evaluation)).filter(|&value| value > limit * (1.0 + VALUE_RELATIVE))
        };
        self.most.and_then(excess).unwrap_or(0.0)
    }

    pub(super) fn shortfall(&self, problem: &Problem, evaluation: &Evaluation) -> u64 {
        shortfall(problem, self.requirements, evaluation)
    }

    /// Whether a plan meets the requirements and is within the limits.
    pub(super) fn is_met(&self, problem: &Problem, evaluation: &Evaluation) -> bool {
        self.is_within(evaluation)
            && self.excess(problem, evaluation) == 0.0
            && self.shortfall(problem, evaluation) == 0
    }
}
