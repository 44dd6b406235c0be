//! `exporter`: a script for a framework whose models are programs, not files.

use stagewright::formats::torch;

use super::args::{ExporterArguments, FrameworkArgument};
use super::error::CliError;
use super::exit::Exit;
use super::output;

pub(crate) fn run(arguments: &ExporterArguments) -> Result<Exit, CliError> {
    output::data(match arguments.framework {
        FrameworkArgument::Torch => torch::EXPORTER,
    })?;
    Ok(Exit::Done)
}
