//! Kimi Linear (2025) and Kimi K3 (2026): Kimi delta attention with latent attention in some layers. K3 adds experts of
//! a narrower width, attention over the outputs of earlier blocks of layers, and an encoder of images.

use super::Read;
use super::config::Config;
use super::decoders::{LAYERS, hidden_of, layer_with, layers_of, weight};
use super::experts::{mix, mixture, shared};
use super::latent::attention;
use super::nested::{below_language_model, decoder_in, text_of};
use super::vision;
use crate::structure::{Dense, Linear, Mixer, Mixture, Rule, Weight};
use crate::tensors::names::{LLAMA, Names};
use stagewright_formats::Result;

const KIMI: Names = Names {
    router: "block_sparse_moe.gate",
    router_bias: "block_sparse_moe.gate.e_score_correction_bias",
    experts: "block_sparse_moe.experts",
    expert: ["w1", "w3", "w2"],
    latent: ["block_sparse_moe.routed_expert_down_proj", "block_sparse_moe.routed_expert_up_proj"],
    shared: "block_sparse_moe.shared_experts",
    tower: Some(&vision::MOON),
    ..LLAMA
};

/// Kimi Linear, and Kimi K3 around it.
pub(super) fn kimi_linear(config: &Config) -> Result<Read> {
    let text = &text_of(config)?;
    let is_whole = config.value("text_config").is_some();
    let hidden = hidden_of(text)?;
    let count = layers_of(text, LAYERS)?;
    let latent = Mixer::Latent(attention(text)?);
    let linear = linear(text)?;
    let dense = Dense { inner: text.need(&["intermediate_size"])?, gated: true, bias: false };
    let mixture = experts(text)?;
    let residuals = text.count(&["attn_res_block_size"])?.is_some();
    let mut structure = decoder_in(config, text, hidden)?;
    for is_linear in linear_layers(text, count)? {
        let mixer = if is_linear { Mixer::Linear(linear.clone()) } else { latent.clone() };
        let mut layer = layer_with(mixer, dense.clone());
        if residuals {
            layer.other = [residual("self_attention_res", hidden), residual("mlp_res", hidden)].concat();
        }
        structure.layers.push(layer);
    }
    if let Some(mixture) = &mixture {
        mix(text, &mut structure.layers, mixture)?;
        if let (Some(width), true) = (mixture.latent, text.flag("latent_moe_use_norm", false)?) {
            let norm = weight("block_sparse_moe.routed_expert_norm.weight", &[width]);
            let sparse = structure.layers.iter_mut().filter(|layer| layer.mixture.is_some());
            sparse.for_each(|layer| layer.other.push(norm.clone()));
        }
    }
    if residuals {
        let path = if is_whole { "language_model.model.output_attn_res" } else { "model.output_attn_res" };
        structure.other = residual(path, hidden);
    }
    if let Some(vision) = config.inner("vision_config")? {
        let (tower, projection) = vision::moon(&vision, hidden)?;
        structure.add_tower(tower, projection);
    }
    Ok((structure, if is_whole { below_language_model(KIMI) } else { KIMI }))
}

/// Weights of an attention over the outputs of blocks of layers (attention residuals).
fn residual(name: &str, hidden: u64) -> Vec<Weight> {
    vec![
        weight(format!("{name}_norm.weight"), &[hidden]),
        weight(format!("{name}_proj.weight"), &[1, hidden]),
    ]
}

fn experts(config: &Config) -> Result<Option<Mixture>> {
    if config.value("num_experts").is_none() && config.value("num_local_experts").is_none() {
        return Ok(None);
    }
    let inner = config.need(&["moe_intermediate_size"])?;
    let mut mixture = mixture(config, inner)?;
    mixture.router_bias = true;
    mixture.latent = config.count(&["routed_expert_hidden_size"])?;
    mixture.shared = shared(config.count_or(&["num_shared_experts", "n_shared_experts"], 0)? * inner);
    Ok(Some(mixture))
}

fn linear_config<'a>(config: &Config<'a>) -> Result<Config<'a>> {
    config.need_inner("linear_attn_config")
}

fn linear(config: &Config) -> Result<Linear> {
    let config = linear_config(config)?;
    let heads = config.positive(&["num_heads"])?;
    let width = config.positive(&["head_dim"])?;
    let gate_rank = if config.flag("use_full_rank_gate", false)? { None } else { Some(width) };
    Ok(Linear {
        key_heads: heads,
        value_heads: heads,
        key: width,
        value: width,
        kernel: config.need(&["short_conv_kernel_size"])?,
        rule: Rule::ChannelDelta { gate_rank },
    })
}

/// Which layers have linear attention, by the two lists of layers counted from 1.
fn linear_layers(config: &Config, layers: u64) -> Result<Vec<bool>> {
    let config = linear_config(config)?;
    let linear = config.counts("kda_layers")?.unwrap_or_default();
    let full = config.counts("full_attn_layers")?.unwrap_or_default();
    let kind = |layer: u64| match (linear.contains(&layer), full.contains(&layer)) {
        (true, false) => Ok(true),
        (false, true) => Ok(false),
        (both, _) => {
            let lists = if both { "both lists" } else { "neither list" };
            let message = format!("layer {layer}, counted from 1, is in {lists} of layers");
            Err(config.fault("kda_layers", message, "name every layer in kda_layers or in full_attn_layers"))
        }
    };
    (1..=layers).map(kind).collect()
}
