//! SigLIP (Zhai et al. 2023), the encoder of images beside several language models, and patches of images.

use super::config::Config;
use super::decoders::{LAYERS, attention_of, hidden_of, layer, layers_of, weight};
use crate::structure::{Dense, Norm, Tower, TowerKind, Weight};
use crate::tensors::names::{LLAMA, Names};
use stagewright_formats::Result;

/// Names of SigLIP's modules.
pub(super) const NAMES: Names = Names {
    layers: "encoder.layers",
    norms: &["layer_norm1", "layer_norm2"],
    output: "out_proj",
    up: "fc1",
    down: "fc2",
    ..LLAMA
};

/// The encoder as a tower with a path.
pub(super) fn tower(config: &Config, path: &str) -> Result<Tower> {
    let config = &config.with_defaults(&[
        ("hidden_size", 768),
        ("intermediate_size", 3072),
        ("num_hidden_layers", 12),
        ("num_attention_heads", 12),
        ("image_size", 224),
        ("patch_size", 16),
    ]);
    let hidden = hidden_of(config)?;
    let mut attention = attention_of(config, hidden)?;
    (attention.bias, attention.output_bias, attention.bidirectional) = (true, true, true);
    attention.rotary = 0;
    let inner = config.need(&["intermediate_size"])?;
    let layer = layer(attention, Dense { inner, gated: false, bias: true });
    let patches = patches(config)?;
    let mut other = vec![
        weight("embeddings.patch_embedding.weight", &[&[hidden], &patches.shape[..]].concat()),
        weight("embeddings.patch_embedding.bias", &[hidden]),
        weight("embeddings.position_embedding.weight", &[patches.count, hidden]),
        weight("post_layernorm.weight", &[hidden]),
        weight("post_layernorm.bias", &[hidden]),
    ];
    if config.flag("vision_use_head", true)? {
        other.extend(pooling(hidden, inner));
    }
    Ok(Tower {
        name: path.to_owned(),
        kind: TowerKind::Vision,
        hidden,
        norm: Norm::Layer,
        layers: vec![layer; layers_of(config, LAYERS)? as usize],
        other,
    })
}

/// Weights of the attention that pools all patches into one vector.
fn pooling(hidden: u64, inner: u64) -> Vec<Weight> {
    vec![
        weight("head.probe", &[1, 1, hidden]),
        weight("head.attention.in_proj_weight", &[3 * hidden, hidden]),
        weight("head.attention.in_proj_bias", &[3 * hidden]),
        weight("head.attention.out_proj.weight", &[hidden, hidden]),
        weight("head.attention.out_proj.bias", &[hidden]),
        weight("head.layernorm.weight", &[hidden]),
        weight("head.layernorm.bias", &[hidden]),
        weight("head.mlp.fc1.weight", &[inner, hidden]),
        weight("head.mlp.fc1.bias", &[inner]),
        weight("head.mlp.fc2.weight", &[hidden, inner]),
        weight("head.mlp.fc2.bias", &[hidden]),
    ]
}

/// Patches of a square image.
pub(super) struct Patches {
    /// Number of patches of an image.
    pub(super) count: u64,
    /// Channels, rows and columns of a patch.
    pub(super) shape: [u64; 3],
}

/// Reads the size of an image and of its patches.
pub(super) fn patches(config: &Config) -> Result<Patches> {
    let side = config.positive(&["patch_size"])?;
    let across = config.positive(&["image_size"])? / side;
    Ok(Patches { count: across * across, shape: [config.count_or(&["num_channels"], 3)?, side, side] })
}
