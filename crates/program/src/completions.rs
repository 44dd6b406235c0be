//! `completions`: a completion script for a shell.
//!
//! Names are added only to the definition from which the script is generated, not to the one that parses arguments, so
//! that an unknown name is still reported by its command.

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use stagewright::export::TARGETS;
use stagewright::formats::FORMATS;
use stagewright::tasks::placement::groups;
use stagewright::workloads::FAMILIES;
use stagewright::{clusters, registry};

use super::args::{Arguments, CompletionsArguments};
use super::error::Result;
use super::exit::Exit;
use super::{codes, output};

pub(crate) fn run(arguments: &CompletionsArguments) -> Result<Exit> {
    // Written to memory first, because the generator panics if it cannot write.
    let mut script = Vec::new();
    let mut command = with_names(Arguments::command(), arguments.shell);
    clap_complete::generate(arguments.shell, &mut command, "stagewright", &mut script);
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

/// Adds the possible values of arguments to the command and its subcommands.
fn with_names(command: Command, shell: Shell) -> Command {
    command.mut_args(|argument| named(argument, "", shell)).mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        command.mut_args(|argument| named(argument, &name, shell))
    })
}

/// Adds the possible values of an argument. `command` is the name of its subcommand, or empty for the program itself.
fn named(argument: Arg, command: &str, shell: Shell) -> Arg {
    let solvers = || registry::SOLVERS.iter().map(|entry| entry.solver.name());
    let names: Vec<&str> = match argument.get_id().as_str() {
        "explain" => codes::codes().collect(),
        "solver" => ["auto"].into_iter().chain(solvers()).collect(),
        "solvers" => ["auto"].into_iter().chain(groups()).chain(solvers()).collect(),
        "names" if command == "devices" => {
            clusters::devices().iter().map(|device| device.name.as_str()).collect()
        }
        "names" if command == "solvers" => solvers().collect(),
        "family" => FAMILIES.iter().map(|family| family.name()).collect(),
        "to" if command == "export" => TARGETS.iter().map(|target| target.name).collect(),
        "format" => FORMATS.iter().map(|format| format.name).collect(),
        // A cluster may also be a file, but only bash completes files if no name matches.
        "cluster" if shell == Shell::Bash => clusters::names().collect(),
        "names" if command == "clusters" && shell == Shell::Bash => clusters::names().collect(),
        _ => return argument,
    };
    argument.value_parser(PossibleValuesParser::new(names))
}
