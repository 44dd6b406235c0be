//! Why no workload can be generated.

use thiserror::Error;

use super::sizes::Size;
use crate::nearest::instead;

/// Why hyperparameters give no graph.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WorkloadError {
    /// No family has this name.
    #[error("no family of workloads is called `{name}`")]
    UnknownFamily {
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// The family has no such variant.
    #[error("`{family}` has no variant `{name}`")]
    UnknownVariant {
        /// The family.
        family: &'static str,
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// A size that means nothing for the family.
    #[error("`{family}` has no size `{size}`")]
    NoSuchSize {
        /// The family.
        family: &'static str,
        /// The size.
        size: Size,
        /// The sizes that it has.
        known: Vec<Size>,
    },
    /// A size that is too small or too large.
    #[error("{size} is {value}, expected {least} to {most}")]
    OutOfRange {
        /// The size.
        size: Size,
        /// Its value.
        value: u64,
        /// The smallest that is allowed.
        least: u64,
        /// The largest that is allowed.
        most: u64,
    },
    /// A size that another divides.
    #[error("{size} is {value}, expected a multiple of {of}")]
    NotAMultiple {
        /// The size.
        size: Size,
        /// Its value.
        value: u64,
        /// What it must be a multiple of.
        of: u64,
    },
    /// An image that has shrunk to nothing.
    #[error("the image is smaller than the window of `{operator}`")]
    ImageTooSmall {
        /// The operator.
        operator: String,
    },
    /// A graph of more operators than anything here can use.
    #[error("the graph has more than {most} operators")]
    TooManyOperators {
        /// The most there may be.
        most: usize,
    },
}

impl WorkloadError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            WorkloadError::UnknownFamily { .. } => "W001",
            WorkloadError::UnknownVariant { .. } => "W002",
            WorkloadError::NoSuchSize { .. } => "W003",
            WorkloadError::OutOfRange { .. } => "W004",
            WorkloadError::NotAMultiple { .. } => "W005",
            WorkloadError::ImageTooSmall { .. } => "W006",
            WorkloadError::TooManyOperators { .. } => "W007",
        }
    }

    /// The parameter that is wrong, as the command line calls it.
    pub fn place(&self) -> String {
        match self {
            WorkloadError::UnknownFamily { .. } => "FAMILY".into(),
            WorkloadError::UnknownVariant { .. } => "--variant".into(),
            WorkloadError::NoSuchSize { size, .. }
            | WorkloadError::OutOfRange { size, .. }
            | WorkloadError::NotAMultiple { size, .. } => format!("--{}", size.name()),
            WorkloadError::ImageTooSmall { .. } => "--image".into(),
            WorkloadError::TooManyOperators { .. } => "sizes".into(),
        }
    }

    /// What to do about it.
    pub fn help(&self) -> String {
        match self {
            WorkloadError::UnknownFamily { name, known } => {
                format!("{}; `stagewright workload --list` has all", instead(name, known.iter().copied()))
            }
            WorkloadError::UnknownVariant { name, known, family } => {
                format!(
                    "{}; `stagewright workload {family} --list` has all",
                    instead(name, known.iter().copied())
                )
            }
            WorkloadError::NoSuchSize { known, .. } => {
                let known: Vec<String> = known.iter().map(|size| format!("--{}", size.name())).collect();
                format!("leave it out; the sizes of this family are {}", known.join(", "))
            }
            WorkloadError::OutOfRange { .. } | WorkloadError::NotAMultiple { .. } => {
                "give another size, or leave it out for that of the variant".into()
            }
            WorkloadError::ImageTooSmall { .. } => "give a larger image".into(),
            WorkloadError::TooManyOperators { .. } => {
                "use a shorter sequence or fewer layers: every step of a recurrent layer is unrolled".into()
            }
        }
    }
}
