//! Configuration of a training run of a learned system.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use stagewright_policy::learn::AdamConfig;
use stagewright_systems::{Kind, Settings};

use super::super::recipe::{Recipe, RecipeDocument, Target};
use super::super::run::{MAX_HELD_OUT, MAX_LEARNED, Result, RunError, SAME_SEED, recipes};

/// The value of `schema` in a configuration.
pub const SYSTEM_TRAINING_SCHEMA: &str = "stagewright.system-training/1";

/// Maximum number of episodes of a run; larger values are mistakes.
const MAX_EPISODES: u64 = 1 << 40;
/// Maximum number of graphs whose returns fit in a state.
const MAX_BASELINES: u64 = 1000;

/// Problems of a recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problems {
    /// The recipe.
    pub recipe: RecipeDocument,
    /// Number of problems.
    pub count: u64,
}

/// Contents of a configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemRunDocument {
    /// Always `stagewright.system-training/1`.
    pub schema: String,
    /// The system.
    pub system: Kind,
    /// Seed of the initial parameters and of all random draws.
    pub seed: u64,
    /// An initial system file, relative to the configuration; new parameters if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PathBuf>,
    /// Sizes of the system.
    pub settings: Settings,
    /// Number of episodes.
    pub episodes: u64,
    /// Episodes between measurements; the state is saved after each.
    pub measure_every: u64,
    /// Training set; an episode uses one of its problems.
    pub data: Problems,
    /// Held-out set, used for evaluation only.
    pub held_out: Problems,
    /// Hyperparameters of the optimiser; by default those of the system, see [`Kind::adam`].
    #[serde(default)]
    pub adam: AdamOptions,
}

/// Deviations from the system's default hyperparameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdamOptions {
    /// Learning rate after the warm-up; see [`AdamConfig::learning_rate`].
    #[serde(rename = "rate")]
    pub learning_rate: Option<f64>,
    /// Number of warm-up steps; see [`AdamConfig::warmup`].
    pub warmup: Option<u64>,
    /// Learning rate at the last step, as a fraction of the one after the warm-up; see
    /// [`AdamConfig::final_lr_fraction`].
    #[serde(rename = "last")]
    pub final_lr_fraction: Option<f64>,
    /// Weight decay; see [`AdamConfig::weight_decay`].
    #[serde(rename = "decay")]
    pub weight_decay: Option<f64>,
    /// Maximum norm of the gradient; see [`AdamConfig::max_grad_norm`].
    #[serde(rename = "clip")]
    pub max_grad_norm: Option<f64>,
}

impl From<AdamConfig> for AdamOptions {
    fn from(config: AdamConfig) -> AdamOptions {
        let AdamConfig {
            learning_rate: rate,
            warmup,
            final_lr_fraction: last,
            weight_decay: decay,
            max_grad_norm: clip,
        } = config;
        AdamOptions {
            learning_rate: Some(rate),
            warmup: Some(warmup),
            final_lr_fraction: Some(last),
            weight_decay: Some(decay),
            max_grad_norm: Some(clip),
        }
    }
}

impl SystemRunDocument {
    /// Reads a configuration from TOML and fills in defaults.
    ///
    /// # Errors
    /// If the text is not a configuration, with the line, or if a value is out of range.
    pub fn from_toml(text: &str) -> Result<SystemRunDocument> {
        let document: SystemRunDocument =
            toml::from_str(text).map_err(|error| RunError::toml(text, &error))?;
        if let Some(cause) = document.mistake() {
            return Err(RunError::Config { cause });
        }
        RunError::counts(&[
            ("episodes", document.episodes, MAX_EPISODES),
            ("measure_every", document.measure_every, MAX_EPISODES),
            ("data.count", document.data.count, MAX_LEARNED),
            ("held_out.count", document.held_out.count, MAX_HELD_OUT),
            // A warm-up may take no steps.
            ("adam.warmup", document.adam().warmup.max(1), MAX_EPISODES),
        ])?;
        // Omitted fields are part of the run as well: another default would make it another run.
        Ok(SystemRunDocument { adam: document.adam().into(), ..document })
    }

    /// Hyperparameters of the optimiser.
    pub fn adam(&self) -> AdamConfig {
        let (own, paper) = (&self.adam, self.system.adam());
        AdamConfig {
            learning_rate: own.learning_rate.unwrap_or(paper.learning_rate),
            warmup: own.warmup.unwrap_or(paper.warmup),
            final_lr_fraction: own.final_lr_fraction.unwrap_or(paper.final_lr_fraction),
            weight_decay: own.weight_decay.unwrap_or(paper.weight_decay),
            max_grad_norm: own.max_grad_norm.unwrap_or(paper.max_grad_norm),
        }
    }

    fn mistake(&self) -> Option<String> {
        if self.schema != SYSTEM_TRAINING_SCHEMA {
            return Some(format!("the schema is `{}`, expected `{SYSTEM_TRAINING_SCHEMA}`", self.schema));
        }
        let recipes = [("data", &self.data.recipe), ("held_out", &self.held_out.recipe)];
        for (field, recipe) in recipes {
            if recipe.objectives.contains(&Target::Throughput) {
                return Some(format!("`{field}.recipe.objectives` may only contain makespan"));
            }
            if recipe.devices[1] > self.settings.devices {
                return Some(format!(
                    "`{field}.recipe.devices` goes up to {}, but `settings.devices` is {}",
                    recipe.devices[1], self.settings.devices
                ));
            }
        }
        if self.data.recipe.seed == self.held_out.recipe.seed {
            return Some(SAME_SEED.into());
        }
        if self.system == Kind::Placeto && self.data.count > MAX_BASELINES {
            return Some(format!(
                "`data.count` is {}, expected at most {MAX_BASELINES} for placeto, which keeps the returns of every \
                 problem",
                self.data.count
            ));
        }
        let adam = self.adam();
        let positive = [("adam.rate", adam.learning_rate), ("adam.clip", adam.max_grad_norm)];
        if let Some((field, number)) =
            positive.iter().find(|(_, number)| !(*number > 0.0 && number.is_finite()))
        {
            return Some(format!("`{field}` is {number}, expected more than 0 and finite"));
        }
        if !(0.0..=1.0).contains(&adam.final_lr_fraction) || !(0.0..=1.0).contains(&adam.weight_decay) {
            return Some("`adam.last` and `adam.decay` must be from 0 to 1".into());
        }
        self.settings.mistake(self.system)
    }

    /// The recipes of the training set and of the held-out set.
    ///
    /// # Errors
    /// If a recipe is invalid.
    pub(super) fn recipes(&self) -> Result<[Recipe; 2]> {
        recipes(&self.data.recipe, &self.held_out.recipe)
    }
}
