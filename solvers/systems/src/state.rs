//! Serialised systems: parameters, optimiser state, baselines, and provenance.

use std::collections::BTreeMap;

use candle_core::Tensor;
use serde::{Deserialize, Serialize};
use stagewright_policy::checkpoint::{self, CheckpointError};
use stagewright_policy::learn::{AdamConfig, Descent, Parts, TrainError};

use crate::agent::{Agent, Baselines};
use crate::{Kind, Settings};

/// The value of `schema` in a system file.
pub const SYSTEM_SCHEMA: &str = "stagewright.system/1";

/// Upper limit on the number of steps; more are a mistake.
const MAX_STEPS: u64 = 1 << 50;

/// Metadata of a system file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemCard {
    /// Always [`SYSTEM_SCHEMA`].
    pub schema: String,
    /// The system.
    pub system: Kind,
    /// Sizes of the system.
    pub settings: Settings,
    /// Optimiser steps taken.
    pub steps: u64,
    /// Baselines of the system.
    baselines: Baselines,
    /// Progress of the trainer, opaque to this module.
    #[serde(default)]
    pub progress: serde_json::Value,
}

impl Agent {
    /// Clears the baselines.
    pub fn forget(&mut self) {
        self.baselines.clear();
    }

    /// Serialises the system with its optimiser state, to resume from.
    ///
    /// # Errors
    /// If tensors cannot be read.
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

    /// The system of a file, with its optimiser and metadata. Its baselines belong to the graphs that it was trained
    /// on: clear them with [`Agent::forget`] before continuing on other graphs.
    ///
    /// # Errors
    /// If the bytes are not a system file.
    pub fn from_bytes(
        bytes: &[u8],
        config: Option<AdamConfig>,
    ) -> Result<(Agent, Descent, SystemCard), CheckpointError> {
        let (tensors, metadata) = checkpoint::read(bytes)?;
        let foreign = |error: serde_json::Error| {
            CheckpointError::Foreign(format!("its metadata cannot be parsed: {error}"))
        };
        let value: serde_json::Value = serde_json::from_str(&metadata).map_err(foreign)?;
        match value.get("schema").and_then(|schema| schema.as_str()) {
            Some(SYSTEM_SCHEMA) => {}
            Some(other) => return Err(CheckpointError::Schema(other.into(), SYSTEM_SCHEMA)),
            None => return Err(CheckpointError::Foreign("its metadata have no schema".into())),
        }
        let card: SystemCard = serde_json::from_value(value).map_err(foreign)?;
        if let Some(mistake) = card.settings.mistake(card.system) {
            return Err(CheckpointError::Size(mistake));
        }
        let is_sound = |rows: &Vec<Vec<f64>>| {
            !rows.is_empty()
                && rows.iter().all(|row| !row.is_empty() && row.iter().all(|number| number.is_finite()))
        };
        if card.steps > MAX_STEPS || !card.baselines.values().all(is_sound) {
            return Err(CheckpointError::Size(
                "its baselines or its steps are not those of a training run".into(),
            ));
        }
        let mut parts = Parts::from_tensors(tensors)?;
        let parameters: BTreeMap<String, Tensor> = parts.take_weights();
        let mut agent = Agent::from_parameters(card.system, card.settings, parameters)?;
        agent.baselines.clone_from(&card.baselines);
        let config = config.unwrap_or_else(|| card.system.adam());
        let descent = Descent::restore(&agent.weights, config, card.steps, parts)?;
        Ok((agent, descent, card))
    }
}
