//! Operator constructors: the cost, the outputs and the gradient rule of each kind.

mod contraction;
mod convolution;
mod data;
mod normalisation;
mod pointwise;

pub(crate) use contraction::bilinear;
pub(crate) use convolution::{Conv, Window};
pub(crate) use data::Loss;
pub(crate) use normalisation::normalise;
pub(crate) use pointwise::Activation;
