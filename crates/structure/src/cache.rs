//! Bytes that a sequence keeps between steps: keys and values, latents, and states.

use crate::encoding::Encoding;
use crate::structure::{Attention, Compressed, Indexer, Layer, Linear, Mixer, StateSpace, Structure};

/// Bytes that one sequence keeps in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LayerCache {
    /// Bytes that grow with the tokens of the sequence.
    pub tokens: f64,
    /// Bytes that do not depend on the number of tokens.
    pub state: f64,
}

impl LayerCache {
    /// All bytes.
    pub fn bytes(self) -> f64 {
        self.tokens + self.state
    }
}

/// Bytes that a sequence of `context` tokens keeps in a layer, with cached numbers in `encoding`.
///
/// Full attention keeps a key and a value of every head of keys for each token; a window bounds the tokens. Latent
/// attention keeps the latent and the rotary key (DeepSeek-AI 2024, section 2.1.2), an indexer one key besides.
/// Linear attention keeps a matrix of 32-bit numbers for every head of values, a state-space layer one vector for every
/// channel, and both the tokens before the last in their convolution, in 16 bits. A layer that reads the cache of another
/// keeps nothing, and neither does one whose tokens see later ones: its model has no next token. What attention over an
/// encoder keeps is in [`cross_cache`].
pub fn layer_cache(layer: &Layer, context: u64, encoding: Encoding) -> LayerCache {
    let number = encoding.bytes_per_number();
    let tokens = context as f64;
    match &layer.mixer {
        Mixer::Attention(attention) => {
            let indexed = indexed(attention.indexer.as_ref(), tokens, number);
            if attention.bidirectional {
                return LayerCache::default();
            }
            if attention.shares_cache_of.is_some() {
                return LayerCache { tokens: indexed, state: 0.0 };
            }
            let seen = attention.window.map_or(context, |window| window.min(context)) as f64;
            LayerCache { tokens: seen * entry(attention) * number + indexed, state: 0.0 }
        }
        Mixer::Latent(latent) => {
            let width = latent.rank as f64 + latent.rotary as f64;
            let indexed = indexed(latent.indexer.as_ref(), tokens, number);
            LayerCache { tokens: tokens * width * number + indexed, state: 0.0 }
        }
        Mixer::Compressed(compressed) => {
            LayerCache { tokens: compressed_tokens(compressed, context, number), state: 0.0 }
        }
        Mixer::Linear(linear) => LayerCache { tokens: 0.0, state: linear_state(linear) },
        Mixer::StateSpace(space) => LayerCache { tokens: 0.0, state: space_state(space) },
        Mixer::Convolution(convolution) => {
            let kept = convolution.kernel.saturating_sub(1) as f64 * convolution.width as f64;
            LayerCache { tokens: 0.0, state: 2.0 * kept }
        }
        Mixer::None => LayerCache::default(),
    }
}

/// Bytes that a sequence keeps for each token of an encoder: a key and a value of every head of keys in all layers with
/// attention over it.
pub fn cross_cache(structure: &Structure, encoding: Encoding) -> f64 {
    let crossed = structure.layers.iter().filter_map(|layer| layer.cross.as_ref());
    // An empty sum is -0.
    (0.0 + crossed.map(entry).sum::<f64>()) * encoding.bytes_per_number()
}

/// Bytes that a sequence of `context` tokens keeps in all layers that predict the next token.
pub fn cache_bytes(structure: &Structure, context: u64, encoding: Encoding) -> f64 {
    let layers = structure.layers.iter().filter(|layer| !layer.is_prediction);
    layers.map(|layer| layer_cache(layer, context, encoding).bytes()).sum()
}

/// Numbers that a layer keeps for each token: a key and a value of every head of keys.
fn entry(attention: &Attention) -> f64 {
    attention.kv_heads as f64 * (attention.key as f64 + attention.value as f64)
}

fn indexed(indexer: Option<&Indexer>, tokens: f64, number: f64) -> f64 {
    indexer.filter(|indexer| !indexer.shared).map_or(0.0, |indexer| tokens * indexer.width as f64 * number)
}

/// Entries of the window, and compressed entries with the key of their indexer.
fn compressed_tokens(compressed: &Compressed, context: u64, number: f64) -> f64 {
    let window = compressed.window.min(context) as f64 * compressed.width as f64;
    let Some(entries) = context.checked_div(compressed.ratio) else { return window * number };
    let index = indexed(compressed.indexer.as_ref(), entries as f64, number);
    (window + entries as f64 * compressed.width as f64) * number + index
}

fn linear_state(linear: &Linear) -> f64 {
    let [keys, values] =
        [linear.key_heads as f64 * linear.key as f64, linear.value_heads as f64 * linear.value as f64];
    let kept = linear.kernel.saturating_sub(1) as f64 * (2.0 * keys + values);
    4.0 * values * linear.key as f64 + 2.0 * kept
}

fn space_state(space: &StateSpace) -> f64 {
    let (channels, state) = (space.heads as f64 * space.width as f64, space.state as f64);
    let kept = space.kernel.saturating_sub(1) as f64 * (channels + 2.0 * space.groups as f64 * state);
    space.state_bytes as f64 * channels * state + 2.0 * kept
}
