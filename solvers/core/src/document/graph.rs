//! `stagewright.graph/2`: a model as operators, the tensors between them and the parameters that they share.
//!
//! Version 1, `stagewright.graph/1`, is read as well. It has neither shared parameters nor live tensors: the memory of a
//! device is the sum of what its operators declare, and replicas synchronise parameters whatever the passes are.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ClusterDocument;

/// The value of `schema` in a graph document of version 1.
pub const GRAPH_SCHEMA: &str = "stagewright.graph/1";

/// The value of `schema` in a graph document of version 2.
pub const GRAPH_SCHEMA_2: &str = "stagewright.graph/2";

/// A model graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphDocument {
    /// `stagewright.graph/1` or `stagewright.graph/2`.
    pub schema: String,
    /// Name of the model, for people.
    #[serde(default)]
    pub name: String,
    /// The operators, in any order.
    pub operators: Vec<OperatorDocument>,
    /// The tensors, each a hyperedge from one producer to its consumers.
    #[serde(default)]
    pub tensors: Vec<TensorDocument>,
    /// Parameters, constants and caches that several operators read where they are; in version 2 alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<ParameterDocument>,
    /// What one run of the model works through, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchDocument>,
    /// The cluster the file was profiled for, used where no other is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterDocument>,
    /// Operators whose outgoing tensors PipeDream's linearisation leaves out (input and mask layers, chosen by
    /// hand by whoever made the file). Only the `pipedream` baseline reads it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pipedream_skips: Vec<String>,
}

impl GraphDocument {
    /// Whether the document is of version 2, whose memory counts live tensors and shared parameters.
    pub fn is_version_2(&self) -> bool {
        self.schema == GRAPH_SCHEMA_2
    }
}

/// What one run of a model works through, which turns batches a second into what people count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchDocument {
    /// Samples.
    pub samples: NonZeroU64,
    /// Tokens of a sample, where the model has such a dimension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<NonZeroU64>,
}

/// Bytes that operators read where they are: every device with a reader holds them once.
///
/// A tied embedding, a causal mask, a rotary table or the key-value cache of a layer is one of these. A parameter with
/// a single reader may be declared as its `parameter_bytes` instead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParameterDocument {
    /// Name, for people.
    pub name: String,
    /// Its size.
    pub bytes: f64,
    /// Bytes of optimiser state, on every device that holds it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub optimizer_bytes: f64,
    /// Names of the operators that read it, without repetition; at least one.
    pub readers: Vec<String>,
    /// Whether training changes it. Where the graph has a backward pass and several devices hold it, they synchronise
    /// its gradient once a step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trained: bool,
    /// Whether all readers share a device, so that no second copy is made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub together: bool,
}

/// The type of the numbers that an operator computes with, which decides the peak of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// IEEE double precision.
    Fp64,
    /// IEEE single precision.
    Fp32,
    /// Single precision, multiplied with 10 bits of mantissa on tensor cores.
    Tf32,
    /// IEEE half precision.
    Fp16,
    /// bfloat16.
    Bf16,
    /// 8-bit floating point.
    Fp8,
    /// 8-bit integers.
    Int8,
    /// 4-bit integers.
    Int4,
}

impl Precision {
    /// All of them.
    pub const ALL: [Precision; 8] = [
        Precision::Fp64,
        Precision::Fp32,
        Precision::Tf32,
        Precision::Fp16,
        Precision::Bf16,
        Precision::Fp8,
        Precision::Int8,
        Precision::Int4,
    ];

    /// As documents and options have it.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Fp64 => "fp64",
            Precision::Fp32 => "fp32",
            Precision::Tf32 => "tf32",
            Precision::Fp16 => "fp16",
            Precision::Bf16 => "bf16",
            Precision::Fp8 => "fp8",
            Precision::Int8 => "int8",
            Precision::Int4 => "int4",
        }
    }

    /// The precision of a name.
    pub fn named(name: &str) -> Option<Precision> {
        Precision::ALL.into_iter().find(|precision| precision.name() == name)
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
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
    /// Type of the numbers it computes with; the peak of a class is that of the type, where the class says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    /// Kernels that it launches, 1 where it is not given: 0 for a view, or for what runs in the kernel of another
    /// operator. The roofline adds the launch overhead of the class once for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launches: Option<f64>,
    /// Device classes that cannot run it whatever its costs say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsupported: Vec<String>,
    /// Bytes of parameters.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parameter_bytes: f64,
    /// Bytes of optimiser state.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub optimizer_bytes: f64,
    /// Bytes of activations stashed for the backward pass, for one microbatch. In version 2 those that are no tensor of
    /// the graph: tensors are held as long as they are live.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub activation_bytes: f64,
    /// Bytes of workspace while it runs. In version 2 a device needs the most of any moment, in version 1 the sum over
    /// its operators.
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
            precision: None,
            launches: None,
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
