//! Errors of exporting a serving plan to an engine.

use stagewright_core::code::Code;
use thiserror::Error;

use stagewright_report::units::name as shown;

use crate::code::E::*;

/// Reason why a serving plan cannot be exported to an engine.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ServingError {
    /// The target does not start the engine of the plan.
    #[error("the plan is for the engine `{}`, but {rule}", shown(.engine))]
    Engine {
        /// Engine of the plan.
        engine: String,
        /// Engines of the target.
        rule: &'static str,
    },
    /// The engine has no option for a part of the plan.
    #[error("the plan has {what}, but {rule}")]
    Lacks {
        /// Part of the plan.
        what: String,
        /// Rule of the engine.
        rule: &'static str,
        /// A hint for fixing the error.
        help: &'static str,
        /// Path in the plan.
        place: String,
    },
}

impl ServingError {
    /// Stable error code.
    pub fn code(&self) -> Code {
        match self {
            ServingError::Engine { .. } => E035,
            ServingError::Lacks { .. } => E036,
        }
        .into()
    }

    /// Path of the offending entry of the plan.
    pub fn place(&self) -> &str {
        match self {
            ServingError::Engine { .. } => "question.engine",
            ServingError::Lacks { place, .. } => place,
        }
    }

    /// A hint for fixing the error.
    pub fn help(&self) -> &'static str {
        match self {
            ServingError::Engine { .. } => {
                "export to a target of the engine, which `export --list` shows, or plan with --engine"
            }
            ServingError::Lacks { help, .. } => help,
        }
    }
}
