//! Output to the terminal. No other module writes to standard output or standard error.
//!
//! `print!` panics when a pipe is closed, so nothing uses it, and the lints against it need no exception.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};

use super::error::CliError;
use super::style;

/// Writes a result to standard output. A closed pipe is not an error.
pub(crate) fn result(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    let text = if style::is_coloured(&out) { Cow::Owned(style::coloured(text)) } else { Cow::Borrowed(text) };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(CliError::new("I003", format!("cannot write the result: {error}"))
            .at("standard output")
            .help("make room, or send the output elsewhere")),
    }
}

/// Writes a line to standard error. A failure is ignored: there is nowhere to report it.
pub(crate) fn note(line: &str) {
    let mut out = io::stderr().lock();
    let line = if style::is_coloured(&out) { Cow::Owned(style::coloured(line)) } else { Cow::Borrowed(line) };
    let _ = writeln!(out, "{line}");
}

/// Width of standard output in characters; `None`, for unlimited, if it is not a terminal.
pub(crate) fn width() -> Option<u16> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0)
}

/// Formats a value as pretty-printed JSON with a final newline.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, CliError> {
    match serde_json::to_string_pretty(value) {
        Ok(text) => Ok(text + "\n"),
        Err(error) => Err(CliError::new("X001", format!("cannot write JSON: {error}"))),
    }
}
