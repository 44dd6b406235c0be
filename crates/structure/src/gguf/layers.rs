//! Layers of a model from their tensors: what a layer is follows from the names that it has.

use stagewright_formats::code::M;
use stagewright_formats::{InputError, Result};

use super::block::Block;
use super::model::Model;
use super::roles::{self, Name};
use super::{architecture, attention, feed_forward, states};
use crate::structure::{Layer, Mixer, Weight};
use crate::tensor::Role;

/// Normalisations over the hidden state that layers have, by their names.
const NORMS: &[&str] = &[
    "attn_norm",
    "attn_norm_2",
    "attn_output_norm",
    "post_attention_norm",
    "ffn_norm",
    "ffn_norm_exps",
    "pre_ffw_norm_2",
    "post_ffw_norm",
    "post_ffw_norm_1",
    "post_ffw_norm_2",
    "layer_output_norm",
];

/// Normalisations of a layer in a model whose normalisations have no weights.
const PLAIN_NORMS: u64 = 2;

/// Whether a layer has a state instead of a cache, by its tensors.
pub(super) fn has_state(block: &Block) -> bool {
    ["ssm_", "shortconv.", "time_mix_"].iter().any(|prefix| block.has_prefix(prefix))
}

/// The layer that tensors and keys describe.
///
/// # Errors
/// If a key is missing (M013), the tensors are of no known layer (M014), or tensors contradict keys (M017).
pub(super) fn layer(model: &Model, block: &Block, is_plain: bool) -> Result<Layer> {
    let mixer = mixer(model, block)?;
    let dense = feed_forward::dense(model, block)?;
    let mixture = feed_forward::mixture(model, block)?;
    let has_block = dense.is_some() || mixture.is_some();
    if mixer == Mixer::None && !has_block {
        return Err(unknown(
            model,
            block,
            "the tensors of the layer are of no known mixer or feed-forward block",
        ));
    }
    let norms = NORMS.iter().filter(|norm| block.has(norm)).count() as u64;
    let is_parallel = match model.keys.flag("use_parallel_residual") {
        Some(is_parallel) => is_parallel,
        // A layer whose blocks both read one normalised input has no second normalisation.
        None => !is_plain && (norms == 1 || architecture::is_parallel(model.keys.architecture)),
    };
    Ok(Layer {
        parallel: is_parallel && has_block && mixer != Mixer::None,
        mixer,
        cross: None,
        dense,
        mixture,
        norms: if is_plain { PLAIN_NORMS } else { norms },
        is_prediction: model.predicts(block.layer),
        other: other(block),
    })
}

/// Weights of no block.
fn other(block: &Block) -> Vec<Weight> {
    let has_state = has_state(block);
    let is_other = |name: &str| {
        let name = Name { layer: Some(block.layer), rest: name };
        roles::inside(name.module(), has_state) == Role::Other
    };
    let weights = block.iter().filter(|(name, _)| is_other(name));
    weights.map(|(name, info)| Weight::new(name, &info.shape)).collect()
}

fn mixer(model: &Model, block: &Block) -> Result<Mixer> {
    let mixer = if block.has_any(&["ssm_f_a", "ssm_conv1d_q"]) {
        Mixer::Linear(states::channel_delta(model, block)?)
    } else if block.has_any(&["ssm_ba", "ssm_beta", "ssm_alpha"]) {
        Mixer::Linear(states::gated_delta(model, block)?)
    } else if block.has("ssm_in") {
        if block.has_any(&["attn_q", "attn_qkv"]) {
            let message = "the layer has attention and a state-space layer side by side, which is not read";
            return Err(unknown(model, block, message));
        }
        Mixer::StateSpace(states::state_space(model, block)?)
    } else if block.has("shortconv.in_proj") {
        Mixer::Convolution(states::convolution(model, block)?)
    } else if block.has_prefix("time_mix_") {
        Mixer::Linear(states::wkv(model, block)?)
    } else if block.has("attn_kv") {
        Mixer::Compressed(attention::compressed(model, block)?)
    } else if block.has("attn_kv_a_mqa") {
        Mixer::Latent(attention::latent(model, block)?)
    } else if block.has_any(&["attn_q", "attn_qkv"]) {
        Mixer::Attention(attention::attention(model, block)?)
    } else {
        Mixer::None
    };
    agrees(model, block, &mixer)?;
    Ok(mixer)
}

/// Checks that keys and tensors say of the same layers that they have a state.
fn agrees(model: &Model, block: &Block, mixer: &Mixer) -> Result<()> {
    let found = has_state(block);
    match model.is_recurrent(block.layer)? {
        Some(expected) if expected != found && *mixer != Mixer::None => {
            let kind = |has_state: bool| if has_state { "a state" } else { "attention" };
            let message =
                format!("the layer has {} by its keys, {} by its tensors", kind(expected), kind(found));
            Err(block.fault(if found { "ssm_in" } else { "attn_q" }, message))
        }
        _ => Ok(()),
    }
}

fn unknown(model: &Model, block: &Block, message: &str) -> InputError {
    let keys = model.keys;
    let help = format!(
        "layers have the tensors attn_q, attn_qkv, attn_kv_a_mqa, ssm_in, ssm_ba, shortconv.in_proj or time_mix_key, and \
         ffn_down or ffn_down_exps. The keys that matter, below `{}`, are block_count, embedding_length, attention.head_count, \
         attention.head_count_kv, attention.key_length, attention.value_length, attention.sliding_window, \
         feed_forward_length, expert_count and expert_used_count",
        keys.architecture
    );
    let place = format!("blk.{}", block.layer);
    InputError::at_path(
        M::M014,
        keys.label,
        place,
        format!("architecture `{}`: {message}", keys.architecture),
        help,
    )
}
