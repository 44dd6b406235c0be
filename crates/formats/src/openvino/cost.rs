//! FLOP and bytes moved of a layer, for the roofline.

use super::net::{Layer, Port, children};
use crate::work::{convolution, elements, per_element, product};

/// FLOP of a layer; `None` if its type is unknown.
pub(super) fn flop(layer: &Layer<'_>) -> Option<f64> {
    let input = |index: usize| layer.inputs.get(index);
    let output = layer.outputs.first().map_or(0.0, Port::elements);
    let flag = |name: &str| {
        children(layer.node, "data")
            .find_map(|data| data.attribute(name))
            .is_some_and(|flag| flag == "true" || flag == "1")
    };
    Some(match layer.kind {
        "Convolution" | "BinaryConvolution" => {
            let weights = &input(1)?.dims;
            convolution(output, *weights.get(1)?, weights.get(2..)?)
        }
        // Weights begin with the number of groups.
        "GroupConvolution" => {
            let weights = &input(1)?.dims;
            convolution(output, *weights.get(2)?, weights.get(3..)?)
        }
        // Input channels come first, then output channels.
        "ConvolutionBackpropData" => {
            let weights = &input(1)?.dims;
            convolution(input(0)?.elements(), *weights.get(1)?, weights.get(2..)?)
        }
        "GroupConvolutionBackpropData" => {
            let weights = &input(1)?.dims;
            convolution(input(0)?.elements(), *weights.get(2)?, weights.get(3..)?)
        }
        "MatMul" => {
            let dims = &input(0)?.dims;
            let from_end = if flag("transpose_a") && dims.len() > 1 { 2 } else { 1 };
            product(output, *dims.get(dims.len().checked_sub(from_end)?)?)
        }
        "ScaledDotProductAttention" => {
            let (query, key) = (&input(0)?.dims, &input(1)?.dims);
            let (size, keys) = (*query.last()?, *key.get(key.len().checked_sub(2)?)?);
            let scores = input(0)?.elements() / (size as f64).max(1.0) * keys as f64;
            product(scores, size) + per_element("softmax")? * scores + product(output, keys)
        }
        // Every weight is multiplied once per step of each sample.
        kind @ ("LSTMSequence" | "GRUSequence" | "RNNSequence" | "LSTMCell" | "GRUCell" | "RNNCell") => {
            // Data and hidden state come first, then the cell of an LSTM and the lengths of sequences.
            let index = 2 + usize::from(kind.starts_with("LSTM")) + usize::from(kind.ends_with("Sequence"));
            let data = &input(0)?.dims;
            let rows = elements(data.split_last()?.1);
            product(rows * (input(index)?.elements() + input(index + 1)?.elements()), 1)
        }
        "MaxPool" | "AvgPool" => {
            let kernel = children(layer.node, "data").find_map(|data| data.attribute("kernel"))?;
            let sizes: Option<Vec<f64>> = kernel.split(',').map(|size| size.trim().parse().ok()).collect();
            output * sizes?.into_iter().filter(|size: &f64| size.is_finite() && *size >= 0.0).product::<f64>()
        }
        "LRN" => {
            let size = children(layer.node, "data").find_map(|data| data.attribute("size"))?;
            output * (2.0 * size.trim().parse::<u32>().ok()? as f64 + 4.0)
        }
        "TopK" | "AdaptiveAvgPool" | "AdaptiveMaxPool" => input(0)?.elements(),
        kind if kind.starts_with("Reduce") => input(0)?.elements(),
        kind => per_element(&kind.to_ascii_lowercase())? * output,
    })
}

/// Bytes read and written, given those of inputs and outputs. Views move none, and layers that select a part
/// of their input read that part.
pub(super) fn moved(kind: &str, inputs: &[f64], outputs: &[f64]) -> f64 {
    let total = |bytes: &[f64]| bytes.iter().sum::<f64>();
    match kind {
        "Reshape" | "Squeeze" | "Unsqueeze" => 0.0,
        "Gather" | "GatherElements" | "GatherND" | "Slice" | "StridedSlice" | "Split" | "VariadicSplit" => {
            2.0 * total(outputs) + total(inputs.get(1..).unwrap_or_default())
        }
        _ => total(inputs) + total(outputs),
    }
}
