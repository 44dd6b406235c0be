//! Reading: from what the documents say to a problem that can be scored.
//!
//! Everything that makes the documents no problem at all is found here and is a [`CheckError`]: names that
//! refer to nothing, figures out of range, cycles. What comes after can index and add without looking back.

mod cluster;
mod figure;
mod graph;
mod matrix;
mod pins;
mod pools;
mod rules;

use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, GRAPH_SCHEMA, GraphDocument, PLAN_SCHEMA, PinsDocument, PlanDocument,
};

pub(crate) use cluster::{Cluster, Kind};
pub(crate) use graph::{Graph, Tensor};
pub(crate) use pins::{Allowed, Pins};
pub(crate) use pools::{Pool, Pools};
pub(crate) use rules::{InFlight, Objective, Rules};

use crate::error::CheckError;
use crate::score::cost;

/// A problem: what a plan is checked against.
#[derive(Debug)]
pub(crate) struct Problem<'a> {
    pub(crate) graph: Graph<'a>,
    pub(crate) cluster: Cluster<'a>,
    pub(crate) pins: Pins,
    pub(crate) rules: Rules,
}

impl<'a> Problem<'a> {
    /// Reads the documents. The pins of the plan and those given beside it both apply.
    pub(crate) fn read(
        graph: &'a GraphDocument,
        cluster: &'a ClusterDocument,
        pins: Option<&PinsDocument>,
        plan: &PlanDocument,
    ) -> Result<Self, CheckError> {
        schema("graph", &graph.schema, GRAPH_SCHEMA)?;
        schema("cluster", &cluster.schema, CLUSTER_SCHEMA)?;
        schema("plan", &plan.schema, PLAN_SCHEMA)?;
        let rules = Rules::read(&plan.objective)?;
        let graph = Graph::read(graph)?;
        let cluster = Cluster::read(cluster)?;
        let pins = Pins::read(&graph, &cluster, std::iter::once(&plan.pins).chain(pins))?;
        cost::require_links(&graph, &cluster)?;
        Ok(Problem { graph, cluster, pins, rules })
    }
}

fn schema(document: &'static str, found: &str, expected: &'static str) -> Result<(), CheckError> {
    if found == expected {
        return Ok(());
    }
    Err(CheckError::Schema { document, found: found.to_owned(), expected })
}
