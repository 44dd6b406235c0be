//! Replaces the CUDA kernel in builds without the feature `cuda`: every call fails.

use candle_core::{CudaStorage, Error, Layout, Result};

use super::super::matrix::Matrix;
use super::super::reduction::Reduction;

/// Copies on GPUs: always empty.
#[derive(Debug, Default)]
pub(in super::super) struct Copies {}

/// # Errors
/// Always.
pub(in super::super) fn reduce(
    _: &Matrix,
    _: Reduction,
    _: &CudaStorage,
    _: &Layout,
    _: usize,
) -> Result<CudaStorage> {
    Err(Error::Msg("the learned policy was built without its feature `cuda`".into()))
}
