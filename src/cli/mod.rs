//! The command line: one file per subcommand.
//!
//! [`args`] is what was typed, [`resolve`] and [`quantity`] are what it means, [`exit`] is the one place that maps
//! outcomes to exit codes, and [`output`] the one place that writes to the terminal.

mod args;
mod bench;
mod bound;
mod check;
mod completions;
mod convert;
mod error;
mod exit;
mod exporter;
mod files;
mod interrupt;
mod iteration;
mod output;
mod plan;
mod progress;
mod quantity;
mod resolve;
mod simulate;
mod unpriced;
mod workload;

use clap::Parser;
use clap::error::ErrorKind;

use args::{Arguments, Command};
pub(crate) use exit::Exit;

/// Parses, runs, and says how it went.
pub(crate) fn run() -> Exit {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // A closed pipe is no error, and there is nowhere else to say so.
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Done,
                _ => Exit::BadInput,
            };
        }
    };
    let verbose = arguments.verbose;
    let outcome = match arguments.command {
        Command::Plan(arguments) => plan::run(&arguments, verbose),
        Command::Bound(arguments) => bound::run(&arguments, verbose),
        Command::Check(arguments) => check::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Exporter(arguments) => exporter::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Workload(arguments) => workload::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
    };
    if verbose {
        output::note(&peak_memory());
    }
    outcome.unwrap_or_else(|error| {
        output::note(&error.to_string());
        Exit::BadInput
    })
}

/// What `bench` reads from its children. Linux keeps the figure; elsewhere it is left blank.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|number| number.trim().parse::<u64>().ok());
    match kilobytes {
        Some(kilobytes) => format!("{}{}", bench::PEAK_MEMORY, kilobytes * 1024),
        None => format!("{}unknown", bench::PEAK_MEMORY),
    }
}
