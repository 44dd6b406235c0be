//! Shape inference: shapes of a node's outputs from those of its inputs.
//!
//! The rules are those of the ONNX operator specification (docs/Operators.md of the onnx project), up to the
//! current operator set, for the operators that convolutional networks, transformers and recurrent networks
//! consist of. If shapes are computed inside the graph (`Shape`, `Gather`, `Concat`, `Reshape`, as exporters
//! write them), contents are propagated too, in [`fold`].

mod attention;
mod fold;
mod fused;
mod layout;
mod matrix;
mod reshape;
mod window;

pub(super) use attention::{attention, is_attention};
pub(super) use fused::Experts;
pub(super) use matrix::letters;

use super::call::{Call, Inferred, contradiction, unknown};
use super::proto::tensor_proto::DataType;
use super::value::{self, LARGEST_RANK, MAX_CONTENT, Value, is_integer, of_tensor};
use crate::names::is_among;

/// Infers all outputs that the operator defines; further outputs are unknown.
pub(super) fn infer(call: &Call<'_>) -> Inferred {
    match call.kind() {
        "Conv" | "ConvInteger" | "QLinearConv" | "ConvTranspose" | "FusedConv" | "NhwcConv"
        | "NhwcFusedConv" => window::convolution(call),
        "MaxPool" | "AveragePool" | "LpPool" | "NhwcMaxPool" | "QLinearAveragePool" => window::pool(call),
        "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" | "QLinearGlobalAveragePool" => {
            window::global_pool(call)
        }
        "Gemm" | "FusedGemm" | "GemmFloat8" => matrix::gemm(call),
        "QGemm" => fused::quantized_gemm(call),
        "MatMul" | "MatMulInteger" | "MatMulInteger16" | "QLinearMatMul" | "GemmFastGelu" => {
            matrix::product(call)
        }
        "FusedMatMul" | "FusedMatMulActivation" | "TransposeMatMul" => fused::fused_product(call),
        "MatMulIntegerToFloat" | "DynamicQuantizeMatMul" => fused::scaled_product(call),
        "MatMulNBits" | "MatMulBnb4" => fused::few_bits(call),
        _ if is_attention(call) => Ok(attention(call)?.outputs),
        "PagedAttention" => attention::paged(call),
        "TensorScatter" => attention::scattered(call),
        "Einsum" => matrix::einsum(call),
        "LSTM" | "GRU" | "RNN" => matrix::recurrent(call),
        "DynamicQuantizeLSTM" => fused::quantized_recurrent(call),
        "EmbedLayerNormalization" | "QEmbedLayerNormalization" => fused::embeddings(call),
        "SkipLayerNormalization" | "SkipSimplifiedLayerNormalization" => fused::skip_normalization(call),
        "SkipGroupNorm" => same_twice(call),
        "BiasSplitGelu" => fused::halved(call),
        "SwiGLU" if call.optional(1).is_none() => fused::halved(call),
        "GatherBlockQuantized" => fused::gather_blocks(call),
        "QLinearAdd" | "QLinearMul" | "QLinearWhere" => fused::quantized_broadcast(call),
        "QLinearConcat" => fused::quantized_concat(call),
        "QLinearReduceMean" => layout::reduce(call),
        "BatchNormalization" => batch_normalization(call),
        "LayerNormalization" | "RMSNormalization" | "SimplifiedLayerNormalization" => {
            layer_normalization(call)
        }
        "Dropout" => dropout(call),
        "Cast" => cast(call),
        "CastLike" => same(call.input(0)?, call.input(1)?.elem),
        "QuantizeLinear" => quantize(call),
        "DynamicQuantizeLinear" => dynamic_quantize(call),
        "EyeLike" | "RandomNormalLike" | "RandomUniformLike" => made_like(call),
        "DequantizeLinear" => same(call.input(0)?, call.input(1)?.elem),
        "Not" | "IsNaN" | "IsInf" => Ok(vec![fold::unary(call, call.input(0)?, DataType::Bool as i32)]),
        "Shape" => reshape::shape(call),
        "Size" => size(call),
        "Constant" => reshape::constant(call),
        "ConstantOfShape" => reshape::constant_of_shape(call),
        "Range" => reshape::range(call),
        "Reshape" => reshape::reshape(call),
        "Flatten" => reshape::flatten(call),
        "Squeeze" => reshape::squeeze(call),
        "Unsqueeze" => reshape::unsqueeze(call),
        "Transpose" => layout::transpose(call),
        "Concat" => layout::concat(call),
        "Split" => layout::split(call),
        // A sequence has the bytes of all its parts; the size of one part is declared at its reader.
        "SplitToSequence" => Ok(vec![Value::new(call.input(0)?.elem, call.input(0)?.dims.clone())]),
        "Slice" => layout::slice(call),
        "Gather" => layout::gather(call),
        "GatherElements" => Ok(vec![Value::new(call.input(0)?.elem, call.input(1)?.dims.clone())]),
        "GatherND" => layout::gather_nd(call),
        "Expand" => layout::expand(call),
        "Tile" => layout::tile(call),
        "Pad" => layout::pad(call),
        "Resize" | "Upsample" => layout::resize(call),
        "DepthToSpace" | "SpaceToDepth" => layout::depth_to_space(call),
        "OneHot" => layout::one_hot(call),
        "TopK" => layout::top_k(call),
        "ArgMax" | "ArgMin" => layout::arg_max(call),
        "ReduceSumInteger" => reduce_integers(call),
        kind if kind.starts_with("Reduce") => layout::reduce(call),
        kind if is_among(kind, LIKE_FIRST_INPUT) => {
            let first = call.input(0)?;
            Ok(vec![fold::unary(call, first, first.elem)])
        }
        kind if is_among(kind, BROADCAST) => Ok(vec![fold::broadcast(call)?]),
        kind => unknown(format!("shape inference does not support the operator `{kind}`")),
    }
}

