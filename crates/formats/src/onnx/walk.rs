//! One pass over the nodes in file order, which ONNX requires to be topological: shapes are inferred,
//! constants are folded, and every other node becomes an operator with its work. Nodes with a body are in
//! [`body`](super::body).

use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use stagewright_core::document::{KernelDocument, Precision};

use super::body::Body;
use super::call::{Call, Fault};
use super::declared::{Declared, is_cache};
use super::equal::{self, Identity};
use super::proto::tensor_proto::DataLocation;
use super::proto::{GraphProto, ModelProto, NodeProto, TensorProto};
use super::value::{LARGEST_RANK, Value, cast, is_parameter, of_tensor};
use super::work::is_amount;
use super::{cost, domain, infer, inline};
use crate::code::{M001, M002, M008, M009};
use crate::error::{InputError, Result};
use crate::options::ImportOptions;

/// Largest number of weights recorded for a constant computed from several: no constant of a model has more.
const MAX_WEIGHTS: usize = 256;

/// Result of the pass.
pub(super) struct Walked<'a> {
    pub(super) values: Vec<Entry<'a>>,
    pub(super) operators: Vec<Operator<'a>>,
    /// Outputs of the model.
    pub(super) outputs: Vec<usize>,
    /// Values by name, without those of bodies.
    pub(super) names: FxHashMap<&'a str, usize>,
}

impl Walked<'_> {
    /// The first among the constants that a runtime merges with the constant `root`.
    pub(super) fn first_equal(&self, root: usize) -> usize {
        let first = self.values[root].number;
        let (own, other) = (&self.values[root], &self.values[first]);
        let is_one = match own.is_weight() {
            true => own.is_literal && other.is_literal,
            false => !other.is_weight(),
        };
        if is_one { first } else { root }
    }
}

/// A value and its origin.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    pub(super) value: Value,
    pub(super) origin: Origin,
    /// Weights that a constant is computed from, unless it is a view of one.
    pub(super) weights: Rc<[usize]>,
    /// Whether the value is stored in the file, in an initialiser or in a `Constant`.
    pub(super) is_stored: bool,
    /// Whether a `Constant` node stores the value.
    pub(super) is_literal: bool,
    /// Whether the value is a literal that the file repeats. A weight is written only once.
    pub(super) is_repeated: bool,
    /// Whether the value is quantised, with a scale.
    pub(super) is_quantized: bool,
    /// The first constant that is equal to this value, or this value itself.
    number: usize,
}

impl Entry<'_> {
    /// Whether the value is a weight: more than one number, stored in the file.
    pub(super) fn is_weight(&self) -> bool {
        let is_number = is_parameter(self.value.elem) || self.is_quantized;
        self.is_stored && is_number && self.value.dims.iter().any(|&dim| dim > 1)
    }
}

/// Origin of a value.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Origin {
    /// An input of the model.
    Input,
    /// An input that is kept from one step to the next: keys or values of past tokens.
    Cache,
    /// A constant, which is `root` itself or a view of it.
    Constant { root: usize },
    /// An output of an operator.
    Operator(usize),
    /// A value inside a node with a body: nothing outside reads it.
    Body,
}

/// A node that is computed.
pub(super) struct Operator<'a> {
    pub(super) node: &'a NodeProto,
    /// Inputs in the order of the node, `None` for omitted ones, and then the values that its body reads from
    /// outside.
    pub(super) inputs: Vec<Option<usize>>,
    /// Values that the operator reads, each once, in order.
    pub(super) reads: Vec<usize>,
    /// Values that the operator makes, without unnamed ones.
    pub(super) outputs: Vec<usize>,
    pub(super) flop: Option<f64>,
    pub(super) bytes_moved: f64,
    /// Library kernels that the operator calls.
    pub(super) kernels: Vec<KernelDocument>,
    /// Bytes of inputs that the operator does not read.
    pub(super) unread: f64,
    /// Figures of the operator's body, if any.
    pub(super) body: Option<Body>,
}

/// Names of a graph: of the main graph, or of a body inside it.
pub(super) struct Scope<'a> {
    names: FxHashMap<&'a str, usize>,
    /// Declarations of the graph.
    declared: FxHashMap<&'a str, Value>,
}

