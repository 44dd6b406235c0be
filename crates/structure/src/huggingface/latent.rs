//! Decoders with latent attention: DeepSeek V2 to V3.2, Kimi K2, GLM-5.

use super::Read;
use super::config::Config;
use super::decoders::{LAYERS, hidden_of, layer_with, layers_of, weight};
use super::experts::{become_mixture, mix, mixture, shared};
use super::nested::{below_language_model, decoder_in, kinds, text_of};
use super::prediction::{self, prediction};
use super::vision;
use crate::structure::{Dense, Indexer, Latent, Mixer, Mixture, Structure};
use crate::tensors::names::{LLAMA, Names};
use stagewright_formats::Result;

const KIMI: Names = below_language_model(Names { tower: Some(&vision::MOON), ..LLAMA });

/// DeepSeek-V2 (2024).
pub(super) fn deepseek_v2(config: &Config) -> Result<Read> {
    Ok((decoder(config, config, "greedy", true)?, LLAMA))
}

/// DeepSeek-V3 (2024), V3.2 (2025) with its indexer, and Kimi K2 (2025).
pub(super) fn deepseek_v3(config: &Config) -> Result<Read> {
    Ok((decoder(config, config, "noaux_tc", true)?, LLAMA))
}

/// GLM-5 (2026), whose prediction layer uses the tables of the model.
pub(super) fn glm(config: &Config) -> Result<Read> {
    Ok((decoder(config, config, "noaux_tc", false)?, LLAMA))
}

/// Kimi K2.5 (2026): Kimi K2 with an encoder of images.
pub(super) fn kimi_k25(config: &Config) -> Result<Read> {
    let text = &text_of(config)?;
    let mut structure = decoder(config, text, "noaux_tc", true)?;
    if let Some(vision) = config.inner("vision_config")? {
        let (tower, projection) = vision::moon(&vision, structure.hidden)?;
        structure.add_tower(tower, projection);
    }
    Ok((structure, KIMI))
}

/// The decoder, whose router picks experts by `method` where no key says how, and whose prediction layers have copies of
/// the tables of the model.
fn decoder(config: &Config, text: &Config, method: &str, copies: bool) -> Result<Structure> {
    let hidden = hidden_of(text)?;
    let count = layers_of(text, LAYERS)?;
    let attention = attention(text)?;
    let dense = Dense { inner: text.need(&["intermediate_size"])?, gated: true, bias: false };
    let layer = layer_with(Mixer::Latent(attention.clone()), dense);
    let mut structure = decoder_in(config, text, hidden)?;
    structure.layers = vec![layer.clone(); count as usize];
    for (layer, shares) in structure.layers.iter_mut().zip(sharing(text, count)?) {
        if let Mixer::Latent(Latent { indexer: Some(indexer), .. }) = &mut layer.mixer {
            indexer.shared = shares;
        }
    }
    let mixture = if text.value("n_routed_experts").is_some() { Some(experts(text, method)?) } else { None };
    if let Some(mixture) = &mixture {
        mix(text, &mut structure.layers, mixture)?;
    }
    let mut further = prediction::weights(hidden, "shared_head.norm.weight");
    if copies {
        let table = [structure.vocabulary, hidden];
        further.push(weight("embed_tokens.weight", &table));
        further.push(weight("shared_head.head.weight", &table));
    }
    let mut last = prediction(&layer, &further);
    if let Some(mixture) = &mixture {
        become_mixture(&mut last, mixture);
    }
    structure.layers.extend(vec![last; prediction::count(text, 0)? as usize]);
    Ok(structure)
}

/// Latent attention by its ranks and widths, with an indexer if `index_topk` is there.
pub(super) fn attention(config: &Config) -> Result<Latent> {
    let indexer = match config.count(&["index_topk"])? {
        Some(selected) => Some(Indexer {
            heads: config.positive(&["index_n_heads"])?,
            width: config.positive(&["index_head_dim"])?,
            selected,
            shared: false,
        }),
        None => None,
    };
    Ok(Latent {
        heads: config.positive(&["num_attention_heads"])?,
        query_rank: config.count(&["q_lora_rank"])?.filter(|&rank| rank > 0),
        rank: config.positive(&["kv_lora_rank"])?,
        plain: config.need(&["qk_nope_head_dim"])?,
        rotary: config.need(&["qk_rope_head_dim"])?,
        value: config.positive(&["v_head_dim"])?,
        bias: config.flag("attention_bias", false)?,
        gate: config.flag("mla_use_output_gate", false)?,
        indexer,
    })
}

fn experts(config: &Config, method: &str) -> Result<Mixture> {
    let inner = config.need(&["moe_intermediate_size"])?;
    let mut mixture = mixture(config, inner)?;
    mixture.router_bias = config.text("topk_method").unwrap_or(method) == "noaux_tc";
    mixture.shared = shared(config.count_or(&["n_shared_experts"], 0)? * inner);
    Ok(mixture)
}

/// Which layers use the selection of an earlier one (GLM-5.2): by a list, or all but every `index_topk_freq`-th.
fn sharing(config: &Config, layers: u64) -> Result<Vec<bool>> {
    if let Some(kinds) = kinds(config, "indexer_types", layers, &["full", "shared"])? {
        return Ok(kinds.iter().map(|&kind| kind == "shared").collect());
    }
    if let Some(pattern) = config.text("index_topk_pattern") {
        let kinds: Vec<char> = pattern.chars().collect();
        config.by_layer("index_topk_pattern", &kinds, layers)?;
        if let Some(kind) = kinds.iter().find(|kind| !matches!(kind, 'F' | 'S')) {
            let help = "write F for a layer with a selection of its own, and S for one that shares it";
            return Err(config.fault("index_topk_pattern", format!("unknown kind of layer `{kind}`"), help));
        }
        return Ok(kinds.iter().map(|&kind| kind == 'S').collect());
    }
    let step = config.with_defaults(&[("index_topk_freq", 1)]).positive(&["index_topk_freq"])?;
    let offset = config.count_or(&["index_skip_topk_offset"], 2)?;
    Ok((0..layers).map(|layer| !(layer + 1).saturating_sub(offset).is_multiple_of(step)).collect())
}
