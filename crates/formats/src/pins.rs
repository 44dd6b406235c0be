//! Pins: a table from operators to allowed devices, in JSON or TOML.
//!
//! ```toml
//! "embedding" = "acc0"
//! "encoder.3.attention" = ["acc", "cpu"]
//! ```
//!
//! In TOML a name with dots must be quoted, otherwise its dots nest tables. Pinning an operator twice is an
//! error; a plain map would silently keep the last pin.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use stagewright_core::document::{PinTargets, PinsDocument};

use super::error::Result;
use super::notation::Notation;
use super::text::text;

/// Reads pins, in either notation.
pub fn import_pins(label: &str, bytes: &[u8]) -> Result<PinsDocument> {
    let text = text(label, bytes)?;
    let read: Result<UniquePins> = Notation::of(text).read(label, text);
    read.map(|pins| pins.0).map_err(|mut error| {
        if error.message.starts_with("data did not match any variant") {
            "expected the name of a device, kind or class, or a list of such names"
                .clone_into(&mut error.message);
            "write \"name\" = \"acc0\" or \"name\" = [\"acc0\", \"cpu\"]; TOML requires quotes around a name with \
             dots"
                .clone_into(&mut error.help);
        }
        error
    })
}

struct UniquePins(PinsDocument);

impl<'de> Deserialize<'de> for UniquePins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PinsVisitor)
    }
}

struct PinsVisitor;

impl<'de> Visitor<'de> for PinsVisitor {
    type Value = UniquePins;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table from operator names to devices, kinds or classes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UniquePins, A::Error> {
        let mut pins = BTreeMap::new();
        while let Some((operator, targets)) = map.next_entry::<String, PinTargets>()? {
            match pins.entry(operator) {
                Entry::Vacant(free) => free.insert(targets),
                Entry::Occupied(taken) => {
                    return Err(A::Error::custom(format!("duplicate key `{}`", taken.key())));
                }
            };
        }
        Ok(UniquePins(PinsDocument(pins)))
    }
}
