//! Step 3.5 Flash and Step 3.7 Flash (StepFun 2026).

use super::Read;
use super::config::Config;
use super::decoders::{LAYERS, attention_of, hidden_of, layer, layers_of, weight};
use super::experts::{mix, mixture, shared};
use super::nested::{decoder_in, kinds, text_of};
use super::prediction::{self, prediction};
use super::vision;
use crate::structure::{Attention, Dense, Mixture, QkNorm};
use crate::tensors::names::{LLAMA, Names};
use stagewright_formats::Result;

const STEP: Names = Names {
    attention_gate: Some("g_proj"),
    router: "moe.gate",
    router_bias: "moe.router_bias",
    experts: "moe",
    stacked: Some(".weight"),
    shared: "share_expert",
    tower: Some(&vision::STEP),
    ..LLAMA
};

/// Step 3.7 Flash: more heads in layers with a window, a gate for every head, and dense prediction layers with a
/// projection to the vocabulary of their own.
pub(super) fn step3p7(config: &Config) -> Result<Read> {
    let text = &text_of(config)?;
    let hidden = hidden_of(text)?;
    let count = layers_of(text, LAYERS)?;
    let predictions = prediction::count(text, 0)?;
    let (full, sliding) = (attention(text, hidden, false)?, attention(text, hidden, true)?);
    let dense = Dense { inner: text.need(&["intermediate_size"])?, gated: true, bias: false };
    let build = |slides: bool| layer(if slides { sliding.clone() } else { full.clone() }, dense.clone());
    let kinds = kinds(text, "layer_types", count, &["full_attention", "sliding_attention"])?;
    // The list may go on to the prediction layers, which have a window where it does not.
    let slides = |layer: u64| match &kinds {
        Some(kinds) => kinds.get(layer as usize).is_none_or(|&kind| kind == "sliding_attention"),
        None => layer >= count,
    };
    let mut structure = decoder_in(config, text, hidden)?;
    structure.layers = (0..count).map(|layer| build(slides(layer))).collect();
    let inner = text.need(&["moe_intermediate_size"])?;
    let mixture = Mixture {
        router_bias: text.flag("use_moe_router_bias", true)?,
        shared: shared(text.count_or(&["share_expert_dim", "share_expert_dims"], 0)?),
        ..mixture(text, inner)?
    };
    mix(text, &mut structure.layers, &mixture)?;
    let mut further = prediction::weights(hidden, "transformer.shared_head.norm.weight");
    further.push(weight("transformer.shared_head.output.weight", &[structure.vocabulary, hidden]));
    for layer in count..count + predictions {
        structure.layers.push(prediction(&build(slides(layer)), &further));
    }
    if let Some(vision) = config.inner("vision_config")? {
        let (tower, projection) = vision::step(config, &vision, hidden)?;
        structure.add_tower(tower, projection);
    }
    Ok((structure, STEP))
}

/// Attention over all tokens, or over a window with the heads of `attention_other_setting`.
fn attention(config: &Config, hidden: u64, slides: bool) -> Result<Attention> {
    let mut attention = attention_of(config, hidden)?;
    attention.kv_heads = config.count_or(&["num_attention_groups"], attention.kv_heads)?;
    (attention.qk_norm, attention.head_gate) = (QkNorm::Head, true);
    if !slides {
        return Ok(attention);
    }
    attention.window = Some(config.positive(&["sliding_window"])?);
    attention.heads = config.count_or(&["num_sliding_attention_heads"], attention.heads)?;
    if let Some(other) = config.inner("attention_other_setting")? {
        attention.heads = other.count_or(&["num_attention_heads"], attention.heads)?;
        attention.kv_heads = other.count_or(&["num_attention_groups"], attention.kv_heads)?;
        let width = other.count_or(&["head_dim"], attention.key)?;
        (attention.key, attention.value) = (width, width);
    }
    Ok(attention)
}
