//! The check of a placement: a report for a terminal and as JSON.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Serialize;
use stagewright_core::bound::LowerBound;
use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    BoundDocument, ObjectiveDocument, PlanDocument, PlanStatus, ThroughputDocument,
};
use stagewright_core::graph::Graph;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::text::visible;
use stagewright_core::tolerance;
use stagewright_formats::calls::assign_calls;
use stagewright_report::table::{self, DeviceRow};
use stagewright_report::throughput::throughput;
use stagewright_report::units::{percent, seconds};
use stagewright_report::wrap::{self, facts};
use stagewright_verify::{BoundVerdict, Report, RobustClaim, RobustVerdict, Verdict, check as verify};

use super::explain::both;
use super::{Documents, Placement};
use crate::bounds;
use crate::failure::{Failure, Result};
use crate::tasks::cluster::ClusterSummary;
use crate::tasks::{Checked, Session, Shown, is_same_objective, json};

/// Maximum time for the strongest bound; the finished report waits for it.
const BOUNDS_TIME: Duration = Duration::from_secs(60);

/// A plan with the findings of the checker.
struct Finding {
    plan: PlanDocument,
    report: Report,
    /// The objective that the plan's own claims are about, if the claims were set aside.
    claimed: Option<ObjectiveDocument>,
    strongest: Option<LowerBound>,
    throughput: Option<ThroughputDocument>,
    cluster: ClusterSummary,
}

/// Verifies a plan.
///
/// # Errors
/// If the documents cannot be checked (codes that begin with V).
pub(super) fn check(
    task: &Placement,
    mut plan: PlanDocument,
    label: &str,
    session: &mut Session<'_>,
) -> Result<Checked> {
    let (documents, rules) = task.planned()?;
    let made_for = plan.objective.clone();
    rules.override_document(&mut plan.objective, &task.place)?;
    let is_other = !is_same_objective(&made_for, &plan.objective);
    let claimed = (is_other && set_aside(&mut plan)).then_some(made_for);
    let (graph, cluster) = (&documents.model.graph, &documents.cluster);
    if assign_calls(graph, cluster, &mut plan) {
        session.note("the split does not list calls: they were assigned, as few as the rule of calls finds");
    }
    let report = verify(graph, cluster, documents.pins.as_ref(), &plan).map_err(|error| {
        Failure::new(error.code(), error.to_string())
            .at(format!("{}, {}, {label}", documents.label, documents.cluster_label))
            .help("correct the named document; the plan itself was not checked")
    })?;
    let strongest = match session.strongest {
        Some(interrupt) => strongest(documents, &plan, &interrupt(), session),
        None => None,
    };
    let throughput =
        report.value_s.and_then(|value| throughput(&plan.objective, value, documents.batch(), graph));
    let cluster = documents.cluster_summary();
    let finding = Finding { plan, report, claimed, strongest, throughput, cluster };
    let violations = finding.report.violations.iter().map(ToString::to_string).collect();
    Ok(Checked {
        holds: finding.report.holds(),
        value: finding.report.value_s,
        bound: finding.plan.bound.value_s,
        is_proved: matches!(finding.report.bound, BoundVerdict::Verified { .. }),
        violations,
        shown: Shown::new(json(&summary(&finding))?, move |width| text(&finding, width)),
    })
}

/// The strongest bound that needs no search, recomputed by the solvers' code, so it is not an independent proof; `None`
/// if no bound has a value.
fn strongest(
    documents: &Documents,
    plan: &PlanDocument,
    interrupt: &AtomicBool,
    session: &mut Session<'_>,
) -> Option<LowerBound> {
    let objective = Objective::from_document(&plan.objective).ok()?;
    let graph = Graph::from_document(documents.model.graph.clone()).ok()?;
    let cluster = Cluster::from_document(documents.cluster.clone()).ok()?;
    let pins = both(&cluster, &plan.pins, &documents.pins.clone().unwrap_or_default());
    let problem = Problem::pinned(graph, cluster, objective, pins).ok()?;
    let (bound, is_cut_short) = bounds::strongest_within(&problem, BOUNDS_TIME, interrupt);
    if is_cut_short {
        session.note(&format!("note: the bounds were cut short after {} s", BOUNDS_TIME.as_secs()));
    }
    Some(bound).filter(|bound| bound.value > 0.0)
}

/// Removes the claims of a plan, which are about an objective other than the requested one. Returns whether there were
/// any.
fn set_aside(plan: &mut PlanDocument) -> bool {
    let PlanDocument { status, objective, bound, gap, robust, second_goal, .. } = plan;
    let is_claimed = *status != PlanStatus::Unknown || bound.value_s.is_some();
    *status = PlanStatus::Unknown;
    (objective.value_s, *gap, *robust, *second_goal) = (None, None, None, None);
    *bound = BoundDocument { value_s: None, source: "none".into(), certificate: None };
    is_claimed
}