/// Operators whose output has the shape and type of the first input.
const LIKE_FIRST_INPUT: &str = "\
    Abs Acos Acosh Asin Asinh Atan Atanh BiasAdd BiasGelu BiasSoftmax BitwiseNot Ceil Celu Clip Cos Cosh \
    CumProd CumSum Elu Erf Exp FastGelu Floor Gelu GroupNorm GroupNormalization HardSigmoid HardSwish \
    Hardmax Identity InstanceNormalization LRN LeakyRelu Log LogSoftmax LpNormalization \
    MeanVarianceNormalization Mish MoE Neg QLinearLeakyRelu QLinearSigmoid QLinearSoftmax QMoE QuickGelu \
    Reciprocal Relu ReverseSequence RotaryEmbedding Round Scatter ScatterElements ScatterND Selu Shrink \
    Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt SwiGLU Swish Tan Tanh ThresholdedRelu Trilu";

/// Operators whose output has the shape that the inputs broadcast to.
const BROADCAST: &str = "\
    Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max \
    Mean Min Mod Mul Or PRelu Pow Sub Sum Where Xor";

/// Two outputs with shape and type of the first input.
fn same_twice(call: &Call<'_>) -> Inferred {
    let first = call.input(0)?;
    let output = Value::new(first.elem, first.dims.clone());
    Ok(vec![output.clone(), output])
}

/// The shape and content of a value under another element type.
fn same(value: &Value, elem: i32) -> Inferred {
    Ok(vec![Value { elem, ..value.clone() }])
}

fn cast(call: &Call<'_>) -> Inferred {
    let Some(to) = call.int("to").and_then(|to| i32::try_from(to).ok()) else {
        return contradiction("the attribute `to` is missing");
    };
    let from = call.input(0)?;
    let round = |number: &f64| if value::is_integer(to) { number.trunc() } else { *number };
    let content = from.content.as_ref().map(|content| content.iter().map(round).collect());
    Ok(vec![Value::new(to, from.dims.clone()).with(content)])
}

fn quantize(call: &Call<'_>) -> Inferred {
    let elem = call.optional(2).map_or(DataType::Uint8 as i32, |zero| zero.elem);
    same(call.input(0)?, elem)
}

/// Outputs: the quantised input, its scale and its zero point.
fn dynamic_quantize(call: &Call<'_>) -> Inferred {
    let scale = Value::new(DataType::Float as i32, Vec::new());
    let zero = Value::new(DataType::Uint8 as i32, Vec::new());
    Ok(vec![Value::new(zero.elem, call.input(0)?.dims.clone()), scale, zero])
}

/// A matrix of the shape of the input, and of the input's type unless an attribute gives another.
fn made_like(call: &Call<'_>) -> Inferred {
    let like = call.input(0)?;
    let elem = call.int("dtype").and_then(|elem| i32::try_from(elem).ok()).unwrap_or(like.elem);
    Ok(vec![Value::new(elem, like.dims.clone())])
}

/// Number of elements.
fn size(call: &Call<'_>) -> Inferred {
    let size = super::work::elements(&call.input(0)?.dims);
    Ok(vec![Value::new(DataType::Int64 as i32, Vec::new()).with(Some(vec![size]))])
}

/// `ReduceSumInteger`: sums integers into `int32`, whatever the type of the input.
fn reduce_integers(call: &Call<'_>) -> Inferred {
    let wide = |value: Value| Value::new(DataType::Int32 as i32, value.dims);
    Ok(layout::reduce(call)?.into_iter().map(wide).collect())
}

fn dropout(call: &Call<'_>) -> Inferred {
    let value = call.input(0)?;
    let mask = Value::new(DataType::Bool as i32, value.dims.clone());
    Ok(vec![value.clone(), mask])
}

/// Outputs: the normalised input, and statistics by channel.
fn batch_normalization(call: &Call<'_>) -> Inferred {
    let value = call.input(0)?;
    let mut outputs = vec![Value::new(value.elem, value.dims.clone())];
    for index in [3, 4, 3, 4] {
        let statistics = call.input(index)?;
        outputs.push(Value::new(statistics.elem, statistics.dims.clone()));
    }
    Ok(outputs)
}

/// Outputs: the normalised input, and statistics of each normalised part.
fn layer_normalization(call: &Call<'_>) -> Inferred {
    let value = call.input(0)?;
    let axis = call.axis(call.int("axis").unwrap_or(-1), value.rank())?;
    let mut kept = value.dims.clone();
    kept[axis..].fill(1);
    let statistics = Value::new(DataType::Float as i32, kept);
    Ok(vec![Value::new(value.elem, value.dims.clone()), statistics.clone(), statistics])
}
