//! Inlining: calls of a model's own functions are replaced by the functions' bodies.
//!
//! A function is a list of nodes with formal inputs, outputs and attributes, identified by its domain, name and
//! overload. A call is replaced by copies of the function's nodes, in which actual names replace formal ones and every
//! other name is prefixed with the name of the call; an attribute that refers to a formal attribute gets the actual
//! value. Functions may call functions, and so may bodies of nodes.
//!
//! Names are resolved in the scope of the function: a name that a body of a node defines stands for that value inside
//! the body, even if the function uses the name for another value, and the name of an input that the call omits is
//! free. A body that the call passes as an attribute keeps the names of the caller.

use std::rc::Rc;

use prost::Message as _;
use rustc_hash::{FxHashMap, FxHashSet};

use super::domain;
use super::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto,
};
use crate::code::{M001, M002, M009, M011};
use crate::error::{InputError, Result};

/// Deepest nesting of calls; a function that calls itself exceeds it.
const DEEPEST: usize = 16;

/// Largest number of bytes after inlining: if every function calls the next one twice, the size doubles with every
/// level.
const MAX_BYTES: usize = 1 << 26;

/// Metadata key of an inlined node, for the version of its operator set if its function imports a version other than
/// the model's.
const OPSET: &str = "stagewright.opset";

/// Domain, name and overload, which identify a function.
type Identity = (String, String, String);

fn identity(domain_name: &str, name: &str, overload: &str) -> Identity {
    (domain(domain_name).to_owned(), name.to_owned(), overload.to_owned())
}

/// Version of the operator set of an inlined node, if its function imports a version other than the model's.
pub fn own_opset(node: &NodeProto) -> Option<i64> {
    node.metadata_props.iter().find(|entry| entry.key() == OPSET)?.value().parse().ok()
}

struct Function {
    proto: FunctionProto,
    /// Size of the function.
    bytes: usize,
    /// Number of names in the function; the name of the call is prefixed to each.
    names: usize,
    /// Operator sets that the function imports in a version other than the model's, with that version.
    opsets: FxHashMap<String, i64>,
}

impl Function {
    fn new(proto: FunctionProto, model: &[OperatorSetIdProto]) -> Function {
        let names = proto.node.iter().map(|node| 1 + node.input.len() + node.output.len()).sum();
        let differs = |own: &&OperatorSetIdProto| {
            let of_model = model.iter().find(|other| domain(other.domain()) == domain(own.domain()));
            of_model.is_some_and(|other| other.version() != own.version())
        };
        let opsets = proto.opset_import.iter().filter(differs);
        let opsets = opsets.map(|own| (domain(own.domain()).to_owned(), own.version())).collect();
        Function { bytes: proto.encoded_len(), names, opsets, proto }
    }
}

/// Removes two things from nodes and their bodies: the operator-set versions that a file claims, since only inlining
/// may write them, and documentation, in which copies of a function may differ.
fn clean(nodes: &mut [NodeProto]) {
    for node in nodes {
        node.doc_string = None;
        node.metadata_props.retain(|entry| entry.key() != OPSET);
        clean_attributes(&mut node.attribute);
    }
}

fn clean_attributes(attributes: &mut [AttributeProto]) {
    for attribute in attributes {
        attribute.doc_string = None;
        for body in attribute.g.iter_mut().chain(&mut attribute.graphs) {
            body.doc_string = None;
            clean(&mut body.node);
        }
    }
}

/// Replaces calls by the bodies of their functions. Takes time and memory linear in the result, whose size is limited.
/// Functions that are nested too deeply or exceed the limit are error M011, two functions of the same identity M001, a
/// call of an overload that the model lacks M002, and a call with more inputs or outputs than its function M009.
pub(super) fn inline(label: &str, model: &mut ModelProto) -> Result<()> {
    model.graph.iter_mut().for_each(|graph| clean(&mut graph.node));
    if model.functions.is_empty() {
        return Ok(());
    }
    let mut functions: FxHashMap<Identity, Rc<Function>> = FxHashMap::default();
    let mut overloads: FxHashMap<(String, String), Vec<String>> = FxHashMap::default();
    for (index, mut function) in std::mem::take(&mut model.functions).into_iter().enumerate() {
        function.doc_string = None;
        clean(&mut function.node);
        clean_attributes(&mut function.attribute_proto);
        // Operator sets that only a function imports apply to its inlined nodes.
        for opset in &function.opset_import {
            let is_same = |other: &OperatorSetIdProto| domain(other.domain()) == domain(opset.domain());
            if !model.opset_import.iter().any(is_same) {
                model.opset_import.push(opset.clone());
            }
        }
        let key = identity(function.domain(), function.name(), function.overload());
        overloads.entry((key.0.clone(), key.1.clone())).or_default().push(key.2.clone());
        let function = Function::new(function, &model.opset_import);
        if functions.get(&key).is_some_and(|first| first.proto != function.proto) {
            let message =
                format!("two functions are `{}` of the domain `{}`, overload `{}`", key.1, key.0, key.2);
            let help = "give each its own overload";
            return Err(InputError::at_path(M001, label, format!("functions[{index}]"), message, help));
        }
        functions.insert(key, Rc::new(function));
    }
    let Some(graph) = model.graph.as_mut() else { return Ok(()) };
    let mut inliner = Inliner { label, functions, overloads, calls: 0, bytes: 0 };
    inliner.graph(graph, 0)
}

