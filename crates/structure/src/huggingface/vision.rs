//! Encoders of images beside language models, and their projections into the model's width.

use super::config::Config;
use super::decoders::{layer, layers_of, weight};
use crate::structure::{Attention, Dense, Mixer, Norm, QkNorm, Tower, TowerKind, Weight};
use crate::tensors::names::{LLAMA, Names};
use stagewright_formats::Result;

/// Names within the encoder of Llama 4.
pub(super) const LLAMA4: Names = Names { layers: "model.layers", up: "fc1", down: "fc2", ..LLAMA };

/// Names within the encoder of Qwen.
pub(super) const QWEN: Names = Names {
    layers: "blocks",
    norms: &["norm1", "norm2"],
    attention: "attn",
    query_key_value: Some("qkv"),
    output: "proj",
    up: "linear_fc1",
    down: "linear_fc2",
    ..LLAMA
};

/// Names within MoonViT, the encoder of Kimi.
pub(super) const MOON: Names = Names {
    layers: "encoder.blocks",
    norms: &["norm0", "norm1"],
    attention: "",
    query_key_value: Some("wqkv"),
    output: "wo",
    up: "fc0",
    down: "fc1",
    ..LLAMA
};

/// Names within the encoder of Gemma 4.
pub(super) const GEMMA4: Names = Names {
    layers: "encoder.layers",
    query: "q_proj.linear",
    key: "k_proj.linear",
    value: "v_proj.linear",
    output: "o_proj.linear",
    gate: "gate_proj.linear",
    up: "up_proj.linear",
    down: "down_proj.linear",
    ..LLAMA
};

/// Names within the encoder of Step.
pub(super) const STEP: Names = Names {
    layers: "transformer.resblocks",
    norms: &["ln_1", "ln_2"],
    attention: "attn",
    query_key_value: Some("in_proj_"),
    output: "out_proj",
    up: "c_fc",
    down: "c_proj",
    ..LLAMA
};

/// The weight of a product, and its bias.
fn linear(name: &str, [inputs, outputs]: [u64; 2]) -> [Weight; 2] {
    [weight(format!("{name}.weight"), &[outputs, inputs]), weight(format!("{name}.bias"), &[outputs])]
}

/// The scale and the shift of a normalisation.
fn norm(name: &str, width: u64) -> [Weight; 2] {
    [weight(format!("{name}.weight"), &[width]), weight(format!("{name}.bias"), &[width])]
}

/// An encoder whose layers have biases everywhere, by the keys of its width, heads, layers and inner width.
fn encoder(config: &Config, name: &str, keys: [&[&str]; 4]) -> Result<Tower> {
    let [hidden, heads, layers, inner] = keys;
    let hidden = config.positive(hidden)?;
    let heads = config.positive(heads)?;
    let width = config.count_or(&["qkv_hidden_size"], hidden)? / heads;
    let attention = Attention {
        heads,
        kv_heads: heads,
        key: width,
        value: width,
        rotary: width,
        bias: true,
        output_bias: true,
        bidirectional: true,
        ..Attention::default()
    };
    let dense = Dense { inner: config.need(inner)?, gated: false, bias: true };
    Ok(Tower {
        name: name.to_owned(),
        kind: TowerKind::Vision,
        hidden,
        norm: Norm::Layer,
        layers: vec![layer(attention, dense); layers_of(config, layers)? as usize],
        other: Vec::new(),
    })
}

/// Keys of most encoders.
const USUAL: [&[&str]; 4] =
    [&["hidden_size"], &["num_attention_heads"], &["num_hidden_layers"], &["intermediate_size"]];

/// The encoder of Llama 4, with its projection into a width.
pub(super) fn llama4(config: &Config, hidden: u64) -> Result<(Tower, Vec<Weight>)> {
    let mut tower = encoder(config, "vision_model", USUAL)?;
    let (side, size) = (config.positive(&["patch_size"])?, config.need(&["image_size"])?);
    let channels = config.count_or(&["num_channels"], 3)?;
    let [inputs, outputs] = [config.need(&["projector_input_dim"])?, config.need(&["projector_output_dim"])?];
    let width = tower.hidden;
    tower.other = vec![
        weight("class_embedding", &[width]),
        weight("positional_embedding_vlm", &[(size / side) * (size / side) + 1, width]),
        weight("patch_embedding.linear.weight", &[width, channels.saturating_mul(side * side)]),
        weight("vision_adapter.mlp.fc1.weight", &[inputs, config.need(&["intermediate_size"])?]),
        weight("vision_adapter.mlp.fc2.weight", &[outputs, outputs]),
    ];
    tower.other.extend(norm("layernorm_pre", width));
    tower.other.extend(norm("layernorm_post", width));
    let projected = config.need(&["vision_output_dim"])?;
    Ok((tower, vec![weight("multi_modal_projector.linear_1.weight", &[hidden, projected])]))
}

