//! Mixers with a state: linear attention, state-space layers, short convolutions.

use stagewright_formats::Result;

use super::block::Block;
use super::model::Model;
use crate::structure::{Convolution, Linear, Rule, StateSpace};

/// Bytes of a number of the state of a state-space layer: llama.cpp keeps 32 bits.
const STATE_BYTES: u64 = 4;

/// Linear attention with a gated delta rule (Qwen3-Next): keys of `ssm` count its heads and widths.
///
/// # Errors
/// If a key is missing (M013), or tensors contradict the keys (M017).
pub(super) fn gated_delta(model: &Model, block: &Block) -> Result<Linear> {
    let keys = model.keys;
    let value_heads = keys.need("ssm.time_step_rank")?;
    let inner = keys.need("ssm.inner_size")?;
    let linear = Linear {
        key_heads: keys.need("ssm.group_count")?,
        value_heads,
        key: keys.need("ssm.state_size")?,
        value: divided(model, "ssm.inner_size", inner, value_heads)?,
        kernel: keys.need("ssm.conv_kernel")?,
        rule: Rule::GatedDelta,
    };
    block.expect_outputs(
        "ssm_conv1d",
        2 * linear.key_heads * linear.key + inner,
        "group_count, state_size and inner_size",
    )?;
    block.expect_inputs("ssm_out", inner, "inner_size")?;
    Ok(linear)
}

/// Kimi delta attention: as many heads as attention has, of the width `kda.head_dim`.
///
/// # Errors
/// If a key is missing (M013), or tensors contradict the keys (M017).
pub(super) fn channel_delta(model: &Model, block: &Block) -> Result<Linear> {
    let keys = model.keys;
    let heads = keys.need_of_layer("attention.head_count", block.layer)?;
    let width = keys.need("kda.head_dim")?;
    for module in ["attn_q", "attn_k", "attn_v"] {
        block.expect_outputs(module, heads * width, "head_count and kda.head_dim")?;
    }
    Ok(Linear {
        key_heads: heads,
        value_heads: heads,
        key: width,
        value: width,
        kernel: keys.need("ssm.conv_kernel")?,
        rule: Rule::ChannelDelta { gate_rank: block.outputs("ssm_g_a") },
    })
}

/// RWKV: a decay for every channel, heads of the width `wkv.head_size`, and a shift by one token instead of a convolution.
///
/// # Errors
/// If a key is missing, or heads do not divide the hidden state (M013).
pub(super) fn wkv(model: &Model, block: &Block) -> Result<Linear> {
    const KEY: &str = "wkv.head_size";
    let width = model.keys.need(KEY)?;
    let heads = divided(model, KEY, model.hidden, width)?;
    Ok(Linear {
        key_heads: heads,
        value_heads: heads,
        key: width,
        value: width,
        kernel: 2,
        rule: Rule::ChannelDelta { gate_rank: block.inputs("time_mix_g2") },
    })
}

/// State-space layer. Mamba 1 decays every channel by itself, and is a layer with as many heads as channels; its convolution
/// sees the channels alone.
///
/// # Errors
/// If a key is missing (M013), or tensors contradict the keys (M017).
pub(super) fn state_space(model: &Model, block: &Block) -> Result<StateSpace> {
    let keys = model.keys;
    let inner = keys.need("ssm.inner_size")?;
    let heads = match block.weight("ssm_a").and_then(|decays| decays.shape.first()) {
        Some(&heads) => heads,
        None => keys.need("ssm.time_step_rank")?,
    };
    let is_first_mamba = block.has("ssm_x");
    let space = StateSpace {
        heads,
        width: divided(model, "ssm.inner_size", inner, heads)?,
        state: keys.need("ssm.state_size")?,
        groups: if is_first_mamba { 0 } else { keys.count("ssm.group_count")?.unwrap_or(1) },
        kernel: keys.need("ssm.conv_kernel")?,
        kernel_bias: block.has_bias("ssm_conv1d"),
        bias: block.has_bias("ssm_in") || block.has_bias("ssm_out"),
        state_bytes: STATE_BYTES,
    };
    let channels = inner + 2 * space.groups * space.state;
    block.expect_outputs("ssm_conv1d", channels, "inner_size, group_count and state_size")?;
    block.expect_inputs("ssm_out", inner, "inner_size")?;
    Ok(space)
}

/// Gated short convolution (LFM2).
///
/// # Errors
/// If a key is missing (M013).
pub(super) fn convolution(model: &Model, block: &Block) -> Result<Convolution> {
    Ok(Convolution {
        width: block.outputs("shortconv.conv").unwrap_or(model.hidden),
        kernel: model.keys.need("shortconv.l_cache")?,
        bias: block.has_bias("shortconv.in_proj"),
    })
}

/// A width divided into heads without a rest.
fn divided(model: &Model, key: &str, width: u64, heads: u64) -> Result<u64> {
    match width.checked_rem(heads) {
        Some(0) => Ok(width / heads),
        _ => Err(model.keys.fault(key, format!("{width} is no multiple of {heads}"))),
    }
}
