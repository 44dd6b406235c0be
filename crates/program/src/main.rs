//! The `stagewright` command: one file per subcommand.
//!
//! [`args`] declares the arguments, [`resolve`] and [`quantity`] interpret them. Only [`exit`] maps outcomes to exit
//! codes, and only [`output`] writes to the terminal. [`codes`] is `--explain`.

mod args;
mod bench;
mod bound;
mod check;
mod cluster;
mod clusters;
mod code;
mod codes;
mod compare;
mod completions;
mod convert;
mod costs;
mod descendants;
mod devices;
mod error;
mod exit;
mod explain;
mod export;
mod external;
mod files;
mod given;
mod instances;
mod interrupt;
mod iteration;
mod machine;
mod man;
mod measured;
mod model_options;
mod origin;
mod output;
mod plan;
mod policy;
mod progress;
mod quantity;
mod recorder;
mod requests;
mod resolve;
mod show;
mod simulate;
mod solvers;
mod style;
mod workload;

use std::borrow::Cow;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use stagewright::text::visible_lines;

use args::{Arguments, Asked, Command};
use error::{CliError, Result};
use exit::Exit;

fn main() -> ExitCode {
    run().into()
}

/// Parses the arguments, runs the command and returns its outcome.
fn run() -> Exit {
    let asked = Arguments::try_parse().and_then(|arguments| Ok((arguments.verbose, arguments.asked()?)));
    let (verbose, asked) = match asked {
        Ok(asked) => asked,
        Err(error) => {
            let is_asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            // Errors in the arguments go to standard error; if they cannot be written, there is nowhere to report that.
            return match usage(&error) {
                Ok(()) if is_asked => Exit::Done,
                Err(error) if is_asked => failed(&error),
                _ => Exit::BadInput,
            };
        }
    };
    let outcome = match asked {
        Asked::Command(command) => run_command(*command, verbose),
        Asked::Code(code) => codes::run(&code),
    };
    if verbose {
        output::note(&peak_memory());
    }
    outcome.unwrap_or_else(|error| failed(&error))
}

fn failed(error: &CliError) -> Exit {
    output::error(error);
    Exit::BadInput
}

/// Prints help, the version or an error in the arguments. If the text has control characters, they are escaped and
/// colours are dropped.
fn usage(error: &clap::Error) -> Result<()> {
    let plain = error.render().to_string();
    match visible_lines(&plain) {
        Cow::Borrowed(_) => output::judged(error.print().and_then(|()| std::io::stdout().flush())),
        Cow::Owned(_) => {
            plain.lines().for_each(output::note);
            Ok(())
        }
    }
}

fn run_command(command: Command, verbose: bool) -> Result<Exit> {
    #[allow(unsafe_code, reason = "the one place from which nothing runs yet")]
    // SAFETY: arguments have been parsed, and no thread has been started.
    unsafe {
        policy::share_threads(threads(&command));
        if learns(&command) {
            policy::keep_memory();
        }
    }
    match command {
        Command::Plan(arguments) => plan::run(&arguments, verbose),
        Command::Bound(arguments) => bound::run(&arguments, verbose),
        Command::Check(arguments) => check::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments, verbose),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Exporter(arguments) => {
            output::data(arguments.framework)?;
            Ok(Exit::Done)
        }
        Command::Compare(arguments) => compare::run(&arguments, verbose),
        Command::Bench(arguments) => bench::run(&arguments, verbose),
        Command::Train(arguments) => policy::train(&arguments, verbose),
        Command::Finetune(arguments) => policy::finetune(&arguments),
        Command::Workload(arguments) => workload::run(&arguments),
        Command::Instances(arguments) => instances::run(&arguments, verbose),
        Command::Show(arguments) => show::run(&arguments),
        Command::Devices(arguments) => devices::run(&arguments),
        Command::Clusters(arguments) => clusters::run(&arguments),
        Command::Solvers(arguments) => solvers::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Man(arguments) => man::run(&arguments),
        Command::Costs(arguments) => costs::run(&arguments),
        Command::Profile(arguments) => machine::profile(&arguments),
        Command::Run(arguments) => machine::run(&arguments),
        Command::Worker => Ok(machine::worker()),
    }
}

/// The requested number of worker threads.
fn threads(command: &Command) -> Option<usize> {
    match command {
        Command::Plan(arguments) => arguments.solve.threads(),
        Command::Bound(arguments) => arguments.solve.threads(),
        Command::Explain(arguments) => arguments.solve.threads(),
        Command::Compare(arguments) => arguments.solve.threads(),
        Command::Finetune(arguments) => arguments.solve.threads(),
        // A node runs one worker process per core.
        Command::Train(arguments) if arguments.worker => Some(1),
        Command::Train(arguments) => arguments.threads,
        Command::Check(_)
        | Command::Simulate(_)
        | Command::Convert(_)
        | Command::Export(_)
        | Command::Exporter(_)
        | Command::Bench(_)
        | Command::Workload(_)
        | Command::Instances(_)
        | Command::Show(_)
        | Command::Devices(_)
        | Command::Clusters(_)
        | Command::Solvers(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Costs(_)
        | Command::Profile(_)
        | Command::Run(_)
        | Command::Worker => None,
    }
}

/// Whether nearly all allocations of the command are tensors.
fn learns(command: &Command) -> bool {
    match command {
        Command::Train(_) | Command::Finetune(_) => true,
        Command::Plan(arguments) => policy::has_network(&arguments.solver),
        _ => false,
    }
}

/// The line with the peak memory that `bench` reads from its child processes. Only Linux records peak memory; elsewhere
/// it is unknown.
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
