//! Layers from tensors and keys: attention of every kind, lists by layer, prediction, sharing.

use stagewright_structure::cache::layer_cache;
use stagewright_structure::{Attention, Encoding, Indexer, Layer, Mixer, QkNorm, Role};

use super::models::small;
use super::writer::{Model, Value};

fn attention(layer: &Layer) -> &Attention {
    match &layer.mixer {
        Mixer::Attention(attention) => attention,
        other => panic!("{other:?}"),
    }
}

/// Plain attention and a gated dense block; `inner` is the width of that.
fn plain(model: &mut Model, layer: u64, [hidden, heads, kv_heads, head, inner]: [u64; 5]) {
    model.layer(
        layer,
        &[
            ("attn_norm", &[hidden]),
            ("attn_q", &[hidden, heads * head]),
            ("attn_k", &[hidden, kv_heads * head]),
            ("attn_v", &[hidden, kv_heads * head]),
            ("attn_output", &[heads * head, hidden]),
            ("ffn_norm", &[hidden]),
            ("ffn_gate", &[hidden, inner]),
            ("ffn_up", &[hidden, inner]),
            ("ffn_down", &[inner, hidden]),
        ],
    );
}

/// DeepSeek-V3 in small: latent attention, a dense layer, experts with a shared one, an indexer, a layer of prediction.
pub(super) fn deepseek() -> Model {
    let (hidden, heads, rank, rotary, head, value, inner) = (64u64, 4u64, 32u64, 8u64, 24u64, 16u64, 48u64);
    let mut model = Model::new("deepseek2", 4, hidden as u32, 100);
    model.key("nextn_predict_layers", 1).key("leading_dense_block_count", 1).key("feed_forward_length", 96);
    model.key("attention.head_count", heads as u32).key("attention.head_count_kv", 1);
    model.key("attention.q_lora_rank", 40).key("attention.kv_lora_rank", rank as u32);
    model.key("attention.key_length", (rank + rotary) as u32).key("attention.value_length", rank as u32);
    model.key("attention.key_length_mla", head as u32).key("attention.value_length_mla", value as u32);
    model.key("rope.dimension_count", rotary as u32);
    model.key("attention.indexer.head_count", 2).key("attention.indexer.key_length", 16);
    model.key("attention.indexer.top_k", 2048);
    model.key("expert_count", 8).key("expert_used_count", 2).key("expert_feed_forward_length", inner as u32);
    model.key("expert_shared_count", 1).key("expert_shared_feed_forward_length", inner as u32);
    for layer in 0..4 {
        model.layer(
            layer,
            &[
                ("attn_norm", &[hidden]),
                ("attn_q_a", &[hidden, 40]),
                ("attn_q_a_norm", &[40]),
                ("attn_q_b", &[40, heads * head]),
                ("attn_kv_a_mqa", &[hidden, rank + rotary]),
                ("attn_kv_a_norm", &[rank]),
                ("attn_k_b", &[head - rotary, rank, heads]),
                ("attn_v_b", &[rank, value, heads]),
                ("attn_output", &[heads * value, hidden]),
                ("indexer.attn_k", &[hidden, 16]),
                ("indexer.attn_q_b", &[40, 32]),
                ("indexer.k_norm", &[16]),
                ("indexer.k_norm.bias", &[16]),
                ("indexer.proj", &[hidden, 2]),
                ("ffn_norm", &[hidden]),
            ],
        );
        if layer == 0 {
            model.layer(
                0,
                &[("ffn_gate", &[hidden, 96]), ("ffn_up", &[hidden, 96]), ("ffn_down", &[96, hidden])],
            );
            continue;
        }
        model.layer(
            layer,
            &[
                ("ffn_gate_inp", &[hidden, 8]),
                ("exp_probs_b.bias", &[8]),
                ("ffn_gate_exps", &[hidden, inner, 8]),
                ("ffn_up_exps", &[hidden, inner, 8]),
                ("ffn_down_exps", &[inner, hidden, 8]),
                ("ffn_gate_shexp", &[hidden, inner]),
                ("ffn_up_shexp", &[hidden, inner]),
                ("ffn_down_shexp", &[inner, hidden]),
            ],
        );
    }
    model.layer(
        3,
        &[("nextn.eh_proj", &[2 * hidden, hidden]), ("nextn.enorm", &[hidden]), ("nextn.hnorm", &[hidden])],
    );
    model
}

