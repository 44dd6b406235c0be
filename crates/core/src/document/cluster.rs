//! `stagewright.cluster/1`: the devices a model can run on, and the links between them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::graph::is_zero;
use super::{KernelKind, Precision, bytes};

/// The value of `schema` in a cluster document.
pub const CLUSTER_SCHEMA: &str = "stagewright.cluster/1";

/// A cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterDocument {
    /// Always `stagewright.cluster/1`.
    pub schema: String,
    /// Name of the cluster, for display.
    #[serde(default)]
    pub name: String,
    /// Compute classes by name: the speed of one device of the class. A class that a kind names and this table lacks
    /// has only the times that the graph gives for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub classes: BTreeMap<String, ClassDocument>,
    /// Kinds of interchangeable devices. The devices of kind `acc` are called `acc0`, `acc1`, ….
    pub kinds: Vec<KindDocument>,
    /// Groups of devices (a server, a pod) that share an uplink.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupDocument>,
    /// Delay and seconds per byte between every two devices, instead of links; used only by the makespan engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<MatrixDocument>,
}

impl ClusterDocument {
    /// A cluster without devices; set the other fields as needed.
    pub fn new(name: impl Into<String>) -> Self {
        ClusterDocument {
            schema: CLUSTER_SCHEMA.into(),
            name: name.into(),
            classes: BTreeMap::new(),
            kinds: Vec::new(),
            groups: Vec::new(),
            matrix: None,
        }
    }
}

/// A compute class, the roofline of one device.
///
/// An operator without measured seconds takes
/// `max(flop / (peak_flops · efficiency), bytes_moved / memory_bandwidth) + launch_overhead_s`.
///
/// An operator with `kernels` takes instead the sum of their seconds by `fits`, if there is a fit for each of them at
/// its precision, plus `bytes_moved` beyond the operands of the kernels divided by `memory_bandwidth`, plus
/// `launch_overhead_s` for every launch beyond the kernels.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassDocument {
    /// Peak floating-point operations per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_flops: Option<f64>,
    /// Peaks by precision; an operator whose precision is missing uses `peak_flops`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peaks: BTreeMap<Precision, f64>,
    /// Memory bandwidth in bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<f64>,
    /// Seconds to launch one operator.
    #[serde(default)]
    pub launch_overhead_s: f64,
    /// Achieved share of the peak, in (0, 1]; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<f64>,
    /// Share of the peak that the products of a training step reach, in (0, 1], for joint plans of a runtime; `efficiency`
    /// if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training_efficiency: Option<f64>,
    /// Closed forms of the seconds of library kernels; of several for a kernel and a precision, the first applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fits: Vec<KernelFitDocument>,
    /// Source of the values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Seconds of a kernel at a precision:
/// `launch_s + step_s · √inner + row_s · rows + (compute^sharpness + memory^sharpness)^(1 / sharpness)` with
/// `compute = flop / flops` and
/// `memory = (min(bytes, cache_bytes) / 4 + max(bytes − cache_bytes, 0)) / bandwidth`.
///
/// A product of m × k times k × n has 2·m·n·k operations and the bytes of its operands and its result, the result with at
/// least 16 bits; its inner dimension is k, and it has m rows. A batch multiplies operations, bytes and rows. Attention has
/// 4 · rows · columns · head_dim operations, with `rows = batch · kv_heads · ⌈heads / kv_heads · queries⌉₆₄` and
/// `columns = ⌈keys⌉₆₄`, where ⌈x⌉₆₄ is the next multiple of 64, times
/// `1 − max(queries / 2 − 64, 0) / keys` (at least 0) if it is causal; it moves queries and results, keys and values, with
/// `columns` keys, its inner dimension is the keys, and its number of rows counts as 0 here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelFitDocument {
    /// The kernel. Fits for attention with and without a causal mask replace each other.
    pub kernel: KernelKind,
    /// Precision of the kernel's operands.
    pub precision: Precision,
    /// Seconds of the smallest kernel.
    pub launch_s: f64,
    /// Seconds per square root of the inner dimension.
    pub step_s: f64,
    /// Seconds to quantise a row of the first operand of a product.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub row_s: f64,
    /// Floating-point operations per second of large kernels.
    pub flops: f64,
    /// Bytes per second from memory.
    pub bandwidth: f64,
    /// Exponent of the rounded maximum, at least 1.
    pub sharpness: f64,
    /// Bytes that come from a cache, which is four times as fast as memory.
    pub cache_bytes: f64,
    /// The data that the formula was fitted to, with the error of the fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A kind: interchangeable devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KindDocument {
    /// Unique name.
    pub name: String,
    /// Compute class.
    pub class: String,
    /// Number of devices.
    pub count: u32,
    /// Whether the kind is a host, which pays nothing for communication: the data is already in its memory.
    #[serde(default)]
    pub host: bool,
    /// Memory of one device, as a number of bytes or a string such as `16GB` or `16GiB`; unlimited by default.
    #[serde(default, deserialize_with = "bytes::size", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<bytes::Size>")]
    pub memory_bytes: Option<f64>,
    /// Bytes of a device's memory reserved for the runtime, which no plan may use. By default, a graph of version 2
    /// reserves the larger of 1 GiB and 6% of the memory of a device that is not a host, but at most a quarter of what
    /// exceeds 256 MiB, and a graph of version 1 nothing.
    #[serde(default, deserialize_with = "bytes::size", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<bytes::Size>")]
    pub reserve_bytes: Option<f64>,
    /// The link of each device to the fabric. Required unless the kind is a host or every tensor has measured
    /// seconds for the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkDocument>,
    /// Name of the group its devices belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The servers that contain the devices, for joint plans; by default, one server contains all of them. Other plans
    /// ignore this field: write servers as groups for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerDocument>,
    /// The host's memory for joint plans that keep states or activations there (`offload`); without it, no plan does. Other
    /// plans ignore this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ram: Option<RamDocument>,
}