/// The report for a terminal of `width` characters.
fn text(finding: &Finding, width: Option<u16>) -> String {
    let Finding { plan, report, claimed, strongest, throughput, cluster } = finding;
    let value = match report.value_s {
        Some(value) => table::value_line(&plan.objective, value, throughput.as_ref()),
        None if plan.devices.is_empty() => "no plan to evaluate".into(),
        None => "none: the placement cannot be evaluated".into(),
    };
    let mut lines =
        vec![("cluster", cluster.text()), ("objective", table::objective(&plan.objective)), ("value", value)];
    let loads: Vec<f64> = report.devices.iter().map(|device| device.load_s).collect();
    if let Some(bubble) = report.value_s.and_then(|value| table::bubble(&plan.objective, value, &loads)) {
        lines.push(("bubble", bubble));
    }
    if let (Some(forward), Some(backward)) = (report.forward_s, report.backward_s) {
        lines.push(("passes", format!("forward {}, backward {}", seconds(forward), seconds(backward))));
    }
    if let Some(claimed) = plan.objective.value_s {
        lines.push(("claimed", seconds(claimed)));
    }
    match claimed {
        Some(claimed) => {
            let value = claimed.value_s.map_or_else(|| "no value".into(), seconds);
            let of = table::objective(claimed);
            lines.push(("claimed", format!("{value} for another objective, not compared: {of}")));
        }
        None => lines.push(("bound", format!("{}: {}", table::bound(&plan.bound), verdict(&report.bound)))),
    }
    let value = report.value_s.filter(|_| report.is_feasible());
    lines.extend(strongest.as_ref().map(|bound| ("strongest", without_search(bound, value))));
    let stated = table::selection(plan).into_iter();
    lines.extend(stated.map(|(name, text)| match (name, report.second_goal) {
        ("second goal", Some(told)) => (name, format!("{text}: bound {}", told.name().replace('-', " "))),
        _ => (name, text),
    }));
    lines.extend(report.robust.iter().filter_map(|verdict| claim_if_off(plan, *verdict)));
    lines.push((
        "result",
        match report.violations.len() {
            0 if plan.status == PlanStatus::Infeasible => "not verified: infeasibility".into(),
            0 if claimed.is_some() => {
                "the placement is feasible; the plan's claims for another objective were not compared".into()
            }
            0 => "the plan is feasible, and its claims hold".into(),
            1 => "1 violation".into(),
            count => format!("{count} violations"),
        },
    ));
    let mut text = facts(lines, width);
    if !report.devices.is_empty() {
        let rows: Vec<DeviceRow> = report
            .devices
            .iter()
            .zip(&plan.devices)
            .map(|(device, said)| DeviceRow {
                name: table::replicated(&device.name, device.replicas),
                load: device.load_s,
                compute: device.compute_s,
                communication: device.communication_s,
                memory: device.memory_bytes,
                limit: device.memory_limit,
                operators: said.ops.len(),
            })
            .collect();
        // Uses the recomputed value, as the figures of the devices do.
        let objective = ObjectiveDocument { value_s: report.value_s, ..plan.objective.clone() };
        text = format!("{text}\n{}", table::devices(&rows, table::makespan(&objective)).text(width));
    }
    if !report.uplinks.is_empty() {
        text = format!("{text}\n{}", table::uplinks(&report.uplinks).text(width));
    }
    if !report.violations.is_empty() {
        text.push('\n');
        for violation in &report.violations {
            text.push_str(&wrap::lines(&visible(&violation.to_string()), width));
        }
    }
    text
}

/// Describes the strongest bound that needs no search, and the gap between it and a feasible value.
fn without_search(bound: &LowerBound, value: Option<f64>) -> String {
    let gap = value.map(|value| format!(", gap {}", percent(tolerance::gap(value, bound.value))));
    format!("{} ({}) without a search{}", seconds(bound.value), bound.source, gap.unwrap_or_default())
}

/// Describes a claim about costs that are off, with its verdict.
fn claim_if_off(plan: &PlanDocument, of_claim: RobustVerdict) -> Option<(&'static str, String)> {
    let RobustVerdict { claim, verdict } = of_claim;
    let robust = plan.robust.as_ref()?;
    let (label, claimed) = match claim {
        RobustClaim::WorstCase => ("worst case", seconds(robust.worst_s)),
        RobustClaim::WorstCaseBound => {
            ("worst-case bound", format!("{} ({})", seconds(robust.bound_s), robust.source))
        }
        RobustClaim::NominalWorstCase => {
            let of_worst = seconds(robust.nominal_best_worst_s);
            ("nominal best", format!("{}, worst case {of_worst}", seconds(robust.nominal_best_s)))
        }
    };
    let verdict = match verdict {
        Verdict::Verified => "verified",
        Verdict::NotVerified => "not verified",
        Verdict::Refuted => "refuted",
    };
    Some((label, format!("{claimed}: {verdict}")))
}

