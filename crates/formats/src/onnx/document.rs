//! The document of a model: shared parameters, every tensor, and the kernels that runtimes really launch.
//!
//! | in the file | in the document |
//! | --- | --- |
//! | weight with one reader, unless its name lies in a module inside the operator's | the reader's `parameter_bytes` |
//! | weight with several readers; any other constant (masks, tables, indices, statistics, scalars, values computed from constants alone) larger than `ARGUMENT_BYTES` | a parameter, trained if it is a weight |
//! | smaller constant that is not a weight | nothing: it is a kernel argument |
//! | keys and values of past tokens | one parameter per layer; appending to them moves the new tokens alone |
//! | output that is read, or is an output of the model | tensor |
//! | output of a free operator | nothing: see [`view`](super::view) |
//!
//! A constant computed from weights represents them: its reader holds the weights, plus the bytes by which the constant
//! exceeds them. A value that is both read and an output of the model makes two tensors, one without readers: the
//! device that makes the value holds it to the end. Equal constants count once: see [`equal`](super::equal).

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use stagewright_core::document::{
    BatchDocument, GRAPH_SCHEMA_2, GraphDocument, OperatorDocument, ParameterDocument, Precision,
    TensorDocument,
};

use super::cost;
use super::names;
use super::proto::tensor_proto::DataType;
use super::value;
use super::view::{Views, is_product};
use super::walk::{Operator, Origin, Walked};
use crate::batch::{self, Input};
use crate::fusion::{self, Role, role};
use crate::names::is_among;
use crate::options::{Fusion, ImportOptions};
use crate::readers::Readers;
use crate::work::ARGUMENT_BYTES;

/// Records that an operator reads a held value, which is created on first use.
type Hold<'a> = dyn FnMut(Held, usize, &dyn Fn() -> Holding) + 'a;

/// A value that its readers hold in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Held {
    /// A constant, by its root.
    Constant(usize),
    /// The bytes of a constant beyond the weights that it is computed from.
    Excess(usize),
    /// The cache of a layer.
    Cache(u64),
}

/// A value that operators hold.
struct Holding {
    name: String,
    bytes: f64,
    trained: bool,
    /// Whether a single reader counts the value in its `parameter_bytes`.
    is_own: bool,
    /// Whether a `Constant` node stores the value. A part of it that several operators read is a table, not a weight.
    is_literal: bool,
    readers: Vec<usize>,
}

/// A cache that an attention appends to: the updated and the past value.
struct Appended {
    made: usize,
    past: usize,
}

struct Draft<'a, 'b> {
    walked: &'a Walked<'b>,
    views: Views,
    /// Per operator, whether it appends to a cache.
    appends: Vec<bool>,
    names: Vec<String>,
}

pub(super) fn document(name: &str, walked: &Walked<'_>, options: &ImportOptions) -> GraphDocument {
    let fuses = options.fusion == Fusion::On;
    let views = Views::new(walked, fuses);
    let names = operator_names(walked);
    let appends = walked.operators.iter().map(|operator| appends(walked, &views, operator)).collect();
    let draft = Draft { walked, views, appends, names };
    let mut operators = draft.operators();
    let parameters = draft.parameters(&mut operators);
    let tensors = draft.tensors();
    let mut graph = GraphDocument {
        operators,
        tensors,
        parameters,
        batch: batch(walked),
        ..GraphDocument::new(GRAPH_SCHEMA_2, name)
    };
    let beside = draft.beside();
    fusion::colocate(&mut graph, beside.into_iter());
    if fuses {
        let roles: Vec<Role> = (0..walked.operators.len()).map(|index| draft.role(index)).collect();
        fusion::fuse(&mut graph, &roles, |_, _| true);
    }
    graph
}

/// Per operator, whether it is a view.
pub(super) fn free(walked: &Walked<'_>, options: &ImportOptions) -> Vec<bool> {
    Views::new(walked, options.fusion == Fusion::On).is_free
}

/// Names of the operators, unique.
pub(super) fn operator_names(walked: &Walked<'_>) -> Vec<String> {
    let written = walked
        .operators
        .iter()
        .enumerate()
        .map(|(index, operator)| (super::node_name(operator.node), index as i64));
    names::unique(written)
}

/// Contents of a batch.
fn batch(walked: &Walked<'_>) -> Option<BatchDocument> {
    let inputs = walked.values.iter().filter(|entry| entry.origin == Origin::Input);
    let inputs: Vec<Input> = inputs
        .map(|entry| Input {
            name: entry.name,
            is_integer: [DataType::Int64 as i32, DataType::Int32 as i32].contains(&entry.value.elem),
            dims: &entry.value.dims,
            samples: Some(0),
        })
        .collect();
    batch::batch(&inputs)
}