#[test]
fn latent_attention_keeps_its_latent_and_rotary_key() {
    let structure = deepseek().structure();
    let Mixer::Latent(latent) = &structure.layers[1].mixer else { panic!("{:?}", structure.layers[1].mixer) };
    assert_eq!((latent.heads, latent.query_rank, latent.rank), (4, Some(40), 32));
    assert_eq!((latent.plain, latent.rotary, latent.value), (16, 8, 16));
    let indexer = Indexer { heads: 2, width: 16, selected: 2048, shared: false };
    assert_eq!(latent.indexer, Some(indexer));
    let bytes = layer_cache(&structure.layers[1], 1000, Encoding::BF16).bytes();
    assert_eq!(bytes, 1000.0 * f64::from((32 + 8 + 16) * 2));
    let mixture = structure.layers[1].mixture.as_ref().unwrap();
    assert_eq!(mixture.shared.as_ref().map(|shared| (shared.inner, shared.scaled)), Some((48, false)));
    assert!(mixture.router_bias && !mixture.bias);
    assert_eq!((structure.layers[0].mixture.as_ref(), structure.layers[1].dense.as_ref()), (None, None));
    assert_eq!(structure.norm, stagewright_structure::Norm::Rms);
}

#[test]
fn early_files_give_the_expanded_widths() {
    let mut model = deepseek();
    model.keys.retain(|(key, _)| !key.ends_with("_mla"));
    for (key, value) in &mut model.keys {
        match key.as_str() {
            "deepseek2.attention.key_length" => *value = Value::U32(24),
            "deepseek2.attention.value_length" => *value = Value::U32(16),
            _ => {}
        }
    }
    assert_eq!(model.structure().layers, deepseek().structure().layers);
}

#[test]
fn the_last_layers_predict_and_may_be_left_out() {
    let structure = deepseek().structure();
    let predicting: Vec<bool> = structure.layers.iter().map(|layer| layer.is_prediction).collect();
    assert_eq!(predicting, [false, false, false, true]);
    let other: Vec<&str> = structure.layers[3].other.iter().map(|weight| weight.name.as_str()).collect();
    assert_eq!(other, ["nextn.eh_proj.weight"]);
    let mut model = deepseek();
    model.tensors.retain(|tensor| !tensor.name.starts_with("blk.3."));
    assert_eq!(model.structure().layers[..], structure.layers[..3]);
    assert_eq!((structure.missing_predictions, model.structure().missing_predictions), (0, 1));
    model.tensors.retain(|tensor| !tensor.name.starts_with("blk.1."));
    assert_eq!(model.read().unwrap_err().code.to_string(), "M014");
}

#[test]
fn lists_give_every_layer_its_widths() {
    let mut model = Model::new("openelm", 3, 64, 100);
    model.key("attention.head_count", &[4, 6, 8][..]).key("attention.head_count_kv", &[1, 2, 4][..]);
    model.key("feed_forward_length", &[32, 64, 96][..]).key("attention.key_length", 16);
    model.key("attention.value_length", 16);
    for (layer, heads, kv_heads, inner) in [(0u64, 4, 1, 32), (1, 6, 2, 64), (2, 8, 4, 96)] {
        plain(&mut model, layer, [64, heads, kv_heads, 16, inner]);
    }
    let structure = model.structure();
    let widths = structure.layers.iter().map(|layer| {
        let attention = attention(layer);
        (attention.heads, attention.kv_heads, layer.dense.as_ref().unwrap().inner)
    });
    assert_eq!(widths.collect::<Vec<_>>(), [(4, 1, 32), (6, 2, 64), (8, 4, 96)]);
    for (key, value) in &mut model.keys {
        if key.ends_with("head_count_kv") {
            *value = Value::Numbers(vec![1, 2]);
        }
    }
    let error = model.read().unwrap_err();
    assert_eq!(
        (error.code.to_string(), error.place.to_string()),
        ("M013".to_owned(), "model.gguf: openelm.attention.head_count_kv".to_owned())
    );
}

