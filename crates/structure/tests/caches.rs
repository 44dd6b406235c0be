//! Caches and states of eight architectures against formulas of their papers, to the byte. A formula here knows widths
//! alone; its numbers are those of the configuration beside it.

use stagewright_structure::cache::{cache_bytes, layer_cache};
use stagewright_structure::huggingface::{Reading, read};
use stagewright_structure::{Encoding, Structure};

use crate::models;

/// Lengths of a sequence: none, one token, within every window, and beyond all of them.
const CONTEXTS: [u64; 4] = [0, 1, 100, 100_000];

/// Checks that a sequence of each length keeps `numbers` of cached numbers and `state` bytes besides. Numbers of `q8_0`
/// are in blocks of 32 with a scale of 16 bits.
fn agrees(structure: &Structure, numbers: impl Fn(u64) -> u64, state: u64) {
    for context in CONTEXTS {
        let cached = numbers(context);
        for (encoding, bytes) in [("bf16", 2 * cached), ("q8_0", cached / 32 * 34)] {
            assert!(cached.is_multiple_of(32));
            let encoding = Encoding::named(encoding).unwrap();
            let all = cache_bytes(structure, context, encoding);
            let layers = structure.layers.iter().filter(|layer| !layer.is_prediction);
            let states: f64 = layers.map(|layer| layer_cache(layer, context, encoding).state).sum();
            let name = (&structure.architecture, context, encoding.name());
            assert_eq!((all, states), ((bytes + state) as f64, state as f64), "{name:?}");
        }
    }
}

fn structure(config: &str) -> Structure {
    read("config.json", config.as_bytes(), None, &Reading::default()).unwrap()
}

/// Every head keeps a key and a value of a token: 2 · layers · width (Pope et al. 2022, "Efficiently Scaling Transformer
/// Inference", section 3.3). GPT-2 small has 12 layers of width 768 (Radford et al. 2019, table 2).
#[test]
fn full_attention_keeps_the_width_of_the_model_twice() {
    let gpt2 = r#"{"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
        "vocab_size": 50257}"#;
    agrees(&structure(gpt2), |tokens| 2 * 12 * 768 * tokens, 0);
}

/// A group of heads shares a key and a value (Ainslie et al. 2023, "GQA", section 2.2). Llama 3.1 8B has 32 layers and 8
/// such groups of width 128 (Grattafiori et al. 2024, table 3).
#[test]
fn grouped_attention_keeps_a_key_and_a_value_for_every_group() {
    let llama = include_str!("../../../data/configurations/llama-3.1-8b/config.json");
    agrees(&structure(llama), |tokens| 2 * 32 * 8 * 128 * tokens, 0);
}

/// (d_c + d_h^R) · l numbers for a token (DeepSeek-AI 2024, "DeepSeek-V2", section 2.1.4, table 1); DeepSeek-V3 has
/// d_c = 512, d_h^R = 64 and l = 61 (DeepSeek-AI 2024, "DeepSeek-V3", section 4.2). Its layer of prediction is not
/// needed for the next token.
#[test]
fn latent_attention_keeps_a_latent_and_a_rotary_key() {
    let deepseek = include_str!("../../../data/configurations/deepseek-v3/config.json");
    agrees(&structure(deepseek), |tokens| (512 + 64) * 61 * tokens, 0);
}

/// A rolling buffer of the window's length (Jiang et al. 2023, "Mistral 7B", section 2, with table 1).
#[test]
fn a_window_bounds_the_tokens() {
    let mistral = r#"{"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "sliding_window": 4096,
        "vocab_size": 32000}"#;
    agrees(&structure(mistral), |tokens| 2 * 32 * 8 * 128 * tokens.min(4096), 0);
}

/// Five layers with a window of 1024 to one without, beginning with those (Gemma Team 2025, "Gemma 3 Technical Report",
/// section 2): of 62 layers 10 see all tokens. Keys and values have 16 heads of 128.
#[test]
fn a_window_in_five_of_six_layers_bounds_their_tokens_alone() {
    let gemma = r#"{"model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504,
        "num_hidden_layers": 62, "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
        "sliding_window": 1024, "vocab_size": 262208}"#;
    agrees(&structure(gemma), |tokens| 2 * 16 * 128 * (10 * tokens + 52 * tokens.min(1024)), 0);
}

/// Layers that read the keys and values of an earlier layer keep none (Brandon et al. 2024, "Reducing Transformer
/// Key-Value Cache Size with Cross-Layer Attention", section 3.1). Of 30 layers, every sixth of which sees all tokens, the
/// first 20 keep a cache: 3 with a head of 512, and 17 with heads of 256 and a window of 512.
#[test]
fn layers_that_share_a_cache_keep_none() {
    let gemma = r#"{"model_type": "gemma4_text", "hidden_size": 1536, "intermediate_size": 6144,
        "num_hidden_layers": 30, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256,
        "global_head_dim": 512, "num_kv_shared_layers": 10, "sliding_window": 512, "vocab_size": 262144}"#;
    agrees(&structure(gemma), |tokens| 2 * 2 * (3 * 512 * tokens + 17 * 256 * tokens.min(512)), 0);
}

/// The state S of a head is d_v by d_k (Yang et al. 2025, "Gated Delta Networks", equation 10), here in 32 bits, and a
/// causal convolution over 4 tokens of queries, keys and values needs the 3 before the last (section 3.4), here in 16
/// bits. Of 40 layers of Qwen 3.5 35B, every fourth has attention with 2 heads of keys of 256; the others have 16 heads of
/// keys and 32 of values, of 128 each.
#[test]
fn linear_attention_keeps_a_matrix_for_every_head() {
    let state = 30 * (32 * 128 * 128 * 4 + 3 * (16 * 128 + 16 * 128 + 32 * 128) * 2);
    agrees(&structure(&models::qwen3_5_35b()), |tokens| 10 * 2 * 2 * 256 * tokens, state);
}

/// A state-space layer keeps N numbers for each of its channels (Dao and Gu 2024, "Transformers are SSMs", section 7.1),
/// here in 32 bits, and a causal convolution over 4 tokens of the channels and of B and C the 3 before the last (section
/// 8), here in 16 bits. A hybrid of Nemotron-H (NVIDIA 2025, section 2.1): 4 such layers with 128 heads of 64 channels,
/// N = 128 and 8 groups of B and C, and 1 layer with 8 heads of keys of 128.
#[test]
fn a_hybrid_keeps_states_and_the_cache_of_its_attention() {
    let nemotron = r#"{"model_type": "nemotron_h", "hidden_size": 4096, "intermediate_size": 21504,
        "num_hidden_layers": 9, "hybrid_override_pattern": "M-M-M-M*-", "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "mamba_num_heads": 128, "mamba_head_dim": 64,
        "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4, "vocab_size": 131072}"#;
    let channels = 128 * 64;
    let state = 4 * (channels * 128 * 4 + 3 * (channels + 2 * 8 * 128) * 2);
    agrees(&structure(nemotron), |tokens| 2 * 8 * 128 * tokens, state);
}
