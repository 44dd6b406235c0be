//! Errors as the user sees them: code, cause, place, help.
//!
//! Libraries have typed errors with codes; this module adds the file that they are about. `data/errors.md` explains
//! every code.

use std::fmt;

use stagewright::clusters::NameError;
use stagewright::core::cluster::ClusterError;
use stagewright::core::graph::GraphError;
use stagewright::core::problem::ProblemError;
use stagewright::formats::InputError;
use stagewright::placement::PlacementError;
use stagewright::text::visible;
use stagewright::workloads::WorkloadError;

/// The result of a step of a command.
pub(crate) type Result<T, E = CliError> = std::result::Result<T, E>;

/// An error for display.
#[derive(Debug, Clone)]
pub(crate) struct CliError {
    code: String,
    cause: String,
    place: Option<String>,
    /// Its lines.
    help: Vec<String>,
}

impl CliError {
    pub(crate) fn new(code: &str, cause: impl Into<String>) -> Self {
        CliError { code: code.into(), cause: cause.into(), place: None, help: Vec::new() }
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// What went wrong, alone.
    pub(crate) fn cause(&self) -> &str {
        &self.cause
    }

    pub(crate) fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = vec![help.into()];
        self
    }

    /// A graph that cannot be built from the file called `label`.
    pub(crate) fn graph(label: &str, error: &GraphError) -> Self {
        CliError::new(error.code(), error.to_string())
            .at(format!("{label}: {}", error.place()))
            .help(error.help())
    }

    /// A cluster that cannot be built from the file called `label`.
    pub(crate) fn cluster(label: &str, error: &ClusterError) -> Self {
        CliError::new(error.code(), error.to_string())
            .at(format!("{label}: {}", error.place()))
            .help(error.help())
    }

    /// Inputs that do not form a valid problem together.
    pub(crate) fn problem(label: &str, error: &ProblemError) -> Self {
        CliError::new(error.code(), error.to_string()).at(label).help(error.help())
    }

    /// A plan that does not describe a valid placement.
    pub(crate) fn placement(label: &str, error: &PlacementError) -> Self {
        CliError::new(error.code(), error.to_string()).at(label).help(error.help())
    }
}

impl From<InputError> for CliError {
    fn from(error: InputError) -> Self {
        CliError::new(error.code, error.message.clone()).at(error.place.to_string()).help(error.help)
    }
}

impl From<NameError> for CliError {
    fn from(error: NameError) -> Self {
        let help = error.help().lines().map(|line| line.trim().to_owned()).collect();
        CliError { help, ..CliError::new(error.code(), error.to_string()) }
    }
}

impl From<WorkloadError> for CliError {
    fn from(error: WorkloadError) -> Self {
        CliError::new(error.code(), error.to_string()).at(error.place()).help(error.help())
    }
}

/// Over several lines, of which what is in an input makes none.
impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code, visible(&self.cause))?;
        if let Some(place) = &self.place {
            write!(f, "\n  --> {}", visible(place))?;
        }
        for (at, line) in self.help.iter().enumerate() {
            let before = if at == 0 { "  help: " } else { "    " };
            write!(f, "\n{before}{}", visible(line))?;
        }
        Ok(())
    }
}
