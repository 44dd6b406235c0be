//! Decoders in the manner of GPT-2: layer norms with shifts, dense blocks without a gate, often fused projections.

use super::Read;
use super::config::Config;
use super::decoders::{
    LAYERS, attention_of, decoder, hidden_of, kv_heads_of, layer, layers_of, refuse, rotary, tied_by_default,
    weight,
};
use crate::structure::{Attention, Dense, Head, Layer, Norm, Structure};
use crate::tensors::names::{LLAMA, Names};
use stagewright_formats::Result;

const GPT2: Names = Names { transposed: true, ..GPT_BIGCODE };

const GPT_BIGCODE: Names = Names {
    layers: "transformer.h",
    embedding: "transformer.wte",
    positions: "transformer.wpe",
    final_norm: "transformer.ln_f",
    norms: &["ln_1", "ln_2"],
    attention: "attn",
    query_key_value: Some("c_attn"),
    output: "c_proj",
    up: "c_fc",
    down: "c_proj",
    ..LLAMA
};

const GPT_NEOX: Names = Names {
    layers: "gpt_neox.layers",
    embedding: "gpt_neox.embed_in",
    final_norm: "gpt_neox.final_layer_norm",
    head: "embed_out",
    attention: "attention",
    ..BLOOM
};

const BLOOM: Names = Names {
    layers: "transformer.h",
    embedding: "transformer.word_embeddings",
    embedding_norm: "transformer.word_embeddings_layernorm",
    final_norm: "transformer.ln_f",
    attention: "self_attention",
    query_key_value: Some("query_key_value"),
    output: "dense",
    up: "dense_h_to_4h",
    down: "dense_4h_to_h",
    ..LLAMA
};

const OPT: Names = Names {
    layers: "model.decoder.layers",
    embedding: "model.decoder.embed_tokens",
    positions: "model.decoder.embed_positions",
    final_norm: "model.decoder.final_layer_norm",
    norms: &["self_attn_layer_norm", "final_layer_norm"],
    output: "out_proj",
    dense: "",
    up: "fc1",
    down: "fc2",
    ..LLAMA
};

/// Rows of OPT's table of positions before that of the first token.
const OPT_OFFSET: u64 = 2;

/// A decoder whose projections all have biases, without positions; the inner width is four times the hidden width if
/// no key states it.
fn biased(config: &Config) -> Result<(Structure, Attention, Dense)> {
    let hidden = hidden_of(config)?;
    let mut attention = attention_of(config, hidden)?;
    (attention.bias, attention.output_bias) = (true, true);
    attention.rotary = 0;
    let inner =
        config.count_or(&["n_inner", "intermediate_size", "ffn_dim", "ffn_hidden_size"], 4 * hidden)?;
    let mut structure = decoder(config, hidden, Norm::Layer)?;
    tied_by_default(config, &mut structure)?;
    Ok((structure, attention, Dense { inner, gated: false, bias: true }))
}

fn repeated(config: &Config, layer: Layer) -> Result<Vec<Layer>> {
    Ok(vec![layer; layers_of(config, LAYERS)? as usize])
}

/// GPT-2 (Radford et al. 2019), whose products are stored with their inputs first.
pub(super) fn gpt2(config: &Config) -> Result<Read> {
    Ok((gpt(config, false)?, GPT2))
}

/// GPT-BigCode (SantaCoder, StarCoder; Li et al. 2023): GPT-2 whose heads share a head of keys and values.
pub(super) fn gpt_bigcode(config: &Config) -> Result<Read> {
    Ok((gpt(config, config.flag("multi_query", true)?)?, GPT_BIGCODE))
}

fn gpt(config: &Config, multi_query: bool) -> Result<Structure> {
    refuse(config, "add_cross_attention")?;
    let (mut structure, mut attention, dense) = biased(config)?;
    attention.kv_heads = if multi_query { 1 } else { attention.heads };
    structure.embedding.positions = config.need(&["n_positions", "max_position_embeddings"])?;
    structure.layers = repeated(config, layer(attention, dense))?;
    Ok(structure)
}

