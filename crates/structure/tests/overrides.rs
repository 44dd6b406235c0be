//! Widths that replace those of a configuration.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stagewright_structure::huggingface::{Reading, read};
use stagewright_structure::{Mixer, Structure};

use crate::models;

type Refusal = (String, String, String);

fn set(config: &str, values: &[(&str, u64)]) -> Result<Structure, Refusal> {
    let set: BTreeMap<String, u64> = values.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    let reading = Reading { set: &set, ..Reading::default() };
    read("config.json", config.as_bytes(), None, &reading).map_err(|error| {
        (error.code.to_string(), error.place.to_string(), format!("{}: {}", error.message, error.help))
    })
}

fn parameters(config: &str, values: &[(&str, u64)]) -> u64 {
    set(config, values).unwrap_or_else(|error| panic!("{values:?}: {error:?}")).parameters()
}

/// Parts of Llama 3.1 8B, by its paper (Grattafiori et al. 2024, table 3).
const LLAMA: &str = include_str!("../../../data/configurations/llama-3.1-8b/config.json");
const TABLE: u64 = 128_256 * 4096;
const NORM: u64 = 4096;

/// A layer of Llama with heads of 128: queries and outputs, keys and values, three products, two normalisations.
const fn layer(heads: u64, kv_heads: u64, inner: u64) -> u64 {
    2 * 4096 * heads * 128 + 2 * 4096 * kv_heads * 128 + 3 * 4096 * inner + 2 * NORM
}

#[test]
fn llama_with_other_widths_has_the_parameters_that_follow() {
    let plain = layer(32, 8, 14_336);
    let cases: &[(&[(&str, u64)], u64)] = &[
        (&[], 2 * TABLE + 32 * plain + NORM),
        (&[("layers", 4)], 2 * TABLE + 4 * plain + NORM),
        (&[("layers", 32)], 2 * TABLE + 32 * plain + NORM),
        (&[("ffn", 1000)], 2 * TABLE + 32 * layer(32, 8, 1000) + NORM),
        (&[("tied", 1)], TABLE + 32 * plain + NORM),
        (&[("tied", 0)], 2 * TABLE + 32 * plain + NORM),
        (&[("kv_heads", 1)], 2 * TABLE + 32 * layer(32, 1, 14_336) + NORM),
        (
            &[("layers", 4), ("ffn", 1000), ("tied", 1), ("kv_heads", 1)],
            TABLE + 4 * layer(32, 1, 1000) + NORM,
        ),
        (&[("vocabulary", 1000)], 2 * 1000 * 4096 + 32 * plain + NORM),
        // Keys of the configuration.
        (&[("num_hidden_layers", 4), ("vocab_size", 1000)], 2 * 1000 * 4096 + 4 * plain + NORM),
        // Heads of a quarter of the width that the hidden state has for each.
        (
            &[("head_width", 32)],
            2 * TABLE + 32 * (2 * 4096 * 32 * 32 + 2 * 4096 * 8 * 32 + 3 * 4096 * 14_336 + 2 * NORM) + NORM,
        ),
    ];
    for &(values, expected) in cases {
        assert_eq!(parameters(LLAMA, values), expected, "{values:?}");
    }
    let structure = set(LLAMA, &[("context", 1000), ("window", 100)]).unwrap();
    let Mixer::Attention(attention) = &structure.layers[31].mixer else { panic!("attention") };
    assert_eq!((structure.context, attention.window), (Some(1000), Some(100)));
}

#[test]
fn heads_have_an_equal_part_of_the_hidden_width_unless_a_key_says_otherwise() {
    let mut config: Value = serde_json::from_str(LLAMA).unwrap();
    config.as_object_mut().unwrap().remove("head_dim");
    let structure = set(&config.to_string(), &[("hidden", 1024), ("heads", 16)]).unwrap();
    let Mixer::Attention(attention) = &structure.layers[0].mixer else { panic!("attention") };
    assert_eq!((attention.heads, attention.key, attention.value, attention.rotary), (16, 64, 64, 64));
}

