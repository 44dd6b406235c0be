//! Qwen 3 VL (2025) and Qwen 3.5 (2026), with their encoder of images.

use super::Read;
use super::config::Config;
use super::decoders::{
    LAYERS, attention_of, common, hidden_of, layer_with, layers, layers_of, qwen_windows, weight,
};
use super::experts::{become_mixture, mix, mixture};
use super::nested::{decoder_in, kinds, text_of, within_model};
use super::prediction::{self, prediction};
use super::vision;
use crate::structure::{
    Attention, Dense, Layer, Linear, Mixer, Mixture, QkNorm, Rule, Shared, Structure, Weight,
};
use crate::tensor::Role;
use crate::tensors::names::{LLAMA, Names};
use stagewright_formats::Result;

/// Names of a language model whose experts are stored together.
const LANGUAGE: Names = Names {
    expert_gate_up: Some("gate_up_proj"),
    stacked: Some(""),
    shared: "mlp.shared_expert",
    tower: Some(&vision::QWEN),
    ..LLAMA
};

/// Names within the prediction layers of Qwen 3.5.
const PREDICTION: Names = Names { layers: "mtp.layers", ..LANGUAGE };

const QWEN35: Names = Names { prediction: Some(&PREDICTION), ..LANGUAGE };

/// Qwen 3 VL, dense or with experts.
pub(super) fn qwen3_vl(config: &Config) -> Result<Read> {
    let text = &text_of(config)?;
    let mut structure = decoder_in(config, text, hidden_of(text)?)?;
    structure.layers = qwen3_layers(text)?;
    see(config, &mut structure)?;
    Ok((structure, named(config, LANGUAGE)))
}

/// Layers of Qwen 3, dense or with experts.
fn qwen3_layers(config: &Config) -> Result<Vec<Layer>> {
    let config = &config.with_defaults(&[("head_dim", 128)]);
    let mut common = common(config)?;
    common.attention.qk_norm = QkNorm::Head;
    let mut layers = layers(&common, qwen_windows(config, common.layers)?);
    if let Some(inner) = config.count(&["moe_intermediate_size"])? {
        mix(config, &mut layers, &mixture(config, inner)?)?;
    }
    Ok(layers)
}

/// Qwen 3.5: three layers of linear attention to one of gated attention, dense or with experts.
pub(super) fn qwen3_5(config: &Config) -> Result<Read> {
    let text = &text_of(config)?;
    let hidden = hidden_of(text)?;
    let count = layers_of(text, LAYERS)?;
    let full = Mixer::Attention(attention(text, hidden)?);
    let linear = Mixer::Linear(linear(text)?);
    let dense = Dense { inner: text.count_or(&["intermediate_size"], 0)?, gated: true, bias: false };
    let build =
        |is_linear: bool| layer_with(if is_linear { linear.clone() } else { full.clone() }, dense.clone());
    let mut structure = decoder_in(config, text, hidden)?;
    structure.layers = linear_layers(text, count)?.into_iter().map(build).collect();
    let mut last = build(false);
    match text.count(&["moe_intermediate_size"])? {
        Some(inner) => {
            let shared = Shared { inner: text.need(&["shared_expert_intermediate_size"])?, scaled: true };
            let mixture = Mixture { shared: Some(shared), ..mixture(text, inner)? };
            mix(text, &mut structure.layers, &mixture)?;
            become_mixture(&mut last, &mixture);
        }
        None => {
            text.positive(&["intermediate_size"])?;
        }
    }
    predict(text, &mut structure, &last)?;
    see(config, &mut structure)?;
    Ok((structure, named(config, QWEN35)))
}

fn attention(config: &Config, hidden: u64) -> Result<Attention> {
    let mut attention = attention_of(config, hidden)?;
    attention.qk_norm = QkNorm::Head;
    attention.gate = config.flag("attn_output_gate", true)?;
    Ok(attention)
}

fn linear(config: &Config) -> Result<Linear> {
    Ok(Linear {
        key_heads: config.positive(&["linear_num_key_heads"])?,
        value_heads: config.positive(&["linear_num_value_heads"])?,
        key: config.positive(&["linear_key_head_dim"])?,
        value: config.positive(&["linear_value_head_dim"])?,
        kernel: config.need(&["linear_conv_kernel_dim"])?,
        rule: Rule::GatedDelta,
    })
}

/// Which layers have linear attention: by a list, or all but every `full_attention_interval`-th.
fn linear_layers(config: &Config, layers: u64) -> Result<Vec<bool>> {
    let known = ["linear_attention", "full_attention"];
    if let Some(kinds) = kinds(config, "layer_types", layers, &known)? {
        return Ok(kinds.iter().take(layers as usize).map(|&kind| kind == "linear_attention").collect());
    }
    let key = "full_attention_interval";
    let step = config.with_defaults(&[("full_attention_interval", 4)]).positive(&[key])?;
    Ok((1..=layers).map(|layer| !layer.is_multiple_of(step)).collect())
}

/// Adds prediction layers, whose common projection and normalisations are outside them.
fn predict(config: &Config, structure: &mut Structure, layer: &Layer) -> Result<()> {
    let count = prediction::count(config, 0)?;
    if count > 0 {
        let hidden = structure.hidden;
        let common = [
            weight("mtp.fc.weight", &[hidden, 2 * hidden]),
            weight("mtp.pre_fc_norm_embedding.weight", &[hidden]),
            weight("mtp.pre_fc_norm_hidden.weight", &[hidden]),
            weight("mtp.norm.weight", &[hidden]),
        ];
        structure.other.extend(common.map(|weight| Weight { role: Role::Prediction, ..weight }));
        structure.layers.extend(vec![prediction(layer, &[]); count as usize]);
    }
    Ok(())
}

/// Adds the encoder of images that `vision_config` describes.
fn see(config: &Config, structure: &mut Structure) -> Result<()> {
    if let Some(vision) = config.inner("vision_config")? {
        structure.towers.push(vision::qwen(&vision)?);
    }
    Ok(())
}

fn named(config: &Config, names: Names) -> Names {
    if config.value("text_config").is_some() { within_model(names) } else { names }
}