struct Inliner<'a> {
    label: &'a str,
    functions: FxHashMap<Identity, Rc<Function>>,
    /// Overloads of the functions by domain and name.
    overloads: FxHashMap<(String, String), Vec<String>>,
    /// Number of calls so far, which makes the names of a call unique.
    calls: usize,
    /// Bytes of inlined calls, approximately.
    bytes: usize,
}

impl Inliner<'_> {
    fn graph(&mut self, graph: &mut GraphProto, depth: usize) -> Result<()> {
        let nodes = std::mem::take(&mut graph.node);
        graph.node = self.expanded(nodes, depth)?;
        Ok(())
    }

    fn expanded(&mut self, nodes: Vec<NodeProto>, depth: usize) -> Result<Vec<NodeProto>> {
        let mut out = Vec::with_capacity(nodes.len());
        for mut node in nodes {
            let key = identity(node.domain(), node.op_type(), node.overload());
            let Some(function) = self.functions.get(&key).cloned() else {
                self.check_overload(&node)?;
                for attribute in &mut node.attribute {
                    for graph in attribute.g.iter_mut().chain(&mut attribute.graphs) {
                        self.graph(graph, depth)?;
                    }
                }
                out.push(node);
                continue;
            };
            let longer = function.names.saturating_mul(super::node_name(&node).len());
            self.bytes = self.bytes.saturating_add(function.bytes).saturating_add(longer);
            if depth >= DEEPEST || self.bytes > MAX_BYTES {
                let message = match depth >= DEEPEST {
                    true => format!("function calls of the model are nested deeper than {DEEPEST} levels"),
                    false => format!("inlined functions exceed {MAX_BYTES} bytes"),
                };
                let help = "check the program that wrote the model: a function must not call itself";
                return Err(InputError::at_path(M011, self.label, path(&node), message, help));
            }
            let proto = &function.proto;
            for (what, actual, formal) in
                [("inputs", &node.input, &proto.input), ("outputs", &node.output, &proto.output)]
            {
                let given = actual.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
                if given > formal.len() {
                    let message = format!("the call has {given} {what}, but its function {}", formal.len());
                    let help = "check the program that wrote the model";
                    return Err(InputError::at_path(M009, self.label, path(&node), message, help));
                }
            }
            self.calls += 1;
            let mut copy = Copy::new(&node, &function, self.calls);
            let mut nodes: Vec<NodeProto> =
                function.proto.node.iter().map(|inner| copy.node(inner)).collect();
            nodes.extend(copy.renamed());
            out.extend(self.expanded(nodes, depth + 1)?);
        }
        Ok(out)
    }

    /// Rejects a node that names an overload of one of the model's functions, if the model lacks that overload.
    fn check_overload(&self, node: &NodeProto) -> Result<()> {
        let key = (domain(node.domain()).to_owned(), node.op_type().to_owned());
        let Some(known) = self.overloads.get(&key).filter(|_| !node.overload().is_empty()) else {
            return Ok(());
        };
        let message = format!("the function `{}` has no overload `{}`", key.1, node.overload());
        let help = format!("call one of its overloads `{}`, or add the function", known.join("`, `"));
        Err(InputError::at_path(M002, self.label, path(node), message, help))
    }
}

fn path(call: &NodeProto) -> String {
    format!("graph.node ({} `{}`)", call.op_type(), super::node_name(call))
}

/// Substitution that copies the nodes of a function for one call.
struct Copy<'a> {
    /// Actual names of formal inputs and outputs that the call gives.
    names: FxHashMap<&'a str, &'a str>,
    /// Formal inputs that the call omits.
    omitted: FxHashSet<&'a str>,
    /// Values of formal attributes.
    attributes: FxHashMap<&'a str, &'a AttributeProto>,
    /// Names defined so far by the function's nodes and, after that, by each body around the current node.
    scopes: Vec<FxHashSet<String>>,
    /// Prefix of all other names of values.
    prefix: String,
    call: &'a NodeProto,
    function: &'a Function,
}

