//! Serving plans: replicas of a language model that engines serve, on the devices of a cluster.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClusterDocument, ModelOptionsDocument, OriginDocument, PlanStatus, ServingStartDocument};

/// The value of `schema` in a serving plan.
pub const SERVING_PLAN_SCHEMA: &str = "stagewright.serving-plan/1";

/// Sources of the bound of a serving plan.
pub const SERVING_BOUND_SOURCES: [&str; 3] = ["prices", "table", "none"];

/// A serving plan: also the output of `plan --serve --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServingPlanDocument {
    /// Always `stagewright.serving-plan/1`.
    pub schema: String,
    /// Proof status.
    pub status: PlanStatus,
    /// Name of the solver that found the plan.
    pub solver: String,
    /// Name of the model, or its path.
    pub model: String,
    /// How the model was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<ModelOptionsDocument>,
    /// The cluster.
    pub cluster: ClusterDocument,
    /// The question.
    pub question: ServingQuestionDocument,
    /// Value of the goal: requests per second, devices, price of an hour, or tokens of cache; null without a plan. If the question has a
    /// start, the price of moved weights is subtracted from a goal that is maximised, and added to one that is minimised.
    pub value: Option<f64>,
    /// Bound on the value of every plan.
    pub bound: ServingBoundDocument,
    /// Distance of value and bound, as a share of the larger; null without a plan or a bound.
    pub gap: Option<f64>,
    /// Requests per second of all replicas; null without a plan.
    pub requests_per_s: Option<f64>,
    /// Generated tokens per second of all replicas; null without a plan.
    pub tokens_per_s: Option<f64>,
    /// Devices that the replicas take; null without a plan.
    pub devices: Option<u64>,
    /// Bytes of the weights that replicas load, on all devices together: those of replicas that do not run yet. Absent without a plan,
    /// or if the question has no start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_bytes: Option<f64>,
    /// Solve time in seconds.
    pub seconds: f64,
    /// The program that wrote the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginDocument>,
    /// Reason why the search stopped before a proof (`time`, `gap`, `interrupted`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// Why there is no plan, and what would change that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Replicas, each with the number of its copies; empty without a plan.
    pub replicas: Vec<ReplicaDocument>,
}

/// The question that a serving plan answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServingQuestionDocument {
    /// Name of the engine: `vllm`, `sglang` or `tensorrt-llm`.
    pub engine: String,
    /// Classes of requests, at least one.
    pub classes: Vec<RequestClassDocument>,
    /// Largest number of requests in the system at once; for the goals `devices` and `price`, the number that has to be
    /// served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<f64>,
    /// Requests per second that arrive; at most one of `rate` and `concurrency` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Limit on the time to the first token, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_s: Option<f64>,
    /// Limit on the time between tokens, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot_s: Option<f64>,
    /// The times of requests that limits are on, and that replicas state.
    #[serde(default, skip_serializing_if = "ServingStatistic::is_mean")]
    pub limits: ServingStatistic,
    /// Objective.
    pub goal: ServingGoal,
    /// Roles that replicas may have.
    pub modes: Vec<ServingMode>,
    /// Encoding of caches; absent for that of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// Maximum number of tokens of prompts in a step; absent for that of the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<u64>,
    /// Share of memory that the engine uses; absent for that of the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_share: Option<f64>,
    /// Maximum number of sequences of a rank; absent for as many as fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_batch: Option<u64>,
    /// Maximum number of stages of a replica.
    pub max_stages: u32,
    /// Speculative decoding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculation: Option<SpeculationDocument>,
    /// Price of a device for an hour, by the names of kinds; every kind has one if the goal is `price`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, f64>,
    /// Measured factors on times, by the names of compute classes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub factors: BTreeMap<String, ServingFactorDocument>,
    /// Files of measured products that price replicas; the plan is checked with the same ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<String>,
    /// Replicas that run already; absent if none do, and weights have no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<ServingStartDocument>,
}

/// A class of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestClassDocument {
    /// Tokens of the prompt.
    pub input: u64,
    /// Tokens that are generated.
    pub output: u64,
    /// Tokens at the beginning of the prompt that are cached already.
    #[serde(default)]
    pub shared_prefix: u64,
    /// Share of the requests that are of this class; the shares of all classes add up to 1.
    pub share: f64,
}

/// Objective of a serving plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServingGoal {
    /// Requests per second, as many as possible.
    Throughput,
    /// Devices for the load, as few as possible.
    Devices,
    /// Price of an hour for the load, as low as possible.
    Price,
    /// Tokens in caches of replicas, as many as possible.
    Cache,
}

impl ServingGoal {
    /// Name of the goal.
    pub fn name(self) -> &'static str {
        match self {
            ServingGoal::Throughput => "throughput",
            ServingGoal::Devices => "devices",
            ServingGoal::Price => "price",
            ServingGoal::Cache => "cache",
        }
    }

    /// Whether a larger value is better.
    pub fn is_maximised(self) -> bool {
        matches!(self, ServingGoal::Throughput | ServingGoal::Cache)
    }
}

