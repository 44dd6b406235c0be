//! Declared values of a file: inputs, outputs and `value_info`, with the batch in place of open dimensions.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::proto::tensor_shape_proto::dimension::Value as Dimension;
use super::proto::type_proto::Value as Kind;
use super::proto::{GraphProto, TypeProto, ValueInfoProto, tensor_shape_proto};
use super::value::{LARGEST_DIM, LARGEST_RANK, Value, is_parameter};
use crate::code::{M008, M010};
use crate::error::{InputError, Result};
use crate::nearest::instead;
use crate::options::ImportOptions;

/// Declared values of known shape.
pub(super) struct Declared<'a> {
    /// Inputs of the model, in order.
    pub(super) inputs: Vec<(&'a str, Value)>,
    /// All declared values by name.
    pub(super) values: FxHashMap<&'a str, Value>,
    /// Sizes of named dimensions.
    bound: FxHashMap<String, u64>,
}

impl<'a> Declared<'a> {
    /// Reads the declarations. `is_constant` marks inputs with an initialiser, which are constants.
    pub(super) fn new(
        label: &str,
        graph: &'a GraphProto,
        options: &ImportOptions,
        is_constant: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        check_sizes(label, options)?;
        check_names(label, graph, options)?;
        let inputs: Vec<(usize, &ValueInfoProto)> =
            graph.input.iter().enumerate().filter(|(_, input)| !is_constant(input.name())).collect();
        let mut binding = Binding::new(label, options);
        binding.first_dimensions(inputs.iter().map(|(_, input)| *input))?;
        binding.cached_tokens(inputs.iter().map(|(_, input)| *input));
        binding.check_use()?;
        let bound = binding.bound;
        let mut values = FxHashMap::default();
        let mut known = Vec::with_capacity(inputs.len());
        for (index, input) in inputs {
            let value = self::input(label, index, input, &bound, options)?;
            values.insert(input.name(), value.clone());
            known.push((input.name(), value));
        }
        let mut declared = Declared { inputs: known, values, bound };
        for (name, value) in declared.of_body(graph) {
            declared.values.entry(name).or_insert(value);
        }
        Ok(declared)
    }

    /// Declarations of the values made in a graph, which may be the body of a node.
    pub(super) fn of_body(&self, graph: &'a GraphProto) -> FxHashMap<&'a str, Value> {
        let mut values = FxHashMap::default();
        for info in graph.value_info.iter().chain(&graph.output) {
            let Some((elem, shape)) = tensor(info) else { continue };
            let shape: Option<Vec<u64>> = shape.iter().map(|dim| size(dim, &self.bound)).collect();
            if let Some(shape) = shape.filter(|shape| shape.len() <= LARGEST_RANK) {
                values.entry(info.name()).or_insert_with(|| Value::new(elem, shape));
            }
        }
        values
    }
}

/// The error that refuses a size given as an option.
fn refused(label: &str, message: String, help: impl Into<String>) -> InputError {
    InputError::at_path(M010, label, "graph.input", message, help)
}

/// Sizes that the dimensions of the inputs take.
struct Binding<'a> {
    label: &'a str,
    options: &'a ImportOptions,
    /// Sizes of named dimensions.
    bound: FxHashMap<String, u64>,
    /// Whether some dimension takes each of the given sizes.
    batch_is_used: bool,
    sequences_are_used: bool,
    context_is_used: bool,
}

