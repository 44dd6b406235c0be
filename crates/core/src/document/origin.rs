//! Where a plan document comes from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The program that wrote a plan, and how it was called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OriginDocument {
    /// Version of Stagewright.
    pub version: String,
    /// Date and time in UTC, as RFC 3339 writes them; absent in plans of the library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// The command line, quoted for a shell; absent in plans of the library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl OriginDocument {
    /// The origin of a plan of this version of the library, without date and command.
    pub fn of_library() -> OriginDocument {
        OriginDocument { version: env!("CARGO_PKG_VERSION").into(), date: None, command: None }
    }
}
