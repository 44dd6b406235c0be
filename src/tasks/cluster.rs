//! The cluster of a question: the given one, the one that a plan keeps, or the model's own.
//!
//! A check proves the claims of a plan for one cluster. If the plan itself names that cluster, the proof says nothing about
//! any other, so every report says where its cluster comes from.

use serde::Serialize;
use stagewright_core::document::ClusterDocument;
use stagewright_core::text::visible;

/// Where the cluster of a question comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClusterSource {
    /// The user gave it.
    Given,
    /// The plan keeps it.
    Plan,
    /// The model contains it.
    Model,
}

/// The cluster of a report, as JSON.
#[derive(Debug, Serialize)]
pub(super) struct ClusterSummary {
    pub(super) source: ClusterSource,
    pub(super) name: String,
}

impl ClusterSummary {
    /// A cluster with its source. `label` names it if it has no name of its own.
    pub(super) fn new(source: ClusterSource, cluster: &ClusterDocument, label: &str) -> ClusterSummary {
        let name =
            if cluster.name.is_empty() && source == ClusterSource::Given { label } else { &cluster.name };
        ClusterSummary { source, name: name.to_owned() }
    }

    /// The cluster in words.
    pub(super) fn text(&self) -> String {
        let source = match self.source {
            ClusterSource::Given => "given",
            ClusterSource::Plan => "that of the plan",
            ClusterSource::Model => "that of the model",
        };
        match self.name.as_str() {
            "" => source.to_owned(),
            name => format!("{source} ({})", visible(name)),
        }
    }
}

/// Whether two clusters have the same devices and links, whatever their names and the sources of their figures.
pub(super) fn is_same(first: &ClusterDocument, second: &ClusterDocument) -> bool {
    let figures = |cluster: &ClusterDocument| {
        let mut cluster = ClusterDocument { name: String::new(), ..cluster.clone() };
        for class in cluster.classes.values_mut() {
            class.source = None;
            class.fits.iter_mut().for_each(|fit| fit.source = None);
        }
        cluster
    };
    figures(first) == figures(second)
}

/// The note on a plan that is read for a cluster that differs from its own.
pub(super) fn made_for_another(plan: &str) -> String {
    format!("{plan} was made for other devices, links or memory reserves, and its claims are about those")
}
