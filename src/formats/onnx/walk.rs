//! One pass over the nodes in the order of the file, which ONNX requires to be topological: shapes are
//! inferred, constants folded away, and what is left is an operator with its work.

use rustc_hash::{FxHashMap, FxHashSet};

use super::call::{Call, Fault};
use super::declared::Declared;
use super::proto::{GraphProto, ModelProto, NodeProto};
use super::value::{LARGEST_RANK, Value, of_tensor};
use super::work::is_amount;
use super::{cost, infer};
use crate::formats::error::InputError;

/// Everything that is known after the pass.
pub(super) struct Walked<'a> {
    pub(super) values: Vec<Entry<'a>>,
    pub(super) operators: Vec<Operator<'a>>,
}

/// A value and where it comes from.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Origin {
    /// From outside.
    Input,
    /// From the file: a constant, which is the constant `root` itself or another view of it.
    Constant { root: usize },
    /// From an operator.
    Operator(usize),
}

/// A node that is computed.
pub(super) struct Operator<'a> {
    pub(super) node: &'a NodeProto,
    /// Values it reads, each once, in order.
    pub(super) reads: Vec<usize>,
    pub(super) flop: Option<f64>,
    pub(super) bytes_moved: f64,
}

/// The walk so far.
struct Walk<'a> {
    label: &'a str,
    declared: Declared<'a>,
    by_name: FxHashMap<&'a str, usize>,
    walked: Walked<'a>,
}

/// Walks a graph. The first node that makes no sense, or whose shapes cannot be known, is the error.
pub(super) fn walk<'a>(
    label: &'a str,
    model: &'a ModelProto,
    graph: &'a GraphProto,
    batch: Option<u64>,
) -> Result<Walked<'a>, InputError> {
    let initialized: FxHashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name()).collect();
    let sparse = graph.sparse_initializer.iter().filter_map(|tensor| tensor.values.as_ref());
    let sparse_names: FxHashSet<&str> = sparse.map(|values| values.name()).collect();
    let is_constant = |name: &str| initialized.contains(name) || sparse_names.contains(name);
    let mut declared = Declared::of(label, graph, batch, is_constant)?;
    let inputs = std::mem::take(&mut declared.inputs);
    let walked = Walked { values: Vec::new(), operators: Vec::new() };
    let mut walk = Walk { label, declared, by_name: FxHashMap::default(), walked };
    for (name, value) in inputs {
        walk.add("graph.input", name, value, Origin::Input)?;
    }
    for (at, tensor) in graph.initializer.iter().enumerate() {
        let path = format!("graph.initializer[{at}]");
        let Some(value) = of_tensor(tensor) else {
            let message = format!("`{}` has the shape {:?}", tensor.name(), tensor.dims);
            return Err(InputError::at_path("M009", label, path, message, "correct the shape"));
        };
        walk.constant(&path, tensor.name(), value, None)?;
    }
    for (at, tensor) in graph.sparse_initializer.iter().enumerate() {
        let path = format!("graph.sparse_initializer[{at}]");
        let values = tensor.values.as_ref();
        // What is stored are the values; the shape is that of the tensor they are scattered over.
        let dims = super::value::dims(tensor.dims.iter().copied());
        let (Some(values), Some(dims)) = (values, dims) else {
            let message = "the sparse tensor has no values, or a shape that makes no sense";
            return Err(InputError::at_path("M009", label, path, message, "correct the shape"));
        };
        walk.constant(&path, values.name(), Value::new(values.data_type(), dims), None)?;
    }
    let versions: FxHashMap<&str, i64> =
        model.opset_import.iter().map(|opset| (domain(opset.domain()), opset.version())).collect();
    let functions: FxHashSet<(&str, &str)> =
        model.functions.iter().map(|function| (domain(function.domain()), function.name())).collect();
    for (at, node) in graph.node.iter().enumerate() {
        let path = format!("graph.node[{at}] ({} `{}`)", node.op_type(), super::node_name(node));
        if functions.contains(&(domain(node.domain()), node.op_type())) {
            let help = format!(
                "put the bodies in place of the calls with: python3 -c \"import onnx, onnx.inliner as i; \
                 onnx.save(i.inline_local_functions(onnx.load('{label}')), 'inlined.onnx')\""
            );
            return Err(InputError::at_path(
                "M011",
                label,
                path,
                "the node calls a function of the model",
                help,
            ));
        }
        walk.node(path, node, versions.get(domain(node.domain())).copied().unwrap_or(1))?;
    }
    Ok(walk.walked)
}

/// The standard domain has two names.
fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

