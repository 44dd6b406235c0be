//! `stagewright.graph/1`: a model as operators and the tensors between them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ClusterDocument;

/// The value of `schema` in a graph document.
pub const GRAPH_SCHEMA: &str = "stagewright.graph/1";

/// A model graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphDocument {
    /// Always `stagewright.graph/1`.
    pub schema: String,
    /// Name of the model, for people.
    #[serde(default)]
    pub name: String,
    /// The operators, in any order.
    pub operators: Vec<OperatorDocument>,
    /// The tensors, each a hyperedge from one producer to its consumers.
    #[serde(default)]
    pub tensors: Vec<TensorDocument>,
    /// The cluster the file was profiled for, used where no other is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterDocument>,
    /// Operators whose outgoing tensors PipeDream's linearisation leaves out (input and mask layers, chosen by
    /// hand by whoever made the file). Only the `pipedream` baseline reads it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pipedream_skips: Vec<String>,
}

/// The pass of a training step that an operator belongs to.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Pass {
    /// Inference, or the forward half of training.
    #[default]
    Forward,
    /// Gradients.
    Backward,
    /// The optimiser's update; scored with the backward pass.
    Update,
}

/// One operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperatorDocument {
    /// Unique name.
    pub name: String,
    /// What it computes (`conv2d`, `matmul`), for people and for learned features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Forward, backward or update.
    #[serde(default)]
    pub pass: Pass,
    /// Operators with the same colocation name share a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colocation: Option<String>,
    /// Dotted layer path, such as `encoder.3.attention`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// Measured seconds by device class; wins over the roofline of `flop` and `bytes_moved`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seconds: BTreeMap<String, f64>,
    /// Floating-point operations, from which the time on a class with a peak is derived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flop: Option<f64>,
    /// Bytes read and written, from which the time on a class with a memory bandwidth is derived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_moved: Option<f64>,
    /// Device classes that cannot run it whatever its costs say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsupported: Vec<String>,
    /// Bytes of parameters.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parameter_bytes: f64,
    /// Bytes of optimiser state.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub optimizer_bytes: f64,
    /// Bytes of activations stashed for the backward pass, for one microbatch.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub activation_bytes: f64,
    /// Bytes of workspace while it runs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub workspace_bytes: f64,
}

impl OperatorDocument {
    /// Bytes of all four kinds, with the activations of one microbatch.
    pub fn bytes(&self) -> f64 {
        self.parameter_bytes + self.optimizer_bytes + self.workspace_bytes + self.activation_bytes
    }

    /// A forward operator with a name and nothing else; fill in the fields that matter.
    pub fn named(name: impl Into<String>) -> Self {
        OperatorDocument {
            name: name.into(),
            kind: None,
            pass: Pass::Forward,
            colocation: None,
            layer: None,
            seconds: BTreeMap::new(),
            flop: None,
            bytes_moved: None,
            unsupported: Vec::new(),
            parameter_bytes: 0.0,
            optimizer_bytes: 0.0,
            activation_bytes: 0.0,
            workspace_bytes: 0.0,
        }
    }
}

/// One tensor: a hyperedge whose pins are its producer and its consumers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TensorDocument {
    /// Name, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name of the operator that makes it.
    pub producer: String,
    /// Names of the operators that read it, without repetition.
    pub consumers: Vec<String>,
    /// Its size.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: f64,
    /// Measured seconds to move it once over the link of a device of a class; wins over latency plus
    /// bytes / bandwidth.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seconds: BTreeMap<String, f64>,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}
