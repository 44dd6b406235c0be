//! In the place of the kernel in a build without the feature `cuda`: it says so.

use candle_core::{CudaStorage, Error, Layout, Result};

use super::matrix::Matrix;
use super::operation::Reduction;

/// Copies on GPUs, of which there are none.
#[derive(Debug, Default)]
pub(super) struct Copies {}

/// # Errors
/// Always.
pub(super) fn reduce(_: &Matrix, _: Reduction, _: &CudaStorage, _: &Layout, _: usize) -> Result<CudaStorage> {
    Err(Error::Msg("the learned policy was built without its feature `cuda`".into()))
}
