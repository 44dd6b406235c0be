//! MiMo (Xiaomi 2025) and MiMo-V2-Flash (2025).

use super::Read;
use super::config::Config;
use super::decoders::{
    LAYERS, common, hidden_of, layer, layers, layers_of, qwen_windows, rotary, weight, windows,
};
use super::experts::{mix, mixture, shared};
use super::nested::decoder_in;
use super::prediction::{self, prediction};
use crate::structure::{Attention, Dense, Mixture};
use crate::tensors::names::{LLAMA, Names};
use stagewright_formats::Result;

const MIMO: Names = Names { prediction: Some(&Names { layers: "model.mtp_layers", ..LLAMA }), ..LLAMA };

const V2: Names = Names { sinks: "attention_sink_bias", prediction: Some(&V2_PREDICTION), ..LLAMA };

/// Names within the prediction layers of MiMo-V2-Flash.
const V2_PREDICTION: Names = Names {
    layers: "model.mtp.layers",
    sinks: "attention_sink_bias",
    norms: &["input_layernorm", "pre_mlp_layernorm"],
    ..LLAMA
};

/// MiMo: Qwen 2 with prediction layers.
pub(super) fn mimo(config: &Config) -> Result<Read> {
    let mut common = common(config)?;
    common.attention.bias = config.flag("attention_bias", true)?;
    common.attention.output_bias = false;
    let mut structure = decoder_in(config, config, common.hidden)?;
    structure.layers = layers(&common, qwen_windows(config, common.layers)?);
    let hidden = common.hidden;
    let further = [
        weight("token_layernorm.weight", &[hidden]),
        weight("hidden_layernorm.weight", &[hidden]),
        weight("input_proj.weight", &[hidden, 2 * hidden]),
        weight("final_layernorm.weight", &[hidden]),
    ];
    let last = prediction(&layer(common.attention, common.dense), &further);
    structure.layers.extend(vec![last; prediction::count(config, 0)? as usize]);
    Ok((structure, MIMO))
}

/// MiMo-V2-Flash: windows with sinks in most layers, and three dense prediction layers, which no key counts.
pub(super) fn v2_flash(config: &Config) -> Result<Read> {
    let hidden = hidden_of(config)?;
    let count = layers_of(config, LAYERS)?;
    let (full, sliding) = (attention(config, false)?, attention(config, true)?);
    let dense = Dense { inner: config.need(&["intermediate_size"])?, gated: true, bias: false };
    let build = |slides: bool| layer(if slides { sliding.clone() } else { full.clone() }, dense.clone());
    let mut structure = decoder_in(config, config, hidden)?;
    structure.layers = sliding_layers(config, count)?.into_iter().map(build).collect();
    let inner = config.need(&["moe_intermediate_size"])?;
    let shared = shared(config.count_or(&["n_shared_experts"], 0)? * inner);
    let router_bias = config.text("topk_method").unwrap_or("noaux_tc") == "noaux_tc";
    let mixture = Mixture { shared, router_bias, ..mixture(config, inner)? };
    mix(config, &mut structure.layers, &mixture)?;
    let last = prediction(&build(true), &prediction::weights(hidden, "final_layernorm.weight"));
    structure.layers.extend(vec![last; prediction::count(config, 3)? as usize]);
    Ok((structure, V2))
}

/// Which layers have a window: by a list of numbers or of kinds.
fn sliding_layers(config: &Config, layers: u64) -> Result<Vec<bool>> {
    let key = "hybrid_layer_pattern";
    if let Some(flags) = config.counts(key)? {
        config.by_layer(key, &flags, layers)?;
        return Ok(flags.iter().take(layers as usize).map(|&flag| flag != 0).collect());
    }
    let found = windows(config, layers, |_| false)?;
    Ok(found.into_iter().map(|window| window.is_some()).collect())
}

/// Attention over all tokens, or over a window with the keys that begin with `swa_`.
fn attention(config: &Config, slides: bool) -> Result<Attention> {
    let pick = |own: &'static str, plain: &'static str| if slides { vec![own, plain] } else { vec![plain] };
    let key = config.positive(&pick("swa_head_dim", "head_dim"))?;
    let heads = config.positive(&pick("swa_num_attention_heads", "num_attention_heads"))?;
    let sinks = if slides { "add_swa_attention_sink_bias" } else { "add_full_attention_sink_bias" };
    Ok(Attention {
        heads,
        kv_heads: config.positive(&pick("swa_num_key_value_heads", "num_key_value_heads"))?,
        key,
        value: config.count(&pick("swa_v_head_dim", "v_head_dim"))?.unwrap_or(key),
        rotary: rotary(config, key, 1.0)?,
        window: if slides {
            Some(config.positive(&["sliding_window", "sliding_window_size"])?)
        } else {
            None
        },
        bias: config.flag("attention_bias", false)?,
        sinks: config.flag(sinks, slides)?,
        ..Attention::default()
    })
}
