//! Tensors and their shapes.

use stagewright_core::graph::TensorId;

/// Maximum number of dimensions of a tensor.
const RANK: usize = 5;

/// Dimensions of a tensor: images are `[batch, channels, height, width]`, sequences `[batch, steps,
/// width]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shape {
    dims: [u64; RANK],
    rank: usize,
}

impl<const N: usize> From<[u64; N]> for Shape {
    fn from(given: [u64; N]) -> Shape {
        const { assert!(N >= 1 && N <= RANK) };
        let mut dims = [1; RANK];
        dims[..N].copy_from_slice(&given);
        Shape { dims, rank: N }
    }
}

impl Shape {
    /// Number of elements.
    pub(crate) fn elements(&self) -> f64 {
        self.dims[..self.rank].iter().map(|&dim| dim as f64).product()
    }

    /// Exact number of elements, which cannot overflow because sizes are limited.
    fn count(&self) -> u128 {
        self.dims[..self.rank].iter().map(|&dim| u128::from(dim)).product()
    }

    /// The dimension at an index.
    pub(crate) fn dim(&self, axis: usize) -> u64 {
        self.dims[axis]
    }

    /// The last dimension.
    pub(crate) fn last(&self) -> u64 {
        self.dims[self.rank - 1]
    }

    /// Replaces the last dimension.
    pub(crate) fn with_last(self, last: u64) -> Shape {
        self.with(self.rank - 1, last)
    }

    /// Replaces the dimension at an index.
    pub(crate) fn with(mut self, axis: usize, dim: u64) -> Shape {
        self.dims[axis] = dim;
        self
    }
}

/// An output of an operator, viewed with a shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) value: TensorId,
    pub(crate) shape: Shape,
}

impl Tensor {
    /// Views the same data with another shape, free of cost.
    pub(crate) fn view(self, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        debug_assert_eq!(shape.count(), self.shape.count());
        Tensor { shape, ..self }
    }

    /// The dimension at an index.
    pub(crate) fn dim(&self, axis: usize) -> u64 {
        self.shape.dim(axis)
    }

    /// The last dimension.
    pub(crate) fn last(&self) -> u64 {
        self.shape.last()
    }

    /// Number of elements.
    pub(crate) fn elements(&self) -> f64 {
        self.shape.elements()
    }
}
