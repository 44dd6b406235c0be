//! Fused operators of runtimes and their tools: products with quantised weights, normalisations of a sum,
//! experts. The rules are those of ONNX Runtime (docs/ContribOperators.md).

use super::fold::together;
use super::matrix::{multiplied, stacked};
use super::{Call, DataType, Inferred, LARGEST_RANK, Value, contradiction};

const FLOAT: i32 = DataType::Float as i32;
const INT32: i32 = DataType::Int32 as i32;

/// A product with weights of few bits, in blocks with a common scale: `[…, K]` times `[N, K]` transposed.
pub(super) fn few_bits(call: &Call<'_>) -> Inferred {
    let data = call.input(0)?;
    let (Some(inner), Some(columns)) = (call.size("K"), call.size("N")) else {
        return contradiction(format!("K is {:?} and N is {:?}", call.int("K"), call.int("N")));
    };
    // Only 4-bit floats allow the other order.
    let (inner, columns) = if call.flag("transB", true) { (inner, columns) } else { (columns, inner) };
    let Some((&width, rows)) = data.dims.split_last() else {
        return contradiction("a scalar is not a matrix");
    };
    if width != inner {
        return contradiction(format!("the inner dimensions {width} and {inner} differ"));
    }
    Ok(vec![Value::new(data.elem, [rows, &[columns]].concat())])
}

/// A product whose factors may be transposed or have their first axis before the last.
pub(super) fn fused_product(call: &Call<'_>) -> Inferred {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let turned = |value: &Value, name: &str| {
        let mut dims = value.dims.clone();
        if call.flag(name, false) && dims.len() > 2 {
            let last = dims.len() - 1;
            dims[..last].rotate_left(1);
        }
        dims
    };
    let dims = stacked(call, turned(a, "transBatchA"), turned(b, "transBatchB"))?;
    Ok(vec![Value::new(a.elem, dims)])
}

/// An integer product with an output of another type.
pub(super) fn scaled_product(call: &Call<'_>) -> Inferred {
    let elem = match call.kind() {
        // The type of the first factor's scale; dynamically quantised factors have that type themselves.
        "MatMulIntegerToFloat" => call.input(2)?.elem,
        _ => call.input(0)?.elem,
    };
    Ok(vec![Value::new(elem, multiplied(call, call.input(0)?, call.input(1)?)?)])
}

/// An integer `Gemm`; its output is an integer if it has a zero point.
pub(super) fn quantized_gemm(call: &Call<'_>) -> Inferred {
    let (a, b) = (call.input(0)?, call.input(3)?);
    let elem = call.optional(8).map_or(FLOAT, |zero| zero.elem);
    Ok(vec![Value::new(elem, super::matrix::of_matrices(call, a, b)?)])
}

/// An elementwise operation of two quantised operands, each with scale and zero point.
pub(super) fn quantized_broadcast(call: &Call<'_>) -> Inferred {
    let chosen: &[usize] = if call.kind() == "QLinearWhere" { &[0, 1, 4] } else { &[0, 3] };
    let elem = call.input(chosen[chosen.len() - 1])?.elem;
    let mut dims = Vec::new();
    for &index in chosen {
        let other = &call.input(index)?.dims;
        dims = match together(&dims, other) {
            Some(dims) => dims,
            None => return contradiction(format!("{dims:?} and {other:?} do not broadcast")),
        };
    }
    Ok(vec![Value::new(elem, dims)])
}

/// A concatenation: scale and zero point of the output, then every part with its scale and zero point.
pub(super) fn quantized_concat(call: &Call<'_>) -> Inferred {
    let first = call.input(2)?;
    let axis = call.axis(call.int("axis").unwrap_or(0), first.rank())?;
    let mut dims = first.dims.clone();
    dims[axis] = 0;
    for index in (2..call.inputs.len()).step_by(3) {
        let part = &call.input(index)?.dims;
        if part.len() != dims.len() || (0..dims.len()).any(|dim| dim != axis && part[dim] != dims[dim]) {
            return contradiction(format!("{part:?} cannot be appended to {:?} at axis {axis}", first.dims));
        }
        dims[axis] = call.dim(i128::from(dims[axis]) + i128::from(part[axis]))?;
    }
    Ok(vec![Value::new(first.elem, dims)])
}

/// Rows of a quantised table, as numbers of the type of their scales.
pub(super) fn gather_blocks(call: &Call<'_>) -> Inferred {
    let (data, indices, scales) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let axis = call.axis(call.int("gather_axis").unwrap_or(0), data.rank())?;
    let mut dims = data.dims.clone();
    // A byte packs several numbers along the axis of the blocks; an element of a type of few bits holds one.
    if data.elem == DataType::Uint8 as i32 {
        let along = call.axis(call.int("quantize_axis").unwrap_or(1), data.rank())?;
        let each = match call.int("bits").unwrap_or(4) {
            bits @ (2 | 4 | 8) => 8 / bits,
            bits => return contradiction(format!("{bits}-bit numbers are not supported")),
        };
        dims[along] = call.dim(i128::from(dims[along]) * i128::from(each))?;
    }
    let dims = [&dims[..axis], &indices.dims, &dims[axis + 1..]].concat();
    if dims.len() > LARGEST_RANK {
        return contradiction(format!("a shape of too many dimensions, {}", dims.len()));
    }
    Ok(vec![Value::new(scales.elem, dims)])
}

