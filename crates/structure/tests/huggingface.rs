//! Configurations of Hugging Face.

use stagewright_structure::huggingface::read;

/// The configuration of Llama 3.1 8B, by the figures of its paper (Grattafiori et al. 2024, table 3).
const LLAMA_8B: &str = r#"{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32, "vocab_size": 128256,
    "max_position_embeddings": 131072, "tie_word_embeddings": false, "torch_dtype": "bfloat16"}"#;

#[test]
fn llama_has_the_parameters_of_its_checkpoint() {
    let structure = read("config.json", LLAMA_8B.as_bytes(), None, None).unwrap();
    assert_eq!(structure.parameters(), 8_030_261_248);
    assert_eq!(structure.weight_bytes(), 2 * 8_030_261_248);
}
