//! Graphs of language models, drawn from their layers.

use std::num::NonZeroU64;
use std::path::Path;

use stagewright_core::document::{
    GranularityDocument, ModelOptionsDocument, OptimizerDocument, PhaseDocument, Precision,
};
use stagewright_formats::{Format, Imported};
use stagewright_structure::{Figures, Mixer, Role, Structure};
use stagewright_workloads::language::{LanguageOptions, Phase, graph};
use stagewright_workloads::{self as workloads, Granularity, Optimizer, WorkloadError};

use crate::code::U001;
use crate::failure::{Failure, Result};
use crate::figures::{encoding, figures};
use crate::files::Input;
use crate::structures;

/// Tokens of a sequence in prefill and training, if no option gives them and the model reads as many.
const SEQUENCE: u64 = 2048;

/// Tokens of a sequence in a decode step, the new one included, if no option gives them and the model reads as many.
const CONTEXT: u64 = 4096;

/// Reads a language model with the files beside it, draws its graph, and computes its figures.
pub(super) fn of_path(
    path: &Path,
    options: &ModelOptionsDocument,
    notes: &mut Vec<String>,
    place: impl Fn(&str) -> String,
) -> Result<(Imported, Figures)> {
    let structure = structures::structure(path, &structures::reading(options), notes)?;
    drawn(&structure, options, place)
}

/// Reads a language model from a single file in memory, draws its graph, and computes its figures.
pub(super) fn of_bytes(
    input: &Input,
    options: &ModelOptionsDocument,
    place: impl Fn(&str) -> String,
) -> Result<(Imported, Figures)> {
    let structure = structures::of_bytes(input, &structures::reading(options))?;
    drawn(&structure, options, place)
}

fn drawn(
    structure: &Structure,
    options: &ModelOptionsDocument,
    place: impl Fn(&str) -> String,
) -> Result<(Imported, Figures)> {
    let figures = figures(structure, options, &place)?;
    let options = language_options(structure, options, &place)?;
    let graph = graph(structure, &options).map_err(|error| match error {
        WorkloadError::OutOfRange { size, .. } => Failure::from(error).at(place(&size.replace('-', "_"))),
        error => Failure::from(error),
    })?;
    Ok((Imported { graph, format: Format::Language, ids: None }, figures))
}

/// The options of a graph, with defaults that depend on the model.
fn language_options(
    structure: &Structure,
    options: &ModelOptionsDocument,
    place: impl Fn(&str) -> String,
) -> Result<LanguageOptions> {
    let default = LanguageOptions::default();
    let phase = match options.phase {
        None | Some(PhaseDocument::Prefill) => Phase::Prefill,
        Some(PhaseDocument::Decode) => Phase::Decode,
        Some(PhaseDocument::Training) => Phase::Training(match options.optimizer {
            None | Some(OptimizerDocument::Adam) => Optimizer::Adam,
            Some(OptimizerDocument::Momentum) => Optimizer::Momentum,
            Some(OptimizerDocument::Sgd) => Optimizer::Sgd,
        }),
    };
    without_effect(structure, options, &place)?;
    // Training in 8 bits computes products in them, and keeps weights and activations in 16.
    let fp8_products = matches!(phase, Phase::Training(_)) && options.precision == Some(Precision::Fp8);
    let precision = options.precision.filter(|_| !fp8_products);
    let read = |tokens: u64| structure.context.map_or(tokens, |context| context.clamp(1, tokens));
    let context = match phase {
        // The new token is one of those that the model reads.
        Phase::Decode => options.context.unwrap_or(read(CONTEXT).saturating_sub(1).max(1)),
        Phase::Prefill => options.context.unwrap_or(0),
        Phase::Training(_) => 0,
    };
    let sequence = options.sequence.unwrap_or(read(SEQUENCE));
    Ok(LanguageOptions {
        phase,
        batch: options.batch.unwrap_or(default.batch),
        sequence,
        context,
        sequences: options.sequences,
        cache: options.cache.as_deref().map(|name| encoding(name, &place)).transpose()?,
        precision: precision.map_or(Ok(default.precision), |precision| activations(precision, &place))?,
        fp8_products,
        granularity: match options.granularity {
            None | Some(GranularityDocument::Operator) => Granularity::Operator,
            Some(GranularityDocument::Layer) => Granularity::Layer,
        },
        // A group is one operator for each projection: finer groups make longer searches, and seldom better plans.
        expert_group: options.expert_group.and_then(NonZeroU64::new).unwrap_or(NonZeroU64::MAX),
        all_logits: options.all_logits,
        prediction: options.prediction,
        tower_tokens: options.tower_tokens.unwrap_or_else(|| encoded(structure, sequence)),
    })
}

