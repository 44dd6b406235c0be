//! Errors of runs and measurements.

use std::io;
use std::path::PathBuf;

use stagewright_core::code::Code;
use thiserror::Error;

use crate::code::H::*;

/// The result of an operation of this crate.
pub type Result<T, E = RunError> = std::result::Result<T, E>;

/// A model that cannot be run, or a run that failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// No shared library of ONNX Runtime was found.
    #[error("ONNX Runtime was not found")]
    NoLibrary,
    /// The library cannot be used.
    #[error("{} cannot be used as ONNX Runtime: {cause}", path.display())]
    BadLibrary {
        /// The library.
        path: PathBuf,
        /// The cause.
        cause: String,
    },
    /// A model that cannot be cut at the operators of its graph.
    #[error("the model cannot be cut into stages: {0}")]
    NotCuttable(String),
    /// A node whose version of an operator set is not the model's: a file has one version for all its nodes.
    #[error(
        "the node `{node}` is of a function with version {version} of its operator set, and the model has another one"
    )]
    OtherOperatorSet {
        /// Name of the node.
        node: String,
        /// Version that the function imports.
        version: i64,
    },
    /// Weights that are missing from the file named by the model.
    #[error("the weights `{tensor}` are not there: {cause}")]
    NoWeights {
        /// Name of the tensor.
        tensor: String,
        /// The cause.
        cause: String,
    },
    /// A plan or a model that cannot be run as processes.
    #[error("this cannot be run here: {0}")]
    NotRunnable(String),
    /// A process that ended early.
    #[error("the process of {device} {how}")]
    Died {
        /// Device of the process.
        device: String,
        /// How the process ended, as in `was killed by signal 9`, with the end of its standard error.
        how: String,
    },
    /// A process without progress.
    #[error("no progress for {seconds} s: waiting for {device}")]
    Hung {
        /// The devices without progress.
        device: String,
        /// The limit.
        seconds: u64,
    },
    /// An error that a process reported.
    #[error("the process of {device} failed: {message}")]
    Failed {
        /// Device of the process.
        device: String,
        /// Message of the process.
        message: String,
    },
    /// Outputs that are not those of the whole model.
    #[error("output `{output}` of the pipeline differs from that of the whole model: {difference}")]
    WrongOutput {
        /// Name of the output.
        output: String,
        /// The difference.
        difference: String,
    },
    /// A file or pipe that cannot be read or written.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The cause.
        source: io::Error,
    },
    /// The run was interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl RunError {
    /// Stable error code.
    pub fn code(&self) -> Code {
        match self {
            RunError::NoLibrary => H001,
            RunError::BadLibrary { .. } => H002,
            RunError::NotCuttable(_) => H003,
            RunError::NoWeights { .. } => H004,
            RunError::NotRunnable(_) => H005,
            RunError::Died { .. } => H006,
            RunError::Hung { .. } => H007,
            RunError::Failed { .. } => H008,
            RunError::WrongOutput { .. } => H009,
            RunError::Io { .. } => H010,
            RunError::Interrupted => H011,
            RunError::OtherOperatorSet { .. } => H012,
        }
        .into()
    }

    /// Suggested fix.
    pub fn help(&self) -> &'static str {
        match self {
            RunError::NoLibrary => {
                "install it with `pip install onnxruntime`, or name its library with --onnxruntime FILE or \
                 ORT_DYLIB_PATH"
            }
            RunError::BadLibrary { .. } => "name the shared library of ONNX Runtime 1.17 or later",
            RunError::NotCuttable(_) => {
                "let the exporting program simplify the model, or plan a file without it"
            }
            RunError::OtherOperatorSet { .. } => {
                "inline the functions with: python3 -c \"import onnx, onnx.inliner; \
                 onnx.save(onnx.inliner.inline_local_functions(onnx.load('MODEL'), convert_version=True), \
                 'inlined.onnx')\""
            }
            RunError::NoWeights { .. } => "put the file beside the model, or give --random-weights",
            RunError::NotRunnable(_) => "plan for as many devices as there are cores, without replicas",
            RunError::Died { .. } => "if it was killed, it may have run out of memory: use a smaller batch",
            RunError::Hung { .. } => "give a longer --patience if the model is that slow",
            RunError::Failed { .. } => "check that ONNX Runtime runs the whole model",
            RunError::WrongOutput { .. } => "please report it, with the model and the plan",
            RunError::Io { .. } => {
                "check the free space and the permissions of the temporary folder (TMPDIR)"
            }
            RunError::Interrupted => "run it again",
        }
    }

    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> RunError {
        let what = what.into();
        move |source| RunError::Io { what, source }
    }
}
