//! Errors of training runs.

use stagewright_core::code::Code;
use stagewright_core::problem::ProblemError;
use stagewright_core::solver::SolveError;
use stagewright_formats::fault::Fault;
use stagewright_policy::checkpoint::CheckpointError;
use stagewright_policy::learn::TrainError;
use thiserror::Error;

use super::super::recipe::RecipeError;
use super::super::store::StoreError;
use crate::code::D::*;

/// Hint for a configuration.
const COMPARE: &str =
    "compare with the configurations in data/policy, or in data/policy/systems for learned systems";

/// The result of a step of a run.
pub type Result<T, E = RunError> = std::result::Result<T, E>;

/// Error of a training run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// An invalid configuration.
    #[error("{cause}")]
    Config {
        /// The mistake.
        cause: String,
    },
    /// A configuration that cannot be parsed.
    #[error("{}", fault.message)]
    Notation {
        /// The mistake, with a hint.
        fault: Fault,
        /// Line of the mistake, from 1.
        line: Option<usize>,
    },
    /// An invalid recipe.
    #[error("{field}: {error}")]
    Recipe {
        /// The field with the recipe.
        field: &'static str,
        /// The error.
        error: RecipeError,
    },
    /// An error of a label file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An unusable checkpoint or state.
    #[error("{file}: {error}")]
    Checkpoint {
        /// File of the checkpoint or state.
        file: String,
        /// The error.
        error: CheckpointError,
    },
    /// A failed training step.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A failed solver.
    #[error(transparent)]
    Solver(#[from] SolveError),
    /// A problem that cannot be read as a step.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// A file that cannot be read or written.
    #[error("cannot {doing} `{file}`: {cause}")]
    File {
        /// The operation.
        doing: &'static str,
        /// The file.
        file: String,
        /// The cause.
        cause: String,
    },
    /// A folder with a run of another configuration, or of a version that trains differently.
    #[error("the folder holds a run of another configuration, or of another version of stagewright")]
    OtherRun,
    /// No device for the network.
    #[error("{0}")]
    Device(String),
    /// A folder that another process runs in.
    #[error("another run is active in this folder")]
    InUse {
        /// The folder.
        folder: String,
    },
    /// A checkpoint to start from that the run would replace.
    #[error("the run starts from {file} and would replace it")]
    Replaced {
        /// The checkpoint.
        file: String,
    },
    /// A count that no run can have.
    #[error("`{field}` is {count}, expected 1 to {most}")]
    Count {
        /// The field.
        field: &'static str,
        /// The count.
        count: u64,
        /// Largest valid count.
        most: u64,
    },
}

impl RunError {
    /// Stable error code.
    pub fn code(&self) -> Code {
        match self {
            RunError::Config { .. } | RunError::Notation { .. } | RunError::Count { .. } => D018,
            RunError::Recipe { error, .. } => return error.code(),
            RunError::Store(error) => return error.code(),
            RunError::Checkpoint { error, .. } => return error.code(),
            RunError::Train(error) => return error.code(),
            RunError::Solver(_) => D019,
            RunError::Problem(error) => return error.code(),
            RunError::File { .. } => D020,
            RunError::OtherRun => D021,
            RunError::Device(_) => D022,
            RunError::InUse { .. } => D023,
            RunError::Replaced { .. } => D025,
        }
        .into()
    }

    /// A hint for fixing the error.
    pub fn help(&self) -> String {
        match self {
            RunError::Config { .. } | RunError::Count { .. } => COMPARE.into(),
            RunError::Notation { fault, .. } => format!("{}; {COMPARE}", fault.help),
            RunError::Recipe { error, .. } => error.help(),
            RunError::Store(error) => error.help().into(),
            RunError::Checkpoint { error, .. } => error.help().into(),
            RunError::Train(error) => error.help().into(),
            RunError::Solver(_) => "report it with the configuration".into(),
            RunError::Problem(error) => error.help().into(),
            RunError::File { .. } => {
                "check that the folder exists and is writable, and that the disk has space".into()
            }
            RunError::OtherRun => {
                "give another folder, or the configuration that the run was started with".into()
            }
            RunError::Device(_) => "use a build without the feature `cuda`, or see docs/cuda.md".into(),
            RunError::InUse { .. } => "wait for it to end, or give another folder".into(),
            RunError::Replaced { .. } => "give another folder, or a copy of the checkpoint".into(),
        }
    }

    /// Refuses the first count that is 0 or above its maximum.
    pub(in super::super) fn counts(counts: &[(&'static str, u64, u64)]) -> Result<()> {
        match counts.iter().find(|(_, count, limit)| !(1..=*limit).contains(count)) {
            Some(&(field, count, limit)) => Err(RunError::Count { field, count, most: limit }),
            None => Ok(()),
        }
    }

    /// The error of a configuration that cannot be parsed.
    pub(in super::super) fn toml(text: &str, error: &toml::de::Error) -> RunError {
        let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        RunError::Notation { fault: Fault::of_toml(error), line }
    }

    pub(in super::super) fn file(
        doing: &'static str,
        file: &std::path::Path,
        error: &std::io::Error,
    ) -> RunError {
        RunError::File { doing, file: file.display().to_string(), cause: error.to_string() }
    }
}
