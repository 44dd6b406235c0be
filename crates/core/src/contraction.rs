//! Contraction: from operators to the units that combinatorial solvers place.
//!
//! Operators that must share a device become one *unit*, and tensors become nets over units:
//!
//! - for a **free** (or convex) split the units are the colocation classes;
//! - for a **contiguous** split they are contracted further, until the order that the split rule requires is acyclic.
//!   The rule orders the *forward* operators of different units along their tensors. A class without a forward operator
//!   is ordered by mirroring: a tensor from backward operator a to backward operator b, if the class of either has no
//!   forward operator, puts b's unit before a's. All other backward and update operators follow their class. Units on a
//!   cycle of the order must share a device, so strongly connected components are fused;
//! - for **latency** they are contracted until all tensors between them are acyclic, so that any chain of units can be
//!   cut into calls. This leaves out plans in which hosts run only part of a component, or one operator of a class
//!   before a call and another after it. So a plan that is found is valid, but if none is found, one may still exist.
//!
//! Costs come from the original tensors alone: a net's pins are the units of the tensor's pins, nets inside one unit
//! vanish, and nets with the same producer, pins and pass are added up. Synchronising the gradient of a shared
//! parameter costs the same for every device with a copy, so the gradient is a net as well: its pins are the units that
//! read the parameter. It has no producer and imposes no order.
//!
//! There are two measures of memory. Sums over units ([`Units::bytes`]) are lower bounds for a device with these units;
//! [`Units::device_bytes`] computes the exact memory of the device.
//!
//! The construction is that of the NeurIPS 2020 reference code (Tarnawski et al., "Efficient Algorithms for
//! Device Placement of DNN Graph Operators", Appendix B), so that values agree with it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use rustc_hash::FxHashMap;

use crate::csr::Csr;
use crate::document::{ObjectiveKind, Pass, Split};
use crate::graph::{ClassId, OpId, TensorId};
use crate::id;
use crate::ids::{Id, Keyed};
use crate::memory::{DeviceBytes, Memory};
use crate::objective::{Objective, Throughput};
use crate::overhead::Step;
use crate::problem::Problem;

id! {
    /// Index of a unit.
    pub UnitId;
    /// Index of a net.
    pub NetId;
    /// Index of a shared parameter among those that several units share.
    pub SharedId;
}

/// A net: a contracted tensor, or several tensors with the same producer, pass and pins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Net {
    /// The sending unit, or [`Net::GRADIENT`].
    pub producer: UnitId,
    /// 0, or 1 for a backward net under `separate` training.
    pub pass: u8,
    first_pin: u32,
    pin_count: u32,
}

impl Net {
    /// Stands for the producer of a net that is the gradient of a shared parameter, which every holder sends and
    /// receives.
    pub const GRADIENT: UnitId = UnitId(u32::MAX);

    /// Whether the net is the gradient of a shared parameter.
    #[inline]
    pub fn is_gradient(&self) -> bool {
        self.producer == Net::GRADIENT
    }
}

/// The contracted problem. Units are numbered in a topological order of the precedence (contiguous), or by their first
/// operators (free).
#[derive(Debug, Clone)]
pub struct Units {
    unit_of: Vec<UnitId>,
    members: Csr<OpId>,
    nets: Keyed<NetId, Net>,
    pins: Vec<UnitId>,
    nets_of: Csr<NetId>,
    successors: Csr<UnitId>,
    predecessors: Csr<UnitId>,
    pools: usize,
    passes: usize,
    /// `[pool][pass][unit]`; unsupported units hold zero, see `supported`.
    seconds: Vec<f64>,
    /// `[pool][unit]`.
    supported: Vec<bool>,
    /// `[pool][net]`.
    transfer: Vec<f64>,
    /// `[group][net]`.
    uplink: Vec<f64>,
    fixed_bytes: Keyed<UnitId, f64>,
    activation_bytes: Keyed<UnitId, f64>,
    parameter_bytes: Keyed<UnitId, f64>,
    /// Bytes of parameters, whether or not replicas synchronise them. A shared parameter counts at the first unit that
    /// reads it.
    weight_bytes: Keyed<UnitId, f64>,
    memory: Arc<Memory>,
    /// Bytes of tensors and workspace that an operator of the unit needs while it runs; the maximum over the operators.
    working_bytes: Keyed<UnitId, f64>,
    /// Declared activations, without tensors that are held.
    declared_bytes: Keyed<UnitId, f64>,
    /// Upper bound on the bytes that a unit adds to a device with one microbatch in flight, without shared parameters.
    most_bytes: Keyed<UnitId, f64>,
    /// Upper bound on the bytes that every further microbatch in flight adds for a unit.
    most_stash: Keyed<UnitId, f64>,
    shared: Keyed<SharedId, Shared>,
    shared_of: Csr<SharedId>,
    always_fits: bool,
}

