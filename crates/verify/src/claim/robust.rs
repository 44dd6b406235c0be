//! The plan's claims about its worst case: the worst value, the scenario in which it occurs, and related figures.
//!
//! The worst value is recomputed, and so is the value in the scenario that the plan names. The bound on the worst value
//! of every plan has no evidence, so it is only compared with the worst value of this plan, if the plan is feasible.
//! The nominally best plan is not in the document, so its figures are only compared with each other and with those of
//! this plan.

use std::collections::BTreeSet;

use stagewright_core::document::{PlanDocument, RobustDocument};
use stagewright_core::tolerance;
use stagewright_core::units::{percent, percent_apart, seconds, seconds_apart};

use super::gap::GAP_ABSOLUTE;
use crate::constraint::Placed;
use crate::error::CheckError;
use crate::read::Problem;
use crate::report::RobustClaim::{NominalWorstCase, WorstCase, WorstCaseBound};
use crate::report::{RobustClaim, RobustVerdict, Verdict};
use crate::score::worst::{Scenario, Worst, is_defined};
use crate::violation::{Findings, Subject, ViolationKind};

/// Reports wrong claims, and returns the verdict on each. `placed` is the placement, if it could be scored. O(operators
/// log sources + pins).
pub(crate) fn check(
    problem: &Problem,
    plan: &PlanDocument,
    placed: Option<&Placed>,
    findings: &mut Findings,
) -> Result<Vec<RobustVerdict>, CheckError> {
    let Some(claimed) = &plan.robust else { return Ok(Vec::new()) };
    let mut claims = Claims::new(
        findings,
        &[
            (WorstCase, Verdict::Verified),
            (WorstCaseBound, Verdict::NotVerified),
            (NominalWorstCase, Verdict::NotVerified),
        ],
    );
    let RobustDocument { deviation, budget, worst_s, bound_s, gap, .. } = *claimed;
    let Some(worst) = claims.loads(problem, plan, placed)? else {
        return Ok(claims.finish());
    };
    if !(0.0..=1.0).contains(&deviation) || budget == 0 {
        let deviation = percent(deviation);
        claims.refute_all(format!("costs are off by {deviation}, from at most {budget} sources"));
        return Ok(claims.finish());
    }
    let actual = worst.worst(budget, deviation);
    if !tolerance::same(worst_s, actual) {
        let [worst_s, actual] = seconds_apart(worst_s, actual);
        let message = format!("the plan claims a worst case of {worst_s}, but it is {actual}");
        claims.refute(WorstCase, message);
    }
    if let Err(message) = check_scenario(problem, claimed, &worst, actual) {
        claims.refute(WorstCase, message);
    }
    let exceeds = claims.is_feasible() && !at_most(bound_s, actual);
    if exceeds || bound_s < 0.0 {
        let [bound_s, actual] = seconds_apart(bound_s, actual);
        let message = format!("the bound on the worst case is {bound_s}, but it is {actual}");
        claims.refute(WorstCaseBound, message);
    }
    claims.check_nominal(claimed, plan.objective.value_s);
    let expected = tolerance::gap(worst_s, bound_s);
    let is_right = (gap - expected).abs() <= GAP_ABSOLUTE;
    if !is_right {
        let [gap, expected] = percent_apart(gap, expected);
        let message = format!("the gap of the worst case is {gap}, but its value and bound give {expected}");
        claims.refute(WorstCaseBound, message);
    }
    Ok(claims.finish())
}

/// Checks that the worst case, whose value is `actual`, occurs in the scenario that the plan names.
fn check_scenario(
    problem: &Problem,
    claimed: &RobustDocument,
    worst: &Worst<'_>,
    actual: f64,
) -> Result<(), String> {
    let value = worst.value(&scenario(problem, claimed)?, claimed.deviation);
    match tolerance::same(value, actual) {
        true => Ok(()),
        false => {
            let [value, actual] = seconds_apart(value, actual);
            Err(format!("the value is {value} in the scenario of the worst case, but {actual} in the worst"))
        }
    }
}