/// State of the walk.
pub(super) struct Walk<'a> {
    pub(super) label: &'a str,
    pub(super) declared: Declared<'a>,
    /// Precision that floating-point numbers are cast to, if any.
    precision: Option<Precision>,
    /// Versions of operator sets by domain.
    versions: FxHashMap<&'a str, i64>,
    /// The main graph, and the bodies around the current node.
    pub(super) scopes: Vec<Scope<'a>>,
    /// First constant of each identity.
    firsts: FxHashMap<Identity, usize>,
    pub(super) walked: Walked<'a>,
}

/// Walks a graph. The error is about the first node that is invalid or whose shapes cannot be known.
pub(super) fn walk<'a>(
    label: &'a str,
    model: &'a ModelProto,
    graph: &'a GraphProto,
    options: &ImportOptions,
) -> Result<Walked<'a>> {
    let initialized: FxHashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name()).collect();
    let sparse = graph.sparse_initializer.iter().filter_map(|tensor| tensor.values.as_ref());
    let sparse_names: FxHashSet<&str> = sparse.map(|values| values.name()).collect();
    let is_constant = |name: &str| initialized.contains(name) || sparse_names.contains(name);
    let mut declared = Declared::new(label, graph, options, is_constant)?;
    let inputs = std::mem::take(&mut declared.inputs);
    let scope = Scope { names: FxHashMap::default(), declared: std::mem::take(&mut declared.values) };
    let mut walk = Walk {
        label,
        declared,
        precision: options.precision,
        versions: model.opset_import.iter().map(|opset| (domain(opset.domain()), opset.version())).collect(),
        scopes: vec![scope],
        firsts: FxHashMap::default(),
        walked: Walked {
            values: Vec::new(),
            operators: Vec::new(),
            outputs: Vec::new(),
            names: FxHashMap::default(),
        },
    };
    for (name, value) in inputs {
        let origin = if is_cache(name, value.elem, value.rank()) { Origin::Cache } else { Origin::Input };
        walk.add("graph.input", name, value, origin)?;
    }
    walk.graph("graph", graph)?;
    let outputs = graph.output.iter().filter_map(|output| walk.find(output.name())).collect();
    let names = walk.scopes.pop().map(|scope| scope.names).unwrap_or_default();
    Ok(Walked { outputs, names, ..walk.walked })
}

impl<'a> Walk<'a> {
    /// Adds the initialisers and nodes of a graph to the open scope.
    pub(super) fn graph(&mut self, path: &str, graph: &'a GraphProto) -> Result<()> {
        // An initialiser of an input is only its default, and the node that runs a body provides all inputs of the
        // body.
        let given: FxHashSet<&str> =
            self.scopes.last().into_iter().flat_map(|scope| scope.names.keys().copied()).collect();
        let others = |(_, tensor): &(usize, &TensorProto)| !given.contains(tensor.name());
        for (index, tensor) in graph.initializer.iter().enumerate().filter(others) {
            let path = format!("{path}.initializer[{index}]");
            let Some(value) = of_tensor(tensor) else {
                let message = format!("`{}` has the shape {:?}", tensor.name(), tensor.dims);
                return Err(InputError::at_path(M009, self.label, path, message, "correct the shape"));
            };
            self.stored(&path, tensor.name(), value, Some(tensor), false)?;
        }
        for (index, tensor) in graph.sparse_initializer.iter().enumerate() {
            let path = format!("{path}.sparse_initializer[{index}]");
            let values = tensor.values.as_ref();
            // Only the values are stored; the shape is that of the tensor they are scattered over.
            let dims = super::value::dims(tensor.dims.iter().copied());
            let (Some(values), Some(dims)) = (values, dims) else {
                let message = "the sparse tensor has no values, or an invalid shape";
                return Err(InputError::at_path(M009, self.label, path, message, "correct the shape"));
            };
            if !given.contains(values.name()) {
                self.stored(&path, values.name(), Value::new(values.data_type(), dims), None, false)?;
            }
        }
        for (index, node) in graph.node.iter().enumerate() {
            let path = format!("{path}.node[{index}] ({} `{}`)", node.op_type(), super::node_name(node));
            self.node(path, node)?;
        }
        Ok(())
    }

