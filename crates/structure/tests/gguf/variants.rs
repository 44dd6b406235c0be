//! Architectures that name or count things in a way of their own, and files without layers.

use stagewright_structure::{Embedding, Head, Mixer, Norm, Role};

use super::writer::{F16, Model};

/// A model of one layer with attention of four heads of width 16.
fn with_attention(architecture: &str) -> Model {
    let mut model = Model::new(architecture, 1, 64, 100);
    model.key("attention.head_count", 4);
    model.layer(
        0,
        &[("attn_q", &[64, 64]), ("attn_k", &[64, 64]), ("attn_v", &[64, 64]), ("attn_output", &[64, 64])],
    );
    model
}

#[test]
fn early_files_have_a_tensor_for_each_expert() {
    let mut model = with_attention("llama");
    model.key("expert_count", 3).key("expert_used_count", 2);
    model.layer(0, &[("attn_norm", &[64]), ("ffn_norm", &[64]), ("ffn_gate_inp", &[64, 3])]);
    for expert in 0..3 {
        for (name, dimensions) in [("gate", [64, 96]), ("up", [64, 96]), ("down", [96, 64])] {
            model.tensor(&format!("blk.0.ffn_{name}.{expert}.weight"), &dimensions, F16);
        }
    }
    let structure = model.structure();
    let layer = &structure.layers[0];
    let mixture = layer.mixture.as_ref().unwrap();
    assert_eq!((mixture.experts, mixture.active, mixture.inner, mixture.gated), (3, 2, 96, true));
    assert_eq!((layer.dense.as_ref(), layer.norms, layer.parallel), (None, 2, false));
    assert_eq!(structure.tensors.iter().filter(|tensor| tensor.role.is_expert()).count(), 9);
}

