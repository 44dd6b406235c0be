//! `completions`: a script for a shell.

use clap::CommandFactory;

use super::args::{Arguments, CompletionsArguments};
use super::error::CliError;
use super::exit::Exit;
use super::output;

pub(crate) fn run(arguments: &CompletionsArguments) -> Result<Exit, CliError> {
    // Into memory first: the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "stagewright", &mut script);
    output::result(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
