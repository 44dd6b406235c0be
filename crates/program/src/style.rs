//! Colours on a terminal, for the first words of errors and notes, and for the status of a plan.
//!
//! Files and pipes get no colours, nor do terminals with `NO_COLOR` or `TERM=dumb`; `CLICOLOR_FORCE` enables them
//! everywhere.

use std::borrow::Cow;

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

const BAD: Style = AnsiColor::Red.on_default().bold();
const GOOD: Style = AnsiColor::Green.on_default().bold();
const OPEN: Style = AnsiColor::Yellow.on_default().bold();
const ASIDE: Style = AnsiColor::Cyan.on_default();

/// Starts of lines that are coloured.
const STARTS: [(&str, Style); 4] = [("error[", BAD), ("  help:", ASIDE), ("  -->", ASIDE), ("note:", ASIDE)];

/// Start of the status line.
const STATUS: &str = "status ";

/// Colours of the proof statuses.
const STATUSES: [(&str, Style); 4] =
    [("optimal", GOOD), ("feasible", OPEN), ("infeasible", BAD), ("unknown", OPEN)];

/// Whether output to a stream is coloured.
pub(super) fn is_coloured(stream: &impl RawStream) -> bool {
    !matches!(AutoStream::choice(stream), ColorChoice::Never)
}

/// Adds colours to a text.
pub(super) fn coloured(text: &str) -> String {
    text.split_inclusive('\n').map(line).collect()
}

fn line(line: &str) -> Cow<'_, str> {
    if let Some(value) = line.strip_prefix(STATUS) {
        let found = STATUSES.iter().find(|(word, _)| value.split_whitespace().next() == Some(word));
        if let Some((word, style)) = found {
            return Cow::Owned(line.replacen(word, &format!("{style}{word}{style:#}"), 1));
        }
    }
    let Some((start, style)) = STARTS.iter().find(|(start, _)| line.starts_with(start)) else {
        return Cow::Borrowed(line);
    };
    // The error code is part of the coloured start.
    let end = if start.ends_with('[') { line.find(':').unwrap_or(start.len()) } else { start.len() };
    let (head, rest) = line.split_at(end);
    Cow::Owned(format!("{style}{head}{style:#}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_around_words_and_change_none() {
        let text = "error[N001]: no cluster is called `x`\n  --> --cluster\n  help: give a file\nnote: a\nstatus     \
                    optimal\nstatus     odd\ndevice  load\n";
        let shown = coloured(text);
        assert!(shown.starts_with("\u{1b}[1m\u{1b}[31merror[N001]\u{1b}[0m: no cluster"), "{shown:?}");
        assert!(
            shown.contains("status     \u{1b}[1m\u{1b}[32moptimal\u{1b}[0m\nstatus     odd\n"),
            "{shown:?}"
        );
        assert_eq!(anstream::adapter::strip_str(&shown).to_string(), text);
    }
}