impl<'a> Binding<'a> {
    fn new(label: &'a str, options: &'a ImportOptions) -> Binding<'a> {
        Binding {
            label,
            options,
            bound: options.dims.iter().map(|(name, &size)| (name.clone(), size)).collect(),
            batch_is_used: false,
            sequences_are_used: false,
            context_is_used: false,
        }
    }

    /// Gives open first dimensions the batch or the number of sequences.
    fn first_dimensions<'g>(&mut self, inputs: impl Iterator<Item = &'g ValueInfoProto>) -> Result<()> {
        let &ImportOptions { batch, sequences, .. } = self.options;
        // Names of first dimensions whose size is the batch or the number of sequences.
        let mut leading: BTreeSet<&str> = BTreeSet::new();
        for input in inputs {
            let takes_batch = sequences.is_none() || (!is_past(input) && batch.is_some());
            let open = if takes_batch { batch } else { sequences };
            let (Some(first), Some(given)) = (dims(input).and_then(|dims| dims.first()), open) else {
                continue;
            };
            match (size(first, &self.bound), name(first)) {
                (None, Some(name)) => {
                    self.bound.insert(name.to_owned(), given);
                    leading.insert(name);
                }
                (None, None) => {}
                (Some(known), Some(name)) if leading.contains(name) => {
                    if let (true, Some(batch), Some(sequences)) = (known != given, batch, sequences) {
                        let message = format!(
                            "a batch of {batch} and {sequences} sequences are given, but they are the size of one \
                             dimension, `{name}`"
                        );
                        let help = "leave --sequences out, or give both the same size";
                        return Err(refused(self.label, message, help));
                    }
                }
                (Some(_), _) => continue,
            }
            self.batch_is_used |= takes_batch;
            self.sequences_are_used |= !takes_batch;
        }
        Ok(())
    }

    /// Gives other open dimensions of past keys and values the number of tokens in the cache.
    fn cached_tokens<'g>(&mut self, inputs: impl Iterator<Item = &'g ValueInfoProto>) {
        let Some(context) = self.options.context else { return };
        for input in inputs.filter(|input| is_past(input)) {
            for dim in dims(input).unwrap_or_default().iter().skip(1) {
                if size(dim, &self.bound).is_none() {
                    self.context_is_used = true;
                    self.bound.extend(name(dim).map(|name| (name.to_owned(), context)));
                }
            }
        }
    }

    /// Rejects given sizes that no dimension takes.
    fn check_use(&self) -> Result<()> {
        let &ImportOptions { batch, sequences, context, .. } = self.options;
        let (message, help) = if let (Some(context), false) = (context, self.context_is_used) {
            (
                format!(
                    "a context of {context} is given, but no input for past keys and values has a symbolic length"
                ),
                "leave --context out, or export the model with past keys and values of a symbolic length",
            )
        } else if let (Some(sequences), false) = (sequences, self.sequences_are_used) {
            (
                format!("{sequences} sequences are given, but no input has a symbolic number of them"),
                "leave --sequences out, or export the model with past keys and values of a symbolic number of sequences",
            )
        } else if let (Some(batch), false) = (batch, self.batch_is_used) {
            (
                format!("a batch of {batch} is given, but no input has a symbolic first dimension"),
                "leave --batch out, or export the model with a symbolic batch",
            )
        } else {
            return Ok(());
        };
        Err(refused(self.label, message, help))
    }
}

/// Rejects sizes that no dimension can have.
fn check_sizes(label: &str, options: &ImportOptions) -> Result<()> {
    if let Some(batch) = options.batch.filter(|&batch| batch > LARGEST_DIM) {
        let message = format!("the batch {batch} exceeds the largest dimension");
        return Err(refused(label, message, format!("give --batch at most {LARGEST_DIM}")));
    }
    if let Some((name, size)) = given(options).find(|&(_, size)| size > LARGEST_DIM) {
        let message = format!("{size} for {name} exceeds the largest dimension");
        return Err(refused(label, message, format!("give at most {LARGEST_DIM}")));
    }
    Ok(())
}

/// Rejects sizes of dimensions that the model does not name.
fn check_names(label: &str, graph: &GraphProto, options: &ImportOptions) -> Result<()> {
    if options.dims.is_empty() {
        return Ok(());
    }
    let mut known = BTreeSet::new();
    names(graph, &mut known);
    let Some(unknown) = options.dims.keys().find(|name| !known.contains(name.as_str())) else {
        return Ok(());
    };
    let help = match known.is_empty() {
        true => "leave it out: the model names no dimension".to_owned(),
        false => instead(unknown, known.into_iter()),
    };
    Err(refused(label, format!("no dimension of the model is named `{unknown}`"), help))
}

/// Names of the dimensions in the declarations of a graph and of the bodies of its nodes, and the terms of sums of
/// dimensions.
fn names<'a>(graph: &'a GraphProto, known: &mut BTreeSet<&'a str>) {
    let infos = graph.input.iter().chain(&graph.value_info).chain(&graph.output);
    for dim in infos.filter_map(dims).flatten() {
        if let Some(Dimension::DimParam(name)) = &dim.value {
            let parts = name.split('+').map(str::trim).filter(|part| part.parse::<u64>().is_err());
            known.extend(parts.chain([name.as_str()]).filter(|name| !name.is_empty()));
        }
    }
    let attributes = graph.node.iter().flat_map(|node| &node.attribute);
    for body in attributes.flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs)) {
        names(body, known);
    }
}

