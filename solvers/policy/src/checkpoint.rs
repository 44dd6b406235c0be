//! Checkpoints: networks as safetensors files, with their provenance in the metadata.
//!
//! A checkpoint records its schema, the version of its features, the size of its network, and its training history. It
//! is rejected if it is truncated, of another kind, trained on other features, of a size other than the declared one,
//! or contains a non-finite number: a damaged network would still produce an answer.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};
use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};
use stagewright_core::code::Code;
use thiserror::Error;

use crate::code::K::*;
use crate::features::FEATURES;
use crate::network::{Config, Network};
use crate::weights::WeightsError;

/// The value of `schema` in a checkpoint.
pub const CHECKPOINT_SCHEMA: &str = "stagewright.policy/1";
/// Key of the metadata, which are a single entry because safetensors writes several entries in an unspecified order.
const METADATA: &str = "stagewright";

/// Metadata of a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// Always [`CHECKPOINT_SCHEMA`].
    pub schema: String,
    /// Version of the features that the network reads.
    pub features: u32,
    /// The size of the network.
    pub network: Config,
    /// Seed of the initial parameters.
    pub seed: u64,
    /// Stages of training, each with its configuration; the trainer decides what they contain.
    #[serde(default)]
    pub training: serde_json::Value,
}

impl Card {
    /// The card of an untrained network.
    pub fn new(network: Config, seed: u64) -> Card {
        let (schema, training) = (CHECKPOINT_SCHEMA.into(), serde_json::Value::Null);
        Card { schema, features: FEATURES, network, seed, training }
    }
}

/// Reason why a checkpoint cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Not a safetensors file, or truncated.
    #[error("not a safetensors file, or a truncated one: {0}")]
    Unreadable(SafeTensorError),
    /// A safetensors file of another kind.
    #[error("not a checkpoint of the policy or of a learned system: {0}")]
    Foreign(String),
    /// A schema that this version does not read.
    #[error("the checkpoint has the schema `{0}`, expected `{1}`")]
    Schema(String, &'static str),
    /// A checkpoint of a learned system other than the requested one.
    #[error("the checkpoint is of the system `{found}`, not of `{wanted}`")]
    OtherSystem {
        /// System of the checkpoint.
        found: &'static str,
        /// System requested.
        wanted: &'static str,
    },
    /// A network trained on other features.
    #[error("the checkpoint was trained on version {0} of the features, this version computes {FEATURES}")]
    Features(u32),
    /// An invalid network size.
    #[error("the checkpoint does not describe a network: {0}")]
    Size(String),
    /// Parameters that do not match the declared network.
    #[error("the checkpoint does not hold the network that it describes: {0}")]
    Weights(#[from] WeightsError),
    /// A non-finite number.
    #[error("the parameter `{0}` of the checkpoint has a value that is not finite")]
    NotFinite(String),
    /// Parameters that are not 32-bit floats.
    #[error("the parameter `{0}` of the checkpoint is not in fp32")]
    Type(String),
}

impl CheckpointError {
    /// Stable error code.
    pub fn code(&self) -> Code {
        match self {
            CheckpointError::Unreadable(_) => K001,
            CheckpointError::Foreign(_) => K002,
            CheckpointError::Schema(..) | CheckpointError::OtherSystem { .. } => K003,
            CheckpointError::Features(_) => K004,
            CheckpointError::Size(_) => K005,
            CheckpointError::Weights(_) => K006,
            CheckpointError::NotFinite(_) => K007,
            CheckpointError::Type(_) => K008,
        }
        .into()
    }

    /// A hint for fixing the error.
    pub fn help(&self) -> &'static str {
        match self {
            CheckpointError::Unreadable(_) => "copy the file again, or retrain",
            CheckpointError::Foreign(_) => {
                "give a file that `stagewright train` or `stagewright finetune` wrote"
            }
            CheckpointError::Schema(..) => {
                "give a checkpoint of this solver, or retrain if another version wrote it"
            }
            CheckpointError::OtherSystem { .. } => "use it with the `--solver` that it was trained for",
            CheckpointError::Features(_) => "use the version that wrote it, or retrain with this one",
            CheckpointError::Size(_) | CheckpointError::Weights(_) => {
                "retrain: the file was edited or damaged"
            }
            CheckpointError::NotFinite(_) => {
                "use an earlier checkpoint or a lower learning rate: training diverged, or the file was damaged"
            }
            CheckpointError::Type(_) => "convert the parameters to fp32",
        }
    }
}