/// The scenario that the plan names, if its sources exist and their number is within the budget; otherwise the fault.
fn scenario<'a>(problem: &Problem, claimed: &'a RobustDocument) -> Result<Scenario<'a>, String> {
    let known: BTreeSet<&str> =
        problem.graph.operators.iter().map(|operator| operator.kind.as_deref().unwrap_or("")).collect();
    let document = &claimed.scenario;
    let kinds: BTreeSet<&str> = document.kinds.iter().map(String::as_str).collect();
    if let Some(unknown) = kinds.iter().find(|kind| !known.contains(*kind)) {
        return Err(format!(
            "the worst case names operators of kind {unknown:?}, which the model does not have"
        ));
    }
    let count = kinds.len() + usize::from(document.links);
    if kinds.len() < document.kinds.len() || count as u64 > u64::from(claimed.budget) {
        let budget = claimed.budget;
        return Err(format!("the worst case names a source twice, or more than {budget} of them"));
    }
    Ok(Scenario { kinds, links: document.links })
}

/// The verdicts on the claims about the worst case; each verdict stands unless its claim is refuted.
struct Claims<'a> {
    findings: &'a mut Findings,
    verdicts: Vec<RobustVerdict>,
}

impl<'a> Claims<'a> {
    fn new(findings: &'a mut Findings, verdicts: &[(RobustClaim, Verdict)]) -> Self {
        let verdict = |&(claim, verdict): &(RobustClaim, Verdict)| RobustVerdict { claim, verdict };
        Claims { findings, verdicts: verdicts.iter().map(verdict).collect() }
    }

    /// Reports the fault of a claim.
    fn refute(&mut self, claim: RobustClaim, message: String) {
        self.findings.push(ViolationKind::Robust, Subject::Plan, || message);
        for of_claim in self.verdicts.iter_mut().filter(|verdict| verdict.claim == claim) {
            of_claim.verdict = Verdict::Refuted;
        }
    }

    /// Reports why none of the claims can hold.
    fn refute_all(&mut self, message: String) {
        self.findings.push(ViolationKind::Robust, Subject::Plan, || message);
        self.verdicts.iter_mut().for_each(|verdict| verdict.verdict = Verdict::Refuted);
    }

    /// Whether the placement is feasible, so that its value refutes bounds above it.
    fn is_feasible(&self) -> bool {
        self.findings.feasible()
    }

    /// The loads of the placement by source. `None`, with a violation, if no worst case is defined for the objective or
    /// there is no placement to evaluate.
    fn loads<'p>(
        &mut self,
        problem: &Problem<'p>,
        plan: &PlanDocument,
        placed: Option<&Placed>,
    ) -> Result<Option<Worst<'p>>, CheckError> {
        if !is_defined(plan) {
            let rules = "is only defined for throughput, in one pass and without a schedule";
            self.refute_all(format!("a worst case {rules}"));
            return Ok(None);
        }
        let worst = match placed {
            Some(placed) => Worst::new(problem, placed)?,
            None => None,
        };
        if worst.is_none() {
            self.refute_all("the plan claims a worst case, but has no placement to evaluate".into());
        }
        Ok(worst)
    }

    /// Checks the figures of the nominally best plan against each other and against the `value` of this plan.
    fn check_nominal(&mut self, claimed: &RobustDocument, value: Option<f64>) {
        let (worst_s, other) = (claimed.worst_s, claimed.nominal_best_worst_s);
        if !at_most(worst_s, other) {
            let [worst_s, other] = seconds_apart(worst_s, other);
            let message =
                format!("the worst case of {worst_s} exceeds that of the nominally best plan, {other}");
            self.refute(NominalWorstCase, message);
        }
        if !at_most(claimed.nominal_best_s, other) {
            let message = "the worst case of the nominally best plan is below its value".into();
            self.refute(NominalWorstCase, message);
        }
        let nominal = value.filter(|_| self.is_feasible());
        let best = claimed.nominal_best_s;
        if best < 0.0 {
            self.refute(
                NominalWorstCase,
                format!("the nominally best plan has a value of {}", seconds(best)),
            );
        } else if let Some(value) = nominal.filter(|&value| !at_most(best, value)) {
            let [best, value] = seconds_apart(best, value);
            let message = format!("the nominally best plan has a value of {best}, and this plan {value}");
            self.refute(NominalWorstCase, message);
        }
    }

    fn finish(self) -> Vec<RobustVerdict> {
        self.verdicts
    }
}

/// Whether a figure is at most a limit, up to rounding.
fn at_most(figure: f64, limit: f64) -> bool {
    figure <= limit * (1.0 + tolerance::VALUE_RELATIVE)
}
