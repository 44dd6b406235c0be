//! Mixtures of experts and the layers that have them, and gpt-oss and Llama 4.

use super::Read;
use super::config::Config;
use super::decoders::{LAYERS, attention_of, common, hidden_of, layer, layers, layers_of, windows};
use super::nested::{below_language_model, decoder_in, kinds, text_of};
use super::vision;
use crate::structure::{Attention, Dense, Layer, Mixture, Shared};
use crate::tensors::names::{LLAMA, Names};
use stagewright_formats::Result;

const GPT_OSS: Names = Names {
    router: "mlp.router",
    router_bias: "mlp.router.bias",
    expert_gate_up: Some("gate_up_proj"),
    stacked: Some(""),
    ..LLAMA
};

const LLAMA4: Names = Names {
    dense: "feed_forward",
    router: "feed_forward.router",
    experts: "feed_forward.experts",
    expert_gate_up: Some("gate_up_proj"),
    stacked: Some(""),
    stacked_transposed: true,
    shared: "feed_forward.shared_expert",
    tower: Some(&vision::LLAMA4),
    ..LLAMA
};

/// Keys of the number of routed experts.
pub(super) const EXPERTS: &[&str] =
    &["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"];

/// Keys of the number of routed experts that a token takes.
pub(super) const TAKEN: &[&str] =
    &["num_experts_per_tok", "num_experts_per_token", "experts_per_token", "top_k_experts", "moe_top_k"];

/// Routed experts of an inner width, with a gate each, by the keys that most configurations have.
pub(super) fn mixture(config: &Config, inner: u64) -> Result<Mixture> {
    let experts = config.positive(EXPERTS)?;
    let active = config.positive(TAKEN)?;
    if active > experts {
        let message = format!("a token takes {active} of {experts} experts");
        return Err(config.fault(config.present(TAKEN), message, "check the value"));
    }
    Ok(Mixture {
        experts,
        active,
        inner,
        gated: true,
        bias: false,
        router_bias: false,
        latent: None,
        shared: None,
    })
}

/// Experts that take every token, of an inner width together; `None` if the width is 0.
pub(super) fn shared(inner: u64) -> Option<Shared> {
    (inner > 0).then_some(Shared { inner, scaled: false })
}

/// Replaces the dense block of a layer by a mixture.
pub(super) fn become_mixture(layer: &mut Layer, mixture: &Mixture) {
    layer.dense = None;
    layer.mixture = Some(mixture.clone());
}

/// Which layers have a mixture: by a list of kinds, of numbers or of flags, or else by the first of them and a step.
///
/// # Errors
/// If a list is too short or has other entries, or a step is 0.
pub(super) fn sparse_layers(config: &Config, layers: u64) -> Result<Vec<bool>> {
    let known = ["dense", "sparse", "moe", "hash_moe"];
    if let Some(kinds) = kinds(config, "mlp_layer_types", layers, &known)? {
        return Ok(kinds.iter().take(layers as usize).map(|&kind| kind != "dense").collect());
    }
    if let Some(listed) = listed_layers(config)? {
        return Ok((0..layers).map(|layer| listed.contains(&layer)).collect());
    }
    if config.value("moe_layer_freq").is_some_and(serde_json::Value::is_array) {
        let flags = config.counts("moe_layer_freq")?.unwrap_or_default();
        config.by_layer("moe_layer_freq", &flags, layers)?;
        return Ok(flags.iter().take(layers as usize).map(|&flag| flag != 0).collect());
    }
    let defaults = &[("moe_layer_freq", 1), ("decoder_sparse_step", 1)];
    let config = config.with_defaults(defaults);
    let first = config.count_or(&["first_k_dense_replace"], 0)?;
    let freq = config.positive(&["moe_layer_freq"])?;
    let step = config.positive(&["decoder_sparse_step", "interleave_moe_layer_step"])?;
    let dense = config.counts("mlp_only_layers")?.unwrap_or_default();
    let has = |layer: u64| {
        layer >= first
            && layer.is_multiple_of(freq)
            && (layer + 1).is_multiple_of(step)
            && !dense.contains(&layer)
    };
    Ok((0..layers).map(has).collect())
}

