//! Work of graphs against formulas of their own.

use stagewright_core::document::{GraphDocument, OperatorDocument};
use stagewright_structure::cache::cache_bytes;
use stagewright_structure::{Encoding, Figures};
use stagewright_workloads::Granularity;
use stagewright_workloads::language::{LanguageOptions, Phase};

use crate::models::{self, all, caches, decode, draw, operator, structure, sum};
use crate::newest;

fn prefill(sequence: u64, context: u64) -> LanguageOptions {
    LanguageOptions { sequence, context, ..LanguageOptions::default() }
}

/// FLOP of the operators of a kind.
fn flop(graph: &GraphDocument, kind: &str) -> f64 {
    let of_kind = |operator: &OperatorDocument| operator.kind.as_deref() == Some(kind);
    sum(graph, |operator| operator.flop.filter(|_| of_kind(operator)).unwrap_or(0.0))
}

fn moved(graph: &GraphDocument) -> f64 {
    sum(graph, |operator| operator.bytes_moved.unwrap())
}

/// A multiply-add for every weight of a layer, and two products of every query with all keys.
#[test]
fn prefill_of_llama() {
    let graph = draw(&structure(models::LLAMA_8B), &prefill(512, 100));
    let layer = 4096.0 * (4096.0 + 1024.0 + 1024.0 + 4096.0) + 3.0 * 4096.0 * 14336.0;
    let head = 2.0 * 4096.0 * 128_256.0;
    assert_eq!(flop(&graph, "linear"), 512.0 * 2.0 * 32.0 * layer + head);
    let scores = 32.0 * 32.0 * 512.0 * 612.0;
    assert_eq!(flop(&graph, "attention"), scores * (4.0 * 128.0 + 6.0));
    let total = sum(&graph, |operator| operator.flop.unwrap());
    let products = flop(&graph, "linear") + flop(&graph, "attention");
    assert!(total > products && total < 1.002 * products, "{total} {products}");
}

/// Two of eight experts, and the router.
#[test]
fn prefill_of_mixtral() {
    let graph = draw(&structure(models::MIXTRAL), &prefill(256, 0));
    let attention = 4096.0 * (2.0 * 4096.0 + 2.0 * 1024.0);
    let experts = 2.0 * 3.0 * 4096.0 * 14336.0 + 8.0 * 4096.0;
    let head = 2.0 * 4096.0 * 32_000.0;
    assert_eq!(flop(&graph, "linear"), 256.0 * 2.0 * 32.0 * (attention + experts) + head);
}

/// DeepSeek-V3 (section 4.2): three dense layers and 58 with eight routed experts and a shared one.
#[test]
fn prefill_of_deepseek_v3() {
    let graph = draw(&structure(&newest::deepseek_v3()), &prefill(128, 0));
    let queries = 7168.0 * 1536.0 + 1536.0 * 128.0 * 192.0;
    let keys = 7168.0 * 576.0 + 512.0 * 128.0 * 256.0;
    let attention = queries + keys + 128.0 * 128.0 * 7168.0;
    let dense = 3.0 * 7168.0 * 18_432.0;
    let experts = 9.0 * 3.0 * 7168.0 * 2048.0 + 256.0 * 7168.0;
    let weights = 61.0 * attention + 3.0 * dense + 58.0 * experts;
    assert_eq!(flop(&graph, "linear"), 128.0 * 2.0 * weights + 2.0 * 7168.0 * 129_280.0);
    let scores = 61.0 * 128.0 * 128.0 * 128.0;
    assert_eq!(flop(&graph, "attention"), scores * (2.0 * 192.0 + 2.0 * 128.0 + 6.0));
    // Latents of the context are projected up again.
    let longer = draw(&structure(&newest::deepseek_v3()), &prefill(128, 1000));
    let again = flop(&longer, "linear") - flop(&graph, "linear");
    assert_eq!(again, 61.0 * 2.0 * 1000.0 * 512.0 * 128.0 * 256.0);
}

#[test]
fn prefill_of_gpt2() {
    let graph = draw(&structure(models::GPT2), &prefill(1024, 0));
    let weights = 12.0 * 12.0 * 768.0 * 768.0;
    assert_eq!(flop(&graph, "linear"), 1024.0 * 2.0 * weights + 2.0 * 768.0 * 50_257.0);
    assert_eq!(flop(&graph, "attention"), 12.0 * 12.0 * 1024.0 * 1024.0 * (4.0 * 64.0 + 6.0));
}

