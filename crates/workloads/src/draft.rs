//! A graph whose tensors refer to operators by index; the form between tape and document.

use stagewright_core::document::{
    GRAPH_SCHEMA, GRAPH_SCHEMA_2, GraphDocument, OperatorDocument, ParameterDocument, Pass, TensorDocument,
};

use stagewright_formats::CostRules;
use stagewright_formats::fusion::{self, Role, role};

/// A tensor, by indices of operators.
#[derive(Debug, Clone)]
pub(super) struct Edge {
    pub(super) producer: u32,
    pub(super) consumers: Vec<u32>,
    pub(super) bytes: f64,
    /// Whether it is an output of the model, which is kept even if nothing reads it.
    pub(super) is_output: bool,
}

/// Parameters that several operators read.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) name: String,
    /// The operator of the tape that owns the parameters.
    pub(super) owner: u32,
    pub(super) bytes: f64,
    pub(super) optimizer_bytes: f64,
    pub(super) readers: Vec<u32>,
}

/// Operators and the tensors between them.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    /// Cost rules for pricing operators; they also determine the version of the document.
    pub(super) rules: CostRules,
    pub(super) operators: Vec<OperatorDocument>,
    pub(super) edges: Vec<Edge>,
    /// Only under the second rules.
    pub(super) shared: Vec<Shared>,
}

impl Draft {
    /// Adds an operator.
    pub(super) fn operator(&mut self, operator: OperatorDocument) -> u32 {
        self.operators.push(operator);
        self.operators.len() as u32 - 1
    }

    /// Adds a tensor that nothing reads yet.
    pub(super) fn edge(&mut self, producer: u32, bytes: f64) -> u32 {
        self.edges.push(Edge { producer, consumers: Vec::new(), bytes, is_output: false });
        self.edges.len() as u32 - 1
    }

    /// Adds a reader to a tensor. Each operator must add all its reads before the next one adds any.
    pub(super) fn read(&mut self, edge: u32, reader: u32) {
        let consumers = &mut self.edges[edge as usize].consumers;
        if consumers.last() != Some(&reader) {
            consumers.push(reader);
        }
    }

    /// Removes operators together with their output tensors, and moves the updates behind all other operators: all
    /// gradients exist until the end of the step.
    pub(super) fn ordered(mut self, is_left_out: impl Fn(&OperatorDocument) -> bool) -> Draft {
        let mut order: Vec<usize> =
            (0..self.operators.len()).filter(|&at| !is_left_out(&self.operators[at])).collect();
        order.sort_by_key(|&at| self.operators[at].pass == Pass::Update);
        let mut target = vec![None; self.operators.len()];
        for (to, &from) in order.iter().enumerate() {
            target[from] = Some(to as u32);
        }
        let moved = |ops: &[u32]| ops.iter().filter_map(|&op| target[op as usize]).collect::<Vec<u32>>();
        let moved_edge = |edge: Edge| {
            let producer = target[edge.producer as usize]?;
            Some(Edge { producer, consumers: moved(&edge.consumers), ..edge })
        };
        self.edges = self.edges.into_iter().filter_map(moved_edge).collect();
        for shared in &mut self.shared {
            shared.readers = moved(&shared.readers);
        }
        let mut operators: Vec<_> = self.operators.into_iter().map(Some).collect();
        self.operators = order.into_iter().filter_map(|at| operators[at].take()).collect();
        self
    }

    /// Fuses operators by their kinds. Operators for which `together` is false share no kernel. Time and memory are
    /// linear in operators and pins, except for sorting names.
    pub(super) fn fused(mut self, together: impl Fn(usize, usize) -> bool) -> Draft {
        let role_of = |operator: &OperatorDocument| operator.kind.as_deref().map_or(Role::Apart, role);
        let roles: Vec<Role> = self.operators.iter().map(role_of).collect();
        self.edges.retain(Edge::is_there);
        let tensors = self.tensors();
        let operators = std::mem::take(&mut self.operators);
        let mut graph = GraphDocument { operators, tensors, ..empty(self.rules) };
        fusion::fuse(&mut graph, &roles, together);
        for (edge, tensor) in self.edges.iter_mut().zip(&graph.tensors) {
            edge.bytes = tensor.bytes;
        }
        self.operators = graph.operators;
        self
    }

    /// The document. Tensors without readers are left out, except for outputs of the model.
    pub(super) fn document(mut self, name: String) -> GraphDocument {
        let parameters = self.parameters();
        GraphDocument {
            name,
            tensors: self.tensors(),
            parameters,
            operators: self.operators,
            ..empty(self.rules)
        }
    }

    fn tensors(&self) -> Vec<TensorDocument> {
        let of = |op: u32| self.operators[op as usize].name.clone();
        let tensor = |edge: &Edge| TensorDocument {
            name: None,
            producer: of(edge.producer),
            consumers: edge.consumers.iter().map(|&consumer| of(consumer)).collect(),
            bytes: edge.bytes,
            seconds: Default::default(),
        };
        self.edges.iter().filter(|edge| edge.is_there()).map(tensor).collect()
    }

    /// Shared parameters. A parameter whose readers are all colocated goes to the first of them instead.
    fn parameters(&mut self) -> Vec<ParameterDocument> {
        let mut parameters = Vec::new();
        for shared in std::mem::take(&mut self.shared) {
            let class = |&op: &u32| self.operators[op as usize].colocation.as_deref();
            let first = shared.readers.first().map(class);
            let is_one = shared.readers.len() == 1
                || first.is_some_and(|first| {
                    first.is_some() && shared.readers.iter().all(|op| class(op) == first)
                });
            if is_one {
                let operator = &mut self.operators[shared.readers[0] as usize];
                operator.parameter_bytes += shared.bytes;
                operator.optimizer_bytes += shared.optimizer_bytes;
            } else if !shared.readers.is_empty() {
                parameters.push(ParameterDocument {
                    name: shared.name,
                    bytes: shared.bytes,
                    optimizer_bytes: shared.optimizer_bytes,
                    readers: shared
                        .readers
                        .iter()
                        .map(|&op| self.operators[op as usize].name.clone())
                        .collect(),
                    trained: true,
                    together: false,
                });
            }
        }
        parameters
    }
}

impl Edge {
    /// Whether it is a tensor of the document: it has readers or is an output.
    fn is_there(&self) -> bool {
        self.is_output || !self.consumers.is_empty()
    }
}

fn empty(rules: CostRules) -> GraphDocument {
    let schema = match rules {
        CostRules::One => GRAPH_SCHEMA,
        CostRules::Two => GRAPH_SCHEMA_2,
    };
    GraphDocument {
        schema: schema.into(),
        name: String::new(),
        operators: Vec::new(),
        tensors: Vec::new(),
        cluster: None,
        parameters: Vec::new(),
        batch: None,
        pipedream_skips: Vec::new(),
    }
}
