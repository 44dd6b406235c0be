//! Variants of solvers: with a given checkpoint, adapted to each input first, or started from the plan of a sibling.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use stagewright::registry;

use crate::code::B001;
use crate::error::{CliError, Result};

/// A variant of a solver, with its own name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Variant {
    /// Name in `solvers` and in the tables.
    pub(super) name: String,
    /// The solver.
    pub(super) solver: String,
    /// Value of `--checkpoint` of `plan`, relative to the suite file.
    pub(super) checkpoint: Option<PathBuf>,
    /// Whether `--zero-shot` is passed to `plan`.
    #[serde(default)]
    pub(super) zero_shot: bool,
    /// Value of `--time-limit` of `finetune`, which runs before every case; `None` means no fine-tuning.
    pub(super) finetune: Option<String>,
    /// Value of `--start` of `plan`, relative to the suite file; `{}` stands for the stem of the model's file.
    start: Option<String>,
    /// Value of `--time-limit` for planning the workload's sibling, from whose plan the case starts.
    pub(super) sibling: Option<String>,
    /// Folder of the suite.
    #[serde(skip)]
    folder: PathBuf,
}

impl Variant {
    /// Describes what is invalid in the variant, if anything.
    pub(super) fn mistake(&self) -> Option<String> {
        let name = &self.name;
        if registry::named(name).is_some() {
            return Some(format!("the variant `{name}` has the name of a solver"));
        }
        if self.solver != "auto" && registry::named(&self.solver).is_none() {
            return Some(format!("unknown solver `{}` of the variant `{name}`", self.solver));
        }
        if self.zero_shot && self.checkpoint.is_none() {
            return Some(format!("the variant `{name}` is zero-shot and has no checkpoint"));
        }
        if self.start.is_some() && self.sibling.is_some() {
            return Some(format!("the variant `{name}` has two plans to start from: `start` and `sibling`"));
        }
        let is_adapted = self.finetune.is_some();
        (is_adapted && !self.solver.starts_with("policy"))
            .then(|| format!("the variant `{name}` is of `{}`, which `finetune` does not adapt", self.solver))
    }

    /// Path of the plan from which a case of a model starts.
    pub(super) fn start(&self, model: &str) -> Option<PathBuf> {
        self.start.as_ref().map(|path| self.folder.join(path.replace("{}", model)))
    }

    /// Resolves paths relative to the suite's folder.
    ///
    /// # Errors
    /// If the checkpoint does not exist.
    pub(super) fn beside(self, folder: &Path) -> Result<Variant> {
        let checkpoint = self.checkpoint.as_ref().map(|file| folder.join(file));
        if let Some(file) = checkpoint.as_ref().filter(|file| !file.is_file()) {
            return Err(CliError::new(
                B001,
                format!("the checkpoint of the variant `{}` does not exist", self.name),
            )
            .at(file.display().to_string())
            .help("correct the path, or create the checkpoint"));
        }
        Ok(Variant { checkpoint, folder: folder.to_owned(), ..self })
    }
}
