//! Language models within a configuration of several models: `text_config` beside `vision_config`.

use super::config::Config;
use super::decoders::decoder;
use crate::structure::{Norm, Structure};
use crate::tensors::names::Names;
use stagewright_formats::Result;

/// The configuration of the language model: `text_config`, or else the whole configuration.
pub(super) fn text_of<'a>(config: &Config<'a>) -> Result<Config<'a>> {
    Ok(config.inner("text_config")?.unwrap_or_else(|| config.clone()))
}

/// A decoder without layers, as [`decoder`] reads it from `text`. The whole configuration gives the architecture, and
/// says first whether the projection to the vocabulary is tied.
pub(super) fn decoder_in(config: &Config, text: &Config, hidden: u64) -> Result<Structure> {
    let mut structure = decoder(text, hidden, Norm::Rms)?;
    let architecture = config.text("model_type").unwrap_or_default();
    if structure.name == structure.architecture {
        structure.name = architecture.to_owned();
    }
    architecture.clone_into(&mut structure.architecture);
    if let Some(head) = &mut structure.head {
        head.tied = config.flag("tie_word_embeddings", head.tied)?;
    }
    Ok(structure)
}

/// Names of a language model at `model.language_model`, whose projection to the vocabulary is at the top.
pub(super) const fn within_model(names: Names) -> Names {
    Names {
        layers: "model.language_model.layers",
        embedding: "model.language_model.embed_tokens",
        final_norm: "model.language_model.norm",
        ..names
    }
}

/// Names of a language model at `language_model`, with its projection to the vocabulary.
pub(super) const fn below_language_model(names: Names) -> Names {
    Names {
        layers: "language_model.model.layers",
        embedding: "language_model.model.embed_tokens",
        final_norm: "language_model.model.norm",
        head: "language_model.lm_head",
        ..names
    }
}

/// The kinds of layers that a list by layer names, if there is one, each of which must be among `known`.
pub(super) fn kinds<'a>(
    config: &Config<'a>,
    key: &str,
    layers: u64,
    known: &[&str],
) -> Result<Option<Vec<&'a str>>> {
    let Some(kinds) = config.texts(key)? else { return Ok(None) };
    config.by_layer(key, &kinds, layers)?;
    if let Some(kind) = kinds.iter().find(|kind| !known.contains(kind)) {
        let help = format!("the layers of this architecture are {}", known.join(" or "));
        return Err(config.fault(key, format!("unknown kind of layer `{kind}`"), help));
    }
    Ok(Some(kinds))
}
