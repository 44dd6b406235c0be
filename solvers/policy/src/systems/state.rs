//! Systems as bytes: parameters, what goes on with them, and what made them.

use std::collections::BTreeMap;

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::system::{Agent, Baselines};
use super::{Kind, Settings};
use crate::checkpoint::{self, CheckpointError};
use crate::learn::{AdamConfig, Descent, Parts, TrainError};

/// The value of `schema` in a system's file.
pub const SYSTEM_SCHEMA: &str = "stagewright.system/1";

/// More steps are a mistake.
const MOST_STEPS: u64 = 1 << 50;

/// What a file says of the system in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemCard {
    /// Always [`SYSTEM_SCHEMA`].
    pub schema: String,
    /// Which system it is.
    pub system: Kind,
    /// Its sizes.
    pub settings: Settings,
    /// Steps of gradients made.
    pub steps: u64,
    /// Its baselines.
    baselines: Baselines,
    /// Whatever the trainer has to know to go on.
    #[serde(default)]
    pub progress: serde_json::Value,
}

impl Agent {
    /// Forgets what rewards were compared with.
    pub fn forget(&mut self) {
        self.baselines.clear();
    }

    /// The system with the steps made so far, to go on from.
    ///
    /// # Errors
    /// Where tensors cannot be read.
    pub fn to_bytes(&self, descent: &Descent, progress: serde_json::Value) -> Result<Vec<u8>, TrainError> {
        let card = SystemCard {
            schema: SYSTEM_SCHEMA.into(),
            system: self.kind,
            settings: self.settings,
            steps: descent.steps(),
            baselines: self.baselines.clone(),
            progress,
        };
        Ok(checkpoint::write(&descent.tensors(&self.weights), &card)?)
    }

    /// The system of a file, the steps made so far, and what the file says of it. Its baselines are those of the graphs
    /// that it was trained on: forget them ([`Agent::forget`]) before it goes on to others.
    ///
    /// # Errors
    /// Bytes that are no such file.
    pub fn from_bytes(
        bytes: &[u8],
        config: Option<AdamConfig>,
    ) -> Result<(Agent, Descent, SystemCard), CheckpointError> {
        let (tensors, metadata) = checkpoint::read(bytes)?;
        let foreign =
            |error: serde_json::Error| CheckpointError::Foreign(format!("its metadata do not read: {error}"));
        let value: serde_json::Value = serde_json::from_str(&metadata).map_err(foreign)?;
        match value.get("schema").and_then(|schema| schema.as_str()) {
            Some(SYSTEM_SCHEMA) => {}
            Some(other) => return Err(CheckpointError::Schema(other.into(), SYSTEM_SCHEMA)),
            None => return Err(CheckpointError::Foreign("its metadata name no schema".into())),
        }
        let card: SystemCard = serde_json::from_value(value).map_err(foreign)?;
        if let Some(mistake) = card.settings.mistake(card.system) {
            return Err(CheckpointError::Size(mistake));
        }
        let is_sound = |rows: &Vec<Vec<f64>>| {
            !rows.is_empty()
                && rows.iter().all(|row| !row.is_empty() && row.iter().all(|number| number.is_finite()))
        };
        if card.steps > MOST_STEPS || !card.baselines.values().all(is_sound) {
            return Err(CheckpointError::Size(
                "its baselines or its steps are none that a training leaves".into(),
            ));
        }
        let mut parts = Parts::of(tensors)?;
        let parameters: BTreeMap<String, Tensor> = parts.take_weights();
        let mut agent = Agent::of(card.system, card.settings, parameters)?;
        agent.baselines.clone_from(&card.baselines);
        let config = config.unwrap_or_else(|| card.system.adam());
        let descent = Descent::restore(&agent.weights, config, card.steps, parts)?;
        Ok((agent, descent, card))
    }
}
