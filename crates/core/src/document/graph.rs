//! `stagewright.graph/2`: a model as operators, the tensors between them and the parameters that they share.
//!
//! Version 1, `stagewright.graph/1`, is supported as well. It has neither shared parameters nor live tensors: the
//! memory of a device is the sum of its operators' declared bytes, and replicas synchronise parameters regardless of
//! the passes.

use std::collections::BTreeMap;
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};

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
    /// Name of the model, for display.
    #[serde(default)]
    pub name: String,
    /// The operators, in any order.
    pub operators: Vec<OperatorDocument>,
    /// The tensors, each a hyperedge from one producer to its consumers.
    #[serde(default)]
    pub tensors: Vec<TensorDocument>,
    /// Parameters, constants and caches that several operators read in place; only in version 2.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<ParameterDocument>,
    /// Batch of one run of the model, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchDocument>,
    /// The cluster the file was profiled for, used if no other is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterDocument>,
    /// Operators whose outgoing tensors PipeDream's linearisation omits (input and mask layers, chosen by hand by the
    /// author of the file). Only the `pipedream` baseline reads it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pipedream_skips: Vec<String>,
}

impl GraphDocument {
    /// An empty graph of a version; set the other fields as needed.
    pub fn new(schema: &str, name: impl Into<String>) -> Self {
        GraphDocument {
            schema: schema.into(),
            name: name.into(),
            operators: Vec::new(),
            tensors: Vec::new(),
            parameters: Vec::new(),
            batch: None,
            cluster: None,
            pipedream_skips: Vec::new(),
        }
    }

    /// Whether the document is of version 2, whose memory counts live tensors and shared parameters.
    pub fn is_version_2(&self) -> bool {
        self.schema == GRAPH_SCHEMA_2
    }
}

/// Batch of one run of a model, which converts batches per second to samples and tokens per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchDocument {
    /// Samples per batch.
    pub samples: NonZeroU64,
    /// Tokens per sample, if the model has such a dimension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<NonZeroU64>,
}

/// Data that operators read in place: every device with a reader holds it once.
///
/// Examples are a tied embedding, a causal mask, a rotary table and the key-value cache of a layer. A parameter with a
/// single reader may be declared as its `parameter_bytes` instead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParameterDocument {
    /// Name, for display.
    pub name: String,
    /// Size in bytes.
    pub bytes: f64,
    /// Bytes of optimiser state, on every device that holds the parameter.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub optimizer_bytes: f64,
    /// Names of the operators that read the parameter, without repetition; at least one.
    pub readers: Vec<String>,
    /// Whether training changes the parameter. If the graph has a backward pass and several devices hold the parameter,
    /// they synchronise its gradient once per step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trained: bool,
    /// Whether all readers share a device, so that there is no second copy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub together: bool,
}

/// Number format of an operator's computation, which determines the peak of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// IEEE double precision.
    Fp64,
    /// IEEE single precision.
    Fp32,
    /// Single precision, multiplied with a 10-bit mantissa on tensor cores.
    Tf32,
    /// IEEE half precision.
    Fp16,
    /// bfloat16.
    Bf16,
    /// 8-bit floating point.
    Fp8,
    /// 4-bit floating point with scales for small blocks (NVFP4, MXFP4).
    Fp4,
    /// 8-bit integers.
    Int8,
    /// 4-bit integers.
    Int4,
}

impl Precision {
    /// All precisions.
    pub const ALL: [Precision; 9] = [
        Precision::Fp64,
        Precision::Fp32,
        Precision::Tf32,
        Precision::Fp16,
        Precision::Bf16,
        Precision::Fp8,
        Precision::Fp4,
        Precision::Int8,
        Precision::Int4,
    ];

    /// Name in documents and options.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Fp64 => "fp64",
            Precision::Fp32 => "fp32",
            Precision::Tf32 => "tf32",
            Precision::Fp16 => "fp16",
            Precision::Bf16 => "bf16",
            Precision::Fp8 => "fp8",
            Precision::Fp4 => "fp4",
            Precision::Int8 => "int8",
            Precision::Int4 => "int4",
        }
    }

    /// Bytes of a number.
    pub fn bytes(self) -> f64 {
        match self {
            Precision::Fp64 => 8.0,
            Precision::Fp32 | Precision::Tf32 => 4.0,
            Precision::Fp16 | Precision::Bf16 => 2.0,
            Precision::Fp8 | Precision::Int8 => 1.0,
            Precision::Fp4 | Precision::Int4 => 0.5,
        }
    }

    /// The precision with the given name.
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

/// A library kernel that an operator calls, with the dimensions by which measurements are listed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum KernelDocument {
    /// `batch` independent matrix products of m × k times k × n.
    Product {
        /// Number of products of this size.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        batch: f64,
        /// Rows of the result.
        m: f64,
        /// Columns of the result.
        n: f64,
        /// Inner dimension.
        k: f64,
    },
    /// Fused attention.
    Attention {
        /// Sequences.
        batch: f64,
        /// New tokens of a sequence.
        queries: f64,
        /// Tokens that the new tokens attend to, past ones included.
        keys: f64,
        /// Heads.
        heads: f64,
        /// Heads of keys and values.
        kv_heads: f64,
        /// Size of a head.
        head_dim: f64,
        /// Whether tokens attend to earlier ones only.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        causal: bool,
    },
}