    /// Finds a value by name, in the innermost scope that has it.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.scopes.iter().rev().find_map(|scope| scope.names.get(name).copied())
    }

    /// Opens the scope of a body.
    pub(super) fn enter(&mut self, graph: &'a GraphProto) {
        let declared = self.declared.of_body(graph);
        self.scopes.push(Scope { names: FxHashMap::default(), declared });
    }

    /// A node with the values of its inputs.
    pub(super) fn call(&self, node: &'a NodeProto, inputs: &[Option<usize>]) -> Call<'_> {
        let of_model = || self.versions.get(domain(node.domain())).copied();
        let opset = inline::own_opset(node).or_else(of_model).unwrap_or(1);
        let entries = &self.walked.values;
        let inputs = inputs.iter().map(|value| value.map(|value| &entries[value].value)).collect();
        Call { node, inputs, opset }
    }

    fn node(&mut self, path: String, node: &'a NodeProto) -> Result<()> {
        let mut inputs = self.inputs(&path, node)?;
        if node.attribute.iter().any(|attribute| attribute.g.is_some() || !attribute.graphs.is_empty()) {
            return self.with_body(&path, node, inputs);
        }
        let call = self.call(node, &inputs);
        let mut outputs = self.outputs(&path, node, &call)?;
        for (_, value) in &mut outputs {
            value.elem = cast(value.elem, self.precision);
        }
        for (place, value) in inputs.iter_mut().enumerate() {
            *value = value.filter(|_| !reads_type_alone(node, place));
        }
        let reads = inputs.iter().copied().flatten();
        if self.folds(node, reads.clone()) {
            let opset = call.opset;
            return self.fold(&path, node, opset, &inputs, outputs);
        }
        let mut seen = FxHashSet::default();
        let distinct: Vec<usize> = reads.filter(|&value| seen.insert(value)).collect();
        let entries = &self.walked.values;
        let read: Vec<&Value> = distinct.iter().map(|&value| &entries[value].value).collect();
        let made: Vec<&Value> = outputs.iter().map(|(_, value)| value).collect();
        let Some(bytes_moved) = cost::bytes_moved(&call, &read, &made) else {
            let message = "it reads or produces strings, or elements of a type without a size";
            let help = "cut the model after its operators on strings";
            return Err(InputError::at_path(M008, self.label, path, message, help));
        };
        let unread = cost::unread(&call).min(bytes_moved);
        let flop = cost::flop(&call, &made);
        let kernels = cost::kernels(&call, &made);
        if flop.is_some_and(|flop| !is_amount(flop)) {
            return Err(self.unbounded(&path));
        }
        let operator = self.walked.operators.len();
        let made: Vec<usize> = (self.walked.values.len()..).take(outputs.len()).collect();
        self.walked.operators.push(Operator {
            node,
            inputs,
            reads: distinct,
            outputs: made,
            flop,
            bytes_moved: bytes_moved - unread,
            kernels,
            unread,
            body: None,
        });
        for (name, value) in outputs {
            self.add(&path, name, value, Origin::Operator(operator))?;
        }
        Ok(())
    }

    /// Values that a node reads; `None` for optional ones that are left out.
    fn inputs(&self, path: &str, node: &NodeProto) -> Result<Vec<Option<usize>>> {
        let mut inputs = Vec::with_capacity(node.input.len());
        for name in &node.input {
            inputs.push(match (name.as_str(), self.find(name)) {
                ("", _) => None,
                (_, Some(value)) => Some(value),
                (name, None) => {
                    let message = format!("it reads `{name}`, which no earlier node produces");
                    let help = "sort the nodes topologically; if that is impossible, the graph has a cycle or a \
                                value is missing";
                    return Err(InputError::at_path(M002, self.label, path, message, help));
                }
            });
        }
        Ok(inputs)
    }

    /// Named outputs of a node, inferred or else declared.
    fn outputs(&self, path: &str, node: &'a NodeProto, call: &Call<'_>) -> Result<Vec<(&'a str, Value)>> {
        let (inferred, why) = match infer::infer(call) {
            Ok(values) => (values, "the operator has fewer outputs".to_owned()),
            Err(Fault::Unknown(why)) => (Vec::new(), why),
            Err(Fault::Contradiction(why)) => return Err(self.contradiction(path, &why)),
        };
        let mut inferred = inferred.into_iter();
        let mut outputs = Vec::with_capacity(node.output.len());
        for name in &node.output {
            let value = inferred.next().or_else(|| self.declared(name));
            match value {
                _ if name.is_empty() => {}
                Some(value) => outputs.push((name.as_str(), value)),
                None => {
                    let message = format!("the shape of `{name}` is unknown: {why}");
                    let help = format!(
                        "add shapes to the model with: python3 -c \"import onnx; \
                         onnx.shape_inference.infer_shapes_path('{}', 'shaped.onnx', data_prop=True)\"",
                        self.label
                    );
                    return Err(InputError::at_path(M008, self.label, path, message, help));
                }
            }
        }
        Ok(outputs)
    }

    /// Declaration of a value in the current graph.
    fn declared(&self, name: &str) -> Option<Value> {
        self.scopes.last()?.declared.get(name).cloned()
    }

    /// Error of an invalid node.
    pub(super) fn contradiction(&self, path: &str, why: &str) -> InputError {
        let message = format!("invalid node: {why}");
        let help = format!(
            "check the model with: python3 -c \"import onnx; onnx.checker.check_model('{}', full_check=True)\"",
            self.label
        );
        InputError::at_path(M009, self.label, path, message, help)
    }

    /// Whether a node is folded into a constant.
    fn folds(&self, node: &NodeProto, reads: impl Iterator<Item = usize>) -> bool {
        match node.op_type() {
            "Constant" | "Shape" | "Size" => true,
            kind if draws(kind) => false,
            _ => self.all_constant(reads),
        }
    }

    /// An error about a node whose work is not a finite number.
    pub(super) fn unbounded(&self, path: &str) -> InputError {
        let help = "check the attributes of the node";
        InputError::at_path(M009, self.label, path, "the work of the node is not finite", help)
    }

    /// Whether all values are constant; false if there are none.
    pub(super) fn all_constant(&self, reads: impl Iterator<Item = usize>) -> bool {
        let mut reads = reads.peekable();
        let constant = |value: usize| matches!(self.walked.values[value].origin, Origin::Constant { .. });
        reads.peek().is_some() && reads.all(constant)
    }

    /// Adds the outputs of a node that is folded.
    fn fold(
        &mut self,
        path: &str,
        node: &'a NodeProto,
        opset: i64,
        inputs: &[Option<usize>],
        outputs: Vec<(&'a str, Value)>,
    ) -> Result<()> {
        if node.op_type() == "Constant" {
            let tensor = equal::literal(node);
            for (name, value) in outputs {
                self.stored(path, name, value, tensor.as_deref(), true)?;
            }
            return Ok(());
        }
        let first = inputs.first().copied().flatten().map(|value| self.walked.values[value].origin);
        let root = match first {
            Some(Origin::Constant { root }) if is_view(node.op_type()) => Some(root),
            _ => None,
        };
        if let Some(root) = root {
            self.walked.values[root].is_quantized |= node.op_type() == "DequantizeLinear";
        }
        let weights = if root.is_some() { Rc::default() } else { self.weights_of(inputs) };
        // Shapes and sizes may be those of a value that is not a constant.
        let inputs: Option<Vec<Option<usize>>> =
            self.all_constant(inputs.iter().copied().flatten()).then(|| {
                inputs.iter().map(|value| value.map(|value| self.walked.values[value].number)).collect()
            });
        let places = node.output.iter().enumerate().filter(|(_, name)| !name.is_empty());
        for ((place, _), (name, value)) in places.zip(outputs) {
            let computed = |inputs| Identity::computed(node, opset, place, &value, inputs, &weights);
            let identity = Identity::content(&value).or_else(|| computed(inputs.clone()?));
            let own = self.walked.values.len();
            self.add(path, name, value, Origin::Constant { root: root.unwrap_or(own) })?;
            self.walked.values[own].weights = Rc::clone(&weights);
            self.known_by(own, identity);
        }
        Ok(())
    }

    /// Gives a constant the number of the first constant that is equal to it.
    fn known_by(&mut self, constant: usize, identity: Option<Identity>) {
        let first = identity.map_or(constant, |identity| *self.firsts.entry(identity).or_insert(constant));
        self.walked.values[constant].number = first;
    }

    /// Adds a constant that a node with a body computes from others.
    pub(super) fn folded(
        &mut self,
        path: &str,
        name: &'a str,
        value: Value,
        inputs: &[Option<usize>],
    ) -> Result<()> {
        let weights = self.weights_of(inputs);
        let root = self.walked.values.len();
        self.add(path, name, value, Origin::Constant { root })?;
        self.walked.values[root].weights = weights;
        Ok(())
    }

    /// Adds a constant that is stored in the file, perhaps in a node `Constant`.
    fn stored(
        &mut self,
        path: &str,
        name: &'a str,
        value: Value,
        tensor: Option<&TensorProto>,
        is_literal: bool,
    ) -> Result<()> {
        let own = self.walked.values.len();
        let external = tensor.filter(|tensor| tensor.data_location() == DataLocation::External);
        let region = external.and_then(|tensor| Identity::region(&value, tensor));
        let root = region.map_or(own, |region| *self.firsts.entry(region).or_insert(own));
        self.add(path, name, value, Origin::Constant { root })?;
        let values = &mut self.walked.values;
        values[own].is_stored = root == own;
        values[own].is_literal = is_literal;
        if root != own {
            // The same bytes in another shape are a different value.
            if values[root].value.dims == values[own].value.dims {
                values[own].number = root;
            }
            return Ok(());
        }
        let entry = &values[own];
        let is_weight = entry.is_weight();
        if is_weight && !is_literal {
            return Ok(());
        }
        let content = Identity::content(&entry.value).filter(|_| !is_weight);
        let identity = content.or_else(|| Identity::stored(&entry.value, tensor?, is_weight));
        self.known_by(own, identity);
        let first = self.walked.values[own].number;
        self.walked.values[first].is_repeated |= is_weight && first != own;
        Ok(())
    }

    /// Weights that a constant with these inputs is computed from; of equal literals, only the first.
    fn weights_of(&self, inputs: &[Option<usize>]) -> Rc<[usize]> {
        let values = &self.walked.values;
        let mut weights: Rc<[usize]> = Rc::default();
        for &input in inputs.iter().flatten() {
            let Origin::Constant { root } = values[input].origin else { continue };
            let more = match values[root].is_weight() {
                true => Rc::from([self.walked.first_equal(root)]),
                false => Rc::clone(&values[root].weights),
            };
            if weights.is_empty() {
                weights = more;
            } else if !more.is_empty() && more != weights {
                let all: BTreeSet<usize> = weights.iter().chain(more.iter()).copied().collect();
                weights = all.into_iter().take(MAX_WEIGHTS).collect();
            }
        }
        weights
    }

    /// Binds a name to a value; the empty name stands for no value.
    pub(super) fn name(&mut self, path: &str, name: &'a str, value: usize) -> Result<()> {
        if name.is_empty() {
            return Ok(());
        }
        let scope = self.scopes.last_mut().map(|scope| &mut scope.names);
        if scope.is_some_and(|names| names.insert(name, value).is_some()) {
            let help = "give every value a unique name";
            let message = format!("`{name}` is produced twice");
            return Err(InputError::at_path(M001, self.label, path, message, help));
        }
        Ok(())
    }

    pub(super) fn add(&mut self, path: &str, name: &'a str, mut value: Value, origin: Origin) -> Result<()> {
        value.elem = cast(value.elem, self.precision);
        self.name(path, name, self.walked.values.len())?;
        // A chain of operators that add dimensions would take quadratic time.
        if value.rank() > LARGEST_RANK || value.bytes().is_some_and(|bytes| !is_amount(bytes)) {
            let message = format!("`{name}` has the shape {:?}", value.dims);
            return Err(InputError::at_path(M009, self.label, path, message, "correct the shape"));
        }
        let number = self.walked.values.len();
        self.walked.values.push(Entry {
            name,
            value,
            origin,
            weights: Rc::default(),
            is_stored: false,
            is_literal: false,
            is_repeated: false,
            is_quantized: false,
            number,
        });
        Ok(())
    }
}

/// Whether a node reads only the element type of an input, which may be absent when it runs.
pub fn reads_type_alone(node: &NodeProto, place: usize) -> bool {
    node.op_type() == "CastLike" && place == 1
}

/// Whether an operator's output is random.
pub(super) fn draws(kind: &str) -> bool {
    matches!(kind, "Bernoulli" | "Multinomial") || kind.starts_with("Random")
}

/// Whether an operator's output is its first input in another form.
pub(super) fn is_view(kind: &str) -> bool {
    is_named_anew(kind) || matches!(kind, "Cast" | "DequantizeLinear" | "Dropout" | "Transpose")
}

/// Whether an operator's output is its first input, byte for byte.
pub(super) fn is_named_anew(kind: &str) -> bool {
    matches!(kind, "Flatten" | "Identity" | "Reshape" | "Squeeze" | "Unsqueeze")
}