/// A parameter that several units share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shared {
    /// Bytes of the parameter and its optimiser state, which every device with one of the units holds once.
    pub bytes: f64,
    /// Bytes that replicas of a stage synchronise.
    pub synchronised: f64,
}

impl Units {
    /// The contracted problem. It is computed at the first call, in time O(pools · (operators + pins) log), and then
    /// shared.
    pub fn of(problem: &Problem) -> Arc<Units> {
        problem.memo(|| problem.timed(Step::Contraction, || Units::new(problem)))
    }

    /// Contracts a problem under its split rule. [`Units::of`] does so once per problem.
    pub fn new(problem: &Problem) -> Units {
        Units::with_fused(problem, &[])
    }

    /// Contracts a problem further: each of the given pairs of colocation classes shares a unit as well. The order of
    /// the split rule is still that of the original problem, so fusing does not relax the order, as fewer and larger
    /// colocation classes in the graph would.
    ///
    /// # Panics
    /// If a pair names a class that the graph does not have.
    pub fn with_fused(problem: &Problem, pairs: &[(ClassId, ClassId)]) -> Units {
        match problem.objective() {
            Objective::Latency { .. } => Units::of_classes(problem, tensors_between_classes(problem), pairs),
            Objective::Throughput(Throughput { split: Split::Contiguous, .. }) => {
                Units::contiguous(problem, pairs)
            }
            Objective::Throughput(_) | Objective::Makespan { .. } => {
                Units::of_classes(problem, Vec::new(), pairs)
            }
        }
    }

    /// Contracts a problem in the order of a contiguous split, whatever the problem's own rule; otherwise like
    /// [`Units::with_fused`].
    pub fn contiguous(problem: &Problem, pairs: &[(ClassId, ClassId)]) -> Units {
        Units::of_classes(problem, order_of_classes(problem), pairs)
    }

    /// Contracts the colocation classes that lie on cycles of an order.
    fn of_classes(
        problem: &Problem,
        mut class_edges: Vec<(ClassId, ClassId)>,
        pairs: &[(ClassId, ClassId)],
    ) -> Units {
        // Two classes that must each come before the other are on a cycle.
        class_edges.extend(pairs.iter().flat_map(|&(left, right)| [(left, right), (right, left)]));
        let graph = problem.graph();
        let (class_unit, unit_count, edges) = fuse_components(graph.class_count(), &class_edges);
        let unit_of: Vec<UnitId> = graph.operators().map(|op| class_unit[graph.class_of(op)]).collect();
        let members: Vec<(UnitId, OpId)> = graph.operators().map(|op| (unit_of[op.index()], op)).collect();
        let reversed = {
            let mut reversed: Vec<(UnitId, UnitId)> = edges.iter().map(|&(from, to)| (to, from)).collect();
            reversed.sort_unstable();
            reversed
        };
        let mut units = Units {
            members: Csr::from_pairs(unit_count, &members),
            successors: Csr::from_pairs(unit_count, &edges),
            predecessors: Csr::from_pairs(unit_count, &reversed),
            pools: problem.pools().len(),
            passes: problem.objective().passes(),
            seconds: Vec::new(),
            supported: Vec::new(),
            nets: Keyed::default(),
            pins: Vec::new(),
            nets_of: Csr::default(),
            transfer: Vec::new(),
            uplink: Vec::new(),
            fixed_bytes: Keyed::filled(0.0, unit_count),
            activation_bytes: Keyed::filled(0.0, unit_count),
            parameter_bytes: Keyed::filled(0.0, unit_count),
            weight_bytes: Keyed::filled(0.0, unit_count),
            memory: problem.memory().clone(),
            working_bytes: Keyed::filled(0.0, unit_count),
            declared_bytes: Keyed::filled(0.0, unit_count),
            most_bytes: Keyed::filled(0.0, unit_count),
            most_stash: Keyed::filled(0.0, unit_count),
            shared: Keyed::default(),
            shared_of: Csr::from_pairs(unit_count, &[] as &[(UnitId, SharedId)]),
            always_fits: false,
            unit_of,
        };
        units.add_up_operators(problem);
        units.add_up_tensors(problem);
        if !units.memory.is_sum() {
            units.share_parameters(problem);
            units.hold_tensors(problem);
            units.always_fits = units.fit_all_together(problem);
        }
        units
    }