impl KernelDocument {
    /// Dimensions of the kernel by name. Each has to be positive and finite.
    pub fn dimensions(&self) -> Vec<(&'static str, f64)> {
        match *self {
            KernelDocument::Product { batch, m, n, k } => {
                vec![("batch", batch), ("m", m), ("n", n), ("k", k)]
            }
            KernelDocument::Attention { batch, queries, keys, heads, kv_heads, head_dim, .. } => vec![
                ("batch", batch),
                ("queries", queries),
                ("keys", keys),
                ("heads", heads),
                ("kv_heads", kv_heads),
                ("head_dim", head_dim),
            ],
        }
    }
}

/// One operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperatorDocument {
    /// Unique name.
    pub name: String,
    /// Type of operation (`conv2d`, `matmul`), for display and for learned features.
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
    /// Measured seconds by device class; overrides the roofline of `flop` and `bytes_moved`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seconds: BTreeMap<String, f64>,
    /// Floating-point operations, from which the time on a class with a peak is derived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flop: Option<f64>,
    /// Bytes read and written, from which the time on a class with a memory bandwidth is derived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_moved: Option<f64>,
    /// Precision of the operator's computation; if a class has a peak for the precision, that peak applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    /// Number of kernel launches, 1 by default: 0 for a view, or for an operator that runs in the kernel of another.
    /// The roofline adds the launch overhead of the class once per launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launches: Option<f64>,
    /// Library kernels that the operator calls, if known: they are looked up in measurements, and in the fits of a
    /// class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelDocument>,
    /// Device classes that cannot run the operator, regardless of its costs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsupported: Vec<String>,
    /// Bytes of parameters.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parameter_bytes: f64,
    /// Bytes of optimiser state.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub optimizer_bytes: f64,
    /// Bytes of activations stashed for the backward pass, per microbatch. In version 2 only those that are not tensors
    /// of the graph: tensors are held as long as they are live.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub activation_bytes: f64,
    /// Number of experts to which a `dispatch` sends, if one of its outputs leads to several; by default every output
    /// leads to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<NonZeroU32>,
    /// Whether a `softmax` hides the scores of later tokens, so that a kernel of the whole attention computes half of
    /// its products.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub causal: bool,
    /// Bytes of workspace while the operator runs. In version 2 a device needs the maximum over time, in version 1 the
    /// sum over its operators.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub workspace_bytes: f64,
}

/// A forward operator with only a name.
///
/// ```
/// use stagewright_core::document::operator;
///
/// let convolution = operator("conv1").seconds("gpu", 1e-3).parameters(4e6);
/// assert_eq!(convolution.parameter_bytes, 4e6);
/// ```
pub fn operator(name: impl Into<String>) -> OperatorDocument {
    OperatorDocument::named(name)
}

impl OperatorDocument {
    /// Bytes of parameters, optimiser state and workspace, and of the activations of one microbatch.
    pub fn bytes(&self) -> f64 {
        self.parameter_bytes + self.optimizer_bytes + self.workspace_bytes + self.activation_bytes
    }

    /// Sets the measured seconds on a device class.
    #[must_use]
    pub fn seconds(mut self, class: impl Into<String>, seconds: f64) -> Self {
        self.seconds.insert(class.into(), seconds);
        self
    }

    /// Sets the bytes of parameters.
    #[must_use]
    pub fn parameters(mut self, bytes: f64) -> Self {
        self.parameter_bytes = bytes;
        self
    }

    /// Sets the bytes of activations stashed for the backward pass, per microbatch.
    #[must_use]
    pub fn activations(mut self, bytes: f64) -> Self {
        self.activation_bytes = bytes;
        self
    }

    /// Sets the pass: forward, backward or update.
    #[must_use]
    pub fn pass(mut self, pass: Pass) -> Self {
        self.pass = pass;
        self
    }

    /// Sets the colocation name; operators with the same name share a device.
    #[must_use]
    pub fn colocation(mut self, name: impl Into<String>) -> Self {
        self.colocation = Some(name.into());
        self
    }

    /// A forward operator with only a name; set the other fields as needed.
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
            kernels: Vec::new(),
            unsupported: Vec::new(),
            parameter_bytes: 0.0,
            optimizer_bytes: 0.0,
            activation_bytes: 0.0,
            experts: None,
            causal: false,
            workspace_bytes: 0.0,
        }
    }
}

/// One tensor: a hyperedge whose pins are its producer and its consumers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TensorDocument {
    /// Name, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name of the operator that produces the tensor.
    pub producer: String,
    /// Names of the operators that read the tensor, without repetition.
    pub consumers: Vec<String>,
    /// Size in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: f64,
    /// Measured seconds to move the tensor once over the link of a device of a class; overrides latency plus bytes /
    /// bandwidth.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seconds: BTreeMap<String, f64>,
}

impl TensorDocument {
    /// A tensor without a name or measured seconds.
    pub fn new(producer: impl Into<String>, consumers: Vec<String>, bytes: f64) -> Self {
        TensorDocument { name: None, producer: producer.into(), consumers, bytes, seconds: BTreeMap::new() }
    }
}

fn one() -> f64 {
    1.0
}

fn is_one(value: &f64) -> bool {
    *value == 1.0
}

/// Whether a number has its default, and is not written.
pub(super) fn is_zero(value: &f64) -> bool {
    *value == 0.0
}
