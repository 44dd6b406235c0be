//! Figures against formulas of the papers.

use serde_json::Value;
use stagewright_structure::huggingface::{Reading, read};
use stagewright_structure::{Encoding, Figures};

use crate::models;

fn figures(config: &str, context: u64) -> Figures {
    let structure = read("config.json", config.as_bytes(), None, &Reading::default()).unwrap();
    Figures::new(&structure, context, Encoding::BF16)
}

/// A token takes a multiply-add for every weight but those of the table and the norms, and two for every score.
#[test]
fn work_of_llama_is_that_of_its_products_and_scores() {
    let config = r#"{"model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24, "vocab_size": 500, "tie_word_embeddings": TIED}"#;
    let layer = 2 * 64 * 4 * 24 + 2 * 64 * 2 * 24 + 3 * 64 * 160;
    let products = 2.0 * f64::from(3 * layer + 64 * 500);
    let scores = f64::from(3 * 2 * 2 * 4 * 24);
    for tied in ["true", "false"] {
        let found = figures(&config.replace("TIED", tied), 1000);
        assert_eq!(found.flop_per_token, products);
        assert_eq!(found.flop_per_token_at_context, products + 1000.0 * scores);
    }
}

/// OPT 350m multiplies hidden states of 1024 into the table's width of 512 before the vocabulary.
#[test]
fn a_head_has_the_width_of_its_table() {
    let config = r#"{"model_type": "opt", "hidden_size": 64, "word_embed_proj_dim": 16, "ffn_dim": 128, "num_hidden_layers": 1,
        "num_attention_heads": 4, "vocab_size": 500, "max_position_embeddings": 32, "do_layer_norm_before": false}"#;
    let products = 4 * 64 * 64 + 2 * 64 * 128 + 2 * 64 * 16 + 16 * 500;
    assert_eq!(figures(config, 0).flop_per_token, 2.0 * f64::from(products));
}

#[test]
fn encoders_keep_nothing_and_decoders_keep_their_encoder() {
    let bert = r#"{"model_type": "bert", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 500, "max_position_embeddings": 32}"#;
    let bert = figures(bert, 32);
    assert_eq!((bert.cache_bytes_per_token, bert.cache_bytes), (0.0, 0.0));
    let t5 = r#"{"model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 5, "num_decoder_layers": 3,
        "num_heads": 4, "vocab_size": 500}"#;
    let t5 = figures(t5, 10);
    let both = f64::from(3 * 2 * 4 * 16 * 2);
    assert_eq!((t5.cache_bytes_per_token, t5.cross_cache_bytes_per_token), (both, both));
    assert_eq!(t5.cache_bytes, 10.0 * both);
}

/// The weights that prediction layers share are not the model's, and a token of text passes no projector of images.
#[test]
fn prediction_and_images_are_counted_apart() {
    let qwen = figures(&models::qwen3_5_35b(), 0);
    assert_eq!(qwen.parameters, 35_107_181_936.0);
    assert_eq!(qwen.prediction_parameters, 35_951_822_704.0 - 35_107_181_936.0);
    for config in [models::gemma_4_26b(), models::kimi_k3(), models::llama4_scout()] {
        let whole = figures(&config, 100);
        let mut document: Value = serde_json::from_str(&config).unwrap();
        document.as_object_mut().unwrap().remove("vision_config").expect("images");
        let text = figures(&document.to_string(), 100);
        assert_eq!(whole.flop_per_token_at_context, text.flop_per_token_at_context, "{}", whole.name);
        assert_eq!(whole.parameters - text.parameters, whole.tower_parameters, "{}", whole.name);
        assert!(whole.tower_parameters > 0.0 && text.tower_parameters == 0.0);
    }
}

/// Qwen 3.5 35B has 30 layers with a state of 32 heads of 128 by 128, and 10 layers of attention with 16 heads of 256.
#[test]
fn a_state_works_without_earlier_tokens() {
    let [empty, full] = [0, 1000].map(|context| figures(&models::qwen3_5_35b(), context));
    assert_eq!(empty.flop_per_token, full.flop_per_token);
    assert_eq!(empty.flop_per_token, empty.flop_per_token_at_context);
    let scores = 10.0 * 1000.0 * 4.0 * 16.0 * 256.0;
    assert_eq!(full.flop_per_token_at_context - full.flop_per_token, scores);
    let kept = f64::from(30 * (4 * 32 * 128 * 128 + 2 * 3 * (2 * 16 * 128 + 32 * 128)));
    assert_eq!(full.state_bytes, kept);
}
