//! Work of an operator from shapes, shared by the importers of formats without times.
//!
//! A multiply-add counts as two FLOP, an elementwise operation as one per element. Sizes are `f64`, since
//! shapes come from files: a product of dimensions cannot overflow into nonsense.

/// Largest plausible time, size or amount of work; below it no sum over a model overflows.
const LARGEST: f64 = 1e30;

/// A constant of at most this many bytes that is not a weight is a kernel argument: no operator holds it.
pub(super) const ARGUMENT_BYTES: f64 = 1024.0;

/// Whether a number is a valid time, size or amount of work.
pub(super) fn is_amount(number: f64) -> bool {
    (0.0..=LARGEST).contains(&number)
}

/// Number of elements of a shape; 1 for a scalar.
pub(super) fn elements(dims: &[u64]) -> f64 {
    dims.iter().map(|&dim| dim as f64).product()
}

/// FLOP of a convolution: every output element sums over a window of every input channel of its group.
/// `kernel` is the spatial shape of the window. For a transposed convolution, pass the input elements instead
/// of the output elements and the output channels of a group instead of its input channels.
pub(super) fn convolution(outputs: f64, channels_per_group: u64, kernel: &[u64]) -> f64 {
    2.0 * outputs * channels_per_group as f64 * elements(kernel)
}

/// FLOP of a matrix product with an inner dimension.
pub(super) fn product(outputs: f64, inner: u64) -> f64 {
    2.0 * outputs * inner as f64
}

/// FLOP per output element of an operator that treats all elements alike, by its name in lower case without
/// separators; `None` for any other operator.
pub(super) fn per_element(kind: &str) -> Option<f64> {
    let flop = match kind {
        // Data movement or renaming.
        "assign" | "broadcast" | "cast" | "castlike" | "concat" | "convert" | "convertlike"
        | "depthtospace" | "dropout" | "expand" | "flatten" | "gather" | "gatherelements" | "gathernd"
        | "identity" | "nop" | "onehot" | "pad" | "range" | "readvalue" | "reshape" | "reversesequence"
        | "result" | "scatterelements" | "scatternd" | "shape" | "shapeof" | "shufflechannels" | "size"
        | "slice" | "spacetodepth" | "split" | "squeeze" | "stridedslice" | "tile" | "transpose"
        | "tensorscatter" | "trilu" | "unsqueeze" | "variadicsplit" | "constantofshape" | "eyelike"
        | "nonzero" | "qlinearconcat" | "scatter" => 0.0,
        // One operation.
        "abs" | "add" | "and" | "bitshift" | "ceil" | "ceiling" | "divide" | "div" | "equal" | "exp"
        | "floor" | "greater" | "greaterequal" | "greaterorequal" | "isinf" | "isnan" | "less"
        | "lessequal" | "lessorequal" | "log" | "logicaland" | "logicalnot" | "logicalor" | "max"
        | "maximum" | "min" | "minimum" | "mod" | "multiply" | "mul" | "neg" | "negative" | "not"
        | "notequal" | "or" | "pow" | "power" | "reciprocal" | "relu" | "round" | "select" | "sign"
        | "sqrt" | "sub" | "subtract" | "sum" | "where" | "xor" | "cumsum" | "mean" | "sin" | "cos"
        | "tan" | "sinh" | "cosh" | "asin" | "acos" | "atan" | "asinh" | "acosh" | "atanh" | "bitwiseand"
        | "bitwisenot" | "bitwiseor" | "bitwisexor" | "cumprod" | "qlinearadd" | "qlinearmul"
        | "qlinearwhere" => 1.0,
        // A comparison or a shift, and a multiplication.
        "clamp"
        | "clip"
        | "dequantizelinear"
        | "leakyrelu"
        | "prelu"
        | "quantizelinear"
        | "thresholdedrelu"
        | "batchnormalization"
        | "batchnorminference"
        | "squareddifference"
        | "fakequantize"
        | "shrink"
        | "biasadd"
        | "gatherblockquantized"
        | "qlinearleakyrelu" => 2.0,
        // Two products and a sum.
        "rotaryembedding" => 3.0,
        // A transcendental function with a few operations around it.
        "celu" | "elu" | "erf" | "gelu" | "fastgelu" | "quickgelu" | "biasgelu" | "hardsigmoid"
        | "hardswish" | "hswish" | "mish" | "selu" | "sigmoid" | "softplus" | "softsign" | "swish"
        | "tanh" | "biassplitgelu" | "swiglu" | "qlinearsigmoid" => 4.0,
        // Maximum, difference, exponential, sum, quotient.
        "softmax" | "logsoftmax" | "hardmax" | "biassoftmax" | "qlinearsoftmax" => 5.0,
        // Minimum, maximum, quotient and shift.
        "dynamicquantizelinear" => 4.0,
        // Mean, variance, difference, quotient, scale and shift.
        "groupnorm"
        | "groupnormalization"
        | "instancenormalization"
        | "layernormalization"
        | "meanvariancenormalization"
        | "mvn"
        | "skipgroupnorm"
        | "skiplayernormalization" => 8.0,
        "lpnormalization"
        | "normalizel2"
        | "rmsnormalization"
        | "simplifiedlayernormalization"
        | "skipsimplifiedlayernormalization"
        | "rms" => 5.0,
        _ => return None,
    };
    Some(flop)
}