/// Decode of MLA scores latents: a head multiplies queries by its part of the projection of keys, and the result by latent
/// and rotary key; values come out of the latent last.
#[test]
fn decode_of_deepseek_absorbs_projections() {
    let structure = structure(&newest::deepseek_v3());
    let graph = draw(&structure, &decode(1, 4095));
    assert_eq!(flop(&graph, "attention"), 61.0 * 128.0 * 4096.0 * (2.0 * 576.0 + 2.0 * 512.0 + 6.0));
    let halves = ["keys", "values"].map(|half| format!("model.layers.0.self_attn.kv_b_proj.{half}"));
    let halves = halves.map(|name| operator(&graph, &name));
    let together = halves.map(|half| half.flop.unwrap()).iter().sum::<f64>();
    assert_eq!(together, 2.0 * 512.0 * 128.0 * 256.0);
    assert_eq!(halves.map(|half| half.parameter_bytes).iter().sum::<f64>(), 2.0 * 512.0 * 128.0 * 256.0);
}

/// A step of decode reads every weight but the table of tokens, and the cache.
#[test]
fn decode_of_llama_reads_weights_and_cache() {
    let llama = structure(models::LLAMA_8B);
    let [short, long] = [1000, 3000].map(|context| moved(&draw(&llama, &decode(8, context))));
    let token = 32.0 * 2.0 * 1024.0 * 2.0;
    assert_eq!(long - short, 8.0 * 2000.0 * token);
    let read = 2.0 * (8_030_261_248.0 - 128_256.0 * 4096.0);
    let expected = read + 8.0 * 1001.0 * token;
    // The rest are activations.
    assert!(short > expected && short < 1.01 * expected, "{short} {expected}");
    let half = LanguageOptions { cache: Some(Encoding::FP8), ..decode(8, 3000) };
    assert_eq!(long - moved(&draw(&llama, &half)), 8.0 * 3001.0 * token / 2.0);
    let mut small = llama.clone();
    let q8 = Encoding::named("q8_0").unwrap();
    let mut saved = 0.0;
    for tensor in small.tensors.iter_mut().filter(|tensor| tensor.shape.len() > 1 && tensor.layer.is_some()) {
        saved += tensor.bytes as f64;
        (tensor.encoding, tensor.bytes) = (q8, q8.bytes(&tensor.shape).unwrap());
        saved -= tensor.bytes as f64;
    }
    assert_eq!(long - moved(&draw(&small, &decode(8, 3000))), saved);
}

/// With uniform routing, T tokens with k of n experts miss an expert with probability (1 − k/n)^T.
#[test]
fn decode_reads_the_experts_that_are_hit() {
    let mixtral = structure(models::MIXTRAL);
    let matrix = 2.0 * 4096.0 * 14336.0;
    for (tokens, hit) in [(1, 2.0), (2, 3.5), (4, 5.46875)] {
        let graph = draw(&mixtral, &decode(tokens, 10));
        let down = operator(&graph, "model.layers.0.mlp.experts.0-7.w2");
        let rows = 2.0 * tokens as f64;
        let activations = 2.0 * rows * (14336.0 + 4096.0);
        assert_eq!(down.bytes_moved, Some(hit * matrix + activations), "{tokens} tokens");
        assert_eq!(down.flop, Some(2.0 * rows * 4096.0 * 14336.0));
        assert_eq!(down.parameter_bytes, 8.0 * matrix);
    }
    // A token of DeepSeek-V3 reads eight of 256 experts, in whatever groups.
    let graph = draw(&structure(&newest::deepseek_v3()), &decode(1, 10));
    let is_expert = |operator: &&OperatorDocument| {
        operator.name.contains(".mlp.experts.") && !operator.kernels.is_empty()
    };
    let read: f64 =
        graph.operators.iter().filter(is_expert).map(|operator| operator.bytes_moved.unwrap()).sum();
    let weights = 58.0 * 8.0 * 3.0 * 2.0 * 7168.0 * 2048.0;
    assert!(read > weights && read < 1.001 * weights, "{read} {weights}");
}

/// Windows bound scores and reads; selections bound those of attention, and their own scores take all tokens.
#[test]
fn windows_and_selections_bound_attention() {
    let gemma = structure(models::GEMMA3);
    let graph = draw(&gemma, &decode(1, 9999));
    let per_score = 4.0 * 4.0 * 256.0 + 4.0 * 6.0;
    assert_eq!(flop(&graph, "attention"), per_score * (22.0 * 512.0 + 4.0 * 10_000.0));
    let local = operator(&graph, "model.layers.0.self_attn.attention");
    let global = operator(&graph, "model.layers.5.self_attn.attention");
    let entry = 2.0 * 2.0 * 256.0;
    assert_eq!(global.bytes_moved.unwrap() - local.bytes_moved.unwrap(), (9999.0 - 511.0) * entry);
    let glm = draw(&structure(&newest::glm_5_2()), &decode(1, 9999));
    assert_eq!(flop(&glm, "attention"), 78.0 * 64.0 * 2048.0 * (2.0 * 576.0 + 2.0 * 512.0 + 6.0));
    // 21 layers score all tokens with 32 heads of 128; the others use their selections.
    let select = operator(&glm, "model.layers.2.self_attn.select");
    assert_eq!(select.flop, Some(2.0 * 10_000.0 * 32.0 * 128.0));
    assert!(select.bytes_moved.unwrap() > 10_000.0 * 128.0 * 2.0);
    assert_eq!(glm.operators.iter().filter(|operator| operator.name.ends_with(".select")).count(), 21);
}

