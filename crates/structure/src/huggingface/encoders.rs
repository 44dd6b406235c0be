//! Encoders: BERT and its kin, and ViT.

use super::Read;
use super::config::Config;
use super::decoders::{LAYERS, attention_of, decoder, hidden_of, layer, layers_of, refuse, weight};
use super::siglip::patches;
use crate::structure::{Dense, Embedding, Head, Layer, Norm, Structure, StructureSchema};
use crate::tensors::names::{LLAMA, Names};
use stagewright_formats::Result;

const BERT: Names = Names {
    layers: "encoder.layer",
    embedding: "embeddings.word_embeddings",
    positions: "embeddings.position_embeddings",
    token_types: "embeddings.token_type_embeddings",
    embedding_norm: "embeddings.LayerNorm",
    norms: &["attention.output.LayerNorm", "output.LayerNorm"],
    attention: "attention",
    query: "self.query",
    key: "self.key",
    value: "self.value",
    output: "output.dense",
    dense: "",
    up: "intermediate.dense",
    down: "output.dense",
    ..LLAMA
};

/// Names of BERT with the head that predicts masked tokens.
const MASKED: Names = Names {
    layers: "bert.encoder.layer",
    embedding: "bert.embeddings.word_embeddings",
    positions: "bert.embeddings.position_embeddings",
    token_types: "bert.embeddings.token_type_embeddings",
    embedding_norm: "bert.embeddings.LayerNorm",
    head: "cls.predictions",
    ..BERT
};

/// Names of ViT without a classifier.
const VIT: Names = Names {
    final_norm: "layernorm",
    norms: &["layernorm_before", "layernorm_after"],
    query: "attention.query",
    key: "attention.key",
    value: "attention.value",
    ..BERT
};

/// BERT (Devlin et al. 2019) and RoBERTa (Liu et al. 2019): the encoder with its pooler, or with the head that predicts
/// masked tokens if `architectures` is `BertForMaskedLM`. Heads of other tasks are left out.
pub(super) fn bert(config: &Config) -> Result<Read> {
    refuse(config, "add_cross_attention")?;
    let hidden = hidden_of(config)?;
    let mut structure = decoder(config, hidden, Norm::Layer)?;
    structure.head = None;
    structure.final_norm = false;
    structure.embedding = Embedding {
        positions: config.need(&["max_position_embeddings"])?,
        token_types: config.count_or(&["type_vocab_size"], 2)?,
        norm: true,
        width: None,
    };
    structure.layers = encoder_layers(config, hidden, true)?;
    let dense = |path: &str| {
        vec![weight(format!("{path}.weight"), &[hidden, hidden]), weight(format!("{path}.bias"), &[hidden])]
    };
    if config.texts("architectures")?.is_some_and(|classes| classes.contains(&"BertForMaskedLM")) {
        structure.head = Some(Head { tied: config.flag("tie_word_embeddings", true)?, bias: true });
        structure.other = dense("cls.predictions.transform.dense");
        let norm = "cls.predictions.transform.LayerNorm";
        structure.other.extend(["weight", "bias"].map(|end| weight(format!("{norm}.{end}"), &[hidden])));
        return Ok((structure, MASKED));
    }
    structure.other = dense("pooler.dense");
    Ok((structure, BERT))
}

/// ViT (Dosovitskiy et al. 2021): with its classifier, or with a pooler if `architectures` is `ViTModel`.
pub(super) fn vit(config: &Config) -> Result<Read> {
    let config = &config.with_defaults(&[("image_size", 224), ("patch_size", 16)]);
    let hidden = hidden_of(config)?;
    let bare = config.texts("architectures")?.is_some_and(|classes| classes.contains(&"ViTModel"));
    let prefix = if bare { "" } else { "vit." };
    let patches = patches(config)?;
    let projection = "embeddings.patch_embeddings.projection";
    let mut other = vec![
        weight(format!("{prefix}embeddings.cls_token"), &[1, 1, hidden]),
        weight(format!("{prefix}embeddings.position_embeddings"), &[1, patches.count + 1, hidden]),
        weight(format!("{prefix}{projection}.weight"), &[&[hidden], &patches.shape[..]].concat()),
        weight(format!("{prefix}{projection}.bias"), &[hidden]),
    ];
    let (last, outputs) = if bare { ("pooler.dense", hidden) } else { ("classifier", labels(config)?) };
    other.push(weight(format!("{last}.weight"), &[outputs, hidden]));
    other.push(weight(format!("{last}.bias"), &[outputs]));
    let structure = Structure {
        schema: StructureSchema::V1,
        name: config.text("_name_or_path").filter(|name| !name.is_empty()).unwrap_or("vit").to_owned(),
        architecture: "vit".to_owned(),
        hidden,
        vocabulary: 0,
        context: Some(patches.count + 1),
        embedding: Embedding::default(),
        norm: Norm::Layer,
        layers: encoder_layers(config, hidden, config.flag("qkv_bias", true)?)?,
        missing_predictions: 0,
        final_norm: true,
        head: None,
        towers: Vec::new(),
        other,
        cache: None,
        tensors: Vec::new(),
    };
    let names =
        if bare { VIT } else { Names { layers: "vit.encoder.layer", final_norm: "vit.layernorm", ..VIT } };
    Ok((structure, names))
}

/// Layers whose tokens all see each other, with biases on every projection but perhaps those of queries, keys and values.
fn encoder_layers(config: &Config, hidden: u64, bias: bool) -> Result<Vec<Layer>> {
    let mut attention = attention_of(config, hidden)?;
    (attention.bias, attention.output_bias, attention.bidirectional) = (bias, true, true);
    attention.rotary = 0;
    let inner = config.need(&["intermediate_size"])?;
    let layer = layer(attention, Dense { inner, gated: false, bias: true });
    Ok(vec![layer; layers_of(config, LAYERS)? as usize])
}

/// Number of labels of a classifier, which `transformers` sets to 2 if a configuration names none.
fn labels(config: &Config) -> Result<u64> {
    let named = config.inner("id2label")?.map(|labels| labels.keys().count() as u64);
    Ok(named.or(config.count(&["num_labels"])?).unwrap_or(2))
}
