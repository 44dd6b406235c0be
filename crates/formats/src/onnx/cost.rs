//! FLOP and bytes moved of a node, for the roofline.

use stagewright_core::document::KernelDocument;

use super::call::Call;
use super::infer;
use super::value::Value;
use super::work::{convolution, elements, per_element, product};

/// FLOP of a node; `None` if the operator is unknown, which leaves its price to its bytes.
pub(super) fn flop(call: &Call<'_>, outputs: &[&Value]) -> Option<f64> {
    let input = |index: usize| call.optional(index).map_or(0.0, |value| elements(&value.dims));
    let output = outputs.first().map_or(0.0, |value| elements(&value.dims));
    Some(match call.kind() {
        "Conv" | "ConvInteger" | "QLinearConv" | "ConvTranspose" | "FusedConv" | "NhwcFusedConv" => {
            convolution_of(call, input(0), output)?
        }
        "Gemm" | "FusedGemm" | "GemmFloat8" | "QGemm" => single_product(call, output)?,
        "MatMul" | "MatMulInteger" | "MatMulInteger16" | "QLinearMatMul" => inner_product(call, output)?,
        "FusedMatMul" | "FusedMatMulActivation" | "TransposeMatMul" => {
            inner_product(call, output)? + activation(call) * output
        }
        // The output is scaled; dynamic quantisation finds the range of its input first.
        "MatMulIntegerToFloat" => {
            inner_product(call, output)? + output * if call.optional(6).is_some() { 2.0 } else { 1.0 }
        }
        "DynamicQuantizeMatMul" => {
            let scaled = output * if call.optional(4).is_some() { 2.0 } else { 1.0 };
            inner_product(call, output)? + scaled + per_element("dynamicquantizelinear")? * input(0)
        }
        "GemmFastGelu" => {
            let bias = if call.optional(2).is_some() { output } else { 0.0 };
            inner_product(call, output)? + bias + per_element("fastgelu")? * output
        }
        // Weights are dequantised on the way into the product, which is negligible beside it.
        "MatMulNBits" | "MatMulBnb4" => {
            let bias = call.kind() == "MatMulNBits" && call.optional(5).is_some();
            inner_product(call, output)? + if bias { output } else { 0.0 }
        }
        _ if infer::is_attention(call) => infer::attention(call).ok()?.flop(),
        "MoE" | "QMoE" => infer::Experts::from_call(call)?.flop(),
        // Two or three tables, added up, and the normalisation of the sum.
        "EmbedLayerNormalization" | "QEmbedLayerNormalization" => {
            let tables = if call.optional(4).is_some() { 2.0 } else { 1.0 };
            (tables + per_element("layernormalization")?) * output
        }
        "Einsum" => einsum(call)?,
        "LSTM" | "GRU" | "RNN" | "DynamicQuantizeLSTM" => recurrence(call)?,
        "MaxPool" | "AveragePool" | "LpPool" | "NhwcMaxPool" | "QLinearAveragePool" => {
            output * call.ints("kernel_shape")?.iter().map(|&size| size as f64).product::<f64>()
        }
        // Sum of squares over the window, then scale, shift, power and division.
        "LRN" => output * (2.0 * call.int("size")? as f64 + 4.0),
        "Resize" | "Upsample" if call.text("mode").unwrap_or("nearest") == "nearest" => 0.0,
        // A weighted mean of two neighbours along each of two axes.
        "Resize" | "Upsample" => 8.0 * output,
        "GlobalAveragePool"
        | "GlobalMaxPool"
        | "GlobalLpPool"
        | "QLinearGlobalAveragePool"
        | "QLinearReduceMean"
        | "ArgMax"
        | "ArgMin"
        | "TopK" => input(0),
        kind if kind.starts_with("Reduce") => input(0),
        "Sum" | "Max" | "Min" | "Mean" => output * (call.inputs.len() as f64 - 1.0).max(1.0),
        kind => per_element(&kind.to_ascii_lowercase())? * output,
    })
}

