//! Gemma 4 (Google 2026), dense or with experts beside the dense block, with its encoder of images.

use super::Read;
use super::config::Config;
use super::decoders::{LAYERS, attention_of, hidden_of, layer, layers_of, rotary, tied_by_default, weight};
use super::experts::mixture;
use super::nested::{decoder_in, kinds, text_of, within_model};
use super::vision;
use crate::structure::{Attention, Dense, Layer, Mixture, QkNorm, Weight};
use crate::tensors::names::{LLAMA, Names};
use stagewright_formats::Result;

const GEMMA4: Names = Names {
    router: "router.proj",
    experts: "experts",
    expert_gate_up: Some("gate_up_proj"),
    stacked: Some(""),
    tower: Some(&vision::GEMMA4),
    ..LLAMA
};

/// Gemma 4: every sixth layer sees all tokens, with wider and fewer heads, and may read values from the projection of
/// keys.
pub(super) fn gemma4(config: &Config) -> Result<Read> {
    let text = &text_of(config)?;
    let is_whole = config.value("text_config").is_some();
    if config.value("audio_config").is_some() {
        let help = "set audio_config to null to read the model without its encoder of sound";
        return Err(config.fault("audio_config", "the encoder of sound of Gemma 4 is not read", help));
    }
    let hidden = hidden_of(text)?;
    let count = layers_of(text, LAYERS)?;
    let mixture = experts(text)?;
    let mut structure = decoder_in(config, text, hidden)?;
    tied_by_default(config, &mut structure)?;
    let slides = sliding_layers(text, count)?;
    let own = count.saturating_sub(text.count_or(&["num_kv_shared_layers"], 0)?);
    for index in 0..count {
        let slides_at = |layer: u64| slides.get(layer as usize).copied().unwrap_or(false);
        let mut attention = attention(text, hidden, slides_at(index))?;
        if index >= own {
            // The last layer of the same kind that keeps a cache.
            attention.shares_cache_of = (0..own).rev().find(|&layer| slides_at(layer) == slides_at(index));
        }
        structure.layers.push(block(text, hidden, attention, mixture.as_ref())?);
    }
    structure.other = inputs(text, hidden, count, if is_whole { "model.language_model" } else { "model" })?;
    if let Some(vision) = config.inner("vision_config")? {
        let (tower, projection) = vision::gemma4(&vision, hidden)?;
        structure.add_tower(tower, projection);
    }
    Ok((structure, if is_whole { within_model(GEMMA4) } else { GEMMA4 }))
}

/// Which layers have a window: by a list, or all but every sixth.
fn sliding_layers(config: &Config, layers: u64) -> Result<Vec<bool>> {
    /// Layers from one that sees all tokens to the next.
    const PERIOD: u64 = 6;
    let known = ["sliding_attention", "full_attention"];
    match kinds(config, "layer_types", layers, &known)? {
        Some(kinds) => {
            Ok(kinds.iter().take(layers as usize).map(|&kind| kind == "sliding_attention").collect())
        }
        None => Ok((1..=layers).map(|layer| layer != layers && !layer.is_multiple_of(PERIOD)).collect()),
    }
}

fn attention(config: &Config, hidden: u64, slides: bool) -> Result<Attention> {
    let mut attention = attention_of(config, hidden)?;
    attention.qk_norm = QkNorm::Head;
    if slides {
        attention.window = Some(config.positive(&["sliding_window"])?);
        return Ok(attention);
    }
    let width = config.count_or(&["global_head_dim"], attention.key)?;
    (attention.key, attention.value) = (width, width);
    attention.rotary = rotary_of_full(config, width)?;
    attention.values_are_keys = config.flag("attention_k_eq_v", false)?;
    if attention.values_are_keys {
        attention.kv_heads = config.count_or(&["num_global_key_value_heads"], attention.kv_heads)?;
    }
    Ok(attention)
}

/// Width of a head that positions rotate in layers that see all tokens.
fn rotary_of_full(config: &Config, width: u64) -> Result<u64> {
    let Some(rope) = config.inner("rope_parameters")? else { return Ok(width) };
    match rope.inner("full_attention")? {
        Some(full) => rotary(&full, width, 1.0),
        None => Ok(width),
    }
}

fn experts(config: &Config) -> Result<Option<Mixture>> {
    if !config.flag("enable_moe_block", false)? {
        return Ok(None);
    }
    let inner = config.positive(&["moe_intermediate_size", "expert_intermediate_size"])?;
    mixture(config, inner).map(Some)
}

/// A layer with four normalisations and a scale, three more normalisations and scales of a mixture, and the gate of the
/// inputs by layer.
fn block(config: &Config, hidden: u64, attention: Attention, mixture: Option<&Mixture>) -> Result<Layer> {
    let wide = config.flag("use_double_wide_mlp", false)? && attention.shares_cache_of.is_some();
    let inner = config.need(&["intermediate_size"])?;
    let dense = Dense { inner: if wide { 2 * inner } else { inner }, gated: true, bias: false };
    let mut layer = layer(attention, dense);
    layer.norms = 4;
    layer.other.push(weight("layer_scalar", &[1]));
    if let Some(mixture) = mixture {
        layer.mixture = Some(mixture.clone());
        let norms =
            ["post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"];
        layer.other.extend(norms.map(|norm| weight(format!("{norm}.weight"), &[hidden])));
        layer.other.push(weight("router.scale", &[hidden]));
        layer.other.push(weight("router.per_expert_scale", &[mixture.experts]));
    }
    let width = config.count_or(&["hidden_size_per_layer_input"], 0)?;
    if width > 0 {
        layer.other.extend([
            weight("per_layer_input_gate.weight", &[width, hidden]),
            weight("per_layer_projection.weight", &[hidden, width]),
            weight("post_per_layer_input_norm.weight", &[hidden]),
        ]);
    }
    Ok(layer)
}

/// Tables of the inputs by layer.
fn inputs(config: &Config, hidden: u64, layers: u64, path: &str) -> Result<Vec<Weight>> {
    let width = config.count_or(&["hidden_size_per_layer_input"], 0)?;
    if width == 0 {
        return Ok(Vec::new());
    }
    let vocabulary = config.need(&["vocab_size_per_layer_input", "vocab_size"])?;
    Ok(vec![
        weight(format!("{path}.embed_tokens_per_layer.weight"), &[vocabulary, layers * width]),
        weight(format!("{path}.per_layer_model_projection.weight"), &[layers * width, hidden]),
        weight(format!("{path}.per_layer_projection_norm.weight"), &[width]),
    ])
}
