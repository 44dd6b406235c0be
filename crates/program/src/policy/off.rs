//! Stub of the `policy` module for builds without the learned policy.

use std::path::Path;

use stagewright::code::U010;
use stagewright::tasks::SolverChoice;

use crate::args::{FinetuneArguments, TrainArguments};
use crate::error::{CliError, Result};
use crate::exit::Exit;

fn absent() -> CliError {
    CliError::new(U010, "this build does not include the learned policy")
        .help("build with the feature `policy`, which is on by default")
}

/// # Safety
/// No requirements: no library in this build starts threads of its own.
#[allow(unsafe_code, reason = "as with the policy")]
pub(crate) unsafe fn share_threads(_: Option<usize>) {}

/// # Safety
/// No requirements.
#[allow(unsafe_code, reason = "as with the policy")]
pub(crate) unsafe fn keep_memory() {}

pub(crate) fn has_network(_: &str) -> bool {
    false
}

/// # Errors
/// Always.
pub(crate) fn train(_: &TrainArguments, _: bool) -> Result<Exit> {
    Err(absent())
}

/// # Errors
/// Always.
pub(crate) fn finetune(_: &FinetuneArguments) -> Result<Exit> {
    Err(absent())
}

/// # Errors
/// Always.
pub(crate) fn of_checkpoint(_: &Path, _: bool, _: SolverChoice) -> Result<SolverChoice> {
    Err(absent())
}
