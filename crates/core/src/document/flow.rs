//! Layer flow: ranges of layers on nodes that serve a model together, and the tokens that flow through them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OriginDocument, PlanStatus};

/// The value of `schema` in a problem of layer flow, where it may be absent.
pub const LAYER_FLOW_SCHEMA: &str = "stagewright.layer-flow/1";

/// The value of `schema` in a plan of layer flow.
pub const LAYER_PLAN_SCHEMA: &str = "stagewright.layer-plan/1";

/// Sources of the bound of a plan of layer flow.
pub const LAYER_BOUND_SOURCES: [&str; 4] = ["prices", "chain", "hops", "none"];

/// A problem of layer flow (Mei et al., "Helix", ASPLOS 2025): every node may hold a range of consecutive layers, and
/// serves tokens at a rate that depends on the number of its layers. A token passes through every layer in turn. It
/// may go from one node to another if the second begins with the layer after the last of the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LayerFlowDocument {
    /// `stagewright.layer-flow/1`, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Name of the problem, for display.
    #[serde(default)]
    pub name: String,
    /// Number of layers.
    pub layers: u32,
    /// The nodes.
    pub nodes: Vec<FlowNodeDocument>,
    /// Links as `[from, to, tokens per second]`. Ends are indices of nodes, or `"source"` and `"sink"`, where tokens begin
    /// and end. Between two ends without a link nothing flows; several links between the same ends add up.
    pub links: Vec<(FlowEnd, FlowEnd, f64)>,
}

/// A node of a problem of layer flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowNodeDocument {
    /// Name, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tokens per second with one layer, with two, and so on, up to as many layers as fit.
    pub throughput: Vec<f64>,
}

/// An end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FlowEnd {
    /// A node, by its index.
    Node(u32),
    /// The source or the sink.
    Outside(FlowOutside),
}

/// The ends of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlowOutside {
    /// Where tokens begin.
    Source,
    /// Where tokens end.
    Sink,
}

/// A plan of layer flow: also the output of `plan --json` for such a problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LayerPlanDocument {
    /// Always `stagewright.layer-plan/1`.
    pub schema: String,
    /// Proof status.
    pub status: PlanStatus,
    /// Name of the solver that found the plan.
    pub solver: String,
    /// Name of the problem.
    pub problem: String,
    /// Maximum number of nodes that a token may pass; absent for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hops: Option<u32>,
    /// Tokens per second of the plan; null without a plan.
    pub value: Option<f64>,
    /// The upper bound on the tokens per second of every plan.
    pub bound: LayerBoundDocument,
    /// (bound − value) / bound; null without a plan or a bound.
    pub gap: Option<f64>,
    /// Largest number of nodes that a token passes; null without a plan.
    pub hops: Option<u32>,
    /// Solve time in seconds.
    pub seconds: f64,
    /// Seed of the solve.
    pub seed: u64,
    /// The program that wrote the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginDocument>,
    /// Reason why the search stopped before a proof (`time`, `gap`, `interrupted`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// Nodes that hold layers, in the order of their first layers; empty without a plan.
    pub nodes: Vec<LayerNodeDocument>,
    /// Links that carry tokens, as in the problem, with the tokens per second that they carry.
    pub links: Vec<(FlowEnd, FlowEnd, f64)>,
}

/// A node that holds layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LayerNodeDocument {
    /// Index of the node.
    pub node: u32,
    /// First layer of the node, counted from 0.
    pub first: u32,
    /// Number of its layers.
    pub layers: u32,
    /// Tokens per second that it serves in this plan.
    pub flow: f64,
}

/// An upper bound on the tokens per second of every plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LayerBoundDocument {
    /// The bound; null if there is none.
    pub value: Option<f64>,
    /// Source of the bound: `prices`, `chain`, `hops` or `none`.
    pub source: String,
    /// Evidence, from which the bound can be recomputed.
    pub certificate: Option<LayerCertificateDocument>,
}

/// Evidence that no plan serves more than `flow` tokens per second.
///
/// A *cover* is a set of nodes that together serve more than `flow`, each with a number of layers; it costs the sum of
/// price / layers over its nodes. The nodes through which tokens reach a layer form a cover, and a node with k layers is in
/// k of them, so the covers of all layers cost at most the sum of all prices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LayerCertificateDocument {
    /// The cheapest covers of all layers cost more than the sum of the prices.
    Prices {
        /// Tokens per second that no plan exceeds.
        flow: f64,
        /// Price of every node.
        prices: Vec<f64>,
    },
    /// As soon as a cover of one layer has several nodes, the covers of all layers cost more than the sum of the prices; so
    /// all nodes form one chain, every link of which carries more than `flow`. No group of nodes that such links connect
    /// holds all layers.
    Chain {
        /// Tokens per second that no plan exceeds.
        flow: f64,
        /// Price of every node.
        prices: Vec<f64>,
    },
    /// With λ the `price` of a hop, Σ over nodes of the largest (k − λ) · min(tokens per second with k layers / flow, 1), or 0, is
    /// less than layers − λ · hops.
    Hops {
        /// Tokens per second that no plan exceeds.
        flow: f64,
        /// Price of a hop, in layers; 0 without a limit of hops.
        price: f64,
    },
}
