//! The model graph: operators, and tensors as hyperedges.
//!
//! A tensor has one producer and any number of consumers; its *pins* are all of them. Counting the tensors that
//! a set of operators cuts, rather than the edges, is what makes a sender pay once however many devices read
//! its output, and each receiving device pay once however many of its operators do.
//!
//! Adjacency is compressed: one array of tensor ids per direction, with an offset per operator. [`Graph`]
//! implements petgraph's visit traits, so topological order, reachability and strongly connected components
//! come from there.

mod builder;
mod visit;
mod weights;

use std::sync::Arc;

pub use builder::{GraphBuilder, GraphError};
pub use weights::weight_gradients;

use crate::document::{GraphDocument, OperatorDocument, ParameterDocument, Pass};

/// Index of an operator in its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u32);

/// Index of a tensor in its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorId(pub u32);

impl OpId {
    /// As an array index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl TensorId {
    /// As an array index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A checked, immutable model graph.
#[derive(Debug, Clone)]
pub struct Graph {
    document: Arc<GraphDocument>,
    /// Tensor id to `pins[offsets[t]..offsets[t + 1]]`, the producer first.
    pin_offsets: Vec<u32>,
    pins: Vec<OpId>,
    outputs: Compressed<TensorId>,
    inputs: Compressed<TensorId>,
    successors: Compressed<OpId>,
    predecessors: Compressed<OpId>,
    colocation: Vec<u32>,
    classes: Compressed<OpId>,
    topological: Vec<OpId>,
    has_backward: bool,
    /// The readers of every shared parameter.
    readers: Compressed<OpId>,
    /// The shared parameters of every operator.
    parameters: Compressed<u32>,
}

/// Lists of `T` per row, in one array.
#[derive(Debug, Clone, Default)]
pub(crate) struct Compressed<T> {
    offsets: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy> Compressed<T> {
    /// Rows from (row, item) pairs, each row in the order of the pairs.
    pub(crate) fn from_pairs(rows: usize, pairs: &[(u32, T)]) -> Self {
        let mut compressed = Compressed { offsets: Vec::new(), items: Vec::new() };
        compressed.refill(rows, pairs.iter().copied());
        compressed
    }

    /// The same in the memory of other rows.
    pub(crate) fn refill(&mut self, rows: usize, pairs: impl Iterator<Item = (u32, T)> + Clone) {
        // Where the next item of a row goes stands one place late: it ends as the offset of the next row.
        self.offsets.clear();
        self.offsets.resize(rows + 2, 0);
        self.items.clear();
        self.items.extend(pairs.clone().map(|(row, item)| {
            self.offsets[row as usize + 2] += 1;
            item
        }));
        for row in 2..rows + 2 {
            self.offsets[row] += self.offsets[row - 1];
        }
        for (row, item) in pairs {
            let next = &mut self.offsets[row as usize + 1];
            self.items[*next as usize] = item;
            *next += 1;
        }
        self.offsets.pop();
    }

    /// The items of a row.
    pub(crate) fn row(&self, row: usize) -> &[T] {
        self.items(self.range(row))
    }

    /// Where the items of a row are, for who looks them up often.
    pub(crate) fn range(&self, row: usize) -> [u32; 2] {
        [self.offsets[row], self.offsets[row + 1]]
    }

    /// The items of all rows.
    pub(crate) fn all(&self) -> &[T] {
        &self.items
    }

    /// The items of a range.
    #[inline]
    pub(crate) fn items(&self, [first, last]: [u32; 2]) -> &[T] {
        &self.items[first as usize..last as usize]
    }

    /// The items of a row, to be changed.
    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [T] {
        &mut self.items[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }
}

impl Graph {
    /// Checks a document and builds its graph, in time linear in its size.
    ///
    /// # Errors
    /// The first defect found, naming the operator or tensor and where it stands.
    pub fn from_document(document: impl Into<Arc<GraphDocument>>) -> Result<Graph, GraphError> {
        builder::build(document.into())
    }

    /// The document it was built from.
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
        (0..self.operator_count() as u32).map(OpId)
    }

    /// All tensors, by index.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = TensorId> + use<> {
        (0..self.tensor_count() as u32).map(TensorId)
    }

