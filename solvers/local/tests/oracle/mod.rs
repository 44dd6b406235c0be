//! Plans against llama.cpp itself, whose answers are stored.
//!
//! With `STAGEWRIGHT_LLAMA_CPP`, the folder of its programs, it is asked again, and with `STAGEWRIGHT_WRITE_ANSWERS=1` its
//! answers are written. `data/setup/install-llama-cpp` builds it.

mod fit;
mod plans;

use std::path::Path;

/// Compares what was found with the answers of a file below this folder.
fn compare_with_stored(name: &str, lines: &[String]) {
    let path = folder().join(name);
    let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    if std::env::var_os("STAGEWRIGHT_WRITE_ANSWERS").is_some() {
        std::fs::write(&path, &text).expect("the file of answers");
    }
    let stored = stored_lines(name);
    let differing = lines.iter().zip(&stored).find(|(found, stored)| found != stored);
    let help = "write the answers with STAGEWRIGHT_LLAMA_CPP and STAGEWRIGHT_WRITE_ANSWERS=1";
    assert!(differing.is_none() && lines.len() == stored.len(), "{help}: {differing:#?}");
}

/// Lines of a file of answers.
fn stored_lines(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder().join(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle"))
}
