//! Ensembles as a file of safetensors, and the one that is shipped.
//!
//! The file has, for each group, the scales of the features (4 × features: mean, deviation, least, most) and, for each
//! network, the layers and the classes. Its card, a JSON object in the metadata, has the names of the classes, the
//! sources of the data and the settings of training.

use std::borrow::Cow;
use std::collections::BTreeMap;

use safetensors::tensor::{Dtype, SafeTensors, View};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::ensemble::{Ensemble, Scale};
use crate::network::{Class, EMBEDDING, Layer, Network, OUTPUTS};
use crate::shape::Group;

/// Schema of the file.
pub const SCHEMA: &str = "stagewright.learned-costs/1";

/// Key of the card in the metadata.
const CARD: &str = "card";

/// Metadata of a file: its schema, its classes and its training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// The schema.
    pub schema: String,
    /// Classes by group, in the order of the embeddings.
    pub classes: BTreeMap<String, Vec<String>>,
    /// Number of networks of a group.
    pub networks: usize,
    /// Number of layers of a network.
    pub layers: usize,
    /// Settings and sources of training.
    pub training: Value,
}

/// Reason why a file is unusable.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Not a file of safetensors.
    #[error("no safetensors: {0}")]
    Format(#[from] safetensors::SafeTensorError),
    /// No card, or one of another schema.
    #[error("no card of the schema `{SCHEMA}`: {0}")]
    Card(String),
    /// A tensor is missing, or has another shape or numbers that are not finite.
    #[error("the tensor `{name}` is missing, or is not {shape:?} finite numbers of single precision")]
    Tensor {
        /// Name of the tensor.
        name: String,
        /// The shape that the card demands.
        shape: Vec<usize>,
    },
}

