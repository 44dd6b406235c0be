//! Graphs of language models from their structures.
//!
//! A [`Structure`] has the layers of a model and its tensors with their bytes. The graph of a step (prefill, decode or
//! training) has an operator for every module that multiplies, normalises or looks up, named like the module (that of
//! transformers, if its name is another than in checkpoints), and operators for what the framework computes between them:
//!
//! | operator | name |
//! | --- | --- |
//! | a module | its path, `model.layers.3.self_attn.q_proj`, `blk.3.attn_q` |
//! | a group of routed experts | the path with their numbers, `model.layers.3.mlp.experts.0-7.gate_proj`, `blk.3.ffn_gate_exps.0-7` |
//! | attention of inference | `attention`, below the path of the mixer |
//! | attention of training | `scores`, `softmax` and `context` |
//! | the step of a state | `recurrence` |
//! | the choice of sparse attention | `select` |
//! | routing | `dispatch` and `combine`, below the path of the experts |
//! | residual sums | `add` below the path of the mixer, `sum` below that of the feed-forward block |
//!
//! In inference, weights occupy and move the bytes of their tensors, in whatever encoding; products compute in the encoding
//! that the tensor states, or else in the precision of the activations. In training, weights and gradients have that
//! precision. Every tensor belongs to one operator, so the parameters of the graph are the weights of the structure; a
//! tied table is a shared parameter. Tensors that no block knows become products, look-ups or scales of the hidden state
//! beside their layer.
//!
//! The cache or state of a layer is a parameter of the graph that is not trained, as for models of ONNX: it has the size
//! after the step, every device with a reader holds it, and a step moves only the bytes that it reads and appends.
//!
//! One hidden state passes from a layer to the next: with hyper-connections, all its residual streams. A layer that reads
//! the cache of another one gets the keys and values of the new tokens from it, and a layer with a shared selector gets its
//! selection.
//!
//! All scores are counted (see `attention`); the work of routed experts is that of uniform routing (see `feed_forward`).

mod attention;
mod draw;
mod feed_forward;
mod latent;
mod layer;
mod model;
mod modules;
mod options;
mod state;
mod towers;
mod weights;

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::document::{
    GraphDocument, OperatorDocument, Pass, Precision as FormatPrecision, TensorDocument,
};
use stagewright_formats::layers::layer_names;
use stagewright_structure::Structure;

use options::Step;
pub use options::{LanguageOptions, Phase};

use crate::tape::Tape;
use crate::{Granularity, WorkloadError, coarsen, step};

/// Minimum number of operators of a group of routed experts.
const OF_GROUP: u64 = 3;

/// Generates the graph of a structure, whose [`check`](Structure::check) has passed.
///
/// Takes time and memory proportional to the number of operators and tensors.
///
/// # Errors
/// If a size is out of range (W004), or there would be too many operators (W007).
///
/// ```
/// use stagewright_structure::huggingface;
/// use stagewright_workloads::language::{LanguageOptions, Phase, graph};
///
/// let config = br#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
///     "num_hidden_layers": 2, "vocab_size": 100}"#;
/// let structure = huggingface::read("config.json", config, None, &huggingface::Reading::default())?;
/// let options = LanguageOptions { phase: Phase::Decode, context: 1000, ..LanguageOptions::default() };
/// let decode = graph(&structure, &options)?;
/// // Keys and values of 1001 tokens, in 16 bits.
/// assert_eq!(decode.parameters[0].bytes, 1001.0 * 2.0 * 64.0 * 2.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn graph(structure: &Structure, options: &LanguageOptions) -> Result<GraphDocument, WorkloadError> {
    let sizes = Step::new(structure, options)?;
    let mut tape = Tape::new(options.precision, sizes.is_training);
    tape.expect(least_operators(structure, options))?;
    model::record(&mut tape, &modules::renamed(structure), options, &sizes);
    let tape = tape.finish()?;
    let draft = match options.phase {
        Phase::Training(optimizer) => step::training(&tape, optimizer)?,
        Phase::Prefill | Phase::Decode => step::inference(&tape),
    };
    let draft = match options.granularity {
        Granularity::Operator => draft.fused(|_, _| true),
        Granularity::Layer => coarsen::layers(draft),
    };
    let mut document = GraphDocument { batch: tape.batch, ..draft.document(structure.name.clone()) };
    if options.fp8_products && sizes.is_training {
        compute_in_fp8(&mut document);
    }
    Ok(document)
}

/// Lets products with weights of numbered layers compute in 8 bits, and the backward products of their colocations.
fn compute_in_fp8(graph: &mut GraphDocument) {
    let names = layer_names(graph);
    let is_linear =
        |operator: &OperatorDocument| operator.kind.as_deref().is_some_and(|kind| kind.starts_with("linear"));
    let of_layer = graph.operators.iter().zip(&names).filter(|(operator, name)| {
        let is_numbered = name.as_ref().is_some_and(|(_, is_numbered)| *is_numbered);
        is_numbered && operator.parameter_bytes > 0.0 && is_linear(operator)
    });
    let products: BTreeSet<String> =
        of_layer.filter_map(|(operator, _)| operator.colocation.clone()).collect();
    let is_product = |operator: &OperatorDocument| {
        operator.pass != Pass::Update
            && is_linear(operator)
            && operator.colocation.as_ref().is_some_and(|class| products.contains(class))
    };
    for operator in graph.operators.iter_mut().filter(|operator| is_product(operator)) {
        operator.precision = Some(FormatPrecision::Fp8);
    }
    cast_inputs(graph);
}

/// Casts the tensors of 16 bits that products read in 8. A cast writes its result as it is and transposed, for the product of
/// its own pass and for that of the weight gradients (NVIDIA, "Transformer Engine"); these keep one of the two.
fn cast_inputs(graph: &mut GraphDocument) {
    let products: BTreeMap<&str, &OperatorDocument> = graph
        .operators
        .iter()
        .filter(|operator| operator.precision == Some(FormatPrecision::Fp8))
        .map(|operator| (operator.name.as_str(), operator))
        .collect();
    let (mut casts, mut results) = (Vec::new(), Vec::new());
    for tensor in &mut graph.tensors {
        let is_product = |reader: &String| products.contains_key(reader.as_str());
        let (cast, others): (Vec<String>, Vec<String>) =
            std::mem::take(&mut tensor.consumers).into_iter().partition(is_product);
        tensor.consumers = others;
        let readers = cast.iter().map(|name| products[name.as_str()]);
        let Some(first) = readers.min_by_key(|reader| reader.pass) else { continue };
        let name = format!("{}.cast", first.name);
        tensor.consumers.push(name.clone());
        casts.push(OperatorDocument {
            kind: Some("cast".into()),
            pass: first.pass,
            colocation: first.colocation.clone(),
            layer: first.layer.clone(),
            bytes_moved: Some(2.0 * tensor.bytes),
            ..OperatorDocument::named(name.clone())
        });
        results.push(TensorDocument::new(name, cast, tensor.bytes / 2.0));
    }
    graph.operators.extend(casts);
    graph.tensors.extend(results);
}

/// A number of operators that a graph has at least if it has more than a few.
fn least_operators(structure: &Structure, options: &LanguageOptions) -> u64 {
    let layers = structure.layers.iter().filter(|layer| options.prediction || !layer.is_prediction);
    let groups = layers
        .filter_map(|layer| layer.mixture.as_ref())
        .map(|mixture| mixture.experts.div_ceil(options.expert_group.get()).saturating_mul(OF_GROUP));
    groups.fold(0, u64::saturating_add)
}