/// A figure of the times of all requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServingStatistic {
    /// The mean.
    #[default]
    Mean,
    /// The 95th percentile: one request in twenty may take longer.
    P95,
}

impl ServingStatistic {
    /// Name of the figure.
    pub fn name(self) -> &'static str {
        match self {
            ServingStatistic::Mean => "mean",
            ServingStatistic::P95 => "p95",
        }
    }

    /// Whether it is the mean.
    pub fn is_mean(&self) -> bool {
        *self == ServingStatistic::Mean
    }
}

/// How replicas divide the work on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServingMode {
    /// A replica reads the prompt and decodes.
    Aggregated,
    /// One replica reads the prompt, and another one decodes.
    Disaggregated,
}

/// Speculative decoding: drafts of further tokens that a step verifies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpeculationDocument {
    /// Tokens of a draft.
    pub drafts: u32,
    /// Probability that a token is accepted if all before it are.
    pub acceptance: f64,
    /// Time of drafting a token, as a share of a decode step without drafts.
    pub draft_share: f64,
}

/// Measured factors on the predicted times of replicas on a class of devices.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServingFactorDocument {
    /// Factor on times to the first token.
    pub ttft: f64,
    /// Factor on times between tokens.
    pub tpot: f64,
}

/// The role of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServingRole {
    /// Reads prompts and decodes.
    Aggregated,
    /// Reads prompts.
    Prefill,
    /// Decodes.
    Decode,
}

impl ServingRole {
    /// Name of the role.
    pub fn name(self) -> &'static str {
        match self {
            ServingRole::Aggregated => "aggregated",
            ServingRole::Prefill => "prefill",
            ServingRole::Decode => "decode",
        }
    }
}

/// Equal replicas.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplicaDocument {
    /// Role.
    pub role: ServingRole,
    /// Index of the class of its requests.
    pub class: u32,
    /// Number of these replicas.
    pub count: u64,
    /// Number of those among them that run already, and keep their weights.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kept: u64,
    /// Stages in order.
    pub stages: Vec<ServingStageDocument>,
    /// Sequences of a rank that are decoded at once; 0 for prefill.
    pub batch: u64,
    /// Requests per second of one replica.
    pub requests_per_s: f64,
    /// Time to the first token in seconds, the mean or what the question limits. For prefill it includes the wait for the replica, the transfer of the cache, and
    /// the steps before the first token at the limit on the time between tokens. Null for decode.
    pub ttft_s: Option<f64>,
    /// Time between tokens in seconds, the mean or what the question limits; null for prefill.
    pub tpot_s: Option<f64>,
    /// Share of the time in which a prefill replica reads prompts; null for the others.
    pub utilisation: Option<f64>,
    /// Tokens in the caches of one replica.
    pub cache_tokens: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A stage of a replica: a group of equal devices with a range of layers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServingStageDocument {
    /// Name of the kind of its devices.
    pub kind: String,
    /// Tensor degree of everything but routed experts.
    pub tensor: u64,
    /// Copies of attention with sequences of their own.
    pub data: u64,
    /// Groups of whole experts; 1 for a model without.
    pub experts: u64,
    /// First layer of the stage, counted from 0.
    pub first: u32,
    /// Number of its layers.
    pub layers: u32,
}

/// Bound on the value of every plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServingBoundDocument {
    /// The bound: an upper one for a goal that is maximised, a lower one otherwise; null if there is none.
    pub value: Option<f64>,
    /// Source of the bound: `prices`, `table` or `none`.
    pub source: String,
    /// Evidence, from which the bound can be recomputed.
    pub certificate: Option<ServingCertificateDocument>,
}

/// Evidence of a bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum ServingCertificateDocument {
    /// A tree of branching, whose leaves have prices at which replicas are worth no more than they cost.
    Tree {
        /// Nodes: each is a leaf or has two children later in the list; the first is the root.
        nodes: Vec<ServingNodeDocument>,
    },
    /// The best rates by used devices, which have no evidence beside themselves: they are computed anew.
    Table {},
}

/// A node of a tree of branching.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum ServingNodeDocument {
    /// Plans with at most `most` replicas of a size are below `children[0]`, those with more below `children[1]`.
    Branch {
        /// The size.
        size: ServingSizeDocument,
        /// Largest number of its replicas below the first child.
        most: u64,
        /// Indices of the children.
        children: [u32; 2],
    },
    /// Prices that bound the value of every plan here.
    Leaf {
        /// Prices of the rows of the program, in their order; at least 0.
        prices: Vec<f64>,
    },
}

/// Size of a replica: all replicas of a class and a role with the same devices are of one size, apart from those that run already.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServingSizeDocument {
    /// Role.
    pub role: ServingRole,
    /// Index of the class.
    pub class: u32,
    /// Groups of devices that each stay on one server or take whole servers: the index of the kind, the number of devices, and
    /// the number of such groups, in increasing order.
    pub groups: Vec<(u32, u64, u64)>,
    /// Index of the replica of the start that keeps its weights; absent for replicas that load them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<u32>,
}
