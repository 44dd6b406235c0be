//! Pins: operators that a user wants on certain devices.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Operator name to the devices, kinds or classes it may use. A pins file is such a table, in JSON or TOML.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PinsDocument(pub BTreeMap<String, PinTargets>);

/// One name or several; each is a device (`acc3`), otherwise a kind (`acc`), otherwise a class (`a100`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
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
