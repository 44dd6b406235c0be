//! Builds a checked [`Graph`] from a graph document.

use std::sync::Arc;

use petgraph::algo::toposort;
use petgraph::unionfind::UnionFind;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use thiserror::Error;

use super::{ClassId, Graph, OpId, TensorId};
use crate::code::Code;
use crate::code::G::*;
use crate::csr::Csr;
use crate::document::{
    GRAPH_SCHEMA, GRAPH_SCHEMA_2, GraphDocument, OperatorDocument, ParameterDocument, Pass, TensorDocument,
};
use crate::ids::{Id, Keyed};

/// Invalid graph document. Each variant names the operator or tensor, and [`GraphError::place`] gives the JSON path.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum GraphError {
    /// Wrong or unknown schema.
    #[error("schema is `{found}`, expected `{GRAPH_SCHEMA}` or `{GRAPH_SCHEMA_2}`")]
    Schema {
        /// Schema of the document.
        found: String,
    },
    /// Two operators with the same name.
    #[error("operator `{name}` appears twice, at {first} and {second}")]
    DuplicateOperator {
        /// The name.
        name: String,
        /// Index of the first operator.
        first: usize,
        /// Index of the second operator.
        second: usize,
    },
    /// An operator without a name.
    #[error("operator {at} has an empty name")]
    EmptyName {
        /// Index of the operator.
        at: usize,
    },
    /// A cost or size that is negative, infinite or not a number.
    #[error("{field} of {owner} is {value}, expected a finite number of at least 0")]
    BadNumber {
        /// `operator NAME` or `tensor NAME`.
        owner: String,
        /// JSON path.
        path: String,
        /// Field.
        field: String,
        /// Value found.
        value: f64,
    },
    /// A dimension of a kernel that is not positive, infinite or not a number.
    #[error("{field} of a kernel of operator `{operator}` is {value}, expected a finite number above 0")]
    BadDimension {
        /// The operator.
        operator: String,
        /// JSON path.
        path: String,
        /// The dimension.
        field: &'static str,
        /// Value found.
        value: f64,
    },
    /// A tensor that names a missing operator.
    #[error("tensor {at} names the {role} `{name}`, which is not an operator")]
    UnknownOperator {
        /// Index of the tensor.
        at: usize,
        /// JSON path.
        path: String,
        /// `producer` or `consumer`.
        role: &'static str,
        /// The unknown name.
        name: String,
    },
    /// A consumer listed twice, or a tensor read by its own producer.
    #[error("tensor {at} lists `{name}` twice among its producer and consumers")]
    RepeatedPin {
        /// Index of the tensor.
        at: usize,
        /// JSON path.
        path: String,
        /// The repeated operator.
        name: String,
    },
    /// Shared parameters in a document of version 1, which does not support them.
    #[error("`{GRAPH_SCHEMA}` has no `parameters`")]
    ParametersInVersion1,
    /// A parameter without readers.
    #[error("parameter `{name}` has no reader")]
    NoReader {
        /// Index of the parameter.
        at: usize,
        /// Name of the parameter.
        name: String,
    },
    /// A parameter that names a missing reader.
    #[error("parameter `{name}` names the reader `{reader}`, which is not an operator")]
    UnknownReader {
        /// The parameter.
        name: String,
        /// JSON path.
        path: String,
        /// The unknown name.
        reader: String,
    },
    /// A reader listed twice.
    #[error("parameter `{name}` lists the reader `{reader}` twice")]
    RepeatedReader {
        /// The parameter.
        name: String,
        /// JSON path.
        path: String,
        /// The repeated operator.
        reader: String,
    },
    /// A directed cycle.
    #[error("operators form a cycle: {}", .cycle.join(" -> "))]
    Cycle {
        /// The operators of one cycle, the first repeated at the end.
        cycle: Vec<String>,
    },
    /// A forward operator that reads the output of a backward or update operator.
    #[error("forward operator `{consumer}` reads the output of `{producer}`, which is not forward")]
    BackwardToForward {
        /// Producer.
        producer: String,
        /// Consumer.
        consumer: String,
        /// JSON path.
        path: String,
    },
    /// More operators, tensors or pins than 32-bit indices can number.
    #[error("{count} {what}, more than 4294967295")]
    TooLarge {
        /// `operators`, `tensors`, `parameters`, `pins` or `readers`.
        what: &'static str,
        /// Number of items of the kind `what`.
        count: usize,
    },
}