/// The library kernels of a node, products and fused attention, in the dimensions by which measurements are tabulated.
/// Products with weights of fewer than 8 bits call kernels of another kind, which are left out.
pub(super) fn kernels(call: &Call<'_>, outputs: &[&Value]) -> Vec<KernelDocument> {
    let kernels = match call.kind() {
        "Gemm" | "FusedGemm" => gemm(call).into_iter().collect(),
        "MatMul"
        | "MatMulInteger"
        | "QLinearMatMul"
        | "MatMulIntegerToFloat"
        | "DynamicQuantizeMatMul"
        | "GemmFastGelu" => matmul(call, outputs).into_iter().collect(),
        "FusedMatMul" | "TransposeMatMul"
            if !call.flag("transBatchA", false) && !call.flag("transBatchB", false) =>
        {
            matmul(call, outputs).into_iter().collect()
        }
        _ if infer::is_attention(call) => {
            infer::attention(call).map_or_else(|_| Vec::new(), |it| it.kernels())
        }
        _ => Vec::new(),
    };
    let is_positive = |kernel: &KernelDocument| match *kernel {
        KernelDocument::Product { batch, m, n, k } => batch.min(m).min(n).min(k) >= 1.0,
        KernelDocument::Attention { batch, queries, keys, heads, kv_heads, head_dim, .. } => {
            batch.min(queries).min(keys).min(heads).min(kv_heads).min(head_dim) >= 1.0
        }
    };
    if kernels.iter().all(is_positive) { kernels } else { Vec::new() }
}

fn gemm(call: &Call<'_>) -> Option<KernelDocument> {
    let (&[a, b], &[c, d]) = (
        call.optional(0)?.dims.as_slice().first_chunk::<2>()?,
        call.optional(1)?.dims.as_slice().first_chunk::<2>()?,
    );
    let (m, k) = if call.flag("transA", false) { (b, a) } else { (a, b) };
    let n = if call.flag("transB", false) { c } else { d };
    Some(KernelDocument::Product { batch: 1.0, m: m as f64, n: n as f64, k: k as f64 })
}

/// A matrix product, single or batched. If one right matrix serves the whole batch, the batch is a single product.
fn matmul(call: &Call<'_>, outputs: &[&Value]) -> Option<KernelDocument> {
    let (a, out) = (call.optional(0)?, outputs.first()?);
    let right = call.optional(if call.kind() == "QLinearMatMul" { 3 } else { 1 })?;
    let all = elements(&out.dims);
    let from_end = if call.flag("transA", false) && a.rank() > 1 { 2 } else { 1 };
    let k = *a.dims.get(a.rank().checked_sub(from_end)?)? as f64;
    let n = match (right.rank(), call.flag("transB", false)) {
        (0 | 1, _) => 1,
        (rank, true) => right.dims[rank - 2],
        (rank, false) => right.dims[rank - 1],
    } as f64;
    let matrices: f64 = elements(right.dims.get(..right.rank().saturating_sub(2))?);
    let rows = all / n;
    let m = match (matrices > 1.0, a.rank()) {
        (false, _) => rows,
        (true, 0 | 1) => 1.0,
        (true, rank) => a.dims[rank - if from_end == 2 { 1 } else { 2 }] as f64,
    };
    Some(KernelDocument::Product { batch: rows / m, m, n, k })
}

/// FLOP of a convolution, with what is fused into it. `input` and `output` are numbers of elements.
fn convolution_of(call: &Call<'_>, input: f64, output: f64) -> Option<f64> {
    let kind = call.kind();
    let weights = call.optional(if kind == "QLinearConv" { 3 } else { 1 })?;
    let (channels, kernel) = (*weights.dims.get(1)?, weights.dims.get(2..)?);
    let places = if kind == "ConvTranspose" { input } else { output };
    let bias = kind != "ConvInteger" && call.optional(if kind == "QLinearConv" { 8 } else { 2 }).is_some();
    let sum = kind.ends_with("FusedConv") && call.optional(3).is_some();
    let activation = activation(call) * output;
    Some(
        convolution(places, channels, kernel)
            + if bias { output } else { 0.0 }
            + if sum { output } else { 0.0 }
            + activation,
    )
}

/// FLOP of a product of two matrices, with what is fused into it.
fn single_product(call: &Call<'_>, output: f64) -> Option<f64> {
    let a = call.optional(0)?;
    let inner = *a.dims.get(usize::from(!call.flag("transA", false)))?;
    let bias = call.optional(if call.kind() == "QGemm" { 6 } else { 2 }).is_some();
    Some(product(output, inner) + if bias { output } else { 0.0 } + activation(call) * output)
}

/// FLOP of an `Einsum`: a sum of products over all its letters.
fn einsum(call: &Call<'_>) -> Option<f64> {
    let (dims, _) = infer::letters(call).ok()?;
    let factors = call.inputs.iter().flatten().count() as f64;
    Some(factors * dims.values().map(|&dim| dim as f64).product::<f64>())
}

