//! The `stagewright` command: parse, run, exit code.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run().into()
}
