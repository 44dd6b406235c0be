//! Decoders in the manner of Llama.

use super::Read;
use super::config::Config;
use crate::structure::{
    Attention, Dense, Embedding, Head, Layer, Mixer, Norm, QkNorm, Structure, StructureSchema,
};
use crate::tensors::names::LLAMA;
use stagewright_formats::Result;

/// What the layers of a decoder share, from the keys that most configurations have.
pub(super) struct Common {
    pub(super) hidden: u64,
    pub(super) layers: u64,
    pub(super) attention: Attention,
    pub(super) dense: Dense,
}

/// Reads the keys that most decoders share: widths, heads, the dense block.
pub(super) fn common(config: &Config) -> Result<Common> {
    let hidden = config.need(&["hidden_size", "n_embd", "d_model"])?;
    let layers = config.need(&["num_hidden_layers", "n_layer", "num_layers"])?;
    let heads = config.need(&["num_attention_heads", "n_head"])?;
    let kv_heads = config.count_or(&["num_key_value_heads"], heads)?;
    if heads == 0 {
        return Err(config.fault("num_attention_heads", "a model has at least one head", "check the value"));
    }
    let width = config.count_or(&["head_dim"], hidden / heads)?;
    let bias = config.flag("attention_bias", false)?;
    let attention = Attention {
        heads,
        kv_heads,
        key: width,
        value: width,
        rotary: width,
        bias,
        output_bias: bias,
        ..Attention::default()
    };
    let inner = config.need(&["intermediate_size", "n_inner", "ffn_dim"])?;
    let dense = Dense { inner, gated: true, bias: config.flag("mlp_bias", false)? };
    Ok(Common { hidden, layers, attention, dense })
}

/// A decoder without layers: the tables, norms and head that most configurations describe.
pub(super) fn decoder(config: &Config, hidden: u64, norm: Norm) -> Result<Structure> {
    let architecture = config.text("model_type").unwrap_or_default().to_owned();
    let tied = config.flag("tie_word_embeddings", false)?;
    Ok(Structure {
        schema: StructureSchema::V1,
        name: config
            .text("_name_or_path")
            .filter(|name| !name.is_empty())
            .unwrap_or(&architecture)
            .to_owned(),
        architecture,
        hidden,
        vocabulary: config.need(&["vocab_size"])?,
        context: config.count(&["max_position_embeddings", "n_positions"])?,
        embedding: Embedding::default(),
        norm,
        layers: Vec::new(),
        final_norm: true,
        head: Some(Head { tied, bias: false }),
        towers: Vec::new(),
        other: Vec::new(),
        cache: None,
        tensors: Vec::new(),
    })
}

/// A layer with two normalisations, attention and a dense block.
pub(super) fn layer(attention: Attention, dense: Dense) -> Layer {
    Layer {
        mixer: Mixer::Attention(attention),
        cross: None,
        dense: Some(dense),
        mixture: None,
        norms: 2,
        parallel: false,
        is_prediction: false,
        other: Vec::new(),
    }
}

/// Llama (Touvron et al. 2023), and Mistral with its window.
pub(super) fn llama(config: &Config) -> Result<Read> {
    let mut common = common(config)?;
    common.attention.window = config.count(&["sliding_window"])?;
    let mut structure = decoder(config, common.hidden, Norm::Rms)?;
    structure.layers = vec![layer(common.attention, common.dense); common.layers as usize];
    Ok((structure, LLAMA))
}

/// Qwen 2: biases on queries, keys and values.
pub(super) fn qwen2(config: &Config) -> Result<Read> {
    let mut common = common(config)?;
    common.attention.bias = true;
    common.attention.output_bias = false;
    let mut structure = decoder(config, common.hidden, Norm::Rms)?;
    structure.layers = vec![layer(common.attention, common.dense); common.layers as usize];
    Ok((structure, LLAMA))
}

/// Qwen 3: normalised queries and keys.
pub(super) fn qwen3(config: &Config) -> Result<Read> {
    let mut common = common(config)?;
    common.attention.qk_norm = QkNorm::Head;
    let mut structure = decoder(config, common.hidden, Norm::Rms)?;
    structure.layers = vec![layer(common.attention, common.dense); common.layers as usize];
    Ok((structure, LLAMA))
}
