//! Runs a plan on this machine as a pipeline of processes, and measures operators and transfers.
//!
//! The models are ONNX, and ONNX Runtime executes them: its shared library is loaded at run time ([`library`]). A model
//! is cut at the boundaries of the plan ([`cut`]), and every device becomes a process on a core of its own. The calling
//! program starts its own executable as these processes, which call [`worker::run`].
//!
//! ```text
//! model + placement → segments → sub-models on disk → one process per device → times
//! ```
//!
//! Processes exchange tensors over TCP on the loopback interface ([`link`]), and lines of JSON with the process that
//! started them ([`protocol`]). A process that dies, fails or hangs ends the run: [`pipeline`] stops the others.

mod children;
pub mod code;
pub mod cut;
pub mod error;
mod kernels;
pub mod library;
pub mod link;
pub mod pipeline;
pub mod profile;
pub mod protocol;
mod session;
mod stage;
mod tensor;
pub mod weights;
pub mod worker;

pub use error::{Result, RunError};
