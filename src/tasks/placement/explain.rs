//! The reasons for the value of a placement, and what would change it.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Serialize;
use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{
    ObjectiveDocument, PinTargets, PinsDocument, PlanDocument, SourcesDocument, ThroughputDocument,
};
use stagewright_core::placement::Placement as Assignment;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Limits, Settings};
use stagewright_formats::calls::assign_calls;
use stagewright_formats::placement::placement;
use stagewright_report::table;
use stagewright_report::throughput::throughput;
use stagewright_report::units::percent;
use stagewright_structure::Figures;

use super::Placement;
use crate::code::U008;
use crate::explain::{
    Explanation, Sensitivity, WhatIf, as_it_is, changes, explain as explained, sensitivity, text, what_if,
};
use crate::failure::{Failure, Result};
use crate::tasks::cluster::ClusterSummary;
use crate::tasks::{Explaining, Session, Shown, json, objective_of};
use crate::{figures, reading};

/// An explanation as JSON.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    objective: ObjectiveDocument,
    #[serde(flatten)]
    explanation: Explanation,
    what_ifs: Vec<WhatIf>,
    /// Absent if the what-ifs are skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    sensitivity: Option<Sensitivity>,
    cluster: ClusterSummary,
    /// Where the seconds of the operators come from; absent if they take no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    sources: Option<SourcesDocument>,
    /// Parameters, weights, cache and work of a language model.
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<Figures>,
    #[serde(skip)]
    throughput: Option<ThroughputDocument>,
}

const SCHEMA: &str = "stagewright.explanation/1";

impl Document {
    fn text(&self, width: Option<u16>) -> String {
        let (sensitivity, known) = (self.sensitivity.as_ref(), self.throughput.as_ref());
        let mut origin = self.language.as_ref().map_or_else(Vec::new, figures::summary);
        origin.push(("cluster", self.cluster.text()));
        origin.extend(self.sources.as_ref().map(|shares| ("costs", table::sources(shares))));
        text(origin, &self.objective, &self.explanation, &self.what_ifs, sensitivity, known, width)
    }
}

/// Explains a plan.
///
/// # Errors
/// If the plan has no value (U008), or does not belong to the model and its cluster.
pub(super) fn explain(
    task: &Placement,
    mut plan: PlanDocument,
    label: &str,
    asked: Explaining<'_>,
    session: &mut Session<'_>,
) -> Result<Shown> {
    let (documents, rules) = task.planned()?;
    rules.override_document(&mut plan.objective, &task.place)?;
    assign_calls(&documents.model.graph, &documents.cluster, &mut plan);
    let objective = objective_of(&plan.objective)?;
    let batch = documents.batch();
    let mut parts = documents.clone().parts()?;
    // As in a check, both the pins of the plan and those of the request apply.
    parts.pins = both(&parts.cluster, &plan.pins, &parts.pins);
    let problem = parts.problem(objective)?;
    let placement = placement(&problem, &plan).map_err(|error| Failure::placement(label, &error))?;
    let explanation = explained(&problem, &placement);
    if !explanation.value_s.is_finite() {
        return Err(Failure::new(U008, "the plan has no value to explain")
            .at(label)
            .help("`check` lists every violation"));
    }
    let (what_ifs, sensitivity) = match asked.what_if {
        false => (Vec::new(), None),
        true => {
            let mut left = session.options.settings.limits.time;
            let what_ifs = ask(&problem, &plan, session, &mut left);
            let best = as_it_is(&what_ifs).and_then(|baseline| baseline.value_s);
            (what_ifs, sense(&problem, &placement, asked.costs_off, best, left, session))
        }
    };
    let objective = problem.objective().to_document(Some(explanation.value_s));
    let throughput = throughput(&objective, explanation.value_s, batch, problem.graph().document());
    let (cluster, sources) =
        (documents.cluster_summary(), reading::sources(&problem, &placement, &documents.coverage));
    let document = Document {
        schema: SCHEMA,
        objective,
        explanation,
        what_ifs,
        sensitivity,
        cluster,
        sources,
        language: documents.figures.clone(),
        throughput,
    };
    Ok(Shown::new(json(&document)?, move |width| document.text(width)))
}

/// The settings of a solve that may take the remaining time.
fn settings(session: &Session<'_>, time: Option<Duration>) -> Settings {
    let settings = &session.options.settings;
    Settings { limits: Limits { time, simulations: None, ..settings.limits }, ..settings.clone() }
}

/// Solves the problem for costs that are off.
fn sense(
    problem: &Problem,
    placement: &Assignment,
    deviation: f64,
    best: Option<f64>,
    left: Option<Duration>,
    session: &mut Session<'_>,
) -> Option<Sensitivity> {
    session.begin(format!("what if: costs are off by up to {}", percent(deviation)));
    match sensitivity(problem, placement, deviation, best, &settings(session, left)) {
        Ok(found) => Some(found),
        Err(error) => {
            session.note(&format!("what if: costs are off: {error}"));
            None
        }
    }
}

/// Solves the problem under every change. The changes share half of the remaining time equally; the other half is left
/// for the sensitivity.
fn ask(
    problem: &Problem,
    plan: &PlanDocument,
    session: &mut Session<'_>,
    left: &mut Option<Duration>,
) -> Vec<WhatIf> {
    let changes = changes(problem);
    let mut what_ifs = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        if session.options.settings.interrupt.load(Ordering::Relaxed) {
            session.note("interrupted: the remaining what-ifs were skipped");
            break;
        }
        let changed = match change.apply(problem) {
            Ok(changed) => changed,
            Err(why) => {
                session.note(&format!("what if: {}: {why}", change.describe()));
                continue;
            }
        };
        let rest = (2 * changes.len() - index) as u32;
        let settings = settings(session, left.map(|left| left / rest));
        let started = Instant::now();
        session.begin(format!("what if: {}", change.describe()));
        match what_if(change, &changed, plan, &settings) {
            Ok(found) => what_ifs.push(found),
            // A failed change does not discard the other answers.
            Err(error) => session.note(&format!("what if: {}: {error}", change.describe())),
        }
        *left = left.map(|left| left.saturating_sub(started.elapsed()).max(Duration::from_millis(1)));
    }
    what_ifs
}

/// Intersection of two sets of pins.
pub(super) fn both(cluster: &Cluster, first: &PinsDocument, second: &PinsDocument) -> PinsDocument {
    let mut pins = first.clone();
    for (operator, targets) in &second.0 {
        let joint = match pins.0.get(operator) {
            None => targets.clone(),
            Some(earlier) if earlier == targets => continue,
            Some(earlier) => {
                let devices = |targets: &PinTargets| -> BTreeSet<DeviceId> {
                    targets.names().iter().flat_map(|name| cluster.named(name)).collect()
                };
                let joint = devices(earlier);
                let joint =
                    joint.intersection(&devices(targets)).map(|&id| cluster.device_name(id)).collect();
                PinTargets::Any(joint)
            }
        };
        pins.0.insert(operator.clone(), joint);
    }
    pins
}
