//! Graphs of language models from their configurations, beside the exports of the same models from PyTorch in
//! `data/models`: parameters, FLOP, and plans on four GPUs.
//!
//! The configurations are those of `data/models/configurations.py`.

#![allow(clippy::print_stdout, reason = "whoever runs the test reads the differences")]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use stagewright::clusters;
use stagewright::formats::layers::{keep_whole, layers_of};
use stagewright::formats::{ImportOptions, import_model};
use stagewright::structure::huggingface::{self, Reading};
use stagewright::workloads::language::{LanguageOptions, Phase, graph};
use stagewright::workloads::{Optimizer, Precision};
use stagewright_core::cluster::Cluster;
use stagewright_core::document::{GraphDocument, PinTargets, PinsDocument};
use stagewright_core::graph::Graph;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Silent, Solver};
use stagewright_search::Dpl;

/// Largest relative difference of FLOP and of the values of plans.
const TOLERANCE: f64 = 0.02;

const LLAMA: &str = r#"{"model_type": "llama", "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192,
    "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
    "tie_word_embeddings": true, "max_position_embeddings": 131072, "dtype": "bfloat16"}"#;
const QWEN: &str = r#"{"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864,
    "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": true,
    "dtype": "bfloat16"}"#;
const MIXTRAL: &str = r#"{"model_type": "mixtral", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8,
    "num_experts_per_tok": 2, "dtype": "bfloat16"}"#;
const GPT2: &str = r#"{"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12,
    "n_head": 12, "dtype": "float32"}"#;
const BERT: &str = r#"{"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 30522,
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
    "max_position_embeddings": 512, "type_vocab_size": 2, "dtype": "float32"}"#;

/// A configuration, and the export of the same model.
struct Pair {
    file: &'static str,
    config: &'static str,
    batch: u64,
    sequence: u64,
    precision: Precision,
    is_step: bool,
}

const PAIRS: [Pair; 8] = [
    pair("llama-3.2-1b.onnx.gz", LLAMA, [8, 1024], Precision::Bf16, false),
    pair("qwen-2.5-0.5b.json.gz", QWEN, [8, 1024], Precision::Bf16, false),
    pair("mixtral-2l.json.gz", MIXTRAL, [2, 512], Precision::Bf16, false),
    pair("gpt2.onnx.gz", GPT2, [8, 1024], Precision::Fp32, false),
    pair("bert.onnx.gz", BERT, [8, 512], Precision::Fp32, false),
    pair("llama-3.2-1b-step.json.gz", LLAMA, [2, 1024], Precision::Bf16, true),
    pair("gpt2-step.json.gz", GPT2, [8, 1024], Precision::Fp32, true),
    pair("bert-step.json.gz", BERT, [8, 512], Precision::Fp32, true),
];

const fn pair(
    file: &'static str,
    config: &'static str,
    [batch, sequence]: [u64; 2],
    precision: Precision,
    is_step: bool,
) -> Pair {
    Pair { file, config, batch, sequence, precision, is_step }
}

fn exported(file: &str) -> GraphDocument {
    let path = Path::new(crate::ROOT).join("data/models").join(file);
    let mut bytes = Vec::new();
    let compressed = fs::File::open(path).expect("the model is there");
    flate2::read::GzDecoder::new(compressed).read_to_end(&mut bytes).expect("the model is whole");
    import_model(file, &bytes, &ImportOptions::default()).expect("a model").graph
}

fn drawn(pair: &Pair) -> GraphDocument {
    let structure =
        huggingface::read("config.json", pair.config.as_bytes(), None, &Reading::default()).expect("a model");
    let options = LanguageOptions {
        phase: if pair.is_step { Phase::Training(Optimizer::Adam) } else { Phase::Prefill },
        batch: pair.batch,
        sequence: pair.sequence,
        precision: pair.precision,
        all_logits: true,
        ..LanguageOptions::default()
    };
    graph(&structure, &options).expect("a graph")
}

fn parameter_bytes(graph: &GraphDocument) -> f64 {
    let own: f64 = graph.operators.iter().map(|operator| operator.parameter_bytes).sum();
    own + graph.parameters.iter().filter(|entry| entry.trained).map(|entry| entry.bytes).sum::<f64>()
}

fn flop(graph: &GraphDocument) -> f64 {
    graph.operators.iter().filter_map(|operator| operator.flop).sum()
}

/// A contiguous plan of whole layers on four GPUs, with the operators that are pinned to one: its value, and the stage of
/// every numbered layer.
fn planned(mut graph: GraphDocument, pins: PinsDocument) -> (f64, BTreeMap<u64, u32>) {
    keep_whole(&mut graph);
    let layers = numbers(&graph);
    let graph = Graph::from_document(graph).expect("a graph");
    let cluster = Cluster::from_document(clusters::find("4xa100").expect("a device")).expect("a cluster");
    let problem = Problem::pinned(graph, cluster, Objective::default(), pins).expect("a problem");
    let mut silent = Silent;
    let mut context = Context::new(Limits { time: None, ..Limits::default() }, &mut silent);
    let plan = Dpl.solve(&problem, &mut context).expect("a contiguous problem").plan.expect("a plan");
    let order = plan.placement.stages().to_vec();
    let stage = |device| order.iter().position(|&other| other == device).expect("a stage") as u32;
    let devices = problem.graph().operators().map(|op| stage(plan.placement.device_of(op)));
    let stages = layers.into_iter().zip(devices).filter_map(|(layer, stage)| Some((layer?, stage)));
    (plan.evaluation.value, stages.collect())
}

/// Number of the layer of every operator, if it is in one.
fn numbers(graph: &GraphDocument) -> Vec<Option<u64>> {
    let names: Vec<Cow<str>> =
        graph.operators.iter().map(|operator| Cow::Borrowed(operator.name.as_str())).collect();
    layers_of(&names).into_iter().map(|found| Some(found.number?.number)).collect()
}

/// The plan of a graph from a configuration, as pins of the layers of the export.
fn pins(exported: &GraphDocument, stages: &BTreeMap<u64, u32>) -> PinsDocument {
    let operators = exported.operators.iter().zip(numbers(exported));
    let pinned =
        operators.filter_map(|(operator, layer)| Some((operator.name.clone(), *stages.get(&layer?)?)));
    PinsDocument(pinned.map(|(name, stage)| (name, PinTargets::One(format!("gpu{stage}")))).collect())
}

/// Parameters and FLOP agree, and the cut that is best for the configuration is nearly the best for the export, which has
/// the kernels that PyTorch runs without a compiler and takes up to a third longer.
#[test]
fn graphs_from_configurations_are_those_of_exports() {
    for pair in &PAIRS {
        let (drawn, exported) = (drawn(pair), exported(pair.file));
        let off = |ours: f64, theirs: f64| ours / theirs - 1.0;
        let bytes = off(parameter_bytes(&drawn), parameter_bytes(&exported));
        let flop = off(flop(&drawn), self::flop(&exported));
        let (_, stages) = planned(drawn, PinsDocument::default());
        let given = planned(exported.clone(), pins(&exported, &stages)).0;
        let plan = off(given, planned(exported, PinsDocument::default()).0);
        println!("{}: bytes {bytes:+.4}, FLOP {flop:+.4}, plan {plan:+.4}", pair.file);
        assert!(bytes.abs() < TOLERANCE && flop.abs() < TOLERANCE && plan < TOLERANCE, "{}", pair.file);
    }
}