#[test]
fn mixtures_have_other_experts() {
    let mixtral = |values| {
        let config = r#"{"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
            "num_local_experts": 8, "num_experts_per_tok": 2}"#;
        set(config, values).unwrap()
    };
    let expected = |experts: u64, inner: u64| {
        2 * 32_000 * 4096 + NORM + 32 * (layer(32, 8, 0) + experts * (3 * 4096 * inner + 4096))
    };
    assert_eq!(mixtral(&[]).parameters(), 46_702_792_704);
    assert_eq!(mixtral(&[]).parameters(), expected(8, 14_336));
    assert_eq!(mixtral(&[("experts", 4)]).parameters(), expected(4, 14_336));
    // The width of experts has no key of its own.
    assert_eq!(mixtral(&[("experts", 1), ("top_k", 1), ("expert_ffn", 100)]).parameters(), expected(1, 100));
    assert_eq!(mixtral(&[("ffn", 100)]).parameters(), expected(8, 100));
    assert_eq!(mixtral(&[("top_k", 3)]).layers[0].mixture.as_ref().unwrap().active, 3);

    // A layer of experts of DeepSeek-V3: 3 · 7168 · 2048 weights for each, and a router with a correction.
    let deepseek = |values| parameters(&models::deepseek_v3(), values);
    let whole = deepseek(&[]);
    let expert = 3 * 7168 * 2048;
    // 58 layers of the model and one of prediction.
    assert_eq!(whole - deepseek(&[("experts", 64), ("top_k", 4)]), 59 * 192 * (expert + 7168 + 1));
    assert_eq!(deepseek(&[("shared_experts", 3)]) - whole, 59 * 2 * expert);
    assert_eq!(whole - deepseek(&[("expert_ffn", 1024)]), 59 * 257 * expert / 2);
    // A dense layer has 3 · 7168 · 18432 weights, and one with experts 257 of them with its router.
    let (dense, sparse) = (3 * 7168 * 18_432, 257 * expert + 256 * 7169);
    assert_eq!(deepseek(&[("dense_layers", 2)]) - whole, sparse - dense);
    assert_eq!(whole - deepseek(&[("ffn", 9216)]), 3 * dense / 2);
    assert_eq!(whole - deepseek(&[("prediction_layers", 0)]), 684_489_845_504 - 671_026_419_200);
}

#[test]
fn widths_of_a_nested_language_model_are_found() {
    let config = models::qwen3_5_35b();
    let structure =
        set(&config, &[("layers", 8), ("experts", 16), ("top_k", 2), ("mtp_num_hidden_layers", 0)]).unwrap();
    let mixture = structure.layers[0].mixture.as_ref().unwrap();
    assert_eq!((structure.layers.len(), mixture.experts, mixture.active), (8, 16, 2));
    let whole = set(&config, &[]).unwrap();
    assert_eq!(structure.towers, whole.towers);
    assert_eq!(structure.layers[..8], set(&config, &[("experts", 16), ("top_k", 2)]).unwrap().layers[..8]);
}

#[test]
fn fewer_layers_are_the_first_of_lists_and_keep_the_prediction_layers() {
    let all = [
        models::llama4_scout(),
        models::deepseek_v4_flash(),
        models::glm_5_2(),
        models::kimi_k3(),
        models::nemotron_3_super(),
        models::minimax_m3(),
        models::mimo_v2_flash(),
        models::step_3_7_flash(),
        models::gemma_4_26b(),
        models::nemotron_nas(),
    ];
    for config in all {
        let whole = set(&config, &[]).unwrap();
        let small =
            set(&config, &[("layers", 2)]).unwrap_or_else(|error| panic!("{}: {error:?}", whole.name));
        let split = whole.layers.iter().position(|layer| layer.is_prediction).unwrap_or(whole.layers.len());
        assert_eq!(small.layers, [&whole.layers[..2], &whole.layers[split..]].concat(), "{}", whole.name);
    }
}