/// Whether an operator makes the cache of the next step: it appends the new tokens to the past, or writes them into a
/// buffer that holds the past.
fn appends(walked: &Walked<'_>, views: &Views, operator: &Operator<'_>) -> bool {
    let output = operator.outputs.first().copied();
    matches!(operator.node.op_type(), "Concat" | "ScatterElements" | "ScatterND" | "TensorScatter")
        && output.is_some_and(|output| views.is_output[output])
        && matches!(operator.inputs.first(), Some(Some(input)) if is_cache(walked, views.seen[*input]))
}

/// Operators that multiply 8-bit numbers, whatever their inputs and outputs are.
const COMPUTES_WITH_BYTES: &str = "\
    ConvInteger DynamicQuantizeLSTM DynamicQuantizeMatMul MatMulInteger MatMulIntegerToFloat QAttention \
    QGemm QLinearConv QLinearMatMul";

fn is_cache(walked: &Walked<'_>, value: usize) -> bool {
    walked.values[value].origin == Origin::Cache
}

/// Layer of a cache: the first number in its name, or `otherwise` if the name has none.
fn layer_of(name: &str, otherwise: usize) -> u64 {
    let digits: String =
        name.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(u64::MAX - otherwise as u64)
}

impl Draft<'_, '_> {
    /// Bytes of a value that a reader reads.
    fn read_bytes(&self, value: usize) -> f64 {
        let values = &self.walked.values;
        let seen = self.views.seen[value];
        if let Origin::Operator(producer) = values[seen].origin
            && self.views.picks[producer]
        {
            // Every matrix is read once, regardless of the number of tokens that use it.
            let data =
                self.walked.operators[producer].inputs[0].map_or(f64::INFINITY, |data| self.read_bytes(data));
            return data.min(values[seen].value.bytes().unwrap_or(0.0));
        }
        let from = match values[seen].origin {
            Origin::Constant { root } => root,
            _ => seen,
        };
        values[from].value.bytes().unwrap_or(0.0)
    }

    /// Bytes of a value as a tensor.
    fn tensor_bytes(&self, value: usize) -> f64 {
        match self.walked.values[value].origin {
            Origin::Operator(producer) if self.views.picks[producer] => 0.0,
            Origin::Operator(producer) if self.appends[producer] => self.appended(producer),
            _ => self.walked.values[value].value.bytes().unwrap_or(0.0),
        }
    }

    /// Bytes that an operator appends to a cache.
    fn appended(&self, operator: usize) -> f64 {
        self.walked.operators[operator]
            .inputs
            .iter()
            .skip(1)
            .flatten()
            .map(|&value| self.read_bytes(value))
            .sum()
    }

    fn operators(&self) -> Vec<OperatorDocument> {
        let each = |(index, operator): (usize, &Operator<'_>)| {
            let free = self.views.is_free[index] || self.views.picks[index];
            OperatorDocument {
                kind: Some(operator.node.op_type().to_owned()),
                layer: super::scope(operator.node).or_else(|| names::layer(&self.names[index])),
                flop: if free { Some(0.0) } else { operator.flop },
                bytes_moved: Some(if free { 0.0 } else { self.moved(index) }),
                kernels: if free { Vec::new() } else { operator.kernels.clone() },
                precision: self.precision(index),
                launches: match &operator.body {
                    Some(body) => Some(body.launches),
                    None => free.then_some(0.0),
                },
                workspace_bytes: operator.body.as_ref().map_or(0.0, |body| body.workspace),
                ..OperatorDocument::named(self.names[index].clone())
            }
        };
        self.walked.operators.iter().enumerate().map(each).collect()
    }

    /// Bytes that an operator reads and writes.
    fn moved(&self, index: usize) -> f64 {
        if self.appends[index] {
            return 2.0 * self.appended(index);
        }
        let operator = &self.walked.operators[index];
        if operator.body.is_some() {
            return operator.bytes_moved;
        }
        let inputs: Vec<f64> = operator.reads.iter().map(|&value| self.read_bytes(value)).collect();
        let bytes = |&value: &usize| self.walked.values[value].value.bytes().unwrap_or(0.0);
        let mut outputs: Vec<f64> = operator.outputs.iter().map(bytes).collect();
        let caches = self.attention_caches(index);
        if !caches.is_empty() {
            for (bytes, value) in outputs.iter_mut().zip(&operator.outputs) {
                if let Some(cache) = caches.iter().find(|cache| cache.made == *value) {
                    *bytes = self.new_bytes(index, cache);
                }
            }
        }
        (cost::moved(operator.node.op_type(), &inputs, &outputs) - operator.unread).max(0.0)
    }

