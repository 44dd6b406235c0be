//! Decoders in the manner of Llama.

use super::Read;
use super::config::Config;
use crate::check::MOST_LAYERS;
use crate::structure::{
    Attention, Dense, Embedding, Head, Layer, Mixer, Norm, QkNorm, Structure, StructureSchema, Weight,
};
use crate::tensors::names::LLAMA;
use stagewright_formats::Result;

/// Widths and blocks that the layers of a decoder share.
pub(super) struct Common {
    pub(super) hidden: u64,
    pub(super) layers: u64,
    pub(super) attention: Attention,
    pub(super) dense: Dense,
}

/// Reads the keys that most decoders share: widths, heads, the dense block.
pub(super) fn common(config: &Config) -> Result<Common> {
    let hidden = hidden_of(config)?;
    let inner = config.need(&["intermediate_size", "n_inner", "ffn_dim"])?;
    let dense = Dense { inner, gated: true, bias: config.flag("mlp_bias", false)? };
    Ok(Common { hidden, layers: layers_of(config, LAYERS)?, attention: attention_of(config, hidden)?, dense })
}

/// Keys of the number of layers.
pub(super) const LAYERS: &[&str] = &["num_hidden_layers", "n_layer", "num_layers"];

/// Keys of the width of the hidden state.
pub(super) const HIDDEN: &[&str] = &["hidden_size", "n_embd", "d_model", "n_embed"];

/// Width of the hidden state.
pub(super) fn hidden_of(config: &Config) -> Result<u64> {
    config.positive(HIDDEN)
}

/// Number of layers, which bounds what a reader allocates.
pub(super) fn layers_of(config: &Config, keys: &[&str]) -> Result<u64> {
    let layers = config.need(keys)?;
    if layers > MOST_LAYERS as u64 {
        let message = format!("a model has at most {MOST_LAYERS} layers, not {layers}");
        return Err(config.fault(config.present(keys), message, "check the value"));
    }
    Ok(layers)
}

/// Attention by the keys that most decoders share.
pub(super) fn attention_of(config: &Config, hidden: u64) -> Result<Attention> {
    let heads = config.positive(HEADS)?;
    let kv_heads = kv_heads_of(config, &["num_key_value_heads"], heads)?;
    let width = head_width(config, hidden, heads)?;
    let bias = config.flag("attention_bias", false)?;
    Ok(Attention {
        heads,
        kv_heads,
        key: width,
        value: width,
        rotary: rotary(config, width, 1.0)?,
        bias,
        output_bias: bias,
        ..Attention::default()
    })
}

/// Keys of the number of heads.
const HEADS: &[&str] = &["num_attention_heads", "n_head"];

/// Heads of keys and values, which groups of the same number of heads share.
pub(super) fn kv_heads_of(config: &Config, keys: &[&str], heads: u64) -> Result<u64> {
    let kv_heads = config.count_or(keys, heads)?;
    if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        let message = format!("{heads} heads of queries share {kv_heads} heads of keys unevenly");
        return Err(config.fault(config.present(keys), message, "check the value"));
    }
    Ok(kv_heads)
}

/// Width of a head: `head_dim`, or else an equal part of the hidden width.
fn head_width(config: &Config, hidden: u64, heads: u64) -> Result<u64> {
    let width = config.count_or(&["head_dim"], hidden / heads)?;
    if width == 0 {
        let message = format!("{heads} heads share a width of {hidden}, so that each is empty");
        return Err(config.fault(config.present(HEADS), message, "check the number of heads and the widths"));
    }
    Ok(width)
}

/// Width of a head that positions rotate: a part of `width`, or else the `default` part.
pub(super) fn rotary(config: &Config, width: u64, default: f64) -> Result<u64> {
    let rope = config.inner("rope_parameters")?;
    for (place, key) in [
        (Some(config), "partial_rotary_factor"),
        (rope.as_ref(), "partial_rotary_factor"),
        (Some(config), "rotary_pct"),
    ] {
        let Some(place) = place else { continue };
        let Some(part) = place.number(key)? else { continue };
        if !(0.0..=1.0).contains(&part) {
            let message = "the part of a head that positions rotate is not between 0 and 1";
            return Err(place.fault(key, message, "check the value"));
        }
        return Ok((width as f64 * part) as u64);
    }
    Ok((width as f64 * default) as u64)
}

/// Window of the layers that have one; a window of 0 is none.
fn window(config: &Config) -> Result<Option<u64>> {
    Ok(config.count(&["sliding_window"])?.filter(|&window| window > 0))
}