#[test]
fn names_that_no_model_or_not_this_one_has_are_refused() {
    let refusal = |config: &str, values: &[(&str, u64)]| set(config, values).unwrap_err();
    let (code, place, text) = refusal(LLAMA, &[("layer", 4)]);
    assert_eq!((&code[..], &place[..]), ("M018", "config.json: --set layer"));
    assert!(text.contains("no key of the configuration") && text.contains("the nearest is layers"), "{text}");
    assert!(refusal(LLAMA, &[("num_hiden_layers", 4)]).2.contains("the nearest is num_hidden_layers"));
    for name in ["experts", "top_k", "expert_ffn", "shared_experts", "dense_layers", "prediction_layers"] {
        let (code, place, text) = refusal(LLAMA, &[("layers", 2), (name, 4)]);
        assert_eq!((code, place), ("M018".to_owned(), format!("config.json: --set {name}")));
        let has = "changes nothing in this model: the model has layers, hidden, heads, kv_heads, ffn, vocabulary, \
                   head_width, window, context, tied";
        assert!(text.ends_with(has), "{text}");
    }
    // A key that is there, and that the architecture does not read.
    let config = json!({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 100, "initializer_range": 0.02, "rope_scaling": {}});
    assert_eq!(refusal(&config.to_string(), &[("initializer_range", 1)]).0, "M018");
    assert!(refusal(&config.to_string(), &[("rope_scaling", 1)]).2.contains("is no number"));
    // The only layers with experts are gone.
    let (code, place, _) =
        refusal(&models::deepseek_v3(), &[("expert_ffn", 4), ("layers", 2), ("prediction_layers", 0)]);
    assert_eq!((&code[..], &place[..]), ("M018", "config.json: --set expert_ffn"));
    assert!(refusal(LLAMA, &[("tied", 2)]).2.contains("write 1 for true"));
}

#[test]
fn absurd_numbers_are_refused_as_those_of_a_file_are() {
    let cases = [
        ("layers", 0, "M015", "config.json"),
        ("layers", 1 << 20, "M013", "config.json: num_hidden_layers"),
        ("layers", u64::MAX, "M013", "config.json: num_hidden_layers"),
        ("hidden", 0, "M013", "config.json: hidden_size"),
        ("hidden", 1 << 28, "M015", "config.json"),
        ("heads", 0, "M013", "config.json: num_attention_heads"),
        ("kv_heads", 3, "M013", "config.json: num_key_value_heads"),
        ("ffn", u64::MAX, "M013", "config.json: intermediate_size"),
        ("vocabulary", 0, "M013", "config.json: vocab_size"),
    ];
    for (name, value, code, place) in cases {
        let (found, at, text) = set(LLAMA, &[(name, value)]).unwrap_err();
        assert_eq!((&found[..], &at[..]), (code, place), "{name}={value}");
        assert!(text.ends_with(&format!("the configuration was read with --set {name}={value}")), "{text}");
    }
    let longer = set(&models::gemma_4_26b(), &[("layers", 31)]).unwrap_err();
    assert!(
        longer.1.ends_with("text_config.layer_types") && longer.2.contains("--set layers=31"),
        "{longer:?}"
    );
}

#[test]
fn what_a_file_lacks_may_be_set() {
    let config = r#"{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100}"#;
    let structure = set(config, &[("ffn", 96), ("layers", 3)]).unwrap();
    assert_eq!(structure.parameters(), 2 * 100 * 64 + 3 * (4 * 64 * 64 + 3 * 64 * 96 + 2 * 64) + 64);
    let (code, place, _) = set(config, &[("layers", 3)]).unwrap_err();
    assert_eq!((&code[..], &place[..]), ("M013", "config.json: intermediate_size"));
}
