//! Nemotron-H and Nemotron 3 (2025), hybrids of state-space layers and attention, and Nemotron NAS (2025), whose layers
//! a search chose one by one.

use super::Read;
use super::config::Config;
use super::decoders::{LAYERS, attention_of, common, hidden_of, layer, layers_of, refuse};
use super::experts::{mixture, shared};
use super::nested::decoder_in;
use super::prediction;
use crate::structure::{Attention, Dense, Layer, Mixer, Mixture, StateSpace};
use crate::tensors::names::{LLAMA, Names};
use stagewright_formats::Result;

/// Names within the prediction layers of Nemotron 3.
const PREDICTION: Names = Names {
    layers: "mtp.layers",
    norms: &["norm"],
    attention: "mixer",
    dense: "mixer",
    router: "mixer.gate",
    router_bias: "mixer.gate.e_score_correction_bias",
    experts: "mixer.experts",
    latent: ["mixer.fc1_latent_proj", "mixer.fc2_latent_proj"],
    shared: "mixer.shared_experts",
    ..LLAMA
};

const HYBRID: Names = Names {
    layers: "backbone.layers",
    prediction: Some(&PREDICTION),
    embedding: "backbone.embeddings",
    final_norm: "backbone.norm_f",
    ..PREDICTION
};

/// Kinds of layers, as a pattern and as a list write them.
const KINDS: [(char, &str); 4] = [('M', "mamba"), ('*', "attention"), ('-', "mlp"), ('E', "moe")];

/// Nemotron-H and Nemotron 3: every layer has one block, and one normalisation before it.
pub(super) fn hybrid(config: &Config) -> Result<Read> {
    let hidden = hidden_of(config)?;
    let kinds = pattern(config, ["layers_block_type", "hybrid_override_pattern"])?;
    if let Some(count) = config.count(&["num_hidden_layers"])? {
        config.by_layer("hybrid_override_pattern", &kinds, count)?;
    }
    let mut structure = decoder_in(config, config, hidden)?;
    let count = config.count_or(&["num_hidden_layers"], kinds.len() as u64)?;
    let build = |&kind: &char| block(config, hidden, kind);
    structure.layers = kinds.iter().take(count as usize).map(build).collect::<Result<_>>()?;
    let predictions = prediction::count(config, 0)?;
    if predictions == 0 {
        return Ok((structure, HYBRID));
    }
    let kinds = pattern(config, ["mtp_layers_block_type", "mtp_hybrid_override_pattern"])?;
    let mut layers = kinds.iter().map(build).collect::<Result<Vec<Layer>>>()?;
    layers.iter_mut().for_each(|layer| layer.is_prediction = true);
    let mut weights = prediction::weights(hidden, "final_layernorm.weight");
    let last_norm = weights.split_off(3);
    if let Some(first) = layers.first_mut() {
        first.other.extend(weights);
    }
    if let Some(last) = layers.last_mut() {
        last.other.extend(last_norm);
    }
    for _ in 0..predictions {
        structure.layers.extend_from_slice(&layers);
    }
    Ok((structure, HYBRID))
}

/// The kinds of layers, by a list or else a pattern under two keys.
fn pattern(config: &Config, [list, pattern]: [&str; 2]) -> Result<Vec<char>> {
    let unknown = |key: &str, kind: &str| {
        let help = "the layers of this architecture are mamba (M), attention (*), mlp (-) or moe (E)";
        config.fault(key, format!("unknown kind of layer `{kind}`"), help)
    };
    if let Some(names) = config.texts(list)? {
        let find = |&name: &&str| {
            let kind = KINDS.iter().find(|(_, known)| *known == name);
            kind.map(|(kind, _)| *kind).ok_or_else(|| unknown(list, name))
        };
        return names.iter().map(find).collect();
    }
    let Some(text) = config.text(pattern) else {
        let help = "give the kind of every layer";
        return Err(config.fault(pattern, format!("the key `{pattern}` (or {list}) is missing"), help));
    };
    if let Some(kind) = text.chars().find(|kind| !KINDS.iter().any(|(known, _)| known == kind)) {
        return Err(unknown(pattern, &kind.to_string()));
    }
    Ok(text.chars().collect())
}

/// A layer of a kind.
fn block(config: &Config, hidden: u64, kind: char) -> Result<Layer> {
    let mut layer = Layer {
        mixer: Mixer::None,
        cross: None,
        dense: None,
        mixture: None,
        norms: 1,
        parallel: false,
        is_prediction: false,
        other: Vec::new(),
    };
    match kind {
        'M' => layer.mixer = Mixer::StateSpace(state_space(config)?),
        '*' => layer.mixer = Mixer::Attention(attention(config, hidden)?),
        'E' => layer.mixture = Some(experts(config)?),
        _ => {
            let inner = config.positive(&["intermediate_size"])?;
            layer.dense = Some(Dense { inner, gated: false, bias: config.flag("mlp_bias", false)? });
        }
    }
    Ok(layer)
}

