//! Decoders in the manner of Llama with mixtures of experts.

use super::Read;
use super::config::Config;
use super::decoders::{Common, common, decoder, layers, qwen_windows, windows};
use super::experts::{become_mixture, mix, mixture};
use crate::structure::{Mixture, Norm, QkNorm, Shared};
use crate::tensors::names::{LLAMA, Names};
use stagewright_formats::Result;

const MIXTRAL: Names = Names {
    router: "block_sparse_moe.gate",
    experts: "block_sparse_moe.experts",
    expert: ["w1", "w3", "w2"],
    ..LLAMA
};

const QWEN2_MOE: Names = Names { shared: "mlp.shared_expert", ..LLAMA };

/// Mixtral (Jiang et al. 2024): every layer is a mixture.
pub(super) fn mixtral(config: &Config) -> Result<Read> {
    let config = &config.with_defaults(&[("num_local_experts", 8), ("num_experts_per_tok", 2)]);
    let common = common(config)?;
    let mixture = mixture(config, common.dense.inner)?;
    let mut structure = decoder(config, common.hidden, Norm::Rms)?;
    structure.layers = layers(&common, windows(config, common.layers, |_| true)?);
    for layer in &mut structure.layers {
        become_mixture(layer, &mixture);
    }
    Ok((structure, MIXTRAL))
}

/// Qwen 2 and 1.5 with experts: biases on queries, keys and values, and a weighed shared expert.
pub(super) fn qwen2_moe(config: &Config) -> Result<Read> {
    let mut common = common(config)?;
    common.attention.bias = config.flag("qkv_bias", true)?;
    common.attention.output_bias = false;
    let inner = config.need(&["shared_expert_intermediate_size"])?;
    let windows = qwen_windows(config, common.layers)?;
    qwen(config, &common, windows, Some(Shared { inner, scaled: true }))
}

/// Qwen 3 with experts: normalised queries and keys.
pub(super) fn qwen3_moe(config: &Config) -> Result<Read> {
    let mut common = common(config)?;
    common.attention.qk_norm = QkNorm::Head;
    let slides = config.flag("use_sliding_window", false)?;
    let windows = windows(config, common.layers, |_| slides)?;
    qwen(config, &common, windows, None)
}

/// Layers with experts at every `decoder_sparse_step`, except those in `mlp_only_layers`.
fn qwen(config: &Config, common: &Common, windows: Vec<Option<u64>>, shared: Option<Shared>) -> Result<Read> {
    let mixture = Mixture { shared, ..mixture(config, config.need(&["moe_intermediate_size"])?)? };
    let mut structure = decoder(config, common.hidden, Norm::Rms)?;
    structure.layers = layers(common, windows);
    mix(config, &mut structure.layers, &mixture)?;
    Ok((structure, QWEN2_MOE))
}
