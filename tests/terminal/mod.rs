//! How the command line describes itself, and how it looks on a terminal.

#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

mod codes;
mod completions;
mod man;
mod names;
mod progress;
mod width;

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn root() -> &'static Path {
    Path::new(crate::ROOT)
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stagewright"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the program starts")
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).expect("results are text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a system program; if it is missing, prints that the test is skipped and returns `None`.
fn tool(name: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(name).args(arguments).stdin(Stdio::null()).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("skipped: there is no {name}");
            None
        }
        output => Some(output.expect("the program starts")),
    }
}

/// Commands listed by `--help`.
fn commands() -> Vec<String> {
    let help = stdout(&run(&["--help"]));
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = list.take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
    let names: Vec<String> = names.filter(|name| *name != "help").map(str::to_owned).collect();
    assert!(names.iter().any(|name| name == "plan"), "{help}");
    names
}