    /// Caches that a fused attention appends to.
    fn attention_caches(&self, index: usize) -> Vec<Appended> {
        let operator = &self.walked.operators[index];
        let places: &[(usize, usize)] = match operator.node.op_type() {
            "GroupQueryAttention" | "SparseAttention" => &[(3, 1), (4, 2)],
            "MultiHeadAttention" => &[(6, 1), (7, 2)],
            "DecoderMaskedMultiHeadAttention" => &[(5, 1), (6, 2)],
            "PagedAttention" => &[(3, 1), (4, 2)],
            "Attention" if matches!(operator.node.domain(), "" | "ai.onnx") => &[(4, 1), (5, 2)],
            // Keys and values are one tensor.
            "Attention" => &[(4, 1)],
            "QAttention" => &[(8, 1)],
            _ => return Vec::new(),
        };
        let caches = places.iter().filter_map(|&(input, output)| {
            let past = operator.inputs.get(input).copied().flatten()?;
            let name = operator.node.output.get(output)?;
            let made = *operator.outputs.iter().find(|&&value| self.walked.values[value].name == name)?;
            let past = self.views.seen[past];
            (is_cache(self.walked, past) && self.views.is_output[made]).then_some(Appended { made, past })
        });
        caches.collect()
    }

    /// Bytes of the new tokens in a cache: its growth or, in a buffer of fixed length, the bytes of as many
    /// tokens as there are queries.
    fn new_bytes(&self, index: usize, cache: &Appended) -> f64 {
        let made = self.walked.values[cache.made].value.bytes().unwrap_or(0.0);
        let longer = made - self.read_bytes(cache.past);
        if longer > 0.0 {
            return longer;
        }
        let tokens = |value: usize| {
            let dims = &self.walked.values[value].value.dims;
            dims.len().checked_sub(2).map_or(1.0, |axis| dims[axis] as f64)
        };
        let queries = self.walked.operators[index].inputs.first().copied().flatten().map_or(1.0, tokens);
        made * (queries / tokens(cache.made).max(1.0)).min(1.0)
    }

    /// Compute precision of an operator: 8-bit integers if all factors of a product are 8-bit integers; otherwise the
    /// precision of the first input that has one, or else that of an output.
    fn precision(&self, index: usize) -> Option<Precision> {
        let operator = &self.walked.operators[index];
        let precision_of = |value: usize| value::precision(self.walked.values[value].value.elem);
        if let Some(body) = &operator.body {
            return body.precision;
        }
        if is_among(operator.node.op_type(), COMPUTES_WITH_BYTES) {
            return Some(Precision::Int8);
        }
        if role(operator.node.op_type()) == Role::Product {
            let factors: Vec<Option<Precision>> = operator
                .inputs
                .iter()
                .take(2)
                .flatten()
                .map(|&value| {
                    let seen = self.views.seen[value];
                    let from = match self.walked.values[seen].origin {
                        Origin::Constant { root } => root,
                        _ => seen,
                    };
                    precision_of(from)
                })
                .collect();
            if factors.len() == 2 && factors.iter().all(|factor| *factor == Some(Precision::Int8)) {
                return Some(Precision::Int8);
            }
        }
        operator.inputs.iter().flatten().chain(&operator.outputs).find_map(|&value| precision_of(value))
    }

