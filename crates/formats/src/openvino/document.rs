//! The document of a model: shared parameters, outputs of the model, and the kernels that runtimes really
//! launch.
//!
//! Documents are made like those of ONNX. Constants are folded, and so are shapes, which every port states.
//! Weights that are stored in another type and converted, or quantised, shifted and scaled, are held and read
//! in their stored form. Equal constants count once: see [`equal`].

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use stagewright_core::document::{
    GRAPH_SCHEMA_2, GraphDocument, OperatorDocument, ParameterDocument, TensorDocument,
};

use super::net::Net;
use super::{cost, equal};
use crate::error::Result;
use crate::fusion::{self, Role, role};
use crate::names;
use crate::options::Fusion;
use crate::readers::Readers;
use crate::work::ARGUMENT_BYTES;

/// An output of a layer.
type Value = (usize, usize);

/// A folded constant.
struct Constant {
    /// Stored weights that the constant is computed from.
    weights: Vec<Value>,
    /// Bytes beyond those of the constant's weights.
    excess: f64,
    /// Bytes of the constant that a kernel reads.
    read: f64,
}

/// A constant held by operators.
struct Holding {
    bytes: f64,
    trained: bool,
    readers: Vec<usize>,
}

struct Draft<'a> {
    net: &'a Net<'a>,
    /// Layer of each operator.
    placed: Vec<usize>,
    names: Vec<String>,
    /// Operator of each placed layer.
    place: FxHashMap<usize, usize>,
    computed: Vec<bool>,
    /// Per layer, the first constant that is equal to it, or itself.
    firsts: Vec<usize>,
    constants: BTreeMap<Value, Constant>,
}

pub(super) fn document(net: &Net<'_>, name: &str, fuses: Fusion) -> Result<GraphDocument> {
    let computed = net.computed(|layer| matches!(layer.kind, "Const" | "ShapeOf"));
    let (placed, names) = net.placed(&computed)?;
    let place = placed.iter().enumerate().map(|(place, &layer)| (layer, place)).collect();
    let firsts = equal::firsts(net, &computed);
    let mut draft = Draft { net, placed, names, place, computed, firsts, constants: BTreeMap::new() };
    draft.find_constants();
    let mut operators = draft.operators()?;
    let parameters = draft.parameters(&mut operators);
    let mut graph = GraphDocument {
        operators,
        tensors: draft.tensors(),
        parameters,
        batch: net.batch(),
        ..GraphDocument::new(GRAPH_SCHEMA_2, name)
    };
    fusion::colocate(&mut graph, draft.beside().into_iter());
    if fuses == Fusion::On {
        let roles: Vec<Role> =
            (0..draft.placed.len()).map(|index| draft.role(index, &graph.operators[index])).collect();
        fusion::fuse(&mut graph, &roles, |_, _| true);
    }
    Ok(graph)
}

/// Whether the output of a layer equals its first input, byte for byte.
fn is_view(kind: &str) -> bool {
    matches!(kind, "Reshape" | "Squeeze" | "Unsqueeze")
}