    fn add_up_operators(&mut self, problem: &Problem) {
        let count = self.len();
        let graph = problem.graph();
        self.seconds = vec![0.0; self.pools * self.passes * count];
        self.supported = vec![true; self.pools * count];
        for op in graph.operators() {
            let unit = self.unit_of[op.index()];
            let document = graph.operator(op);
            let workspace = if self.memory.is_sum() { document.workspace_bytes } else { 0.0 };
            self.fixed_bytes[unit] += document.parameter_bytes + document.optimizer_bytes + workspace;
            self.activation_bytes[unit] += document.activation_bytes;
            self.parameter_bytes[unit] += graph.synchronised_bytes(op);
            self.weight_bytes[unit] += document.parameter_bytes;
        }
        for pools in blocks(self.pools) {
            for op in graph.operators() {
                let unit = self.unit_of[op.index()];
                let is_later = self.passes == 2 && graph.operator(op).pass != Pass::Forward;
                for pool in pools.clone() {
                    match problem.seconds(op, pool) {
                        Some(seconds) => {
                            let row = pool * self.passes + usize::from(is_later);
                            self.seconds[row * count + unit.index()] += seconds;
                        }
                        None => self.supported[pool * count + unit.index()] = false,
                    }
                }
            }
        }
    }

    fn add_up_tensors(&mut self, problem: &Problem) {
        let times = self.add_nets(problem);
        let (nets, costs) = (self.nets.len(), problem.costs());
        self.transfer = vec![0.0; self.pools * nets];
        for pools in blocks(self.pools) {
            for &(net, carried) in &times {
                for pool in pools.clone() {
                    let kind = problem.pools()[pool].kind;
                    self.transfer[pool * nets + net.index()] += match carried {
                        Carried::Tensor(tensor) => costs.transfer(tensor, kind),
                        Carried::Gradient(parameter) => costs.gradient(parameter, kind),
                    };
                }
            }
        }
        let groups = problem.cluster().group_count();
        self.uplink = vec![0.0; groups * nets];
        for groups in blocks(groups) {
            for &(net, carried) in &times {
                for group in groups.clone() {
                    self.uplink[group * nets + net.index()] += match carried {
                        Carried::Tensor(tensor) => costs.uplink(tensor, group),
                        Carried::Gradient(parameter) => costs.gradient_uplink(parameter, group),
                    };
                }
            }
        }
    }