/// A model in small with windows by layer, by its architecture and the pattern of its file.
fn windows(architecture: &str, layers: u32, pattern: Option<Value>) -> Vec<bool> {
    let mut model = Model::new(architecture, layers, 64, 100);
    model.key("attention.head_count", 4).key("attention.sliding_window", 512);
    if let Some(pattern) = pattern {
        model.key("attention.sliding_window_pattern", pattern);
    }
    for layer in 0..layers.into() {
        plain(&mut model, layer, [64, 4, 4, 16, 32]);
    }
    let structure = model.structure();
    structure.layers.iter().map(|layer| attention(layer).window == Some(512)).collect()
}

#[test]
fn windows_follow_the_pattern_or_the_architecture() {
    let every = |period: usize, layers: u32| -> Vec<bool> {
        (0..layers as usize).map(|layer| layer % period != period - 1).collect()
    };
    assert_eq!(windows("gemma3", 12, None), every(6, 12));
    assert_eq!(windows("gemma2", 4, None), every(2, 4));
    assert_eq!(windows("plamo3", 16, None), every(8, 16));
    assert_eq!(windows("modern-bert", 6, None), [false, true, true, false, true, true]);
    assert_eq!(windows("smallthinker", 5, None), [false, true, true, true, false]);
    assert_eq!(windows("gemma3", 6, Some(Value::U32(3))), every(3, 6));
    let flags = vec![true, false, false, true];
    assert_eq!(windows("gemma4", 4, Some(Value::Flags(flags.clone()))), flags);
    assert_eq!(windows("llama", 3, None), [false; 3], "llama.cpp gives a Llama no windows");
    assert_eq!(windows("never-seen", 4, Some(Value::U32(2))), every(2, 4));
}

#[test]
fn late_layers_of_gemma_read_the_caches_of_earlier_ones() {
    let mut model = Model::new("gemma4", 6, 64, 100);
    model.key("attention.head_count", 4).key("attention.head_count_kv", &[2, 2, 1, 2, 2, 1][..]);
    model.key("attention.key_length", 32).key("attention.value_length", 32);
    model.key("attention.key_length_swa", 16).key("attention.value_length_swa", 16);
    model.key("attention.sliding_window", 512).key("attention.shared_kv_layers", 3);
    model.key("attention.sliding_window_pattern", Value::Flags([true, true, false].repeat(2)));
    for layer in 0..6u64 {
        let (kv_heads, head) = if layer % 3 == 2 { (1, 32) } else { (2, 16) };
        plain(&mut model, layer, [64, 4, kv_heads, head, 32]);
    }
    model
        .tensors
        .retain(|tensor| !["blk.4.attn_k.weight", "blk.4.attn_v.weight"].contains(&tensor.name.as_str()));
    let structure = model.structure();
    let read: Vec<Option<u64>> =
        structure.layers.iter().map(|layer| attention(layer).shares_cache_of).collect();
    assert_eq!(read, [None, None, None, Some(1), Some(1), Some(2)]);
    assert_eq!((attention(&structure.layers[0]).key, attention(&structure.layers[2]).key), (16, 32));
}

