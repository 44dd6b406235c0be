//! Attention of a layer: widths from keys, checked against tensors.

use stagewright_formats::Result;

use super::architecture;
use super::block::Block;
use super::model::Model;
use crate::structure::{Attention, Compressed, Indexer, Latent, QkNorm};

/// Attention with keys and values of every head.
///
/// # Errors
/// If a key is missing (M013), or tensors contradict the keys (M017).
pub(super) fn attention(model: &Model, block: &Block) -> Result<Attention> {
    let keys = model.keys;
    let heads = heads(model, block)?;
    let kv_heads = keys.of_layer("attention.head_count_kv", block.layer)?.unwrap_or(heads);
    let window = model.window(block.layer);
    let key = width(model, "attention.key_length", window.is_some(), heads)?;
    let value = width(model, "attention.value_length", window.is_some(), heads)?;
    let (queries, all_keys, all_values) = (heads * key, kv_heads * key, kv_heads * value);
    // The projection of queries may have a gate as its second half.
    let is_gated = block.outputs("attn_q") == Some(2 * queries)
        || block.outputs("attn_qkv") == Some(2 * queries + all_keys + all_values);
    if !is_gated {
        block.expect_outputs("attn_q", queries, "head_count and key_length")?;
        let all = queries + all_keys + all_values;
        block.expect_outputs("attn_qkv", all, "heads and widths of keys and values")?;
    }
    block.expect_outputs("attn_k", all_keys, "head_count_kv and key_length")?;
    block.expect_outputs("attn_v", all_values, "head_count_kv and value_length")?;
    block.expect_inputs("attn_output", heads * value, "head_count and value_length")?;
    let shares_cache_of = model.shares_cache_of(block.layer)?;
    if shares_cache_of.is_none() && !block.has_any(&["attn_k", "attn_qkv"]) {
        return Err(block
            .fault("attn_k.weight", "the layer has queries, and no keys of its own or of an earlier layer"));
    }
    Ok(Attention {
        heads,
        kv_heads,
        key,
        value,
        rotary: rotary(model, window.is_some(), key)?,
        window,
        bias: block.has_bias("attn_q") || block.has_bias("attn_qkv"),
        output_bias: block.has_bias("attn_output"),
        qk_norm: qk_norm(block, heads, key),
        gate: is_gated || block.outputs("attn_gate") == Some(heads * value),
        sinks: block.has("attn_sinks"),
        values_are_keys: block.has("attn_k") && !block.has("attn_v"),
        shares_cache_of,
        indexer: indexer(model, block)?,
        head_gate: block.outputs("attn_gate") == Some(heads),
        keys_without_bias: block.has_bias("attn_q") && block.has("attn_k") && !block.has_bias("attn_k"),
        bidirectional: model.sees_later(),
    })
}

fn heads(model: &Model, block: &Block) -> Result<u64> {
    match model.keys.need_of_layer("attention.head_count", block.layer)? {
        0 => Err(block.fault("attn_q", "the layer has attention, and head_count gives it no heads")),
        heads => Ok(heads),
    }
}

/// Width of a head, which is that of the hidden state divided by the heads if no key gives it.
fn width(model: &Model, key: &str, is_window: bool, heads: u64) -> Result<u64> {
    let in_window = if is_window { model.keys.count(&format!("{key}_swa"))? } else { None };
    let width = match in_window {
        Some(width) => Some(width),
        None => model.keys.count(key)?,
    };
    Ok(width.unwrap_or(model.hidden.checked_div(heads).unwrap_or(0)))
}

fn rotary(model: &Model, is_window: bool, key: u64) -> Result<u64> {
    let keys = model.keys;
    if model.has_positions
        || keys.is_positive("attention.max_alibi_bias")
        || architecture::rotates_nothing(keys.architecture)
    {
        return Ok(0);
    }
    let in_window = if is_window { keys.count("rope.dimension_count_swa")? } else { None };
    let rotary = match in_window {
        Some(rotary) => Some(rotary),
        None => keys.count("rope.dimension_count")?,
    };
    Ok(rotary.unwrap_or(key).min(key))
}

