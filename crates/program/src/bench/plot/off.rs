//! Stub of the plots for builds without them.

use std::path::Path;

use stagewright::code::U010;

use super::super::case::Row;
use super::super::summary::Summary;
use crate::error::{CliError, Result};

/// # Errors
/// Always.
pub(in crate::bench) fn write(_: &Path, _: &str, _: &[Row], _: &[Summary]) -> Result<()> {
    Err(CliError::new(U010, "this build draws no plots")
        .at("--plots")
        .help("build with the feature `plots`, which is on by default"))
}
