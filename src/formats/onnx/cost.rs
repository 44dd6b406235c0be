//! FLOP and bytes moved of a node, for a roofline to price.

use super::call::Call;
use super::value::Value;
use super::work::{convolution, elements, per_element, product};

/// FLOP; none where the operator is not known, which leaves it to the bytes that it moves.
pub(super) fn flop(call: &Call<'_>, outputs: &[&Value]) -> Option<f64> {
    let input = |at: usize| call.optional(at).map_or(0.0, |value| elements(&value.dims));
    let output = outputs.first().map_or(0.0, |value| elements(&value.dims));
    Some(match call.kind() {
        kind @ ("Conv" | "ConvInteger" | "QLinearConv" | "ConvTranspose") => {
            let weights = call.optional(if kind == "QLinearConv" { 3 } else { 1 })?;
            let (channels, kernel) = (*weights.dims.get(1)?, weights.dims.get(2..)?);
            let places = if kind == "ConvTranspose" { input(0) } else { output };
            let bias =
                kind != "ConvInteger" && call.optional(if kind == "QLinearConv" { 8 } else { 2 }).is_some();
            convolution(places, channels, kernel) + if bias { output } else { 0.0 }
        }
        "Gemm" => {
            let a = call.optional(0)?;
            let inner = *a.dims.get(usize::from(!call.flag("transA", false)))?;
            product(output, inner) + if call.optional(2).is_some() { output } else { 0.0 }
        }
        "MatMul" | "MatMulInteger" | "QLinearMatMul" | "FusedMatMul" => {
            let a = call.optional(0)?;
            let from_end = if call.flag("transA", false) && a.rank() > 1 { 2 } else { 1 };
            product(output, *a.dims.get(a.rank().checked_sub(from_end)?)?)
        }
        "Einsum" => {
            let (dims, _) = super::infer::letters(call).ok()?;
            let factors = call.inputs.iter().flatten().count() as f64;
            factors * dims.values().map(|&dim| dim as f64).product::<f64>()
        }
        kind @ ("LSTM" | "GRU" | "RNN") => {
            let gates = match kind {
                "LSTM" => 4.0,
                "GRU" => 3.0,
                _ => 1.0,
            };
            let (data, recurrence) = (call.optional(0)?, call.optional(2)?);
            let (&[steps, batch, size], &[directions, _, hidden]) =
                (data.dims.as_slice(), recurrence.dims.as_slice())
            else {
                return None;
            };
            let rows = steps as f64 * batch as f64 * directions as f64 * gates * hidden as f64;
            product(rows, size) + product(rows, hidden)
        }
        "MaxPool" | "AveragePool" | "LpPool" => {
            output * call.ints("kernel_shape")?.iter().map(|&size| size as f64).product::<f64>()
        }
        // Squares summed over the window, then scaled, shifted, raised and divided by.
        "LRN" => output * (2.0 * call.int("size")? as f64 + 4.0),
        "Resize" | "Upsample" if call.text("mode").unwrap_or("nearest") == "nearest" => 0.0,
        // A weighted mean of two neighbours along each of two axes.
        "Resize" | "Upsample" => 8.0 * output,
        "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" | "ArgMax" | "ArgMin" | "TopK" => input(0),
        kind if kind.starts_with("Reduce") => input(0),
        "Sum" | "Max" | "Min" | "Mean" => output * (call.inputs.len() as f64 - 1.0).max(1.0),
        kind => per_element(&kind.to_ascii_lowercase())? * output,
    })
}

/// Bytes read and written; none where something has no size.
pub(super) fn bytes_moved(call: &Call<'_>, inputs: &[&Value], outputs: &[&Value]) -> Option<f64> {
    let bytes = |values: &[&Value]| values.iter().map(|value| value.bytes()).collect::<Option<Vec<f64>>>();
    Some(moved(call.kind(), &bytes(inputs)?, &bytes(outputs)?))
}

/// Bytes that an operator reads and writes, from those of its inputs and outputs.
pub(super) fn moved(kind: &str, inputs: &[f64], outputs: &[f64]) -> f64 {
    let total = |bytes: &[f64]| bytes.iter().sum::<f64>();
    match kind {
        // Another name for the same bytes.
        "Dropout" | "Flatten" | "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" => 0.0,
        // Parts of the same bytes.
        "SplitToSequence" | "SequenceAt" => 0.0,
        // Only what is taken is read, by all but the first input.
        "Gather" | "GatherElements" | "GatherND" | "Slice" | "Split" => {
            2.0 * total(outputs) + total(inputs.get(1..).unwrap_or_default())
        }
        _ => total(inputs) + total(outputs),
    }
}
