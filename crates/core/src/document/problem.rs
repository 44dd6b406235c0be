//! `stagewright.problem/1`: a problem with its limits in one document, as a solver in another program reads it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClusterDocument, GraphDocument, ObjectiveDocument, PinsDocument};

/// The value of `schema` in a problem document.
pub const PROBLEM_SCHEMA: &str = "stagewright.problem/1";

/// A problem, and the limits of its solver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProblemDocument {
    /// `stagewright.problem/1`.
    pub schema: String,
    /// The model.
    pub graph: GraphDocument,
    /// The cluster.
    pub cluster: ClusterDocument,
    /// Names of the devices, kind by kind; a plan may give a device by its name or by its number in this list.
    pub devices: Vec<String>,
    /// The objective with its rules, without a value.
    pub objective: ObjectiveDocument,
    /// Pins of operators.
    #[serde(default)]
    pub pins: PinsDocument,
    /// Time limit of the solver in seconds; `null` means unlimited.
    pub time_limit_s: Option<f64>,
    /// Bytes that the tables of the solver may take; `null` means unlimited.
    pub memory_limit_bytes: Option<u64>,
    /// Relative gap at which the solver may stop.
    pub gap: f64,
    /// Seed of every random choice.
    pub seed: u64,
    /// Threads that the solver may use.
    pub threads: usize,
}