/// Outputs: the normalised sum of word, position and segment embeddings; the length of every sequence; the sum.
pub(super) fn embeddings(call: &Call<'_>) -> Inferred {
    let (ids, words) = (call.input(0)?, call.input(2)?);
    let (&[batch, length], &[_, width]) = (ids.dims.as_slice(), words.dims.as_slice()) else {
        return contradiction(format!("indices {:?} into a table {:?}", ids.dims, words.dims));
    };
    // An integer table has its scale as another input.
    let elem = if call.kind() == "QEmbedLayerNormalization" { call.input(8)?.elem } else { words.elem };
    let output = Value::new(elem, vec![batch, length, width]);
    Ok(vec![output.clone(), Value::new(INT32, vec![batch]), output])
}

/// A sum normalised along the last axis: the result, mean and inverse deviation of every row, and the sum.
pub(super) fn skip_normalization(call: &Call<'_>) -> Inferred {
    let data = call.input(0)?;
    let output = Value::new(data.elem, data.dims.clone());
    let mut rows = data.dims.clone();
    if let Some(last) = rows.last_mut() {
        *last = 1;
    }
    let statistics = Value::new(FLOAT, rows);
    Ok(vec![output.clone(), statistics.clone(), statistics, output])
}

/// An operator in which one half of the channels gates the other half.
pub(super) fn halved(call: &Call<'_>) -> Inferred {
    let data = call.input(0)?;
    let mut dims = data.dims.clone();
    match dims.last_mut() {
        Some(last) if *last % 2 == 0 => *last /= 2,
        _ => return contradiction(format!("an input of shape {dims:?} cannot be halved")),
    }
    Ok(vec![Value::new(data.elem, dims)])
}

/// An LSTM with integer weights, stored transposed: `[directions, inputs, 4 · hidden]`.
pub(super) fn quantized_recurrent(call: &Call<'_>) -> Inferred {
    let (input, recurrence) = (call.input(0)?, call.input(2)?);
    let (&[steps, batch, _], &[directions, hidden, _]) = (input.dims.as_slice(), recurrence.dims.as_slice())
    else {
        return contradiction(format!("{:?} and {:?} are not of rank 3", input.dims, recurrence.dims));
    };
    let last = Value::new(input.elem, vec![directions, batch, hidden]);
    Ok(vec![Value::new(input.elem, vec![steps, directions, batch, hidden]), last.clone(), last])
}

/// Products of a mixture-of-experts layer: the inputs that are weights, and the numbers that determine the work.
pub(in super::super) struct Experts {
    /// Inputs with weights, biases, scales and zero points; every token reads its experts' part.
    pub(in super::super) weights: std::ops::Range<usize>,
    /// Number of experts.
    count: f64,
    /// Rows of the input, each routed to `chosen` experts.
    tokens: f64,
    chosen: f64,
    /// Multiply-adds of a token in one expert.
    products: f64,
}

impl Experts {
    pub(in super::super) fn from_call(call: &Call<'_>) -> Option<Experts> {
        let (first, second, third) = match call.kind() {
            "MoE" => (2, 4, 6),
            "QMoE" => (2, 5, 8),
            _ => return None,
        };
        let (&hidden, rows) = call.optional(0)?.dims.split_last()?;
        let up = call.optional(first)?.dims.as_slice();
        let &[count, made, _] = up else { return None };
        call.optional(second)?;
        // The gate is a separate matrix, part of the first matrix, or absent.
        let inner = if call.int("swiglu_fusion").unwrap_or(0) > 0 { made as f64 / 2.0 } else { made as f64 };
        let third = if call.optional(third).is_some() { inner } else { 0.0 };
        let chosen = call.size("k").unwrap_or(1).min(count) as f64;
        Some(Experts {
            weights: 2..if call.kind() == "MoE" { 8 } else { 14 },
            count: count as f64,
            tokens: super::super::work::elements(rows),
            chosen,
            products: hidden as f64 * (made as f64 + third + inner),
        })
    }

    /// FLOP of the products: for every token, those of all experts that it chooses.
    pub(in super::super) fn flop(&self) -> f64 {
        2.0 * self.tokens * self.chosen * self.products
    }

    /// Fraction of the experts that no token can choose.
    pub(in super::super) fn unread(&self) -> f64 {
        (1.0 - self.tokens * self.chosen / self.count.max(1.0)).max(0.0)
    }
}
