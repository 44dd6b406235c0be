//! Inlining: calls of a model's own functions are replaced by the functions' bodies.
//!
//! A function is a list of nodes with formal inputs, outputs and attributes. A call is replaced by copies of
//! its nodes, in which actual names replace formal ones and every other name is prefixed with the call's;
//! attributes that refer to formal ones get their values. Functions may call functions, and so may bodies of
//! nodes.

use std::rc::Rc;

use prost::Message as _;
use rustc_hash::FxHashMap;

use super::proto::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto};
use super::walk::domain;
use crate::error::{InputError, Result};

/// Deepest nesting of calls; a function that calls itself exceeds it.
const DEEPEST: usize = 16;

/// Largest number of bytes after inlining: functions that call one another twice grow without bound in few
/// levels.
const MAX_BYTES: usize = 1 << 26;

/// Functions by domain and name.
type Functions = FxHashMap<(String, String), Rc<Function>>;

struct Function {
    proto: FunctionProto,
    /// Its size, and the number of names in it, each of which grows by the length of the call's name.
    bytes: usize,
    names: usize,
}

impl Function {
    fn new(proto: FunctionProto) -> Function {
        let names = proto.node.iter().map(|node| 1 + node.input.len() + node.output.len()).sum();
        Function { bytes: proto.encoded_len(), names, proto }
    }
}

/// Replaces calls by bodies. Takes time and memory linear in the result, whose size is limited; functions
/// that are nested too deeply or exceed the limit are the error M011.
pub(super) fn inline(label: &str, model: &mut ModelProto) -> Result<()> {
    if model.functions.is_empty() {
        return Ok(());
    }
    let mut functions = Functions::default();
    for function in std::mem::take(&mut model.functions) {
        // Operator sets that a function alone imports apply to its inlined nodes.
        for opset in &function.opset_import {
            let is_same = |other: &OperatorSetIdProto| domain(other.domain()) == domain(opset.domain());
            if !model.opset_import.iter().any(is_same) {
                model.opset_import.push(opset.clone());
            }
        }
        let key = (domain(function.domain()).to_owned(), function.name().to_owned());
        functions.entry(key).or_insert_with(|| Rc::new(Function::new(function)));
    }
    let Some(graph) = model.graph.as_mut() else { return Ok(()) };
    let mut inliner = Inliner { label, functions, calls: 0, bytes: 0 };
    inliner.graph(graph, 0)
}

struct Inliner<'a> {
    label: &'a str,
    functions: Functions,
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
            let key = (domain(node.domain()).to_owned(), node.op_type().to_owned());
            let Some(function) = self.functions.get(&key).cloned() else {
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
                let path = format!("graph.node ({} `{}`)", node.op_type(), super::node_name(&node));
                let message = match depth >= DEEPEST {
                    true => format!("function calls of the model are nested deeper than {DEEPEST} levels"),
                    false => format!("inlined functions exceed {MAX_BYTES} bytes"),
                };
                let help = "check the program that wrote the model: a function must not call itself";
                return Err(InputError::at_path("M011", self.label, path, message, help));
            }
            self.calls += 1;
            let copy = Copy::new(&node, &function.proto, self.calls);
            let nodes = function.proto.node.iter().map(|inner| copy.node(inner)).collect();
            out.extend(self.expanded(nodes, depth + 1)?);
        }
        Ok(out)
    }
}

/// Substitution that copies the nodes of a function for one call.
struct Copy<'a> {
    /// Actual names of formal inputs and outputs.
    names: FxHashMap<&'a str, &'a str>,
    /// Values of formal attributes.
    attributes: FxHashMap<&'a str, &'a AttributeProto>,
    /// Prefix of all other names of values.
    prefix: String,
    call: &'a NodeProto,
}

impl<'a> Copy<'a> {
    fn new(call: &'a NodeProto, function: &'a FunctionProto, number: usize) -> Copy<'a> {
        let formal = function.attribute_proto.iter().chain(&call.attribute);
        let actual = |at: usize| call.input.get(at).map_or("", String::as_str);
        let inputs = function.input.iter().enumerate().map(|(at, name)| (name.as_str(), actual(at)));
        let outputs = function.output.iter().zip(&call.output).filter(|(_, name)| !name.is_empty());
        Copy {
            names: inputs.chain(outputs.map(|(name, actual)| (name.as_str(), actual.as_str()))).collect(),
            // Attributes of the call override the defaults of the function.
            attributes: formal.map(|attribute| (attribute.name(), attribute)).collect(),
            prefix: format!("{}#{number}/", super::node_name(call)),
            call,
        }
    }

    fn name(&self, name: &mut String) {
        match self.names.get(name.as_str()) {
            Some(&actual) => actual.clone_into(name),
            None if name.is_empty() => {}
            None => name.insert_str(0, &self.prefix),
        }
    }

    fn node(&self, inner: &NodeProto) -> NodeProto {
        let mut node = inner.clone();
        // The path of calls, written as exporters write the path of modules; a call without a name adds none.
        if !self.call.name().is_empty() {
            let own = if inner.name().is_empty() { inner.op_type() } else { inner.name() };
            node.name = Some(format!("{}/{own}", self.call.name()));
        }
        node.input.iter_mut().chain(&mut node.output).for_each(|name| self.name(name));
        node.attribute = inner.attribute.iter().filter_map(|attribute| self.attribute(attribute)).collect();
        if node.metadata_props.is_empty() {
            node.metadata_props.clone_from(&self.call.metadata_props);
        }
        node
    }

    /// An attribute, or the value of a formal one for this call; `None` if the call omits it.
    fn attribute(&self, attribute: &AttributeProto) -> Option<AttributeProto> {
        let mut copy = match attribute.ref_attr_name() {
            "" => attribute.clone(),
            formal => {
                AttributeProto { name: attribute.name.clone(), ..(*self.attributes.get(formal)?).clone() }
            }
        };
        for graph in copy.g.iter_mut().chain(&mut copy.graphs) {
            self.graph(graph);
        }
        Some(copy)
    }

    fn graph(&self, graph: &mut GraphProto) {
        let infos = graph.input.iter_mut().chain(&mut graph.output).chain(&mut graph.value_info);
        let names = infos.map(|info| &mut info.name);
        let sparse = graph.sparse_initializer.iter_mut().filter_map(|tensor| tensor.values.as_mut());
        let stored = graph.initializer.iter_mut().chain(sparse).map(|tensor| &mut tensor.name);
        names.chain(stored).flatten().for_each(|name| self.name(name));
        for node in &mut graph.node {
            *node = self.node(node);
        }
    }
}
