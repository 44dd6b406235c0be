//! Operator constructors: what each kind costs, makes, and needs for its gradient.

mod contraction;
mod convolution;
mod data;
mod normalisation;
mod pointwise;

pub(crate) use convolution::{Conv, Window};
pub(crate) use data::Loss;
pub(crate) use pointwise::Activation;
