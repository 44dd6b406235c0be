//! Measurements in the formats of the programs that made them.

pub mod aiconfigurator;
pub mod chakra;
mod class;
mod columns;
mod detect;
pub mod kineto;
pub mod native;
pub mod nccl_tests;
pub mod onnxruntime;
mod samples;
mod trace;
mod transfers;

pub use class::class_of;
pub use detect::{Format, Options, detect, import};
