//! Solvers under other names: with a checkpoint of one's own, and adapted to every input first.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A solver under another name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Variant {
    /// What it is called in `solvers` and in the tables.
    pub(super) name: String,
    /// The solver.
    pub(super) solver: String,
    /// As `--checkpoint` of `plan`, relative to the suite file.
    #[serde(default)]
    pub(super) checkpoint: Option<PathBuf>,
    /// As `--zero-shot` of `plan`.
    #[serde(default)]
    pub(super) zero_shot: bool,
    /// As `--time-limit` of `finetune`, which runs before every case; none leaves the checkpoint as it is.
    #[serde(default)]
    pub(super) finetune: Option<String>,
}

impl Variant {
    /// Its checkpoint's path, beside a suite.
    pub(super) fn beside(self, folder: &Path) -> Variant {
        Variant { checkpoint: self.checkpoint.map(|file| folder.join(file)), ..self }
    }
}
