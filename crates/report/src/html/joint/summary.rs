//! The head of the page: value, bound, status, and the degrees of parallelism.

use stagewright_core::document::{JointObjectiveKind, JointPlanDocument, JointStageDocument};

use super::JointPage;
use crate::html::markup::{count, escape};
use crate::html::names::visible;
use crate::html::shell::Section;
use crate::html::summary::{Claims, facts, heading, is_given};
use crate::{joint, table};

/// Summary section: the figures of a plan and its degrees, or the reason why there is none.
pub(super) fn section(page: &JointPage) -> Section {
    let plan = page.document;
    let claims = Claims {
        status: plan.status,
        value: plan.objective.value_s.zip(Some(joint::rate(plan.throughput.as_ref()).unwrap_or_default())),
        bound: plan.bound.value_s.zip(Some(plan.bound.source.as_str())),
        gap: plan.gap,
        stop: plan.stop.as_deref(),
        reason: plan.reason.as_deref(),
        seconds: (!is_given(page.comparison)).then_some(plan.seconds),
        solver: &plan.solver,
    };
    let mut markup = heading(&joint::objective(&plan.objective), page.model, page.cluster);
    markup.push_str(&claims.markup());
    markup.push_str(&facts(&degrees(page)));
    Section { id: "summary", title: "Summary", markup }
}

/// Execution of a batch by the plan, and the features that the plan may use.
fn degrees(page: &JointPage) -> Vec<(&'static str, String)> {
    let plan = page.document;
    let number = |number: u64| count(usize::try_from(number).unwrap_or(usize::MAX));
    let devices = match joint::devices(plan) {
        (0, all) => all.map(number),
        (used, Some(all)) => Some(format!("{} of {} in use", number(used), number(all))),
        (used, None) => Some(format!("{} in use", number(used))),
    };
    let mut rows: Vec<_> = devices.map(|devices| ("devices", devices)).into_iter().collect();
    if !plan.stages.is_empty() {
        rows.push(("stages", count(plan.stages.len())));
        rows.push(("tp", tensor(plan)));
    }
    if let Some(execution) = &plan.execution {
        let chunks = match execution.chunks {
            0 | 1 => String::new(),
            chunks => format!(", {chunks} stages of a device"),
        };
        let schedule = table::schedule(execution.schedule).unwrap_or("none");
        rows.push(("dp", execution.data.to_string()));
        rows.extend(joint::context(execution).map(|context| ("cp", context)));
        rows.push(("ep", execution.expert.to_string()));
        rows.push(("ZeRO", joint::zero(execution)));
        rows.extend(joint::offload(execution).map(|states| ("optimizer", states.to_owned())));
        rows.push(("schedule", format!("{schedule}{chunks}")));
        let samples = if execution.microbatch == 1 { "sample" } else { "samples" };
        let microbatches = count(execution.microbatches as usize);
        rows.push(("microbatches", format!("{microbatches} of {} {samples}", execution.microbatch)));
    } else if plan.objective.kind == JointObjectiveKind::TimePerSample && !plan.stages.is_empty() {
        rows.push(("dp", range(plan.stages.iter().map(|stage| stage.data))));
    }
    rows.extend(joint::runtime(&plan.objective).map(|name| ("runtime", name.to_owned())));
    rows.push(("allowed", joint::parallel(&plan.objective)));
    if plan.objective.kind == JointObjectiveKind::Iteration {
        rows.push(("schedules allowed", joint::schedules(&plan.objective)));
        rows.extend(joint::cut(&plan.objective).map(|layers| ("layers asked for", layers)));
    }
    rows.extend(joint::utilisation(plan, page.figures).map(|share| ("utilisation", share)));
    rows
}

/// Degrees of tensor parallelism: a common one, one for every kind, or a range.
fn tensor(plan: &JointPlanDocument) -> String {
    let all = range(plan.stages.iter().map(|stage| stage.tensor));
    if !all.contains(' ') || plan.execution.is_none() {
        return all;
    }
    // Stages on two kinds have a degree of their own.
    let place = |stage: &JointStageDocument| match stage.mixed.is_empty() {
        true => stage.kind.clone(),
        false => Some(stage.mixed.keys().cloned().collect::<Vec<_>>().join(" and ")),
    };
    let mut kinds: Vec<String> = plan.stages.iter().filter_map(place).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let of_kind = |kind: &String| {
        let stages = plan.stages.iter().filter(|stage| place(stage).as_ref() == Some(kind));
        let degrees = range(stages.map(|stage| stage.tensor));
        format!("{degrees} on <bdi>{}</bdi>", escape(&visible(kind)))
    };
    kinds.iter().map(of_kind).collect::<Vec<_>>().join(", ")
}

/// A number, or the minimum and maximum of several.
fn range(numbers: impl Iterator<Item = u32> + Clone) -> String {
    match (numbers.clone().min(), numbers.max()) {
        (Some(least), Some(largest)) if least < largest => format!("{least} to {largest}"),
        (least, _) => least.unwrap_or(0).to_string(),
    }
}