/// Refuses options that have no effect on a model in a phase, because ignoring one would silently draw another step.
fn without_effect(
    structure: &Structure,
    options: &ModelOptionsDocument,
    place: impl Fn(&str) -> String,
) -> Result<()> {
    let phase = options.phase.unwrap_or(PhaseDocument::Prefill);
    let is_training = phase == PhaseDocument::Training;
    let is_encoder = structure.layers.iter().any(|layer| {
        matches!(&layer.mixer, Mixer::Attention(attention) if attention.bidirectional)
            && layer.cross.is_none()
    });
    if is_encoder && phase == PhaseDocument::Decode {
        let cause = "every token of the model sees later ones, so it has no step of decode";
        return Err(Failure::new(U001, cause).at(place("phase")).help("leave it out"));
    }
    let is_decode = phase == PhaseDocument::Decode;
    let has_mixture = structure.layers.iter().any(|layer| layer.mixture.is_some());
    let has_prediction = structure.layers.iter().any(|layer| layer.is_prediction);
    let has_cache = [
        ("context", options.context.is_some()),
        ("sequences", options.sequences.is_some()),
        ("cache", options.cache.is_some()),
    ];
    let of_cache = has_cache.into_iter().flat_map(|(name, is_given)| {
        [(name, is_given, is_encoder, "an encoder"), (name, is_given, is_training, "the phase training")]
    });
    let is_coarse = options.granularity == Some(GranularityDocument::Layer);
    if is_training && is_coarse && options.precision == Some(Precision::Fp8) {
        let cause = "products train in fp8 one by one, and an operator for each layer has all its products";
        return Err(Failure::new(U001, cause).at(place("precision")).help("leave out the granularity"));
    }
    let of_others = [
        ("sequence", options.sequence.is_some(), is_decode, "the phase decode"),
        ("all_logits", options.all_logits, is_decode, "the phase decode"),
        ("all_logits", options.all_logits, is_training, "the phase training"),
        ("all_logits", options.all_logits, is_encoder, "an encoder"),
        ("optimizer", options.optimizer.is_some(), !is_training, "inference"),
        ("prediction", options.prediction, !has_prediction, "a model without layers of prediction"),
        ("expert_group", options.expert_group.is_some(), !has_mixture, "a model without experts"),
        (
            "tower_tokens",
            options.tower_tokens.is_some(),
            structure.towers.is_empty(),
            "a model without encoders",
        ),
    ];
    match of_cache.chain(of_others).find(|(_, is_given, is_idle, _)| *is_given && *is_idle) {
        None => Ok(()),
        Some((name, _, _, what)) => {
            let cause = format!("the option has no effect on {what}");
            Err(Failure::new(U001, cause).at(place(name)).help("leave it out"))
        }
    }
}

/// Tokens that the encoders of a model read, if no option says: those of a decoder's encoder as many as it is made for,
/// or as many as the decoder reads; encoders of images and sound beside a model none.
fn encoded(structure: &Structure, sequence: u64) -> u64 {
    if structure.layers.iter().all(|layer| layer.cross.is_none()) {
        return 0;
    }
    let positions = structure.tensors.iter().find(|tensor| {
        tensor.role == Role::Tower && tensor.shape.len() == 2 && tensor.name.contains("embed_positions")
    });
    positions.map_or(sequence, |table| table.shape[0])
}

fn activations(precision: Precision, place: impl Fn(&str) -> String) -> Result<workloads::Precision> {
    let known = workloads::Precision::ALL;
    known.into_iter().find(|known| known.name() == precision.name()).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|known| known.name()).collect();
        Failure::new(U001, format!("activations of a language model cannot be {}", precision.name()))
            .at(place("precision"))
            .help(format!("give {}", names.join(", ")))
    })
}