/// Window of every layer: `sliding_window` in the layers that `layer_types` names, or else in those that `slides` picks.
pub(super) fn windows(
    config: &Config,
    layers: u64,
    slides: impl Fn(u64) -> bool,
) -> Result<Vec<Option<u64>>> {
    let window = window(config)?;
    let Some(types) = config.texts("layer_types")? else {
        return Ok((0..layers).map(|layer| window.filter(|_| slides(layer))).collect());
    };
    config.by_layer("layer_types", &types, layers)?;
    let read = |name: &&str| match *name {
        "sliding_attention" => Ok(window),
        "full_attention" => Ok(None),
        _ => {
            let help = "the layers of this architecture are sliding_attention or full_attention";
            Err(config.fault("layer_types", format!("unknown kind of layer `{name}`"), help))
        }
    };
    types.iter().take(layers as usize).map(read).collect()
}

/// Layers with the same attention, but for its window, and the same dense block.
pub(super) fn layers(common: &Common, windows: Vec<Option<u64>>) -> Vec<Layer> {
    let build = |window| layer(Attention { window, ..common.attention.clone() }, common.dense.clone());
    windows.into_iter().map(build).collect()
}

/// Windows of Qwen: in the layers from `max_window_layers` on, if `use_sliding_window` is set.
pub(super) fn qwen_windows(config: &Config, layers: u64) -> Result<Vec<Option<u64>>> {
    let slides = config.flag("use_sliding_window", false)?;
    let first = config.count_or(&["max_window_layers"], 28)?;
    windows(config, layers, |layer| slides && layer >= first)
}

/// Makes the projection to the vocabulary share its weights unless the configuration denies it.
pub(super) fn tied_by_default(config: &Config, structure: &mut Structure) -> Result<()> {
    structure.head = Some(Head { tied: config.flag("tie_word_embeddings", true)?, bias: false });
    Ok(())
}

/// Refuses a flag that adds modules which the reader does not know.
pub(super) fn refuse(config: &Config, key: &str) -> Result<()> {
    if config.flag(key, false)? {
        let help = "remove the key if the model has no such modules";
        return Err(config.fault(key, format!("models with `{key}` are not read"), help));
    }
    Ok(())
}

/// A decoder without layers: the tables, norms and head that most configurations describe.
pub(super) fn decoder(config: &Config, hidden: u64, norm: Norm) -> Result<Structure> {
    let architecture = config.text("model_type").unwrap_or_default().to_owned();
    let tied = config.flag("tie_word_embeddings", false)?;
    Ok(Structure {
        schema: StructureSchema::V1,
        name: config
            .text("_name_or_path")
            .filter(|name| !name.is_empty())
            .unwrap_or(&architecture)
            .to_owned(),
        architecture,
        hidden,
        vocabulary: config.positive(&["vocab_size"])?,
        context: config.count(&["max_position_embeddings", "n_positions"])?.filter(|&context| context > 0),
        embedding: Embedding::default(),
        norm,
        layers: Vec::new(),
        missing_predictions: 0,
        final_norm: true,
        head: Some(Head { tied, bias: false }),
        towers: Vec::new(),
        other: Vec::new(),
        cache: None,
        tensors: Vec::new(),
    })
}

/// Weights outside the blocks, by name and shape.
pub(super) fn weight(name: impl Into<String>, shape: &[u64]) -> Weight {
    Weight::new(name, shape)
}

/// A layer with two normalisations, attention and a dense block.
pub(super) fn layer(attention: Attention, dense: Dense) -> Layer {
    layer_with(Mixer::Attention(attention), dense)
}

/// A layer with two normalisations, a mixer and a dense block.
pub(super) fn layer_with(mixer: Mixer, dense: Dense) -> Layer {
    Layer {
        mixer,
        cross: None,
        dense: Some(dense),
        mixture: None,
        norms: 2,
        parallel: false,
        is_prediction: false,
        other: Vec::new(),
    }
}

/// Mistral (Jiang et al. 2023): Llama with a window, which later models set to `null`.
pub(super) fn mistral(config: &Config) -> Result<Read> {
    llama(&config.with_defaults(&[("sliding_window", 4096)]))
}

/// Llama (Touvron et al. 2023).
pub(super) fn llama(config: &Config) -> Result<Read> {
    let mut common = common(config)?;
    common.attention.window = window(config)?;
    let mut structure = decoder(config, common.hidden, Norm::Rms)?;
    structure.layers = vec![layer(common.attention, common.dense); common.layers as usize];
    Ok((structure, LLAMA))
}

/// Qwen 2: biases on queries, keys and values.
pub(super) fn qwen2(config: &Config) -> Result<Read> {
    let mut common = common(config)?;
    common.attention.bias = true;
    common.attention.output_bias = false;
    let mut structure = decoder(config, common.hidden, Norm::Rms)?;
    structure.layers = layers(&common, qwen_windows(config, common.layers)?);
    Ok((structure, LLAMA))
}

/// Qwen 3: normalised queries and keys.
pub(super) fn qwen3(config: &Config) -> Result<Read> {
    let mut common = common(&config.with_defaults(&[("head_dim", 128)]))?;
    common.attention.qk_norm = QkNorm::Head;
    let mut structure = decoder(config, common.hidden, Norm::Rms)?;
    structure.layers = layers(&common, qwen_windows(config, common.layers)?);
    Ok((structure, LLAMA))
}