impl Draft<'_> {
    fn bytes(&self, value: Value) -> f64 {
        self.net.layers[value.0].outputs[value.1].bytes()
    }

    /// The first among the constants that a runtime merges with the given one.
    fn first_equal(&self, (layer, output): Value) -> Value {
        (self.firsts[layer], output)
    }

    fn is_free(&self, layer: usize) -> bool {
        is_view(self.net.layers[layer].kind)
    }

    /// Follows a chain of views to the underlying value.
    fn seen(&self, mut value: Value) -> Value {
        for _ in 0..self.net.layers.len() {
            match self.net.layers[value.0].sources.first().copied().flatten() {
                Some(next) if self.is_free(value.0) => value = next,
                _ => break,
            }
        }
        value
    }

    /// Resolves every constant that an operator reads.
    fn find_constants(&mut self) {
        let read = self.placed.iter().flat_map(|&index| self.net.layers[index].sources.iter().flatten());
        let read: BTreeSet<Value> = read.map(|&source| self.seen(source)).collect();
        let fixed = read.into_iter().filter(|value| !self.computed[value.0]);
        self.constants = fixed.map(|value| (value, self.constant(value))).collect();
    }

    fn constant(&self, value: Value) -> Constant {
        let mut weights = BTreeSet::new();
        let mut met = BTreeSet::from([value.0]);
        let mut queue = vec![value];
        while let Some(value) = queue.pop() {
            let layer = &self.net.layers[value.0];
            let port = &layer.outputs[value.1];
            // A single number is not a weight.
            if layer.kind == "Const" && port.is_parameter && port.dims.iter().any(|&dim| dim > 1) {
                weights.insert(self.first_equal(value));
            }
            // A shape does not depend on the values of its tensor.
            if layer.kind != "ShapeOf" {
                queue.extend(layer.sources.iter().flatten().filter(|source| met.insert(source.0)));
            }
        }
        let own = self.bytes(value);
        let held: f64 = weights.iter().map(|&weight| self.bytes(weight)).sum();
        let few_bits = |&(layer, output): &Value| self.net.layers[layer].outputs[output].bits <= 8.0;
        let as_stored = weights.iter().any(few_bits)
            || self.net.layers[self.net.root(value).0].kind == "Const" && !weights.is_empty();
        let read = if as_stored { held.min(own) } else { own };
        Constant {
            excess: if as_stored { 0.0 } else { (own - held).max(0.0) },
            weights: weights.into_iter().collect(),
            read,
        }
    }

    /// Bytes of a value that a reader reads.
    fn read_bytes(&self, value: Value) -> f64 {
        let seen = self.seen(value);
        self.constants.get(&seen).map_or_else(|| self.bytes(seen), |constant| constant.read)
    }

    fn operators(&self) -> Result<Vec<OperatorDocument>> {
        let mut operators = Vec::with_capacity(self.placed.len());
        for (&index, name) in self.placed.iter().zip(&self.names) {
            let layer = &self.net.layers[index];
            let is_free = self.is_free(index);
            let flop = self.net.flop(index)?;
            let inputs: Vec<f64> = layer
                .sources
                .iter()
                .zip(&layer.inputs)
                .map(|(source, port)| source.map_or_else(|| port.bytes(), |source| self.read_bytes(source)))
                .collect();
            let outputs: Vec<f64> = layer.outputs.iter().map(|port| port.bytes()).collect();
            let precision = layer.inputs.iter().chain(&layer.outputs).find_map(|port| port.precision);
            operators.push(OperatorDocument {
                kind: Some(layer.kind.to_owned()),
                layer: names::layer(name),
                flop: if is_free { Some(0.0) } else { flop },
                bytes_moved: Some(cost::moved(layer.kind, &inputs, &outputs)),
                precision,
                launches: is_free.then_some(0.0),
                ..OperatorDocument::named(name.clone())
            });
        }
        Ok(operators)
    }

    /// Assigns held constants to operators: a weight with one reader belongs to that reader; shared weights, and other
    /// constants larger than a kernel argument, are parameters of all their readers.
    fn parameters(&self, operators: &mut [OperatorDocument]) -> Vec<ParameterDocument> {
        let mut holdings: BTreeMap<(Value, bool), Holding> = BTreeMap::new();
        for (reader, &index) in self.placed.iter().enumerate().filter(|&(_, &index)| !self.is_free(index)) {
            let layer = &self.net.layers[index];
            for (input, source) in layer.sources.iter().enumerate() {
                let Some(value) = source.map(|source| self.seen(source)) else { continue };
                let Some(constant) = self.constants.get(&value) else { continue };
                let mut hold = |value: Value, bytes: f64, trained: bool| {
                    let held = holdings.entry((value, trained)).or_insert_with(|| Holding {
                        bytes,
                        trained,
                        readers: Vec::new(),
                    });
                    if held.readers.last() != Some(&reader) {
                        held.readers.push(reader);
                    }
                };
                let is_statistic = layer.has_statistic(input);
                for &weight in &constant.weights {
                    let bytes = self.bytes(weight);
                    if !is_statistic || bytes > ARGUMENT_BYTES {
                        hold(weight, bytes, !is_statistic);
                    }
                }
                if constant.excess > ARGUMENT_BYTES {
                    hold(self.first_equal(value), constant.excess, false);
                }
            }
        }
        let mut parameters = Vec::new();
        for ((value, _), Holding { bytes, trained, readers }) in holdings {
            match readers.as_slice() {
                &[reader] if trained => operators[reader].parameter_bytes += bytes,
                _ => parameters.push(ParameterDocument {
                    name: self.net.layers[value.0].name.to_owned(),
                    bytes,
                    optimizer_bytes: 0.0,
                    readers: readers.iter().map(|&reader| self.names[reader].clone()).collect(),
                    trained,
                    together: false,
                }),
            }
        }
        let unique =
            names::unique(parameters.iter().zip(0..).map(|(shared, number)| (shared.name.as_str(), number)));
        for (shared, name) in parameters.iter_mut().zip(unique) {
            shared.name = name;
        }
        parameters
    }

    fn tensors(&self) -> Vec<TensorDocument> {
        let (mut readers, mut views, mut outputs) = (Readers::default(), Readers::default(), BTreeSet::new());
        for (reader, &index) in self.placed.iter().enumerate() {
            for (input, source) in self.net.layers[index].sources.iter().enumerate() {
                let Some((layer, output)) = source.map(|source| self.seen(source)) else { continue };
                let Some(&producer) = self.place.get(&layer) else { continue };
                match self.is_free(index) && input == 0 {
                    true => views.add(producer, output, reader),
                    false => readers.add(producer, output, reader),
                }
            }
        }
        for result in self.net.layers.iter().filter(|layer| layer.kind == "Result") {
            for (layer, output) in result.sources.iter().flatten().map(|&source| self.seen(source)) {
                outputs.extend(self.place.get(&layer).map(|&producer| (producer, output)));
            }
        }
        let tensor = |producer: usize, by: &[usize], bytes: f64| {
            let consumers = by.iter().map(|&reader| self.names[reader].clone()).collect();
            TensorDocument::new(&*self.names[producer], consumers, bytes)
        };
        let bytes = |producer: usize, output: usize| self.bytes((self.placed[producer], output));
        let read = readers.iter().map(|(producer, output, by)| tensor(producer, by, bytes(producer, output)));
        let seen = views.iter().map(|(producer, _, by)| tensor(producer, by, 0.0));
        let made = outputs.iter().map(|&(producer, output)| tensor(producer, &[], bytes(producer, output)));
        read.chain(seen).chain(made).collect()
    }

    /// Pairs of an operator and a view colocated with it: the producer of the bytes or, for an input, the
    /// first reader.
    fn beside(&self) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        let mut first_reader: FxHashMap<Value, usize> = FxHashMap::default();
        for (reader, &index) in self.placed.iter().enumerate().filter(|&(_, &index)| !self.is_free(index)) {
            for source in self.net.layers[index].sources.iter().flatten() {
                first_reader.entry(self.seen(*source)).or_insert(reader);
            }
        }
        for (view, &index) in self.placed.iter().enumerate().filter(|&(_, &index)| self.is_free(index)) {
            let seen = self.seen((index, 0));
            let with = self.place.get(&seen.0).or_else(|| first_reader.get(&seen));
            pairs.extend(with.map(|&with| (with, view)));
        }
        pairs
    }

    /// Fusion role of an operator.
    fn role(&self, index: usize, operator: &OperatorDocument) -> Role {
        let layer = &self.net.layers[self.placed[index]];
        if self.is_free(self.placed[index]) {
            return Role::Free;
        }
        if operator.flop.is_none() {
            return Role::Apart;
        }
        match role(layer.kind) {
            // A reduction over axes other than the last does not work on rows.
            Role::Row if layer.kind.starts_with("Reduce") && !layer.reduces_rows() => Role::Apart,
            role => role,
        }
    }
}
