//! `explain`: the reasons for the value of a plan, and what would change it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use stagewright::calls::assign_calls;
use stagewright::core::cluster::{Cluster, DeviceId};
use stagewright::core::document::{ObjectiveDocument, PinTargets, PinsDocument, PlanDocument};
use stagewright::core::placement::Placement;
use stagewright::core::problem::Problem;
use stagewright::explain::{
    Explanation, Sensitivity, WhatIf, WhatIfEffort, as_it_is, changes, explain, sensitivity, text, what_if,
};
use stagewright::placement::placement;
use stagewright::report::throughput::throughput;
use stagewright::report::units::percent;

use super::args::ExplainArguments;
use super::error::{CliError, Result};
use super::exit::Exit;
use super::resolve::{Parts, Solving};
use super::{interrupt, joint, output, resolve};

/// The output of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    objective: &'a ObjectiveDocument,
    #[serde(flatten)]
    explanation: &'a Explanation,
    what_ifs: &'a [WhatIf],
    /// Absent if the what-ifs are skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    sensitivity: Option<&'a Sensitivity>,
}

/// Share by which costs are off, unless it is given.
const COSTS_OFF: &str = "10%";

const SCHEMA: &str = "stagewright.explanation/1";

pub(crate) fn run(arguments: &ExplainArguments) -> Result<Exit> {
    if let Some(exit) = joint::explain_if_joint(arguments)? {
        return Ok(exit);
    }
    let solving = resolve::solving(&arguments.solve)?;
    let deviation = resolve::deviation("--costs-off", arguments.costs_off.as_deref().unwrap_or(COSTS_OFF))?;
    let (documents, mut plan, label) = resolve::planned(&arguments.model, &arguments.plan)?;
    resolve::override_objective(&mut plan.objective, &arguments.objective)?;
    assign_calls(&documents.model.graph, &documents.cluster, &mut plan);
    let objective = resolve::objective_of(&plan.objective)?;
    let batch = documents.batch();
    let Parts { label: model, graph, cluster, pins } = resolve::parts(documents)?;
    // As in `check`, both the pins of the plan and those of the pins file apply.
    let pins = both(&cluster, &plan.pins, &pins);
    let problem =
        Problem::new(graph, cluster, objective, pins).map_err(|error| CliError::problem(&model, &error))?;
    let placement = placement(&problem, &plan).map_err(|error| CliError::placement(&label, &error))?;
    let explanation = explain(&problem, &placement);
    if !explanation.value_s.is_finite() {
        return Err(CliError::new("U008", "the plan has no value to explain")
            .at(label)
            .help("`check` lists every violation"));
    }
    let (what_ifs, sensitivity) = match arguments.no_what_if {
        true => (Vec::new(), None),
        false => {
            let interrupt = interrupt::watch();
            let mut left = solving.limits.time;
            let what_ifs = ask(&problem, &plan, &solving, &interrupt, &mut left);
            let best = as_it_is(&what_ifs).and_then(|baseline| baseline.value_s);
            let effort = effort(&solving, left, &interrupt);
            (what_ifs, sense(&problem, &placement, deviation, best, &effort))
        }
    };
    let document = problem.objective().to_document(Some(explanation.value_s));
    let known = throughput(&document, explanation.value_s, batch, problem.graph().document());
    match arguments.json {
        true => output::data(&output::json(&Document {
            schema: SCHEMA,
            objective: &document,
            explanation: &explanation,
            what_ifs: &what_ifs,
            sensitivity: sensitivity.as_ref(),
        })?)?,
        false => {
            let (sensitivity, known) = (sensitivity.as_ref(), known.as_ref());
            output::result(&text(&document, &explanation, &what_ifs, sensitivity, known, output::width()))?;
        }
    }
    Ok(Exit::Done)
}

/// The limits of a solve, with the time that is left.
fn effort(solving: &Solving, time: Option<Duration>, interrupt: &Arc<AtomicBool>) -> WhatIfEffort {
    WhatIfEffort {
        time,
        memory: solving.limits.memory,
        threads: solving.threads,
        gap: solving.limits.gap,
        seed: solving.seed,
        interrupt: interrupt.clone(),
    }
}

/// Solves the problem for costs that are off.
fn sense(
    problem: &Problem,
    placement: &Placement,
    deviation: f64,
    best: Option<f64>,
    effort: &WhatIfEffort,
) -> Option<Sensitivity> {
    output::note(&format!("what if: costs are off by up to {}", percent(deviation)));
    match sensitivity(problem, placement, deviation, best, effort) {
        Ok(found) => Some(found),
        Err(error) => {
            output::note(&format!("what if: costs are off: {error}"));
            None
        }
    }
}

/// Solves the problem under every change. Each gets an equal share of half the time that is left, and the sensitivity
/// the rest.
fn ask(
    problem: &Problem,
    plan: &PlanDocument,
    solving: &Solving,
    interrupt: &Arc<AtomicBool>,
    left: &mut Option<Duration>,
) -> Vec<WhatIf> {
    let changes = changes(problem);
    let mut what_ifs = Vec::new();
    for (at, change) in changes.iter().enumerate() {
        if interrupt.load(Ordering::Relaxed) {
            output::note("interrupted: the remaining what-ifs were skipped");
            break;
        }
        let changed = match change.apply(problem) {
            Ok(changed) => changed,
            Err(why) => {
                output::note(&format!("what if: {}: {why}", change.describe()));
                continue;
            }
        };
        let rest = (2 * changes.len() - at) as u32;
        let effort = effort(solving, left.map(|left| left / rest), interrupt);
        let started = std::time::Instant::now();
        output::note(&format!("what if: {}", change.describe()));
        match what_if(change, &changed, plan, &effort) {
            Ok(found) => what_ifs.push(found),
            // An error does not discard the other answers.
            Err(error) => output::note(&format!("what if: {}: {error}", change.describe())),
        }
        *left = left.map(|left| left.saturating_sub(started.elapsed()).max(Duration::from_millis(1)));
    }
    what_ifs
}

/// Intersection of two sets of pins.
pub(super) fn both(cluster: &Cluster, one: &PinsDocument, other: &PinsDocument) -> PinsDocument {
    let mut pins = one.clone();
    for (operator, targets) in &other.0 {
        let joint = match pins.0.get(operator) {
            None => targets.clone(),
            Some(first) if first == targets => continue,
            Some(first) => {
                let devices = |targets: &PinTargets| -> BTreeSet<DeviceId> {
                    targets.names().iter().flat_map(|name| cluster.named(name)).collect()
                };
                let joint = devices(first);
                let joint =
                    joint.intersection(&devices(targets)).map(|&id| cluster.device_name(id)).collect();
                PinTargets::Any(joint)
            }
        };
        pins.0.insert(operator.clone(), joint);
    }
    pins
}
