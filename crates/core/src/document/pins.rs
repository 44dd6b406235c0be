//! Pins: the devices to which a user restricts operators.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// For every pinned operator, by name, the devices, kinds or classes that it may use. A pins file is such a table, in
/// JSON or TOML.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PinsDocument(pub BTreeMap<String, PinTargets>);

/// One name or several. Each name stands for a device (`acc3`), otherwise for a kind (`acc`), otherwise for a class
/// (`a100`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected the name of a device, kind or class, or a list of such names")]
pub enum PinTargets {
    /// One name.
    One(String),
    /// Any of several names.
    Any(Vec<String>),
}

impl PinTargets {
    /// The names, one or several.
    pub fn names(&self) -> &[String] {
        match self {
            PinTargets::One(name) => std::slice::from_ref(name),
            PinTargets::Any(names) => names,
        }
    }
}
