//! Nodes: groups of operators that a call holds whole or not at all.
//!
//! With one call per accelerator, a colocation class on an accelerator is in one call. Its operators become one *node*
//! if that loses nothing: the class is *transparent* if every operator in it that reads from outside leads to every
//! operator in it that is read outside. Every path through the class as a node is then a path of operators, and so
//!
//! - the graph of nodes is acyclic: a cycle, continued in every class from the operator entered to the operator left,
//!   would be a cycle of operators;
//! - a call is convex in the graph of nodes, as it is in the graph of operators.
//!
//! In profiles nearly all classes are transparent: they consist of an operator, its weights, which read nothing, and
//! its statistics, which are never read. All other operators are nodes of their own, which drops a constraint and so
//! keeps the bound valid. If an accelerator makes several calls, all operators are nodes of their own.
//!
//! Nodes may also be left out. They then cost nothing and take no memory, but their precedence is passed on.

use stagewright_core::bits;
use stagewright_core::call_timing::Offload;
use stagewright_core::graph::{Graph, OpId};
use stagewright_core::id;
use stagewright_core::ids::Keyed;
use stagewright_core::solver::Stop;

id! {
    /// Index of a group of operators.
    pub(super) GroupId;
    /// Index of a node.
    pub(super) NodeId;
    /// Index of a tensor between nodes.
    pub(super) NetId;
}

/// Maximum number of steps of the search for transparent classes; the remaining classes are split into their operators.
const MAX_STEPS: usize = 1 << 26;

/// The operators of a graph in groups, along a topological order of the groups.
pub(super) struct Groups {
    /// The operators of each group.
    pub(super) members: Keyed<GroupId, Vec<OpId>>,
    /// The group of each operator.
    pub(super) of: Keyed<OpId, GroupId>,
    /// The groups that read an output of each group.
    successors: Keyed<GroupId, Vec<GroupId>>,
}

impl Groups {
    /// Groups the operators of a problem, in O(operators + edges) plus at most [`MAX_STEPS`]; `None` on stop.
    pub(super) fn new(offload: &Offload<'_>, stop: &Stop) -> Option<Groups> {
        let graph = offload.graph();
        let (whole, mut budget) = (offload.problem().objective().calls() == 1, MAX_STEPS);
        let mut members: Keyed<GroupId, Vec<OpId>> = Keyed::default();
        for class in graph.class_ids() {
            if stop.reason().is_some() {
                return None;
            }
            let class = graph.class(class);
            if whole && is_transparent(graph, class, &mut budget, stop) {
                members.push(class.to_vec());
            } else {
                members.extend(class.iter().map(|&op| vec![op]));
            }
        }
        let group_of = Keyed::filled(GroupId(0), graph.operator_count());
        let mut groups = Groups { of: group_of, successors: Keyed::default(), members };
        groups.link(graph);
        let order = groups.topological();
        groups.members = order.iter().map(|&group| std::mem::take(&mut groups.members[group])).collect();
        groups.link(graph);
        Some(groups)
    }

    /// Number of groups.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// The groups that read an output of a group.
    pub(super) fn successors(&self, group: GroupId) -> &[GroupId] {
        &self.successors[group]
    }

    fn link(&mut self, graph: &Graph) {
        for (group, members) in self.members.enumerate() {
            members.iter().for_each(|&op| self.of[op] = group);
        }
        self.successors = self
            .members
            .enumerate()
            .map(|(group, members)| {
                let all = members.iter().flat_map(|&op| graph.successors(op));
                let mut next: Vec<GroupId> =
                    all.map(|&op| self.of[op]).filter(|&other| other != group).collect();
                next.sort_unstable();
                next.dedup();
                next
            })
            .collect();
    }

    /// The groups in topological order, depth first, so that a branch is contiguous.
    fn topological(&self) -> Vec<GroupId> {
        let mut waiting = Keyed::filled(0u32, self.len());
        self.successors.iter().flatten().for_each(|&next| waiting[next] += 1);
        let mut open: Vec<GroupId> = self.members.ids().rev().filter(|&group| waiting[group] == 0).collect();
        let mut order = Vec::with_capacity(self.len());
        while let Some(group) = open.pop() {
            order.push(group);
            for &next in self.successors[group].iter().rev() {
                waiting[next] -= 1;
                if waiting[next] == 0 {
                    open.push(next);
                }
            }
        }
        debug_assert_eq!(order.len(), self.len(), "transparent groups have no cycle");
        order
    }
}

/// Whether each operator of a class that reads from outside leads to each operator of the class that is read outside,
/// as far as the budget and the time suffice to tell.
fn is_transparent(graph: &Graph, class: &[OpId], budget: &mut usize, stop: &Stop) -> bool {
    let inside = |op: &OpId| class.binary_search(op).is_ok();
    let reads = |op: &&OpId| graph.predecessors(**op).iter().any(|other| !inside(other));
    let is_read = |op: &&OpId| graph.successors(**op).iter().any(|other| !inside(other));
    let exits: Vec<OpId> = class.iter().filter(is_read).copied().collect();
    if exits.is_empty() {
        return true;
    }
    let words = bits::words(graph.operator_count());
    let mut is_exit = vec![0u64; words];
    exits.iter().for_each(|op| bits::insert(&mut is_exit, op.index()));
    for &entry in class.iter().filter(reads) {
        if *budget < words || stop.reason().is_some() {
            return false;
        }
        *budget -= words;
        let mut seen = vec![0u64; words];
        let mut missing = exits.len();
        let mut open = vec![entry];
        bits::insert(&mut seen, entry.index());
        while let Some(op) = open.pop() {
            if bits::contains(&is_exit, op.index()) {
                missing -= 1;
            }
            for &next in graph.successors(op) {
                if !bits::contains(&seen, next.index()) {
                    bits::insert(&mut seen, next.index());
                    open.push(next);
                }
            }
            let steps = 1 + graph.successors(op).len();
            if missing == 0 || *budget < steps {
                break;
            }
            *budget -= steps;
        }
        if missing > 0 {
            return false;
        }
    }
    true
}

