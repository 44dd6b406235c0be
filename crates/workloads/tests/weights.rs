//! Weights of graphs: every tensor belongs to one operator, named like its module.

use stagewright_core::document::Precision;
use stagewright_core::graph::Graph;
use stagewright_formats::layers::layer_names;
use stagewright_structure::{Encoding, Role};
use stagewright_workloads::language::{LanguageOptions, Phase};
use stagewright_workloads::{Granularity, Optimizer};

use crate::models::{self, all, decode, draw, operator, structure, sum, weight_bytes};
use crate::newest;

#[test]
fn weights_are_those_of_the_structure_to_the_byte() {
    let whole = LanguageOptions { prediction: true, sequence: 128, ..LanguageOptions::default() };
    for structure in all() {
        let name = &structure.architecture;
        let valid = |graph| {
            Graph::from_document(graph).unwrap_or_else(|error| panic!("{name}: {error}"));
        };
        let expected = structure.weight_bytes() as f64;
        for granularity in Granularity::ALL {
            for phase in [Phase::Prefill, Phase::Decode] {
                for tower_tokens in [0, 64] {
                    let options = LanguageOptions { granularity, phase, tower_tokens, ..whole.clone() };
                    let graph = draw(&structure, &options);
                    assert_eq!(weight_bytes(&graph), expected, "{name} {phase:?}");
                    valid(graph);
                }
            }
        }
        let graph =
            draw(&structure, &LanguageOptions { phase: Phase::Training(Optimizer::Adam), ..whole.clone() });
        assert_eq!(weight_bytes(&graph), 2.0 * structure.parameters() as f64, "{name}");
        valid(graph);
    }
}

#[test]
fn what_is_not_asked_for_is_left_out() {
    let structure = structure(&newest::qwen3_5_35b());
    let is_predicted =
        |name: &str, layer: Option<u64>| name.starts_with("mtp.") || layer.is_some_and(|layer| layer >= 40);
    let bytes = |is_left_out: &dyn Fn(&stagewright_structure::Tensor) -> bool| -> f64 {
        structure.tensors.iter().filter(|tensor| !is_left_out(tensor)).map(|tensor| tensor.bytes as f64).sum()
    };
    let graph = draw(&structure, &LanguageOptions::default());
    assert_eq!(weight_bytes(&graph), bytes(&|tensor| is_predicted(&tensor.name, tensor.layer)));
    let visual = operator(&graph, "model.visual");
    assert_eq!((visual.launches, visual.flop, visual.bytes_moved), (Some(0.0), Some(0.0), Some(0.0)));
    // Prediction layers share their projection to the vocabulary with the model.
    let prediction = draw(&structure, &LanguageOptions { prediction: true, ..LanguageOptions::default() });
    let shared = prediction.parameters.iter().find(|parameter| parameter.trained).unwrap();
    assert_eq!(shared.readers, ["lm_head", "mtp.layers.0.lm_head"]);
}

#[test]
fn a_tied_head_is_a_shared_parameter() {
    let graph = draw(&structure(models::GPT2), &LanguageOptions::default());
    let shared: Vec<_> = graph.parameters.iter().filter(|parameter| parameter.trained).collect();
    assert_eq!(shared.len(), 1);
    assert_eq!((shared[0].name.as_str(), shared[0].bytes), ("transformer.wte.weight", 2.0 * 50257.0 * 768.0));
    assert_eq!(shared[0].readers, ["transformer.wte", "lm_head"]);
}

/// Names decide which layers runtimes count and which modules they place.
#[test]
fn operators_are_in_the_layers_of_the_framework() {
    let graph = draw(&structure(&newest::deepseek_v3()), &LanguageOptions::default());
    for (operator, layer) in graph.operators.iter().zip(layer_names(&graph)) {
        let expected = match operator.name.strip_prefix("model.layers.") {
            Some(rest) => (format!("model.layers.{}", rest.split_once('.').unwrap().0), true),
            None if operator.name == "model.norm" => ("model.norm".to_owned(), false),
            None if operator.name == "lm_head.last" => ("lm_head".to_owned(), false),
            None => (operator.name.clone(), false),
        };
        assert_eq!(layer, Some(expected), "{}", operator.name);
    }
    let gate = operator(&graph, "model.layers.3.mlp.experts.8-15.gate_proj");
    assert_eq!(gate.parameter_bytes, 2.0 * 8.0 * 7168.0 * 2048.0);
    let layers = LanguageOptions { granularity: Granularity::Layer, ..LanguageOptions::default() };
    let names: Vec<String> = draw(&structure(models::MIXTRAL), &layers)
        .operators
        .into_iter()
        .map(|operator| operator.name)
        .collect();
    let middle = (0..32).map(|layer| format!("model.layers.{layer}"));
    let ends = ["model.norm", "lm_head.last", "lm_head"].map(str::to_owned);
    let expected: Vec<String> =
        ["tokens", "model.embed_tokens"].map(str::to_owned).into_iter().chain(middle).chain(ends).collect();
    assert_eq!(names, expected);
}

