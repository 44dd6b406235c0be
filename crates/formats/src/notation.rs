//! JSON and TOML, the two notations of documents: parses text into any serde structure and turns failures
//! into [`InputError`]s.
//!
//! Serde reports errors as text. Their kind follows from their first words, which serde's documentation fixes
//! for the constructors of `serde::de::Error`; any other error of a value is F005.

use serde::de::DeserializeOwned;

use super::error::{At, InputError, Result};
use super::text::{Sniff, clamp, end_of, text};
use crate::code::F::{self, *};

/// Notation of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// JSON (RFC 8259).
    Json,
    /// TOML 1.
    Toml,
}

impl Notation {
    /// JSON if the text starts with a brace, otherwise TOML: no TOML document starts with one.
    pub(super) fn of(text: &str) -> Self {
        if text.trim_start().starts_with('{') { Notation::Json } else { Notation::Toml }
    }

    /// Reads a document that need not name its schema.
    pub(super) fn read<T: DeserializeOwned>(self, label: &str, text: &str) -> Result<T> {
        match self {
            Notation::Json => from_json(label, text),
            Notation::Toml => from_toml(label, text),
        }
    }

    /// Reads a document of one of `schemas`. The schema is checked first, because other errors in a document
    /// of the wrong kind would be misleading.
    pub(super) fn read_as<T: DeserializeOwned>(self, label: &str, text: &str, schemas: &[&str]) -> Result<T> {
        let found = match self {
            Notation::Json => Sniff::new(text).schema,
            Notation::Toml => text
                .parse::<toml::Table>()
                .ok()
                .and_then(|table| table.get("schema").and_then(|value| value.as_str().map(str::to_owned))),
        };
        if let (Some(found), [.., newest]) = (found, schemas)
            && !schemas.contains(&&*found)
        {
            expect_schema(label, "schema", &found, newest)?;
        }
        self.read(label, text).map_err(|mut error| {
            if [F003, F004, F005].iter().any(|&code| error.code == code) {
                error.help.push_str("; data/schema has the schema of every document");
            }
            error
        })
    }
}

/// Reads JSON of any structure from bytes; if `schemas` is not empty, a document of one of them, the newest last.
///
/// # Errors
/// If the bytes are not UTF-8 (F001), not JSON (F002), of another schema (F007) or of another shape. The error has the
/// position or the path of the value.
///
/// ```
/// let error = stagewright_formats::read_json::<Vec<f64>>("times.json", b"[1.5, true]", &[]).unwrap_err();
/// assert_eq!((error.code.name, error.place.to_string().as_str()), ("F005", "times.json: [1]"));
/// ```
pub fn read_json<T: DeserializeOwned>(label: &str, bytes: &[u8], schemas: &[&str]) -> Result<T> {
    Notation::Json.read_as(label, text(label, bytes)?, schemas)
}

/// Rejects a document of another schema.
pub(super) fn expect_schema(label: &str, path: &str, found: &str, expected: &str) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let kind = |schema: &str| schema.split('/').next().unwrap_or_default().to_owned();
    let help = if kind(found) == kind(expected) {
        "this version of stagewright does not read that version of the schema: convert the document or use the \
         version that wrote it"
    } else {
        "check the order of the files, and that each is of the type that its option expects"
    };
    let message = format!("the document is `{found}`, expected `{expected}`");
    Err(InputError::at_path(F007, label, path, message, help))
}

fn from_json<T: DeserializeOwned>(label: &str, text: &str) -> Result<T> {
    // Tracking paths doubles the time, so only faulty files are read again with it.
    if let Ok(document) = serde_json::from_str(text) {
        return Ok(document);
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let document = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        json_error(label, &path, error.inner())
    })?;
    deserializer.end().map_err(|error| json_error(label, ".", &error))?;
    Ok(document)
}

