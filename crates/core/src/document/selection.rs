//! Requirements on a plan beyond the constraints of its problem, and a second goal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Requirements that a plan was made to meet, in addition to memory, pins and the rules of its objective.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RequirementsDocument {
    /// Exact number of stages: the devices that hold operators, the replicas of a stage counted once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<u32>,
    /// Whether every device that is not a host, or every host of a cluster of hosts, has work.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all_devices: bool,
    /// Groups of operators: those of a group share a stage, which holds nothing else.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alone: Vec<Vec<String>>,
}

/// Figure of a plan that is minimised among the plans whose value is close to the best. A cluster that has only hosts counts them; in
/// any other, hosts count for communication alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SecondGoal {
    /// Bytes in use on the device that uses most.
    Memory,
    /// Number of devices with work, replicas included.
    Devices,
    /// Seconds of communication, summed over all devices, before division among replicas.
    Communication,
}

impl SecondGoal {
    /// Name in documents and options.
    pub fn name(self) -> &'static str {
        match self {
            SecondGoal::Memory => "memory",
            SecondGoal::Devices => "devices",
            SecondGoal::Communication => "communication",
        }
    }
}

/// The second goal of a plan, which has the least `value` found among plans of at most (1 + within) times the value
/// `best_s`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecondGoalDocument {
    /// The minimised figure.
    pub goal: SecondGoal,
    /// Share by which the value of the plan may exceed `best_s`.
    pub within: f64,
    /// Value of the best plan found for the objective alone, in seconds.
    pub best_s: f64,
    /// Value of the second goal: bytes, a number of devices, or seconds.
    pub value: f64,
    /// Lower bound on the second goal of every plan whose value is within the share.
    pub bound: f64,
    /// (value − bound) / value; 0 if the value is 0.
    pub gap: f64,
}
