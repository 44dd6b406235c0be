//! Bytes of caches, as `llama_kv_cache`, `llama_kv_cache_iswa` and `llama_memory_recurrent` of llama.cpp allocate them.
//!
//! A context is padded to 256 cells; sequences that do not share one cache divide it, and each part is padded again. A
//! layer with a window keeps the window of each sequence and a micro-batch, padded as well. Latent attention keeps its
//! latent and rotary key alone, unless the file has the projection of keys and values in one tensor, as early files do.
//! Layers that predict keep nothing. A state is in 32 bits for every sequence, whatever the type of the cache, and so are
//! the tokens of its convolution.

use stagewright_formats::code::L;
use stagewright_formats::{InputError, Result};
use stagewright_structure::{Attention, Encoding, Latent, Linear, Mixer, StateSpace, Structure};

use crate::setting::Setting;

/// Multiple of the cells of a cache.
const PADDING: u64 = 256;

/// Largest context, which llama.cpp holds in 32 bits.
const LARGEST_CONTEXT: u64 = (1 << 31) - 1;

/// Bytes of a number of a state.
const STATE_BYTES: u64 = 4;

/// Cells of a layer that sees all tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cells {
    /// Cells of a cache.
    pub cells: u64,
    /// Caches: one, or one for every sequence.
    pub streams: u64,
    /// Tokens of the context before it is padded.
    pub context: u64,
}

impl Cells {
    /// Cells under a setting. `label` is the name of the setting in errors.
    ///
    /// # Errors
    /// If neither the setting nor the model has a context, or it is absurdly large (L007).
    pub fn of(label: &str, structure: &Structure, setting: &Setting) -> Result<Cells> {
        let wrong =
            |message: &str| InputError::at_path(L::L007, label, "-c", message, "give a context with `-c`");
        let context = setting.context.or(structure.context);
        let context = context.ok_or_else(|| wrong("the model has no context of its own"))?;
        if context > LARGEST_CONTEXT || setting.sequences > LARGEST_CONTEXT {
            return Err(wrong("the context or the number of sequences is above 2^31 - 1"));
        }
        let streams = if setting.unified { 1 } else { setting.sequences.max(1) };
        let cells = (context.next_multiple_of(PADDING) / streams).max(1).next_multiple_of(PADDING);
        Ok(Cells { cells, streams, context })
    }

    /// Tokens of a micro-batch, which is no larger than a batch or the context.
    pub fn micro_batch(self, setting: &Setting) -> u64 {
        setting.micro_batch.min(setting.batch).min(self.context)
    }

    /// Tokens that buffers are made for: a micro-batch with as many of every sequence.
    pub fn buffer_tokens(self, setting: &Setting) -> u64 {
        self.micro_batch(setting).next_multiple_of(setting.sequences.max(1))
    }

    /// Cells of a layer with a window.
    pub(super) fn of_window(self, setting: &Setting, window: u64) -> u64 {
        if setting.whole_windows {
            return self.cells;
        }
        let sequences = if setting.unified { setting.sequences } else { 1 };
        let needed = window.saturating_mul(sequences).saturating_add(self.micro_batch(setting));
        self.cells.min(needed).next_multiple_of(PADDING)
    }
}

/// Bytes that a layer keeps for all sequences. `label` is the name of the setting in errors.
///
/// # Errors
/// If rows of the cache are no whole number of blocks of its type (L007), or the cache of the layer is not followed (L009).
pub fn layer_bytes(
    label: &str,
    structure: &Structure,
    setting: &Setting,
    cells: Cells,
    index: usize,
) -> Result<u64> {
    let Some(layer) = structure.layers.get(index).filter(|layer| !layer.is_prediction) else { return Ok(0) };
    let not_followed = |what: &str| {
        let message = format!("layer {index} has {what}, whose cache is not followed");
        let help = "ask `llama-fit-params` for the memory of this model";
        InputError::at_path(L::L009, label, "the model", message, help)
    };
    let cache = Cache { label, setting, cells };
    match &layer.mixer {
        Mixer::Attention(Attention { indexer: Some(_), .. })
        | Mixer::Latent(Latent { indexer: Some(_), .. }) => Err(not_followed("an indexer")),
        Mixer::Compressed(_) => Err(not_followed("compressed tokens")),
        Mixer::Linear(_) if structure.architecture.contains("rwkv") => Err(not_followed("a state of RWKV")),
        Mixer::Attention(attention) => cache.attention(attention),
        Mixer::Latent(latent) => cache.latent(latent, has_fused_projection(structure, index)),
        mixer => Ok(state_bytes(mixer, setting)),
    }
}