/// A state is read and written whole, whatever the context.
#[test]
fn states_are_read_and_written() {
    let hybrid = structure(&newest::qwen3_5_35b());
    let [short, long] = [1000, 3000].map(|context| draw(&hybrid, &decode(2, context)));
    let step = |graph: &GraphDocument| {
        operator(graph, "model.language_model.layers.0.linear_attn.recurrence").clone()
    };
    assert_eq!(step(&short), step(&long));
    let state = 2.0 * (4.0 * 32.0 * 128.0 * 128.0 + 2.0 * 3.0 * (2.0 * 16.0 * 128.0 + 32.0 * 128.0));
    let found = step(&short).bytes_moved.unwrap();
    assert!(found > 2.0 * state && found < 1.02 * 2.0 * state, "{found} {state}");
    assert_eq!(step(&short).flop, Some(2.0 * 7.0 * 32.0 * 128.0 * 128.0));
    // Only the ten layers with attention read more.
    assert_eq!(moved(&long) - moved(&short), 10.0 * 2.0 * 2000.0 * 2.0 * 2.0 * 256.0 * 2.0);
}

/// A tower multiplies every one of its tokens by all its matrices; idle, it does nothing.
#[test]
fn towers_run_on_their_tokens() {
    let structure = structure(&newest::qwen3_5_35b());
    let total = |tower_tokens, phase| {
        let options = LanguageOptions { tower_tokens, phase, ..LanguageOptions::default() };
        sum(&draw(&structure, &options), |operator| operator.flop.unwrap())
    };
    let run = total(100, Phase::Prefill) - total(0, Phase::Prefill);
    let layer = 4.0 * 1152.0 * 1152.0 + 2.0 * 1152.0 * 4304.0;
    let scores = 27.0 * 100.0 * 100.0 * 16.0 * (4.0 * 72.0 + 6.0);
    let layers = 100.0 * 2.0 * 27.0 * layer + scores;
    // The rest are patches and the merger.
    assert!(run > layers && run < 1.2 * layers, "{run} {layers}");
    assert_eq!(total(100, Phase::Decode), total(0, Phase::Decode));
}

#[test]
fn a_layer_has_the_sums_of_its_operators() {
    for config in [models::LLAMA_8B.to_owned(), newest::deepseek_v2_lite(), newest::nemotron_3_super()] {
        let structure = structure(&config);
        for phase in [Phase::Prefill, Phase::Decode] {
            let [fine, coarse] = Granularity::ALL.map(|granularity| {
                let options = LanguageOptions { granularity, phase, ..prefill(64, 200) };
                draw(&structure, &options)
            });
            let close = |figure: &dyn Fn(&OperatorDocument) -> f64| {
                let [fine, coarse] = [sum(&fine, figure), sum(&coarse, figure)];
                assert!((fine - coarse).abs() <= 1e-9 * fine, "{fine} {coarse}");
            };
            close(&|operator| operator.flop.unwrap());
            close(&|operator| operator.parameter_bytes);
            assert!(coarse.operators.len() < structure.layers.len() + 6);
            let bytes = |graph: &GraphDocument| graph.parameters.iter().map(|cache| cache.bytes).sum::<f64>();
            assert_eq!(bytes(&fine), bytes(&coarse));
        }
    }
}

/// FLOP of a token by the figures of the structure, which count no softmax, normalisation or activation.
#[test]
fn decode_has_the_flop_of_the_figures() {
    for structure in all() {
        let figures = Figures::new(&structure, 4096, Encoding::BF16);
        let found = sum(&draw(&structure, &decode(1, 4095)), |operator| operator.flop.unwrap());
        let share = found / figures.flop_per_token_at_context;
        assert!((1.0..1.011).contains(&share), "{}: {share}", structure.architecture);
        let kept: f64 = caches(&draw(&structure, &decode(1, 4095))).map(|cache| cache.bytes).sum();
        let cache = structure.cache.unwrap_or(Encoding::BF16);
        assert_eq!(kept, cache_bytes(&structure, 4096, cache), "{}", structure.architecture);
    }
}

/// Every token of an encoder is predicted, and nothing is kept.
#[test]
fn encoders_keep_nothing() {
    let bert = r#"{"model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 768,
        "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 30522,
        "max_position_embeddings": 512, "type_vocab_size": 2}"#;
    let structure = structure(bert);
    let graph = draw(&structure, &prefill(128, 0));
    assert_eq!(caches(&graph).count(), 0);
    assert_eq!(flop(&graph, "attention"), 12.0 * 12.0 * 128.0 * 128.0 * (4.0 * 64.0 + 6.0));
    assert_eq!(crate::models::weight_bytes(&graph), structure.weight_bytes() as f64);
}
