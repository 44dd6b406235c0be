//! petgraph's visit traits for [`Graph`], with an edge from producer to consumer for every pair of operators
//! that a tensor connects.

use petgraph::visit::{
    GraphBase, GraphProp, IntoNeighbors, IntoNeighborsDirected, IntoNodeIdentifiers, NodeCompactIndexable,
    NodeCount, NodeIndexable, VisitMap, Visitable,
};
use petgraph::{Directed, Direction};

use super::{Graph, OpId};
use crate::ids::Keyed;

impl GraphBase for Graph {
    type NodeId = OpId;
    type EdgeId = (OpId, OpId);
}

impl GraphProp for Graph {
    type EdgeType = Directed;
}

impl NodeCount for Graph {
    fn node_count(&self) -> usize {
        self.operator_count()
    }
}

impl NodeIndexable for Graph {
    fn node_bound(&self) -> usize {
        self.operator_count()
    }

    fn to_index(&self, op: OpId) -> usize {
        op.index()
    }

    fn from_index(&self, index: usize) -> OpId {
        OpId::new(index)
    }
}

impl NodeCompactIndexable for Graph {}

impl IntoNodeIdentifiers for &Graph {
    type NodeIdentifiers = std::iter::Map<std::ops::Range<usize>, fn(usize) -> OpId>;

    fn node_identifiers(self) -> Self::NodeIdentifiers {
        (0..self.operator_count()).map(OpId::new as fn(usize) -> OpId)
    }
}

impl<'a> IntoNeighbors for &'a Graph {
    type Neighbors = std::iter::Copied<std::slice::Iter<'a, OpId>>;

    fn neighbors(self, op: OpId) -> Self::Neighbors {
        self.successors(op).iter().copied()
    }
}

impl<'a> IntoNeighborsDirected for &'a Graph {
    type NeighborsDirected = std::iter::Copied<std::slice::Iter<'a, OpId>>;

    fn neighbors_directed(self, op: OpId, direction: Direction) -> Self::NeighborsDirected {
        match direction {
            Direction::Outgoing => self.successors(op).iter().copied(),
            Direction::Incoming => self.predecessors(op).iter().copied(),
        }
    }
}

/// Operators that a traversal has visited.
#[derive(Debug, Clone)]
pub struct Visited(Keyed<OpId, bool>);

impl VisitMap<OpId> for Visited {
    fn visit(&mut self, op: OpId) -> bool {
        !std::mem::replace(&mut self.0[op], true)
    }

    fn is_visited(&self, op: &OpId) -> bool {
        self.0[*op]
    }

    fn unvisit(&mut self, op: OpId) -> bool {
        std::mem::replace(&mut self.0[op], false)
    }
}

impl Visitable for Graph {
    type Map = Visited;

    fn visit_map(&self) -> Visited {
        Visited(Keyed::filled(false, self.operator_count()))
    }

    fn reset_map(&self, map: &mut Visited) {
        map.0.clear();
        map.0.resize(self.operator_count(), false);
    }
}
