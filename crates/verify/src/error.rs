//! Documents that don't describe a problem and a plan for it.

use stagewright_core::code::Code;
use thiserror::Error;

use crate::code::V;

/// Error that prevents a check: the documents are invalid, or use a feature that this version does not check.
/// A fault of the plan itself is a [`crate::Violation`] instead.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum CheckError {
    /// Unexpected schema string.
    #[error("the {document} document has schema {found:?}, but this version reads {expected:?}")]
    Schema {
        /// `graph`, `cluster` or `plan`.
        document: &'static str,
        /// Schema in the document.
        found: String,
        /// Expected schema.
        expected: &'static str,
    },
    /// Duplicate name.
    #[error("{what} {name:?} occurs more than once")]
    Duplicate {
        /// Type of the named item.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Name of a nonexistent item.
    #[error("{place} names {what} {name:?}, which does not exist")]
    Unknown {
        /// Location of the name.
        place: String,
        /// Expected type of the item.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Number out of range.
    #[error("{what} is {value:?}, but must be {range}")]
    Figure {
        /// Name of the figure.
        what: String,
        /// The number.
        value: f64,
        /// Allowed range.
        range: &'static str,
    },
    /// The operators do not form an acyclic graph.
    #[error("the graph has a cycle: {}", arrows(.operators))]
    Cycle {
        /// Operators of one cycle, in order.
        operators: Vec<String>,
    },
    /// A device other than a host must move data, but has no link.
    #[error("kind {kind:?} has no link, which {needed_for} needs")]
    NoLink {
        /// The kind.
        kind: String,
        /// Data that needs the link.
        needed_for: String,
    },
    /// A device name denotes two devices.
    #[error("{name:?} is a device of kind {first:?} and of kind {second:?}: rename a kind")]
    AmbiguousDevice {
        /// The device name.
        name: String,
        /// The shorter kind name.
        first: String,
        /// The longer kind name.
        second: String,
    },
    /// The matrix does not have one row and one column per device.
    #[error("{field} of the matrix must have a row and a column for each of the {devices} devices")]
    Matrix {
        /// Field of the matrix.
        field: &'static str,
        /// Number of devices in the cluster.
        devices: u64,
    },
    /// A rule of the objective has an unmet requirement.
    #[error("{rule} needs {needs}")]
    Rule {
        /// The rule.
        rule: &'static str,
        /// The requirement.
        needs: &'static str,
    },
    /// A feature that this version does not check.
    #[error("{what} is not checked by this version")]
    NotChecked {
        /// The feature.
        what: &'static str,
    },
}

impl CheckError {
    /// Stable error code.
    pub fn code(&self) -> Code {
        match self {
            CheckError::Schema { .. } => V::Schema,
            CheckError::Duplicate { .. } => V::Duplicate,
            CheckError::Unknown { .. } => V::Unknown,
            CheckError::Figure { .. } => V::Figure,
            CheckError::Cycle { .. } => V::Cycle,
            CheckError::NoLink { .. } => V::NoLink,
            CheckError::AmbiguousDevice { .. } => V::AmbiguousDevice,
            CheckError::Matrix { .. } => V::Matrix,
            CheckError::Rule { .. } => V::Rule,
            CheckError::NotChecked { .. } => V::NotChecked,
        }
        .into()
    }
}

/// Formats a cycle with its first name repeated at the end; the middle of a long cycle is left out.
fn arrows(operators: &[String]) -> String {
    const MOST: usize = 8;
    let mut names: Vec<&str> = operators.iter().take(MOST).map(String::as_str).collect();
    if operators.len() > MOST {
        names.push("…");
    }
    names.extend(operators.first().map(String::as_str));
    names.join(" → ")
}