impl GraphError {
    /// Stable error code.
    pub fn code(&self) -> Code {
        match self {
            GraphError::Schema { .. } => G001,
            GraphError::DuplicateOperator { .. } => G002,
            GraphError::EmptyName { .. } => G003,
            GraphError::BadNumber { .. } | GraphError::BadDimension { .. } => G004,
            GraphError::UnknownOperator { .. } => G005,
            GraphError::RepeatedPin { .. } => G006,
            GraphError::Cycle { .. } => G007,
            GraphError::BackwardToForward { .. } => G008,
            GraphError::TooLarge { .. } => G009,
            GraphError::ParametersInVersion1 => G010,
            GraphError::NoReader { .. } => G011,
            GraphError::UnknownReader { .. } => G012,
            GraphError::RepeatedReader { .. } => G013,
        }
        .into()
    }

    /// JSON path of the defect.
    pub fn place(&self) -> String {
        match self {
            GraphError::Schema { .. } => "schema".into(),
            GraphError::DuplicateOperator { second, .. } => format!("operators[{second}].name"),
            GraphError::EmptyName { at } => format!("operators[{at}].name"),
            GraphError::BadNumber { path, .. }
            | GraphError::BadDimension { path, .. }
            | GraphError::UnknownOperator { path, .. }
            | GraphError::RepeatedPin { path, .. }
            | GraphError::UnknownReader { path, .. }
            | GraphError::RepeatedReader { path, .. }
            | GraphError::BackwardToForward { path, .. } => path.clone(),
            GraphError::ParametersInVersion1 => "parameters".into(),
            GraphError::NoReader { at, .. } => format!("parameters[{at}].readers"),
            GraphError::Cycle { .. } => "tensors".into(),
            GraphError::TooLarge { what, .. } => (*what).into(),
        }
    }

    /// Suggested fix.
    pub fn help(&self) -> &'static str {
        match self {
            GraphError::Schema { .. } => {
                "set schema to stagewright.graph/2, or name the format with --format"
            }
            GraphError::DuplicateOperator { .. } => "give every operator a unique name",
            GraphError::EmptyName { .. } => "give the operator a name",
            GraphError::BadDimension { .. } => "correct the dimension, or remove the kernel",
            GraphError::BadNumber { .. } => {
                "correct the number; list an operator that a class cannot run under `unsupported`"
            }
            GraphError::UnknownOperator { .. } | GraphError::UnknownReader { .. } => {
                "correct the name or add the operator"
            }
            GraphError::RepeatedPin { .. } => {
                "list every consumer once, and no consumer that is also the producer"
            }
            GraphError::Cycle { .. } => "unroll the loop: the graph of one sample or step has no cycle",
            GraphError::BackwardToForward { .. } => "correct the pass of one of the two operators",
            GraphError::TooLarge { .. } => "coarsen the graph",
            GraphError::ParametersInVersion1 => "set schema to stagewright.graph/2",
            GraphError::NoReader { .. } => "list the operators that read it, or drop it",
            GraphError::RepeatedReader { .. } => "list every reader once",
        }
    }
}

