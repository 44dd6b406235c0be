//! The check of a joint plan for a Piper file: the time per sample of the slowest stage.

mod file;
mod names;
mod stage;

use stagewright_core::document::{
    JointObjectiveKind, JointPlanDocument, Parallelism, PiperConfigurationDocument, PiperDocument,
    RecomputeWorkspace,
};
use stagewright_core::tolerance;

use super::claims::{self, Figures};
use super::rules::Allowed;
use super::{JointReport, JointViolation, placed, rules};
use crate::error::CheckError;
use file::File;

/// The chosen configuration of a layer, and all configurations of the layer at the same degree of tensor parallelism.
#[derive(Debug, Clone, Copy)]
struct Choice<'a> {
    layer: usize,
    chosen: &'a PiperConfigurationDocument,
    all: &'a [PiperConfigurationDocument],
}

/// Checks a joint plan for a Piper file. O(size of the documents · log size).
///
/// # Errors
/// If the documents do not describe a problem and a plan.
pub fn check_joint_layers(
    document: &PiperDocument,
    plan: &JointPlanDocument,
) -> Result<JointReport, CheckError> {
    rules::read_plan(plan, JointObjectiveKind::TimePerSample)?;
    let file = File::read(document, plan)?;
    let mut violations = Vec::new();
    let figures = match claims::has_plan(plan) {
        true => figures(&file, plan, &mut violations),
        false => None,
    };
    Ok(claims::report(plan, figures, violations))
}

/// The figures of the plan; `None` if the plan does not match the file.
fn figures(file: &File, plan: &JointPlanDocument, violations: &mut Vec<JointViolation>) -> Option<Figures> {
    rules::check(plan, violations);
    let (stages, stage_of) = choices(file, plan, violations);
    if !violations.is_empty() {
        return None;
    }
    degrees(file, plan, violations);
    for &(from, to) in file.edges.keys() {
        if stage_of[from] > stage_of[to] {
            let (from, to) = (file.names[from].clone(), file.names[to].clone());
            violations.push(JointViolation::Order { from, to });
        }
    }
    let takes_largest = plan.objective.recompute_workspace == RecomputeWorkspace::Max;
    let mut later = 0u64;
    let mut figures = Vec::with_capacity(stages.len());
    for (index, choices) in stages.iter().enumerate().rev() {
        let data = u64::from(plan.stages[index].data);
        later = later.saturating_add(data);
        let in_flight = later.div_ceil(data);
        let found = stage::figures(file, choices, &stage_of, data, in_flight, takes_largest);
        if let Some(limit) = file.memory
            && !tolerance::fits(found.memory_bytes, limit)
        {
            violations.push(JointViolation::Memory { stage: index, bytes: found.memory_bytes, limit });
        }
        figures.push(found);
    }
    figures.reverse();
    let value = figures.iter().map(|stage| stage.seconds).fold(0.0, f64::max);
    Some(Figures { value, stages: figures, is_bound_proven: false })
}

/// The choices by stage, and the stage of every layer. Reports layers and configurations that do not exist, or are
/// not allowed.
fn choices<'a>(
    file: &'a File,
    plan: &JointPlanDocument,
    violations: &mut Vec<JointViolation>,
) -> (Vec<Vec<Choice<'a>>>, Vec<usize>) {
    let placed = placed::layers(plan, violations);
    let may_recompute = Allowed::new(plan).has(Parallelism::Recompute);
    let mut stages = vec![Vec::new(); plan.stages.len()];
    let mut stage_of = vec![0; file.names.len()];
    for (layer, name) in file.names.iter().enumerate() {
        let Some(here) = placed.get(name.as_str()) else {
            violations.push(JointViolation::Layer { layer: name.clone(), why: "is not in the plan" });
            continue;
        };
        stage_of[layer] = here.stage;
        let all = file.configurations(layer, plan.stages[here.stage].tensor);
        let found = names::configurations(all).iter().position(|name| *name == here.configuration);
        let why = match found {
            None => "does not exist at the degree of its stage",
            Some(index) if index > 0 && !may_recompute => "is not the first, without recompute",
            Some(index) => {
                stages[here.stage].push(Choice { layer, chosen: &all[index], all });
                continue;
            }
        };
        let (layer, configuration) = (name.clone(), here.configuration.to_owned());
        violations.push(JointViolation::Configuration { layer, configuration, why });
    }
    for &name in placed.keys() {
        if !file.has(name) {
            violations.push(JointViolation::Layer { layer: name.to_owned(), why: "is not in the file" });
        }
    }
    (stages, stage_of)
}

/// Checks the copies of the stages and the number of their devices.
fn degrees(file: &File, plan: &JointPlanDocument, violations: &mut Vec<JointViolation>) {
    let batch = plan.objective.global_batch;
    for (index, stage) in plan.stages.iter().enumerate() {
        let found = u64::from(stage.data);
        if !batch.is_multiple_of(found) {
            let needs = format!("a divisor of the {batch} microbatches");
            violations.push(JointViolation::Degree { stage: Some(index), name: "data", found, needs });
        }
    }
    let copies = rules::devices(plan.stages.iter().map(|stage| (1, stage.data)));
    if copies > batch {
        let needs = format!("at most the {batch} microbatches, over all stages");
        violations.push(JointViolation::Degree { stage: None, name: "data", found: copies, needs });
    }
    let used = rules::devices(plan.stages.iter().map(|stage| (stage.tensor, stage.data)));
    if used > file.devices {
        violations.push(JointViolation::Devices { kind: None, used, count: file.devices });
    }
}
