//! Shapes of a node's outputs from those of its inputs.
//!
//! The rules are those of the ONNX operator specification (docs/Operators.md of the onnx project), up to the
//! current operator set, for the operators that convolutional networks, transformers and recurrent networks
//! consist of. Where shapes are computed inside the graph (`Shape`, `Gather`, `Concat`, `Reshape`, as
//! exporters write them) the numbers are followed too, in [`fold`].

mod fold;
mod layout;
mod matrix;
mod reshape;
mod window;

pub(super) use matrix::letters;

use super::call::{Call, Inferred, contradiction, unknown};
use super::proto::tensor_proto::DataType;
use super::value::{self, Value};

/// The outputs of a node, as many as its operator has; further ones are not known.
pub(super) fn infer(call: &Call<'_>) -> Inferred {
    match call.kind() {
        "Conv" | "ConvInteger" | "QLinearConv" | "ConvTranspose" => window::convolution(call),
        "MaxPool" | "AveragePool" | "LpPool" => window::pool(call),
        "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" => window::global_pool(call),
        "Gemm" => matrix::gemm(call),
        "MatMul" | "MatMulInteger" | "QLinearMatMul" | "FusedMatMul" => matrix::product(call),
        "Einsum" => matrix::einsum(call),
        "LSTM" | "GRU" | "RNN" => matrix::recurrent(call),
        "BatchNormalization" => batch_normalization(call),
        "LayerNormalization" | "RMSNormalization" | "SimplifiedLayerNormalization" => {
            layer_normalization(call)
        }
        "Dropout" => dropout(call),
        "Cast" => cast(call),
        "CastLike" => same(call.input(0)?, call.input(1)?.elem),
        "QuantizeLinear" => {
            let elem = call.optional(2).map_or(DataType::Uint8 as i32, |zero| zero.elem);
            same(call.input(0)?, elem)
        }
        "DynamicQuantizeLinear" => {
            let scale = Value::new(DataType::Float as i32, Vec::new());
            let zero = Value::new(DataType::Uint8 as i32, Vec::new());
            Ok(vec![Value::new(zero.elem, call.input(0)?.dims.clone()), scale, zero])
        }
        "EyeLike" | "RandomNormalLike" | "RandomUniformLike" => {
            let like = call.input(0)?;
            let elem = call.int("dtype").and_then(|elem| i32::try_from(elem).ok()).unwrap_or(like.elem);
            Ok(vec![Value::new(elem, like.dims.clone())])
        }
        "DequantizeLinear" => same(call.input(0)?, call.input(1)?.elem),
        "Not" | "IsNaN" | "IsInf" => Ok(vec![fold::unary(call, call.input(0)?, DataType::Bool as i32)]),
        "Shape" => reshape::shape(call),
        "Size" => {
            let size = super::work::elements(&call.input(0)?.dims);
            Ok(vec![Value::new(DataType::Int64 as i32, Vec::new()).with(Some(vec![size]))])
        }
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
        // A sequence has the bytes of all its parts; how large one of them is, its reader declares.
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
        kind if kind.starts_with("Reduce") => layout::reduce(call),
        kind if is_like_first_input(kind) => {
            let first = call.input(0)?;
            Ok(vec![fold::unary(call, first, first.elem)])
        }
        kind if is_broadcast(kind) => Ok(vec![fold::broadcast(call)?]),
        kind => unknown(format!("shape inference does not know the operator `{kind}`")),
    }
}

/// Operators whose output has the shape and type of their first input.
fn is_like_first_input(kind: &str) -> bool {
    matches!(
        kind,
        "Abs"
            | "Acos"
            | "Acosh"
            | "Asin"
            | "Asinh"
            | "Atan"
            | "Atanh"
            | "BiasGelu"
            | "BitwiseNot"
            | "Ceil"
            | "Celu"
            | "Clip"
            | "Cos"
            | "Cosh"
            | "CumSum"
            | "Elu"
            | "Erf"
            | "Exp"
            | "FastGelu"
            | "Floor"
            | "Gelu"
            | "GroupNormalization"
            | "HardSigmoid"
            | "HardSwish"
            | "Hardmax"
            | "Identity"
            | "InstanceNormalization"
            | "LRN"
            | "LeakyRelu"
            | "Log"
            | "LogSoftmax"
            | "LpNormalization"
            | "MeanVarianceNormalization"
            | "Mish"
            | "Neg"
            | "QuickGelu"
            | "Reciprocal"
            | "Relu"
            | "ReverseSequence"
            | "Round"
            | "ScatterElements"
            | "ScatterND"
            | "Selu"
            | "Shrink"
            | "Sigmoid"
            | "Sign"
            | "Sin"
            | "Sinh"
            | "SkipLayerNormalization"
            | "SkipSimplifiedLayerNormalization"
            | "Softmax"
            | "Softplus"
            | "Softsign"
            | "Sqrt"
            | "Swish"
            | "Tan"
            | "Tanh"
            | "ThresholdedRelu"
            | "Trilu"
    )
}

/// Operators whose output has the shape that their inputs broadcast to.
fn is_broadcast(kind: &str) -> bool {
    matches!(
        kind,
        "Add"
            | "And"
            | "BitShift"
            | "BitwiseAnd"
            | "BitwiseOr"
            | "BitwiseXor"
            | "Div"
            | "Equal"
            | "Greater"
            | "GreaterOrEqual"
            | "Less"
            | "LessOrEqual"
            | "Max"
            | "Mean"
            | "Min"
            | "Mod"
            | "Mul"
            | "Or"
            | "PRelu"
            | "Pow"
            | "Sub"
            | "Sum"
            | "Where"
            | "Xor"
    )
}

/// The shape and content of a value under another element type.
fn same(of: &Value, elem: i32) -> Inferred {
    Ok(vec![Value { elem, ..of.clone() }])
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

fn dropout(call: &Call<'_>) -> Inferred {
    let value = call.input(0)?;
    let mask = Value::new(DataType::Bool as i32, value.dims.clone());
    Ok(vec![value.clone(), mask])
}

/// The normalised input, and statistics by channel.
fn batch_normalization(call: &Call<'_>) -> Inferred {
    let value = call.input(0)?;
    let mut outputs = vec![Value::new(value.elem, value.dims.clone())];
    for at in [3, 4, 3, 4] {
        let statistics = call.input(at)?;
        outputs.push(Value::new(statistics.elem, statistics.dims.clone()));
    }
    Ok(outputs)
}

/// The normalised input, and statistics of what was normalised together.
fn layer_normalization(call: &Call<'_>) -> Inferred {
    let value = call.input(0)?;
    let axis = call.axis(call.int("axis").unwrap_or(-1), value.rank())?;
    let mut kept = value.dims.clone();
    kept[axis..].fill(1);
    let statistics = Value::new(DataType::Float as i32, kept);
    Ok(vec![Value::new(value.elem, value.dims.clone()), statistics.clone(), statistics])
}
