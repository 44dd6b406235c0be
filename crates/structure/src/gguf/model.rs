//! Keys that the layers of a model share, and which layers see windows or have states by them.

use stagewright_formats::code::M;
use stagewright_formats::{InputError, Result};

use super::architecture::{self, Recurrence};
use super::keys::Keys;

/// Maximum number of layers.
const MOST_LAYERS: u64 = 1 << 14;

/// Keys of a model that its layers ask for.
#[derive(Debug, Clone)]
pub(super) struct Model<'a> {
    pub(super) keys: Keys<'a>,
    /// Width of the hidden state.
    pub(super) hidden: u64,
    /// Layers, with those of prediction.
    pub(super) layers: u64,
    /// Layers that predict further tokens, which are the last.
    pub(super) predicting: u64,
    /// Whether there is a learned table of positions.
    pub(super) has_positions: bool,
    /// Tokens that each layer sees; `None` if it sees all.
    windows: Vec<Option<u64>>,
}

impl<'a> Model<'a> {
    /// Reads the keys that all layers share.
    ///
    /// # Errors
    /// If a key is missing or has a senseless value (M013), there are no layers (M014), or too many (M015).
    pub(super) fn new(keys: Keys<'a>, has_positions: bool) -> Result<Model<'a>> {
        let layers = keys.count("block_count")?.ok_or_else(|| no_layers(keys))?;
        if layers == 0 || layers > MOST_LAYERS {
            let message = format!("a model has between 1 and {MOST_LAYERS} layers, not {layers}");
            let help = "check the number of layers";
            return Err(InputError::at_path(M::M015, keys.label, keys.path("block_count"), message, help));
        }
        let predicting = keys.count("nextn_predict_layers")?.unwrap_or(0);
        if predicting >= layers {
            let message = format!("all of the {layers} layers predict further tokens");
            return Err(keys.fault("nextn_predict_layers", message));
        }
        let hidden = keys.need("embedding_length")?;
        if hidden == 0 {
            return Err(keys.fault("embedding_length", "the value is 0"));
        }
        let mut model = Model { keys, hidden, layers, predicting, has_positions, windows: Vec::new() };
        model.windows = (0..layers).map(|layer| model.read_window(layer)).collect::<Result<_>>()?;
        Ok(model)
    }

    /// Whether a layer predicts further tokens.
    pub(super) fn predicts(&self, layer: u64) -> bool {
        layer >= self.layers - self.predicting
    }

    /// Whether tokens see later ones.
    pub(super) fn sees_later(&self) -> bool {
        let is_causal = self.keys.flag("attention.causal");
        is_causal.map_or_else(|| architecture::sees_later(self.keys.architecture), |is_causal| !is_causal)
    }

    /// Tokens that a layer sees; `None` if it sees all.
    pub(super) fn window(&self, layer: u64) -> Option<u64> {
        usize::try_from(layer).ok().and_then(|layer| self.windows.get(layer)).copied().flatten()
    }

    fn read_window(&self, layer: u64) -> Result<Option<u64>> {
        const PATTERN: &str = "attention.sliding_window_pattern";
        let keys = self.keys;
        let windows = architecture::windows(keys.architecture);
        let given = keys.count("attention.sliding_window")?;
        let tokens = given.or(windows.map(|windows| windows.tokens)).unwrap_or(0);
        if tokens == 0 || self.predicts(layer) {
            return Ok(None);
        }
        let is_bounded = if keys.is_list(PATTERN) {
            keys.need_of_layer(PATTERN, layer)? != 0
        } else {
            let period = keys.count(PATTERN)?;
            let ignored = architecture::Windows { period: 1, dense_first: false, tokens: 0 };
            windows.unwrap_or(ignored).bounds(layer, period)
        };
        Ok(is_bounded.then_some(tokens))
    }

    /// The layer whose keys and values a layer reads instead of its own.
    ///
    /// # Errors
    /// If a key has a senseless value, or no earlier layer of the same kind has any (M013).
    pub(super) fn shares_cache_of(&self, layer: u64) -> Result<Option<u64>> {
        const KEY: &str = "attention.shared_kv_layers";
        let own = match self.keys.count(KEY)? {
            Some(shared) => self.layers.saturating_sub(shared),
            None => architecture::own_caches(self.keys.architecture).unwrap_or(self.layers),
        };
        if layer < own {
            return Ok(None);
        }
        let is_bounded = self.window(layer).is_some();
        if let Some(earlier) = (0..own).rev().find(|&earlier| self.window(earlier).is_some() == is_bounded) {
            return Ok(Some(earlier));
        }
        Err(self
            .keys
            .fault(KEY, format!("layer {layer} has no earlier layer whose keys and values it could read")))
    }

    /// Whether a layer has a state instead of a cache; `None` if the keys do not say.
    ///
    /// # Errors
    /// If a key has a senseless value (M013).
    pub(super) fn is_recurrent(&self, layer: u64) -> Result<Option<bool>> {
        const LAYERS: &str = "attention.recurrent_layers";
        let keys = self.keys;
        if keys.is_list(LAYERS) {
            return Ok(keys.of_layer(LAYERS, layer)?.map(|flag| flag != 0));
        }
        let Some(recurrence) = architecture::recurrence(keys.architecture) else { return Ok(None) };
        if recurrence == Recurrence::Interval {
            let given = keys.count("full_attention_interval")?;
            let interval = given.unwrap_or(architecture::FULL_ATTENTION_INTERVAL);
            let is_last = (layer + 1).checked_rem(interval) == Some(0);
            return Ok(Some(!self.predicts(layer) && !is_last));
        }
        let Some(kv_heads) = keys.of_layer("attention.head_count_kv", layer)? else { return Ok(None) };
        let has_inner = match recurrence {
            Recurrence::WithoutHeadsAndInner => {
                keys.of_layer("feed_forward_length", layer)?.is_some_and(|inner| inner > 0)
            }
            _ => false,
        };
        Ok(Some(kv_heads == 0 && !has_inner))
    }
}

/// Error about a file without the layers of a language model: an encoder of images, an adapter.
pub(super) fn no_layers(keys: Keys) -> InputError {
    let mut error = keys.fault("block_count", "the file has no layers of a language model");
    error.code = M::M014.into();
    error.help = format!(
        "give the file of the language model, not that of an encoder of images or of an adapter; its keys begin with the \
         architecture, as in `{0}.block_count`, `{0}.embedding_length` and `{0}.attention.head_count`",
        keys.architecture
    );
    error
}