/// Layers with a mixture by their numbers, as a list or as a text with commas.
fn listed_layers(config: &Config) -> Result<Option<Vec<u64>>> {
    if let Some(listed) = config.counts("moe_layers")? {
        return Ok(Some(listed));
    }
    let Some(text) = config.text("moe_layers_enum") else { return config.counts("moe_layers_enum") };
    let parse = |number: &str| {
        let help = "write the numbers of layers with commas between them";
        number
            .trim()
            .parse()
            .map_err(|_| config.fault("moe_layers_enum", format!("`{number}`: no number"), help))
    };
    text.split(',').filter(|number| !number.trim().is_empty()).map(parse).collect::<Result<_>>().map(Some)
}

/// Gives every layer that [`sparse_layers`] picks a mixture.
pub(super) fn mix(config: &Config, layers: &mut [Layer], mixture: &Mixture) -> Result<()> {
    let sparse = sparse_layers(config, layers.len() as u64)?;
    for (layer, sparse) in layers.iter_mut().zip(sparse) {
        if sparse {
            become_mixture(layer, mixture);
        }
    }
    Ok(())
}

/// gpt-oss (OpenAI 2025): sinks, a window in every second layer, and experts with biases.
pub(super) fn gpt_oss(config: &Config) -> Result<Read> {
    let mut common = common(config)?;
    let bias = config.flag("attention_bias", true)?;
    common.attention =
        Attention { bias, output_bias: bias, sinks: true, ..attention_of(config, common.hidden)? };
    let mut mixture = mixture(config, common.dense.inner)?;
    (mixture.bias, mixture.router_bias) = (true, true);
    let mut structure = decoder_in(config, config, common.hidden)?;
    structure.layers = layers(&common, windows(config, common.layers, |layer| layer.is_multiple_of(2))?);
    for layer in &mut structure.layers {
        become_mixture(layer, &mixture);
    }
    Ok((structure, GPT_OSS))
}

/// Llama 4 (Meta 2025), with its encoder of images. Layers with rotary positions see a chunk of tokens, which a window
/// of the same length bounds, and every fourth layer sees all tokens and has no positions.
pub(super) fn llama4(config: &Config) -> Result<Read> {
    let text = &text_of(config)?;
    let hidden = hidden_of(text)?;
    let count = layers_of(text, LAYERS)?;
    let attention = attention_of(text, hidden)?;
    let inner = text.need(&["intermediate_size"])?;
    let dense = Dense { inner: text.count_or(&["intermediate_size_mlp"], inner)?, gated: true, bias: false };
    let chunk = text.count(&["attention_chunk_size"])?;
    let rotates = rotating(text, count)?;
    let build = |rotates: bool| {
        let (window, rotary) = if rotates { (chunk, attention.rotary) } else { (None, 0) };
        layer(Attention { window, rotary, ..attention.clone() }, dense.clone())
    };
    let mut structure = decoder_in(config, text, hidden)?;
    structure.layers = rotates.into_iter().map(build).collect();
    let mixture = Mixture { shared: shared(inner), ..mixture(text, inner)? };
    mix(text, &mut structure.layers, &mixture)?;
    if let Some(vision) = config.inner("vision_config")? {
        let (tower, projection) = vision::llama4(&vision, hidden)?;
        structure.add_tower(tower, projection);
    }
    let is_whole = config.value("text_config").is_some();
    Ok((structure, if is_whole { below_language_model(LLAMA4) } else { LLAMA4 }))
}

/// Which layers of Llama 4 rotate positions: all but every fourth, unless a list says otherwise.
fn rotating(config: &Config, layers: u64) -> Result<Vec<bool>> {
    if let Some(flags) = config.counts("no_rope_layers")?.filter(|flags| !flags.is_empty()) {
        config.by_layer("no_rope_layers", &flags, layers)?;
        return Ok(flags.iter().take(layers as usize).map(|&flag| flag != 0).collect());
    }
    let step =
        config.with_defaults(&[("no_rope_layer_interval", 4)]).positive(&["no_rope_layer_interval"])?;
    Ok((1..=layers).map(|layer| !layer.is_multiple_of(step)).collect())
}