/// The encoder of Qwen 3 VL and Qwen 3.5, with its mergers.
pub(super) fn qwen(config: &Config) -> Result<Tower> {
    let keys: [&[&str]; 4] = [&["hidden_size"], &["num_heads"], &["depth"], &["intermediate_size"]];
    let mut tower = encoder(config, "model.visual", keys)?;
    let width = tower.hidden;
    let side = config.positive(&["patch_size"])?;
    let channels = config.count_or(&["in_channels"], 3)?;
    let merge = config.count_or(&["spatial_merge_size"], 2)?;
    let merged = width.saturating_mul(merge * merge);
    let outputs = config.need(&["out_hidden_size"])?;
    let frames = config.count_or(&["temporal_patch_size"], 2)?;
    let mut other = vec![
        weight("patch_embed.proj.weight", &[width, channels, frames, side, side]),
        weight("patch_embed.proj.bias", &[width]),
        weight("pos_embed.weight", &[config.need(&["num_position_embeddings"])?, width]),
    ];
    let mut merger = |name: &str, normed: u64| {
        other.extend(norm(&format!("{name}.norm"), normed));
        other.extend(linear(&format!("{name}.linear_fc1"), [merged, merged]));
        other.extend(linear(&format!("{name}.linear_fc2"), [merged, outputs]));
    };
    merger("merger", width);
    for index in 0..config.counts("deepstack_visual_indexes")?.map_or(0, |layers| layers.len()) {
        merger(&format!("deepstack_merger_list.{index}"), merged);
    }
    tower.other = other;
    Ok(tower)
}

/// MoonViT, the encoder of Kimi, with its projection into a width.
pub(super) fn moon(config: &Config, hidden: u64) -> Result<(Tower, Vec<Weight>)> {
    let keys: [&[&str]; 4] = [
        &["vt_hidden_size"],
        &["vt_num_attention_heads"],
        &["vt_num_hidden_layers"],
        &["vt_intermediate_size"],
    ];
    let mut tower = encoder(config, "vision_tower", keys)?;
    let width = tower.hidden;
    if config.text("norm_type") == Some("rmsnorm") {
        tower.norm = Norm::Rms;
    }
    for layer in &mut tower.layers {
        if let Mixer::Attention(attention) = &mut layer.mixer {
            attention.bias = config.flag("attn_bias", true)?;
            attention.output_bias = attention.bias;
        }
        if let Some(dense) = &mut layer.dense {
            dense.bias = config.flag("linear_bias", true)?;
        }
    }
    let side = config.positive(&["patch_size"])?;
    let positions = [config.need(&["init_pos_emb_height"])?, config.need(&["init_pos_emb_width"])?, width];
    tower.other = vec![
        weight("patch_embed.proj.weight", &[width, 3, side, side]),
        weight("patch_embed.pos_emb.weight", &positions),
    ];
    if config.flag("patch_embed_proj_bias", true)? {
        tower.other.push(weight("patch_embed.proj.bias", &[width]));
    }
    let [scale, shift] = norm("encoder.final_layernorm", width);
    tower.other.push(scale);
    tower.other.extend(Some(shift).filter(|_| tower.norm == Norm::Layer));
    Ok((tower, moon_projection(config, width, hidden)?))
}

/// The projection of MoonViT: normalised before it with biases, or in the second version after it without.
fn moon_projection(config: &Config, width: u64, hidden: u64) -> Result<Vec<Weight>> {
    let cells = config.counts("merge_kernel_size")?.unwrap_or_else(|| vec![2, 2]);
    let merged = cells.iter().fold(width, |product, &cell| product.saturating_mul(cell));
    let outer =
        [linear("mm_projector.proj.0", [merged, merged]), linear("mm_projector.proj.2", [merged, hidden])];
    if config.text("mm_projector_type") == Some("patchmergerv2") {
        let weights = outer.into_iter().map(|[weight, _]| weight);
        return Ok(weights.chain([weight("mm_projector.post_norm.weight", &[hidden])]).collect());
    }
    let before = config.count_or(&["mm_hidden_size"], width)?;
    Ok(outer.into_iter().flatten().chain(norm("mm_projector.pre_norm", before)).collect())
}

