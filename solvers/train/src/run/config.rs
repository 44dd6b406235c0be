//! Configuration of a training run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use stagewright_policy::learn::AdamConfig;
use stagewright_policy::network::Config;

use super::super::label::LabelEffort;
use super::super::recipe::{Recipe, RecipeDocument};
use super::{Result, RunError};

/// The value of `schema` in a configuration.
pub const TRAINING_SCHEMA: &str = "stagewright.training/1";

/// Maximum number of steps of a run; larger values are mistakes.
const MAX_STEPS: u64 = 1 << 40;
/// Maximum number of graphs in memory at once.
const MAX_AT_ONCE: u64 = 1 << 12;
/// Maximum number of training problems, each of which is searched for a label, with all of them in memory.
pub(in super::super) const MAX_LEARNED: u64 = 1 << 20;
/// Maximum number of held-out problems: every measurement evaluates all of them, and their examples are in memory.
pub(in super::super) const MAX_HELD_OUT: u64 = 1 << 16;

/// Stage of training, named after what the network learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Imitation of the best plans of solvers.
    Imitation,
}

/// Problems, and the search effort per label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Distribution of the problems.
    pub recipe: RecipeDocument,
    /// Number of problems.
    pub count: u64,
    /// Seconds per label for a graph of up to 300 operators; either this or `simulations` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Simulations per label, for labels that do not depend on the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulations: Option<u64>,
}

impl Data {
    /// The search effort per label.
    ///
    /// # Errors
    /// If not exactly one of `seconds` and `simulations` is given, or it is out of its range. `field` is the place of
    /// the data.
    pub(super) fn effort(&self, field: &str) -> Result<LabelEffort> {
        let refused = |cause| RunError::Config { cause };
        let effort = match (self.seconds, self.simulations) {
            (Some(seconds), None) => LabelEffort::Seconds(seconds),
            (None, Some(simulations)) => LabelEffort::Simulations(simulations),
            _ => return Err(refused(format!("`{field}` needs one of `seconds` and `simulations`"))),
        };
        let check = effort.check().map_err(|error| refused(format!("`{field}`: {error}")));
        check.map(|()| effort)
    }
}

/// Contents of a configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunDocument {
    /// Always `stagewright.training/1`.
    pub schema: String,
    /// The stage.
    pub stage: Stage,
    /// Seed of the initial parameters and of all random draws.
    pub seed: u64,
    /// An initial checkpoint, relative to the configuration; new parameters if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PathBuf>,
    /// Size of a new network.
    #[serde(default)]
    pub network: Config,
    /// Training set.
    pub data: Data,
    /// Held-out set, used for evaluation only.
    pub held_out: Data,
    /// Optimiser steps.
    pub steps: u64,
    /// Graphs per step.
    pub batch: usize,
    /// Steps between measurements; the state is saved after each.
    pub measure_every: u64,
    /// Measurements without improvement after which the run ends.
    pub patience: u64,
    /// Hyperparameters of the optimiser.
    #[serde(default)]
    pub adam: AdamConfig,
}

/// Message for a configuration whose held-out problems are the same as its training problems.
pub(in super::super) const SAME_SEED: &str =
    "`data.recipe.seed` and `held_out.recipe.seed` are the same: the held-out problems are trained on";

/// The checked recipes of the training problems and of the held-out problems.
pub(in super::super) fn recipes(data: &RecipeDocument, held_out: &RecipeDocument) -> Result<[Recipe; 2]> {
    let recipe = |field, document: &RecipeDocument| {
        Recipe::new(document.clone()).map_err(|error| RunError::Recipe { field, error })
    };
    Ok([recipe("data.recipe", data)?, recipe("held_out.recipe", held_out)?])
}

impl RunDocument {
    /// Reads a configuration from TOML.
    ///
    /// # Errors
    /// If the text is not a configuration, with the line, or if a value is out of range.
    pub fn from_toml(text: &str) -> Result<RunDocument> {
        let document: RunDocument = toml::from_str(text).map_err(|error| RunError::toml(text, &error))?;
        match document.mistake() {
            Some(cause) => return Err(RunError::Config { cause }),
            None => document.counts()?,
        }
        document.efforts()?;
        Ok(document)
    }

    fn counts(&self) -> Result<()> {
        RunError::counts(&[
            ("data.count", self.data.count, MAX_LEARNED),
            ("held_out.count", self.held_out.count, MAX_HELD_OUT),
            ("steps", self.steps, MAX_STEPS),
            ("batch", self.batch as u64, MAX_AT_ONCE),
            ("measure_every", self.measure_every, MAX_STEPS),
            ("patience", self.patience, MAX_STEPS),
            // A warm-up may take no steps.
            ("adam.warmup", self.adam.warmup.max(1), MAX_STEPS),
        ])
    }

    fn mistake(&self) -> Option<String> {
        if self.schema != TRAINING_SCHEMA {
            return Some(format!("the schema is `{}`, expected `{TRAINING_SCHEMA}`", self.schema));
        }
        let shares = [("adam.last", self.adam.final_lr_fraction), ("adam.decay", self.adam.weight_decay)];
        if let Some((field, number)) = shares.iter().find(|(_, number)| !(0.0..=1.0).contains(number)) {
            return Some(format!("`{field}` is {number}, expected 0 to 1"));
        }
        let positive = [("adam.rate", self.adam.learning_rate), ("adam.clip", self.adam.max_grad_norm)];
        if let Some((field, number)) =
            positive.iter().find(|(_, number)| !(*number > 0.0 && number.is_finite()))
        {
            return Some(format!("`{field}` is {number}, expected more than 0"));
        }
        let same = self.data.recipe.seed == self.held_out.recipe.seed;
        if same {
            return Some(SAME_SEED.into());
        }
        self.network.mistake()
    }

    /// The search effort per label of the training set and of the held-out set.
    ///
    /// # Errors
    /// If one is missing or out of its range.
    pub fn efforts(&self) -> Result<[LabelEffort; 2]> {
        Ok([self.data.effort("data")?, self.held_out.effort("held_out")?])
    }

    /// The recipes of the training set and of the held-out set.
    ///
    /// # Errors
    /// If a recipe is invalid.
    pub(super) fn recipes(&self) -> Result<[Recipe; 2]> {
        recipes(&self.data.recipe, &self.held_out.recipe)
    }
}