fn verdict(bound: &BoundVerdict) -> String {
    match bound {
        BoundVerdict::NoClaim => "not claimed".into(),
        BoundVerdict::NotVerified => "not verified".into(),
        BoundVerdict::Verified { by, proved_s } => {
            format!("verified, {} proves {}", by.name(), seconds(*proved_s))
        }
        BoundVerdict::Refuted { by, limit_s: Some(limit) } => {
            format!("refuted, {} proves at most {}", by.name(), seconds(*limit))
        }
        BoundVerdict::Refuted { by, limit_s: None } => format!("refuted by {}", by.name()),
    }
}

/// The report as JSON.
#[derive(Serialize)]
struct Summary<'a> {
    holds: bool,
    /// The cluster for which the plan was checked.
    cluster: &'a ClusterSummary,
    objective: &'a ObjectiveDocument,
    /// The objective that the plan's own claims are about, if it differs and the claims were therefore not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    claims_not_compared: Option<&'a ObjectiveDocument>,
    /// The claimed status, if it is infeasible, which cannot be verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    claim_not_verified: Option<PlanStatus>,
    value_s: Option<f64>,
    forward_s: Option<f64>,
    backward_s: Option<f64>,
    devices: Vec<DeviceSummary<'a>>,
    uplinks: Vec<UplinkSummary<'a>>,
    bound: BoundSummary,
    /// The strongest bound that needs no search, computed by the solvers' code; absent if none has a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    strongest: Option<StrongestSummary>,
    /// The claims about costs that are off; absent if the plan makes none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    robust: Vec<ClaimSummary>,
    /// The verdict on the bound of the second goal; absent if the plan has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    second_goal: Option<&'static str>,
    violations: Vec<ViolationSummary<'a>>,
}

#[derive(Serialize)]
struct DeviceSummary<'a> {
    name: &'a str,
    kind: &'a str,
    stage: Option<u32>,
    replicas: u32,
    load_s: f64,
    compute_s: f64,
    communication_s: f64,
    memory_bytes: f64,
    memory_limit_bytes: Option<f64>,
}

#[derive(Serialize)]
struct UplinkSummary<'a> {
    group: &'a str,
    load_s: f64,
}

#[derive(Serialize)]
struct BoundSummary {
    verdict: &'static str,
    by: Option<&'static str>,
    limit_s: Option<f64>,
}

#[derive(Serialize)]
struct StrongestSummary {
    value_s: f64,
    source: &'static str,
}

#[derive(Serialize)]
struct ClaimSummary {
    claim: &'static str,
    verdict: &'static str,
}

#[derive(Serialize)]
struct ViolationSummary<'a> {
    kind: &'static str,
    message: &'a str,
}

fn summary(finding: &Finding) -> Summary<'_> {
    let Finding { plan, report, claimed, strongest, cluster, .. } = finding;
    let bound = |verdict, by, limit_s| BoundSummary { verdict, by, limit_s };
    Summary {
        holds: report.holds(),
        cluster,
        // States the claimed value and the rules used for checking.
        objective: &plan.objective,
        claims_not_compared: claimed.as_ref(),
        claim_not_verified: Some(plan.status).filter(|&status| status == PlanStatus::Infeasible),
        value_s: report.value_s,
        forward_s: report.forward_s,
        backward_s: report.backward_s,
        devices: report
            .devices
            .iter()
            .map(|device| DeviceSummary {
                name: &device.name,
                kind: &device.kind,
                stage: device.stage,
                replicas: device.replicas,
                load_s: device.load_s,
                compute_s: device.compute_s,
                communication_s: device.communication_s,
                memory_bytes: device.memory_bytes,
                memory_limit_bytes: device.memory_limit,
            })
            .collect(),
        uplinks: report.uplinks.iter().map(|(group, load)| UplinkSummary { group, load_s: *load }).collect(),
        bound: match report.bound {
            BoundVerdict::NoClaim => bound("no-claim", None, None),
            BoundVerdict::NotVerified => bound("not-verified", None, None),
            BoundVerdict::Verified { by, proved_s } => bound("verified", Some(by.name()), Some(proved_s)),
            BoundVerdict::Refuted { by, limit_s } => bound("refuted", Some(by.name()), limit_s),
        },
        strongest: strongest
            .as_ref()
            .map(|bound| StrongestSummary { value_s: bound.value, source: bound.source }),
        robust: report
            .robust
            .iter()
            .map(|it| ClaimSummary { claim: it.claim.name(), verdict: it.verdict.name() })
            .collect(),
        second_goal: report.second_goal.map(|verdict| verdict.name()),
        violations: report
            .violations
            .iter()
            .map(|violation| ViolationSummary { kind: violation.kind.name(), message: &violation.message })
            .collect(),
    }
}