    /// Makes one net of all tensors and gradients with the same units. Returns each tensor and gradient with its net.
    fn add_nets(&mut self, problem: &Problem) -> Vec<(NetId, Carried)> {
        let graph = problem.graph();
        let mut net_of: FxHashMap<(UnitId, u8, Vec<UnitId>), NetId> = FxHashMap::default();
        let mut times: Vec<(NetId, Carried)> = Vec::new();
        let mut incidence: Vec<(UnitId, NetId)> = Vec::new();
        let tensors = graph.tensors().map(|tensor| {
            let pass = u8::from(self.passes == 2 && !graph.is_forward(graph.producer(tensor)));
            (Carried::Tensor(tensor), graph.pins(tensor), pass)
        });
        let synchronised = |&parameter: &usize| {
            graph.parameters()[parameter].trained
                && graph.has_backward()
                && problem.objective().kind() == ObjectiveKind::Throughput
        };
        let gradients = (0..graph.parameters().len()).filter(synchronised).map(|parameter| {
            (Carried::Gradient(parameter), graph.readers(parameter), u8::from(self.passes == 2))
        });
        for (carried, pins, pass) in tensors.chain(gradients) {
            let mut pins: Vec<UnitId> = pins.iter().map(|op| self.unit_of[op.index()]).collect();
            let producer = match carried {
                Carried::Tensor(_) => pins[0],
                Carried::Gradient(_) => Net::GRADIENT,
            };
            pins.sort_unstable();
            pins.dedup();
            if pins.len() < 2 {
                continue;
            }
            let net = *net_of.entry((producer, pass, pins)).or_insert_with_key(|(_, _, pins)| {
                let fresh = self.nets.push(Net {
                    producer,
                    pass,
                    first_pin: self.pins.len() as u32,
                    pin_count: pins.len() as u32,
                });
                self.pins.extend_from_slice(pins);
                incidence.extend(pins.iter().map(|&unit| (unit, fresh)));
                fresh
            });
            times.push((net, carried));
        }
        self.nets_of = Csr::from_pairs(self.len(), &incidence);
        times
    }

    /// Adds parameters that a single unit reads to its own bytes; parameters of several units become shared.
    fn share_parameters(&mut self, problem: &Problem) {
        let graph = problem.graph();
        let mut incidence: Vec<(UnitId, SharedId)> = Vec::new();
        for (parameter, document) in graph.parameters().iter().enumerate() {
            let mut units: Vec<UnitId> =
                graph.readers(parameter).iter().map(|op| self.unit_of[op.index()]).collect();
            units.sort_unstable();
            units.dedup();
            let bytes = document.bytes + document.optimizer_bytes;
            let synchronised = if document.trained && graph.has_backward() { document.bytes } else { 0.0 };
            self.weight_bytes[units[0]] += if document.trained { document.bytes } else { 0.0 };
            if let [unit] = units[..] {
                self.fixed_bytes[unit] += bytes;
                self.parameter_bytes[unit] += synchronised;
            } else {
                let shared = self.shared.push(Shared { bytes, synchronised });
                incidence.extend(units.iter().map(|&unit| (unit, shared)));
            }
        }
        self.shared_of = Csr::from_pairs(self.len(), &incidence);
    }

    /// Computes lower and upper bounds on the tensor bytes of units.
    fn hold_tensors(&mut self, problem: &Problem) {
        let graph = problem.graph();
        self.declared_bytes.clone_from(&self.activation_bytes);
        let mut workspace = Keyed::filled(0.0, self.len());
        for op in graph.operators() {
            let tensors = graph.inputs(op).iter().chain(graph.outputs(op));
            let own = graph.operator(op).workspace_bytes;
            let needed = own + tensors.map(|&tensor| graph.bytes(tensor)).sum::<f64>();
            let unit = self.unit_of[op.index()];
            self.working_bytes[unit] = f64::max(self.working_bytes[unit], needed);
            workspace[unit] = f64::max(workspace[unit], own);
        }
        let mut touching: Vec<UnitId> = Vec::new();
        let mut holding: Vec<UnitId> = Vec::new();
        for tensor in graph.tensors() {
            let bytes = graph.bytes(tensor);
            touching.clear();
            touching.extend(graph.pins(tensor).iter().map(|op| self.unit_of[op.index()]));
            touching.sort_unstable();
            touching.dedup();
            for &unit in &touching {
                self.most_bytes[unit] += bytes;
            }
            if !graph.is_forward(graph.producer(tensor)) {
                continue;
            }
            // A unit with pins in both passes holds the tensor between them, and so does every device with that unit.
            let side = |op: &OpId| (self.unit_of[op.index()], graph.is_forward(*op));
            let (mut forward, mut later) = (Vec::new(), Vec::new());
            for (unit, is_forward) in graph.pins(tensor).iter().map(side) {
                if is_forward { forward.push(unit) } else { later.push(unit) }
            }
            forward.sort_unstable();
            later.sort_unstable();
            later.dedup();
            for &unit in &later {
                self.most_stash[unit] += bytes;
            }
            holding.clear();
            holding.extend(later.iter().filter(|unit| forward.binary_search(unit).is_ok()));
            if let [unit] = holding[..] {
                self.activation_bytes[unit] += bytes;
            }
        }
        for (unit, &workspace) in workspace.enumerate() {
            self.most_bytes[unit] += self.fixed_bytes[unit] + self.declared_bytes[unit] + workspace;
            self.most_stash[unit] += self.declared_bytes[unit];
        }
    }

