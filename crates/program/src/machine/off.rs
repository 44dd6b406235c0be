//! Stub of the `machine` module for builds that cannot run models.

use stagewright::code::U010;

use crate::args::{ProfileArguments, RunArguments};
use crate::error::{CliError, Result};
use crate::exit::Exit;

fn absent() -> CliError {
    CliError::new(U010, "this build cannot run models")
        .help("build with the feature `onnxruntime`, which is on by default")
}

/// # Errors
/// Always.
pub(crate) fn run(_: &RunArguments) -> Result<Exit> {
    Err(absent())
}

/// # Errors
/// Always.
pub(crate) fn profile(_: &ProfileArguments) -> Result<Exit> {
    Err(absent())
}

/// Fails, because no command of this build starts worker processes.
pub(crate) fn worker() -> Exit {
    Exit::Violation
}
