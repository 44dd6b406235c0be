//! A graph whose tensors name operators by index: between the tape and the document.

use stagewright_core::document::{GRAPH_SCHEMA, GraphDocument, OperatorDocument, TensorDocument};

/// A tensor by indices of operators.
#[derive(Debug, Clone)]
pub(super) struct Edge {
    pub(super) producer: u32,
    pub(super) consumers: Vec<u32>,
    pub(super) bytes: f64,
}

/// Operators and the tensors between them.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    pub(super) operators: Vec<OperatorDocument>,
    pub(super) edges: Vec<Edge>,
}

impl Draft {
    /// Adds an operator.
    pub(super) fn operator(&mut self, operator: OperatorDocument) -> u32 {
        self.operators.push(operator);
        self.operators.len() as u32 - 1
    }

    /// Adds a tensor that nothing reads yet.
    pub(super) fn edge(&mut self, producer: u32, bytes: f64) -> u32 {
        self.edges.push(Edge { producer, consumers: Vec::new(), bytes });
        self.edges.len() as u32 - 1
    }

    /// Lets an operator read a tensor; an operator reads all it does before the next one reads anything.
    pub(super) fn read(&mut self, edge: u32, reader: u32) {
        let consumers = &mut self.edges[edge as usize].consumers;
        if consumers.last() != Some(&reader) {
            consumers.push(reader);
        }
    }

    /// The document. Tensors that nothing reads are left out.
    pub(super) fn document(self, name: String) -> GraphDocument {
        let of = |op: u32| self.operators[op as usize].name.clone();
        let tensors = self
            .edges
            .iter()
            .filter(|edge| !edge.consumers.is_empty())
            .map(|edge| TensorDocument {
                name: None,
                producer: of(edge.producer),
                consumers: edge.consumers.iter().map(|&consumer| of(consumer)).collect(),
                bytes: edge.bytes,
                seconds: Default::default(),
            })
            .collect();
        GraphDocument {
            schema: GRAPH_SCHEMA.into(),
            name,
            operators: self.operators,
            tensors,
            cluster: None,
            parameters: Vec::new(),
            pipedream_skips: Vec::new(),
        }
    }
}
