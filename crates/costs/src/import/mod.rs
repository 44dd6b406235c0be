//! Measurements in the formats of the programs that made them.

#[cfg(feature = "parquet")]
pub mod aiconfigurator;
pub mod chakra;
mod class;
#[cfg(feature = "parquet")]
mod columns;
mod detect;
pub mod kineto;
pub mod native;
pub mod nccl_tests;
pub mod onnxruntime;
mod samples;
pub(crate) mod trace;
mod transfers;

pub use class::class_of;
pub use detect::{Format, Options, detect, import};
pub(crate) use samples::median;