/// Reads an input, all of whose dimensions must be known.
fn input(
    label: &str,
    index: usize,
    input: &ValueInfoProto,
    bound: &FxHashMap<String, u64>,
    options: &ImportOptions,
) -> Result<Value> {
    let path = format!("graph.input[{index}] (`{}`)", input.name());
    let Some((elem, shape)) = tensor(input).filter(|(_, shape)| shape.len() <= LARGEST_RANK) else {
        let help = "export the model with a tensor of a known shape for every input";
        let message = "the input has no shape, or is not a tensor";
        return Err(InputError::at_path(M008, label, path, message, help));
    };
    let mut known = Vec::with_capacity(shape.len());
    for (axis, dim) in shape.iter().enumerate() {
        let open = match axis {
            0 if is_past(input) => options.sequences.or(options.batch),
            0 => options.batch.or(options.sequences),
            _ if is_past(input) => options.context,
            _ => None,
        };
        let Some(size) = size(dim, bound).or(open).filter(|&size| size <= LARGEST_DIM) else {
            let name = name(dim).unwrap_or_default();
            let message = format!("dimension {axis} of the input is symbolic: `{name}`");
            let help = match (axis, name) {
                (0, "") => "give the batch with --batch N".to_owned(),
                (0, name) => format!(
                    "give the batch with --batch N, or the dimension with --dim '{}=N'",
                    in_a_command(name)
                ),
                (_, _) if is_past(input) => {
                    "give the number of tokens in the cache with --context N".to_owned()
                }
                (_, "") => format!(
                    "fix it with: python3 -m onnxruntime.tools.make_dynamic_shape_fixed --input_name '{}' \
                     --input_shape 1,… {label} fixed.onnx",
                    in_a_command(input.name())
                ),
                (_, name) => format!("give it with --dim '{}=N', once for every name", in_a_command(name)),
            };
            return Err(InputError::at_path(M010, label, path, message, help));
        };
        known.push(size);
    }
    Ok(Value::new(elem, known))
}

/// Sizes given as options, with a description each.
fn given(options: &ImportOptions) -> impl Iterator<Item = (&str, u64)> {
    let dims = options.dims.iter().map(|(name, &size)| (name.as_str(), size));
    let others = [("a context", options.context), ("sequences", options.sequences)];
    dims.chain(others.into_iter().filter_map(|(name, size)| Some((name, size?))))
}

/// Whether an input holds past keys or values.
fn is_past(input: &ValueInfoProto) -> bool {
    tensor(input).is_some_and(|(elem, dims)| is_cache(input.name(), elem, dims.len()))
}

/// A name of the file for a suggested command; a name with quotes could inject another command and is
/// replaced.
fn in_a_command(name: &str) -> &str {
    let is_plain = |c: char| c.is_alphanumeric() || "_-+*/.:, ".contains(c);
    if name.chars().all(is_plain) { name } else { "NAME" }
}

fn tensor(info: &ValueInfoProto) -> Option<(i32, &[tensor_shape_proto::Dimension])> {
    match info.r#type.as_ref() {
        Some(TypeProto { value: Some(Kind::TensorType(tensor)), .. }) => {
            Some((tensor.elem_type(), &tensor.shape.as_ref()?.dim))
        }
        _ => None,
    }
}

fn dims(info: &ValueInfoProto) -> Option<&[tensor_shape_proto::Dimension]> {
    tensor(info).map(|(_, dims)| dims)
}

/// Name of a dimension. An empty name identifies no dimension.
fn name(dim: &tensor_shape_proto::Dimension) -> Option<&str> {
    match &dim.value {
        Some(Dimension::DimParam(name)) if !name.is_empty() => Some(name),
        _ => None,
    }
}

/// Size of a dimension, given or bound by its name. Some exporters write -1 for an open dimension.
fn size(dim: &tensor_shape_proto::Dimension, bound: &FxHashMap<String, u64>) -> Option<u64> {
    match &dim.value {
        Some(Dimension::DimValue(size)) => u64::try_from(*size).ok().filter(|&size| size <= LARGEST_DIM),
        Some(Dimension::DimParam(name)) => bound.get(name.as_str()).copied().or_else(|| sum(name, bound)),
        None => None,
    }
}

/// Size of a dimension that is named as a sum of others, as in `past_sequence_length + 1`.
fn sum(name: &str, bound: &FxHashMap<String, u64>) -> Option<u64> {
    if !name.contains('+') {
        return None;
    }
    let mut total = 0_u64;
    for part in name.split('+').map(str::trim) {
        let size = bound.get(part).copied().or_else(|| part.parse().ok())?;
        total = total.checked_add(size).filter(|&total| total <= LARGEST_DIM)?;
    }
    Some(total)
}

/// Whether an input holds the keys or values of past tokens: by its name, its rank and its type.
pub(super) fn is_cache(name: &str, elem: i32, rank: usize) -> bool {
    let name = name.to_ascii_lowercase();
    let is_named = name.starts_with("past")
        || ["past_key", "past_value", "key_cache", "value_cache"].iter().any(|part| name.contains(part));
    is_named && rank >= 3 && is_parameter(elem)
}