/// Serialises named tensors with a card. The output is deterministic.
///
/// # Errors
/// If a tensor cannot be read back from its device.
pub fn write(tensors: &BTreeMap<String, Tensor>, card: &impl Serialize) -> candle_core::Result<Vec<u8>> {
    let mut data: BTreeMap<&str, (&[usize], Vec<u8>)> = BTreeMap::new();
    for (name, tensor) in tensors {
        let numbers: Vec<f32> = tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        data.insert(name, (tensor.dims(), bytes));
    }
    let mut views = Vec::new();
    for (name, (shape, bytes)) in &data {
        let view = TensorView::new(Dtype::F32, shape.to_vec(), bytes).map_err(candle_core::Error::wrap)?;
        views.push((*name, view));
    }
    let card = serde_json::to_string(card).map_err(candle_core::Error::wrap)?;
    // A single entry has only one order.
    let metadata = [(METADATA.to_string(), card)].into_iter().collect();
    serialize(views, Some(metadata)).map_err(candle_core::Error::wrap)
}

/// The tensors of a checkpoint, on the CPU, and its metadata, unparsed.
///
/// # Errors
/// If the bytes are not a checkpoint, or a number is not finite.
pub fn read(bytes: &[u8]) -> Result<(BTreeMap<String, Tensor>, String), CheckpointError> {
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(CheckpointError::Unreadable)?;
    let file = SafeTensors::deserialize(bytes).map_err(CheckpointError::Unreadable)?;
    let card = metadata.metadata().as_ref().and_then(|metadata| metadata.get(METADATA));
    let card =
        card.ok_or_else(|| CheckpointError::Foreign(format!("its metadata have no entry `{METADATA}`")))?;
    let mut tensors = BTreeMap::new();
    for (name, view) in file.tensors() {
        if view.dtype() != Dtype::F32 {
            return Err(CheckpointError::Type(name));
        }
        let number = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let numbers: Vec<f32> = view.data().chunks_exact(4).map(number).collect();
        if !numbers.iter().all(|number| number.is_finite()) {
            return Err(CheckpointError::NotFinite(name));
        }
        let tensor = Tensor::from_vec(numbers, view.shape(), &Device::Cpu).map_err(WeightsError::from)?;
        tensors.insert(name, tensor);
    }
    Ok((tensors, card.clone()))
}

/// The card of a checkpoint, checked against this version.
///
/// # Errors
/// If the metadata are not those of a checkpoint, or name another schema or other features.
pub fn card(metadata: &str) -> Result<Card, CheckpointError> {
    let foreign = |error: serde_json::Error| {
        CheckpointError::Foreign(format!("its metadata cannot be parsed: {error}"))
    };
    // The schema comes first: the other fields depend on it.
    let value: serde_json::Value = serde_json::from_str(metadata).map_err(foreign)?;
    match value.get("schema").and_then(|schema| schema.as_str()) {
        Some(CHECKPOINT_SCHEMA) => {}
        Some(other) => return Err(CheckpointError::Schema(other.into(), CHECKPOINT_SCHEMA)),
        None => return Err(CheckpointError::Foreign("its metadata have no schema".into())),
    }
    let card: Card = serde_json::from_value(value).map_err(foreign)?;
    if card.features != FEATURES {
        return Err(CheckpointError::Features(card.features));
    }
    match card.network.mistake() {
        Some(mistake) => Err(CheckpointError::Size(mistake)),
        None => Ok(card),
    }
}

impl Network {
    /// Serialises the network as a checkpoint.
    ///
    /// # Errors
    /// If parameters cannot be read back from their device.
    pub fn to_bytes(&self, card: &Card) -> candle_core::Result<Vec<u8>> {
        let named = |(name, var): (&String, &candle_core::Var)| (name.clone(), var.as_tensor().clone());
        write(&self.weights().vars().iter().map(named).collect(), card)
    }

    /// The network of a checkpoint, with its card.
    ///
    /// # Errors
    /// If the bytes are not a usable checkpoint.
    pub fn from_bytes(bytes: &[u8], device: &Device) -> Result<(Network, Card), CheckpointError> {
        let (tensors, metadata) = read(bytes)?;
        let card = card(&metadata)?;
        let network = Network::from_parameters(card.network.clone(), tensors, DType::F32, device)?;
        Ok((network, card))
    }
}
