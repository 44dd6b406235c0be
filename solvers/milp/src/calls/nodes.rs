//! Precedence graph of a plan, whose nodes are its calls and its operators on hosts.

use stagewright_core::call_timing::{Call, Site};
use stagewright_core::csr::Csr;
use stagewright_core::graph::{Graph, OpId};
use stagewright_core::id;
use stagewright_core::ids::{Id, Keyed};

id! {
    /// Index of a node.
    pub NodeId;
}

/// The acyclic graph of a plan's calls and host operators.
#[derive(Debug, Clone)]
pub struct Nodes {
    node_of: Keyed<OpId, NodeId>,
    operators: u32,
    successors: Csr<NodeId>,
    order: Vec<NodeId>,
}

impl Nodes {
    /// Builds the graph of a plan: operator v on a host is node v, and call j of a graph with n operators is node n +
    /// j. `None` if the plan has a cycle. O(pins log pins).
    pub fn new(graph: &Graph, sites: &[Site], calls: &[Call]) -> Option<Nodes> {
        let operators = u32::new(graph.operator_count());
        let node_of: Keyed<OpId, NodeId> = graph
            .operators()
            .map(|op| match sites[op.index()] {
                Site::Host(_) => NodeId(op.0),
                Site::Call(call) => NodeId(operators + call),
            })
            .collect();
        let mut edges: Vec<(NodeId, NodeId)> = Vec::new();
        for op in graph.operators() {
            let from = node_of[op];
            let to = graph.successors(op).iter().map(|&next| node_of[next]);
            edges.extend(to.filter(|&to| to != from).map(|to| (from, to)));
        }
        let after = (operators..)
            .zip(calls)
            .filter_map(|(node, call)| Some((NodeId(operators + call.after?), NodeId(node))));
        edges.extend(after);
        edges.sort_unstable();
        edges.dedup();
        let count = node_of.len() + calls.len();
        let mut waiting = Keyed::filled(0u32, count);
        edges.iter().for_each(|&(_, to)| waiting[to] += 1);
        let successors = Csr::from_sorted(count, edges.into_iter());
        // Operators within calls are not nodes.
        let is_node = |&node: &NodeId| node.0 >= operators || node_of[OpId(node.0)] == node;
        let nodes = NodeId::first(count).filter(is_node);
        let mut order: Vec<NodeId> = nodes.clone().filter(|&node| waiting[node] == 0).collect();
        let mut next = 0;
        while next < order.len() {
            for &to in successors.row(order[next]) {
                waiting[to] -= 1;
                if waiting[to] == 0 {
                    order.push(to);
                }
            }
            next += 1;
        }
        (order.len() == nodes.count()).then_some(Nodes { node_of, operators, successors, order })
    }

    /// Nodes in topological order.
    pub fn order(&self) -> &[NodeId] {
        &self.order
    }

    /// Successors of a node.
    pub fn successors(&self, node: NodeId) -> impl DoubleEndedIterator<Item = NodeId> + '_ {
        self.successors.row(node).iter().copied()
    }

    /// The node of an operator.
    pub fn of(&self, op: OpId) -> NodeId {
        self.node_of[op]
    }

    /// The node of a call.
    pub fn of_call(&self, call: u32) -> NodeId {
        NodeId(self.operators + call)
    }

    /// Call of a node; `None` for an operator on a host.
    pub fn call(&self, node: NodeId) -> Option<u32> {
        node.0.checked_sub(self.operators)
    }

    /// Number of node indices, whether used or not.
    pub fn count(&self) -> usize {
        self.successors.rows()
    }
}
