//! Variants of Llama: fused projections, other normalisations, parallel blocks, layers without positions.

use super::Read;
use super::config::Config;
use super::decoders::{Common, common, decoder, layer, layers, rotary, tied_by_default, weight, windows};
use crate::structure::{Attention, Convolution, Dense, Head, Layer, Mixer, Norm, QkNorm};
use crate::tensors::names::{LLAMA, Names};
use stagewright_formats::Result;

const PHI: Names = Names {
    final_norm: "model.final_layernorm",
    query_norm: "q_layernorm",
    key_norm: "k_layernorm",
    output: "dense",
    up: "fc1",
    down: "fc2",
    ..LLAMA
};

const PHI3: Names = Names { query_key_value: Some("qkv_proj"), gate_up: Some("gate_up_proj"), ..LLAMA };

const STARCODER2: Names = Names { up: "c_fc", down: "c_proj", ..LLAMA };

/// Names of StableLM, with a normalisation of its own for every head.
const STABLELM: Names = Names { query_norm: "q_layernorm.norms.*", key_norm: "k_layernorm.norms.*", ..LLAMA };

const OLMO2: Names = Names { norms: &["post_attention_layernorm", "post_feedforward_layernorm"], ..LLAMA };

const LFM2: Names = Names {
    final_norm: "model.embedding_norm",
    norms: &["operator_norm", "ffn_norm"],
    output: "out_proj",
    dense: "feed_forward",
    gate: "w1",
    up: "w3",
    down: "w2",
    query_norm: "q_layernorm",
    key_norm: "k_layernorm",
    ..LLAMA
};

/// Phi (Li et al. 2023): attention and a dense block without a gate read the same normalised input.
pub(super) fn phi(config: &Config) -> Result<Read> {
    let mut common = common(config)?;
    let attention = &mut common.attention;
    (attention.bias, attention.output_bias) = (true, true);
    attention.rotary = rotary(config, attention.key, 0.5)?;
    let mut other = Vec::new();
    if config.flag("qk_layernorm", false)? {
        attention.qk_norm = QkNorm::Head;
        other = ["q_layernorm", "k_layernorm"]
            .map(|norm| weight(format!("self_attn.{norm}.bias"), &[attention.key]))
            .to_vec();
    }
    common.dense = Dense { gated: false, bias: true, ..common.dense };
    let mut structure = decoder(config, common.hidden, Norm::Layer)?;
    structure.head = structure.head.map(|head| Head { bias: true, ..head });
    let layer = Layer { norms: 1, parallel: true, other, ..layer(common.attention, common.dense) };
    structure.layers = vec![layer; common.layers as usize];
    Ok((structure, PHI))
}

/// Phi 3: Llama with fused projections.
pub(super) fn phi3(config: &Config) -> Result<Read> {
    let common = common(config)?;
    let mut structure = decoder(config, common.hidden, Norm::Rms)?;
    structure.layers = layers(&common, windows(config, common.layers, |_| true)?);
    Ok((structure, PHI3))
}

/// Cohere's Command R: attention and the dense block read the same input, normalised without a shift.
pub(super) fn cohere(config: &Config) -> Result<Read> {
    let mut common = common(config)?;
    if config.flag("use_qk_norm", false)? {
        common.attention.qk_norm = QkNorm::EachHead;
    }
    let mut structure = decoder(config, common.hidden, Norm::LayerWithoutBias)?;
    tied_by_default(config, &mut structure)?;
    let layer = Layer { norms: 1, parallel: true, ..layer(common.attention, common.dense) };
    structure.layers = vec![layer; common.layers as usize];
    Ok((structure, LLAMA))
}

/// Cohere's Command R7B and A: three layers with a window, then one that sees everything, without positions.
pub(super) fn cohere2(config: &Config) -> Result<Read> {
    let config = &config.with_defaults(&[("sliding_window", 4096), ("sliding_window_pattern", 4)]);
    let common = common(config)?;
    let mut structure = decoder(config, common.hidden, Norm::LayerWithoutBias)?;
    tied_by_default(config, &mut structure)?;
    let period = config.positive(&["sliding_window_pattern"])?;
    let build = |window: Option<u64>| {
        let rotary = if window.is_some() { common.attention.rotary } else { 0 };
        let attention = Attention { window, rotary, ..common.attention.clone() };
        Layer { norms: 1, parallel: true, ..layer(attention, common.dense.clone()) }
    };
    let windows = windows(config, common.layers, |layer| !(layer + 1).is_multiple_of(period))?;
    structure.layers = windows.into_iter().map(build).collect();
    Ok((structure, LLAMA))
}

/// StarCoder 2 (Lozhkov et al. 2024): biases everywhere, and a dense block without a gate.
pub(super) fn starcoder2(config: &Config) -> Result<Read> {
    let mut common = common(config)?;
    let bias = config.flag("use_bias", true)?;
    (common.attention.bias, common.attention.output_bias) = (bias, bias);
    common.dense = Dense { gated: false, bias, ..common.dense };
    let mut structure = decoder(config, common.hidden, Norm::Layer)?;
    tied_by_default(config, &mut structure)?;
    structure.layers = layers(&common, windows(config, common.layers, |_| true)?);
    Ok((structure, STARCODER2))
}

