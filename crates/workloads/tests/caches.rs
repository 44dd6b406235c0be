//! Caches of graphs against the formulas of the papers.

use stagewright_core::document::GraphDocument;
use stagewright_structure::{Encoding, Mixer};
use stagewright_workloads::language::LanguageOptions;

use crate::models::{self, caches, decode, draw, structure};
use crate::newest;

/// Bytes of all caches after a step of decode of `sequences` sequences, with 1024 tokens then.
fn kept(config: &str, sequences: u64) -> f64 {
    caches(&draw(&structure(config), &decode(sequences, 1023))).map(|cache| cache.bytes).sum()
}

/// A key and a value of every head for each token (Vaswani et al. 2017), in 16 bits.
#[test]
fn full_attention_keeps_keys_and_values_of_every_head() {
    assert_eq!(kept(models::GPT2, 3), 3.0 * 12.0 * 1024.0 * 2.0 * 768.0 * 2.0);
}

/// Groups of heads share keys and values (Ainslie et al. 2023).
#[test]
fn grouped_attention_keeps_those_of_every_group() {
    assert_eq!(kept(models::LLAMA_8B, 1), 32.0 * 1024.0 * 2.0 * 8.0 * 128.0 * 2.0);
    let graph = draw(&structure(models::LLAMA_8B), &decode(1, 1023));
    let first: Vec<_> = caches(&graph).take(1).collect();
    assert_eq!(first[0].name, "model.layers.0.self_attn.cache");
    assert_eq!(first[0].readers, ["model.layers.0.self_attn.attention"]);
    assert!(!first[0].together && first[0].optimizer_bytes == 0.0);
    let fp8 = LanguageOptions { cache: Some(Encoding::FP8), ..decode(1, 1023) };
    let bytes: f64 = caches(&draw(&structure(models::LLAMA_8B), &fp8)).map(|cache| cache.bytes).sum();
    assert_eq!(bytes, 32.0 * 1024.0 * 2.0 * 8.0 * 128.0);
    // Prefill ends with the prompt in the cache, and training has none.
    let prefill = LanguageOptions { sequence: 1000, context: 24, ..LanguageOptions::default() };
    let bytes: f64 = caches(&draw(&structure(models::LLAMA_8B), &prefill)).map(|cache| cache.bytes).sum();
    assert_eq!(bytes, 32.0 * 1024.0 * 2.0 * 8.0 * 128.0 * 2.0);
}

/// A server keeps more sequences than a step computes: their caches take memory and move nothing.
#[test]
fn caches_of_other_sequences_are_held_caches() {
    let t5 = r#"{"model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4,
        "vocab_size": 100}"#;
    for config in [t5.to_owned(), newest::qwen3_5_35b(), newest::deepseek_v3()] {
        let structure = structure(&config);
        let own = LanguageOptions { tower_tokens: 10, ..decode(2, 99) };
        let more = draw(&structure, &LanguageOptions { sequences: Some(14), ..own.clone() });
        let mut expected = draw(&structure, &own);
        assert!(caches(&expected).count() > 0);
        expected.parameters.iter_mut().filter(|kept| !kept.trained).for_each(|cache| cache.bytes *= 7.0);
        assert_eq!(more, expected);
    }
}

/// A latent of 512 and a rotary key of 64 for all heads (DeepSeek-AI 2024, table 1).
#[test]
fn latent_attention_keeps_latents() {
    assert_eq!(kept(&newest::deepseek_v3(), 1), 61.0 * 1024.0 * (512.0 + 64.0) * 2.0);
    // GLM-5.2 keeps a key of 128 besides in the layers that select tokens.
    assert_eq!(kept(&newest::glm_5_2(), 1), 1024.0 * 2.0 * (78.0 * 576.0 + 21.0 * 128.0));
}

/// A window bounds the tokens of a layer (Beltagy et al. 2020), in all layers or in five of six.
#[test]
fn windows_keep_their_tokens() {
    let mistral = r#"{"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
        "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32, "sliding_window": 256,
        "vocab_size": 32000}"#;
    assert_eq!(kept(mistral, 1), 32.0 * 256.0 * 2.0 * 8.0 * 128.0 * 2.0);
    assert_eq!(kept(models::GEMMA3, 1), (22.0 * 512.0 + 4.0 * 1024.0) * 2.0 * 256.0 * 2.0);
}