fn json_error(label: &str, path: &str, error: &serde_json::Error) -> InputError {
    let text = error.to_string();
    let message = match text.rfind(" at line ") {
        Some(end) if error.line() > 0 => &text[..end],
        _ => &text,
    };
    let line = At::Line { line: clamp(error.line()), column: clamp(error.column()) };
    if message == "number out of range" {
        let help = "write a number below about 1.8e308";
        return InputError::new(F010, label, line, message, help);
    }
    if !error.is_data() {
        let help = match message {
            "recursion limit exceeded" => {
                "no format nests this deeply: check the program that wrote the file"
            }
            _ if error.is_eof() => "the file is truncated: check that the program that wrote it finished",
            _ => "write valid JSON, which has no comments, trailing commas, NaN or infinity",
        };
        return InputError::new(F002, label, line, message, help);
    }
    let place = if path == "." || path.is_empty() { At::Whole } else { At::Path(path.to_owned()) };
    let code = shape_code(message).unwrap_or(F005);
    InputError::new(code, label, place, in_plain_words(message), shape_help(code))
}

fn from_toml<T: DeserializeOwned>(label: &str, text: &str) -> Result<T> {
    let fault = |error: toml::de::Error| {
        let before = |span: std::ops::Range<usize>| end_of(text.get(..span.start).unwrap_or_default());
        let place = error.span().map_or(At::Whole, before);
        let message = error.message();
        let code = shape_code(message).unwrap_or(F002);
        InputError::new(code, label, place, in_plain_words(message), shape_help(code))
    };
    let table: toml::Table = text.parse().map_err(fault)?;
    if let Some(path) = table.iter().find_map(|(key, value)| not_finite(key.clone(), value)) {
        return Err(InputError::at_path(F010, label, path, "the number is not finite", shape_help(F010)));
    }
    toml::from_str(text).map_err(fault)
}

/// Path of the first infinite number or NaN, both of which TOML can express.
fn not_finite(path: String, value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::Float(number) if !number.is_finite() => Some(path),
        toml::Value::Array(values) => {
            values.iter().enumerate().find_map(|(i, value)| not_finite(format!("{path}[{i}]"), value))
        }
        toml::Value::Table(table) => {
            table.iter().find_map(|(key, value)| not_finite(format!("{path}.{key}"), value))
        }
        _ => None,
    }
}

/// Code of an error about the shape of a document.
fn shape_code(message: &str) -> Option<F> {
    const STARTS: [(&str, F); 9] = [
        ("missing field", F003),
        ("unknown field", F004),
        ("unknown variant", F005),
        ("invalid type", F005),
        ("invalid value", F005),
        ("invalid length", F005),
        ("data did not match", F005),
        ("duplicate field", F009),
        ("duplicate key", F009),
    ];
    STARTS.iter().find(|(start, _)| message.starts_with(start)).map(|&(_, code)| code)
}

fn shape_help(code: F) -> &'static str {
    match code {
        F002 => "write valid TOML (or JSON, starting with a brace)",
        F003 => "add the field",
        F004 => "correct the spelling or remove the field",
        F009 => "keep one of the two",
        F010 => "write a finite number, or omit the field if the value is unknown or unlimited",
        _ => "write a value as the message says",
    }
}

/// Replaces Rust's types in a message of serde by terms of the notations.
fn in_plain_words(message: &str) -> String {
    const WORDS: [(&str, &str); 5] = [
        ("f64", "a number"),
        ("i64", "a whole number"),
        ("u32", "a whole number from 0 to 4294967295"),
        ("u64", "a whole number that is not negative"),
        ("a sequence", "a list"),
    ];
    let Some((found, expected)) = message.rsplit_once(", expected ") else { return message.to_owned() };
    let plain = WORDS.iter().find(|(rust, _)| *rust == expected).map_or(expected, |&(_, plain)| plain);
    let plain = if plain.starts_with("struct ") { "an object with fields" } else { plain };
    format!("{found}, expected {plain}")
}
