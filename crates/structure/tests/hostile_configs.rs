//! Configurations with senseless values: each is read or refused with a code, and none panics.

use serde_json::{Map, Value, json};
use stagewright_structure::huggingface::{Reading, read};

/// Small configurations that are read, with the keys by which their architectures choose modules.
fn valid() -> Vec<Value> {
    let llama = |kind: &str, more: Value| {
        let mut config = json!({"model_type": kind, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 100});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    let vision = json!({"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "image_size": 32, "patch_size": 8, "num_channels": 3});
    let encoder = json!({"max_position_embeddings": 64, "type_vocab_size": 2, "num_key_value_heads": 4});
    vec![
        json!({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "n_inner": 96,
            "vocab_size": 100}),
        json!({"model_type": "gpt_bigcode", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64,
            "multi_query": true, "vocab_size": 100}),
        llama("gpt_neox", json!({"rotary_pct": 0.25, "num_key_value_heads": 4})),
        json!({"model_type": "bloom", "n_embed": 64, "n_layer": 2, "num_attention_heads": 4, "vocab_size": 100}),
        json!({"model_type": "opt", "hidden_size": 64, "ffn_dim": 96, "num_hidden_layers": 2,
            "num_attention_heads": 4, "word_embed_proj_dim": 32, "max_position_embeddings": 64, "vocab_size": 100}),
        json!({"model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_kv_heads": 2, "new_decoder_architecture": true, "num_ln_in_parallel_attn": 2, "vocab_size": 100}),
        llama("llama", json!({"rope_parameters": {"partial_rotary_factor": 0.5}})),
        llama("qwen2", json!({"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 2})),
        llama("phi", json!({"partial_rotary_factor": 0.5, "qk_layernorm": true})),
        llama("phi3", json!({"sliding_window": 8})),
        llama("cohere", json!({"use_qk_norm": true})),
        llama("cohere2", json!({"sliding_window_pattern": 2})),
        llama("starcoder2", json!({"use_bias": true})),
        llama("olmo", json!({})),
        llama("olmo2", json!({})),
        llama("stablelm", json!({"qk_layernorm": true})),
        llama("smollm3", json!({"no_rope_layer_interval": 2, "no_rope_layers": [1, 1, 0, 1]})),
        llama(
            "lfm2",
            json!({"conv_L_cache": 3, "block_multiple_of": 32, "block_ffn_dim_multiplier": 1.5,
            "full_attn_idxs": [1, 3], "layer_types": ["conv", "full_attention", "conv", "conv"]}),
        ),
        llama("gemma", json!({})),
        llama(
            "gemma2",
            json!({"layer_types": ["sliding_attention", "full_attention", "full_attention",
            "full_attention"]}),
        ),
        llama("gemma3_text", json!({"sliding_window": 8, "sliding_window_pattern": 2})),
        json!({"model_type": "gemma3", "text_config": llama("gemma3_text", json!({})), "vision_config": vision}),
        llama("mixtral", json!({"num_local_experts": 4, "num_experts_per_tok": 2})),
        llama(
            "qwen2_moe",
            json!({"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 48, "decoder_sparse_step": 2, "mlp_only_layers": [1]}),
        ),
        llama("qwen3_moe", json!({"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32})),
        llama("bert", encoder.clone()),
        llama("roberta", encoder),
        llama(
            "vit",
            json!({"image_size": 32, "patch_size": 8, "num_channels": 3, "num_labels": 10,
            "id2label": {"0": "cat"}, "architectures": ["ViTForImageClassification"]}),
        ),
        json!({"model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_decoder_layers": 2,
            "num_heads": 4, "relative_attention_num_buckets": 8, "feed_forward_proj": "gated-gelu",
            "vocab_size": 100}),
        json!({"model_type": "whisper", "d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 4,
            "encoder_ffn_dim": 96, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 96,
            "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 16, "vocab_size": 100}),
    ]
}

/// Largest width that a configuration may have.
const LARGEST: u64 = 1 << 28;

/// Code and place of the error, or `None` if the configuration is read.
fn refusal(config: &Value) -> Option<(String, String)> {
    let structure = read("config.json", config.to_string().as_bytes(), None, &Reading::default());
    let error = structure.err()?;
    assert!(error.code.to_string().starts_with('M') && !error.help.is_empty(), "{error} of {config}");
    Some((error.code.to_string(), error.place.to_string()))
}

/// Every object within a value, changed by `change` key by key.
fn variants(value: &Value, change: &dyn Fn(&mut Map<String, Value>, &str)) -> Vec<Value> {
    let Value::Object(map) = value else { return Vec::new() };
    let mut all = Vec::new();
    for (key, inner) in map {
        let mut changed = map.clone();
        change(&mut changed, key);
        all.push(Value::Object(changed));
        for variant in variants(inner, change) {
            let mut outer = map.clone();
            outer.insert(key.clone(), variant);
            all.push(Value::Object(outer));
        }
    }
    all
}

#[test]
fn senseless_values_are_read_or_refused_with_a_code() {
    let values = [
        json!(0),
        json!(1),
        json!(-1),
        json!(0.5),
        json!(3),
        json!(LARGEST),
        json!(LARGEST + 1),
        json!(u64::MAX),
        json!(1e300),
        json!(null),
        json!(true),
        json!("x"),
        json!([]),
        json!([0]),
        json!(["x", "x", "x", "x"]),
        json!([LARGEST, LARGEST, LARGEST, LARGEST]),
        json!({}),
    ];
    let mut refused = 0;
    for config in valid() {
        assert_eq!(refusal(&config), None, "{config}");
        for value in &values {
            let change = |map: &mut Map<String, Value>, key: &str| {
                map.insert(key.to_owned(), value.clone());
            };
            refused += variants(&config, &change).iter().filter(|config| refusal(config).is_some()).count();
        }
        let remove = |map: &mut Map<String, Value>, key: &str| {
            map.remove(key);
        };
        refused += variants(&config, &remove).iter().filter(|config| refusal(config).is_some()).count();
    }
    assert!(refused > 1000, "only {refused} are refused");
}

#[test]
fn the_largest_widths_together_are_refused_without_overflow() {
    fn largest(value: &Value) -> Value {
        let Value::Object(map) = value else { return value.clone() };
        let grow = |(key, value): (&String, &Value)| {
            let grown =
                if value.is_u64() && !key.contains("layer") { json!(LARGEST) } else { largest(value) };
            (key.clone(), grown)
        };
        map.iter().map(grow).collect::<Map<_, _>>().into()
    }
    for config in valid() {
        let grown = largest(&config);
        assert!(refusal(&grown).is_some_and(|(code, _)| code == "M015"), "{grown}");
    }
}

#[test]
fn refusals_name_their_key() {
    let cases = [
        ("gpt2", "n_head", json!(0), "n_head"),
        ("gpt2", "add_cross_attention", json!(true), "add_cross_attention"),
        ("gpt2", "n_layer", json!(LARGEST), "n_layer"),
        ("gpt2", "n_embd", json!(3), "n_head"),
        ("falcon", "num_kv_heads", json!(3), "num_kv_heads"),
        ("llama", "head_dim", json!(0), "num_attention_heads"),
        ("llama", "vocab_size", json!(0), "vocab_size"),
        ("gpt2", "n_positions", json!(null), "n_positions"),
        ("falcon", "hidden_size", json!(0), "hidden_size"),
        ("mixtral", "num_experts_per_tok", json!(5), "num_experts_per_tok"),
        ("mixtral", "num_key_value_heads", json!(3), "num_key_value_heads"),
        ("qwen2_moe", "decoder_sparse_step", json!(0), "decoder_sparse_step"),
        ("gemma2", "layer_types", json!(["full_attention"]), "layer_types"),
        ("gemma2", "layer_types", json!(["conv", "conv", "conv", "conv"]), "layer_types"),
        ("gemma3", "vision_config", json!({"patch_size": 0}), "vision_config.patch_size"),
        ("gemma3", "text_config", json!(null), "text_config"),
        (
            "llama",
            "rope_parameters",
            json!({"partial_rotary_factor": -1}),
            "rope_parameters.partial_rotary_factor",
        ),
        ("gpt_neox", "rotary_pct", json!(1.5), "rotary_pct"),
        ("t5", "d_ff", json!(null), "d_ff"),
        ("whisper", "decoder_attention_heads", json!(0), "decoder_attention_heads"),
    ];
    let all = valid();
    for (kind, key, value, place) in cases {
        let mut config = all.iter().find(|config| config["model_type"] == kind).unwrap().clone();
        config[key] = value;
        let refusal = refusal(&config);
        assert_eq!(refusal, Some(("M013".to_owned(), format!("config.json: {place}"))), "{kind}: {key}");
    }
}

#[test]
fn widths_that_follow_from_others_are_as_small_as_those_of_a_document() {
    let cases = [
        ("vit", "image_size", 1 << 26, "context"),
        ("opt", "max_position_embeddings", LARGEST, "embedding.positions"),
        ("lfm2", "block_ffn_dim_multiplier", 1 << 25, "layers.0.dense.inner"),
    ];
    let all = valid();
    for (kind, key, value, place) in cases {
        let mut config = all.iter().find(|config| config["model_type"] == kind).unwrap().clone();
        config[key] = json!(value);
        assert_eq!(
            refusal(&config),
            Some(("M015".to_owned(), format!("config.json: {place}"))),
            "{kind}: {key}"
        );
    }
}
