//! Changes to a problem that may improve its value.

use stagewright_core::cluster::Cluster;
use stagewright_core::document::{ClusterDocument, GraphDocument, Split};
use stagewright_core::graph::Graph;
use stagewright_core::memory::set_memory;
use stagewright_core::objective::{Objective, Throughput};
use stagewright_core::problem::Problem;

use crate::report::units::name;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// No change.
    Nothing,
    /// One more device of a kind.
    Device {
        /// The kind.
        kind: String,
    },
    /// Twice the bandwidth of all links at unchanged latency; measured transfers take half as long.
    Bandwidth,
    /// Twice the memory of all devices.
    Memory,
    /// No restriction on the split.
    FreeSplit,
    /// One more call of every accelerator.
    Call,
}

impl Change {
    /// A short description.
    pub fn describe(&self) -> String {
        match self {
            Change::Nothing => "nothing changes".into(),
            Change::Device { kind } => format!("one more {}", name(kind)),
            Change::Bandwidth => "twice the bandwidth".into(),
            Change::Memory => "twice the memory".into(),
            Change::FreeSplit => "any split, not only this rule".into(),
            Change::Call => "one more call per accelerator".into(),
        }
    }

    /// Applies the change to a problem.
    ///
    /// # Errors
    /// If the changed problem is not valid; returns the reason.
    pub fn apply(&self, problem: &Problem) -> Result<Problem, String> {
        let mut objective = *problem.objective();
        let mut cluster = problem.cluster().document().clone();
        let mut graph = None;
        match self {
            Change::Nothing => {}
            Change::Device { kind } => {
                for document in cluster.kinds.iter_mut().filter(|document| &document.name == kind) {
                    document.count = document.count.saturating_add(1);
                }
            }
            Change::Bandwidth => graph = Some(doubled_bandwidth(problem, &mut cluster)),
            Change::Memory => {
                for kind in &mut cluster.kinds {
                    if let Some(memory) = kind.memory_bytes {
                        set_memory(problem.graph().document(), kind, 2.0 * memory);
                    }
                }
            }
            Change::FreeSplit => objective = Throughput { split: Split::Free, ..objective.rules() }.into(),
            Change::Call => objective = Objective::Latency { calls: objective.calls().saturating_add(1) },
        }
        rebuilt(problem, graph, cluster, objective)
    }
}

/// The changes that a problem admits, preceded by [`Change::Nothing`].
pub fn changes(problem: &Problem) -> Vec<Change> {
    let cluster = problem.cluster().document();
    let objective = problem.objective();
    let mut changes = vec![Change::Nothing];
    // The matrix has no row for an additional device.
    if cluster.matrix.is_none() {
        let kinds = cluster.kinds.iter().filter(|kind| !kind.host);
        changes.extend(kinds.map(|kind| Change::Device { kind: kind.name.clone() }));
    }
    let has_accelerators = cluster.kinds.iter().any(|kind| !kind.host);
    if has_accelerators {
        changes.push(Change::Bandwidth);
    }
    if cluster.kinds.iter().any(|kind| kind.memory_bytes.is_some()) {
        changes.push(Change::Memory);
    }
    match objective {
        Objective::Throughput(rules) if rules.split != Split::Free && !objective.times_iteration() => {
            changes.push(Change::FreeSplit);
        }
        Objective::Latency { .. } if has_accelerators => changes.push(Change::Call),
        _ => {}
    }
    changes
}

/// Doubles all bandwidths of a cluster. Returns the graph with its measured transfer times halved.
fn doubled_bandwidth(problem: &Problem, cluster: &mut ClusterDocument) -> GraphDocument {
    for link in cluster.kinds.iter_mut().filter_map(|kind| kind.link.as_mut()) {
        link.bandwidth *= 2.0;
    }
    for group in &mut cluster.groups {
        group.uplink.bandwidth *= 2.0;
    }
    for seconds in cluster.matrix.iter_mut().flat_map(|matrix| &mut matrix.seconds_per_byte).flatten() {
        *seconds *= 0.5;
    }
    let mut graph = problem.graph().document().clone();
    for seconds in graph.tensors.iter_mut().flat_map(|tensor| tensor.seconds.values_mut()) {
        *seconds *= 0.5;
    }
    graph
}

fn rebuilt(
    problem: &Problem,
    graph: Option<GraphDocument>,
    cluster: ClusterDocument,
    objective: Objective,
) -> Result<Problem, String> {
    let graph = match graph {
        Some(graph) => Graph::from_document(graph).map_err(|error| error.to_string())?,
        None => problem.graph().clone(),
    };
    let cluster = Cluster::from_document(cluster).map_err(|error| error.to_string())?;
    Problem::pinned(graph, cluster, objective, problem.pins().clone()).map_err(|error| error.to_string())
}
