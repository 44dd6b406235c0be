//! Memory of a device that runs given operators.
//!
//! In a graph of version 1 operators declare bytes, and a device needs their sum. In a graph of version 2 memory
//! depends on liveness. The device runs its operators one after another, in the order of [`Graph::work_order`], and at
//! any moment needs
//!
//! ```text
//! parameters and optimiser state of its operators
//! + the shared parameters that they read, each once
//! + the live tensors
//! + the workspace of the running operator
//! ```
//!
//! A tensor is live on a device from its producer, or from its first reader there if it comes from another device,
//! until its last reader there; a tensor without readers is an output of the model and stays. With k microbatches in
//! flight, k − 1 of them wait between their passes. Each of these keeps its *stash*, which is the forward tensors that
//! backward operators of the device read, and `activation_bytes`.
//!
//! Adding an operator to a device never shortens a live range, since the range of a tensor on a device is the hull of
//! its pins there. So memory is monotone in the set of operators: if a set does not fit, no superset fits. Exact
//! searches can therefore prune a set as soon as it is too large.
//!
//! Memory is not a sum over operators. Sums are lower bounds ([`Units::bytes`](crate::contraction::Units::bytes)):
//! searches reject sets based on sums, but accept none before [`DeviceBytes`] has been computed.

use std::cell::RefCell;
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::document::{GraphDocument, KindDocument};
use crate::graph::{Graph, OpId, TensorId};
use crate::ids::Keyed;

/// Memory of a device by component.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DeviceBytes {
    /// Parameters and optimiser state, and in version 1 workspace.
    pub fixed: f64,
    /// Declared activations per microbatch.
    pub activations: f64,
    /// Forward tensors that wait for backward operators, per microbatch.
    pub stash: f64,
    /// Maximum bytes of live tensors and workspace while a microbatch runs.
    pub peak: f64,
    /// Bytes of parameters, including shared ones, whose gradients replicas synchronise.
    pub synchronised: f64,
}

impl DeviceBytes {
    /// Total bytes with `in_flight` microbatches in flight, of which there must be at least one.
    #[inline]
    pub fn total(&self, in_flight: u32) -> f64 {
        let in_flight = f64::from(in_flight);
        self.fixed + in_flight * self.activations + ((in_flight - 1.0) * self.stash + self.peak)
    }
}

/// The memory rules of a graph.
#[derive(Debug, Clone)]
pub struct Memory {
    graph: Arc<Graph>,
    /// Position of every operator in the work order; empty in version 1.
    rank: Keyed<OpId, u32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Buffers of [`Memory::of`], reused from graph to graph.
#[derive(Debug, Default)]
struct Scratch {
    order: Keyed<u32, OpId>,
    /// Stamp, and index in `touched`, which is valid if the stamp is that of the current call.
    seen_tensor: Keyed<TensorId, (u32, u32)>,
    /// The tensors that the operators touch, in the order of their first pins on the device.
    touched: Keyed<u32, Range>,
    seen_parameter: Keyed<u32, u32>,
    /// Change of the live bytes at every position of the order.
    change: Keyed<u32, f64>,
    stamp: u32,
}

/// The live range of a tensor on a device.
#[derive(Debug, Clone, Copy)]
struct Range {
    tensor: TensorId,
    /// Positions of the tensor's first pin on the device, and of its last reader there.
    first: u32,
    last: u32,
    /// Whether a backward operator on the device reads the tensor.
    waits: bool,
}

impl Memory {
    pub(crate) fn new(graph: Arc<Graph>) -> Memory {
        let mut rank = Keyed::default();
        if graph.is_version_2() {
            rank = Keyed::filled(0, graph.operator_count());
            for (position, op) in (0..).zip(graph.work_order()) {
                rank[op] = position;
            }
        }
        Memory { graph, rank }
    }

    /// Whether the memory of a device is the sum of its operators' declared bytes.
    pub fn is_sum(&self) -> bool {
        self.rank.is_empty()
    }

    /// Memory of a device that runs every operator, which is the maximum over all sets.
    pub fn of_all(&self) -> DeviceBytes {
        self.of(self.graph.operators())
    }

    /// Memory of a device with these operators, each listed once. O(n log n + their pins) for n operators, independent
    /// of the number of other readers.
    pub fn of(&self, ops: impl IntoIterator<Item = OpId>) -> DeviceBytes {
        match self.is_sum() {
            true => self.sum(ops),
            false => SCRATCH.with_borrow_mut(|scratch| self.work_through(ops, scratch)),
        }
    }

    fn sum(&self, ops: impl IntoIterator<Item = OpId>) -> DeviceBytes {
        let mut bytes = DeviceBytes::default();
        {
            let graph = &*self.graph;
            for op in ops {
                let document = graph.operator(op);
                bytes.fixed += document.parameter_bytes + document.optimizer_bytes + document.workspace_bytes;
                bytes.activations += document.activation_bytes;
                bytes.synchronised += document.parameter_bytes;
            }
        }
        bytes
    }