/// Layers that read the cache of another keep none of their own (Brandon et al. 2024), and hold what they read.
#[test]
fn layers_share_a_cache() {
    let mut structure = structure(models::LLAMA_8B);
    let not_kept: Vec<u64> = (0..32).filter(|layer| layer % 2 == 1).collect();
    for &layer in &not_kept {
        let Mixer::Attention(attention) = &mut structure.layers[layer as usize].mixer else {
            panic!("attention")
        };
        attention.shares_cache_of = Some(layer - 1);
    }
    let is_key = |name: &str| name.contains("k_proj") || name.contains("v_proj");
    let is_there = |layer: Option<u64>| !layer.is_some_and(|layer| not_kept.contains(&layer));
    structure.tensors.retain(|tensor| is_there(tensor.layer) || !is_key(&tensor.name));
    let graph = draw(&structure, &decode(2, 1023));
    let all: Vec<_> = caches(&graph).collect();
    assert_eq!(all.len(), 16);
    assert_eq!(
        all.iter().map(|cache| cache.bytes).sum::<f64>(),
        2.0 * 16.0 * 1024.0 * 2.0 * 8.0 * 128.0 * 2.0
    );
    let readers = ["model.layers.0.self_attn.attention", "model.layers.1.self_attn.attention"];
    assert_eq!(all[0].readers, readers);
    assert_eq!(crate::models::weight_bytes(&graph), structure.weight_bytes() as f64);
}

/// A matrix of 32-bit numbers for each head of values (Yang et al. 2025) and the three tokens before the last in the short
/// convolution; every fourth layer has attention.
#[test]
fn linear_attention_keeps_matrices() {
    let matrices = 4.0 * 32.0 * 128.0 * 128.0;
    let convolution = 2.0 * 3.0 * (2.0 * 16.0 * 128.0 + 32.0 * 128.0);
    let attention = 1024.0 * 2.0 * 2.0 * 256.0 * 2.0;
    assert_eq!(kept(&newest::qwen3_5_35b(), 5), 5.0 * (30.0 * (matrices + convolution) + 10.0 * attention));
}

/// A vector of 128 numbers for each of the 128 · 64 channels (Dao and Gu 2024), and three tokens of the convolution over
/// channels and the matrices of eight groups; a few layers have attention, and mixtures keep nothing.
#[test]
fn state_space_layers_keep_states() {
    let structure = structure(&newest::nemotron_3_super());
    let count = |is_it: &dyn Fn(&Mixer) -> bool| {
        let layers = structure.layers.iter().filter(|layer| !layer.is_prediction);
        layers.filter(|layer| is_it(&layer.mixer)).count() as f64
    };
    let spaces = count(&|mixer| matches!(mixer, Mixer::StateSpace(_)));
    let attentions = count(&|mixer| matches!(mixer, Mixer::Attention(_)));
    assert_eq!((spaces, attentions), (40.0, 8.0));
    let number = structure.layers.iter().find_map(|layer| match &layer.mixer {
        Mixer::StateSpace(space) => Some(space.state_bytes as f64),
        _ => None,
    });
    let channels = 128.0 * 64.0;
    let state = number.unwrap() * channels * 128.0 + 2.0 * 3.0 * (channels + 2.0 * 8.0 * 128.0);
    let attention = 1024.0 * 2.0 * 2.0 * 128.0 * 2.0;
    assert_eq!(kept(&newest::nemotron_3_super(), 1), spaces * state + attentions * attention);
}

/// Attention over an encoder keeps its keys and values, which decode does not compute again.
#[test]
fn attention_over_an_encoder_keeps_its_keys() {
    let t5 = r#"{"model_type": "t5", "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_decoder_layers": 6,
        "num_heads": 8, "vocab_size": 32128, "tie_word_embeddings": true}"#;
    let structure = structure(t5);
    let options = LanguageOptions { tower_tokens: 200, ..decode(3, 99) };
    let of_encoder = |graph: &GraphDocument| -> (usize, f64) {
        let found: Vec<f64> = caches(graph)
            .map(|cache| cache.bytes)
            .filter(|bytes| *bytes == 3.0 * 200.0 * 2.0 * 512.0 * 2.0)
            .collect();
        (found.len(), caches(graph).map(|cache| cache.bytes).sum())
    };
    let graph = draw(&structure, &options);
    let own = 6.0 * 3.0 * 100.0 * 2.0 * 512.0 * 2.0;
    assert_eq!(of_encoder(&graph), (6, own + 6.0 * 3.0 * 200.0 * 2.0 * 512.0 * 2.0));
    assert_eq!(crate::models::weight_bytes(&graph), structure.weight_bytes() as f64);
    let prefill = LanguageOptions { tower_tokens: 200, batch: 3, ..LanguageOptions::default() };
    let graph = draw(&structure, &prefill);
    assert_eq!(crate::models::weight_bytes(&graph), structure.weight_bytes() as f64);
    assert_eq!(of_encoder(&graph).0, 6);
}
