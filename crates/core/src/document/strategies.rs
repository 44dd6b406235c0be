//! The strategy problem: a choice among the strategies of every operator, with costs of pairs and a memory limit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::origin::OriginDocument;
use super::plan::PlanStatus;

/// The value of `schema` in a strategy plan.
pub const STRATEGY_PLAN_SCHEMA: &str = "stagewright.strategy-plan/1";

/// A cost at or above which a strategy, or a pair of strategies, is not allowed. XLA's solver writes such a cost for a
/// pair that its runtime cannot execute.
pub const FORBIDDEN_COST: i64 = 1_000_000_000_000_000_000;

/// A file of the ASPLOS 2025 contest on intra-operator parallelism (IOPDDL).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StrategiesDocument {
    /// The problem.
    pub problem: StrategyProblemDocument,
}

/// A strategy problem: choose a strategy for every node, so that the usages of the live nodes sum to at most the limit at
/// any time, and the sum of the costs of nodes and edges is minimal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StrategyProblemDocument {
    /// Name, for display.
    pub name: String,
    /// The nodes.
    pub nodes: StrategyNodesDocument,
    /// The edges.
    pub edges: StrategyEdgesDocument,
    /// Limit on the usage at any time; null for none.
    #[serde(default)]
    pub usage_limit: Option<i64>,
}

/// Columns of the nodes; entry i of each column belongs to node i.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StrategyNodesDocument {
    /// The times `[start, end)` at which a node is live.
    pub intervals: Vec<[i64; 2]>,
    /// Cost by strategy.
    pub costs: Vec<Vec<i64>>,
    /// Usage by strategy.
    pub usages: Vec<Vec<i64>>,
}

/// Columns of the edges; entry i of each column belongs to edge i.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StrategyEdgesDocument {
    /// The two nodes.
    pub nodes: Vec<[usize; 2]>,
    /// Cost by strategy of the first node and, within it, by strategy of the second.
    pub costs: Vec<Vec<i64>>,
}

/// A strategy plan: also the output of `plan --json` for a strategy problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StrategyPlanDocument {
    /// Always `stagewright.strategy-plan/1`.
    pub schema: String,
    /// Proof status.
    pub status: PlanStatus,
    /// Name of the solver that found the plan.
    pub solver: String,
    /// Name of the problem.
    pub problem: String,
    /// The cost reached; null without a plan.
    pub cost: Option<i64>,
    /// The largest usage at any time; null without a plan.
    pub peak_usage: Option<i64>,
    /// The lower bound.
    pub bound: StrategyBoundDocument,
    /// (cost − bound) / cost; null without a plan or a bound.
    pub gap: Option<f64>,
    /// Solve time in seconds.
    pub seconds: f64,
    /// Seed of the solve.
    pub seed: u64,
    /// The program that wrote the plan; absent in plans of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginDocument>,
    /// Reason why the search stopped before a proof (`time`, `gap`, `interrupted`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// The strategy of every node; empty without a plan.
    pub strategies: Vec<u32>,
}

/// A lower bound on the cost of every plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StrategyBoundDocument {
    /// The bound; null if there is none.
    pub cost: Option<f64>,
    /// Source of the bound: `lagrangian`, or `branch-and-bound`.
    pub source: String,
    /// Evidence for a Lagrangian bound, from which the bound can be recomputed.
    pub certificate: Option<StrategyCertificateDocument>,
}

/// Evidence for a Lagrangian bound: prices of usage, and a reparametrization of the costs at these prices.
///
/// The problem is changed in this order: nodes are merged; every node with one allowed strategy is folded into its
/// neighbours; edges whose costs are the sum of a term for each end are folded into their ends; nodes are eliminated;
/// messages are applied. Allowed strategies of a node are those that cost less than the cutoff and have an allowed
/// partner across every edge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StrategyCertificateDocument {
    /// The bound that the evidence proves.
    pub cost: f64,
    /// Cost at or above which a strategy or a pair is not allowed, since a plan that contains it costs at least as
    /// much; the bound is at most this cost. Null if only costs of 10^18 or more are not allowed.
    #[serde(default)]
    pub cutoff: Option<i64>,
    /// Times, each with the price of a unit of usage at that time.
    pub prices: Vec<(i64, f64)>,
    /// Pairs `[kept, merged]`: every allowed strategy of the first allows one strategy of the second, which is merged into
    /// it.
    pub merged: Vec<[u32; 2]>,
    /// Nodes in the order of their elimination, each with at most two neighbours at that point.
    pub eliminated: Vec<u32>,
    /// The order of the remaining nodes.
    pub order: Vec<u32>,
    /// Messages of the edges between remaining nodes, ordered by the earlier and then by the later end of the edge:
    /// what an edge adds to each allowed strategy of its earlier and of its later end, and subtracts from its own
    /// costs.
    pub messages: Vec<[Vec<f64>; 2]>,
}
