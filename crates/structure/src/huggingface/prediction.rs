//! Layers of multi-token prediction (Gloeckle et al. 2024; DeepSeek-AI 2024, section 2.2): a decoder layer after the
//! model's, whose input is projected from a hidden state and an embedding.

use super::config::Config;
use super::decoders::{layers_of, weight};
use crate::structure::{Layer, Weight};
use stagewright_formats::Result;

/// Keys of the number of prediction layers.
pub(super) const KEYS: &[&str] = &["num_nextn_predict_layers", "mtp_num_hidden_layers"];

/// Number of prediction layers, or else a default.
pub(super) fn count(config: &Config, default: u64) -> Result<u64> {
    if config.count(KEYS)?.is_none() { Ok(default) } else { layers_of(config, KEYS) }
}

/// A layer as one of prediction, with further weights.
pub(super) fn prediction(layer: &Layer, other: &[Weight]) -> Layer {
    let mut layer = layer.clone();
    layer.is_prediction = true;
    layer.other.extend_from_slice(other);
    layer
}

/// The projection into a prediction layer and its two normalisations, as DeepSeek-V3 names them, and the normalisation
/// after the layer.
pub(super) fn weights(hidden: u64, final_norm: &str) -> Vec<Weight> {
    vec![
        weight("enorm.weight", &[hidden]),
        weight("hnorm.weight", &[hidden]),
        weight("eh_proj.weight", &[hidden, 2 * hidden]),
        weight(final_norm, &[hidden]),
    ]
}
