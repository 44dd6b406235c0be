//! Kernels by their sizes, and the group whose networks predict them.

use stagewright_core::document::{KernelDocument, KernelKind, Precision};
use stagewright_core::kernel;

/// A kernel that works on each row of a matrix, or on each element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rowwise {
    /// Sum of two tensors.
    Add,
    /// Product of two tensors, element by element.
    Multiply,
    /// Quotient of two tensors.
    Divide,
    /// Power of two tensors.
    Power,
    /// Sum with a number.
    AddNumber,
    /// Product with a number.
    MultiplyNumber,
    /// Quotient by a number.
    DivideNumber,
    /// Power by a number.
    PowerNumber,
    /// Hyperbolic tangent.
    Tanh,
    /// Rectifier.
    Relu,
    /// Gaussian error linear unit.
    Gelu,
    /// Normalisation of rows.
    LayerNormalisation,
    /// Softmax of rows.
    Softmax,
}

impl Rowwise {
    /// All kernels.
    pub const ALL: [Rowwise; 13] = [
        Rowwise::Add,
        Rowwise::Multiply,
        Rowwise::Divide,
        Rowwise::Power,
        Rowwise::AddNumber,
        Rowwise::MultiplyNumber,
        Rowwise::DivideNumber,
        Rowwise::PowerNumber,
        Rowwise::Tanh,
        Rowwise::Relu,
        Rowwise::Gelu,
        Rowwise::LayerNormalisation,
        Rowwise::Softmax,
    ];

    /// Whether an element depends on no other element.
    pub fn is_elementwise(self) -> bool {
        !matches!(self, Rowwise::LayerNormalisation | Rowwise::Softmax)
    }

    /// Whether there are two operands.
    pub fn is_binary(self) -> bool {
        matches!(self, Rowwise::Add | Rowwise::Multiply | Rowwise::Divide | Rowwise::Power)
    }

    /// FLOP of an element, as the roofline counts them.
    pub fn flop(self) -> f64 {
        match self {
            Rowwise::LayerNormalisation => 6.0,
            Rowwise::Softmax => 5.0,
            _ => 1.0,
        }
    }
}

/// A kernel by its sizes.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A matrix product or fused attention.
    Library(KernelDocument),
    /// A kernel over rows or elements.
    Rows {
        /// The operation.
        operation: Rowwise,
        /// Number of rows.
        rows: f64,
        /// Elements of a row.
        columns: f64,
    },
    /// A convolution of square images.
    Convolution {
        /// Number of images.
        images: f64,
        /// Channels of an input.
        inputs: f64,
        /// Channels of an output.
        outputs: f64,
        /// Rows and columns of the kernel.
        kernel: f64,
        /// Rows and columns of an input.
        size: f64,
        /// Stride.
        stride: f64,
        /// Padding on each side.
        padding: f64,
    },
}

/// Kernels that the same networks predict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Matrix products at 16 and 8 bits.
    Products,
    /// Matrix products in single precision.
    SingleProducts,
    /// Fused attention.
    Attention,
    /// Kernels over rows and elements.
    Rows,
    /// Convolutions.
    Convolutions,
}

impl Group {
    /// All groups.
    pub const ALL: [Group; 5] =
        [Group::Products, Group::SingleProducts, Group::Attention, Group::Rows, Group::Convolutions];

    /// Name in a checkpoint.
    pub fn name(self) -> &'static str {
        match self {
            Group::Products => "products",
            Group::SingleProducts => "single-products",
            Group::Attention => "attention",
            Group::Rows => "rows",
            Group::Convolutions => "convolutions",
        }
    }

    /// The group of a name.
    pub fn named(name: &str) -> Option<Group> {
        Group::ALL.into_iter().find(|group| group.name() == name)
    }
}

impl Shape {
    /// The group of a kernel at a precision; `None` if no network predicts it.
    pub fn group(&self, precision: Precision) -> Option<Group> {
        match (self, precision) {
            (Shape::Library(KernelDocument::Product { .. }), Precision::Fp32) => Some(Group::SingleProducts),
            (
                Shape::Library(KernelDocument::Product { .. }),
                Precision::Bf16 | Precision::Fp16 | Precision::Fp8,
            ) => Some(Group::Products),
            (Shape::Library(KernelDocument::Attention { .. }), Precision::Bf16 | Precision::Fp16) => {
                Some(Group::Attention)
            }
            (Shape::Rows { .. }, Precision::Fp32) => Some(Group::Rows),
            (Shape::Convolution { .. }, Precision::Fp32) => Some(Group::Convolutions),
            _ => None,
        }
    }

    /// What distinguishes the measurements of a device within a group: the precision of a product, the kind of an
    /// attention. fp16 counts as bf16.
    pub fn variant(&self, precision: Precision) -> &'static str {
        match self {
            Shape::Library(document @ KernelDocument::Attention { .. }) => match kernel::kind(document) {
                KernelKind::DecodeAttention => "decode",
                KernelKind::CausalAttention => "causal",
                _ => "full",
            },
            _ => match precision {
                Precision::Fp8 => "fp8",
                Precision::Fp32 => "fp32",
                _ => "bf16",
            },
        }
    }

    /// Whether every size is positive and finite, and none is beyond 10^15.
    pub fn is_valid(&self) -> bool {
        let is_size = |size: &f64| *size > 0.0 && *size <= 1e15;
        match self {
            Shape::Library(KernelDocument::Product { batch, m, n, k }) => {
                [batch, m, n, k].into_iter().all(is_size)
            }
            Shape::Library(KernelDocument::Attention {
                batch,
                queries,
                keys,
                heads,
                kv_heads,
                head_dim,
                ..
            }) => [batch, queries, keys, heads, kv_heads, head_dim].into_iter().all(is_size),
            Shape::Rows { rows, columns, .. } => [rows, columns].into_iter().all(is_size),
            Shape::Convolution { images, inputs, outputs, kernel, size, stride, padding } => {
                [images, inputs, outputs, kernel, size, stride].into_iter().all(is_size)
                    && *padding >= 0.0
                    && *padding <= 1e6
                    && size + 2.0 * padding >= *kernel
            }
        }
    }
}