    /// What the document says of an operator.
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

    /// A tensor's name, else a description by its producer.
    pub fn tensor_name(&self, tensor: TensorId) -> String {
        match &self.document.tensors[tensor.index()].name {
            Some(name) => name.clone(),
            None => format!("output of {}", self.operator(self.producer(tensor)).name),
        }
    }

    /// The operator that makes a tensor.
    pub fn producer(&self, tensor: TensorId) -> OpId {
        self.pins(tensor)[0]
    }

    /// The operators that read a tensor.
    pub fn consumers(&self, tensor: TensorId) -> &[OpId] {
        &self.pins(tensor)[1..]
    }

    /// Producer and consumers of a tensor, the producer first.
    pub fn pins(&self, tensor: TensorId) -> &[OpId] {
        let at = tensor.index();
        &self.pins[self.pin_offsets[at] as usize..self.pin_offsets[at + 1] as usize]
    }

    /// The tensors that an operator makes.
    pub fn outputs(&self, op: OpId) -> &[TensorId] {
        self.outputs.row(op.index())
    }

    /// The tensors that an operator reads.
    pub fn inputs(&self, op: OpId) -> &[TensorId] {
        self.inputs.row(op.index())
    }

    /// The operators that read what `op` makes, without repetition, by index.
    pub fn successors(&self, op: OpId) -> &[OpId] {
        self.successors.row(op.index())
    }

    /// The operators whose outputs `op` reads, without repetition, by index.
    pub fn predecessors(&self, op: OpId) -> &[OpId] {
        self.predecessors.row(op.index())
    }

    /// Number of colocation classes; an operator without a colocation name is a class of its own.
    pub fn class_count(&self) -> usize {
        self.classes.rows()
    }

    /// The colocation class of an operator; classes are numbered by their first operator.
    pub fn class_of(&self, op: OpId) -> usize {
        self.colocation[op.index()] as usize
    }

    /// The operators of a colocation class, by index.
    pub fn class(&self, class: usize) -> &[OpId] {
        self.classes.row(class)
    }

    /// Whether a step has a backward pass, so that gradients exist.
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
        self.parameters.row(op.index())
    }

    /// Bytes that an operator adds at least to what its device needs with one microbatch in flight; in version 1 what it
    /// adds.
    pub fn least_bytes(&self, op: OpId) -> f64 {
        let document = self.operator(op);
        match self.is_version_2() {
            true => document.parameter_bytes + document.optimizer_bytes + document.activation_bytes,
            false => document.bytes(),
        }
    }

    /// Bytes of an operator's own parameters whose gradient its replicas synchronise. Without a backward pass there is
    /// no gradient; a graph of version 1 may leave its backward pass out, and has one all the same.
    pub fn synchronised_bytes(&self, op: OpId) -> f64 {
        match self.is_version_2() && !self.has_backward {
            true => 0.0,
            false => self.operator(op).parameter_bytes,
        }
    }

    /// The operators in the order in which a device works through its own: a topological order in which the forward
    /// pass comes first and ties go to the operator that comes first in the document. O((operators + edges) log operators).
    pub fn work_order(&self) -> Vec<OpId> {
        let mut waiting: Vec<u32> = self.operators().map(|op| self.predecessors(op).len() as u32).collect();
        let key = |op: OpId| std::cmp::Reverse((!self.is_forward(op), op));
        let mut ready: std::collections::BinaryHeap<_> =
            self.operators().filter(|op| waiting[op.index()] == 0).map(key).collect();
        let mut order = Vec::with_capacity(self.operator_count());
        while let Some(std::cmp::Reverse((_, op))) = ready.pop() {
            order.push(op);
            for &next in self.successors(op) {
                waiting[next.index()] -= 1;
                if waiting[next.index()] == 0 {
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
