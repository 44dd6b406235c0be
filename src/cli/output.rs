//! The one place that writes to standard output and standard error.
//!
//! `print!` panics when a pipe is closed, so nothing here uses it and the lints against it need no exception.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};

use super::error::CliError;
use super::style;

/// Writes a result to standard output.
pub(crate) fn result(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    let text = if style::is_coloured(&out) { Cow::Owned(style::coloured(text)) } else { Cow::Borrowed(text) };
    judged(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// How writing to standard output went. A reader that has gone away is no error.
pub(crate) fn judged(written: io::Result<()>) -> Result<(), CliError> {
    match written {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(CliError::new("I003", format!("cannot write the result: {error}"))
            .at("standard output")
            .help("make room, or send the output elsewhere")),
    }
}

/// Writes a line of the story to standard error. Where that cannot be written there is nowhere to complain.
pub(crate) fn note(line: &str) {
    let mut out = io::stderr().lock();
    let line = if style::is_coloured(&out) { Cow::Owned(style::coloured(line)) } else { Cow::Borrowed(line) };
    let _ = writeln!(out, "{line}");
}

/// Characters of a line of standard output, where that is a terminal. A file or a pipe has no end of them.
pub(crate) fn width() -> Option<u16> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0)
}

/// A value as pretty JSON with a newline.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, CliError> {
    match serde_json::to_string_pretty(value) {
        Ok(text) => Ok(text + "\n"),
        Err(error) => Err(CliError::new("X001", format!("cannot write JSON: {error}"))),
    }
}
