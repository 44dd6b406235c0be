//! Widths of language models under one name each, with the keys that configurations write them under.

use super::decoders::HIDDEN;
use super::experts::{EXPERTS, TAKEN};
use super::prediction;
use crate::structure::{Layer, Mixer, Structure};

/// A width or count of a model.
pub(super) struct Width {
    /// Name for all architectures.
    pub(super) name: &'static str,
    /// Keys, those first that say it most exactly.
    pub(super) keys: &'static [&'static str],
    /// Values of the width in a structure, by layer.
    pub(super) of: fn(&Structure) -> Vec<Option<u64>>,
}

/// All widths. The keys of those above are what tells most about a model.
pub(super) const WIDTHS: &[Width] = &[
    Width {
        name: "layers",
        keys: &["num_hidden_layers", "n_layer", "num_layers", "decoder_layers", "num_decoder_layers"],
        of: |structure| by_layer(structure, |_| None),
    },
    Width { name: "hidden", keys: HIDDEN, of: |structure| vec![Some(structure.hidden)] },
    Width {
        name: "heads",
        keys: &["num_attention_heads", "n_head", "num_heads", "decoder_attention_heads"],
        of: |structure| by_layer(structure, heads),
    },
    Width {
        name: "kv_heads",
        keys: &["num_key_value_heads", "num_kv_heads", "n_head_kv", "num_attention_groups"],
        of: |structure| by_layer(structure, |layer| attention(layer, |mixer| mixer.kv_heads)),
    },
    Width {
        name: "ffn",
        keys: &[
            "intermediate_size_mlp",
            "dense_intermediate_size",
            "block_ff_dim",
            "intermediate_size",
            "n_inner",
            "ffn_dim",
            "d_ff",
            "decoder_ffn_dim",
            "ffn_hidden_size",
        ],
        of: |structure| by_layer(structure, feed_forward),
    },
    Width { name: "vocabulary", keys: &["vocab_size"], of: |structure| vec![Some(structure.vocabulary)] },
    Width {
        name: "experts",
        keys: EXPERTS,
        of: |structure| by_layer(structure, |layer| layer.mixture.as_ref().map(|mixture| mixture.experts)),
    },
    Width {
        name: "top_k",
        keys: TAKEN,
        of: |structure| by_layer(structure, |layer| layer.mixture.as_ref().map(|mixture| mixture.active)),
    },
    Width {
        name: "expert_ffn",
        keys: &["moe_intermediate_size", "expert_intermediate_size", "intermediate_size"],
        of: |structure| by_layer(structure, |layer| layer.mixture.as_ref().map(|mixture| mixture.inner)),
    },
    Width {
        name: "shared_experts",
        keys: &["n_shared_experts", "num_shared_experts"],
        of: |structure| by_layer(structure, |layer| Some(layer.mixture.as_ref()?.shared.as_ref()?.inner)),
    },
    Width {
        name: "dense_layers",
        keys: &["first_k_dense_replace"],
        of: |structure| by_layer(structure, |layer| layer.mixture.as_ref().map(|_| 1)),
    },
    Width {
        name: "head_width",
        keys: &["head_dim", "attention_head_dim", "d_kv"],
        of: |structure| by_layer(structure, head_width),
    },
    Width {
        name: "window",
        keys: &["sliding_window", "sliding_window_size", "attention_chunk_size"],
        of: windows,
    },
    Width {
        name: "context",
        keys: &["max_position_embeddings", "n_positions", "seq_length", "max_target_positions"],
        of: |structure| vec![structure.context],
    },
    Width {
        name: "tied",
        keys: &["tie_word_embeddings", "tie_embedding"],
        of: |structure| vec![structure.head.map(|head| head.tied.into())],
    },
    Width {
        name: "prediction_layers",
        keys: prediction::KEYS,
        of: |structure| structure.layers.iter().filter(|layer| layer.is_prediction).map(|_| None).collect(),
    },
];

/// A width of every layer that predicts the next token.
fn by_layer(structure: &Structure, width: impl Fn(&Layer) -> Option<u64>) -> Vec<Option<u64>> {
    structure.layers.iter().filter(|layer| !layer.is_prediction).map(width).collect()
}

fn attention(layer: &Layer, width: impl Fn(&crate::structure::Attention) -> u64) -> Option<u64> {
    if let Mixer::Attention(mixer) = &layer.mixer { Some(width(mixer)) } else { None }
}

fn heads(layer: &Layer) -> Option<u64> {
    match &layer.mixer {
        Mixer::Attention(mixer) => Some(mixer.heads),
        Mixer::Latent(mixer) => Some(mixer.heads),
        Mixer::Compressed(mixer) => Some(mixer.heads),
        _ => None,
    }
}

fn head_width(layer: &Layer) -> Option<u64> {
    match &layer.mixer {
        Mixer::Attention(mixer) => Some(mixer.key),
        Mixer::Compressed(mixer) => Some(mixer.width),
        _ => None,
    }
}

/// Inner width of the dense block, or of the experts of a layer without one.
fn feed_forward(layer: &Layer) -> Option<u64> {
    let dense = layer.dense.as_ref().map(|dense| dense.inner);
    dense.or(layer.mixture.as_ref().map(|mixture| mixture.inner))
}

fn windows(structure: &Structure) -> Vec<Option<u64>> {
    by_layer(structure, |layer| match &layer.mixer {
        Mixer::Attention(mixer) => mixer.window,
        Mixer::Compressed(mixer) => Some(mixer.window),
        _ => None,
    })
}
