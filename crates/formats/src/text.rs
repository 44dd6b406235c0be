//! Conversion of bytes to text, and a first look at the text.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::error::{At, InputError, Result};
use crate::code::{F001, F008};

/// Text of an input, without a byte order mark.
///
/// # Errors
/// If the bytes are not UTF-8 (F001) or there is nothing but white space (F008).
pub fn text<'a>(label: &str, bytes: &'a [u8]) -> Result<&'a str> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let help = "save the file as UTF-8; compressed and binary files are not read";
        let message = format!("not UTF-8 text: byte {} is not valid", error.valid_up_to());
        InputError::new(F001, label, end_of(&before), message, help)
    })?;
    if text.trim().is_empty() {
        let help = "check that the program that wrote it finished";
        return Err(InputError::new(F008, label, At::Whole, "the file is empty", help));
    }
    Ok(text)
}

/// The position just after a text.
pub(super) fn end_of(text: &str) -> At {
    let start_of_line = text.rfind('\n').map_or(0, |newline| newline + 1);
    let line = 1 + text.matches('\n').count();
    let column = 1 + text[start_of_line..].chars().count();
    At::Line { line: clamp(line), column: clamp(column) }
}

/// Position of a part of a line, with lines counted from 0; the start of the line if `part` is not within it.
pub(super) fn position(line: usize, content: &str, part: &str) -> At {
    let offset = (part.as_ptr() as usize).wrapping_sub(content.as_ptr() as usize);
    let column = 1 + content.get(..offset).unwrap_or_default().chars().count();
    At::Line { line: clamp(line + 1), column: clamp(column) }
}

/// Converts a position to the type that errors store.
pub(super) fn clamp(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// First look at a text of unknown format: the top-level keys of the JSON object at its start, as far as the object is
/// well formed, and the object's schema. A truncated file is still recognised, so that the error reports the position
/// of the cut and not an unknown format.
#[derive(Debug, Default)]
pub(super) struct Sniff {
    /// The keys at the top level, in order.
    pub(super) keys: Vec<String>,
    /// Value of `schema`, if it is a string.
    pub(super) schema: Option<String>,
}

/// Largest number of top-level keys that are kept: no format has as many.
const MAX_KEYS: usize = 256;

impl Sniff {
    pub(super) fn new(text: &str) -> Self {
        let mut sniff = Sniff::default();
        // An error only ends this look-ahead: the keys so far are kept, and the importer reports the cause.
        let _cut_off = TopLevel(&mut sniff).deserialize(&mut serde_json::Deserializer::from_str(text));
        sniff
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|k| k == key)
    }
}

struct TopLevel<'a>(&'a mut Sniff);

impl<'de> DeserializeSeed<'de> for TopLevel<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TopLevel<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let is_schema = key == "schema";
            if self.0.keys.len() < MAX_KEYS {
                self.0.keys.push(key);
            }
            if is_schema {
                self.0.schema = map.next_value_seed(MaybeString)?;
                if self.0.schema.is_some() {
                    // The schema decides the format, and reading the rest of a large file takes time.
                    return Err(A::Error::custom("seen enough"));
                }
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// A string; any other value gives `None`.
struct MaybeString;

impl<'de> DeserializeSeed<'de> for MaybeString {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<String>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MaybeString {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Option<String>, E> {
        Ok(Some(text.to_owned()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Option<String>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<String>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_cut_off_in_the_middle_keeps_its_keys() {
        let sniff = Sniff::new(r#"{"maxFPGAs": 3, "schema": [[1], {}], "nodes": [{"id": "#);
        assert_eq!(sniff.keys, ["maxFPGAs", "schema", "nodes"]);
        assert_eq!(sniff.schema, None);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        assert_eq!(text("m", b"\xef\xbb\xbf{}"), Ok("{}"));
    }

    #[test]
    fn depth_cannot_overflow_the_stack() {
        let bomb = format!("{{\"a\": {}", "[".repeat(1_000_000));
        assert_eq!(Sniff::new(&bomb).keys, ["a"]);
        let bomb = format!("{{\"schema\": {}", "{\"a\":".repeat(1_000_000));
        assert_eq!(Sniff::new(&bomb).keys, ["schema"]);
    }
}
