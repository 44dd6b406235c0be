//! Configurations of Hugging Face.

use stagewright_structure::huggingface::{Reading, read};
use stagewright_structure::{Encoding, Structure};

/// The configuration of Llama 3.1 8B, by the figures of its paper (Grattafiori et al. 2024, table 3).
const LLAMA_8B: &str = r#"{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32, "vocab_size": 128256,
    "max_position_embeddings": 131072, "tie_word_embeddings": false, "torch_dtype": "bfloat16"}"#;

#[test]
fn llama_has_the_parameters_of_its_checkpoint() {
    let structure = read("config.json", LLAMA_8B.as_bytes(), None, &Reading::default()).unwrap();
    assert_eq!(structure.parameters(), 8_030_261_248);
    assert_eq!(structure.weight_bytes(), 2 * 8_030_261_248);
}

/// A configuration of Qwen 3 with 8 or 32 billion parameters (Yang et al. 2025, table 1), and more keys.
fn qwen3(hidden: u64, inner: u64, layers: u64, heads: u64, keys: &str) -> String {
    format!(
        r#"{{"model_type": "qwen3", "hidden_size": {hidden}, "intermediate_size": {inner}, "num_hidden_layers": {layers},
            "num_attention_heads": {heads}, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
            "tie_word_embeddings": false, "torch_dtype": "bfloat16"{keys}}}"#
    )
}

#[test]
fn checkpoints_have_the_bytes_of_their_indices() {
    let bytes = |config: &str| {
        read("config.json", config.as_bytes(), None, &Reading::default()).unwrap().weight_bytes()
    };
    // `total_size` in the index of Qwen3-8B.
    assert_eq!(bytes(&qwen3(4096, 12288, 36, 32, "")), 16_381_470_720);
    let products = 64 * (5120 * (64 + 8 + 8 + 64) * 128 + 3 * 5120 * 25600);
    let plain = 2 * (2 * 151_936 * 5120 + 64 * (2 * 5120 + 2 * 128) + 5120);
    // Scales of 32 bits for blocks of 128 by 128.
    let blocks =
        r#", "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}"#;
    let total = bytes(&qwen3(5120, 25600, 64, 64, blocks));
    assert_eq!(total, products + products / (128 * 128) * 4 + plain);
    assert!((34.2e9..34.4e9).contains(&(total as f64)), "{total}");
    // A scale of 32 bits for each of the seven products of a layer.
    let static_scales = r#", "quantization_config": {"quant_algo": "FP8", "ignore": ["lm_head"]}"#;
    assert_eq!(bytes(&qwen3(5120, 25600, 64, 64, static_scales)), products + 64 * 7 * 4 + plain);
}

#[test]
fn a_quantisation_beside_the_configuration_gives_encodings_and_the_cache() {
    let llama_70b = LLAMA_8B
        .replace("4096", "8192")
        .replace("14336", "28672")
        .replace("\"num_attention_heads\": 32", "\"num_attention_heads\": 64")
        .replace("\"num_hidden_layers\": 32", "\"num_hidden_layers\": 80");
    let beside: (&str, &[u8]) = (
        "hf_quant_config.json",
        br#"{"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}"#,
    );
    let structure = read("config.json", llama_70b.as_bytes(), Some(beside), &Reading::default()).unwrap();
    let parameters = 70_553_706_496;
    let tables = 2 * 128_256 * 8192;
    let norms = (2 * 80 + 1) * 8192;
    assert_eq!(structure.parameters(), parameters);
    assert_eq!(structure.weight_bytes(), parameters + tables + norms + 80 * 7 * 4);
    assert_eq!(structure.cache, Some(Encoding::FP8));
    let text = serde_json::to_string(&structure).unwrap();
    assert!(text.contains(r#""encoding":"fp8_tensor""#) && text.contains(r#""compute":"fp8""#));
    assert_eq!(serde_json::from_str::<Structure>(&text).unwrap(), structure);
}
