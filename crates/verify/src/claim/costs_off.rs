//! The claims of a plan about costs that are off, with the verdicts on them.

use stagewright_core::document::PlanDocument;
use stagewright_core::tolerance;

use crate::constraint::Placed;
use crate::error::CheckError;
use crate::read::Problem;
use crate::report::{RobustClaim, RobustVerdict, Verdict};
use crate::score::worst::{Worst, is_defined};
use crate::violation::{Findings, Subject, ViolationKind};

/// The claims, each with the verdict that it gets unless it is refuted.
pub(super) struct Claims<'a> {
    findings: &'a mut Findings,
    verdicts: Vec<RobustVerdict>,
}

impl<'a> Claims<'a> {
    pub(super) fn new(findings: &'a mut Findings, verdicts: &[(RobustClaim, Verdict)]) -> Self {
        let verdict = |&(claim, verdict): &(RobustClaim, Verdict)| RobustVerdict { claim, verdict };
        Claims { findings, verdicts: verdicts.iter().map(verdict).collect() }
    }

    /// Reports what is wrong with a claim.
    pub(super) fn refute(&mut self, claim: RobustClaim, message: String) {
        self.findings.push(ViolationKind::Robust, Subject::Plan, || message);
        for of_claim in self.verdicts.iter_mut().filter(|verdict| verdict.claim == claim) {
            of_claim.verdict = Verdict::Refuted;
        }
    }

    /// Reports why none of the claims can hold.
    pub(super) fn refute_all(&mut self, message: String) {
        self.findings.push(ViolationKind::Robust, Subject::Plan, || message);
        self.verdicts.iter_mut().for_each(|verdict| verdict.verdict = Verdict::Refuted);
    }

    /// Whether the placement is feasible, so that its value refutes bounds above it.
    pub(super) fn is_feasible(&self) -> bool {
        self.findings.feasible()
    }

    /// The loads of the placement by source. `None`, with a violation, if `what` is not defined for the objective or
    /// there is no placement to evaluate.
    pub(super) fn loads<'p>(
        &mut self,
        problem: &Problem<'p>,
        plan: &PlanDocument,
        placed: Option<&Placed>,
        what: &str,
    ) -> Result<Option<Worst<'p>>, CheckError> {
        if !is_defined(plan) {
            let rules = "is only defined for throughput, in one pass and without a schedule";
            self.refute_all(format!("{what} {rules}"));
            return Ok(None);
        }
        let worst = match placed {
            Some(placed) => Worst::new(problem, placed)?,
            None => None,
        };
        if worst.is_none() {
            self.refute_all(format!("the plan claims {what}, but has no placement to evaluate"));
        }
        Ok(worst)
    }

    pub(super) fn finish(self) -> Vec<RobustVerdict> {
        self.verdicts
    }
}

/// Whether a figure is at most a limit, up to rounding.
pub(super) fn at_most(figure: f64, limit: f64) -> bool {
    figure <= limit * (1.0 + tolerance::VALUE_RELATIVE)
}