    fn work_through(&self, ops: impl IntoIterator<Item = OpId>, scratch: &mut Scratch) -> DeviceBytes {
        let graph = &*self.graph;
        let mut bytes = DeviceBytes::default();
        scratch.begin(graph, ops, &self.rank);
        let stamp = scratch.stamp;
        for position in scratch.order.ids() {
            let op = scratch.order[position];
            let document = graph.operator(op);
            bytes.fixed += document.parameter_bytes + document.optimizer_bytes;
            bytes.activations += document.activation_bytes;
            bytes.synchronised += graph.synchronised_bytes(op);
            for &parameter in graph.parameters_of(op) {
                if std::mem::replace(&mut scratch.seen_parameter[parameter], stamp) != stamp {
                    let shared = &graph.parameters()[parameter as usize];
                    bytes.fixed += shared.bytes + shared.optimizer_bytes;
                    bytes.synchronised +=
                        if shared.trained && graph.has_backward() { shared.bytes } else { 0.0 };
                }
            }
            for &tensor in graph.inputs(op) {
                let range = scratch.touch(tensor, position);
                range.last = position;
                range.waits |= !graph.is_forward(op);
            }
            for &tensor in graph.outputs(op) {
                scratch.touch(tensor, position);
            }
        }
        for index in scratch.touched.ids() {
            bytes.stash += scratch.hold(graph, index);
        }
        let mut live = 0.0;
        for (position, &op) in scratch.order.enumerate() {
            live += scratch.change[position];
            bytes.peak = f64::max(bytes.peak, live + graph.operator(op).workspace_bytes);
        }
        bytes
    }
}

impl Scratch {
    fn begin(&mut self, graph: &Graph, ops: impl IntoIterator<Item = OpId>, rank: &Keyed<OpId, u32>) {
        let fresh = graph.tensor_count() != self.seen_tensor.len()
            || graph.parameters().len() != self.seen_parameter.len()
            || self.stamp == u32::MAX;
        if fresh {
            self.seen_tensor = Keyed::filled((0, 0), graph.tensor_count());
            self.seen_parameter = Keyed::filled(0, graph.parameters().len());
            self.stamp = 0;
        }
        self.stamp += 1;
        self.order.clear();
        self.order.extend(ops);
        self.order.sort_unstable_by_key(|&op| rank[op]);
        self.touched.clear();
        self.change.clear();
        self.change.resize(self.order.len() + 1, 0.0);
    }

    /// The range of a tensor that has a pin at `position`, which must not be before the tensor's other pins so far.
    fn touch(&mut self, tensor: TensorId, position: u32) -> &mut Range {
        let (stamp, place) = &mut self.seen_tensor[tensor];
        if std::mem::replace(stamp, self.stamp) != self.stamp {
            *place = self.touched.push(Range { tensor, first: position, last: position, waits: false });
        }
        &mut self.touched[*place]
    }