/// GPT-NeoX (Black et al. 2022), and Pythia.
pub(super) fn gpt_neox(config: &Config) -> Result<Read> {
    let (mut structure, mut attention, dense) = biased(config)?;
    let bias = config.flag("attention_bias", true)?;
    (attention.bias, attention.output_bias) = (bias, bias);
    attention.rotary = rotary(config, attention.key, 0.25)?;
    let tied = config.flag("tie_word_embeddings", false)?;
    structure.head = structure.head.map(|head| Head { tied, ..head });
    let parallel = config.flag("use_parallel_residual", true)?;
    structure.layers = repeated(config, Layer { parallel, ..layer(attention, dense) })?;
    Ok((structure, GPT_NEOX))
}

/// BLOOM (BigScience 2022): ALiBi instead of positions, and a normalisation after the table of tokens.
pub(super) fn bloom(config: &Config) -> Result<Read> {
    let (mut structure, attention, dense) = biased(config)?;
    structure.embedding.norm = true;
    structure.context = config.count(&["seq_length"])?;
    structure.layers = repeated(config, layer(attention, dense))?;
    Ok((structure, BLOOM))
}

/// OPT (Zhang et al. 2022). Its smallest models project the table of tokens, and normalise after the blocks.
pub(super) fn opt(config: &Config) -> Result<Read> {
    let (mut structure, mut attention, mut dense) = biased(config)?;
    let bias = config.flag("enable_bias", true)?;
    (attention.bias, attention.output_bias, dense.bias) = (bias, bias, bias);
    if !config.flag("layer_norm_elementwise_affine", true)? {
        structure.norm = Norm::Plain;
    }
    let before = config.flag("do_layer_norm_before", true)?;
    structure.final_norm = before && !config.flag("_remove_final_layer_norm", false)?;
    let positions = config.positive(&["max_position_embeddings"])?;
    structure.embedding.positions = positions + OPT_OFFSET;
    let hidden = structure.hidden;
    let width = config.count_or(&["word_embed_proj_dim"], hidden)?;
    if width != hidden {
        structure.embedding.width = Some(width);
        structure.other = vec![
            weight("model.decoder.project_in.weight", &[hidden, width]),
            weight("model.decoder.project_out.weight", &[width, hidden]),
        ];
    }
    structure.layers = repeated(config, layer(attention, dense))?;
    Ok((structure, OPT))
}

/// Falcon (Almazrouei et al. 2023), in its old form with one head of keys and its new one with groups.
pub(super) fn falcon(config: &Config) -> Result<Read> {
    let (mut structure, mut attention, mut dense) = biased(config)?;
    let bias = config.flag("bias", false)?;
    (attention.bias, attention.output_bias, dense.bias) = (bias, bias, bias);
    let grouped = config.flag("new_decoder_architecture", false)?;
    attention.kv_heads = match (grouped, config.flag("multi_query", true)?) {
        (true, _) => kv_heads_of(config, &["num_kv_heads", "n_head_kv"], attention.heads)?,
        (false, true) => 1,
        (false, false) => attention.heads,
    };
    if !config.flag("alibi", false)? {
        attention.rotary = rotary(config, attention.key, 1.0)?;
    }
    let parallel = config.flag("parallel_attn", true)?;
    let twice = config.count_or(&["num_ln_in_parallel_attn"], if grouped { 2 } else { 1 })? == 2;
    let (norms, names) = match (parallel, twice) {
        (true, true) => (2, Names { norms: &["ln_attn", "ln_mlp"], ..BLOOM }),
        (true, false) => (1, BLOOM),
        (false, _) => (2, BLOOM),
    };
    let parallel = parallel || grouped;
    structure.layers = repeated(config, Layer { norms, parallel, ..layer(attention, dense) })?;
    Ok((structure, names))
}
