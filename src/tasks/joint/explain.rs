//! `explain` of a joint plan: the parts of its time and memory, and changes that would improve it.

use serde::Serialize;
use stagewright_core::document::{
    ClusterDocument, GraphDocument, JointPartsDocument, JointPlanDocument, JointStageDocument, RamDocument,
    ServerDocument, SourcesDocument,
};
use stagewright_core::memory::set_memory;
use stagewright_core::solver::Silent;
use stagewright_joint::iteration;
use stagewright_report::grid::{Column, Grid};
use stagewright_report::joint::{limit, stages_of, value_line};
use stagewright_report::table;
use stagewright_report::units::{bytes, percent, seconds};
use stagewright_report::wrap::facts;

use super::measured::Measured;
use super::priced::Priced;
use super::{Joint, failed};
use crate::failure::Result;
use crate::reading::Place;
use crate::tasks::cluster::ClusterSummary;
use crate::tasks::{Explaining, Measurements, Session, Shown, json};

/// An explanation as JSON.
#[derive(Serialize)]
struct Document<'p> {
    schema: &'static str,
    value_s: f64,
    /// Seconds that the slowest device of the pipeline is idle.
    bubble_s: f64,
    /// Seconds of an iteration outside its passes, reductions and updates.
    outside_s: f64,
    /// Index of the slowest device, by the position of its first stage.
    slowest: usize,
    stages: Vec<Stage>,
    what_ifs: &'p [WhatIf],
    /// The cluster that the plan is explained for.
    cluster: Option<&'p ClusterSummary>,
    /// Where the seconds of the operators come from.
    sources: Option<&'p SourcesDocument>,
    /// A log of training beside the prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<&'p Measured>,
}

#[derive(Serialize)]
struct Stage {
    kind: Option<String>,
    /// Share of the memory of the stage's devices that is in use.
    memory_share: Option<f64>,
    /// Bytes of the host's memory for one device of the stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    host_bytes: Option<f64>,
    #[serde(flatten)]
    parts: JointPartsDocument,
}

/// A change, and the value of the best plan under it.
#[derive(Clone, Serialize)]
struct WhatIf {
    change: String,
    value_s: Option<f64>,
}

const SCHEMA: &str = "stagewright.joint-explanation/1";

/// Explains a plan.
///
/// # Errors
/// If the plan has no value, has no parts, or does not belong to the model and its cluster (U008).
pub(super) fn explain(
    task: &Joint,
    plan: JointPlanDocument,
    label: &str,
    asked: Explaining<'_>,
    session: &mut Session<'_>,
) -> Result<Shown> {
    let priced = Priced::new(task, plan, label)?;
    priced.notes.iter().for_each(|note| session.note(note));
    let mut what_ifs = Vec::new();
    let changes = changes(&priced.graph, &priced.cluster, &priced.plan);
    for (change, cluster) in changes.into_iter().filter(|_| asked.what_if) {
        let value = solved(&priced.problem_on(task, &cluster)?, session, task.place())?;
        what_ifs.push(WhatIf { change, value_s: value });
    }
    let measured = match asked.measured {
        Some(Measurements::Training(log)) => {
            Some(Measured::new(&priced.plan, &priced.predicted(label)?, log, label)?)
        }
        Some(Measurements::Serving(_)) | None => None,
    };
    let summary = task.cluster_summary(&priced.plan);
    let json = json(&document(&priced, &what_ifs, summary.as_ref(), measured.as_ref()))?;
    Ok(Shown::new(json, move |width| {
        text(&document(&priced, &what_ifs, summary.as_ref(), measured.as_ref()), &priced.plan, width)
    }))
}

/// The value of the best plan of a changed problem.
fn solved(problem: &iteration::Problem, session: &mut Session<'_>, place: &Place) -> Result<Option<f64>> {
    let mut silent = Silent;
    let mut context = session.options.context(&mut silent);
    iteration::solve(problem, &mut context)
        .map(|solution| solution.value)
        .map_err(|error| failed(&error, place))
}

/// Changes to the cluster from which a plan might gain.
fn changes(
    graph: &GraphDocument,
    cluster: &ClusterDocument,
    plan: &JointPlanDocument,
) -> Vec<(String, ClusterDocument)> {
    let mut changes = Vec::new();
    let mut add = |change: String, edit: &dyn Fn(&mut ClusterDocument)| {
        let mut changed = cluster.clone();
        edit(&mut changed);
        changes.push((change, changed));
    };
    for (index, kind) in cluster.kinds.iter().enumerate().filter(|(_, kind)| !kind.host) {
        let name = &kind.name;
        let more = kind.server.map_or(1, |server: ServerDocument| server.devices);
        add(format!("{more} more of {name}"), &|cluster| {
            cluster.kinds[index].count = cluster.kinds[index].count.saturating_add(more);
        });
        add(format!("twice the devices of {name}"), &|cluster| {
            cluster.kinds[index].count = cluster.kinds[index].count.saturating_mul(2);
        });
        if let Some(memory) = kind.memory_bytes {
            add(format!("twice the memory of {name}"), &|cluster| {
                set_memory(graph, &mut cluster.kinds[index], 2.0 * memory);
            });
        }
        let uses_hosts = plan.stages.iter().any(|stage| stage.host_bytes.is_some());
        if let Some(ram) = kind.ram.filter(|_| uses_hosts) {
            if let Some(bytes) = ram.memory_bytes {
                add(format!("twice the memory of hosts of {name}"), &|cluster| {
                    cluster.kinds[index].ram = Some(RamDocument { memory_bytes: Some(2.0 * bytes), ..ram });
                });
            }
            add(format!("hosts of {name} twice as fast"), &|cluster| {
                cluster.kinds[index].ram = Some(RamDocument {
                    bandwidth: 2.0 * ram.bandwidth,
                    link_bandwidth: 2.0 * ram.link_bandwidth,
                    ..ram
                });
            });
        }
        if let (Some(server), Some(link)) = (&kind.server, kind.link) {
            add(format!("the link within servers also between them, for {name}"), &|cluster| {
                cluster.kinds[index].server = Some(ServerDocument { link, ..*server });
            });
        }
        let is_used = plan
            .stages
            .iter()
            .any(|stage| stage.kind.as_ref() == Some(name) || stage.mixed.contains_key(name));
        if cluster.kinds.len() > 1 && is_used {
            add(format!("no {name}"), &|cluster| {
                cluster.kinds.remove(index);
            });
        }
    }
    changes
}