impl<'a> Walk<'a> {
    fn node(&mut self, path: String, node: &'a NodeProto, opset: i64) -> Result<(), InputError> {
        let mut at = Vec::with_capacity(node.input.len());
        for name in &node.input {
            at.push(match (name.as_str(), self.by_name.get(name.as_str())) {
                ("", _) => None,
                (_, Some(&value)) => Some(value),
                (name, None) => {
                    let message = format!("it reads `{name}`, which no node before it makes");
                    let help = "nodes have to stand in an order in which everything is made before it is read; where \
                                there is none, the graph has a cycle or a value is missing";
                    return Err(InputError::at_path("M002", self.label, path, message, help));
                }
            });
        }
        let entries = &self.walked.values;
        let inputs = at.iter().map(|value| value.map(|value| &entries[value].value)).collect();
        let call = Call { node, inputs, opset };
        if call.has_body() {
            let help = "export the model with loops unrolled and branches decided: a plan needs the work of each node";
            return Err(InputError::at_path(
                "M011",
                self.label,
                path,
                "the node has a body of its own",
                help,
            ));
        }
        let outputs = self.outputs(&path, node, &call)?;
        let reads = at.iter().copied().flatten();
        if self.folds(node, reads.clone()) {
            let root = match (
                node.op_type(),
                at.first().copied().flatten().map(|value| self.walked.values[value].origin),
            ) {
                (kind, Some(Origin::Constant { root })) if is_view(kind) => Some(root),
                _ => None,
            };
            for (name, value) in outputs {
                self.constant(&path, name, value, root)?;
            }
            return Ok(());
        }
        let mut seen = FxHashSet::default();
        let distinct: Vec<usize> = reads.filter(|&value| seen.insert(value)).collect();
        let read: Vec<&Value> = distinct.iter().map(|&value| &entries[value].value).collect();
        let made: Vec<&Value> = outputs.iter().map(|(_, value)| value).collect();
        let Some(bytes_moved) = cost::bytes_moved(&call, &read, &made) else {
            let message = "it reads or makes text, or elements of a type that has no size";
            let help = "cut the model where numbers begin";
            return Err(InputError::at_path("M008", self.label, path, message, help));
        };
        let flop = cost::flop(&call, &made);
        if flop.is_some_and(|flop| !is_amount(flop)) {
            let help = "check the attributes of the node";
            return Err(InputError::at_path("M009", self.label, path, "the node has no end of work", help));
        }
        let operator = self.walked.operators.len();
        self.walked.operators.push(Operator { node, reads: distinct, flop, bytes_moved });
        for (name, value) in outputs {
            self.add(&path, name, value, Origin::Operator(operator))?;
        }
        Ok(())
    }

    /// The outputs of a node that have a name: inferred, or else declared.
    fn outputs(
        &self,
        path: &str,
        node: &'a NodeProto,
        call: &Call<'_>,
    ) -> Result<Vec<(&'a str, Value)>, InputError> {
        let (inferred, why) = match infer::infer(call) {
            Ok(values) => (values, "the operator has fewer outputs".to_owned()),
            Err(Fault::Unknown(why)) => (Vec::new(), why),
            Err(Fault::Contradiction(why)) => {
                let message = format!("the node makes no sense: {why}");
                let help = format!(
                    "check the model with: python3 -c \"import onnx; onnx.checker.check_model('{}', full_check=True)\"",
                    self.label
                );
                return Err(InputError::at_path("M009", self.label, path, message, help));
            }
        };
        let mut inferred = inferred.into_iter();
        let mut outputs = Vec::with_capacity(node.output.len());
        for name in &node.output {
            let value = inferred.next().or_else(|| self.declared.get(name).cloned());
            match value {
                _ if name.is_empty() => {}
                Some(value) => outputs.push((name.as_str(), value)),
                None => {
                    let message = format!("the shape of `{name}` is not known: {why}");
                    let help = format!(
                        "add shapes to the model with: python3 -c \"import onnx; \
                         onnx.shape_inference.infer_shapes_path('{}', 'shaped.onnx', data_prop=True)\"",
                        self.label
                    );
                    return Err(InputError::at_path("M008", self.label, path, message, help));
                }
            }
        }
        Ok(outputs)
    }

    /// Whether a node is computed once and for all.
    fn folds(&self, node: &NodeProto, reads: impl Iterator<Item = usize>) -> bool {
        match node.op_type() {
            "Constant" | "Shape" | "Size" => true,
            "Bernoulli" | "Multinomial" => false,
            kind if kind.starts_with("Random") => false,
            _ => {
                let mut reads = reads.peekable();
                let constant =
                    |value: usize| matches!(self.walked.values[value].origin, Origin::Constant { .. });
                reads.peek().is_some() && reads.all(constant)
            }
        }
    }

    fn constant(
        &mut self,
        path: &str,
        name: &'a str,
        value: Value,
        root: Option<usize>,
    ) -> Result<(), InputError> {
        let root = root.unwrap_or(self.walked.values.len());
        self.add(path, name, value, Origin::Constant { root })
    }

    fn add(&mut self, path: &str, name: &'a str, value: Value, origin: Origin) -> Result<(), InputError> {
        if self.by_name.insert(name, self.walked.values.len()).is_some() {
            let help = "give every value a name of its own";
            let message = format!("`{name}` is made twice");
            return Err(InputError::at_path("M001", self.label, path, message, help));
        }
        // Operators that add dimensions would make a chain of them quadratic.
        if value.rank() > LARGEST_RANK || value.bytes().is_some_and(|bytes| !is_amount(bytes)) {
            let message = format!("`{name}` has the shape {:?}", value.dims);
            return Err(InputError::at_path("M009", self.label, path, message, "correct the shape"));
        }
        self.walked.values.push(Entry { name, value, origin });
        Ok(())
    }
}

/// Operators whose output is their first input, seen differently.
fn is_view(kind: &str) -> bool {
    matches!(
        kind,
        "Cast"
            | "DequantizeLinear"
            | "Dropout"
            | "Flatten"
            | "Identity"
            | "Reshape"
            | "Squeeze"
            | "Transpose"
            | "Unsqueeze"
    )
}