/// A tensor to be written.
struct Stored {
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl View for &Stored {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// Writes ensembles. The same ensembles give the same bytes.
///
/// # Errors
/// If safetensors cannot describe the tensors.
pub fn write(ensembles: &[Ensemble], training: Value) -> Result<Vec<u8>, CheckpointError> {
    let mut tensors: BTreeMap<String, Stored> = BTreeMap::new();
    let mut put = |name: String, shape: Vec<usize>, numbers: Vec<f32>| {
        let bytes = numbers.into_iter().flat_map(f32::to_le_bytes).collect();
        tensors.insert(name, Stored { shape, bytes });
    };
    let mut card = Card {
        schema: SCHEMA.into(),
        classes: BTreeMap::new(),
        networks: ensembles.first().map_or(0, |ensemble| ensemble.networks.len()),
        layers: ensembles
            .first()
            .and_then(|ensemble| ensemble.networks.first())
            .map_or(0, |network| network.layers.len()),
        training,
    };
    for ensemble in ensembles {
        let group = ensemble.group.name();
        card.classes.insert(group.into(), ensemble.classes.clone());
        let figures: [fn(&Scale) -> f32; 4] =
            [|scale| scale.mean, |scale| scale.deviation, |scale| scale.least, |scale| scale.most];
        let scales = figures.iter().flat_map(|figure| ensemble.scales.iter().map(figure)).collect();
        put(format!("{group}.scales"), vec![4, ensemble.scales.len()], scales);
        for (index, network) in ensemble.networks.iter().enumerate() {
            for (layer, Layer { weights, biases }) in network.layers.iter().enumerate() {
                let shape = vec![weights.len() / biases.len(), biases.len()];
                put(format!("{group}.{index}.{layer}.weights"), shape, weights.clone());
                put(format!("{group}.{index}.{layer}.biases"), vec![biases.len()], biases.clone());
            }
            let classes = network.classes.len();
            let embeddings = network.classes.iter().flat_map(|class| class.embedding).collect();
            put(format!("{group}.{index}.embeddings"), vec![classes, EMBEDDING], embeddings);
            let offsets = network.classes.iter().flat_map(|class| class.offsets).collect();
            put(format!("{group}.{index}.offsets"), vec![classes, OUTPUTS], offsets);
        }
    }
    let text = serde_json::to_string(&card).map_err(|error| CheckpointError::Card(error.to_string()))?;
    // A single entry has only one order.
    let metadata = [(CARD.to_owned(), text)].into_iter().collect();
    Ok(safetensors::serialize(&tensors, Some(metadata))?)
}

/// Reads ensembles and their card.
///
/// # Errors
/// If the file is no safetensors, has no card of the schema, or lacks a tensor.
pub fn read(bytes: &[u8]) -> Result<(Vec<Ensemble>, Card), CheckpointError> {
    let (_, metadata) = SafeTensors::read_metadata(bytes)?;
    let text = metadata.metadata().as_ref().and_then(|metadata| metadata.get(CARD));
    let text = text.ok_or_else(|| CheckpointError::Card("there is none".into()))?;
    let card: Card = serde_json::from_str(text).map_err(|error| CheckpointError::Card(error.to_string()))?;
    if card.schema != SCHEMA {
        return Err(CheckpointError::Card(format!("it is of `{}`", card.schema)));
    }
    if card.networks == 0 || card.layers == 0 {
        return Err(CheckpointError::Card("it has no network, or one without a layer".into()));
    }
    let file = SafeTensors::deserialize(bytes)?;
    let take = |name: String, shape: &[usize]| -> Result<Vec<f32>, CheckpointError> {
        let wrong = || CheckpointError::Tensor { name: name.clone(), shape: shape.to_vec() };
        let tensor = file.tensor(&name).map_err(|_| wrong())?;
        let numbers: Vec<f32> =
            tensor.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let is_right = tensor.dtype() == Dtype::F32
            && tensor.shape() == shape
            && !numbers.is_empty()
            && numbers.iter().all(|number| number.is_finite());
        is_right.then_some(numbers).ok_or_else(wrong)
    };
    let mut ensembles = Vec::with_capacity(card.classes.len());
    for (name, classes) in &card.classes {
        let unknown = || CheckpointError::Card(format!("there is no group `{name}`"));
        let group = Group::named(name).ok_or_else(unknown)?;
        let features = group.features();
        let figures = take(format!("{name}.scales"), &[4, features])?;
        let scale = |index: usize| Scale {
            mean: figures[index],
            deviation: figures[features + index].max(1e-3),
            least: figures[2 * features + index].min(figures[3 * features + index]),
            most: figures[3 * features + index],
        };
        let mut networks = Vec::new();
        for index in 0..card.networks {
            let mut layers = Vec::new();
            let mut inputs = features + EMBEDDING;
            for layer in 0..card.layers {
                let weights = format!("{name}.{index}.{layer}.weights");
                let outputs = match layer + 1 == card.layers {
                    true => OUTPUTS,
                    false => file.tensor(&weights).map_or(0, |tensor| *tensor.shape().last().unwrap_or(&0)),
                };
                let weights = take(weights, &[inputs, outputs])?;
                let biases = take(format!("{name}.{index}.{layer}.biases"), &[outputs])?;
                layers.push(Layer { weights, biases });
                inputs = outputs;
            }
            let embeddings = take(format!("{name}.{index}.embeddings"), &[classes.len(), EMBEDDING])?;
            let offsets = take(format!("{name}.{index}.offsets"), &[classes.len(), OUTPUTS])?;
            let class = |index: usize| Class {
                embedding: std::array::from_fn(|number| embeddings[EMBEDDING * index + number]),
                offsets: std::array::from_fn(|number| offsets[OUTPUTS * index + number]),
            };
            networks.push(Network { layers, classes: (0..classes.len()).map(class).collect() });
        }
        ensembles.push(Ensemble {
            group,
            scales: (0..features).map(scale).collect(),
            classes: classes.clone(),
            networks,
        });
    }
    Ok((ensembles, card))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: &[u8] = include_bytes!("../../../data/kernels/checkpoint.safetensors");

    #[test]
    fn what_is_written_reads_back() {
        let (ensembles, card) = read(SHIPPED).unwrap();
        assert_eq!(ensembles.len(), Group::ALL.len());
        let bytes = write(&ensembles, card.training.clone()).unwrap();
        assert_eq!(read(&bytes).unwrap(), (ensembles, card));
        assert!(SHIPPED.len() < 1 << 20, "{} bytes", SHIPPED.len());
    }

    #[test]
    fn tables_of_the_examination_were_not_learned() {
        let (_, card) = read(SHIPPED).unwrap();
        let sources = card.training["sources"].to_string();
        assert!(sources.contains("vllm") && !sources.contains("trtllm"), "{sources}");
    }

    #[test]
    fn files_that_are_cut_or_lack_a_tensor_are_refused() {
        for length in [0, 7, 8, 100, SHIPPED.len() / 2, SHIPPED.len() - 1] {
            assert!(read(&SHIPPED[..length]).is_err(), "{length}");
        }
        let (mut ensembles, card) = read(SHIPPED).unwrap();
        ensembles[0].networks.pop();
        let bytes = write(&ensembles[1..], card.training.clone()).unwrap();
        assert!(read(&bytes).is_ok());
        ensembles.reverse();
        assert!(read(&write(&ensembles, card.training.clone()).unwrap()).is_err());
        assert!(read(&write(&[], card.training).unwrap()).is_err());
    }
}