    /// Whether every device has enough memory for all units together.
    fn fit_all_together(&self, problem: &Problem) -> bool {
        let devices = problem.cluster().device_count() as u32;
        let needed = self.memory.of_all().total(problem.objective().in_flight_of(devices, devices));
        problem.pools().iter().all(|pool| needed <= pool.memory)
    }

    /// Number of units.
    pub fn len(&self) -> usize {
        self.members.rows()
    }

    /// Whether there are no units.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The units.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = UnitId> + ExactSizeIterator + Clone + use<> {
        UnitId::first(self.len())
    }

    /// The unit of an operator.
    pub fn unit_of(&self, op: OpId) -> UnitId {
        self.unit_of[op.index()]
    }

    /// The operators of a unit, by index.
    pub fn members(&self, unit: UnitId) -> &[OpId] {
        self.members.row(unit)
    }

    /// Units that must not come before `unit`; empty for a free split.
    pub fn successors(&self, unit: UnitId) -> &[UnitId] {
        self.successors.row(unit)
    }

    /// Units that must not come after `unit`; empty for a free split.
    pub fn predecessors(&self, unit: UnitId) -> &[UnitId] {
        self.predecessors.row(unit)
    }

    /// The nets.
    pub fn nets(&self) -> &Keyed<NetId, Net> {
        &self.nets
    }

    /// The pins of a net: at least two units, ascending.
    pub fn pins(&self, net: NetId) -> &[UnitId] {
        let Net { first_pin, pin_count, .. } = self.nets[net];
        &self.pins[first_pin as usize..(first_pin + pin_count) as usize]
    }

    /// The nets with a pin on a unit.
    pub fn nets_of(&self, unit: UnitId) -> &[NetId] {
        self.nets_of.row(unit)
    }

    /// Number of pools of the problem.
    pub fn pools(&self) -> usize {
        self.pools
    }

    /// Number of separately scored passes.
    pub fn passes(&self) -> usize {
        self.passes
    }

    /// Whether every operator of a unit may run on a pool.
    pub fn supported(&self, unit: UnitId, pool: usize) -> bool {
        self.supported[pool * self.len() + unit.index()]
    }

    /// Seconds of a unit on a pool in one pass; meaningless if it is not supported.
    pub fn pass_seconds(&self, unit: UnitId, pool: usize, pass: usize) -> f64 {
        self.seconds[(pool * self.passes + pass) * self.len() + unit.index()]
    }

    /// Seconds of a unit on a pool over all passes; `None` if it is not supported.
    pub fn seconds(&self, unit: UnitId, pool: usize) -> Option<f64> {
        let total = || (0..self.passes).map(|pass| self.pass_seconds(unit, pool, pass)).sum();
        self.supported(unit, pool).then(total)
    }

    /// Seconds to move a net once over the link of a pool; zero for hosts.
    pub fn transfer(&self, net: NetId, pool: usize) -> f64 {
        self.transfer[pool * self.nets.len() + net.index()]
    }

    /// Seconds that a net takes over the uplink of a group.
    pub fn uplink(&self, net: NetId, group: usize) -> f64 {
        self.uplink[group * self.nets.len() + net.index()]
    }

    /// Bytes of a unit that do not depend on the microbatches in flight: parameters and optimiser state that no other
    /// unit shares, and in version 1 workspace.
    pub fn fixed_bytes(&self, unit: UnitId) -> f64 {
        self.fixed_bytes[unit]
    }

    /// Activation bytes of a unit per microbatch. In version 2 they include tensors that a device with the unit holds
    /// from the forward to the backward pass, if no other unit holds them.
    pub fn activation_bytes(&self, unit: UnitId) -> f64 {
        self.activation_bytes[unit]
    }

    /// Bytes of a unit with `in_flight` microbatches of activations. Summed over the units of a device, they are a
    /// lower bound on its memory, which is exact in version 1.
    pub fn bytes(&self, unit: UnitId, in_flight: u32) -> f64 {
        self.fixed_bytes[unit] + f64::from(in_flight) * self.activation_bytes[unit]
    }

    /// Bytes of a unit's unshared parameters that replicas of a stage synchronise.
    pub fn parameter_bytes(&self, unit: UnitId) -> f64 {
        self.parameter_bytes[unit]
    }

    /// Bytes of the parameters of a unit, whether or not replicas synchronise them. A parameter that several units
    /// share counts at the first of these units.
    pub fn weight_bytes(&self, unit: UnitId) -> f64 {
        self.weight_bytes[unit]
    }

    /// The parameters that units share.
    pub fn shared(&self) -> &Keyed<SharedId, Shared> {
        &self.shared
    }

    /// The shared parameters that a unit reads.
    pub fn shared_of(&self, unit: UnitId) -> &[SharedId] {
        self.shared_of.row(unit)
    }

    /// Lower bound on the bytes of tensors and workspace that a device needs while operators of the unit run.
    pub fn working_bytes(&self, unit: UnitId) -> f64 {
        self.working_bytes[unit]
    }

    /// The declared part of [`Units::activation_bytes`]; the rest consists of tensors.
    pub fn declared_bytes(&self, unit: UnitId) -> f64 {
        self.declared_bytes[unit]
    }

    /// Upper bound on the bytes that a unit adds to a device with `in_flight` microbatches in flight, without shared
    /// parameters.
    pub fn most_bytes(&self, unit: UnitId, in_flight: u32) -> f64 {
        self.most_bytes[unit] + (f64::from(in_flight) - 1.0) * self.most_stash[unit]
    }

    /// Whether the memory of a device is the sum over its units, as in version 1.
    pub fn bytes_are_sums(&self) -> bool {
        self.memory.is_sum()
    }

    /// Whether every device has enough memory for all units together, so that memory excludes no placement.
    pub fn always_fits(&self) -> bool {
        self.always_fits
    }

    /// Whether a unit takes no memory, whatever other units are on its device.
    pub fn takes_no_memory(&self, unit: UnitId) -> bool {
        match self.bytes_are_sums() {
            true => self.bytes(unit, 1) == 0.0,
            false => self.most_bytes(unit, 2) == 0.0 && self.shared_of(unit).is_empty(),
        }
    }

    /// Memory of a device with these units, each listed once. O(n log n + pins) in the operators of the units.
    pub fn device_bytes(&self, units: impl IntoIterator<Item = UnitId>) -> DeviceBytes {
        let ops = units.into_iter().flat_map(|unit| self.members(unit).iter().copied());
        self.memory.of(ops)
    }
}

