//! MiniMax M2 (2025) and M3 (2026). Modules of multi-token prediction that their configurations count are not in the
//! published files, and not in the structure.

use super::Read;
use super::config::Config;
use super::decoders::{LAYERS, attention_of, hidden_of, layer, layers_of};
use super::experts::{become_mixture, mix, mixture, shared};
use super::nested::{below_language_model, decoder_in, kinds, text_of};
use super::siglip;
use super::vision;
use crate::structure::{Attention, Dense, Indexer, Layer, Mixer, QkNorm};
use crate::tensors::names::{LLAMA, Names};
use stagewright_formats::Result;

const MINIMAX: Names = Names {
    router: "block_sparse_moe.gate",
    router_bias: "block_sparse_moe.e_score_correction_bias",
    experts: "block_sparse_moe.experts",
    expert: ["w1", "w3", "w2"],
    shared: "block_sparse_moe.shared_experts",
    tower: Some(&siglip::NAMES),
    ..LLAMA
};

/// MiniMax-M2: every layer is a mixture.
pub(super) fn m2(config: &Config) -> Result<Read> {
    let hidden = hidden_of(config)?;
    let inner = config.need(&["intermediate_size"])?;
    let attention = attention(config, hidden, QkNorm::Full)?;
    let mut mixture = mixture(config, inner)?;
    mixture.router_bias = config.flag("use_routing_bias", true)?;
    mixture.shared = shared(config.count_or(&["shared_intermediate_size"], 0)?);
    let mut layer = layer(attention, Dense { inner, gated: true, bias: false });
    become_mixture(&mut layer, &mixture);
    let mut structure = decoder_in(config, config, hidden)?;
    structure.layers = vec![layer; layers_of(config, LAYERS)? as usize];
    Ok((structure, MINIMAX))
}

/// MiniMax-M3: attention over selected blocks of tokens, shared experts, and an encoder of images where
/// `vision_config` describes it.
pub(super) fn m3(config: &Config) -> Result<Read> {
    let text = &text_of(config)?;
    let hidden = hidden_of(text)?;
    let inner = text.need(&["moe_intermediate_size", "intermediate_size"])?;
    let dense =
        Dense { inner: text.count_or(&["dense_intermediate_size"], inner)?, gated: true, bias: false };
    let mut mixture = mixture(text, inner)?;
    mixture.router_bias = text.flag("use_routing_bias", true)?;
    mixture.shared = shared(text.count_or(&["shared_intermediate_size"], 0)?);
    let attention = attention(text, hidden, QkNorm::Head)?;
    let mut structure = decoder_in(config, text, hidden)?;
    structure.layers = vec![layer(attention, dense); layers_of(text, LAYERS)? as usize];
    mix(text, &mut structure.layers, &mixture)?;
    select(text, &mut structure.layers)?;
    if let Some(vision) = config.inner("vision_config")? {
        let (tower, projection) = vision::clip(config, &vision, hidden)?;
        structure.add_tower(tower, projection);
    }
    let is_whole = config.value("text_config").is_some();
    Ok((structure, if is_whole { below_language_model(MINIMAX) } else { MINIMAX }))
}

fn attention(config: &Config, hidden: u64, norm: QkNorm) -> Result<Attention> {
    let mut attention = attention_of(config, hidden)?;
    attention.rotary = config.count_or(&["rotary_dim"], attention.rotary)?;
    if config.flag("use_qk_norm", true)? {
        attention.qk_norm = match config.text("qk_norm_type") {
            Some("per_head") => QkNorm::Head,
            Some("per_layer") => QkNorm::Full,
            _ => norm,
        };
    }
    Ok(attention)
}

/// Gives sparse layers the selector of `sparse_attention_config`.
fn select(config: &Config, layers: &mut [Layer]) -> Result<()> {
    let Some(sparse) = config.inner("sparse_attention_config")? else { return Ok(()) };
    if !sparse.flag("use_sparse_attention", true)? {
        return Ok(());
    }
    let indexer = Indexer {
        heads: sparse.positive(&["sparse_num_index_heads"])?,
        width: sparse.positive(&["sparse_index_dim"])?,
        selected: sparse.need(&["sparse_topk_blocks"])? * sparse.need(&["sparse_block_size"])?,
        shared: false,
    };
    let count = layers.len() as u64;
    let known = ["full_attention", "minimax_m3_sparse"];
    let picked: Vec<bool> = match kinds(config, "layer_types", count, &known)? {
        Some(kinds) => kinds.iter().map(|&kind| kind != "full_attention").collect(),
        None => {
            let key = "sparse_attention_freq";
            let flags = sparse.counts(key)?.unwrap_or_else(|| vec![1; layers.len()]);
            sparse.by_layer(key, &flags, count)?;
            flags.iter().map(|&flag| flag != 0).collect()
        }
    };
    for (layer, picked) in layers.iter_mut().zip(picked) {
        if let (Mixer::Attention(attention), true) = (&mut layer.mixer, picked) {
            attention.indexer = Some(indexer.clone());
        }
    }
    Ok(())
}