/// Whether a file has the projection of keys and values out of their latent in one tensor.
pub(super) fn has_fused_projection(structure: &Structure, layer: usize) -> bool {
    let mut tensors = structure.tensors.iter().filter(|tensor| tensor.layer == Some(layer as u64));
    tensors.any(|tensor| tensor.name.ends_with("attn_kv_b.weight"))
}

struct Cache<'a> {
    label: &'a str,
    setting: &'a Setting,
    cells: Cells,
}

impl Cache<'_> {
    fn attention(&self, attention: &Attention) -> Result<u64> {
        if attention.bidirectional || attention.shares_cache_of.is_some() {
            return Ok(0);
        }
        let cells = match attention.window {
            Some(window) => self.cells.of_window(self.setting, window),
            None => self.cells.cells,
        };
        let widths = [attention.kv_heads * attention.key, attention.kv_heads * attention.value];
        self.keys_and_values(cells, widths)
    }

    fn latent(&self, latent: &Latent, is_fused: bool) -> Result<u64> {
        let widths = match is_fused {
            true => [latent.heads * (latent.plain + latent.rotary), latent.heads * latent.value],
            false if self.setting.keys != self.setting.values => {
                let message = "latent attention has keys and values of one type";
                let help = "give `-ctk` and `-ctv` the same type";
                return Err(InputError::at_path(L::L007, self.label, "-ctv", message, help));
            }
            false => [latent.rank + latent.rotary, 0],
        };
        self.keys_and_values(self.cells.cells, widths)
    }

    fn keys_and_values(&self, cells: u64, [keys, values]: [u64; 2]) -> Result<u64> {
        let keys = self.rows("-ctk", self.setting.keys, cells, keys)?;
        Ok(keys.saturating_add(self.rows("-ctv", self.setting.values, cells, values)?))
    }

    fn rows(&self, option: &str, encoding: Encoding, cells: u64, width: u64) -> Result<u64> {
        let bytes = encoding.bytes(&[cells * self.cells.streams, width]);
        bytes.ok_or_else(|| {
            let message = format!("{width} numbers of a token are no whole blocks of {}", encoding.name());
            InputError::at_path(L::L007, self.label, option, message, "give f16, or leave the option out")
        })
    }
}

/// Bytes of the states of all sequences in a mixer; 0 if it has a cache.
pub(super) fn state_bytes(mixer: &Mixer, setting: &Setting) -> u64 {
    let numbers = match mixer {
        Mixer::Linear(linear) => linear_state(linear),
        Mixer::StateSpace(space) => space_state(space),
        Mixer::Convolution(convolution) => convolution.kernel.saturating_sub(1) * convolution.width,
        Mixer::Attention(_) | Mixer::Latent(_) | Mixer::Compressed(_) | Mixer::None => 0,
    };
    numbers.saturating_mul(STATE_BYTES).saturating_mul(setting.sequences.max(1))
}

/// Numbers of the state and the convolution of linear attention.
fn linear_state(linear: &Linear) -> u64 {
    let [keys, values] = [linear.key_heads * linear.key, linear.value_heads * linear.value];
    let kept = linear.kernel.saturating_sub(1).saturating_mul(2 * keys + values);
    values.saturating_mul(linear.key).saturating_add(kept)
}

/// Numbers of the state and the convolution of a state-space layer.
fn space_state(space: &StateSpace) -> u64 {
    let channels = space.heads * space.width;
    let kept = space.kernel.saturating_sub(1).saturating_mul(channels + 2 * space.groups * space.state);
    channels.saturating_mul(space.state).saturating_add(kept)
}
