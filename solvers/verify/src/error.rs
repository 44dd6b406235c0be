//! Documents that cannot be read as a problem and a plan for it.

use thiserror::Error;

/// Why there is nothing to check: the documents describe no problem, or one of a sort that this version does
/// not check. What a plan does wrong is a [`crate::Violation`] instead.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum CheckError {
    /// The schema string is another one.
    #[error("the {document} document has schema {found:?}, but this version reads {expected:?}")]
    Schema {
        /// `graph`, `cluster` or `plan`.
        document: &'static str,
        /// What the document says.
        found: String,
        /// What it should say.
        expected: &'static str,
    },
    /// A name that must be unique is not.
    #[error("{what} {name:?} occurs more than once")]
    Duplicate {
        /// What the name is of.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name refers to nothing.
    #[error("{place} names {what} {name:?}, which does not exist")]
    Unknown {
        /// Where the name stands.
        place: String,
        /// What it should be the name of.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A number out of its range.
    #[error("{what} is {value:?}, but must be {range}")]
    Figure {
        /// What the number says.
        what: String,
        /// The number.
        value: f64,
        /// What it should be.
        range: &'static str,
    },
    /// The operators do not form an acyclic graph.
    #[error("the graph has a cycle: {}", arrows(.operators))]
    Cycle {
        /// The operators of one cycle, in order.
        operators: Vec<String>,
    },
    /// A device that is no host has to move data and has nothing to move it over.
    #[error("kind {kind:?} has no link, which {needed_for} needs")]
    NoLink {
        /// The kind.
        kind: String,
        /// What needs the link.
        needed_for: String,
    },
    /// One device name means two devices.
    #[error("{name:?} is a device of kind {first:?} and of kind {second:?}: rename a kind")]
    AmbiguousDevice {
        /// The device name.
        name: String,
        /// The shorter kind name.
        first: String,
        /// The longer kind name.
        second: String,
    },
    /// A matrix that is not square over all devices.
    #[error("{field} of the matrix must have a row and a column for each of the {devices} devices")]
    Matrix {
        /// Which of the two.
        field: &'static str,
        /// Devices of the cluster.
        devices: u64,
    },
    /// A rule of the objective lacks a figure.
    #[error("{rule} needs {needs}")]
    Rule {
        /// The rule.
        rule: &'static str,
        /// What it needs.
        needs: &'static str,
    },
    /// A part of the cost model that this version knows nothing of.
    #[error("{what} is not checked by this version")]
    NotChecked {
        /// The part.
        what: &'static str,
    },
}

impl CheckError {
    /// A stable name of the sort of error, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            CheckError::Schema { .. } => "schema",
            CheckError::Duplicate { .. } => "duplicate",
            CheckError::Unknown { .. } => "unknown-name",
            CheckError::Figure { .. } => "figure",
            CheckError::Cycle { .. } => "cycle",
            CheckError::NoLink { .. } => "no-link",
            CheckError::AmbiguousDevice { .. } => "ambiguous-device",
            CheckError::Matrix { .. } => "matrix",
            CheckError::Rule { .. } => "rule",
            CheckError::NotChecked { .. } => "not-checked",
        }
    }
}

/// The names of a cycle with the first repeated at the end, the middle of a long one left out.
fn arrows(operators: &[String]) -> String {
    const MOST: usize = 8;
    let mut names: Vec<&str> = operators.iter().take(MOST).map(String::as_str).collect();
    if operators.len() > MOST {
        names.push("…");
    }
    names.extend(operators.first().map(String::as_str));
    names.join(" → ")
}