/// FLOP of the products of a recurrent layer.
fn recurrence(call: &Call<'_>) -> Option<f64> {
    let gates = match call.kind() {
        "LSTM" | "DynamicQuantizeLSTM" => 4.0,
        "GRU" => 3.0,
        _ => 1.0,
    };
    let (data, recurrence) = (call.optional(0)?, call.optional(2)?);
    let (&[steps, batch, size], &[directions, second, third]) =
        (data.dims.as_slice(), recurrence.dims.as_slice())
    else {
        return None;
    };
    let hidden = if call.kind() == "DynamicQuantizeLSTM" { second } else { third };
    let rows = steps as f64 * batch as f64 * directions as f64 * gates * hidden as f64;
    Some(product(rows, size) + product(rows, hidden))
}

/// FLOP of a matrix product, single or batched.
fn inner_product(call: &Call<'_>, output: f64) -> Option<f64> {
    let a = call.optional(0)?;
    let from_end = if call.flag("transA", false) && a.rank() > 1 { 2 } else { 1 };
    // With `transBatchA` the rows are along the first axis.
    let axis = match from_end == 2 && a.rank() > 2 && call.flag("transBatchA", false) {
        true => 0,
        false => a.rank().checked_sub(from_end)?,
    };
    Some(product(output, *a.dims.get(axis)?))
}

/// FLOP per element of the activation fused into a product; 0 without one.
fn activation(call: &Call<'_>) -> f64 {
    let name = call.text("activation").unwrap_or_default().to_ascii_lowercase();
    if name.is_empty() { 0.0 } else { per_element(&name).unwrap_or(1.0) }
}

/// Bytes of inputs that are not read: rows of tables that no index selects, and experts that no token can
/// choose.
pub(super) fn unread(call: &Call<'_>) -> f64 {
    let bytes = |index: usize| call.optional(index).and_then(Value::bytes).unwrap_or(0.0);
    // Unread bytes of a table with `rows` rows read; rows are read whole.
    let rows_of = |index: usize, rows: f64| match call.optional(index).and_then(|table| table.dims.first()) {
        Some(&all) if all > 0 => bytes(index) * (1.0 - rows / all as f64).max(0.0),
        _ => 0.0,
    };
    match call.kind() {
        "EmbedLayerNormalization" | "QEmbedLayerNormalization" => {
            let rows = call.optional(0).map_or(0.0, |ids| elements(&ids.dims));
            rows_of(2, rows) + rows_of(3, rows)
        }
        "GatherBlockQuantized" => {
            let indices = call.optional(1).map_or(1.0, |indices| elements(&indices.dims));
            let axis = call.int("gather_axis").unwrap_or(0);
            let rows = call.optional(0).and_then(|data| data.dims.get(call.axis(axis, data.rank()).ok()?));
            let share = match rows {
                Some(&rows) if rows > 0 => (1.0 - indices / rows as f64).max(0.0),
                _ => 0.0,
            };
            share * [0, 2, 3].into_iter().map(bytes).sum::<f64>()
        }
        _ => match infer::Experts::from_call(call) {
            Some(experts) => experts.unread() * experts.weights.clone().map(bytes).sum::<f64>(),
            None => 0.0,
        },
    }
}

/// Bytes read and written; `None` if an element has no size.
pub(super) fn bytes_moved(call: &Call<'_>, inputs: &[&Value], outputs: &[&Value]) -> Option<f64> {
    let bytes = |values: &[&Value]| values.iter().map(|value| value.bytes()).collect::<Option<Vec<f64>>>();
    Some(moved(call.kind(), &bytes(inputs)?, &bytes(outputs)?))
}

/// Bytes that an operator reads and writes, given those of its inputs and outputs.
pub(super) fn moved(kind: &str, inputs: &[f64], outputs: &[f64]) -> f64 {
    let total = |bytes: &[f64]| bytes.iter().sum::<f64>();
    match kind {
        // Views of the same bytes.
        "Dropout" | "Flatten" | "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" => 0.0,
        // Parts of the same bytes.
        "SplitToSequence" | "SequenceAt" => 0.0,
        // Only the selected part of the first input is read.
        "Gather" | "GatherElements" | "GatherND" | "Slice" | "Split" => {
            2.0 * total(outputs) + total(inputs.get(1..).unwrap_or_default())
        }
        _ => total(inputs) + total(outputs),
    }
}