/// Builds a graph step by step; the checks happen in [`GraphBuilder::build`].
///
/// ```
/// use stagewright_core::document::operator;
/// use stagewright_core::graph::GraphBuilder;
///
/// let mut builder = GraphBuilder::new("two");
/// builder.operator(operator("a").seconds("acc", 1.0)).operator(operator("b").seconds("acc", 2.0));
/// builder.tensor("a", ["b"], 1e6);
/// let graph = builder.build()?;
/// assert_eq!(graph.operator_count(), 2);
/// # Ok::<(), stagewright_core::graph::GraphError>(())
/// ```
#[derive(Debug, Clone)]
pub struct GraphBuilder {
    document: GraphDocument,
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Self {
        GraphBuilder { document: GraphDocument::new(GRAPH_SCHEMA, name) }
    }

    /// Adds an operator.
    pub fn operator(&mut self, operator: OperatorDocument) -> &mut Self {
        self.document.operators.push(operator);
        self
    }

    /// Adds a tensor of `bytes` bytes, timed by the link; see [`GraphBuilder::timed_tensor`].
    pub fn tensor<'a>(
        &mut self,
        producer: &str,
        consumers: impl IntoIterator<Item = &'a str>,
        bytes: f64,
    ) -> &mut Self {
        self.timed_tensor(TensorDocument {
            name: None,
            producer: producer.into(),
            consumers: consumers.into_iter().map(Into::into).collect(),
            bytes,
            seconds: Default::default(),
        })
    }

    /// Adds a tensor from its document.
    pub fn timed_tensor(&mut self, tensor: TensorDocument) -> &mut Self {
        self.document.tensors.push(tensor);
        self
    }

    /// Adds a shared parameter and sets the document to version 2.
    pub fn parameter(&mut self, parameter: ParameterDocument) -> &mut Self {
        self.document.parameters.push(parameter);
        self.version_2()
    }

    /// Sets the document to version 2.
    pub fn version_2(&mut self) -> &mut Self {
        self.document.schema = GRAPH_SCHEMA_2.into();
        self
    }

    /// The document so far.
    pub fn document(&self) -> &GraphDocument {
        &self.document
    }

    /// Checks everything and builds the graph.
    ///
    /// # Errors
    /// The first defect found.
    pub fn build(self) -> Result<Graph, GraphError> {
        Graph::from_document(self.document)
    }
}

pub(super) fn build(document: Arc<GraphDocument>) -> Result<Graph, GraphError> {
    match document.schema.as_str() {
        GRAPH_SCHEMA if !document.parameters.is_empty() => return Err(GraphError::ParametersInVersion1),
        GRAPH_SCHEMA | GRAPH_SCHEMA_2 => {}
        _ => return Err(GraphError::Schema { found: document.schema.clone() }),
    }
    check_size("operators", document.operators.len())?;
    check_size("tensors", document.tensors.len())?;
    check_size("parameters", document.parameters.len())?;
    let (names, numbers) = rayon::join(|| operators_by_name(&document), || check_operators(&document));
    let names = names?;
    numbers?;
    let (pins, readers) = rayon::join(
        || resolve_pins(&document, &names),
        || {
            resolve_readers(&document, &names)
                .map(|readers| (colocation_classes(&document, &readers), readers))
        },
    );
    let (pins, ((colocation, members), readers)) = (pins?, readers?);

    let count = document.operators.len();
    let mut outputs = Vec::with_capacity(document.tensors.len());
    let mut inputs = Vec::with_capacity(pins.all().len());
    let mut edges = Vec::with_capacity(pins.all().len());
    for tensor in TensorId::first(document.tensors.len()) {
        let (&producer, consumers) = pins.row(tensor).split_first().expect("every tensor has a producer");
        outputs.push((producer, tensor));
        for &consumer in consumers {
            inputs.push((consumer, tensor));
            edges.push((producer, consumer));
        }
    }
    edges.par_sort_unstable();
    edges.dedup();
    // In the order of producers, so that every row of predecessors is sorted as well.
    let reversed: Vec<(OpId, OpId)> = edges.iter().map(|&(from, to)| (to, from)).collect();
    let of_readers: Vec<(OpId, u32)> = readers.iter().map(|&(parameter, op)| (op, parameter)).collect();
    let ((outputs, inputs), (successors, predecessors)) = rayon::join(
        || rayon::join(|| Csr::from_pairs(count, &outputs), || Csr::from_pairs(count, &inputs)),
        || rayon::join(|| Csr::from_pairs(count, &edges), || Csr::from_pairs(count, &reversed)),
    );

    let class_count = colocation.iter().max().map_or(0, |&last| last.index() + 1);
    let mut graph = Graph {
        pins,
        outputs,
        inputs,
        successors,
        predecessors,
        colocation,
        classes: Csr::from_pairs(class_count, &members),
        topological: Vec::new(),
        has_backward: document.operators.iter().any(|operator| operator.pass == Pass::Backward),
        parameters: Csr::from_pairs(count, &of_readers),
        readers: Csr::from_pairs(document.parameters.len(), &readers),
        document,
    };
    graph.topological = match toposort(&graph, None) {
        Ok(order) => order,
        Err(cycle) => return Err(GraphError::Cycle { cycle: name_cycle(&graph, cycle.node_id()) }),
    };
    Ok(graph)
}

