//! What a file says of its values: inputs, outputs and `value_info`, with the batch put in where it is left
//! open.

use rustc_hash::FxHashMap;

use super::proto::tensor_shape_proto::dimension::Value as Dimension;
use super::proto::type_proto::Value as Kind;
use super::proto::{GraphProto, TypeProto, ValueInfoProto, tensor_shape_proto};
use super::value::{LARGEST_DIM, LARGEST_RANK, Value};
use crate::formats::error::InputError;

/// The declared values whose shapes are known.
pub(super) struct Declared<'a> {
    /// What comes from outside, in order.
    pub(super) inputs: Vec<(&'a str, Value)>,
    /// All of them by name.
    values: FxHashMap<&'a str, Value>,
}

impl<'a> Declared<'a> {
    /// Reads the declarations. `constants` tells the inputs that have an initialiser, and are none.
    pub(super) fn of(
        label: &str,
        graph: &'a GraphProto,
        batch: Option<u64>,
        is_constant: impl Fn(&str) -> bool,
    ) -> Result<Self, InputError> {
        if let Some(batch) = batch.filter(|&batch| batch > LARGEST_DIM) {
            let message = format!("a batch of {batch} is larger than any dimension may be");
            let help = format!("give --batch at most {LARGEST_DIM}");
            return Err(InputError::at_path("M010", label, "graph.input", message, help));
        }
        let mut bound: FxHashMap<&str, u64> = FxHashMap::default();
        let mut used = false;
        let inputs: Vec<(usize, &ValueInfoProto)> =
            graph.input.iter().enumerate().filter(|(_, input)| !is_constant(input.name())).collect();
        for (_, input) in &inputs {
            if let (Some(first), Some(batch)) = (dims(input).and_then(|dims| dims.first()), batch)
                && size(first, &bound).is_none()
            {
                used = true;
                // A name that is empty says nothing of the other dimensions without one.
                if let Some(Dimension::DimParam(name)) = &first.value
                    && !name.is_empty()
                {
                    bound.insert(name, batch);
                }
            }
        }
        if let (Some(batch), false) = (batch, used) {
            let help = "leave --batch out, or export the model with a symbolic batch";
            let message =
                format!("a batch of {batch} is asked for, and no input leaves its first dimension open");
            return Err(InputError::at_path("M010", label, "graph.input", message, help));
        }
        let mut values = FxHashMap::default();
        let mut known = Vec::with_capacity(inputs.len());
        for (at, input) in inputs {
            let value = self::input(label, at, input, &bound, batch)?;
            values.insert(input.name(), value.clone());
            known.push((input.name(), value));
        }
        for info in graph.value_info.iter().chain(&graph.output) {
            let Some((elem, shape)) = tensor(info) else { continue };
            let shape: Option<Vec<u64>> = shape.iter().map(|dim| size(dim, &bound)).collect();
            if let Some(shape) = shape.filter(|shape| shape.len() <= LARGEST_RANK) {
                values.entry(info.name()).or_insert_with(|| Value::new(elem, shape));
            }
        }
        Ok(Declared { inputs: known, values })
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }
}

/// An input with every dimension known.
fn input(
    label: &str,
    at: usize,
    input: &ValueInfoProto,
    bound: &FxHashMap<&str, u64>,
    batch: Option<u64>,
) -> Result<Value, InputError> {
    let path = format!("graph.input[{at}] (`{}`)", input.name());
    let Some((elem, shape)) = tensor(input).filter(|(_, shape)| shape.len() <= LARGEST_RANK) else {
        let help = "export the model with a tensor of a known shape for every input";
        let message = "the input has no shape, or is no tensor";
        return Err(InputError::at_path("M008", label, path, message, help));
    };
    let mut known = Vec::with_capacity(shape.len());
    for (axis, dim) in shape.iter().enumerate() {
        let open = if axis == 0 { batch } else { None };
        let Some(size) = size(dim, bound).or(open).filter(|&size| size <= LARGEST_DIM) else {
            let name = match &dim.value {
                Some(Dimension::DimParam(name)) if !name.is_empty() => name.as_str(),
                _ => "",
            };
            let message = format!("dimension {axis} of the input is open: `{name}`");
            let help = match (axis, name) {
                (0, _) => "give the batch with --batch N".to_owned(),
                (_, "") => format!(
                    "fix it with: python3 -m onnxruntime.tools.make_dynamic_shape_fixed --input_name '{}' \
                     --input_shape 1,… {label} fixed.onnx",
                    in_a_command(input.name())
                ),
                (_, name) => format!(
                    "fix it with: python3 -m onnxruntime.tools.make_dynamic_shape_fixed --dim_param '{}' \
                     --dim_value 128 {label} fixed.onnx",
                    in_a_command(name)
                ),
            };
            return Err(InputError::at_path("M010", label, path, message, help));
        };
        known.push(size);
    }
    Ok(Value::new(elem, known))
}

/// A name of the file, for a command that people are told to run: one with quotes in it could be another
/// command.
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

/// A dimension that is given, or bound by its name. Some exporters write -1 for one that is open.
fn size(dim: &tensor_shape_proto::Dimension, bound: &FxHashMap<&str, u64>) -> Option<u64> {
    match &dim.value {
        Some(Dimension::DimValue(size)) => u64::try_from(*size).ok().filter(|&size| size <= LARGEST_DIM),
        Some(Dimension::DimParam(name)) => bound.get(name.as_str()).copied(),
        None => None,
    }
}