/// Data that a net carries over a link.
#[derive(Debug, Clone, Copy)]
enum Carried {
    Tensor(TensorId),
    /// The gradient of a shared parameter.
    Gradient(usize),
}

/// The order that calls must respect, as edges between colocation classes.
fn tensors_between_classes(problem: &Problem) -> Vec<(ClassId, ClassId)> {
    let graph = problem.graph();
    let mut edges = Vec::new();
    for tensor in graph.tensors() {
        let from = graph.class_of(graph.producer(tensor));
        let consumers = graph.consumers(tensor).iter().map(|&op| graph.class_of(op));
        edges.extend(consumers.filter(|&to| to != from).map(|to| (from, to)));
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// The order that a contiguous split must respect, as edges between colocation classes.
fn order_of_classes(problem: &Problem) -> Vec<(ClassId, ClassId)> {
    let graph = problem.graph();
    let mut has_forward = Keyed::filled(false, graph.class_count());
    for op in graph.operators().filter(|&op| graph.is_forward(op)) {
        has_forward[graph.class_of(op)] = true;
    }
    let mut edges = Vec::new();
    for tensor in graph.tensors() {
        let producer = graph.producer(tensor);
        let from = graph.class_of(producer);
        for &consumer in graph.consumers(tensor) {
            let to = graph.class_of(consumer);
            if from == to {
                continue;
            }
            match (graph.operator(producer).pass, graph.operator(consumer).pass) {
                (Pass::Forward, Pass::Forward) => edges.push((from, to)),
                (Pass::Backward, Pass::Backward) if !(has_forward[from] && has_forward[to]) => {
                    edges.push((to, from));
                }
                _ => {}
            }
        }
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// The numbers below `count`, in blocks. A table by row and pool is transposed block by block, so that both tables are
/// read and written along cache lines.
fn blocks(count: usize) -> impl Iterator<Item = Range<usize>> {
    const BLOCK: usize = 16;
    (0..count).step_by(BLOCK).map(move |first| first..count.min(first + BLOCK))
}

/// Fuses strongly connected classes. Returns the unit of each class, the number of units, and the sorted edges between
/// units. Units are numbered topologically; of two that may be next, the one with the smallest class comes first.
fn fuse_components(
    classes: usize,
    edges: &[(ClassId, ClassId)],
) -> (Keyed<ClassId, UnitId>, usize, Vec<(UnitId, UnitId)>) {
    if edges.is_empty() {
        return (UnitId::first(classes).collect(), classes, Vec::new());
    }
    let mut digraph: DiGraph<(), (), u32> = DiGraph::with_capacity(classes, edges.len());
    for _ in 0..classes {
        digraph.add_node(());
    }
    for &(from, to) in edges {
        digraph.add_edge(NodeIndex::new(from.index()), NodeIndex::new(to.index()), ());
    }
    let components: Keyed<u32, _> = kosaraju_scc(&digraph).into();
    let mut component_of = Keyed::filled(0, classes);
    let mut smallest = Keyed::filled(usize::MAX, components.len());
    for (component, members) in components.enumerate() {
        for class in members {
            component_of[ClassId::new(class.index())] = component;
            smallest[component] = smallest[component].min(class.index());
        }
    }
    let mut between: Vec<(u32, u32)> = edges
        .iter()
        .map(|&(from, to)| (component_of[from], component_of[to]))
        .filter(|(from, to)| from != to)
        .collect();
    between.sort_unstable();
    between.dedup();

    // Kahn's algorithm with a heap, so that the numbering follows the file wherever the order permits.
    let successors = Csr::from_pairs(components.len(), &between);
    let mut waiting: Keyed<u32, usize> = Keyed::filled(0, components.len());
    for &(_, to) in &between {
        waiting[to] += 1;
    }
    let mut ready: BinaryHeap<Reverse<(usize, u32)>> = components
        .ids()
        .filter(|&component| waiting[component] == 0)
        .map(|component| Reverse((smallest[component], component)))
        .collect();
    let mut number = Keyed::filled(UnitId(0), components.len());
    let mut next = 0;
    while let Some(Reverse((_, component))) = ready.pop() {
        number[component] = UnitId(next);
        next += 1;
        for &to in successors.row(component) {
            waiting[to] -= 1;
            if waiting[to] == 0 {
                ready.push(Reverse((smallest[to], to)));
            }
        }
    }
    let unit_of_class = component_of.iter().map(|&component| number[component]).collect();
    let mut unit_edges: Vec<_> = between.iter().map(|&(from, to)| (number[from], number[to])).collect();
    unit_edges.sort_unstable();
    (unit_of_class, components.len(), unit_edges)
}
