//! Configurations of architectures that are not known: what their errors say, and what `--as` makes of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use stagewright_structure::huggingface::{Reading, read};

/// A configuration in the manner of Llama, with more keys.
fn like_llama(kind: &str, more: Value) -> Value {
    let mut config = json!({"model_type": kind, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "rms_norm_eps": 1e-6,
        "max_position_embeddings": 128, "rope_theta": 10000, "tie_word_embeddings": false, "bos_token_id": 7});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

/// Keys of experts of an inner width of their own.
fn experts(name: &str) -> Map<String, Value> {
    let keys = json!({name: 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32});
    keys.as_object().unwrap().clone()
}

fn with(mut config: Value, more: Map<String, Value>) -> Value {
    config.as_object_mut().unwrap().extend(more);
    config
}

fn text(config: &Value) -> (String, String) {
    let error = read("config.json", config.to_string().as_bytes(), None, &Reading::default()).unwrap_err();
    assert_eq!(error.place.to_string(), "config.json: model_type");
    assert!(error.help.len() < 500 && !error.help.contains('\n'), "{}", error.help);
    (error.code.to_string(), format!("{}. {}", error.message, error.help))
}

/// Configurations of unknown types, the architecture that is nearest, and a key that it does not read.
fn foreign() -> Vec<(Value, &'static str, Option<&'static str>)> {
    let gpt = json!({"model_type": "codegen", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64,
        "n_inner": null, "rotary_dim": 8, "vocab_size": 100, "layer_norm_epsilon": 1e-5});
    let latent = json!({"q_lora_rank": 32, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
        "v_head_dim": 8});
    let mut nested = json!({"model_type": "some_vl", "text_config": like_llama("some", json!({}))});
    nested["text_config"].as_object_mut().unwrap().remove("model_type");
    vec![
        (like_llama("Yi", json!({})), "llama", None),
        (like_llama("internlm2", json!({"bias": false, "auto_map": {"AutoConfig": "x.Y"}})), "llama", None),
        (
            like_llama("minicpm", json!({"scale_emb": 12, "dim_model_base": 256})),
            "llama",
            Some("dim_model_base, scale_emb"),
        ),
        (
            like_llama(
                "exaone4",
                json!({"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention",
            "sliding_attention", "full_attention"]}),
            ),
            "phi3",
            None,
        ),
        (gpt, "gpt2", Some("rotary_dim")),
        (like_llama("olmoe", json!({"num_experts": 8, "num_experts_per_tok": 2})), "mixtral", None),
        (with(like_llama("flex_olmo", json!({})), experts("num_experts")), "qwen3_moe", None),
        (
            with(
                like_llama("dots1", json!({"first_k_dense_replace": 1, "n_shared_experts": 2})),
                experts("n_routed_experts"),
            ),
            "qwen3_moe",
            Some("n_shared_experts"),
        ),
        (like_llama("minicpm3", latent.clone()), "deepseek_v3", Some("num_key_value_heads")),
        (
            with(like_llama("longcat", latent), experts("n_routed_experts")),
            "deepseek_v3",
            Some("num_key_value_heads"),
        ),
        (
            json!({"model_type": "umt5", "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4,
            "vocab_size": 100}),
            "t5",
            None,
        ),
        (nested, "qwen3_vl", None),
    ]
}

#[test]
fn the_nearest_architecture_follows_from_the_keys_and_reads_the_file() {
    for (config, near, unread) in foreign() {
        let (code, found) = text(&config);
        assert_eq!(code, "M014");
        let kind = config["model_type"].as_str().unwrap();
        assert!(found.starts_with(&format!("unknown architecture `{kind}`")), "{found}");
        assert!(found.contains(&format!("the nearest known one is {near}")), "{found}");
        assert!(found.contains(&format!("say so with --as {near}, and with --set")), "{found}");
        match unread {
            Some(keys) => assert!(found.ends_with(&format!("; {keys} would not be read")), "{found}"),
            None => assert!(!found.contains("would not be read"), "{found}"),
        }
        let reading = Reading { architecture: Some(near), ..Reading::default() };
        let structure = read("config.json", config.to_string().as_bytes(), None, &reading);
        let structure = structure.unwrap_or_else(|error| panic!("{kind} as {near}: {error}"));
        assert!(structure.parameters() > 0 && structure.architecture == kind, "{kind}");
        let set = BTreeMap::from([("layers".to_owned(), 1)]);
        let reading = Reading { set: &set, ..reading };
        let small = read("config.json", config.to_string().as_bytes(), None, &reading).unwrap();
        assert!(small.parameters() < structure.parameters(), "{kind}");
    }
}

/// Yi-6B (01.AI 2024): 4096 wide, 32 layers, 4 heads of keys, 64,000 tokens.
#[test]
fn yi_has_the_parameters_of_its_checkpoint_as_llama() {
    let yi = json!({"model_type": "Yi", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 64000});
    let reading = Reading { architecture: Some("llama"), ..Reading::default() };
    let structure = read("config.json", yi.to_string().as_bytes(), None, &reading).unwrap();
    assert_eq!(structure.parameters(), 6_061_035_520);
}

#[test]
fn keys_stand_beside_their_values() {
    let (_, found) =
        text(&like_llama("new", json!({"num_experts": 8, "num_experts_per_tok": 2, "sliding_window": 9})));
    let keys = "the file has num_hidden_layers 4, hidden_size 64, num_attention_heads 4, num_key_value_heads 2, \
                intermediate_size 96, vocab_size 100, num_experts 8, num_experts_per_tok 2; the nearest";
    assert!(found.contains(keys), "{found}");
    let (_, found) = text(&like_llama("new", json!({"auto_map": {}})));
    assert!(
        found.starts_with("unknown architecture `new`, which the code beside its weights defines. "),
        "{found}"
    );
}

#[test]
fn a_misspelt_name_decides_among_equals() {
    assert!(text(&like_llama("mistrall", json!({}))).1.contains("the nearest known one is mistral. "));
    let (_, found) = text(&with(like_llama("lama", json!({})), experts("num_experts")));
    assert!(found.contains("the nearest known one is qwen3_moe by its keys, llama by its name. "), "{found}");
    let (_, found) = text(&json!({"model_type": "lama", "hidden_size": 64}));
    let missing =
        "the file has hidden_size 64; the nearest known one is llama, but the key `intermediate_size`";
    assert!(found.contains(missing) && found.ends_with("Give it with --as llama --set NAME=N"), "{found}");
}

#[test]
fn a_configuration_without_a_type_says_what_it_resembles() {
    let mut config = like_llama("", json!({"architectures": ["X"]}));
    config.as_object_mut().unwrap().remove("model_type");
    let (code, found) = text(&config);
    assert!(code == "M013" && found.contains("`model_type` is missing"), "{found}");
    assert!(found.contains("the nearest known one is llama. "), "{found}");
    assert!(text(&json!({"architectures": []})).1.contains("the nearest known one is"));
}
