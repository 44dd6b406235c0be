//! Errors of training.

use stagewright_core::code::Code;
use thiserror::Error;

use crate::checkpoint::CheckpointError;
use crate::code::{K009, K010};

/// An error that ends training.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A failed tensor operation.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
    /// An unusable state.
    #[error(transparent)]
    State(#[from] CheckpointError),
    /// Non-finite gradients.
    #[error("training diverged at step {step}: the gradients are not finite")]
    Diverged {
        /// Number of steps taken before the one that failed.
        step: u64,
    },
}

impl TrainError {
    /// Stable error code.
    pub fn code(&self) -> Code {
        match self {
            TrainError::Tensor(_) => K009,
            TrainError::State(error) => return error.code(),
            TrainError::Diverged { .. } => K010,
        }
        .into()
    }

    /// A hint for fixing the error.
    pub fn help(&self) -> &'static str {
        match self {
            TrainError::Tensor(_) => "use smaller batches or a smaller network: memory may be insufficient",
            TrainError::State(error) => error.help(),
            TrainError::Diverged { .. } => "lower the learning rate and retrain",
        }
    }
}