#[test]
fn experts_are_as_many_to_an_operator_as_asked() {
    let structure = structure(models::MIXTRAL);
    for (group, range, count) in [(1, "7", 8), (3, "6-7", 3)] {
        let expert_group = std::num::NonZeroU64::new(group).unwrap();
        let graph = draw(&structure, &LanguageOptions { expert_group, ..LanguageOptions::default() });
        let all = "model.layers.0.mlp.experts";
        operator(&graph, &format!("{all}.{range}.w3"));
        let is_up = |name: &str| name.starts_with(&format!("{all}.")) && name.ends_with(".w3");
        assert_eq!(graph.operators.iter().filter(|operator| is_up(&operator.name)).count(), count);
        assert_eq!(weight_bytes(&graph), structure.weight_bytes() as f64);
        let dispatch = operator(&graph, &format!("{all}.dispatch"));
        assert_eq!(dispatch.experts.map(u32::from), (count < 8).then_some(8));
    }
}

/// A GGUF file has names of its own, fused experts, and a few bits for a weight.
#[test]
fn quantised_weights_occupy_and_move_their_own_bytes() {
    let mut structure = structure(models::MIXTRAL);
    let q4 = Encoding::named("q4_k").unwrap();
    for tensor in &mut structure.tensors {
        let renamed = tensor
            .name
            .replace("model.layers.", "blk.")
            .replace("self_attn.q_proj", "attn_q")
            .replace("self_attn.o_proj", "attn_output")
            .replace("block_sparse_moe.experts.*.w3", "ffn_up_exps")
            .replace("block_sparse_moe.experts.*.w2", "ffn_down_exps")
            .replace("block_sparse_moe.experts.*.w1", "ffn_gate_exps");
        tensor.name = renamed;
        if tensor.shape.len() > 1 {
            (tensor.encoding, tensor.bytes) = (q4, q4.bytes(&tensor.shape).unwrap());
        }
    }
    let graph = draw(&structure, &decode(1, 100));
    assert_eq!(weight_bytes(&graph), structure.weight_bytes() as f64);
    let query = operator(&graph, "blk.0.attn_q");
    let weights = 4096.0 * 4096.0 / 256.0 * 144.0;
    assert_eq!((query.parameter_bytes, query.bytes_moved), (weights, Some(weights + 2.0 * 2.0 * 4096.0)));
    assert_eq!(query.precision, Some(Precision::Bf16));
    operator(&graph, "blk.0.attn.attention");
    assert_eq!(operator(&graph, "blk.0.ffn_up_exps").parameter_bytes, 8.0 * 14336.0 * 4096.0 / 256.0 * 144.0);
    assert!(
        layer_names(&graph).iter().flatten().any(|(layer, is_numbered)| layer == "blk.31" && *is_numbered)
    );
}

#[test]
fn products_compute_in_the_encoding_that_tensors_state() {
    let mut structure = structure(models::LLAMA_8B);
    let scaled = Encoding::named("fp8_128x128").unwrap();
    for tensor in structure.tensors.iter_mut().filter(|tensor| tensor.role == Role::Up) {
        (tensor.encoding, tensor.bytes) = (scaled, scaled.bytes(&tensor.shape).unwrap());
        tensor.compute = Some(Encoding::FP8);
    }
    let graph = draw(&structure, &LanguageOptions::default());
    let precision = |name: &str| operator(&graph, name).precision;
    assert_eq!(precision("model.layers.0.mlp.up_proj"), Some(Precision::Fp8));
    assert_eq!(precision("model.layers.0.mlp.down_proj"), Some(Precision::Bf16));
    assert_eq!(weight_bytes(&graph), structure.weight_bytes() as f64);
    // Training has a precision of its own.
    let training = LanguageOptions { phase: Phase::Training(Optimizer::Sgd), ..LanguageOptions::default() };
    let graph = draw(&structure, &training);
    assert_eq!(sum(&graph, |operator| operator.parameter_bytes), 2.0 * structure.parameters() as f64);
    assert_eq!(operator(&graph, "model.layers.0.mlp.up_proj").precision, Some(Precision::Bf16));
}
