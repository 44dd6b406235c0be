//! The model graph: operators, and tensors as hyperedges.
//!
//! A tensor has one producer and any number of consumers; together they are its *pins*. A set of operators is charged
//! per tensor that it cuts, not per edge: a sender pays once however many devices read its output, and each receiver
//! pays once however many of its operators read that output.
//!
//! Adjacency is in compressed sparse rows: one array of tensor ids per direction, with an offset per operator.
//! [`Graph`] implements petgraph's visit traits, which provide topological order, reachability and strongly connected
//! components.

mod builder;
mod precedence;
mod visit;
mod weights;

use std::sync::Arc;

use petgraph::unionfind::UnionFind;

pub use builder::{GraphBuilder, GraphError};
pub use weights::weight_gradients;

use crate::csr::Csr;
use crate::document::{GraphDocument, OperatorDocument, ParameterDocument, Pass};
use crate::id;
use crate::ids::{Id, Keyed};

id! {
    /// Index of an operator in its graph.
    pub OpId;
    /// Index of a tensor in its graph.
    pub TensorId;
    /// Index of a colocation class in its graph.
    pub ClassId;
}

/// A checked, immutable model graph.
#[derive(Debug, Clone)]
pub struct Graph {
    document: Arc<GraphDocument>,
    /// The pins of every tensor, producer first.
    pins: Csr<OpId>,
    outputs: Csr<TensorId>,
    inputs: Csr<TensorId>,
    successors: Csr<OpId>,
    predecessors: Csr<OpId>,
    colocation: Keyed<OpId, ClassId>,
    classes: Csr<OpId>,
    topological: Vec<OpId>,
    has_backward: bool,
    /// The readers of every shared parameter.
    readers: Csr<OpId>,
    /// The shared parameters of every operator.
    parameters: Csr<u32>,
}

impl Graph {
    /// Checks a document and builds its graph, in time linear in the size of the document.
    ///
    /// # Errors
    /// The first defect found, with its operator or tensor and its JSON path.
    pub fn from_document(document: impl Into<Arc<GraphDocument>>) -> Result<Graph, GraphError> {
        builder::build(document.into())
    }

    /// The graph, with the colocation classes of each given pair of operators merged. The document is unchanged.
    /// O(operators + pairs).
    pub(crate) fn colocated(&self, pairs: impl IntoIterator<Item = [OpId; 2]>) -> Graph {
        let mut merged = UnionFind::new(self.class_count());
        for [a, b] in pairs {
            merged.union(self.class_of(a).index(), self.class_of(b).index());
        }
        let mut number = vec![None; self.class_count()];
        let mut classes = ClassId::first(self.class_count());
        let mut class_of = |op| {
            let root = merged.find(self.class_of(op).index());
            *number[root].get_or_insert_with(|| classes.next().expect("no more classes than before"))
        };
        let colocation: Keyed<OpId, ClassId> = self.operators().map(&mut class_of).collect();
        let members: Vec<(ClassId, OpId)> = self.operators().map(|op| (colocation[op], op)).collect();
        let count = number.iter().flatten().count();
        Graph { colocation, classes: Csr::from_pairs(count, &members), ..self.clone() }
    }

    /// The document that the graph was built from.
    pub fn document(&self) -> &GraphDocument {
        &self.document
    }

    /// Name of the model.
    pub fn name(&self) -> &str {
        &self.document.name
    }

    /// Number of operators.
    pub fn operator_count(&self) -> usize {
        self.document.operators.len()
    }

    /// Number of tensors.
    pub fn tensor_count(&self) -> usize {
        self.document.tensors.len()
    }

    /// All operators, by index.
    pub fn operators(&self) -> impl ExactSizeIterator<Item = OpId> + use<> {
        OpId::first(self.operator_count())
    }