#[test]
fn queries_keys_and_values_may_be_one_tensor_with_a_gate() {
    let gate = |outputs: u64| -> Result<bool, String> {
        let mut model = Model::new("fused", 1, 64, 100);
        model.key("attention.head_count", 4).key("attention.head_count_kv", 2);
        model.layer(0, &[("attn_qkv", &[64, outputs]), ("attn_output", &[64, 64])]);
        let structure = model.read().map_err(|error| error.place.to_string())?;
        match &structure.layers[0].mixer {
            Mixer::Attention(attention) => Ok(attention.gate),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(gate(64 + 32 + 32), Ok(false));
    assert_eq!(gate(2 * 64 + 32 + 32), Ok(true));
    assert_eq!(gate(64 + 32), Err("model.gguf: blk.0.attn_qkv.weight".to_owned()));
}

#[test]
fn the_first_qwen_counts_gate_and_projection_up_together() {
    let mut model = with_attention("qwen");
    model.key("feed_forward_length", 192);
    model.layer(0, &[("ffn_gate", &[64, 96]), ("ffn_up", &[64, 96]), ("ffn_down", &[96, 64])]);
    assert_eq!(model.structure().layers[0].dense.as_ref().unwrap().inner, 96);
}

#[test]
fn deepseek_v4_compresses_earlier_tokens() {
    let mut model = Model::new("deepseek4", 2, 64, 100);
    model.key("attention.head_count", 4).key("attention.key_length", 16).key("rope.dimension_count", 8);
    model.key("attention.q_lora_rank", 24).key("attention.sliding_window", 128);
    model.key("attention.output_group_count", 2).key("attention.output_lora_rank", 12);
    model.key("attention.compress_ratios", &[4, 128][..]).key("attention.indexer.head_count", 2);
    model.key("attention.indexer.key_length", 8).key("attention.indexer.top_k", 512);
    for layer in 0..2 {
        model.layer(
            layer,
            &[
                ("attn_q_a", &[64, 24]),
                ("attn_q_b", &[24, 64]),
                ("attn_kv", &[64, 16]),
                ("attn_output_a", &[32, 24]),
                ("attn_output_b", &[24, 64]),
                ("attn_compressor_kv", &[64, 16]),
                ("ffn_up", &[64, 96]),
                ("ffn_down", &[96, 64]),
            ],
        );
    }
    model.layer(0, &[("indexer.proj", &[64, 2]), ("indexer.attn_q_b", &[24, 16])]);
    let structure = model.structure();
    let compressed = structure.layers.iter().map(|layer| match &layer.mixer {
        Mixer::Compressed(compressed) => compressed,
        other => panic!("{other:?}"),
    });
    let compressed: Vec<_> = compressed.collect();
    assert_eq!((compressed[0].ratio, compressed[1].ratio, compressed[0].window), (4, 128, 128));
    assert_eq!(
        (compressed[0].output_groups, compressed[0].output_rank, compressed[0].query_rank),
        (2, 12, 24)
    );
    assert_eq!(compressed[0].indexer.as_ref().map(|indexer| indexer.selected), Some(512));
    assert_eq!(compressed[1].indexer, None);
}

#[test]
fn encoders_have_tables_of_positions_and_no_head() {
    let mut model = with_attention("bert");
    model.key("attention.causal", false).key("attention.layer_norm_epsilon", 1e-12f32);
    model.layer(
        0,
        &[("attn_output_norm", &[64]), ("attn_output_norm.bias", &[64]), ("layer_output_norm", &[64])],
    );
    model.layer(0, &[("ffn_up", &[64, 96]), ("ffn_down", &[96, 64])]);
    model.tensor("position_embd.weight", &[64, 512], F16).tensor("token_types.weight", &[64, 2], F16);
    model.tensor("token_embd_norm.weight", &[64], F16);
    let structure = model.structure();
    let embedding = Embedding { width: None, positions: 512, token_types: 2, norm: true };
    assert_eq!((structure.embedding, structure.head, structure.norm), (embedding, None, Norm::Layer));
    let Mixer::Attention(attention) = &structure.layers[0].mixer else {
        panic!("{:?}", structure.layers[0].mixer)
    };
    assert!(attention.bidirectional && attention.rotary == 0);
    assert_eq!((structure.layers[0].norms, structure.layers[0].parallel), (2, false));
}

#[test]
fn lfm2_names_its_last_normalisation_after_the_table() {
    let mut model = with_attention("lfm2");
    model.key("attention.head_count_kv", 4);
    model.layer(0, &[("ffn_up", &[64, 96]), ("ffn_down", &[96, 64])]);
    model.tensors[1].name = "token_embd_norm.weight".to_owned();
    let structure = model.structure();
    assert!(structure.final_norm && !structure.embedding.norm);
    assert_eq!(structure.head, Some(Head { tied: true, bias: false }));
}

#[test]
fn files_without_layers_say_what_is_missing() {
    let refused = |model: &Model| {
        let error = model.read().unwrap_err();
        (error.code.to_string(), error.place.to_string(), error.help)
    };
    let mut encoder = Model::new("clip", 1, 64, 100);
    encoder.keys.retain(|(key, _)| key == "general.architecture");
    encoder.tensor("v.blk.0.attn_q.weight", &[64, 64], F16);
    let (code, place, help) = refused(&encoder);
    assert_eq!((code.as_str(), place.as_str()), ("M014", "model.gguf: clip.block_count"));
    assert!(help.contains("not that of an encoder of images"), "{help}");

    let mut other = Model::new("t5", 1, 64, 100);
    other.tensor("dec.blk.0.attn_q.weight", &[64, 64], F16);
    assert_eq!(refused(&other).0, "M014");

    let mut unnamed = Model::new("never-seen", 1, 64, 100);
    unnamed.layer(0, &[("wholly_new", &[64, 64])]);
    let (code, place, help) = refused(&unnamed);
    assert_eq!((code.as_str(), place.as_str()), ("M014", "model.gguf: blk.0"));
    assert!(help.contains("attention.head_count_kv") && help.contains("`never-seen`"), "{help}");
}

#[test]
fn a_tower_beside_the_layers_keeps_its_role() {
    let mut model = with_attention("llama");
    model.tensor("v.blk.0.attn_q.weight", &[64, 64], F16);
    let structure = model.structure();
    assert_eq!(structure.tensors.last().map(|tensor| (tensor.role, tensor.layer)), Some((Role::Tower, None)));
}
