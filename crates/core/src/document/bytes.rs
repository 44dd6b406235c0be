//! Memory sizes: a number of bytes, or a string with a unit.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Deserializer, Error, Visitor};

/// The units, longest first, with the bytes of each. `GB` is 10⁹ bytes and `GiB` 2³⁰.
const UNITS: [(&str, f64); 10] = [
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
    ("TiB", 1099511627776.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("B", 1.0),
];

/// Schema of a size.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "the schema is made of it, and nothing else")]
pub(super) enum Size {
    /// Bytes.
    Bytes(f64),
    /// A number with a unit, such as `16GB` or `16GiB`.
    Text(String),
}

/// Deserialises a size; null is `None`.
pub(super) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    deserializer.deserialize_any(Sizes)
}

/// Parses a size with a unit, such as `16GiB`, into bytes; `None` if it is invalid.
pub fn bytes(text: &str) -> Option<f64> {
    let text = text.trim();
    UNITS.iter().find_map(|(unit, scale)| {
        let number = text.strip_suffix(unit)?.trim_end();
        number.starts_with(|c: char| c.is_ascii_digit()).then_some(())?;
        let number: f64 = number.parse().ok()?;
        (number * scale).is_finite().then_some(number * scale)
    })
}

struct Sizes;

impl<'de> Visitor<'de> for Sizes {
    type Value = Option<f64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes, or a text such as \"16GB\" or \"16GiB\"")
    }

    fn visit_f64<E: Error>(self, bytes: f64) -> Result<Self::Value, E> {
        Ok(Some(bytes))
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<Self::Value, E> {
        Ok(Some(bytes as f64))
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<Self::Value, E> {
        Ok(Some(bytes as f64))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        bytes(text).map(Some).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        size(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_and_binary_units_differ() {
        assert_eq!(bytes("16GB"), Some(16e9));
        assert_eq!(bytes(" 16 GiB "), Some(17_179_869_184.0));
        assert_eq!(bytes("1.5kB"), Some(1500.0));
        assert_eq!(bytes("3B"), Some(3.0));
        for none in ["", "16", "GB", "-1GB", "16 gigabytes", "infGB", "NaNB", "1e999B"] {
            assert_eq!(bytes(none), None, "{none}");
        }
    }
}
