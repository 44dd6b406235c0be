//! Configurations that no model has: what is missing, short, empty or huge is an error with a code, or a structure whose
//! sizes can be computed.

use serde_json::{Value, json};
use stagewright_formats::InputError;
use stagewright_structure::cache::cache_bytes;
use stagewright_structure::huggingface::{Reading, read};
use stagewright_structure::{Encoding, Structure};

use crate::models;

fn try_read(config: &Value) -> Result<Structure, InputError> {
    read("config.json", config.to_string().as_bytes(), None, &Reading::default())
}

/// The code and the place of the error that a configuration is refused with.
fn refusal(config: &Value) -> (String, String) {
    let error = try_read(config).unwrap_err();
    (error.code.to_string(), error.place.to_string())
}

fn all() -> Vec<String> {
    vec![
        models::llama4_scout(),
        models::qwen3_30b(),
        models::gpt_oss_20b(),
        models::deepseek_v2_lite(),
        models::deepseek_v3(),
        models::deepseek_v4_flash(),
        models::glm_5_2(),
        models::kimi_k3(),
        models::qwen3_5_35b(),
        models::nemotron_3_super(),
        models::minimax_m3(),
        models::mimo_v2_flash(),
        models::step_3_7_flash(),
        models::gemma_4_26b(),
        models::nemotron_nas(),
    ]
}

/// Paths of all keys, those of objects within included.
fn paths(value: &Value, path: &str, found: &mut Vec<String>) {
    let Some(map) = value.as_object() else { return };
    for (key, value) in map {
        let path = format!("{path}/{key}");
        paths(value, &path, found);
        found.push(path);
    }
}

/// Reads a configuration and computes what others compute from it.
fn survives(config: &Value) {
    match try_read(config) {
        Ok(structure) => {
            let sum = structure.parameters().checked_add(structure.weight_bytes());
            assert!(sum.is_some(), "{config}");
            assert!(cache_bytes(&structure, 1 << 20, Encoding::BF16).is_finite());
        }
        Err(error) => assert!(matches!(&error.code.to_string()[..], "M013" | "M014" | "M015"), "{error:?}"),
    }
}

#[test]
fn no_value_of_a_key_panics() {
    let values = [
        json!(null),
        json!(0),
        json!(1),
        json!(3),
        json!(1u64 << 28),
        json!(1u64 << 40),
        json!(u64::MAX),
        json!(-1),
        json!(1e300),
        json!(0.5),
        json!(true),
        json!("x"),
        json!([]),
        json!([0]),
        json!([{}]),
        json!({}),
    ];
    for text in all() {
        let config: Value = serde_json::from_str(&text).unwrap();
        let mut keys = Vec::new();
        paths(&config, "", &mut keys);
        for key in keys {
            for value in &values {
                let mut changed = config.clone();
                *changed.pointer_mut(&key).unwrap() = value.clone();
                survives(&changed);
            }
        }
    }
}

#[test]
fn widths_that_are_all_huge_do_not_overflow() {
    for text in all() {
        let config: Value = serde_json::from_str(&text).unwrap();
        let mut keys = Vec::new();
        paths(&config, "", &mut keys);
        for width in [1u64, 1 << 14, 1 << 28] {
            let mut changed = config.clone();
            for key in keys.iter().filter(|key| !key.contains("layers") && !key.ends_with("depth")) {
                let value = changed.pointer_mut(key).unwrap();
                if value.is_number() {
                    *value = json!(width);
                }
            }
            survives(&changed);
        }
    }
}

#[test]
fn refusals_name_their_key() {
    for (text, key, value, place) in [
        (models::deepseek_v3(), "/kv_lora_rank", json!(null), "kv_lora_rank"),
        (models::deepseek_v3(), "/n_routed_experts", json!(0), "n_routed_experts"),
        (models::deepseek_v3(), "/moe_layer_freq", json!(0), "moe_layer_freq"),
        (models::deepseek_v3(), "/vocab_size", json!(1u64 << 40), "vocab_size"),
        (models::qwen3_30b(), "/num_experts", json!(0), "num_experts"),
        (models::qwen3_30b(), "/num_experts_per_tok", json!(129), "num_experts_per_tok"),
        (models::gpt_oss_20b(), "/num_local_experts", json!(null), "num_experts"),
        (models::deepseek_v4_flash(), "/compress_ratios", json!([0, 0, 4]), "compress_ratios"),
        (models::deepseek_v4_flash(), "/compress_ratios", json!(null), "compress_ratios"),
        (
            models::kimi_k3(),
            "/text_config/linear_attn_config/kda_layers",
            json!([1, 2]),
            "text_config.linear_attn_config.kda_layers",
        ),
        (models::minimax_m3(), "/text_config/moe_layer_freq", json!([0, 1]), "text_config.moe_layer_freq"),
        (models::minimax_m3(), "/vision_config/patch_size", json!(0), "vision_config.patch_size"),
        (models::mimo_v2_flash(), "/hybrid_layer_pattern", json!([0]), "hybrid_layer_pattern"),
        (
            models::gemma_4_26b(),
            "/text_config/layer_types",
            json!(["full_attention"]),
            "text_config.layer_types",
        ),
        (
            models::step_3_7_flash(),
            "/text_config/moe_layers_enum",
            json!("3,x"),
            "text_config.moe_layers_enum",
        ),
        (models::nemotron_3_super(), "/hybrid_override_pattern", json!("ME?"), "hybrid_override_pattern"),
        (models::nemotron_3_super(), "/hybrid_override_pattern", json!("ME*"), "hybrid_override_pattern"),
        (models::nemotron_nas(), "/block_configs", json!([{}]), "block_configs"),
        (models::nemotron_nas(), "/block_configs", json!([{}, {}, {}]), "block_configs[0].attention"),
        (models::glm_5_2(), "/num_hidden_layers", json!(1u64 << 20), "num_hidden_layers"),
    ] {
        let mut config: Value = serde_json::from_str(&text).unwrap();
        *config.pointer_mut(key).unwrap() = value;
        assert_eq!(refusal(&config), ("M013".to_owned(), format!("config.json: {place}")), "{key}");
    }
}

#[test]
fn models_too_large_for_sums_are_refused() {
    let mut config: Value = serde_json::from_str(&models::qwen3_30b()).unwrap();
    config["hidden_size"] = json!(1u64 << 28);
    config["num_experts"] = json!(1u64 << 28);
    assert_eq!(refusal(&config).0, "M015");
}
