//! Findings of a check.

use std::fmt;

/// Result of a check of a serving plan. All figures are recomputed.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Violations; empty if the plan holds.
    pub violations: Vec<Violation>,
    /// Value of the plan in the unit of its goal; `None` without a plan, or if the plan breaks a constraint.
    pub value: Option<f64>,
    /// Verdict on the claimed bound.
    pub bound: Verdict,
}

impl Report {
    /// Whether there is no violation.
    pub fn holds(&self) -> bool {
        self.violations.is_empty()
    }
}

/// A constraint or a claim that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Stable name. Constraints: `replica`, `layers`, `memory`, `limit`, `pools`, `devices`, `servers`, `concurrency`, `load` or `kept`. Claims:
    /// `question`, `figure`, `gap`, `status`, `bound` or `name`.
    pub kind: &'static str,
    /// Place in the plan, such as `replicas[2].stages[0]`.
    pub place: String,
    /// Sentence without the place.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Verdict on the bound of a serving plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// The plan claims no bound.
    NoClaim,
    /// Nothing refutes the bound, and no certificate proves it.
    NotVerified,
    /// The certificate proves the bound.
    Verified {
        /// The bound that the certificate proves, in the unit of the goal, after rounding against the claim;
        /// infinite if it proves that there is no plan.
        proved: f64,
    },
    /// A plan has a better value than the bound allows.
    Refuted,
}

/// Violations of a plan while it is checked.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) violations: Vec<Violation>,
    /// Whether a constraint is broken, and not just a claim wrong, so that the plan has no value.
    pub(super) is_broken: bool,
}

impl Findings {
    /// Adds a constraint that the plan breaks.
    pub(super) fn broken(
        &mut self,
        kind: &'static str,
        place: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.is_broken = true;
        self.wrong(kind, place, message);
    }

    /// Adds a claim that is wrong.
    pub(super) fn wrong(&mut self, kind: &'static str, place: impl Into<String>, message: impl Into<String>) {
        self.violations.push(Violation { kind, place: place.into(), message: message.into() });
    }
}
