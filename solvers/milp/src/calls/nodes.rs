//! Precedence graph of a plan, whose nodes are its calls and its operators on hosts.

use stagewright_core::graph::{Graph, OpId};
use stagewright_core::offload::{Call, Site};

/// The acyclic graph of a plan's calls and host operators.
#[derive(Debug, Clone)]
pub struct Nodes {
    node_of: Vec<u32>,
    operators: u32,
    /// Sorted edges (from, to).
    edges: Vec<(u32, u32)>,
    /// First edge of each node.
    first: Vec<u32>,
    order: Vec<u32>,
}

impl Nodes {
    /// Builds the graph of a plan: operator v on a host is node v, and call j of a graph with n operators is
    /// node n + j. `None` if it has a cycle. O(pins log pins).
    pub fn new(graph: &Graph, sites: &[Site], calls: &[Call]) -> Option<Nodes> {
        let operators = graph.operator_count() as u32;
        let node_of: Vec<u32> = graph
            .operators()
            .map(|op| match sites[op.index()] {
                Site::Host(_) => op.0,
                Site::Call(call) => operators + call,
            })
            .collect();
        let mut edges: Vec<(u32, u32)> = Vec::new();
        for op in graph.operators() {
            let from = node_of[op.index()];
            let to = graph.successors(op).iter().map(|next| node_of[next.index()]);
            edges.extend(to.filter(|&to| to != from).map(|to| (from, to)));
        }
        let after = (operators..).zip(calls).filter_map(|(at, call)| Some((operators + call.after?, at)));
        edges.extend(after);
        edges.sort_unstable();
        edges.dedup();
        let count = operators as usize + calls.len();
        let mut first = vec![0u32; count + 1];
        let mut waiting = vec![0u32; count];
        for &(from, to) in &edges {
            first[from as usize + 1] += 1;
            waiting[to as usize] += 1;
        }
        for at in 0..count {
            first[at + 1] += first[at];
        }
        // Operators within calls are not nodes.
        let is_node = |node: u32| node >= operators || node_of[node as usize] == node;
        let mut order: Vec<u32> =
            (0..count as u32).filter(|&node| is_node(node) && waiting[node as usize] == 0).collect();
        let mut at = 0;
        while at < order.len() {
            let node = order[at] as usize;
            for &(_, to) in &edges[first[node] as usize..first[node + 1] as usize] {
                waiting[to as usize] -= 1;
                if waiting[to as usize] == 0 {
                    order.push(to);
                }
            }
            at += 1;
        }
        let all = (0..count as u32).filter(|&node| is_node(node)).count();
        (order.len() == all).then_some(Nodes { node_of, operators, edges, first, order })
    }

    /// Nodes in topological order.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Successors of a node.
    pub fn successors(&self, node: u32) -> impl DoubleEndedIterator<Item = u32> + '_ {
        let range = self.first[node as usize] as usize..self.first[node as usize + 1] as usize;
        self.edges[range].iter().map(|edge| edge.1)
    }

    /// The node of an operator.
    pub fn of(&self, op: OpId) -> u32 {
        self.node_of[op.index()]
    }

    /// The node of a call.
    pub fn of_call(&self, call: u32) -> u32 {
        self.operators + call
    }

    /// Call of a node; `None` for an operator on a host.
    pub fn call(&self, node: u32) -> Option<u32> {
        node.checked_sub(self.operators)
    }

    /// Number of node indices, whether used or not.
    pub fn count(&self) -> usize {
        self.first.len() - 1
    }
}
