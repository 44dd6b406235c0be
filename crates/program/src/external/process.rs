//! One run of a command: its output as it arrives, within the limits.
//!
//! Both streams are pipes, each with a thread that reads it, so a command never blocks on writing. The command is ended
//! if its plan exceeds [`MOST_BYTES`]. Of standard error, only the last line is kept, and of a long line only the
//! start.

use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use stagewright::core::solver::Context;

use crate::descendants;

/// Time beyond the limit for a command to start and to write its plan.
const GRACE: Duration = Duration::from_secs(5);

/// Interval at which a running command is polled.
const POLL: Duration = Duration::from_millis(5);

/// Maximum size of a plan, in bytes.
const MOST_BYTES: usize = 64 << 20;

/// Maximum size of a piece of output, in bytes.
const PIECE: usize = 64 << 10;

/// Maximum number of pieces waiting to be processed.
const PIECES: usize = 4;

/// Maximum size of the part of a line that is kept, in bytes.
const LINE: usize = 4 << 10;

/// A chunk of the output of a command.
enum Piece {
    Output(Vec<u8>),
    Error(Vec<u8>),
}

/// Runs a command, and returns its standard output, or the reason why it has none. After the command, everything that
/// it started is ended as well.
pub(super) fn output(name: &str, command: &mut Command, context: &Context<'_>) -> Result<Vec<u8>, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    descendants::adopt(command);
    let mut child = command.spawn().map_err(|error| format!("cannot start `{name}`: {error}"))?;
    let (sender, pieces) = sync_channel(PIECES);
    follow(child.stdout.take(), sender.clone(), Piece::Output);
    follow(child.stderr.take(), sender, Piece::Error);
    let mut written = Written::default();
    let ended = wait(&mut child, &pieces, &mut written, context);
    let (status, is_left) = descendants::end(&mut child);
    ended.map_err(|error| format!("`{name}` was lost: {error}"))??;
    if !is_left {
        take_rest(&pieces, &mut written, context);
    }
    match status.ok_or_else(|| format!("`{name}` was lost"))? {
        _ if written.is_too_much() => Err(too_much()),
        _ if is_left => Err("a process that it started cannot be ended".into()),
        status if status.success() => Ok(written.plan),
        status => {
            let last = written.errors.last().map(|line| format!(": {line}")).unwrap_or_default();
            Err(match status.code() {
                Some(code) => format!("exit code {code}{last}"),
                None => format!("{status}{last}"),
            })
        }
    }
}

fn too_much() -> String {
    format!("it wrote more than {} MiB", MOST_BYTES >> 20)
}

/// Sends the output of a pipe in pieces until the pipe is closed or the receiver is dropped.
fn follow(
    pipe: Option<impl Read + Send + 'static>,
    pieces: SyncSender<Piece>,
    piece: impl Fn(Vec<u8>) -> Piece + Send + 'static,
) {
    let Some(mut pipe) = pipe else { return };
    thread::spawn(move || {
        let mut bytes = vec![0; PIECE];
        loop {
            match pipe.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    if pieces.send(piece(bytes[..count].to_vec())).is_err() {
                        return;
                    }
                }
            }
        }
    });
}

/// Reads the rest of the output of a command that has ended with all its processes. If other processes hold the pipes
/// open, waits only for the grace period, or until an interrupt.
fn take_rest(pieces: &Receiver<Piece>, written: &mut Written, context: &Context<'_>) {
    let until = Instant::now() + GRACE;
    while Instant::now() < until {
        match pieces.recv_timeout(POLL) {
            Ok(piece) => {
                if !written.take(piece) {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) if !context.stop().is_interrupted() => {}
            Err(_) => return,
        }
    }
}

/// Waits for the end of a command while reading its output. Returns the reason to end the command if there is one: the
/// time limit plus the grace period has passed, an interrupt, or too much output.
fn wait(
    child: &mut Child,
    pieces: &Receiver<Piece>,
    written: &mut Written,
    context: &Context<'_>,
) -> io::Result<Result<(), String>> {
    let limit = context.limits.time.map(|limit| limit.saturating_add(GRACE));
    loop {
        if descendants::has_ended(child)? {
            return Ok(Ok(()));
        }
        if context.stop().is_interrupted() {
            return Ok(Err("interrupted".into()));
        }
        if limit.is_some_and(|limit| context.elapsed() >= limit) {
            return Ok(Err(format!("no plan within the time limit and {} s", GRACE.as_secs())));
        }
        match pieces.recv_timeout(POLL) {
            Ok(piece) => {
                if !written.take(piece) {
                    return Ok(Err(too_much()));
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            // Both streams are closed, but the command is still running.
            Err(RecvTimeoutError::Disconnected) => thread::sleep(POLL),
        }
    }
}

/// Output of a command so far.
#[derive(Default)]
struct Written {
    plan: Vec<u8>,
    errors: Lines,
}

impl Written {
    /// Appends a piece of output; returns `false` if the plan has become too large.
    fn take(&mut self, piece: Piece) -> bool {
        match piece {
            Piece::Error(bytes) => self.errors.take(&bytes),
            Piece::Output(bytes) if self.is_too_much() => drop(bytes),
            Piece::Output(bytes) => self.plan.extend(bytes),
        }
        !self.is_too_much()
    }

    fn is_too_much(&self) -> bool {
        self.plan.len() > MOST_BYTES
    }
}

/// The last line of a stream that contains text.
#[derive(Default)]
struct Lines {
    /// Start of the last complete line that contains text.
    last: Vec<u8>,
    /// Start of the line that is not complete yet.
    line: Vec<u8>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (text, is_complete) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            let text = if self.line.is_empty() { text.trim_ascii_start() } else { text };
            self.line.extend(&text[..text.len().min(LINE - self.line.len())]);
            if is_complete {
                if !self.line.is_empty() {
                    std::mem::swap(&mut self.last, &mut self.line);
                }
                self.line.clear();
            }
        }
    }

    fn last(&self) -> Option<String> {
        let line = if self.line.is_empty() { &self.last } else { &self.line };
        Some(String::from_utf8_lossy(line).trim().to_owned()).filter(|line| !line.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_with_text_is_kept_and_of_it_the_start() {
        let last = |pieces: &[&str]| {
            let mut lines = Lines::default();
            pieces.iter().for_each(|piece| lines.take(piece.as_bytes()));
            assert!(lines.line.len() <= LINE && lines.last.len() <= LINE);
            lines.last()
        };
        assert_eq!(last(&["a\nb", "c\n", "\n \n  "]).as_deref(), Some("bc"));
        assert_eq!(last(&["first\r\n  sec", "ond"]).as_deref(), Some("second"));
        assert_eq!(last(&["\n", " \n"]), None);
        let long = "x".repeat(3 * PIECE);
        assert_eq!(last(&[&long, &long]).map(|line| line.len()), Some(LINE));
    }
}