fn attention(config: &Config, hidden: u64) -> Result<Attention> {
    let mut attention = attention_of(config, hidden)?;
    if let Some(width) = config.count(&["head_dim", "attention_head_dim"])? {
        (attention.key, attention.value) = (width, width);
    }
    // State-space layers give positions, and attention rotates nothing.
    attention.rotary = 0;
    Ok(attention)
}

fn state_space(config: &Config) -> Result<StateSpace> {
    Ok(StateSpace {
        heads: config.positive(&["mamba_num_heads"])?,
        width: config.positive(&["mamba_head_dim"])?,
        state: config.positive(&["ssm_state_size"])?,
        groups: config.positive(&["n_groups"])?,
        kernel: config.positive(&["conv_kernel"])?,
        kernel_bias: config.flag("use_conv_bias", true)?,
        bias: config.flag("use_bias", false)?,
        state_bytes: match config.text("mamba_ssm_cache_dtype") {
            Some("float16" | "bfloat16") => 2,
            _ => 4,
        },
    })
}

fn experts(config: &Config) -> Result<Mixture> {
    let inner = config.need(&["moe_intermediate_size"])?;
    let mut mixture = mixture(config, inner)?;
    (mixture.gated, mixture.router_bias) = (false, true);
    mixture.latent = config.count(&["moe_latent_size"])?;
    mixture.shared = shared(config.count_or(&["moe_shared_expert_intermediate_size"], 0)?);
    Ok(mixture)
}

/// Nemotron NAS: Llama, whose layers may lack attention or the feed-forward block, and have widths of their own.
pub(super) fn nas(config: &Config) -> Result<Read> {
    let hidden = hidden_of(config)?;
    let count = layers_of(config, LAYERS)?;
    let heads = config.positive(&["num_attention_heads"])?;
    let Some(blocks) = config.list("block_configs")? else {
        let mut structure = decoder_in(config, config, hidden)?;
        let common = common(config)?;
        structure.layers = vec![layer(common.attention, common.dense); count as usize];
        return Ok((structure, LLAMA));
    };
    config.by_layer("block_configs", blocks, count)?;
    let mut structure = decoder_in(config, config, hidden)?;
    for index in 0..count as usize {
        let Some(block) = config.entry("block_configs", index)? else { continue };
        structure.layers.push(chosen(config, &block, hidden, heads)?);
    }
    Ok((structure, LLAMA))
}

/// A layer by its block: attention with groups of heads, and a feed-forward block with a multiple of the hidden width.
fn chosen(config: &Config, block: &Config, hidden: u64, heads: u64) -> Result<Layer> {
    let attention = block.need_inner("attention")?;
    let feed_forward = block.need_inner("ffn")?;
    for part in [&attention, &feed_forward] {
        refuse(part, "replace_with_linear")?;
    }
    let dense = Dense {
        inner: inner_width(&feed_forward, hidden)?,
        gated: true,
        bias: config.flag("mlp_bias", false)?,
    };
    let mut layer = layer(Attention::default(), dense);
    if attention.flag("no_op", false)? {
        layer.mixer = Mixer::None;
        layer.norms -= 1;
    } else {
        let group = attention.positive(&["n_heads_in_group"])?;
        let width = config.count_or(&["head_dim"], hidden / heads)?;
        let bias = config.flag("attention_bias", false)?;
        layer.mixer = Mixer::Attention(Attention {
            heads,
            kv_heads: heads / group,
            key: width,
            value: width,
            rotary: width,
            window: attention.count(&["window_length"])?,
            bias,
            output_bias: bias,
            ..Attention::default()
        });
    }
    if feed_forward.flag("no_op", false)? {
        layer.dense = None;
        layer.norms -= 1;
    }
    Ok(layer)
}

/// Inner width by `ffn_mult`: two thirds of that multiple of the hidden width, rounded up to a multiple of 256.
fn inner_width(config: &Config, hidden: u64) -> Result<u64> {
    /// Multiple that widths are rounded to.
    const MULTIPLE: u64 = 256;
    if config.flag("no_op", false)? {
        return Ok(0);
    }
    if let Some(width) = config.count(&["intermediate_size"])? {
        return Ok(width);
    }
    let multiple = config.number("ffn_mult")?.filter(|multiple| (0.0..=1024.0).contains(multiple));
    let Some(multiple) = multiple else {
        let help = "give a multiple of the hidden width that is at most 1024";
        return Err(config.fault("ffn_mult", "the multiple is missing, negative or too large", help));
    };
    Ok(((2.0 * multiple * hidden as f64 / 3.0) as u64).next_multiple_of(MULTIPLE))
}