impl<'a> Copy<'a> {
    fn new(call: &'a NodeProto, function: &'a Function, number: usize) -> Copy<'a> {
        let proto = &function.proto;
        let actual = |index: usize| call.input.get(index).map_or("", String::as_str);
        let inputs = proto.input.iter().enumerate().map(|(index, name)| (name.as_str(), actual(index)));
        let (given, omitted): (Vec<_>, Vec<_>) = inputs.partition(|(_, actual)| !actual.is_empty());
        let mut names: FxHashMap<&str, &str> = given.into_iter().collect();
        for (formal, actual) in proto.output.iter().zip(&call.output).filter(|(_, actual)| !actual.is_empty())
        {
            names.entry(formal).or_insert(actual);
        }
        Copy {
            names,
            omitted: omitted.into_iter().map(|(formal, _)| formal).collect(),
            // Attributes of the call override the defaults of the function.
            attributes: proto
                .attribute_proto
                .iter()
                .chain(&call.attribute)
                .map(|attribute| (attribute.name(), attribute))
                .collect(),
            scopes: vec![FxHashSet::default()],
            prefix: format!("{}#{number}/", super::node_name(call)),
            call,
            function,
        }
    }

    /// Resolves a name in its scope.
    fn name(&self, name: &mut String) {
        let (of_function, of_bodies) = self.scopes.split_first().expect("the function has a scope");
        let is_local = of_bodies.iter().any(|defined| defined.contains(name.as_str()));
        let is_omitted = self.omitted.contains(name.as_str()) && !of_function.contains(name.as_str());
        match self.names.get(name.as_str()) {
            _ if name.is_empty() => {}
            _ if is_local => name.insert_str(0, &self.prefix),
            _ if is_omitted => name.clear(),
            Some(&actual) => actual.clone_into(name),
            None => name.insert_str(0, &self.prefix),
        }
    }

    /// Defines a name in the innermost scope, and resolves it.
    fn define(&mut self, name: &mut String) {
        self.scopes.last_mut().expect("the function has a scope").insert(name.clone());
        self.name(name);
    }

    fn node(&mut self, inner: &NodeProto) -> NodeProto {
        let mut node = inner.clone();
        // The path of calls, written as exporters write the path of modules; a call without a name adds none.
        if !self.call.name().is_empty() {
            let own = if inner.name().is_empty() { inner.op_type() } else { inner.name() };
            node.name = Some(format!("{}/{own}", self.call.name()));
        }
        node.input.iter_mut().for_each(|name| self.name(name));
        node.attribute = inner.attribute.iter().filter_map(|attribute| self.attribute(attribute)).collect();
        node.output.iter_mut().for_each(|name| self.define(name));
        if node.metadata_props.is_empty() {
            node.metadata_props.clone_from(&self.call.metadata_props);
        }
        node.metadata_props.retain(|entry| entry.key() != OPSET);
        if let Some(version) = self.function.opsets.get(domain(inner.domain())) {
            let (key, value) = (Some(OPSET.to_owned()), Some(version.to_string()));
            node.metadata_props.push(StringStringEntryProto { key, value });
        }
        node
    }

    /// Nodes that give a value of the function a second name, if an output of the function is an input or another
    /// output.
    fn renamed(&self) -> Vec<NodeProto> {
        let outputs = self.function.proto.output.iter().zip(&self.call.output);
        let again = outputs.filter_map(|(formal, actual)| {
            let value = *self.names.get(formal.as_str())?;
            (value != actual && !actual.is_empty()).then(|| NodeProto {
                op_type: Some("Identity".into()),
                name: (!self.call.name().is_empty()).then(|| format!("{}/Identity", self.call.name())),
                input: vec![value.to_owned()],
                output: vec![actual.clone()],
                ..NodeProto::default()
            })
        });
        again.collect()
    }

    /// The attribute itself, or the value that the call gives to the formal attribute; `None` if the call omits it.
    fn attribute(&mut self, attribute: &AttributeProto) -> Option<AttributeProto> {
        let formal = attribute.ref_attr_name();
        if !formal.is_empty() {
            return Some(AttributeProto {
                name: attribute.name.clone(),
                ..(*self.attributes.get(formal)?).clone()
            });
        }
        let mut copy = attribute.clone();
        for graph in copy.g.iter_mut().chain(&mut copy.graphs) {
            self.graph(graph);
        }
        Some(copy)
    }

    fn graph(&mut self, graph: &mut GraphProto) {
        self.scopes.push(FxHashSet::default());
        let sparse = graph.sparse_initializer.iter_mut().filter_map(|tensor| tensor.values.as_mut());
        let stored = graph.initializer.iter_mut().chain(sparse).map(|tensor| &mut tensor.name);
        let inputs = graph.input.iter_mut().map(|info| &mut info.name);
        inputs.chain(stored).flatten().for_each(|name| self.define(name));
        for node in &mut graph.node {
            *node = self.node(node);
        }
        let others = graph.output.iter_mut().chain(&mut graph.value_info);
        others.filter_map(|info| info.name.as_mut()).for_each(|name| self.name(name));
        self.scopes.pop();
    }
}
