//! Errors as users see them, on the command line and in Python: code, cause, place, help.
//!
//! Crates have typed errors with codes; this module adds the name of the input concerned. `data/errors.md` explains
//! every code.

use std::fmt;

use stagewright_core::cluster::ClusterError;
use stagewright_core::code::Code;
use stagewright_core::graph::GraphError;
use stagewright_core::problem::ProblemError;
use stagewright_core::text::visible;
use stagewright_formats::InputError;
use stagewright_formats::clusters::NameError;
use stagewright_formats::placement::PlacementError;
use stagewright_workloads::WorkloadError;

/// A result with an error for display.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// An error for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    code: Code,
    cause: String,
    place: Option<String>,
    /// Lines of the help.
    help: Vec<String>,
}

impl Failure {
    /// An error with a stable code and its cause.
    pub fn new(code: impl Into<Code>, cause: impl Into<String>) -> Self {
        Failure { code: code.into(), cause: cause.into(), place: None, help: Vec::new() }
    }

    /// The cause alone, without code, place and help.
    pub fn cause(&self) -> &str {
        &self.cause
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Place of the error, if it is known.
    pub fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// The lines of the help.
    pub fn help_lines(&self) -> &[String] {
        &self.help
    }

    /// Adds the place of the error.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Adds a remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = vec![help.into()];
        self
    }

    /// The error for a graph that cannot be built from the file called `label`.
    pub fn graph(label: &str, error: &GraphError) -> Self {
        Failure::new(error.code(), error.to_string())
            .at(format!("{label}: {}", error.place()))
            .help(error.help())
    }

    /// The error for a cluster that cannot be built from the file called `label`.
    pub fn cluster(label: &str, error: &ClusterError) -> Self {
        Failure::new(error.code(), error.to_string())
            .at(format!("{label}: {}", error.place()))
            .help(error.help())
    }

    /// The error for inputs that do not form a valid problem together.
    pub fn problem(label: &str, error: &ProblemError) -> Self {
        Failure::new(error.code(), error.to_string()).at(label).help(error.help())
    }

    /// The error for a plan that does not describe a valid placement.
    pub fn placement(label: &str, error: &PlacementError) -> Self {
        Failure::new(error.code(), error.to_string()).at(label).help(error.help())
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        Failure::new(error.code, error.message.clone()).at(error.place.to_string()).help(error.help)
    }
}

impl From<NameError> for Failure {
    fn from(error: NameError) -> Self {
        let help = error.help().lines().map(|line| line.trim().to_owned()).collect();
        Failure { help, ..Failure::new(error.code(), error.to_string()) }
    }
}

impl From<WorkloadError> for Failure {
    fn from(error: WorkloadError) -> Self {
        Failure::new(error.code(), error.to_string()).at(error.place()).help(error.help())
    }
}

/// Displays the error over several lines. Line breaks in text from an input are escaped, so they add none.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code, visible(&self.cause))?;
        if let Some(place) = &self.place {
            write!(f, "\n  --> {}", visible(place))?;
        }
        for (index, line) in self.help.iter().enumerate() {
            let before = if index == 0 { "  help: " } else { "    " };
            write!(f, "\n{before}{}", visible(line))?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