fn check_size(what: &'static str, count: usize) -> Result<(), GraphError> {
    if u32::try_from(count).is_err() { Err(GraphError::TooLarge { what, count }) } else { Ok(()) }
}

/// Checks names and numbers of the operators; returns their indices by name.
fn operators_by_name(document: &GraphDocument) -> Result<FxHashMap<&str, OpId>, GraphError> {
    let mut names = FxHashMap::default();
    names.reserve(document.operators.len());
    for (index, operator) in document.operators.iter().enumerate() {
        if operator.name.is_empty() {
            return Err(GraphError::EmptyName { at: index });
        }
        if let Some(first) = names.insert(operator.name.as_str(), OpId::new(index)) {
            return Err(GraphError::DuplicateOperator {
                name: operator.name.clone(),
                first: first.index(),
                second: index,
            });
        }
    }
    Ok(names)
}

/// Checks the numbers of all operators. Of several defects, the first in the document is reported.
fn check_operators(document: &GraphDocument) -> Result<(), GraphError> {
    let operators = document.operators.par_iter().enumerate();
    let defect = operators.find_map_first(|(index, operator)| check_operator(index, operator).err());
    defect.map_or(Ok(()), Err)
}

fn check_operator(index: usize, operator: &OperatorDocument) -> Result<(), GraphError> {
    let fields = [
        ("parameter_bytes", operator.parameter_bytes),
        ("optimizer_bytes", operator.optimizer_bytes),
        ("activation_bytes", operator.activation_bytes),
        ("workspace_bytes", operator.workspace_bytes),
        ("flop", operator.flop.unwrap_or(0.0)),
        ("bytes_moved", operator.bytes_moved.unwrap_or(0.0)),
        ("launches", operator.launches.unwrap_or(0.0)),
    ];
    let owner = || (format!("operator `{}`", operator.name), format!("operators[{index}]"));
    for (field, value) in fields {
        check_number(value, || field.to_owned(), owner)?;
    }
    for (class, &value) in &operator.seconds {
        check_number(value, || format!("seconds.{class}"), owner)?;
    }
    for (kernel, document) in operator.kernels.iter().enumerate() {
        for (field, value) in document.dimensions() {
            if !(value.is_finite() && value > 0.0) {
                return Err(GraphError::BadDimension {
                    operator: operator.name.clone(),
                    path: format!("operators[{index}].kernels[{kernel}].{field}"),
                    field,
                    value,
                });
            }
        }
    }
    Ok(())
}

fn check_number(
    value: f64,
    field: impl FnOnce() -> String,
    owner: impl FnOnce() -> (String, String),
) -> Result<(), GraphError> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    let ((owner, path), field) = (owner(), field());
    Err(GraphError::BadNumber { owner, path: format!("{path}.{field}"), field, value })
}

