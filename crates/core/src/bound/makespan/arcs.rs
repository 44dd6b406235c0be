//! Arcs of the graph: pairs of a producer and a reader, each with the tensors between the two.

use crate::csr::Csr;
use crate::graph::{Graph, OpId, TensorId};
use crate::ids::Keyed;

/// The arcs of a graph, numbered by producer, then by reader.
#[derive(Debug)]
pub(super) struct Arcs {
    ends: Keyed<u32, [OpId; 2]>,
    tensors: Csr<TensorId>,
    into: Csr<u32>,
    out_of: Csr<u32>,
}

impl Arcs {
    /// Builds the arcs, in O(pins log pins).
    pub(super) fn new(graph: &Graph) -> Arcs {
        let mut carried: Vec<([OpId; 2], TensorId)> = Vec::new();
        for tensor in graph.tensors() {
            let from = graph.producer(tensor);
            carried.extend(graph.consumers(tensor).iter().map(|&to| ([from, to], tensor)));
        }
        carried.sort_unstable();
        let (mut ends, mut tensors) = (Keyed::default(), Vec::with_capacity(carried.len()));
        for arc in carried.chunk_by(|a, b| a.0 == b.0) {
            let number: u32 = ends.push(arc[0].0);
            tensors.extend(arc.iter().map(|&(_, tensor)| (number, tensor)));
        }
        let end = |side: usize| -> Vec<(OpId, u32)> {
            ends.enumerate().map(|(arc, ends): (u32, &[OpId; 2])| (ends[side], arc)).collect()
        };
        let operators = graph.operator_count();
        let out_of = Csr::from_pairs(operators, &end(0));
        let into = Csr::from_pairs(operators, &end(1));
        Arcs { tensors: Csr::from_pairs(ends.len(), &tensors), into, out_of, ends }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Producer and reader of an arc.
    pub(super) fn ends(&self, arc: u32) -> [OpId; 2] {
        self.ends[arc]
    }

    pub(super) fn tensors(&self, arc: u32) -> &[TensorId] {
        self.tensors.row(arc)
    }

    /// The arcs into an operator.
    pub(super) fn into(&self, op: OpId) -> &[u32] {
        self.into.row(op)
    }

    /// The arcs out of an operator.
    pub(super) fn out_of(&self, op: OpId) -> &[u32] {
        self.out_of.row(op)
    }
}
