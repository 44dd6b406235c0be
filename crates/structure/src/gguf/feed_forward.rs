//! Feed-forward blocks of a layer: widths from tensors, checked against keys.

use stagewright_formats::Result;

use super::architecture;
use super::block::Block;
use super::model::Model;
use crate::structure::{Dense, Mixture, Shared};

/// Dense block of a layer, if it has one.
///
/// # Errors
/// If a tensor contradicts the keys (M017).
pub(super) fn dense(model: &Model, block: &Block) -> Result<Option<Dense>> {
    if let Some(inner) = block.inputs("channel_mix_value") {
        return Ok(Some(Dense { inner, gated: false, bias: false }));
    }
    let Some(inner) = block.inputs("ffn_down") else { return Ok(None) };
    // A dense block beside experts has a width that no key gives.
    if !has_experts(block)
        && let Some(expected) = model.keys.of_layer("feed_forward_length", block.layer)?
    {
        let expected =
            if architecture::halves_inner(model.keys.architecture) { expected / 2 } else { expected };
        block.expect_inputs("ffn_down", expected, "feed_forward_length")?;
    }
    let gated = block.has("ffn_gate") || is_doubled(block, "ffn_up", inner);
    Ok(Some(Dense { inner, gated, bias: block.has_bias("ffn_down") || block.has_bias("ffn_up") }))
}

/// Whether a projection up has its gate as a second half.
pub(super) fn is_doubled(block: &Block, module: &str, inner: u64) -> bool {
    inner.checked_mul(2).is_some() && block.outputs(module) == inner.checked_mul(2)
}

fn has_experts(block: &Block) -> bool {
    block.has("ffn_down_exps") || block.has("ffn_down.0")
}

/// Mixture of experts of a layer, if it has one.
///
/// # Errors
/// If a key is missing (M013), or tensors contradict the keys (M017).
pub(super) fn mixture(model: &Model, block: &Block) -> Result<Option<Mixture>> {
    if !has_experts(block) {
        return Ok(None);
    }
    let keys = model.keys;
    let is_numbered = !block.has("ffn_down_exps");
    let down = if is_numbered { "ffn_down.0" } else { "ffn_down_exps" };
    let experts = experts(model, block, is_numbered)?;
    let active = keys.need_of_layer("expert_used_count", block.layer)?;
    if active > experts {
        return Err(keys.fault("expert_used_count", format!("{active} of {experts} experts cannot be used")));
    }
    if keys.count("leading_dense_block_count")?.is_some_and(|dense| block.layer < dense) {
        return Err(block.fault(down, "the layer has experts, and is dense by leading_dense_block_count"));
    }
    if let Some(inner) = keys.of_layer("expert_feed_forward_length", block.layer)?.filter(|&inner| inner > 0)
    {
        block.expect_inputs(down, inner, "expert_feed_forward_length")?;
    }
    let inner = block.inputs(down).unwrap_or(0);
    Ok(Some(Mixture {
        experts,
        active,
        inner,
        gated: block.has_any(&["ffn_gate_exps", "ffn_gate_up_exps", "ffn_gate.0"])
            || is_doubled(block, "ffn_up_exps", inner),
        bias: block.has_bias("ffn_down_exps") || block.has_bias("ffn_up_exps"),
        router_bias: block.has_bias("ffn_gate_inp") || block.has_prefix("exp_probs_b"),
        latent: block.outputs("ffn_latent_down"),
        shared: shared(model, block)?,
    }))
}

fn experts(model: &Model, block: &Block, is_numbered: bool) -> Result<u64> {
    if is_numbered {
        return model.keys.need("expert_count");
    }
    let down = block.weight("ffn_down_exps").map(|down| down.shape.as_slice());
    let Some(&[experts, _, _]) = down else {
        return Err(block.fault("ffn_down_exps", "the tensor of experts has not three dimensions"));
    };
    match model.keys.count("expert_count")? {
        Some(expected) if expected != experts => {
            let message = format!("the tensor has {experts} experts, and expert_count gives {expected}");
            Err(block.fault("ffn_down_exps", message))
        }
        _ => Ok(experts),
    }
}

fn shared(model: &Model, block: &Block) -> Result<Option<Shared>> {
    const KEY: &str = "expert_shared_feed_forward_length";
    if let Some(inner) = model.keys.of_layer(KEY, block.layer)?.filter(|&inner| inner > 0) {
        block.expect_inputs("ffn_down_shexp", inner, KEY)?;
    }
    let scaled = block.has("ffn_gate_inp_shexp");
    Ok(block.inputs("ffn_down_shexp").map(|inner| Shared { inner, scaled }))
}