fn document<'p>(
    priced: &'p Priced,
    what_ifs: &'p [WhatIf],
    cluster: Option<&'p ClusterSummary>,
    measured: Option<&'p Measured>,
) -> Document<'p> {
    let plan = &priced.plan;
    let stage = |(stage, parts): (&'p JointStageDocument, &JointPartsDocument)| Stage {
        kind: stage.place(),
        memory_share: limit(plan, stage).map(|bytes| stage.memory_bytes / bytes),
        host_bytes: stage.host_bytes,
        parts: *parts,
    };
    Document {
        schema: SCHEMA,
        value_s: priced.value,
        bubble_s: priced.bubble(),
        outside_s: priced.outside(),
        slowest: priced.slowest(),
        stages: plan.stages.iter().zip(&priced.parts).map(stage).collect(),
        what_ifs,
        cluster,
        sources: plan.sources.as_ref(),
        measured,
    }
}

/// Name of a part, and the function that returns a stage's seconds for it.
type Part = (&'static str, fn(&JointPartsDocument) -> f64);

fn text(document: &Document<'_>, plan: &JointPlanDocument, width: Option<u16>) -> String {
    let value = document.value_s;
    let share = |part: f64| format!("{} ({})", seconds(part), percent(part / value));
    let microbatches = plan.execution.as_ref().map_or(0.0, |execution| f64::from(execution.microbatches));
    let of_slowest = || stages_of(plan, document.slowest);
    let update: f64 = of_slowest().filter_map(|stage| plan.stages[stage].update_s).sum();
    let stages: Vec<String> = of_slowest().map(|stage| stage.to_string()).collect();
    let name = if stages.len() == 1 { "slowest stage" } else { "slowest stages" };
    let mut lines = vec![("value", value_line(value, plan.throughput.as_ref()))];
    lines.extend(document.cluster.map(|cluster| ("cluster", cluster.text())));
    lines.extend(document.sources.map(|shares| ("costs", table::sources(shares))));
    lines.push((name, stages.join(", ")));
    let parts: [Part; 8] = [
        ("compute", |parts| parts.compute_s),
        ("recomputation", |parts| parts.recompute_s),
        ("tensor parallelism", |parts| parts.tensor_s),
        ("context parallelism", |parts| parts.context_s),
        ("experts", |parts| parts.expert_s),
        ("ZeRO", |parts| parts.zero_s),
        ("transfers", |parts| parts.transfer_s),
        ("waiting for the host", |parts| parts.host_s),
    ];
    for (name, part) in parts {
        let part: f64 = of_slowest().map(|stage| part(&document.stages[stage].parts)).sum();
        if part > 0.0 {
            lines.push((name, share(microbatches * part)));
        }
    }
    lines.push(("synchronisation, update", share(update)));
    lines.push(("bubble", share(document.bubble_s)));
    if document.outside_s > 0.0 {
        lines.push(("outside the passes", share(document.outside_s)));
    }
    let mut text = facts(lines, width);
    let has_host = document.stages.iter().any(|stage| stage.host_bytes.is_some());
    let mut columns =
        vec!["stage", "in use", "parameters", "gradients", "optimizer", "activations", "workspace"];
    columns.extend(has_host.then_some("optimizer on the host"));
    let mut grid = Grid::new(columns.into_iter().map(|name| (name, Column::Figures)));
    for (index, stage) in document.stages.iter().enumerate() {
        let parts = &stage.parts;
        let mut row = vec![
            index.to_string(),
            stage.memory_share.map(percent).unwrap_or_default(),
            bytes(parts.parameter_bytes),
            bytes(parts.gradient_bytes),
            bytes(parts.optimizer_bytes),
            bytes(parts.activation_bytes),
            bytes(parts.workspace_bytes),
        ];
        row.extend(has_host.then(|| stage.host_bytes.map(bytes).unwrap_or_default()));
        grid.row(row);
    }
    text.push_str("\nmemory of a device\n");
    text.push_str(&grid.text(width));
    if let Some(measured) = document.measured {
        text.push_str(&measured.text(width));
    }
    if !document.what_ifs.is_empty() {
        text.push_str("\nwhat if\n");
        let mut grid = Grid::new([
            ("change", Column::Words),
            ("value", Column::Figures),
            ("faster by", Column::Figures),
        ]);
        for what_if in document.what_ifs {
            let faster = what_if.value_s.map(|changed| percent(value / changed - 1.0));
            grid.row([
                what_if.change.clone(),
                what_if.value_s.map_or_else(|| "no plan".into(), seconds),
                faster.unwrap_or_default(),
            ]);
        }
        text.push_str(&grid.text(width));
    }
    text
}