/// A tensor between nodes.
pub(super) struct Net {
    pub(super) producer: NodeId,
    /// Other nodes that read the tensor, at least one.
    pub(super) consumers: Vec<NodeId>,
}

/// A pool of accelerators.
pub(super) struct Accelerator {
    /// Index of the pool.
    pub(super) pool: usize,
    /// Total number of calls on the devices of the pool.
    pub(super) calls: u64,
    pub(super) memory: f64,
    /// Seconds by node; NaN if the pool cannot run the node.
    pub(super) seconds: Keyed<NodeId, f64>,
    /// Transfer time by net.
    pub(super) transfer: Keyed<NetId, f64>,
}

/// The selected groups, numbered in topological order, with their tensors and costs.
pub(super) struct Nodes {
    /// The group of each node.
    pub(super) group: Keyed<NodeId, GroupId>,
    /// Number of 64-bit words of a set of nodes.
    pub(super) words: usize,
    /// For each node, the set of the nodes before it.
    before: Vec<u64>,
    pub(super) bytes: Keyed<NodeId, f64>,
    pub(super) nets: Keyed<NetId, Net>,
    /// Nets by consumer and by producer.
    pub(super) inputs: Keyed<NodeId, Vec<NetId>>,
    pub(super) outputs: Keyed<NodeId, Vec<NetId>>,
    pub(super) accelerators: Vec<Accelerator>,
}

const NONE: NodeId = NodeId(u32::MAX);

impl Nodes {
    /// Prepares the groups selected by `keep`. O(groups · nodes / 64 + pools · (operators + tensors) + pins).
    pub(super) fn new(offload: &Offload<'_>, groups: &Groups, keep: &Keyed<GroupId, bool>) -> Nodes {
        let graph = offload.graph();
        let group: Keyed<NodeId, GroupId> = keep.ids().filter(|&group| keep[group]).collect();
        let mut node_of = Keyed::filled(NONE, groups.len());
        for (node, &group) in group.enumerate() {
            node_of[group] = node;
        }
        let mut nodes = Nodes {
            words: bits::words(group.len()),
            before: Vec::new(),
            bytes: Keyed::default(),
            nets: Keyed::default(),
            inputs: Keyed::filled(Vec::new(), group.len()),
            outputs: Keyed::filled(Vec::new(), group.len()),
            accelerators: Vec::new(),
            group,
        };
        nodes.order(groups, &node_of);
        let bytes = |&op: &OpId| graph.least_bytes(op);
        nodes.bytes =
            nodes.members(groups).map(|members| members.iter().map(bytes).fold(0.0, |a, b| a + b)).collect();
        let mut tensors = Vec::new();
        for tensor in graph.tensors() {
            let node = |op: OpId| node_of[groups.of[op]];
            let producer = node(graph.producer(tensor));
            let mut consumers: Vec<NodeId> = graph.consumers(tensor).iter().map(|&op| node(op)).collect();
            consumers.retain(|&node| node != NONE && node != producer);
            consumers.sort_unstable();
            consumers.dedup();
            if producer == NONE || consumers.is_empty() {
                continue;
            }
            let net = nodes.nets.push(Net { producer, consumers });
            nodes.outputs[producer].push(net);
            nodes.nets[net].consumers.iter().for_each(|&node| nodes.inputs[node].push(net));
            tensors.push(tensor);
        }
        let pools = offload.problem().pools();
        for (pool, spec) in pools.iter().enumerate().filter(|(_, spec)| !spec.host && spec.count() > 0) {
            let seconds = |members: &Vec<OpId>| {
                members
                    .iter()
                    .map(|&op| offload.seconds(op, pool).unwrap_or(f64::NAN))
                    .fold(0.0, |a, b| a + b)
            };
            nodes.accelerators.push(Accelerator {
                pool,
                calls: u64::from(spec.count()) * u64::from(offload.problem().objective().calls()),
                memory: spec.memory,
                seconds: nodes.members(groups).map(seconds).collect(),
                transfer: tensors.iter().map(|&tensor| offload.transfer(tensor, pool)).collect(),
            });
        }
        nodes
    }

    /// Number of nodes.
    pub(super) fn len(&self) -> usize {
        self.group.len()
    }

    /// The nodes before a node, as a set.
    pub(super) fn before(&self, node: NodeId) -> &[u64] {
        &self.before[node.index() * self.words..][..self.words]
    }

    fn members<'g>(&self, groups: &'g Groups) -> impl Iterator<Item = &'g Vec<OpId>> {
        self.group.iter().map(|&group| &groups.members[group])
    }

    /// Computes the nodes before each group, passed on along the edges, and thereby the nodes before each node.
    fn order(&mut self, groups: &Groups, node_of: &Keyed<GroupId, NodeId>) {
        let words = self.words;
        let mut before = vec![0u64; groups.len() * words];
        for group in groups.members.ids() {
            let (head, tail) = before.split_at_mut((group.index() + 1) * words);
            let own = &head[group.index() * words..];
            for &next in groups.successors(group) {
                let offset = (next.index() - group.index() - 1) * words;
                let other = &mut tail[offset..offset + words];
                other.iter_mut().zip(own).for_each(|(into, from)| *into |= from);
                if node_of[group] != NONE {
                    bits::insert(other, node_of[group].index());
                }
            }
        }
        let rows = self.group.iter().flat_map(|&group| &before[group.index() * words..][..words]);
        self.before = rows.copied().collect();
    }
}
