//! Arguments that several commands share: the model with its surroundings, and the limits.

use std::path::{Path, PathBuf};

use clap::Args;
use stagewright::tasks::options::read;
use stagewright::tasks::{ObjectiveOptions, ParallelOptions};

use super::{ImportArguments, ObjectiveArguments, ParallelArguments, Surroundings};
use crate::error::Result;
use crate::error::place;

/// The model, and where its operators may run.
#[derive(Debug, Args)]
pub(crate) struct ModelArguments {
    /// Model file; - is standard input
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) around: AroundArguments,
}

/// The inputs of a problem besides the model and the objective.
#[derive(Debug, Clone, Args)]
pub(crate) struct AroundArguments {
    #[command(flatten)]
    pub(crate) surroundings: Surroundings,
    #[command(flatten)]
    pub(crate) import: ImportArguments,
}

impl AroundArguments {
    /// The cluster: a file, a name or a shorthand.
    pub(crate) fn cluster(&self) -> Option<&Path> {
        self.surroundings.0.file("cluster")
    }

    /// The file of pins.
    pub(crate) fn pins(&self) -> Option<&Path> {
        self.surroundings.0.file("pins")
    }
}

impl ObjectiveArguments {
    /// The options for the library.
    pub(crate) fn options(&self) -> Result<ObjectiveOptions> {
        read(self.0.values().clone(), &place())
    }
}

impl ParallelArguments {
    /// Whether a joint plan is requested.
    pub(crate) fn is_given(&self) -> bool {
        self.0.text("parallel").is_some()
    }

    /// The options for the library; `None` without parallelism.
    pub(crate) fn options(&self) -> Result<Option<ParallelOptions>> {
        self.is_given().then(|| read(self.0.values().clone(), &place())).transpose()
    }
}

/// Limits, seed and threads of a solve.
#[derive(Debug, Args)]
#[command(next_help_heading = "Solving")]
pub(crate) struct SolveArguments {
    /// Wall-clock limit of the solve, from when its inputs are read: 60s, 500ms, 2m, none. Several hundred thousand operators
    /// may take some tenths of a second more
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub(crate) time_limit: String,
    /// Memory limit of the solver's tables: 8GiB, none
    #[arg(long, value_name = "SIZE", default_value = "8GiB")]
    pub(crate) memory_limit: String,
    /// Stop at this gap, such as 1% or 0.01, and exit with 4 if it is not reached
    #[arg(long, value_name = "SHARE")]
    pub(crate) gap: Option<String>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Worker threads [default: one per processor]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
}
