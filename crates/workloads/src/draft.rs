//! A graph whose tensors refer to operators by index; the form between tape and document.

use stagewright_core::document::{
    GRAPH_SCHEMA_2, GraphDocument, OperatorDocument, ParameterDocument, Pass, TensorDocument,
};
use stagewright_core::graph::{OpId, TensorId};
use stagewright_core::ids::Keyed;

use stagewright_formats::fusion::{self, Role, role};

/// A tensor whose producer and readers are given by index.
#[derive(Debug, Clone)]
pub(super) struct Edge {
    pub(super) producer: OpId,
    pub(super) consumers: Vec<OpId>,
    pub(super) bytes: f64,
    /// Whether the tensor is an output of the model, which is kept even if nothing reads it.
    pub(super) is_output: bool,
}

/// Parameters that several operators read, or a cache.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) name: String,
    /// The operator of the tape that owns the parameters.
    pub(super) owner: OpId,
    pub(super) bytes: f64,
    pub(super) optimizer_bytes: f64,
    pub(super) readers: Vec<OpId>,
    /// Whether this is a cache: no weight, and apart from the parameters of its reader even if it has only one.
    pub(super) is_cache: bool,
}

/// Operators and the tensors between them.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    pub(super) operators: Keyed<OpId, OperatorDocument>,
    pub(super) edges: Keyed<TensorId, Edge>,
    /// Shared parameters.
    pub(super) shared: Vec<Shared>,
}

impl Draft {
    /// Adds an operator.
    pub(super) fn operator(&mut self, operator: OperatorDocument) -> OpId {
        self.operators.push(operator)
    }

    /// Adds a tensor that nothing reads yet.
    pub(super) fn edge(&mut self, producer: OpId, bytes: f64) -> TensorId {
        self.edges.push(Edge { producer, consumers: Vec::new(), bytes, is_output: false })
    }

    /// Adds a reader to a tensor. Each operator must add all its reads before the next one adds any.
    pub(super) fn read(&mut self, edge: TensorId, reader: OpId) {
        let consumers = &mut self.edges[edge].consumers;
        if consumers.last() != Some(&reader) {
            consumers.push(reader);
        }
    }

    /// Removes operators together with their output tensors, and moves the updates after all other operators: all
    /// gradients exist until the end of the step.
    pub(super) fn ordered(mut self, is_left_out: impl Fn(&OperatorDocument) -> bool) -> Draft {
        let mut order: Keyed<OpId, OpId> =
            self.operators.ids().filter(|&op| !is_left_out(&self.operators[op])).collect();
        order.sort_by_key(|&op| self.operators[op].pass == Pass::Update);
        let mut target = Keyed::filled(None, self.operators.len());
        for (to, &from) in order.enumerate() {
            target[from] = Some(to);
        }
        let moved = |ops: &[OpId]| ops.iter().filter_map(|&op| target[op]).collect::<Vec<OpId>>();
        let moved_edge = |edge: Edge| {
            let producer = target[edge.producer]?;
            Some(Edge { producer, consumers: moved(&edge.consumers), ..edge })
        };
        self.edges = self.edges.into_vec().into_iter().filter_map(moved_edge).collect();
        for shared in &mut self.shared {
            shared.readers = moved(&shared.readers);
        }
        let mut operators: Keyed<OpId, _> = self.operators.into_vec().into_iter().map(Some).collect();
        self.operators = order.iter().filter_map(|&op| operators[op].take()).collect();
        self
    }

    /// Fuses operators by their kinds. Two operators for which `together` is false never share a kernel. Time and
    /// memory are linear in operators and pins, except for sorting names.
    pub(super) fn fused(mut self, together: impl Fn(usize, usize) -> bool) -> Draft {
        let role_of = |operator: &OperatorDocument| operator.kind.as_deref().map_or(Role::Apart, role);
        let roles: Vec<Role> = self.operators.iter().map(role_of).collect();
        self.edges.retain(Edge::is_there);
        let tensors = self.tensors();
        let operators = std::mem::take(&mut self.operators).into_vec();
        let mut graph = GraphDocument { operators, tensors, ..empty() };
        fusion::fuse(&mut graph, &roles, together);
        for (edge, tensor) in self.edges.iter_mut().zip(&graph.tensors) {
            edge.bytes = tensor.bytes;
        }
        self.operators = graph.operators.into();
        self
    }

    /// Converts the draft to a document. Tensors without readers are left out, except for outputs of the model.
    pub(super) fn document(mut self, name: String) -> GraphDocument {
        let parameters = self.parameters();
        GraphDocument {
            name,
            tensors: self.tensors(),
            parameters,
            operators: self.operators.into_vec(),
            ..empty()
        }
    }

    fn tensors(&self) -> Vec<TensorDocument> {
        let name_of = |op: OpId| self.operators[op].name.clone();
        let tensor = |edge: &Edge| TensorDocument {
            name: None,
            producer: name_of(edge.producer),
            consumers: edge.consumers.iter().map(|&consumer| name_of(consumer)).collect(),
            bytes: edge.bytes,
            seconds: Default::default(),
        };
        self.edges.iter().filter(|edge| edge.is_there()).map(tensor).collect()
    }

    /// Shared parameters of the document. A parameter whose readers are all colocated becomes the first reader's own
    /// instead.
    fn parameters(&mut self) -> Vec<ParameterDocument> {
        let mut parameters = Vec::new();
        for shared in std::mem::take(&mut self.shared) {
            let class = |&op: &OpId| self.operators[op].colocation.as_deref();
            let first = shared.readers.first().map(class);
            let is_one = !shared.is_cache
                && (shared.readers.len() == 1
                    || first.is_some_and(|first| {
                        first.is_some() && shared.readers.iter().all(|op| class(op) == first)
                    }));
            if is_one {
                let operator = &mut self.operators[shared.readers[0]];
                operator.parameter_bytes += shared.bytes;
                operator.optimizer_bytes += shared.optimizer_bytes;
            } else if !shared.readers.is_empty() {
                parameters.push(ParameterDocument {
                    name: shared.name,
                    bytes: shared.bytes,
                    optimizer_bytes: shared.optimizer_bytes,
                    readers: shared.readers.iter().map(|&op| self.operators[op].name.clone()).collect(),
                    trained: !shared.is_cache,
                    together: false,
                });
            }
        }
        parameters
    }
}

impl Edge {
    /// Whether the tensor is in the document: it has readers or is an output.
    fn is_there(&self) -> bool {
        self.is_output || !self.consumers.is_empty()
    }
}

fn empty() -> GraphDocument {
    GraphDocument::new(GRAPH_SCHEMA_2, "")
}
