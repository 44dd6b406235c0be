//! JSON and TOML, the two notations of documents: parses text into any serde structure and turns failures
//! into [`InputError`]s, in the words of [`fault`](super::fault).

use serde::de::DeserializeOwned;

use super::error::{At, InputError, Result};
use super::fault::Fault;
use super::text::{Sniff, clamp, end_of, text};
use crate::code::F::*;

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

/// Reads TOML of any structure from bytes.
///
/// # Errors
/// If the bytes are not UTF-8 (F001), not TOML (F002) or of another shape. The error has the line and the column.
///
/// ```
/// use std::collections::BTreeMap;
/// let error = stagewright_formats::read_toml::<BTreeMap<String, u32>>("a.toml", b"x = 1\ny = true").unwrap_err();
/// assert_eq!((error.code.name, error.place.to_string().as_str()), ("F005", "a.toml:2:5"));
/// ```
pub fn read_toml<T: DeserializeOwned>(label: &str, bytes: &[u8]) -> Result<T> {
    from_toml(label, text(label, bytes)?)
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
    let Fault { code, message, help } = Fault::of_json(error);
    let place = match path {
        _ if code == F002 || code == F010 => {
            At::Line { line: clamp(error.line()), column: clamp(error.column()) }
        }
        "." | "" => At::Whole,
        path => At::Path(path.to_owned()),
    };
    InputError::new(code, label, place, message, help)
}

fn from_toml<T: DeserializeOwned>(label: &str, text: &str) -> Result<T> {
    let fault = |error: toml::de::Error| {
        let before = |span: std::ops::Range<usize>| end_of(text.get(..span.start).unwrap_or_default());
        let Fault { code, message, help } = Fault::of_toml(&error);
        InputError::new(code, label, error.span().map_or(At::Whole, before), message, help)
    };
    let table: toml::Table = text.parse().map_err(fault)?;
    if let Some(path) = table.iter().find_map(|(key, value)| not_finite(key.clone(), value)) {
        let Fault { code, message, help } = Fault::not_finite();
        return Err(InputError::at_path(code, label, path, message, help));
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
