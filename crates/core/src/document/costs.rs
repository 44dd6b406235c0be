//! `stagewright.costs/1`: measured seconds of operators, kernels and transfers, by device class.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Precision;

/// The value of `schema` in a costs document.
pub const COSTS_SCHEMA: &str = "stagewright.costs/1";

/// Measurements, from any number of sources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CostsDocument {
    /// Always `stagewright.costs/1`.
    pub schema: String,
    /// Name, for display.
    #[serde(default)]
    pub name: String,
    /// Seconds of the operators of one model, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<OperatorCostsDocument>,
    /// Seconds of library kernels, by dimensions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelCostsDocument>,
    /// Seconds of transfers and collectives, by bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkCostsDocument>,
}

impl CostsDocument {
    /// A document without measurements.
    pub fn new(name: impl Into<String>) -> Self {
        CostsDocument {
            schema: COSTS_SCHEMA.into(),
            name: name.into(),
            operators: Vec::new(),
            kernels: Vec::new(),
            links: Vec::new(),
        }
    }
}

/// Seconds of the operators of a model on a device class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperatorCostsDocument {
    /// Device class.
    pub class: String,
    /// The source of the measurements: what was measured, and with which program.
    pub source: String,
    /// Median seconds by name of the operator.
    pub seconds: BTreeMap<String, f64>,
    /// Spread by name of the operator: the interquartile range as a share of the median.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub spread: BTreeMap<String, f64>,
}

/// A kernel of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KernelKind {
    /// A matrix product; dimensions `m`, `n`, `k`: m × k times k × n.
    Product,
    /// Fused attention without a mask; dimensions `batch`, `tokens`, `heads`, `kv_heads`, `head_dim`.
    Attention,
    /// Fused attention with a causal mask; the dimensions are those of `attention`.
    CausalAttention,
    /// Fused attention of one new token per sequence to a cache of `tokens` tokens; the dimensions are those of
    /// `attention`.
    DecodeAttention,
}

impl KernelKind {
    /// All kinds.
    pub const ALL: [KernelKind; 4] = [
        KernelKind::Product,
        KernelKind::Attention,
        KernelKind::CausalAttention,
        KernelKind::DecodeAttention,
    ];

    /// Name in documents.
    pub fn name(self) -> &'static str {
        match self {
            KernelKind::Product => "product",
            KernelKind::Attention => "attention",
            KernelKind::CausalAttention => "causal-attention",
            KernelKind::DecodeAttention => "decode-attention",
        }
    }

    /// Names of the kernel's dimensions, in the order of a row.
    pub fn dimensions(self) -> &'static [&'static str] {
        match self {
            KernelKind::Product => &["m", "n", "k"],
            _ => &["batch", "tokens", "heads", "kv_heads", "head_dim"],
        }
    }
}

/// Seconds of a kernel on a device class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelCostsDocument {
    /// Device class.
    pub class: String,
    /// The kernel.
    pub kernel: KernelKind,
    /// Precision of the kernel's operands.
    pub precision: Precision,
    /// The source of the measurements: what was measured, and with which program.
    pub source: String,
    /// Rows, each of which lists the dimensions of a kernel and then its seconds. Products: `[m, n, k, seconds]`.
    /// Attention: `[batch, tokens, heads, kv_heads, head_dim, seconds]`.
    pub rows: Vec<Vec<f64>>,
}

/// A transfer between devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TransferKind {
    /// From one device to another.
    Send,
    /// Sum of the devices' tensors, on every device.
    AllReduce,
    /// Concatenation of the devices' tensors, on every device.
    AllGather,
    /// Sum of the devices' tensors, of which each device receives a part.
    ReduceScatter,
    /// A part of every device's tensor to every other device.
    AllToAll,
    /// From one device to all others.
    Broadcast,
}

impl TransferKind {
    /// All kinds.
    pub const ALL: [TransferKind; 6] = [
        TransferKind::Send,
        TransferKind::AllReduce,
        TransferKind::AllGather,
        TransferKind::ReduceScatter,
        TransferKind::AllToAll,
        TransferKind::Broadcast,
    ];

    /// Name in documents.
    pub fn name(self) -> &'static str {
        match self {
            TransferKind::Send => "send",
            TransferKind::AllReduce => "all-reduce",
            TransferKind::AllGather => "all-gather",
            TransferKind::ReduceScatter => "reduce-scatter",
            TransferKind::AllToAll => "all-to-all",
            TransferKind::Broadcast => "broadcast",
        }
    }
}

/// Seconds of a transfer among devices of a class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkCostsDocument {
    /// Device class.
    pub class: String,
    /// The transfer.
    pub transfer: TransferKind,
    /// Number of devices that take part.
    pub devices: u32,
    /// Whether the devices are in different servers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub between_servers: bool,
    /// The source of the measurements: what was measured, and with which program.
    pub source: String,
    /// Rows `[bytes, seconds]`. Bytes are the size of the whole tensor on one device: after an all-gather and before a
    /// reduce-scatter, as nccl-tests counts them.
    pub rows: Vec<[f64; 2]>,
}
