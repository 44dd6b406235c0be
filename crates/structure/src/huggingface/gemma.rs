//! Gemma, whose head width is independent of the hidden width.

use super::Read;
use super::config::Config;
use super::decoders::{common, decoder, layer, layers, tied_by_default, weight, windows};
use super::siglip;
use crate::structure::{Layer, Norm, QkNorm, Structure};
use crate::tensors::names::{LLAMA, Names};
use stagewright_formats::Result;

/// Names of Gemma 3 beside its tower.
const GEMMA3: Names = Names {
    layers: "language_model.model.layers",
    embedding: "language_model.model.embed_tokens",
    final_norm: "language_model.model.norm",
    head: "language_model.lm_head",
    tower: Some(&siglip::NAMES),
    ..LLAMA
};

/// Gemma (Gemma Team 2024).
pub(super) fn gemma(config: &Config) -> Result<Read> {
    let common = common(&config.with_defaults(&[("head_dim", 256)]))?;
    let mut structure = decoder(config, common.hidden, Norm::Rms)?;
    tied_by_default(config, &mut structure)?;
    structure.layers = vec![layer(common.attention, common.dense); common.layers as usize];
    Ok((structure, LLAMA))
}

/// Gemma 2 (Gemma Team 2024): every second layer has a window, and normalisations are before and after the blocks.
pub(super) fn gemma2(config: &Config) -> Result<Read> {
    let config = config.with_defaults(&[
        ("head_dim", 256),
        ("num_key_value_heads", 4),
        ("sliding_window", 4096),
        ("sliding_window_pattern", 2),
    ]);
    Ok((alternating(&config, QkNorm::None)?, LLAMA))
}

/// The text model of Gemma 3 (Gemma Team 2025): five layers with a window, then one that sees everything.
pub(super) fn gemma3_text(config: &Config) -> Result<Read> {
    // Configurations of the larger models leave out what equals these defaults of `transformers`.
    let config = config.with_defaults(&[
        ("vocab_size", 262_208),
        ("hidden_size", 2304),
        ("intermediate_size", 9216),
        ("num_hidden_layers", 26),
        ("num_attention_heads", 8),
        ("num_key_value_heads", 4),
        ("head_dim", 256),
        ("max_position_embeddings", 131_072),
        ("sliding_window", 4096),
        ("sliding_window_pattern", 6),
        ("_sliding_window_pattern", 6),
    ]);
    Ok((alternating(&config, QkNorm::Head)?, LLAMA))
}

/// Gemma 3 with its tower of images, whose outputs are projected into the text.
pub(super) fn gemma3(config: &Config) -> Result<Read> {
    let (mut structure, _) = gemma3_text(&config.need_inner("text_config")?)?;
    let vision = config.need_inner("vision_config")?;
    let tower = siglip::tower(&vision, "vision_tower.vision_model")?;
    structure.architecture = "gemma3".to_owned();
    structure.name =
        config.text("_name_or_path").filter(|name| !name.is_empty()).unwrap_or("gemma3").to_owned();
    let projector = vec![
        weight("multi_modal_projector.mm_input_projection_weight", &[tower.hidden, structure.hidden]),
        weight("multi_modal_projector.mm_soft_emb_norm.weight", &[tower.hidden]),
    ];
    structure.add_tower(tower, projector);
    Ok((structure, GEMMA3))
}

/// Layers with four normalisations, the last of each period without a window.
fn alternating(config: &Config, qk_norm: QkNorm) -> Result<Structure> {
    let mut common = common(config)?;
    common.attention.qk_norm = qk_norm;
    let mut structure = decoder(config, common.hidden, Norm::Rms)?;
    tied_by_default(config, &mut structure)?;
    let period = config.positive(&["sliding_window_pattern", "_sliding_window_pattern"])?;
    let windows = windows(config, common.layers, |layer| !(layer + 1).is_multiple_of(period))?;
    let layers = layers(&common, windows).into_iter();
    structure.layers = layers.map(|layer| Layer { norms: 4, ..layer }).collect();
    Ok(structure)
}
