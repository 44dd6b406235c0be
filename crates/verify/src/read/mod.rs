//! Reading: from the documents to a problem that can be scored.
//!
//! Every error in the documents is found here and returned as a [`CheckError`]: unknown names, figures out of range,
//! cycles. Later code can index and add without further checks.

mod cluster;
pub(crate) mod cost;
mod figure;
mod graph;
mod matrix;
mod pins;
mod pools;
mod rules;

use std::collections::BTreeSet;

use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, GRAPH_SCHEMA, GraphDocument, KindDocument, PLAN_SCHEMA, Pass,
    PinsDocument, PlanDocument,
};

pub(crate) use cluster::{Cluster, Kind};
pub(crate) use figure::{amount, rate};
pub(crate) use graph::{Graph, Parameter, Tensor};
pub(crate) use pins::{Allowed, Pins};
pub(crate) use pools::{Pool, Pools};
pub(crate) use rules::{InFlight, Objective, Rules};

use crate::error::CheckError;

/// The gradient of a shared parameter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gradient<'a> {
    pub(crate) parameter: &'a Parameter<'a>,
    /// Bytes that every device with one of several copies sends and receives.
    pub(crate) bytes: f64,
}

impl Gradient<'_> {
    /// The homes of the parameter's readers, each once, ascending.
    pub(crate) fn touches(&self, home_of: &[usize]) -> Vec<usize> {
        let homes: BTreeSet<usize> = self.parameter.readers.iter().map(|&reader| home_of[reader]).collect();
        homes.into_iter().collect()
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

    /// Share of each microbatch in the work that an iteration does once. Version 1 does that work for every microbatch.
    pub(crate) fn once(&self) -> f64 {
        if self.graph.is_version_2 { 1.0 / f64::from(self.rules.microbatches) } else { 1.0 }
    }

    /// Seconds of an operator on a kind per microbatch; `None` if it can't run there.
    pub(crate) fn seconds(&self, operator: usize, kind: &Kind) -> Option<f64> {
        let share = if self.graph.pass(operator) == Pass::Update { self.once() } else { 1.0 };
        cost::seconds(&self.graph.operators[operator], kind).map(|seconds| share * seconds)
    }

    /// Transfers of a tensor per microbatch: less than one if only updates read or make it.
    pub(crate) fn transfers(&self, tensor: &Tensor) -> f64 {
        let is_update = |operator: usize| self.graph.pass(operator) == Pass::Update;
        let is_of_updates =
            !tensor.consumers.is_empty() && tensor.consumers.iter().all(|&reader| is_update(reader));
        if is_of_updates || is_update(tensor.producer) { self.once() } else { 1.0 }
    }

    /// Usable bytes on a device of a kind; `None` means unlimited.
    pub(crate) fn usable_memory(&self, kind: usize) -> Option<f64> {
        usable_memory(self.cluster.kinds[kind].document, self.graph.is_version_2)
    }

    /// Gradients that devices synchronise: one for each trained parameter shared by operators of several classes. The
    /// ring has m members, one for each class that reads the parameter, and each device with one of several copies
    /// sends and receives 2 (m − 1)/m of the bytes.
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

/// Usable bytes on a device of a kind: all but the reserve. Without a given reserve, graphs of version 2 reserve the larger of
/// 1 GiB and 6% of the memory, but at most a quarter of what exceeds 256 MiB, and nothing on hosts. `None` means
/// unlimited.
pub(crate) fn usable_memory(kind: &KindDocument, is_version_2: bool) -> Option<f64> {
    let memory = kind.memory_bytes?;
    let limit = (memory - 2f64.powi(28)).max(0.0) / 4.0;
    let by_default =
        if kind.host || !is_version_2 { 0.0 } else { (0.06 * memory).max(2f64.powi(30)).min(limit) };
    Some((memory - kind.reserve_bytes.unwrap_or(by_default)).max(0.0))
}

/// Checks the schema of a document.
pub(crate) fn schema(document: &'static str, found: &str, expected: &'static str) -> Result<(), CheckError> {
    if found == expected {
        return Ok(());
    }
    Err(CheckError::Schema { document, found: found.to_owned(), expected })
}
