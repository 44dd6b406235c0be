//! Models with an encoder and a decoder: the encoder is a tower, the decoder has the layers.

use super::Read;
use super::config::Config;
use super::decoders::{decoder, hidden_of, layer, layers_of, tied_by_default, weight};
use crate::structure::{Attention, Dense, Layer, Norm, Tower, TowerKind};
use crate::tensors::names::{LLAMA, Names};
use stagewright_formats::Result;

const T5: Names = Names {
    layers: "decoder.block",
    embedding: "shared",
    final_norm: "decoder.final_layer_norm",
    dense: "layer.2.DenseReluDense",
    tower: Some(&T5_ENCODER),
    ..T5_ENCODER
};

const T5_ENCODER: Names = Names {
    layers: "block",
    norms: &["layer.0.layer_norm", "layer.1.layer_norm", "layer.2.layer_norm"],
    attention: "layer.0.SelfAttention",
    cross: "layer.1.EncDecAttention",
    query: "q",
    key: "k",
    value: "v",
    output: "o",
    dense: "layer.1.DenseReluDense",
    up: "wi",
    down: "wo",
    ..LLAMA
};

const T5_GATED: Names = Names { gate: "wi_0", up: "wi_1", tower: Some(&T5_GATED_ENCODER), ..T5 };

const T5_GATED_ENCODER: Names = Names { gate: "wi_0", up: "wi_1", ..T5_ENCODER };

const WHISPER: Names = Names {
    layers: "model.decoder.layers",
    embedding: "model.decoder.embed_tokens",
    positions: "model.decoder.embed_positions",
    final_norm: "model.decoder.layer_norm",
    head: "proj_out",
    norms: &["self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"],
    cross: "encoder_attn",
    tower: Some(&WHISPER_ENCODER),
    ..WHISPER_ENCODER
};

const WHISPER_ENCODER: Names = Names {
    layers: "layers",
    norms: &["self_attn_layer_norm", "final_layer_norm"],
    output: "out_proj",
    dense: "",
    up: "fc1",
    down: "fc2",
    ..LLAMA
};

/// T5 (Raffel et al. 2020), whose first layers have the biases of relative positions.
pub(super) fn t5(config: &Config) -> Result<Read> {
    let hidden = hidden_of(config)?;
    let heads = config.positive(&["num_heads"])?;
    let width = config.count_or(&["d_kv"], 64)?;
    let attention = Attention { heads, kv_heads: heads, key: width, value: width, ..Attention::default() };
    let gated = config.text("feed_forward_proj").is_some_and(|name| name.starts_with("gated"));
    let dense = Dense { inner: config.need(&["d_ff"])?, gated, bias: false };
    let buckets = config.count_or(&["relative_attention_num_buckets"], 32)?;
    let stack = |attention: &Attention, cross: Option<&Attention>, count: u64| {
        let norms = if cross.is_some() { 3 } else { 2 };
        let layer = Layer { cross: cross.cloned(), norms, ..layer(attention.clone(), dense.clone()) };
        let mut layers = vec![layer; count as usize];
        if let Some(first) = layers.first_mut() {
            let name = "layer.0.SelfAttention.relative_attention_bias.weight";
            first.other.push(weight(name, &[buckets, heads]));
        }
        layers
    };
    let encoders = layers_of(config, &["num_layers"])?;
    let decoders = match config.count(&["num_decoder_layers"])? {
        Some(_) => layers_of(config, &["num_decoder_layers"])?,
        None => encoders,
    };
    let mut structure = decoder(config, hidden, Norm::Rms)?;
    tied_by_default(config, &mut structure)?;
    structure.layers = stack(&attention, Some(&attention), decoders);
    let seeing = Attention { bidirectional: true, ..attention };
    structure.towers = vec![Tower {
        name: "encoder".to_owned(),
        kind: TowerKind::Text,
        hidden,
        norm: Norm::Rms,
        layers: stack(&seeing, None, encoders),
        other: vec![weight("final_layer_norm.weight", &[hidden])],
    }];
    Ok((structure, if gated { T5_GATED } else { T5 }))
}

/// Whisper (Radford et al. 2023), whose encoder hears a spectrogram through two convolutions.
pub(super) fn whisper(config: &Config) -> Result<Read> {
    let hidden = hidden_of(config)?;
    let mut structure = decoder(config, hidden, Norm::Layer)?;
    tied_by_default(config, &mut structure)?;
    let targets = config.count_or(&["max_target_positions"], 448)?;
    (structure.context, structure.embedding.positions) = (Some(targets), targets);
    let attention = whisper_attention(config, hidden, "decoder_attention_heads")?;
    let dense = |key: &str| Ok(Dense { inner: config.need(&[key])?, gated: false, bias: true });
    let crossing =
        Layer { cross: Some(attention.clone()), norms: 3, ..layer(attention, dense("decoder_ffn_dim")?) };
    structure.layers = vec![crossing; layers_of(config, &["decoder_layers"])? as usize];
    let mut attention = whisper_attention(config, hidden, "encoder_attention_heads")?;
    attention.bidirectional = true;
    let seeing = layer(attention, dense("encoder_ffn_dim")?);
    let (bins, sources) =
        (config.count_or(&["num_mel_bins"], 80)?, config.count_or(&["max_source_positions"], 1500)?);
    structure.towers = vec![Tower {
        name: "model.encoder".to_owned(),
        kind: TowerKind::Audio,
        hidden,
        norm: Norm::Layer,
        layers: vec![seeing; layers_of(config, &["encoder_layers"])? as usize],
        other: vec![
            weight("conv1.weight", &[hidden, bins, 3]),
            weight("conv1.bias", &[hidden]),
            weight("conv2.weight", &[hidden, hidden, 3]),
            weight("conv2.bias", &[hidden]),
            weight("embed_positions.weight", &[sources, hidden]),
            weight("layer_norm.weight", &[hidden]),
            weight("layer_norm.bias", &[hidden]),
        ],
    }];
    Ok((structure, WHISPER))
}

/// Attention of Whisper, whose keys alone have no bias.
fn whisper_attention(config: &Config, hidden: u64, key: &str) -> Result<Attention> {
    let heads = config.positive(&[key])?;
    let width = hidden / heads;
    Ok(Attention {
        heads,
        kv_heads: heads,
        key: width,
        value: width,
        bias: true,
        keys_without_bias: true,
        output_bias: true,
        ..Attention::default()
    })
}