    /// All tensors, by index.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = TensorId> + use<> {
        TensorId::first(self.tensor_count())
    }

    /// Document of an operator.
    pub fn operator(&self, op: OpId) -> &OperatorDocument {
        &self.document.operators[op.index()]
    }

    /// Whether the operator belongs to the forward pass.
    pub fn is_forward(&self, op: OpId) -> bool {
        self.operator(op).pass == Pass::Forward
    }

    /// Bytes of a tensor.
    pub fn bytes(&self, tensor: TensorId) -> f64 {
        self.document.tensors[tensor.index()].bytes
    }

    /// A tensor's name, otherwise a description by its producer.
    pub fn tensor_name(&self, tensor: TensorId) -> String {
        match &self.document.tensors[tensor.index()].name {
            Some(name) => name.clone(),
            None => format!("output of {}", self.operator(self.producer(tensor)).name),
        }
    }

    /// The operator that produces a tensor.
    pub fn producer(&self, tensor: TensorId) -> OpId {
        self.pins(tensor)[0]
    }

    /// The operators that read a tensor.
    pub fn consumers(&self, tensor: TensorId) -> &[OpId] {
        &self.pins(tensor)[1..]
    }

    /// Producer and consumers of a tensor, the producer first.
    pub fn pins(&self, tensor: TensorId) -> &[OpId] {
        self.pins.row(tensor)
    }

    /// The tensors that an operator produces.
    pub fn outputs(&self, op: OpId) -> &[TensorId] {
        self.outputs.row(op)
    }

    /// The tensors that an operator reads.
    pub fn inputs(&self, op: OpId) -> &[TensorId] {
        self.inputs.row(op)
    }

    /// The operators that read an output of `op`, without repetition, by index.
    pub fn successors(&self, op: OpId) -> &[OpId] {
        self.successors.row(op)
    }

    /// The operators whose outputs `op` reads, without repetition, by index.
    pub fn predecessors(&self, op: OpId) -> &[OpId] {
        self.predecessors.row(op)
    }

    /// Number of colocation classes; an operator without a colocation name is a class of its own.
    pub fn class_count(&self) -> usize {
        self.classes.rows()
    }

    /// The colocation classes.
    pub fn class_ids(&self) -> impl DoubleEndedIterator<Item = ClassId> + ExactSizeIterator + Clone + use<> {
        ClassId::first(self.class_count())
    }

    /// The colocation class of an operator; classes are numbered by their first operator.
    pub fn class_of(&self, op: OpId) -> ClassId {
        self.colocation[op]
    }

    /// The operators of a colocation class, by index.
    pub fn class(&self, class: ClassId) -> &[OpId] {
        self.classes.row(class)
    }

    /// Whether the graph has a backward pass, so that gradients exist.
    pub fn has_backward(&self) -> bool {
        self.has_backward
    }

    /// Whether the document is of version 2: memory counts live tensors and shared parameters.
    pub fn is_version_2(&self) -> bool {
        self.document.is_version_2()
    }

    /// The parameters that operators share, by index.
    pub fn parameters(&self) -> &[ParameterDocument] {
        &self.document.parameters
    }

    /// The operators that read a shared parameter.
    pub fn readers(&self, parameter: usize) -> &[OpId] {
        self.readers.row(parameter)
    }

    /// The shared parameters that an operator reads.
    pub fn parameters_of(&self, op: OpId) -> &[u32] {
        self.parameters.row(op)
    }

    /// Lower bound on the bytes that an operator adds to its device's memory with one microbatch in flight; exact in
    /// version 1.
    pub fn least_bytes(&self, op: OpId) -> f64 {
        let document = self.operator(op);
        match self.is_version_2() {
            true => document.parameter_bytes + document.optimizer_bytes + document.activation_bytes,
            false => document.bytes(),
        }
    }

    /// Bytes of an operator's own parameters whose gradient its replicas synchronise. Without a backward pass there is
    /// no gradient. A graph of version 1 may omit its backward pass, so version 1 always assumes a gradient.
    pub fn synchronised_bytes(&self, op: OpId) -> f64 {
        match self.is_version_2() && !self.has_backward {
            true => 0.0,
            false => self.operator(op).parameter_bytes,
        }
    }

    /// The operators in the order in which a device executes them: a topological order in which the forward pass comes
    /// first and ties go to the operator that comes first in the document. O((operators + edges) log operators).
    pub fn work_order(&self) -> Vec<OpId> {
        let mut waiting: Keyed<OpId, usize> =
            self.operators().map(|op| self.predecessors(op).len()).collect();
        let key = |op: OpId| std::cmp::Reverse((!self.is_forward(op), op));
        let mut ready: std::collections::BinaryHeap<_> =
            self.operators().filter(|&op| waiting[op] == 0).map(key).collect();
        let mut order = Vec::with_capacity(self.operator_count());
        while let Some(std::cmp::Reverse((_, op))) = ready.pop() {
            order.push(op);
            for &next in self.successors(op) {
                waiting[next] -= 1;
                if waiting[next] == 0 {
                    ready.push(key(next));
                }
            }
        }
        order
    }

    /// The operators in a topological order.
    pub fn topological(&self) -> &[OpId] {
        &self.topological
    }
}
