//! Errors of workload generation.

use stagewright_core::code::Code;
use thiserror::Error;

use crate::code::W::*;
use stagewright_formats::nearest::instead;

/// The hyperparameters describe no valid graph.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// No family has this name.
    #[error("unknown workload family `{name}`")]
    UnknownFamily {
        /// The name.
        name: String,
        /// The known names.
        known: Vec<&'static str>,
    },
    /// The family does not have this variant.
    #[error("`{family}` has no variant `{name}`")]
    UnknownVariant {
        /// The family.
        family: &'static str,
        /// The name.
        name: String,
        /// The known names.
        known: Vec<&'static str>,
    },
    /// The size does not apply to the family.
    #[error("`{family}` has no size `{size}`")]
    NoSuchSize {
        /// The family.
        family: &'static str,
        /// The size.
        size: &'static str,
        /// The sizes of the family.
        known: Vec<&'static str>,
    },
    /// The size is too small or too large.
    #[error("{size} is {value}, expected {least} to {most}")]
    OutOfRange {
        /// The size.
        size: &'static str,
        /// Value of the size.
        value: u64,
        /// Smallest allowed value.
        least: u64,
        /// Largest allowed value.
        most: u64,
    },
    /// The size is not a multiple of the required divisor.
    #[error("{size} is {value}, expected a multiple of {of}")]
    NotAMultiple {
        /// The size.
        size: &'static str,
        /// Value of the size.
        value: u64,
        /// The required divisor.
        of: u64,
    },
    /// The image is smaller than a window.
    #[error("the image is smaller than the window of `{operator}`")]
    ImageTooSmall {
        /// The operator.
        operator: String,
    },
    /// The graph has more operators than any solver here can handle.
    #[error("the graph has more than {most} operators")]
    TooManyOperators {
        /// Maximum number of operators.
        most: usize,
    },
}

impl WorkloadError {
    /// Stable error code.
    pub fn code(&self) -> Code {
        match self {
            WorkloadError::UnknownFamily { .. } => W001,
            WorkloadError::UnknownVariant { .. } => W002,
            WorkloadError::NoSuchSize { .. } => W003,
            WorkloadError::OutOfRange { .. } => W004,
            WorkloadError::NotAMultiple { .. } => W005,
            WorkloadError::ImageTooSmall { .. } => W006,
            WorkloadError::TooManyOperators { .. } => W007,
        }
        .into()
    }

    /// The invalid parameter, named as on the command line.
    pub fn place(&self) -> String {
        match self {
            WorkloadError::UnknownFamily { .. } => "FAMILY".into(),
            WorkloadError::UnknownVariant { .. } => "--variant".into(),
            WorkloadError::NoSuchSize { size, .. }
            | WorkloadError::OutOfRange { size, .. }
            | WorkloadError::NotAMultiple { size, .. } => format!("--{size}"),
            WorkloadError::ImageTooSmall { .. } => "--image".into(),
            WorkloadError::TooManyOperators { .. } => "sizes".into(),
        }
    }

    /// A hint for fixing the error.
    pub fn help(&self) -> String {
        match self {
            WorkloadError::UnknownFamily { name, known } => {
                format!("{}; `stagewright workload --list` lists all", instead(name, known.iter().copied()))
            }
            WorkloadError::UnknownVariant { name, known, family } => {
                format!(
                    "{}; `stagewright workload {family} --list` lists all",
                    instead(name, known.iter().copied())
                )
            }
            WorkloadError::NoSuchSize { known, .. } => {
                let known: Vec<String> = known.iter().map(|size| format!("--{size}")).collect();
                format!("leave it out; the sizes of this family are {}", known.join(", "))
            }
            WorkloadError::OutOfRange { .. } | WorkloadError::NotAMultiple { .. } => {
                "give another size, or leave it out for the default".into()
            }
            WorkloadError::ImageTooSmall { .. } => "give a larger image".into(),
            WorkloadError::TooManyOperators { .. } => {
                "use a shorter sequence or fewer layers, since every step of a recurrent layer is unrolled, or put more \
                 experts into an operator"
                    .into()
            }
        }
    }
}