/// Number of tensors whose names are resolved together.
const TOGETHER: usize = 1 << 12;

/// The pins of every tensor, producer first. Of several defects, the first in the document is reported.
fn resolve_pins(document: &GraphDocument, names: &FxHashMap<&str, OpId>) -> Result<Csr<OpId>, GraphError> {
    let total: usize = document.tensors.iter().map(|tensor| tensor.consumers.len() + 1).sum();
    check_size("pins", total)?;
    // Looking up the names takes most of the time.
    let of_part = |(part, tensors): (usize, &[TensorDocument])| {
        let (mut pins, mut row) = (Vec::with_capacity(3 * tensors.len()), Vec::new());
        for (index, tensor) in (part * TOGETHER..).zip(tensors) {
            resolve_tensor(document, names, index, tensor, &mut row)?;
            pins.extend(row.iter().map(|&op| (TensorId::new(index), op)));
        }
        Ok(pins)
    };
    let parts: Vec<Result<Vec<(TensorId, OpId)>, GraphError>> =
        document.tensors.par_chunks(TOGETHER).enumerate().map(of_part).collect();
    let parts: Vec<Vec<(TensorId, OpId)>> = parts.into_iter().collect::<Result<_, _>>()?;
    Ok(Csr::from_sorted(document.tensors.len(), parts.into_iter().flatten()))
}

/// Writes the pins of a tensor to `row`, producer first. O(pins log pins).
fn resolve_tensor(
    document: &GraphDocument,
    names: &FxHashMap<&str, OpId>,
    index: usize,
    tensor: &TensorDocument,
    row: &mut Vec<OpId>,
) -> Result<(), GraphError> {
    let owner = || (format!("the tensor of `{}`", tensor.producer), format!("tensors[{index}]"));
    check_number(tensor.bytes, || "bytes".to_owned(), owner)?;
    for (class, &value) in &tensor.seconds {
        check_number(value, || format!("seconds.{class}"), owner)?;
    }
    let path = |position: usize| match position {
        0 => format!("tensors[{index}].producer"),
        _ => format!("tensors[{index}].consumers[{}]", position - 1),
    };
    row.clear();
    for (position, name) in std::iter::once(&tensor.producer).chain(&tensor.consumers).enumerate() {
        let Some(&op) = names.get(name.as_str()) else {
            return Err(GraphError::UnknownOperator {
                at: index,
                path: path(position),
                role: if position == 0 { "producer" } else { "consumer" },
                name: name.clone(),
            });
        };
        row.push(op);
        let is_forward = |op: OpId| document.operators[op.index()].pass == Pass::Forward;
        if is_forward(op) && !is_forward(row[0]) {
            return Err(GraphError::BackwardToForward {
                producer: tensor.producer.clone(),
                consumer: name.clone(),
                path: path(position),
            });
        }
    }
    if let Some(position) = repeated(row) {
        let name = tensor.consumers[position - 1].clone();
        return Err(GraphError::RepeatedPin { at: index, path: path(position), name });
    }
    Ok(())
}

/// Position of the first operator of a row that is in it already. O(row log row).
fn repeated(row: &[OpId]) -> Option<usize> {
    const SHORT: usize = 16;
    if row.len() <= SHORT {
        return (1..row.len()).find(|&position| row[..position].contains(&row[position]));
    }
    let mut sorted: Vec<(OpId, usize)> = row.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    sorted.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1).min()
}

