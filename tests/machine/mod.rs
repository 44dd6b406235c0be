//! Models measured and run on this machine by processes of the program.
//!
//! Needs ONNX Runtime: the library that `make test` puts into `target/onnxruntime`, the one that `ORT_DYLIB_PATH`
//! names, or the one in an installed Python package. Without it, these tests print that they were skipped.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

mod ends;
mod model;
mod pipeline;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use stagewright::runtime::library;

/// Path of the shared library of ONNX Runtime.
pub(crate) fn runtime() -> Option<PathBuf> {
    let folder = Path::new(crate::ROOT).join("target/onnxruntime/onnxruntime/capi");
    let own = std::fs::read_dir(folder).ok().and_then(|entries| {
        let mut files = entries.filter_map(|entry| Some(entry.ok()?.path()));
        files.find(|path| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| name.starts_with("libonnxruntime."))
        })
    });
    let found = own.or_else(|| library::find(None).ok());
    if found.is_none() {
        println!("skipped: ONNX Runtime is not installed");
    }
    found
}

/// The command that runs the program with arguments and with the library.
fn command(runtime: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stagewright"));
    command.args(arguments).env(library::VARIABLE, runtime).stdin(Stdio::null());
    command
}

fn run(runtime: &Path, arguments: &[&str]) -> Output {
    command(runtime, arguments).output().expect("the program starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}