    /// Makes a tensor live throughout its range. Returns its bytes if it waits for the backward pass, otherwise 0.
    fn hold(&mut self, graph: &Graph, index: u32) -> f64 {
        let Range { tensor, first, mut last, waits } = self.touched[index];
        let bytes = graph.bytes(tensor);
        if bytes == 0.0 {
            return 0.0;
        }
        if graph.consumers(tensor).is_empty() {
            last = self.order.next_id() - 1;
        }
        self.change[first] += bytes;
        self.change[last + 1] -= bytes;
        if waits && graph.is_forward(graph.producer(tensor)) { bytes } else { 0.0 }
    }
}

/// Reserved bytes of an accelerator that is large enough: a context of the driver with its libraries.
const LEAST_RESERVE: f64 = 1024.0 * MEBIBYTE;
/// Share of an accelerator's memory that is reserved, if that is more than [`LEAST_RESERVE`].
const RESERVED_SHARE: f64 = 0.06;
/// Bytes of an accelerator that need no reserve: memory this small is laid out by a compiler and holds no driver
/// context.
const WITHOUT_RESERVE: f64 = 256.0 * MEBIBYTE;
/// Maximum share of the bytes beyond [`WITHOUT_RESERVE`] that is reserved.
const MAX_SHARE: f64 = 0.25;
const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// Bytes of a device of a kind that a plan may use; infinite if the memory is unlimited.
///
/// The reserve of a kind is for the runtime: its context, its libraries, and fragmentation. If the kind has no reserve,
/// a graph of version 2 reserves [`default_reserve`] of an accelerator, and nothing on a host. Version 1 has sizes that
/// were measured together with the runtime's memory.
pub fn usable(graph: &Graph, cluster: &Cluster, kind: usize) -> f64 {
    let reserve = reserve(graph.document(), cluster.kind(kind));
    (cluster.memory(kind) - reserve).max(0.0)
}

/// Bytes that are reserved on an accelerator with `memory` bytes unless a reserve is given: the larger of 1 GiB and 6%,
/// but at most a quarter of what exceeds 256 MiB. More memory never leaves less for a plan.
pub fn default_reserve(memory: f64) -> f64 {
    let limit = MAX_SHARE * (memory - WITHOUT_RESERVE).max(0.0);
    LEAST_RESERVE.max(RESERVED_SHARE * memory).min(limit)
}

/// Memory that a device of a kind must have for `bytes` bytes to be usable; see [`usable`].
pub fn with_reserve(graph: &GraphDocument, kind: &KindDocument, bytes: f64) -> f64 {
    match kind.reserve_bytes {
        Some(reserve) => bytes + reserve,
        None if graph.is_version_2() && !kind.host => {
            let of_large = (bytes + LEAST_RESERVE).max(bytes / (1.0 - RESERVED_SHARE));
            let of_small = bytes.max((bytes - MAX_SHARE * WITHOUT_RESERVE) / (1.0 - MAX_SHARE));
            of_large.min(of_small)
        }
        None => bytes,
    }
}

/// Changes the memory of the devices of a kind. A reserve that equals the default for the old memory is cleared, so
/// that the default for the new memory applies.
pub fn set_memory(graph: &GraphDocument, kind: &mut KindDocument, memory: f64) {
    let open = KindDocument { reserve_bytes: None, ..kind.clone() };
    if kind.reserve_bytes == Some(reserve(graph, &open)) {
        kind.reserve_bytes = None;
    }
    kind.memory_bytes = Some(memory);
}

/// Bytes of a device of a kind that no plan may use; see [`usable`].
pub fn reserve(graph: &GraphDocument, kind: &KindDocument) -> f64 {
    match (kind.reserve_bytes, kind.memory_bytes) {
        (Some(bytes), _) => bytes,
        (None, Some(memory)) if graph.is_version_2() && !kind.host => default_reserve(memory),
        (None, _) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{GRAPH_SCHEMA, GRAPH_SCHEMA_2};

    const MIB: f64 = MEBIBYTE;
    const GIB: f64 = 1024.0 * MEBIBYTE;

    fn graph(schema: &str) -> GraphDocument {
        GraphDocument::new(schema, "model")
    }

    fn kind(memory: f64) -> KindDocument {
        KindDocument { memory_bytes: Some(memory), ..KindDocument::named("acc", 1) }
    }

    #[test]
    fn the_default_reserve_of_a_device_follows_its_memory() {
        let cases = [
            (8e6, 0.0),
            (256.0 * MIB, 0.0),
            (512.0 * MIB, 64.0 * MIB),
            (GIB, 192.0 * MIB),
            (4.25 * GIB, GIB),
            (16.0 * GIB, GIB),
            (24.0 * GIB, 0.06 * 24.0 * GIB),
        ];
        for (memory, expected) in cases {
            assert_eq!(default_reserve(memory), expected, "{memory}");
            assert_eq!(reserve(&graph(GRAPH_SCHEMA_2), &kind(memory)), expected, "{memory}");
            assert_eq!(reserve(&graph(GRAPH_SCHEMA), &kind(memory)), 0.0, "{memory}");
            let host = KindDocument { host: true, ..kind(memory) };
            assert_eq!(reserve(&graph(GRAPH_SCHEMA_2), &host), 0.0, "{memory}");
        }
    }

    /// A small device keeps three quarters of its memory, more memory never leaves less, and the memory for given bytes
    /// is minimal.
    #[test]
    fn the_default_reserve_leaves_room_on_every_device() {
        let graph = graph(GRAPH_SCHEMA_2);
        let mut last = 0.0;
        for step in 0..400 {
            let memory = 1e6 * 1.04f64.powi(step);
            let usable = memory - reserve(&graph, &kind(memory));
            assert!(usable > last && usable > 0.75 * memory, "{memory}: {usable}");
            let found = with_reserve(&graph, &kind(1.0), usable);
            assert!((found / memory - 1.0).abs() < 1e-12, "{memory}: {found}");
            last = usable;
        }
    }

    #[test]
    fn a_reserve_by_default_follows_the_memory_and_a_given_one_does_not() {
        let graph = graph(GRAPH_SCHEMA_2);
        for (given, expected) in [(None, 0.06 * 32.0 * GIB), (Some(GIB), 0.06 * 32.0 * GIB), (Some(MIB), MIB)]
        {
            let mut kind = KindDocument { reserve_bytes: given, ..kind(16.0 * GIB) };
            set_memory(&graph, &mut kind, 32.0 * GIB);
            assert_eq!(reserve(&graph, &kind), expected, "{given:?}");
        }
    }
}
