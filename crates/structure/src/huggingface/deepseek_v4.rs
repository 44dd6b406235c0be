//! DeepSeek-V4 (2026): attention over a window and compressed earlier tokens, hyper-connections, and experts that the
//! first layers pick by token. Names are those of its reference implementation.

use super::Read;
use super::config::Config;
use super::decoders::{LAYERS, hidden_of, layer_with, layers_of, weight};
use super::experts::{become_mixture, mixture, shared};
use super::nested::{decoder_in, kinds};
use super::prediction::{self, prediction};
use crate::structure::{Compressed, Dense, Indexer, Layer, Mixer, Weight};
use crate::tensors::names::{LLAMA, Names};
use stagewright_formats::Result;

/// Names within the prediction layers.
const PREDICTION: Names = Names {
    layers: "mtp",
    norms: &["attn_norm", "ffn_norm"],
    attention: "attn",
    router: "ffn.gate",
    router_bias: "ffn.gate.bias",
    experts: "ffn.experts",
    expert: ["w1", "w3", "w2"],
    shared: "ffn.shared_experts",
    shared_expert: ["w1", "w3", "w2"],
    ..LLAMA
};

const NAMES: Names = Names {
    layers: "layers",
    prediction: Some(&PREDICTION),
    embedding: "embed",
    final_norm: "norm",
    head: "head",
    ..PREDICTION
};

/// Ratio of the layers whose compressed entries an indexer selects.
const SELECTED: u64 = 4;

/// DeepSeek-V4.
pub(super) fn deepseek_v4(config: &Config) -> Result<Read> {
    let hidden = hidden_of(config)?;
    let count = layers_of(config, LAYERS)?;
    let predictions = prediction::count(config, 0)?;
    let ratios = config.counts("compress_ratios")?.ok_or_else(|| {
        let help = "give a ratio for every layer";
        config.fault("compress_ratios", "the key `compress_ratios` is missing", help)
    })?;
    config.by_layer("compress_ratios", &ratios, count)?;
    let inner = config.need(&["moe_intermediate_size"])?;
    let mut mixture = mixture(config, inner)?;
    mixture.router_bias = true;
    mixture.shared = shared(config.count_or(&["n_shared_experts"], 0)? * inner);
    let hyper = Hyper { count: config.count_or(&["hc_mult"], 4)?, hidden };
    let build = |ratio: u64| -> Result<Layer> {
        let dense = Dense { inner, gated: true, bias: false };
        let mut layer = layer_with(Mixer::Compressed(compressed(config, ratio)?), dense);
        become_mixture(&mut layer, &mixture);
        layer.other = [hyper.block("hc_attn"), hyper.block("hc_ffn")].concat();
        Ok(layer)
    };
    let mut structure = decoder_in(config, config, hidden)?;
    let ratio_of = |layer: u64| ratios.get(layer as usize).copied().unwrap_or(0);
    structure.layers = (0..count).map(|layer| build(ratio_of(layer))).collect::<Result<_>>()?;
    for layer in count..count + predictions {
        let further = [projections(hidden), hyper.head()].concat();
        structure.layers.push(prediction(&build(ratio_of(layer))?, &further));
    }
    structure.other = hyper.head();
    let table = weight("ffn.gate.tid2eid", &[structure.vocabulary, mixture.active]);
    for (layer, hashed) in structure.layers.iter_mut().zip(hashed(config, count)?) {
        if let (Some(mixture), true) = (&mut layer.mixture, hashed) {
            mixture.router_bias = false;
            layer.other.push(table.clone());
        }
    }
    Ok((structure, NAMES))
}

fn compressed(config: &Config, ratio: u64) -> Result<Compressed> {
    let indexer = if ratio == SELECTED {
        Some(Indexer {
            heads: config.positive(&["index_n_heads"])?,
            width: config.positive(&["index_head_dim"])?,
            selected: config.need(&["index_topk"])?,
            shared: false,
        })
    } else {
        None
    };
    Ok(Compressed {
        heads: config.positive(&["num_attention_heads"])?,
        width: config.positive(&["head_dim"])?,
        rotary: config.need(&["qk_rope_head_dim"])?,
        query_rank: config.positive(&["q_lora_rank"])?,
        output_groups: config.positive(&["o_groups"])?,
        output_rank: config.positive(&["o_lora_rank"])?,
        window: config.need(&["sliding_window"])?,
        ratio,
        indexer,
    })
}

/// Which layers pick experts by token: by a list, or the first `num_hash_layers`.
fn hashed(config: &Config, layers: u64) -> Result<Vec<bool>> {
    if let Some(kinds) = kinds(config, "mlp_layer_types", layers, &["hash_moe", "moe"])? {
        return Ok(kinds.iter().take(layers as usize).map(|&kind| kind == "hash_moe").collect());
    }
    let first = config.count_or(&["num_hash_layers"], 0)?;
    Ok((0..layers).map(|layer| layer < first).collect())
}

/// The projections into a prediction layer and their normalisations.
fn projections(hidden: u64) -> Vec<Weight> {
    let square = [hidden, hidden];
    let mut weights = vec![weight("e_proj.weight", &square), weight("h_proj.weight", &square)];
    weights.extend(["enorm.weight", "hnorm.weight", "norm.weight"].map(|name| weight(name, &[hidden])));
    weights
}

/// Hyper-connections (Zhu et al. 2025): several residual streams, mixed before and after a block.
struct Hyper {
    /// Residual streams.
    count: u64,
    hidden: u64,
}

impl Hyper {
    /// Weights around a block: how streams enter it, leave it and mix.
    fn block(&self, name: &str) -> Vec<Weight> {
        let mixes = (2 + self.count).saturating_mul(self.count);
        self.weights(name, mixes, 3)
    }

    /// Weights that merge the streams at the end.
    fn head(&self) -> Vec<Weight> {
        self.weights("hc_head", self.count, 1)
    }

    fn weights(&self, name: &str, mixes: u64, scales: u64) -> Vec<Weight> {
        vec![
            weight(format!("{name}_fn"), &[mixes, self.count * self.hidden]),
            weight(format!("{name}_base"), &[mixes]),
            weight(format!("{name}_scale"), &[scales]),
        ]
    }
}
