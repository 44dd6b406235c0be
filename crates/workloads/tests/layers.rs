//! What passes between layers, and the order of what is in them.

use stagewright_core::document::{GraphDocument, Pass, Precision};
use stagewright_structure::{Encoding, Figures};
use stagewright_workloads::Optimizer;
use stagewright_workloads::language::{LanguageOptions, Phase};

use crate::models::{decode, draw, operator, structure, sum};
use crate::newest;

/// Gemma 4 with inputs by layer, whose last two layers read the keys of the first two.
const GEMMA_4_SHARED: &str = r#"{"model_type": "gemma4_text", "hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32, "global_head_dim": 64,
    "vocab_size": 1000, "vocab_size_per_layer_input": 1000, "hidden_size_per_layer_input": 16,
    "num_kv_shared_layers": 2, "sliding_window": 512, "attention_k_eq_v": false, "tie_word_embeddings": true,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]}"#;

const T5: &str = r#"{"model_type": "t5", "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 2, "num_heads": 8,
    "vocab_size": 32128}"#;

const OLMO_2: &str = r#"{"model_type": "olmo2", "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4,
    "num_hidden_layers": 2, "vocab_size": 1000}"#;

/// Operators that read an output of another one.
fn readers(graph: &GraphDocument, producer: &str) -> Vec<String> {
    let produced = graph.tensors.iter().filter(|tensor| tensor.producer == producer);
    produced.flat_map(|tensor| tensor.consumers.clone()).collect()
}

/// Producers and bytes of the tensors between the layers whose paths these are.
fn between(graph: &GraphDocument, [from, to]: [&str; 2]) -> Vec<(String, f64)> {
    let is_in = |name: &String, path: &str| name.starts_with(&format!("{path}."));
    let pass = |name: &str| operator(graph, name).pass;
    let crosses = |tensor: &&stagewright_core::document::TensorDocument| {
        is_in(&tensor.producer, from)
            && tensor.consumers.iter().any(|reader| is_in(reader, to))
            && pass(&tensor.producer) == Pass::Forward
    };
    graph.tensors.iter().filter(crosses).map(|tensor| (tensor.producer.clone(), tensor.bytes)).collect()
}

/// Hyper-connections of DeepSeek-V4 have four residual streams, which a single hidden state leaves at the end.
#[test]
fn all_residual_streams_pass_between_layers() {
    let structure = structure(&newest::deepseek_v4_flash());
    let graph = draw(&structure, &LanguageOptions { prediction: true, ..decode(3, 1000) });
    let state = 3.0 * structure.hidden as f64 * 2.0;
    assert_eq!(between(&graph, ["layers.0", "layers.1"]), [("layers.0.ffn.sum".to_owned(), 4.0 * state)]);
    for name in ["hc_head_fn", "mtp.0.norm"] {
        let output = graph.tensors.iter().find(|tensor| tensor.producer == name).unwrap();
        assert_eq!(output.bytes, state, "{name}");
    }
    let first = operator(&graph, "layers.5.hc_attn_fn");
    let width = 4.0 * structure.hidden as f64;
    assert_eq!(first.flop, Some(3.0 * 2.0 * (24.0 * width + width)));
}

/// Layers of GLM-5.2 without a selector of their own read the selection of an earlier one: a number for each token.
#[test]
fn selections_pass_between_layers() {
    let graph = draw(&structure(&newest::glm_5_2()), &decode(2, 9999));
    let sent = between(&graph, ["model.layers.2", "model.layers.3"]);
    assert!(sent.contains(&("model.layers.2.self_attn.select".to_owned(), 2.0 * 2048.0 * 4.0)), "{sent:?}");
    assert_eq!(sent.len(), 2);
}

/// The new keys and values reach the layers that read the cache of another, and have their gradients.
#[test]
fn shared_keys_pass_between_layers() {
    let structure = structure(GEMMA_4_SHARED);
    let graph = draw(&structure, &decode(3, 99));
    let shared = "model.layers.1";
    let sent = between(&graph, [shared, "model.layers.3"]);
    assert_eq!(sent.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>(), [3.0 * 2.0 * 64.0 * 2.0; 2]);
    let options = LanguageOptions {
        phase: Phase::Training(Optimizer::Adam),
        sequence: 8,
        ..LanguageOptions::default()
    };
    let graph = draw(&structure, &options);
    assert_eq!(between(&graph, [shared, "model.layers.3"]).len(), 2);
    let sums = ["key", "v_proj"].map(|part| {
        graph.operators.iter().any(|operator| {
            operator.name.starts_with(&format!("{shared}.self_attn.{part}"))
                && operator.name.ends_with("grad_sum")
        })
    });
    assert_eq!(sums, [true; 2]);
    let place = |name: &str| graph.operators.iter().position(|operator| operator.name == name).unwrap();
    assert!(place("model.embed_tokens_per_layer") < place("model.layers.0.input_layernorm"));
}

