//! Roles of operators in kernels, determined by the kind of operator.
//!
//! Names of kinds come from several frameworks, so they are compared in lower case and without separators.

/// Role of an operator in a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A product or a convolution: the head of a kernel, which elementwise operators may follow.
    Product,
    /// A pooling, which fuses like a product.
    Window,
    /// A row operator: a normalisation, a softmax, a sum along the last axis.
    Row,
    /// An elementwise operator.
    Element,
    /// A view, or a reordering that the operator that reads it handles: no kernel.
    Free,
    /// An operator in a kernel of its own.
    Apart,
}

/// Operator kinds of each role except [`Role::Apart`]; see [`role`].
const ROLES: [(Role, &str); 4] = [
    (
        Role::Product,
        "addmm attention batchmatmul bmm conv conv1d conv2d conv3d convinteger convolution convtranspose \
         decodermaskedmultiheadattention dynamicquantizematmul einsum fusedconv fusedgemm fusedmatmul \
         fusedmatmulactivation gemm gemmfastgelu gemmfloat8 groupconvolution groupqueryattention linear \
         matmul matmulbnb4 matmulinteger matmulinteger16 matmulintegertofloat matmulnbits \
         multiheadattention nhwcfusedconv packedattention packedmultiheadattention pagedattention \
         qattention qgemm qlinearconv qlinearmatmul sparseattention transposematmul fullyconnected \
         depthwiseconv2d",
    ),
    (
        Role::Window,
        "avgpool avgpool2d averagepool globalaveragepool globalmaxpool maxpool maxpool2d lppool \
         nhwcmaxpool qlinearaveragepool qlinearglobalaveragepool",
    ),
    (
        Role::Row,
        "biassoftmax embedlayernormalization groupnorm groupnormalization instancenorm \
         instancenormalization layernorm layernormalization logsoftmax lpnormalization \
         meanvariancenormalization mvn normalizel2 qembedlayernormalization qlinearsoftmax reducel2 \
         reducemax reducemean reducemin reducesum reducesumsquare rms rmsnorm rmsnormalization \
         simplifiedlayernormalization skipgroupnorm skiplayernormalization \
         skipsimplifiedlayernormalization softmax",
    ),
    (
        Role::Element,
        "abs add and batchnorm batchnorminference batchnormalization biasgelu cast castlike ceil ceiling \
         celu clamp clip convert convertlike cos dequantizelinear div divide elu equal erf exp \
         fakequantize fastgelu floor gelu greater greaterequal greaterorequal hardsigmoid hardswish hswish \
         isinf isnan leakyrelu less lessequal lessorequal log logicaland logicalnot logicalor max maximum \
         mean min minimum mish mod mul multiply neg negative not notequal or pow power prelu \
         quantizelinear quickgelu reciprocal relu round scale select selu sigmoid sign silu sin softplus \
         softsign sqrt squareddifference sub subtract sum swish tanh thresholdedrelu where xor biasadd \
         bias biassplitgelu qlinearadd qlinearleakyrelu qlinearmul qlinearsigmoid qlinearwhere swiglu",
    ),
];

/// Role of an operator kind. A reduction is taken to be along the last axis, and an operator that may be a view is
/// taken to copy; a caller that knows better overrides the role.
pub fn role(kind: &str) -> Role {
    let kind: String =
        kind.chars().filter(|c| c.is_ascii_alphanumeric()).map(|c| c.to_ascii_lowercase()).collect();
    ROLES
        .iter()
        .find(|(_, kinds)| kinds.split(' ').any(|listed| listed == kind))
        .map_or(Role::Apart, |&(role, _)| role)
}
