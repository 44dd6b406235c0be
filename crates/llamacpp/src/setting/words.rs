//! Words of a command line.

use stagewright_formats::code::L;
use stagewright_formats::{At, InputError, Result};

/// A word with the column of its first character, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) column: u32,
}

/// Splits a text at white space outside of quotes. Between single quotes every character is itself; between double quotes
/// and outside, a backslash takes the next one as it is.
///
/// # Errors
/// If a quote is not closed, or the text ends in a backslash (L007).
pub(super) fn split(label: &str, text: &str) -> Result<Vec<Word>> {
    let mut words = Vec::new();
    let mut open: Option<Word> = None;
    let mut characters = (1_u32..).zip(text.chars());
    let unclosed = |column: u32, what: &str| {
        let message = format!("{what} has no end");
        InputError::new(L::L007, label, At::Line { line: 1, column }, message, "close it on the same line")
    };
    while let Some((column, character)) = characters.next() {
        if character.is_whitespace() {
            words.extend(open.take());
            continue;
        }
        let word = open.get_or_insert_with(|| Word { text: String::new(), column });
        match character {
            '\'' | '"' => loop {
                match characters.next() {
                    None => return Err(unclosed(column, "the quote")),
                    Some((_, next)) if next == character => break,
                    Some((_, '\\')) if character == '"' => match characters.next() {
                        None => return Err(unclosed(column, "the quote")),
                        // A shell keeps a backslash that quotes nothing special, as in `"blk\.3"`.
                        Some((_, next)) if "\"\\$`".contains(next) => word.text.push(next),
                        Some((_, next)) => word.text.extend(['\\', next]),
                    },
                    Some((_, next)) => word.text.push(next),
                }
            },
            '\\' => match characters.next() {
                None => return Err(unclosed(column, "the backslash")),
                Some((_, next)) => word.text.push(next),
            },
            other => word.text.push(other),
        }
    }
    words.extend(open);
    Ok(words)
}