#[test]
fn normalisations_are_beside_their_blocks() {
    let graph = draw(&structure(T5), &LanguageOptions { tower_tokens: 8, ..LanguageOptions::default() });
    let layer = "decoder.block.1.layer";
    assert_eq!(readers(&graph, &format!("{layer}.1.layer_norm")), [format!("{layer}.1.EncDecAttention.q")]);
    assert_eq!(readers(&graph, &format!("{layer}.2.layer_norm")), [format!("{layer}.2.DenseReluDense.wi")]);
    let graph = draw(&structure(OLMO_2), &LanguageOptions::default());
    let norm = "model.layers.1.post_attention_layernorm";
    assert_eq!(readers(&graph, norm), ["model.layers.1.self_attn.add"]);
    assert_eq!(readers(&graph, "model.layers.1.self_attn.o_proj"), [norm]);
}

/// The smallest models of OPT have tables that are narrower than the hidden state.
#[test]
fn narrow_tables_are_projected() {
    let opt = r#"{"model_type": "opt", "hidden_size": 1024, "ffn_dim": 4096, "num_hidden_layers": 2,
        "num_attention_heads": 16, "word_embed_proj_dim": 512, "max_position_embeddings": 2048, "vocab_size": 50272,
        "do_layer_norm_before": false}"#;
    let graph = draw(&structure(opt), &decode(1, 10));
    assert_eq!(readers(&graph, "model.decoder.embed_tokens"), ["model.decoder.project_in"]);
    assert_eq!(readers(&graph, "model.decoder.project_out"), ["lm_head"]);
    assert_eq!(operator(&graph, "lm_head").flop, Some(2.0 * 512.0 * 50_272.0));
}

/// Projectors belong to the towers: steps of text do not multiply by them.
#[test]
fn projectors_are_idle_with_their_towers() {
    let structure = structure(
        r#"{"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
        "intermediate_size": 10240, "num_hidden_layers": 4, "sliding_window": 1024},
        "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1152, "image_size": 896,
        "intermediate_size": 4304, "num_attention_heads": 16, "num_hidden_layers": 2, "patch_size": 14,
        "vision_use_head": false}}"#,
    );
    let figures = Figures::new(&structure, 100, Encoding::BF16);
    assert!(figures.tower_parameters > 0.0);
    let graph = draw(&structure, &decode(1, 99));
    let towers = graph.operators.iter().filter(|operator| operator.kind.as_deref() == Some("idle"));
    assert_eq!(towers.map(|tower| tower.parameter_bytes).sum::<f64>(), 2.0 * figures.tower_parameters);
    let share = sum(&graph, |operator| operator.flop.unwrap()) / figures.flop_per_token_at_context;
    assert!((1.0..1.003).contains(&share), "{share}");
}

/// Training in 8 bits: products with weights of layers alone, in both passes.
#[test]
fn products_of_layers_train_in_8_bits() {
    let training = LanguageOptions {
        phase: Phase::Training(Optimizer::Adam),
        sequence: 8,
        fp8_products: true,
        ..LanguageOptions::default()
    };
    let graph = draw(&structure(OLMO_2), &training);
    let fp8: Vec<&str> = graph
        .operators
        .iter()
        .filter(|operator| operator.precision == Some(Precision::Fp8))
        .map(|operator| operator.name.as_str())
        .collect();
    let has = |part: &str| fp8.iter().any(|name| name.contains(part));
    assert!(has("model.layers.1.self_attn.o_proj") && has("o_proj.grad") && has("down_proj"), "{fp8:?}");
    assert!(!has("norm") && !has("lm_head") && !has("softmax") && !has("embed"), "{fp8:?}");
    // They read what was cast, and nothing else.
    let read = graph
        .tensors
        .iter()
        .filter(|tensor| tensor.consumers.iter().any(|name| fp8.contains(&name.as_str())));
    let casts: Vec<&str> = read.map(|tensor| tensor.producer.as_str()).collect();
    assert!(casts.iter().all(|name| name.ends_with(".cast")) && casts.len() > fp8.len() / 3, "{casts:?}");
    let cast = graph.operators.iter().find(|operator| operator.name == casts[0]).expect("a cast");
    let written = graph.tensors.iter().find(|tensor| tensor.producer == casts[0]).expect("a result");
    let read = graph.tensors.iter().find(|tensor| tensor.consumers.iter().any(|name| name == casts[0]));
    let bytes = read.expect("an input").bytes;
    assert_eq!((cast.bytes_moved, written.bytes), (Some(2.0 * bytes), 0.5 * bytes));
    let inference = LanguageOptions { phase: Phase::Prefill, ..training };
    let graph = draw(&structure(OLMO_2), &inference);
    assert!(graph.operators.iter().all(|operator| operator.precision != Some(Precision::Fp8)));
}