    /// Parameters of the model. A weight with one reader is added to that operator instead.
    fn parameters(&self, operators: &mut [OperatorDocument]) -> Vec<ParameterDocument> {
        let mut index: FxHashMap<Held, usize> = FxHashMap::default();
        let mut holdings: Vec<Holding> = Vec::new();
        let mut seen: FxHashSet<(Held, usize)> = FxHashSet::default();
        let mut hold = |held: Held, reader: usize, make: &dyn Fn() -> Holding| {
            if seen.insert((held, reader)) {
                let place = *index.entry(held).or_insert_with(|| {
                    holdings.push(make());
                    holdings.len() - 1
                });
                holdings[place].readers.push(reader);
            }
        };
        let caches = self.cache_bytes();
        for (reader, operator) in self.walked.operators.iter().enumerate() {
            let is_free = self.views.is_free[reader];
            for &value in &operator.reads {
                let value = self.views.seen[value];
                match self.walked.values[value].origin {
                    Origin::Constant { root } if !is_free => self.constant(reader, value, root, &mut hold),
                    Origin::Cache if !is_free => self.cache(reader, value, &caches, &mut hold),
                    // Readers of an updated cache hold it as well.
                    Origin::Operator(producer) if self.appends[producer] && !is_free => {
                        if let Some(Some(past)) = self.walked.operators[producer].inputs.first() {
                            self.cache(reader, self.views.seen[*past], &caches, &mut hold);
                        }
                    }
                    _ => {}
                }
            }
        }
        let mut parameters = Vec::new();
        for Holding { name, bytes, trained, is_own, is_literal, readers } in holdings {
            match readers.as_slice() {
                &[reader] if is_own && !is_below(&name, operators[reader].layer.as_deref()) => {
                    operators[reader].parameter_bytes += bytes
                }
                _ => parameters.push(ParameterDocument {
                    name,
                    bytes,
                    optimizer_bytes: 0.0,
                    readers: readers.iter().map(|&reader| self.names[reader].clone()).collect(),
                    trained: trained && !(is_literal && readers.len() > 1),
                    together: false,
                }),
            }
        }
        parameters
    }

    fn constant(&self, reader: usize, value: usize, root: usize, hold: &mut Hold<'_>) {
        let root = self.walked.first_equal(root);
        let entry = &self.walked.values[root];
        let operator = &self.walked.operators[reader];
        let bytes = |value: usize| self.walked.values[value].value.bytes().unwrap_or(0.0);
        // Compared by seen value, not by name: bodies have names of their own.
        let mut statistics = operator.inputs.iter().skip(3).flatten();
        let is_statistic = operator.node.op_type() == "BatchNormalization"
            && statistics.any(|&statistic| self.views.seen[statistic] == value);
        let holding = |value: usize, bytes: f64, trained: bool| Holding {
            name: self.walked.values[value].name.to_owned(),
            bytes,
            trained,
            is_own: trained,
            is_literal: self.walked.values[value].is_literal,
            readers: Vec::new(),
        };
        if entry.is_weight() && !is_statistic {
            return hold(Held::Constant(root), reader, &|| holding(root, bytes(root), !entry.is_repeated));
        }
        for &weight in entry.weights.iter() {
            let trained = !self.walked.values[weight].is_repeated;
            hold(Held::Constant(weight), reader, &|| holding(weight, bytes(weight), trained));
        }
        let excess = bytes(root) - entry.weights.iter().map(|&weight| bytes(weight)).sum::<f64>();
        if excess > ARGUMENT_BYTES {
            hold(Held::Excess(root), reader, &|| holding(root, excess, false));
        }
    }

    fn cache(&self, reader: usize, value: usize, caches: &BTreeMap<u64, (usize, f64)>, hold: &mut Hold<'_>) {
        let layer = layer_of(self.walked.values[value].name, value);
        let (first, bytes) = caches.get(&layer).copied().unwrap_or((value, 0.0));
        hold(Held::Cache(layer), reader, &|| Holding {
            name: self.walked.values[first].name.to_owned(),
            bytes,
            trained: false,
            is_own: false,
            is_literal: false,
            readers: Vec::new(),
        });
    }

    /// Per layer, the first value of its cache, and the bytes of all values of the cache, including appended tokens.
    fn cache_bytes(&self) -> BTreeMap<u64, (usize, f64)> {
        let mut caches: BTreeMap<u64, (usize, f64)> = BTreeMap::new();
        let mut add = |value: usize, bytes: f64| {
            let layer = layer_of(self.walked.values[value].name, value);
            caches.entry(layer).or_insert((value, 0.0)).1 += bytes;
        };
        for (value, entry) in self.walked.values.iter().enumerate() {
            if entry.origin == Origin::Cache {
                add(value, entry.value.bytes().unwrap_or(0.0));
            }
        }
        for index in 0..self.walked.operators.len() {
            let operator = &self.walked.operators[index];
            // Other operators write into the existing buffer.
            let grows = self.appends[index] && operator.node.op_type() == "Concat";
            if let (true, Some(Some(past))) = (grows, operator.inputs.first()) {
                add(self.views.seen[*past], self.appended(index));
            }
            for Appended { made, past } in self.attention_caches(index) {
                let made = self.walked.values[made].value.bytes().unwrap_or(0.0);
                add(past, (made - self.read_bytes(past)).max(0.0));
            }
        }
        caches
    }

