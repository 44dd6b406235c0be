//! Errors of the command line.

pub(crate) use stagewright::failure::{Failure as CliError, Result};