/// The encoder of MiniMax-M3, in the manner of CLIP, with its projections into a width.
pub(super) fn clip(whole: &Config, config: &Config, hidden: u64) -> Result<(Tower, Vec<Weight>)> {
    let mut tower = encoder(config, "vision_tower.vision_model", USUAL)?;
    let compression = whole.inner("img_token_compression_config")?;
    let compression = match &compression {
        Some(compression) => compression,
        None => &config.inner("img_token_compression_config")?.unwrap_or_else(|| config.clone()),
    };
    let merge = compression.count_or(&["spatial_merge_size"], 2)?;
    let frames = compression.count_or(&["temporal_patch_size"], 2)?;
    let side = config.positive(&["patch_size"])?;
    let (width, channels) = (tower.hidden, config.count_or(&["num_channels"], 3)?);
    tower.other = vec![weight("embeddings.patch_embedding.weight", &[width, channels, frames, side, side])];
    tower.other.extend(norm("pre_layrnorm", width));
    let inner = whole.count_or(&["projector_hidden_size"], hidden)?;
    let merged = inner.max(hidden).saturating_mul(merge * merge);
    let parts = [
        linear("multi_modal_projector.linear_1", [width, inner]),
        linear("multi_modal_projector.linear_2", [inner, hidden]),
        linear("patch_merge_mlp.linear_1", [merged, inner]),
        linear("patch_merge_mlp.linear_2", [inner, hidden]),
    ];
    Ok((tower, parts.into_iter().flatten().collect()))
}

/// The encoder of Gemma 4, with its projection into a width.
pub(super) fn gemma4(config: &Config, hidden: u64) -> Result<(Tower, Vec<Weight>)> {
    let mut tower = encoder(config, "model.vision_tower", USUAL)?;
    let width = tower.hidden;
    tower.norm = Norm::Rms;
    let head = config.count_or(&["head_dim"], width / config.positive(&["num_attention_heads"])?)?;
    let kv_heads = config.count(&["num_key_value_heads"])?;
    for layer in &mut tower.layers {
        layer.norms = 4;
        if let Mixer::Attention(attention) = &mut layer.mixer {
            (attention.bias, attention.output_bias) = (false, false);
            (attention.key, attention.value, attention.rotary) = (head, head, head);
            attention.kv_heads = kv_heads.unwrap_or(attention.heads);
            attention.qk_norm = QkNorm::Head;
        }
        if let Some(dense) = &mut layer.dense {
            (dense.gated, dense.bias) = (true, false);
        }
    }
    let side = config.positive(&["patch_size"])?;
    let positions = config.need(&["position_embedding_size"])?;
    tower.other = vec![
        weight("patch_embedder.input_proj.weight", &[width, side.saturating_mul(3 * side)]),
        weight("patch_embedder.position_embedding_table", &[2, positions, width]),
    ];
    if config.flag("standardize", false)? {
        tower.other.extend([weight("std_bias", &[width]), weight("std_scale", &[width])]);
    }
    Ok((tower, vec![weight("model.embed_vision.embedding_projection.weight", &[hidden, width])]))
}

/// The encoder of Step, with two convolutions that halve the sides of an image, and its projection into a width.
pub(super) fn step(whole: &Config, config: &Config, hidden: u64) -> Result<(Tower, Vec<Weight>)> {
    let keys: [&[&str]; 4] = [
        &["width", "hidden_size"],
        &["heads", "num_attention_heads"],
        &["layers", "num_hidden_layers"],
        &["width", "hidden_size"],
    ];
    let mut tower = encoder(config, "vision_model", keys)?;
    let width = tower.hidden;
    let ratio = config.number("mlp_ratio")?.filter(|ratio| (0.0..=1024.0).contains(ratio));
    // Ratios are quotients of two widths, and their product may lie just below the width.
    let inner = ratio.map_or(4 * width, |ratio| (width as f64 * ratio).round() as u64);
    for layer in &mut tower.layers {
        if let Some(dense) = &mut layer.dense {
            dense.inner = inner;
        }
        layer.other = ["ls_1.gamma", "ls_2.gamma"].map(|scale| weight(scale, &[width])).to_vec();
    }
    let (side, size) = (config.positive(&["patch_size"])?, config.need(&["image_size"])?);
    let channels = config.count_or(&["num_channels"], 3)?;
    tower.other = vec![
        weight("conv1.weight", &[width, channels, side, side]),
        weight("positional_embedding", &[(size / side) * (size / side), width]),
        weight("vit_downsampler1.weight", &[2 * width, width, 3, 3]),
        weight("vit_downsampler1.bias", &[2 * width]),
        weight("vit_downsampler2.weight", &[4 * width, 2 * width, 3, 3]),
        weight("vit_downsampler2.bias", &[4 * width]),
    ];
    tower.other.extend(norm("ln_pre", width));
    let mut projection = vec![weight("vit_large_projector.weight", &[hidden, 4 * width])];
    if whole.flag("projector_bias", false)? {
        projection.push(weight("vit_large_projector.bias", &[hidden]));
    }
    Ok((tower, projection))
}
