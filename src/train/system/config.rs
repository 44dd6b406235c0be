//! The configuration of a run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use stagewright_policy::learn::AdamConfig;
use stagewright_policy::systems::{Kind, Settings};

use super::super::recipe::{Recipe, RecipeDocument, Target};
use super::super::run::{MOST_HELD_OUT, MOST_LEARNED, RunError};

/// The value of `schema` in a configuration.
pub const SYSTEM_TRAINING_SCHEMA: &str = "stagewright.system-training/1";

/// More are mistakes.
const MOST_EPISODES: u64 = 1 << 40;
/// Graphs whose returns have room in a state.
const MOST_BASELINES: u64 = 1000;

/// Problems of a recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problems {
    /// Which.
    pub recipe: RecipeDocument,
    /// How many.
    pub count: u64,
}

/// What a configuration file says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemRunDocument {
    /// Always `stagewright.system-training/1`.
    pub schema: String,
    /// Which system.
    pub system: Kind,
    /// Seed of the first parameters and of every draw.
    pub seed: u64,
    /// A file to begin with, beside the configuration; none begins with new parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PathBuf>,
    /// Its sizes.
    pub settings: Settings,
    /// Episodes.
    pub episodes: u64,
    /// Episodes between two measurements, after each of which the state is kept.
    pub measure_every: u64,
    /// What is learned from: an episode takes one of them.
    pub data: Problems,
    /// What tells how well; none of it is learned from.
    pub held_out: Problems,
    /// How steps are made; as the system's paper has it, or as was chosen for it, where nothing is said.
    #[serde(default)]
    pub adam: AdamOptions,
}

/// What a run makes differently from the paper.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdamOptions {
    /// See [`AdamConfig::rate`].
    pub rate: Option<f64>,
    /// See [`AdamConfig::warmup`].
    pub warmup: Option<u64>,
    /// See [`AdamConfig::last`].
    pub last: Option<f64>,
    /// See [`AdamConfig::decay`].
    pub decay: Option<f64>,
    /// See [`AdamConfig::clip`].
    pub clip: Option<f64>,
}

impl From<AdamConfig> for AdamOptions {
    fn from(config: AdamConfig) -> AdamOptions {
        let AdamConfig { rate, warmup, last, decay, clip } = config;
        AdamOptions {
            rate: Some(rate),
            warmup: Some(warmup),
            last: Some(last),
            decay: Some(decay),
            clip: Some(clip),
        }
    }
}

impl SystemRunDocument {
    /// A configuration from TOML, with all that it leaves out.
    ///
    /// # Errors
    /// Text that is no configuration, with its line, and numbers that no run can have.
    pub fn from_toml(text: &str) -> Result<SystemRunDocument, RunError> {
        let document: SystemRunDocument =
            toml::from_str(text).map_err(|error| RunError::toml(text, &error))?;
        if let Some(cause) = document.mistake() {
            return Err(RunError::Config { cause, line: None });
        }
        RunError::counts(&[
            ("episodes", document.episodes, MOST_EPISODES),
            ("measure_every", document.measure_every, MOST_EPISODES),
            ("data.count", document.data.count, MOST_LEARNED),
            ("held_out.count", document.held_out.count, MOST_HELD_OUT),
            // A warm-up may take no steps.
            ("adam.warmup", document.adam().warmup.max(1), MOST_EPISODES),
        ])?;
        // What is left out is part of the run as well: with another default it would be another.
        Ok(SystemRunDocument { adam: document.adam().into(), ..document })
    }

    /// How steps are made.
    pub fn adam(&self) -> AdamConfig {
        let (own, paper) = (&self.adam, self.system.adam());
        AdamConfig {
            rate: own.rate.unwrap_or(paper.rate),
            warmup: own.warmup.unwrap_or(paper.warmup),
            last: own.last.unwrap_or(paper.last),
            decay: own.decay.unwrap_or(paper.decay),
            clip: own.clip.unwrap_or(paper.clip),
        }
    }

    fn mistake(&self) -> Option<String> {
        if self.schema != SYSTEM_TRAINING_SCHEMA {
            return Some(format!(
                "the schema is `{}`, this version reads `{SYSTEM_TRAINING_SCHEMA}`",
                self.schema
            ));
        }
        let recipes = [("data", &self.data.recipe), ("held_out", &self.held_out.recipe)];
        for (field, recipe) in recipes {
            if recipe.objectives.contains(&Target::Throughput) {
                return Some(format!("`{field}.recipe.objectives` may only have makespan"));
            }
            if recipe.devices[1] > self.settings.devices {
                return Some(format!(
                    "`{field}.recipe.devices` goes to {}, `settings.devices` is {}",
                    recipe.devices[1], self.settings.devices
                ));
            }
        }
        if self.data.recipe.seed == self.held_out.recipe.seed {
            return Some(
                "`data.recipe.seed` and `held_out.recipe.seed` are the same: what is held out is learned"
                    .into(),
            );
        }
        if self.system == Kind::Placeto && self.data.count > MOST_BASELINES {
            return Some(format!(
                "`data.count` is {}, of placeto it may be at most {MOST_BASELINES}: it keeps the returns of every one",
                self.data.count
            ));
        }
        let adam = self.adam();
        let positive = [("adam.rate", adam.rate), ("adam.clip", adam.clip)];
        if let Some((field, number)) =
            positive.iter().find(|(_, number)| !(*number > 0.0 && number.is_finite()))
        {
            return Some(format!("`{field}` is {number}, it must be above 0 and finite"));
        }
        if !(0.0..=1.0).contains(&adam.last) || !(0.0..=1.0).contains(&adam.decay) {
            return Some("`adam.last` and `adam.decay` must be from 0 to 1".into());
        }
        self.settings.mistake(self.system)
    }

    /// The two recipes, what is learned and what is held out.
    ///
    /// # Errors
    /// Recipes that cannot be drawn from.
    pub(super) fn recipes(&self) -> Result<[Recipe; 2], RunError> {
        let recipe = |field: &'static str, problems: &Problems| {
            Recipe::new(problems.recipe.clone()).map_err(|error| RunError::Recipe { field, error })
        };
        Ok([recipe("data.recipe", &self.data)?, recipe("held_out.recipe", &self.held_out)?])
    }
}