/// StableLM: a quarter of each head is rotated.
pub(super) fn stablelm(config: &Config) -> Result<Read> {
    let mut common = common(config)?;
    let attention = &mut common.attention;
    attention.bias = config.flag("use_qkv_bias", false)?;
    attention.output_bias = false;
    attention.rotary = rotary(config, attention.key, 0.25)?;
    if config.flag("qk_layernorm", false)? {
        attention.qk_norm = QkNorm::EachHead;
    }
    let parallel = config.flag("use_parallel_residual", false)?;
    let norms = if parallel { 1 } else { 2 };
    let mut structure = decoder(config, common.hidden, Norm::Layer)?;
    let layer = Layer { norms, parallel, ..layer(common.attention, common.dense) };
    structure.layers = vec![layer; common.layers as usize];
    Ok((structure, STABLELM))
}

/// OLMo (Groeneveld et al. 2024): normalisations without weights.
pub(super) fn olmo(config: &Config) -> Result<Read> {
    let common = common(config)?;
    let mut structure = decoder(config, common.hidden, Norm::Plain)?;
    structure.layers = vec![layer(common.attention, common.dense); common.layers as usize];
    Ok((structure, LLAMA))
}

/// OLMo 2: normalisations after the blocks, and of queries and keys over all heads.
pub(super) fn olmo2(config: &Config) -> Result<Read> {
    let mut common = common(config)?;
    common.attention.qk_norm = QkNorm::Full;
    let mut structure = decoder(config, common.hidden, Norm::Rms)?;
    structure.layers = vec![layer(common.attention, common.dense); common.layers as usize];
    Ok((structure, OLMO2))
}

/// SmolLM 3: Llama without positions in every fourth layer.
pub(super) fn smollm3(config: &Config) -> Result<Read> {
    let config = &config.with_defaults(&[("no_rope_layer_interval", 4)]);
    let common = common(config)?;
    let period = config.positive(&["no_rope_layer_interval"])?;
    let rotated: Vec<bool> = match config.counts("no_rope_layers")? {
        Some(flags) => {
            config.by_layer("no_rope_layers", &flags, common.layers)?;
            flags.into_iter().map(|flag| flag > 0).collect()
        }
        None => (1..=common.layers).map(|count| !count.is_multiple_of(period)).collect(),
    };
    let mut structure = decoder(config, common.hidden, Norm::Rms)?;
    tied_by_default(config, &mut structure)?;
    let slides = config.flag("use_sliding_window", false)?;
    let windows = windows(config, common.layers, |layer| slides && !rotated[layer as usize])?;
    structure.layers = layers(&common, windows);
    for (layer, rotated) in structure.layers.iter_mut().zip(rotated) {
        if let (Mixer::Attention(attention), false) = (&mut layer.mixer, rotated) {
            attention.rotary = 0;
        }
    }
    Ok((structure, LLAMA))
}

/// LFM2 (Liquid AI 2025): short convolutions, and attention in a few layers.
pub(super) fn lfm2(config: &Config) -> Result<Read> {
    let mut common = common_of_lfm2(config)?;
    common.attention.qk_norm = QkNorm::Head;
    let convolution = Convolution {
        width: common.hidden,
        kernel: config.count_or(&["conv_L_cache"], 3)?,
        bias: config.flag("conv_bias", false)?,
    };
    let mut structure = decoder(config, common.hidden, Norm::Rms)?;
    let tied = config.flag("tie_embedding", true)?;
    structure.head = Some(Head { tied: config.flag("tie_word_embeddings", tied)?, bias: false });
    let attends = lfm2_attends(config, common.layers)?;
    let build = |attends: bool| {
        let layer = layer(common.attention.clone(), common.dense.clone());
        if attends { layer } else { Layer { mixer: Mixer::Convolution(convolution.clone()), ..layer } }
    };
    structure.layers = attends.into_iter().map(build).collect();
    Ok((structure, LFM2))
}

/// Widths of LFM2, whose configurations state the inner width before a gate takes a third of it.
fn common_of_lfm2(config: &Config) -> Result<Common> {
    let config = &config.with_defaults(&[("block_multiple_of", 256)]);
    let mut common = common(config)?;
    common.dense.inner = config.count_or(&["block_ff_dim"], common.dense.inner)?;
    if config.flag("block_auto_adjust_ff_dim", true)? {
        let multiplier = config.number("block_ffn_dim_multiplier")?.unwrap_or(1.0);
        let multiple = config.positive(&["block_multiple_of"])?;
        let inner = (2 * common.dense.inner / 3) as f64 * multiplier;
        if !(0.0..=f64::from(u32::MAX)).contains(&inner) {
            let help = "check the value";
            return Err(config.fault(
                "block_ffn_dim_multiplier",
                "the inner width is no sensible number",
                help,
            ));
        }
        common.dense.inner = (inner as u64).div_ceil(multiple) * multiple;
    }
    Ok(common)
}

/// Layers of LFM2 with attention: by `layer_types`, or else by a list of their numbers.
fn lfm2_attends(config: &Config, layers: u64) -> Result<Vec<bool>> {
    if let Some(types) = config.texts("layer_types")? {
        config.by_layer("layer_types", &types, layers)?;
        return Ok(types.iter().take(layers as usize).map(|name| *name == "full_attention").collect());
    }
    let indices = config.counts("full_attn_idxs")?;
    let attends = |layer: u64| indices.as_ref().is_none_or(|indices| indices.contains(&layer));
    Ok((0..layers).map(attends).collect())
}
