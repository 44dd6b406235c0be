//! Reading: from the documents to a problem that can be scored.
//!
//! Every error in the documents is found here and returned as a [`CheckError`]: unknown names, figures out of range,
//! cycles. Later code can index and add without further checks.

mod cluster;
mod figure;
mod graph;
mod matrix;
mod pins;
mod pools;
mod rules;

use std::collections::BTreeSet;

use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, GRAPH_SCHEMA, GraphDocument, PLAN_SCHEMA, PinsDocument, PlanDocument,
};

pub(crate) use cluster::{Cluster, Kind};
pub(crate) use graph::{Graph, Parameter, Tensor};
pub(crate) use pins::{Allowed, Pins};
pub(crate) use pools::{Pool, Pools};
pub(crate) use rules::{InFlight, Objective, Rules};

use crate::error::CheckError;
use crate::score::cost;

/// The gradient of a shared parameter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gradient<'a> {
    pub(crate) parameter: &'a Parameter<'a>,
    /// Bytes that every device with one of several copies sends or receives.
    pub(crate) bytes: f64,
}

impl Gradient<'_> {
    /// The homes of its readers, each once, ascending, and the home of the first reader.
    pub(crate) fn touches(&self, home_of: &[usize]) -> (Vec<usize>, usize) {
        let readers = &self.parameter.readers;
        let homes: BTreeSet<usize> = readers.iter().map(|&reader| home_of[reader]).collect();
        (homes.into_iter().collect(), home_of[readers[0]])
    }
}

/// The problem that a plan is checked against.
#[derive(Debug)]
pub(crate) struct Problem<'a> {
    pub(crate) graph: Graph<'a>,
    pub(crate) cluster: Cluster<'a>,
    pub(crate) pins: Pins,
    pub(crate) rules: Rules,
}

impl<'a> Problem<'a> {
    /// Reads the documents. The pins of the plan and `pins` both apply.
    pub(crate) fn read(
        graph: &'a GraphDocument,
        cluster: &'a ClusterDocument,
        pins: Option<&PinsDocument>,
        plan: &PlanDocument,
    ) -> Result<Self, CheckError> {
        if !graph.is_version_2() {
            schema("graph", &graph.schema, GRAPH_SCHEMA)?;
        }
        schema("cluster", &cluster.schema, CLUSTER_SCHEMA)?;
        schema("plan", &plan.schema, PLAN_SCHEMA)?;
        let rules = Rules::read(&plan.objective)?;
        let graph = Graph::read(graph)?;
        let cluster = Cluster::read(cluster)?;
        let pins = Pins::read(&graph, &cluster, std::iter::once(&plan.pins).chain(pins))?;
        cost::require_links(&graph, &cluster)?;
        Ok(Problem { graph, cluster, pins, rules })
    }

    /// Usable bytes on a device of a kind: all but the reserve. Without a given reserve, version 2 reserves the larger
    /// of 1 GiB and 6% of the memory, except on hosts. `None` means unlimited.
    pub(crate) fn usable_memory(&self, kind: usize) -> Option<f64> {
        let kind = self.cluster.kinds[kind].document;
        let memory = kind.memory_bytes?;
        let by_default =
            if kind.host || !self.graph.is_version_2 { 0.0 } else { (0.06 * memory).max(2f64.powi(30)) };
        Some((memory - kind.reserve_bytes.unwrap_or(by_default)).max(0.0))
    }

    /// Gradients that devices synchronise: one for each trained parameter shared by operators of several classes. The
    /// ring has m members, one for each class that reads the parameter, and each device with one of several copies
    /// sends, or receives, 2 (m − 1)/m of the bytes.
    pub(crate) fn gradients(&self) -> impl Iterator<Item = Gradient<'_>> {
        let trained = |parameter: &&Parameter<'a>| self.graph.has_backward && parameter.document.trained;
        self.graph.parameters.iter().filter(trained).filter_map(move |parameter| {
            let classes: BTreeSet<usize> =
                parameter.readers.iter().map(|&reader| self.graph.class_of[reader]).collect();
            let ring = classes.len() as f64;
            let bytes = 2.0 * (ring - 1.0) / ring * parameter.document.bytes;
            (ring > 1.0).then_some(Gradient { parameter, bytes })
        })
    }
}

fn schema(document: &'static str, found: &str, expected: &'static str) -> Result<(), CheckError> {
    if found == expected {
        return Ok(());
    }
    Err(CheckError::Schema { document, found: found.to_owned(), expected })
}
