//! Replicas of a serving plan that runs already, where another one follows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ServingRole, ServingStageDocument};

/// Replicas that run already, and the price of loading weights for others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServingStartDocument {
    /// Replicas that run, each different from the others.
    pub replicas: Vec<RunningReplicaDocument>,
    /// Price of 10⁹ bytes of weights that replicas load, in the unit of the goal.
    pub price_per_gb: f64,
}

/// Equal replicas that run already. One of them stays if a plan has a replica of the same role, class, stages and batch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunningReplicaDocument {
    /// Role.
    pub role: ServingRole,
    /// Index of the class that it can serve without a restart; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<u32>,
    /// Number of these replicas.
    pub count: u64,
    /// Stages in order. Kinds may be missing in the cluster.
    pub stages: Vec<ServingStageDocument>,
    /// Sequences of a rank that are decoded at once; 0 for prefill.
    pub batch: u64,
}
