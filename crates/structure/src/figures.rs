//! What people ask first about a model: parameters, bytes of weights, cache and work of a token.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cache::{cache_bytes, cross_cache, layer_cache};
use crate::encoding::Encoding;
use crate::structure::{Indexer, Layer, Mixer, Structure};
use crate::tensor::{Role, Tensor};

/// Figures of a model. Bytes are those of the files; FLOP count a multiply-add as two.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Name of the model.
    pub name: String,
    /// `model_type` of a configuration, or `general.architecture` of a GGUF file.
    pub architecture: String,
    /// Layers without those of multi-token prediction.
    pub layers: u64,
    /// Weights without those of prediction layers.
    pub parameters: f64,
    /// Weights that a token uses: all but those of experts that it is not sent to.
    pub active_parameters: f64,
    /// Weights of multi-token prediction, which `parameters` does not count.
    pub prediction_parameters: f64,
    /// Weights of towers and of the projectors behind them, which `parameters` counts.
    pub tower_parameters: f64,
    /// Bytes of all weights, with prediction layers.
    pub weight_bytes: f64,
    /// Weights and bytes by encoding, most bytes first.
    pub weights: Vec<ByEncoding>,
    /// Tokens that a sequence may have, if known.
    pub context: Option<u64>,
    /// Encoding of cached keys and values that the figures below assume.
    pub cache_encoding: String,
    /// Bytes that a token adds to the cache of its sequence, until a window is full.
    pub cache_bytes_per_token: f64,
    /// Bytes that a sequence keeps for each token of an encoder; 0 without attention over one.
    pub cross_cache_bytes_per_token: f64,
    /// Bytes that a sequence keeps whatever its length: states of linear attention and state-space layers.
    pub state_bytes: f64,
    /// Tokens of a sequence for the figures below.
    pub at_context: u64,
    /// Bytes that a sequence of `at_context` tokens keeps, with its states.
    pub cache_bytes: f64,
    /// FLOP of a token without attention over other tokens, and without towers.
    pub flop_per_token: f64,
    /// FLOP of the token after `at_context` others.
    pub flop_per_token_at_context: f64,
}

/// Weights of an encoding.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ByEncoding {
    /// Name of the encoding.
    pub encoding: String,
    /// Number of weights.
    pub parameters: f64,
    /// Bytes with scales.
    pub bytes: f64,
}

impl Figures {
    /// Figures of a structure for sequences of `context` tokens, with cached numbers in `cache`.
    ///
    /// Takes time proportional to the number of tensors and layers.
    pub fn new(structure: &Structure, context: u64, cache: Encoding) -> Figures {
        let is_prediction = |tensor: &&Tensor| {
            tensor.role == Role::Prediction
                || layer_of(structure, tensor).is_some_and(|layer| layer.is_prediction)
        };
        let (prediction, main): (Vec<&Tensor>, Vec<&Tensor>) =
            structure.tensors.iter().partition(is_prediction);
        // An empty sum is -0.
        let count =
            |tensors: &[&Tensor]| 0.0 + tensors.iter().map(|tensor| tensor.elements() as f64).sum::<f64>();
        let is_of_tower = |tensor: &&Tensor| matches!(tensor.role, Role::Tower | Role::Projector);
        let towers: Vec<&Tensor> = main.iter().copied().filter(is_of_tower).collect();
        let layers = || structure.layers.iter().filter(|layer| !layer.is_prediction);
        let products: f64 = main.iter().map(|tensor| 2.0 * multiplied(structure, tensor)).sum();
        // The table of tokens, which a tied head multiplies by, is no product by its role.
        let width = structure.embedding.width.unwrap_or(structure.hidden) as f64;
        let is_tied = structure.head.is_some_and(|head| head.tied);
        let head = if is_tied { 2.0 * width * structure.vocabulary as f64 } else { 0.0 };
        let mixers = |tokens: u64| layers().map(|layer| attention_flop(layer, tokens as f64)).sum::<f64>();
        let token = |layer: &Layer| {
            // A compressed entry stands for several tokens.
            let tokens = if let Mixer::Compressed(mixer) = &layer.mixer { mixer.ratio.max(1) } else { 1 };
            layer_cache(layer, tokens, cache).tokens / tokens as f64
        };
        Figures {
            name: structure.name.clone(),
            architecture: structure.architecture.clone(),
            layers: layers().count() as u64,
            parameters: count(&main),
            active_parameters: main.iter().map(|tensor| active(structure, tensor)).sum(),
            prediction_parameters: count(&prediction),
            tower_parameters: count(&towers),
            weight_bytes: structure.tensors.iter().map(|tensor| tensor.bytes as f64).sum(),
            weights: by_encoding(&structure.tensors),
            context: structure.context,
            cache_encoding: cache.name().into_owned(),
            cache_bytes_per_token: layers().map(token).sum(),
            cross_cache_bytes_per_token: cross_cache(structure, cache),
            state_bytes: layers().map(|layer| layer_cache(layer, 0, cache).state).sum(),
            at_context: context,
            cache_bytes: cache_bytes(structure, context, cache),
            flop_per_token: products + head + mixers(0),
            flop_per_token_at_context: products + head + mixers(context),
        }
    }
}