    fn tensors(&self) -> Vec<TensorDocument> {
        let mut readers = Readers::default();
        let mut views = Readers::default();
        for (reader, operator) in self.walked.operators.iter().enumerate() {
            for (place, value) in operator.inputs.iter().enumerate() {
                let Some(value) = *value else { continue };
                let seen = self.views.seen[value];
                if let Origin::Operator(producer) = self.walked.values[seen].origin {
                    match self.views.is_free[reader] && place == 0 {
                        true => views.add(producer, seen, reader),
                        false => readers.add(producer, seen, reader),
                    }
                }
            }
        }
        let mut tensors = Vec::new();
        let mut add = |producer: usize, value: usize, by: &[usize], bytes: f64| {
            let consumers = by.iter().map(|&reader| self.names[reader].clone()).collect();
            let name = Some(self.walked.values[value].name.to_owned());
            tensors.push(TensorDocument {
                name,
                ..TensorDocument::new(&*self.names[producer], consumers, bytes)
            });
        };
        for (producer, value, by) in readers.iter() {
            add(producer, value, by, self.tensor_bytes(value));
        }
        for (producer, value, by) in views.iter() {
            add(producer, value, by, 0.0);
        }
        // Outputs of the model.
        for (producer, operator) in self.walked.operators.iter().enumerate() {
            if self.views.is_free[producer] || self.appends[producer] {
                continue;
            }
            let caches = self.attention_caches(producer);
            for &value in &operator.outputs {
                let in_place = caches.iter().any(|cache| cache.made == value);
                if self.views.is_output[value] && !in_place {
                    add(producer, value, &[], self.tensor_bytes(value));
                }
            }
        }
        tensors
    }

    /// Pairs of colocated operators: a free operator with the producer of its bytes or, if they come from
    /// outside, with their first reader; picked weights with the products that read them.
    fn beside(&self) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        let mut first_reader: FxHashMap<usize, usize> = FxHashMap::default();
        for (reader, operator) in self.walked.operators.iter().enumerate() {
            for &value in &operator.reads {
                let seen = self.views.seen[value];
                if let Origin::Operator(producer) = self.walked.values[seen].origin
                    && self.views.picks[producer]
                    && is_product(operator)
                {
                    pairs.push((producer, reader));
                }
                if !self.views.is_free[reader] {
                    first_reader.entry(value).or_insert(reader);
                }
            }
        }
        // In reverse order, so that a view of a view is placed with its reader.
        for (index, operator) in self.walked.operators.iter().enumerate().rev() {
            let (true, Some(&output)) = (self.views.is_free[index], operator.outputs.first()) else {
                continue;
            };
            match self.walked.values[self.views.seen[output]].origin {
                Origin::Operator(producer) => pairs.push((producer, index)),
                _ => {
                    let Some(&reader) = first_reader.get(&output) else { continue };
                    pairs.push((reader, index));
                    if let Some(Some(input)) = operator.inputs.first() {
                        first_reader.entry(*input).or_insert(reader);
                    }
                }
            }
        }
        pairs
    }

    /// Fusion role of an operator.
    fn role(&self, index: usize) -> Role {
        let operator = &self.walked.operators[index];
        let kind = operator.node.op_type();
        if self.views.is_free[index] {
            return Role::Free;
        }
        if operator.flop.is_none() || self.views.picks[index] {
            return Role::Apart;
        }
        match role(kind) {
            // A reduction over axes other than the last does not work on rows.
            Role::Row if kind.starts_with("Reduce") && !self.reduces_rows(operator) => Role::Apart,
            role => role,
        }
    }

    /// Whether a reduction goes over the last axes.
    fn reduces_rows(&self, operator: &Operator<'_>) -> bool {
        let (Some(Some(input)), Some(&output)) = (operator.inputs.first(), operator.outputs.first()) else {
            return false;
        };
        let (from, to) = (&self.walked.values[*input].value.dims, &self.walked.values[output].value.dims);
        let kept: Vec<u64> = to.iter().copied().rev().skip_while(|&dim| dim == 1).collect();
        let first: Vec<u64> = kept.into_iter().rev().collect();
        from.len() > first.len() && from.starts_with(&first)
    }
}

/// Whether a weight is in a module inside that of its reader, because the look-up in the inner module was folded: a
/// plan that divides the outer module states the device of the inner one.
fn is_below(weight: &str, layer: Option<&str>) -> bool {
    let module = weight.rsplit_once('.').map(|(module, _)| module);
    let inner = module.zip(layer).and_then(|(module, layer)| module.strip_prefix(layer));
    inner.is_some_and(|inner| inner.starts_with('.'))
}