#[test]
fn details_of_attention_follow_from_tensors() {
    let mut model = Model::new("details", 1, 64, 100);
    model.key("attention.head_count", 4).key("attention.head_count_kv", 2).key("attention.key_length", 16);
    model.key("attention.value_length", 16).key("rope.dimension_count", 8);
    model.layer(
        0,
        &[
            ("attn_norm", &[64]),
            ("attn_q", &[64, 128]),
            ("attn_q.bias", &[128]),
            ("attn_k", &[64, 32]),
            ("attn_output", &[64, 64]),
            ("attn_output.bias", &[64]),
            ("attn_q_norm", &[16, 4]),
            ("attn_k_norm", &[16, 2]),
            ("ffn_up", &[64, 96]),
            ("ffn_down", &[48, 64]),
            ("wholly_new", &[64, 3]),
        ],
    );
    model.tensor("rope_freqs.weight", &[4], super::writer::F32);
    let structure = model.structure();
    let layer = &structure.layers[0];
    let attention = attention(layer);
    assert!(attention.gate && attention.bias && attention.output_bias && attention.values_are_keys);
    assert_eq!((attention.qk_norm, attention.rotary), (QkNorm::EachHead, 8));
    let dense = layer.dense.as_ref().unwrap();
    assert_eq!((dense.inner, dense.gated, layer.norms, layer.parallel), (48, true, 1, true));
    let role = |name: &str| structure.tensors.iter().find(|tensor| tensor.name == name).unwrap().role;
    assert_eq!((role("blk.0.ffn_up.weight"), role("blk.0.wholly_new.weight")), (Role::GateUp, Role::Other));
    assert_eq!(
        (layer.other[0].name.as_str(), layer.other[0].shape.as_slice()),
        ("wholly_new.weight", &[3, 64][..])
    );
    assert_eq!(structure.other[0].name, "rope_freqs.weight");
    assert_eq!(structure.head.map(|head| head.tied), Some(true), "there is no output.weight");
}

#[test]
fn unknown_keys_and_architectures_with_known_tensors_are_read() {
    let mut model = small();
    let expected = model.structure();
    model.general("general.tags", Value::Texts(vec!["new".to_owned()])).key("wholly.new", Value::I32(-1));
    model.keys.push(("llama.new_list".to_owned(), Value::Numbers((0..20_000).collect())));
    assert_eq!(model.structure().layers, expected.layers);
    for (key, value) in &mut model.keys {
        *key = key.replace("llama.", "never-seen.");
        if key == "general.architecture" {
            *value = "never-seen".into();
        }
    }
    let structure = model.structure();
    assert_eq!((structure.architecture.as_str(), &structure.layers), ("never-seen", &expected.layers));
}

#[test]
fn contradictions_name_the_tensor_or_the_key() {
    type Change = fn(&mut Model);
    let place = |change: Change| {
        let mut model = deepseek();
        change(&mut model);
        let error = model.read().unwrap_err();
        (error.code.to_string(), error.place.to_string().replace("model.gguf: ", ""))
    };
    let expect = |change: Change, code: &str, name: &str| {
        assert_eq!(place(change), (code.to_owned(), name.to_owned()));
    };
    expect(|model| reset(model, "attention.kv_lora_rank", 31), "M017", "blk.0.attn_kv_a_mqa.weight");
    expect(|model| reset(model, "attention.head_count", 3), "M017", "blk.0.attn_output.weight");
    expect(|model| reset(model, "expert_count", 7), "M017", "blk.1.ffn_down_exps.weight");
    expect(|model| reset(model, "expert_used_count", 9), "M013", "deepseek2.expert_used_count");
    expect(|model| reset(model, "leading_dense_block_count", 2), "M017", "blk.1.ffn_down_exps.weight");
    expect(|model| reset(model, "feed_forward_length", 95), "M017", "blk.0.ffn_down.weight");
    expect(
        |model| reset(model, "expert_shared_feed_forward_length", 47),
        "M017",
        "blk.1.ffn_down_shexp.weight",
    );
    expect(|model| reset(model, "nextn_predict_layers", 4), "M013", "deepseek2.nextn_predict_layers");
    expect(|model| reset(model, "block_count", 3), "M017", "blk.3.attn_norm.weight");
    expect(|model| reset(model, "block_count", 100_000), "M015", "deepseek2.block_count");
    expect(|model| reset(model, "embedding_length", 0), "M013", "deepseek2.embedding_length");
    expect(
        |model| model.keys.retain(|(key, _)| !key.ends_with("q_lora_rank")),
        "M013",
        "deepseek2.attention.q_lora_rank",
    );
    expect(
        |model| model.keys.retain(|(key, _)| !key.ends_with("block_count")),
        "M014",
        "deepseek2.block_count",
    );
    expect(|model| model.keys.retain(|(key, _)| !key.starts_with("general")), "M013", "general.architecture");
}

fn reset(model: &mut Model, name: &str, value: u32) {
    let key = format!("deepseek2.{name}");
    model.keys.retain(|(known, _)| *known != key);
    model.key(name, value);
}