fn layer_of<'a>(structure: &'a Structure, tensor: &Tensor) -> Option<&'a Layer> {
    structure.layers.get(usize::try_from(tensor.layer?).ok()?)
}

fn by_encoding(tensors: &[Tensor]) -> Vec<ByEncoding> {
    let mut sums: BTreeMap<Encoding, (f64, f64)> = BTreeMap::new();
    for tensor in tensors {
        let sum = sums.entry(tensor.encoding).or_default();
        *sum = (sum.0 + tensor.elements() as f64, sum.1 + tensor.bytes as f64);
    }
    let row = |(encoding, (parameters, bytes)): (Encoding, (f64, f64))| ByEncoding {
        encoding: encoding.name().into_owned(),
        parameters,
        bytes,
    };
    let mut rows: Vec<ByEncoding> = sums.into_iter().map(row).collect();
    rows.sort_by(|row, other| other.bytes.total_cmp(&row.bytes));
    rows
}

/// Weights of a tensor that a token uses.
fn active(structure: &Structure, tensor: &Tensor) -> f64 {
    let count = tensor.elements() as f64;
    let mixture = layer_of(structure, tensor).and_then(|layer| layer.mixture.as_ref());
    match mixture.filter(|mixture| tensor.role.is_expert() && mixture.experts > 0) {
        Some(mixture) => count * mixture.active.min(mixture.experts) as f64 / mixture.experts as f64,
        None => count,
    }
}

/// Weights of a tensor that a token is multiplied by.
fn multiplied(structure: &Structure, tensor: &Tensor) -> f64 {
    let is_product = tensor.shape.len() > 1
        && !matches!(
            tensor.role,
            Role::Embedding
                | Role::Positions
                | Role::Norm
                | Role::Sinks
                | Role::State
                | Role::Tower
                | Role::Projector
        );
    if is_product { active(structure, tensor) } else { 0.0 }
}

/// FLOP of a new token over the `tokens` before it: scores and weighted values, over latents where the cache holds
/// latents. For every number of a state, the delta rule decays it, reads it twice and adds to it (7 FLOP; Yang et al. 2025,
/// equation 10), and a state-space layer decays it, adds to it and reads it (5; Dao and Gu 2024).
fn attention_flop(layer: &Layer, tokens: f64) -> f64 {
    let selected = |indexer: Option<&Indexer>, tokens: f64| {
        let scores = |indexer: &Indexer| {
            if indexer.shared { 0.0 } else { 2.0 * tokens * indexer.heads as f64 * indexer.width as f64 }
        };
        indexer.map_or((tokens, 0.0), |indexer| (tokens.min(indexer.selected as f64), scores(indexer)))
    };
    match &layer.mixer {
        Mixer::Attention(attention) => {
            let seen = attention.window.map_or(tokens, |window| tokens.min(window as f64));
            let (seen, scores) = selected(attention.indexer.as_ref(), seen);
            2.0 * seen * attention.heads as f64 * (attention.key as f64 + attention.value as f64) + scores
        }
        Mixer::Latent(latent) => {
            let (seen, scores) = selected(latent.indexer.as_ref(), tokens);
            2.0 * seen * latent.heads as f64 * (2.0 * latent.rank as f64 + latent.rotary as f64) + scores
        }
        Mixer::Compressed(compressed) => {
            let entries = if compressed.ratio > 0 { tokens / compressed.ratio as f64 } else { 0.0 };
            let (entries, scores) = selected(compressed.indexer.as_ref(), entries);
            let seen = tokens.min(compressed.window as f64) + entries;
            4.0 * seen * compressed.heads as f64 * compressed.width as f64 + scores
        }
        Mixer::Linear(linear) => 7.0 * linear.value_heads as f64 * linear.key as f64 * linear.value as f64,
        Mixer::StateSpace(space) => 5.0 * space.heads as f64 * space.width as f64 * space.state as f64,
        Mixer::Convolution(_) | Mixer::None => 0.0,
    }
}
