//! A network in training, and its serialisable state.

use candle_core::{DType, Device};
use serde::{Deserialize, Serialize};

use super::adam::AdamConfig;
use super::descent::{Descent, Parts};
use super::error::TrainError;
use super::example::Example;
use super::loss::{Losses, imitation};
use crate::checkpoint::{self, Card, CheckpointError};
use crate::network::Network;

/// The value of `schema` in a training state.
pub const STATE_SCHEMA: &str = "stagewright.policy-training/1";

/// Metadata of a training state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainerState {
    /// Always [`STATE_SCHEMA`].
    pub schema: String,
    /// Steps taken.
    pub step: u64,
    /// Progress of the trainer, opaque to this module.
    pub progress: serde_json::Value,
    /// The card of the network.
    pub card: Card,
}

/// A network in training.
#[derive(Debug)]
pub struct Trainer {
    /// The network.
    pub network: Network,
    descent: Descent,
}

impl Trainer {
    /// Starts the training of a network.
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub fn new(network: Network, config: AdamConfig) -> Result<Trainer, TrainError> {
        let descent = Descent::new(network.weights(), config)?;
        Ok(Trainer { network, descent })
    }

    /// Steps taken.
    pub fn step(&self) -> u64 {
        self.descent.steps()
    }

    /// Takes one imitation step at learning rate `rate`. Returns the losses before the step and the gradient norm.
    ///
    /// # Errors
    /// If a gradient is not finite.
    pub fn imitate(&mut self, examples: &[&Example], rate: f64) -> Result<(Losses, f64), TrainError> {
        let losses = self.losses(examples)?;
        let norm = self.descent.step(self.network.weights(), &losses.total, rate)?;
        Ok((losses, norm))
    }

    /// Losses on the given examples.
    ///
    /// # Errors
    /// If a tensor operation fails.
    pub fn losses(&self, examples: &[&Example]) -> Result<Losses, TrainError> {
        let inputs: Vec<_> = examples.iter().map(|example| &example.input).collect();
        let targets: Vec<_> = examples.iter().map(|example| &example.targets).collect();
        let batch = self.network.batch(&inputs)?;
        Ok(imitation(&self.network.forward(&batch)?, &batch, &targets)?)
    }

    /// Serialises everything needed to resume exactly.
    ///
    /// # Errors
    /// If tensors cannot be read back from their device.
    pub fn to_bytes(&self, card: &Card, progress: serde_json::Value) -> Result<Vec<u8>, TrainError> {
        let tensors = self.descent.tensors(self.network.weights());
        let (schema, card) = (STATE_SCHEMA.into(), card.clone());
        Ok(checkpoint::write(&tensors, &TrainerState { schema, step: self.descent.steps(), progress, card })?)
    }

    /// Restores training from its state.
    ///
    /// # Errors
    /// If the bytes are not a training state.
    pub fn from_bytes(
        bytes: &[u8],
        config: AdamConfig,
        device: &Device,
    ) -> Result<(Trainer, TrainerState), TrainError> {
        let (tensors, metadata) = checkpoint::read(bytes)?;
        let foreign = |error: serde_json::Error| {
            CheckpointError::Foreign(format!("its metadata cannot be parsed: {error}"))
        };
        let value: serde_json::Value = serde_json::from_str(&metadata).map_err(foreign)?;
        match value.get("schema").and_then(|schema| schema.as_str()) {
            Some(STATE_SCHEMA) => {}
            Some(other) => return Err(CheckpointError::Schema(other.into(), STATE_SCHEMA).into()),
            None => return Err(CheckpointError::Foreign("its metadata have no schema".into()).into()),
        }
        let state: TrainerState = serde_json::from_value(value).map_err(foreign)?;
        let card = checkpoint::card(&serde_json::to_string(&state.card).map_err(foreign)?)?;
        let mut parts = Parts::from_tensors(tensors)?;
        let network = Network::from_parameters(card.network, parts.take_weights(), DType::F32, device)
            .map_err(CheckpointError::from)?;
        let descent = Descent::restore(network.weights(), config, state.step, parts)?;
        let trainer = Trainer { network, descent };
        Ok((trainer, state))
    }
}