fn qk_norm(block: &Block, heads: u64, key: u64) -> QkNorm {
    let Some(norm) = block.weight("attn_q_norm") else { return QkNorm::None };
    match norm.shape[..] {
        [width] if width == key => QkNorm::Head,
        [width] if width == heads * key => QkNorm::Full,
        [rows, _] if rows == heads => QkNorm::EachHead,
        _ => QkNorm::Head,
    }
}

/// Latent attention. Early files give the widths of expanded keys and values under the keys of other attention.
///
/// # Errors
/// If a key is missing (M013), or tensors contradict the keys (M017).
pub(super) fn latent(model: &Model, block: &Block) -> Result<Latent> {
    let keys = model.keys;
    let heads = heads(model, block)?;
    let rank = keys.need("attention.kv_lora_rank")?;
    let rotary = keys.need("rope.dimension_count")?;
    let expanded = |kind: &str| match keys.count(&format!("attention.{kind}_length_mla"))? {
        Some(width) => Ok(width),
        None => keys.need(&format!("attention.{kind}_length")),
    };
    let (key, value) = (expanded("key")?, expanded("value")?);
    let Some(plain) = key.checked_sub(rotary) else {
        return Err(keys
            .fault("rope.dimension_count", format!("keys of width {key} have {rotary} rotary dimensions")));
    };
    let query_rank = if block.has("attn_q_a") { Some(keys.need("attention.q_lora_rank")?) } else { None };
    block.expect_outputs("attn_kv_a_mqa", rank + rotary, "kv_lora_rank and rope.dimension_count")?;
    block.expect_inputs("attn_output", heads * value, "head_count and value_length")?;
    for queries in ["attn_q", "attn_q_b"] {
        block.expect_outputs(queries, heads * key, "head_count and key_length")?;
    }
    if let Some(rank) = query_rank {
        block.expect_outputs("attn_q_a", rank, "q_lora_rank")?;
    }
    Ok(Latent {
        heads,
        query_rank,
        rank,
        plain,
        rotary,
        value,
        bias: block.has_bias("attn_kv_a_mqa"),
        gate: block.outputs("attn_gate") == Some(heads * value),
        indexer: indexer(model, block)?,
    })
}

/// Attention of DeepSeek-V4 over a window and compressed earlier tokens.
///
/// # Errors
/// If a key is missing (M013), or tensors contradict the keys (M017).
pub(super) fn compressed(model: &Model, block: &Block) -> Result<Compressed> {
    let keys = model.keys;
    let heads = heads(model, block)?;
    let width = keys.need("attention.key_length")?;
    block.expect_outputs("attn_kv", width, "key_length")?;
    block.expect_outputs("attn_q_b", heads * width, "head_count and key_length")?;
    Ok(Compressed {
        heads,
        width,
        rotary: keys.need("rope.dimension_count")?,
        query_rank: keys.need("attention.q_lora_rank")?,
        output_groups: keys.need("attention.output_group_count")?,
        output_rank: keys.need("attention.output_lora_rank")?,
        window: keys.need("attention.sliding_window")?,
        ratio: keys.need_of_layer("attention.compress_ratios", block.layer)?,
        indexer: if block.has_prefix("indexer") { indexer(model, block)? } else { None },
    })
}

/// Selector of tokens. A layer without tensors of its own uses the selection of an earlier one.
fn indexer(model: &Model, block: &Block) -> Result<Option<Indexer>> {
    let keys = model.keys;
    let Some(heads) = keys.of_layer("attention.indexer.head_count", block.layer)? else { return Ok(None) };
    let width = keys.need("attention.indexer.key_length")?;
    block.expect_outputs("indexer.attn_q_b", heads * width, "indexer.head_count and indexer.key_length")?;
    let selected = keys.need("attention.indexer.top_k")?;
    Ok((heads > 0).then(|| Indexer { heads, width, selected, shared: !block.has_prefix("indexer") }))
}