/// (parameter, reader) pairs in document order.
fn resolve_readers(
    document: &GraphDocument,
    names: &FxHashMap<&str, OpId>,
) -> Result<Vec<(u32, OpId)>, GraphError> {
    check_size("readers", document.parameters.iter().map(|parameter| parameter.readers.len()).sum())?;
    let mut pairs = Vec::new();
    let mut seen: Keyed<OpId, usize> = Keyed::filled(usize::MAX, document.operators.len());
    for (index, parameter) in document.parameters.iter().enumerate() {
        for (field, value) in [("bytes", parameter.bytes), ("optimizer_bytes", parameter.optimizer_bytes)] {
            check_number(
                value,
                || field.to_owned(),
                || (format!("the parameter `{}`", parameter.name), format!("parameters[{index}]")),
            )?;
        }
        if parameter.readers.is_empty() {
            return Err(GraphError::NoReader { at: index, name: parameter.name.clone() });
        }
        for (position, reader) in parameter.readers.iter().enumerate() {
            let path = || format!("parameters[{index}].readers[{position}]");
            let (name, reader_name) = (|| parameter.name.clone(), || reader.clone());
            let Some(&op) = names.get(reader.as_str()) else {
                return Err(GraphError::UnknownReader { name: name(), path: path(), reader: reader_name() });
            };
            if std::mem::replace(&mut seen[op], index) == index {
                return Err(GraphError::RepeatedReader { name: name(), path: path(), reader: reader_name() });
            }
            pairs.push((index as u32, op));
        }
    }
    Ok(pairs)
}

/// The class of each operator, numbered by first appearance, and (class, operator) pairs in operator order. Operators
/// with the same colocation name share a class, as do the readers of a parameter marked `together`.
fn colocation_classes(
    document: &GraphDocument,
    readers: &[(u32, OpId)],
) -> (Keyed<OpId, ClassId>, Vec<(ClassId, OpId)>) {
    let mut joined: UnionFind<u32> = UnionFind::new(document.operators.len());
    let mut by_name: FxHashMap<&str, u32> = FxHashMap::default();
    for (index, operator) in (0..).zip(&document.operators) {
        if let Some(name) = operator.colocation.as_deref() {
            joined.union(*by_name.entry(name).or_insert(index), index);
        }
    }
    for pair in readers.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        if document.parameters[pair[0].0 as usize].together {
            joined.union(pair[0].1.0, pair[1].1.0);
        }
    }
    let mut number: Vec<Option<ClassId>> = vec![None; document.operators.len()];
    let mut classes = ClassId::first(document.operators.len());
    let mut class_of = Keyed::default();
    let mut members = Vec::with_capacity(document.operators.len());
    for op in OpId::first(document.operators.len()) {
        let first = &mut number[joined.find_mut(op.0) as usize];
        let class = *first.get_or_insert_with(|| classes.next().expect("no more classes than operators"));
        class_of.push(class);
        members.push((class, op));
    }
    (class_of, members)
}

/// Names of the operators of one cycle through the strongly connected component of `start`.
fn name_cycle(graph: &Graph, start: OpId) -> Vec<String> {
    let components = petgraph::algo::kosaraju_scc(graph);
    let component = components
        .into_iter()
        .find(|component| component.contains(&start) && component.len() > 1)
        .unwrap_or_else(|| vec![start]);
    let inside: rustc_hash::FxHashSet<OpId> = component.iter().copied().collect();
    // Every operator of a component has a successor in the component, so the walk must repeat an operator.
    let mut walk = vec![start];
    let mut place: FxHashMap<OpId, usize> = FxHashMap::from_iter([(start, 0)]);
    loop {
        let last = *walk.last().expect("starts with one");
        let Some(&next) = graph.successors(last).iter().find(|next| inside.contains(next)) else { break };
        walk.push(next);
        if let Some(from) = place.insert(next, walk.len() - 1) {
            walk.drain(..from);
            break;
        }
    }
    const SHOWN: usize = 8;
    let mut names: Vec<String> = walk.iter().map(|&op| graph.operator(op).name.clone()).collect();
    if names.len() > SHOWN {
        let more = names.len() - SHOWN;
        let last = names.pop().expect("longer than the limit");
        names.truncate(SHOWN - 1);
        names.push(format!("({more} more)"));
        names.push(last);
    }
    names
}
