//! The aim of a search: a measure, requirements, and a limit on the value.

use stagewright_core::evaluate::Evaluation;
use stagewright_core::problem::Problem;
use stagewright_core::tolerance::VALUE_RELATIVE;

use super::Requirements;
use super::measure::{Measure, shortfall};

/// The plan of least measure among those that meet requirements and have at most a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Aim<'a> {
    pub(super) requirements: &'a Requirements,
    pub(super) measure: Measure,
    /// Largest value of a plan, in seconds; infinite if any will do.
    pub(super) limit: f64,
}

impl Aim<'_> {
    /// Whether the value of a plan is within the limit.
    pub(super) fn is_within(&self, evaluation: &Evaluation) -> bool {
        evaluation.value <= self.limit * (1.0 + VALUE_RELATIVE)
    }

    pub(super) fn shortfall(&self, problem: &Problem, evaluation: &Evaluation) -> u64 {
        shortfall(problem, self.requirements, evaluation)
    }

    /// Whether a plan meets the requirements and is within the limit.
    pub(super) fn is_met(&self, problem: &Problem, evaluation: &Evaluation) -> bool {
        self.is_within(evaluation) && self.shortfall(problem, evaluation) == 0
    }
}
