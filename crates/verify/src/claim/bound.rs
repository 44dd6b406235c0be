//! The bound exceeds neither the value of a feasible plan nor the bound that its evidence proves.
//!
//! A feasible plan refutes any bound above its value, whatever the evidence. Otherwise the replayed evidence decides.
//! For throughput, that is the certificate. For latency, it is the critical path if the plan names it as the source, or
//! a certificate of windows that lists no windows, which is a path; other certificates bound loads or steps. For
//! makespan, it is the critical path or a certificate of compute alone, since a device computes for at most the
//! makespan. Windows are parts of a step, so they prove nothing about throughput. The certificate of column generation
//! also counts communication, which may overlap with compute in a step, so it proves nothing about makespan. Without
//! such evidence the bound is not verified, which is not the same as wrong.

use stagewright_core::document::{CertificateDocument, PlanDocument};
use stagewright_core::tolerance;
use stagewright_core::units::{seconds, seconds_apart};

use super::certificate::{Proof, fluid, heaviest_unit};
use super::limits::Limits;
use super::{columns, critical_path, windows};
use crate::read::{Objective, Problem};
use crate::report::{BoundEvidence, BoundVerdict};
use crate::violation::{Findings, Subject, ViolationKind};

/// Checks the bound. `value` is the recomputed value if the placement is feasible.
pub(crate) fn check(
    problem: &Problem,
    plan: &PlanDocument,
    value: Option<f64>,
    findings: &mut Findings,
) -> BoundVerdict {
    let Some(claimed) = plan.bound.value_s else { return BoundVerdict::NoClaim };
    let mut refute = |by: BoundEvidence, limit_s: Option<f64>, message: String| {
        findings.push(ViolationKind::Bound, Subject::Plan, || message);
        BoundVerdict::Refuted { by, limit_s }
    };
    if !claimed.is_finite() {
        return refute(BoundEvidence::Value, None, format!("the bound is {}", seconds(claimed)));
    }
    if let Some(value) = value
        && exceeds(claimed, value)
    {
        let [bound, taken] = seconds_apart(claimed, value);
        let message = format!("the bound is {bound}, but the plan itself takes {taken}");
        return refute(BoundEvidence::Value, Some(value), message);
    }
    let Some((by, proof)) = evidence(problem, plan) else { return BoundVerdict::NotVerified };
    let name = by.name();
    match proof {
        Proof::NoPlan | Proof::Open => BoundVerdict::NotVerified,
        Proof::Malformed(why) => refute(by, None, format!("the {name} certificate is malformed: {why}")),
        Proof::Bound(proved) if exceeds(claimed, proved) => {
            let [bound, limit] = seconds_apart(claimed, proved);
            refute(by, Some(proved), format!("the bound is {bound}, but {name} proves {limit}"))
        }
        Proof::Bound(proved_s) => BoundVerdict::Verified { by, proved_s },
    }
}

/// Replays the evidence for the bound; `None` if there is none that applies to the objective.
fn evidence(problem: &Problem, plan: &PlanDocument) -> Option<(BoundEvidence, Proof)> {
    let certified = || plan.bound.certificate.as_ref().map(|certificate| replay(problem, certificate));
    match problem.rules.objective {
        Objective::Throughput => match plan.bound.certificate {
            Some(CertificateDocument::Windows { .. }) => None,
            _ => certified(),
        },
        Objective::Latency { .. } | Objective::Makespan { .. }
            if plan.bound.source == critical_path::SOURCE =>
        {
            Some((BoundEvidence::CriticalPath, critical_path::prove(problem)))
        }
        Objective::Latency { .. } => match &plan.bound.certificate {
            Some(CertificateDocument::Windows { windows, .. }) if windows.is_empty() => certified(),
            _ => None,
        },
        Objective::Makespan { .. } => match plan.bound.certificate {
            Some(
                CertificateDocument::Fluid { .. }
                | CertificateDocument::HeaviestUnit { .. }
                | CertificateDocument::Windows { .. },
            ) => certified(),
            Some(CertificateDocument::ColumnGeneration { .. }) | None => None,
        },
    }
}

/// Replays a certificate. O(operators · kinds); for windows, plus the pins ([`windows`]); for column generation, within
/// the limits of [`columns`].
fn replay(problem: &Problem, certificate: &CertificateDocument) -> (BoundEvidence, Proof) {
    match certificate {
        CertificateDocument::Fluid { prices, memory, below_s } => {
            let proof = Limits::read(problem, memory, *below_s).map(|limits| fluid(problem, prices, &limits));
            (BoundEvidence::Fluid, proof.unwrap_or_else(Proof::Malformed))
        }
        CertificateDocument::HeaviestUnit { operator } => {
            (BoundEvidence::HeaviestUnit, heaviest_unit(problem, operator))
        }
        CertificateDocument::Windows { prices, path, windows: inside, memory, below_s } => {
            let evidence = windows::Evidence { prices, path, windows: inside };
            let proof = Limits::read(problem, memory, *below_s)
                .map(|limits| windows::replay(problem, &evidence, &limits));
            (BoundEvidence::Windows, proof.unwrap_or_else(Proof::Malformed))
        }
        CertificateDocument::ColumnGeneration { threshold_s, prices, devices, order } => {
            let evidence = columns::Evidence { threshold: *threshold_s, prices, devices, order };
            (BoundEvidence::ColumnGeneration, columns::replay(problem, &evidence))
        }
    }
}

/// Whether a bound exceeds a limit by more than rounding.
fn exceeds(claimed: f64, limit: f64) -> bool {
    claimed > limit * (1.0 + tolerance::VALUE_RELATIVE)
}
