//! Work of an operator from shapes, shared by the importers of formats without times.
//!
//! A multiply-add counts as two FLOP, an elementwise operation as one per element. Sizes are `f64`, since
//! shapes come from files: a product of dimensions then cannot wrap around.

use crate::names::is_among;

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

/// FLOP per output element, with the operators that take as many; see [`per_element`].
const PER_ELEMENT: [(f64, &str); 9] = [
    // Data movement or renaming.
    (
        0.0,
        "assign broadcast cast castlike concat convert convertlike depthtospace dropout expand flatten \
         gather gatherelements gathernd identity nop onehot pad range readvalue reshape reversesequence \
         result scatterelements scatternd shape shapeof shufflechannels size slice spacetodepth split \
         squeeze stridedslice tile transpose tensorscatter trilu unsqueeze variadicsplit constantofshape \
         eyelike nonzero qlinearconcat scatter",
    ),
    // One operation.
    (
        1.0,
        "abs add and bitshift ceil ceiling divide div equal exp floor greater greaterequal greaterorequal \
         isinf isnan less lessequal lessorequal log logicaland logicalnot logicalor max maximum min \
         minimum mod multiply mul neg negative not notequal or pow power reciprocal relu round select sign \
         sqrt sub subtract sum where xor cumsum mean sin cos tan sinh cosh asin acos atan asinh acosh \
         atanh bitwiseand bitwisenot bitwiseor bitwisexor cumprod qlinearadd qlinearmul qlinearwhere",
    ),
    // A comparison or a shift, and a multiplication.
    (
        2.0,
        "clamp clip dequantizelinear leakyrelu prelu quantizelinear thresholdedrelu batchnormalization \
         batchnorminference squareddifference fakequantize shrink biasadd gatherblockquantized \
         qlinearleakyrelu",
    ),
    // Two products and a sum.
    (3.0, "rotaryembedding"),
    // A transcendental function with a few operations around it.
    (
        4.0,
        "celu elu erf gelu fastgelu quickgelu biasgelu hardsigmoid hardswish hswish mish selu sigmoid \
         softplus softsign swish tanh biassplitgelu swiglu qlinearsigmoid",
    ),
    // Maximum, difference, exponential, sum, quotient.
    (5.0, "softmax logsoftmax hardmax biassoftmax qlinearsoftmax"),
    // Minimum, maximum, quotient and shift.
    (4.0, "dynamicquantizelinear"),
    // Mean, variance, difference, quotient, scale and shift.
    (
        8.0,
        "groupnorm groupnormalization instancenormalization layernormalization meanvariancenormalization \
         mvn skipgroupnorm skiplayernormalization",
    ),
    (
        5.0,
        "lpnormalization normalizel2 rmsnormalization simplifiedlayernormalization \
         skipsimplifiedlayernormalization rms",
    ),
];

/// FLOP per output element of an operator that treats all elements alike, by its name in lower case without
/// separators; `None` for any other operator.
pub(super) fn per_element(kind: &str) -> Option<f64> {
    PER_ELEMENT.iter().find(|(_, kinds)| is_among(kind, kinds)).map(|&(flop, _)| flop)
}