/// Memory of a host, the share of one device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RamDocument {
    /// Bytes of a host's memory for one device, as a number or a string such as `256GiB`; unlimited by default.
    #[serde(default, deserialize_with = "bytes::size", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<bytes::Size>")]
    pub memory_bytes: Option<f64>,
    /// Bytes per second that updates on the host read and write, for one device.
    pub bandwidth: f64,
    /// Bytes per second between a device and the host's memory, each way.
    pub link_bandwidth: f64,
}

/// Servers, each with the same number of devices of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerDocument {
    /// Number of devices of a server.
    pub devices: u32,
    /// Link of each device to the devices of other servers.
    pub link: LinkDocument,
}

/// Devices whose kind and class have the same name, without a memory limit, link or group.
///
/// ```
/// use stagewright_core::document::devices;
///
/// let gpus = devices("gpu", 4).memory(16e9).link(1e10, 1e-5);
/// assert_eq!((gpus.count, gpus.memory_bytes), (4, Some(16e9)));
/// ```
pub fn devices(name: impl Into<String>, count: u32) -> KindDocument {
    KindDocument::named(name, count)
}

impl KindDocument {
    /// Sets the bytes of memory of one device.
    #[must_use]
    pub fn memory(mut self, bytes: f64) -> Self {
        self.memory_bytes = Some(bytes);
        self
    }

    /// Gives every device a link of `bandwidth` bytes per second, with `latency_s` seconds before the first byte.
    #[must_use]
    pub fn link(mut self, bandwidth: f64, latency_s: f64) -> Self {
        self.link = Some(LinkDocument { latency_s, bandwidth });
        self
    }

    /// Devices of a class with the same name, without a memory limit, link or group; set the other fields as needed.
    pub fn named(name: impl Into<String>, count: u32) -> Self {
        let name = name.into();
        KindDocument {
            class: name.clone(),
            name,
            count,
            host: false,
            memory_bytes: None,
            reserve_bytes: None,
            link: None,
            group: None,
            server: None,
            ram: None,
        }
    }
}

/// A link: moving `b` bytes takes `latency_s + b / bandwidth`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkDocument {
    /// Seconds before the first byte.
    #[serde(default)]
    pub latency_s: f64,
    /// Bytes per second.
    pub bandwidth: f64,
}

/// A group of devices with an uplink of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupDocument {
    /// Unique name.
    pub name: String,
    /// The link that every tensor with a pin inside and a pin outside the group crosses once.
    pub uplink: LinkDocument,
}

/// Square matrices over all devices in the order of the kinds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MatrixDocument {
    /// Seconds before the first byte, from row to column.
    pub delay_s: Vec<Vec<f64>>,
    /// Seconds per byte, from row to column.
    pub seconds_per_byte: Vec<Vec<f64>>,
}
