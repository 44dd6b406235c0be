//! Architectures of GPT-2's to Gemma 3's time: parameters of published checkpoints, windows, positions and caches.
//!
//! Configurations have the figures of the `config.json` beside the checkpoint of their name on huggingface.co, and the
//! counts are those of its tensors.

use stagewright_structure::cache::cache_bytes;
use stagewright_structure::huggingface::{Reading, read};
use stagewright_structure::{Attention, Encoding, Layer, Mixer, Structure};

/// Keys of `model_type`, checkpoint, other keys, and the number of parameters.
type Published = (&'static str, &'static str, &'static str, u64);

const GPT_LIKE: &[Published] = &[
    (
        "gpt2",
        "openai-community/gpt2",
        r#""n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257"#,
        124_439_808,
    ),
    (
        "gpt2",
        "openai-community/gpt2-xl",
        r#""n_embd": 1600, "n_layer": 48, "n_head": 25, "n_positions": 1024, "n_inner": null, "vocab_size": 50257"#,
        1_557_611_200,
    ),
    (
        "gpt_bigcode",
        "bigcode/starcoder",
        r#""n_embd": 6144, "n_layer": 40, "n_head": 48, "n_inner": 24576, "n_positions": 8192, "vocab_size": 49152"#,
        15_517_456_384,
    ),
    (
        "gpt_neox",
        "EleutherAI/gpt-neox-20b",
        r#""hidden_size": 6144, "intermediate_size": 24576, "num_hidden_layers": 44, "num_attention_heads": 64,
        "vocab_size": 50432, "rotary_pct": 0.25, "tie_word_embeddings": false"#,
        20_554_567_680,
    ),
    (
        "gpt_neox",
        "EleutherAI/pythia-6.9b",
        r#""hidden_size": 4096, "intermediate_size": 16384, "num_hidden_layers": 32, "num_attention_heads": 32,
        "vocab_size": 50432"#,
        6_857_302_016,
    ),
    (
        "bloom",
        "bigscience/bloom",
        r#""n_embed": 14336, "n_layer": 70, "num_attention_heads": 112, "vocab_size": 250880"#,
        176_247_271_424,
    ),
    (
        "opt",
        "facebook/opt-125m",
        r#""hidden_size": 768, "ffn_dim": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
        "word_embed_proj_dim": 768, "max_position_embeddings": 2048, "vocab_size": 50272"#,
        125_239_296,
    ),
    (
        "opt",
        "facebook/opt-350m",
        r#""hidden_size": 1024, "ffn_dim": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
        "word_embed_proj_dim": 512, "do_layer_norm_before": false, "max_position_embeddings": 2048,
        "vocab_size": 50272"#,
        331_196_416,
    ),
    (
        "falcon",
        "tiiuae/falcon-7b",
        // The checkpoint holds the table of tokens twice, although the model ties them.
        r#""hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71, "vocab_size": 65024,
        "multi_query": true, "parallel_attn": true, "bias": false, "tie_word_embeddings": false"#,
        7_217_189_760,
    ),
    (
        "falcon",
        "tiiuae/falcon-40b, tied",
        r#""hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128, "num_kv_heads": 8,
        "vocab_size": 65024, "new_decoder_architecture": true, "parallel_attn": true, "bias": false"#,
        41_303_293_952,
    ),
    (
        "falcon",
        "tiiuae/falcon-11B",
        r#""hidden_size": 4096, "num_hidden_layers": 60, "num_attention_heads": 32, "num_kv_heads": 8,
        "vocab_size": 65024, "new_decoder_architecture": true, "num_ln_in_parallel_attn": 1,
        "ffn_hidden_size": 16384, "tie_word_embeddings": false"#,
        11_102_822_400,
    ),
];

const LLAMA_LIKE: &[Published] = &[
    (
        "mistral",
        "mistralai/Mistral-Nemo-Base-2407",
        r#""hidden_size": 5120, "intermediate_size": 14336, "num_hidden_layers": 40, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "sliding_window": null, "vocab_size": 131072"#,
        12_247_782_400,
    ),
    (
        "qwen2",
        "Qwen/Qwen2.5-7B",
        r#""hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
        "num_key_value_heads": 4, "vocab_size": 152064, "tie_word_embeddings": false"#,
        7_615_616_512,
    ),
    (
        "phi",
        "microsoft/phi-2",
        r#""hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32, "num_attention_heads": 32,
        "vocab_size": 51200, "partial_rotary_factor": 0.4"#,
        2_779_683_840,
    ),
    (
        "phi3",
        "microsoft/Phi-3-mini-4k-instruct",
        r#""hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 32, "sliding_window": 2047, "vocab_size": 32064"#,
        3_821_079_552,
    ),
    (
        "cohere",
        "CohereLabs/c4ai-command-r-plus",
        r#""hidden_size": 12288, "intermediate_size": 33792, "num_hidden_layers": 64, "num_attention_heads": 96,
        "num_key_value_heads": 8, "use_qk_norm": true, "vocab_size": 256000"#,
        103_810_674_688,
    ),
    (
        "cohere2",
        "CohereLabs/c4ai-command-r7b-12-2024",
        r#""hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 256000"#,
        8_028_033_024,
    ),
    (
        "starcoder2",
        "bigcode/starcoder2-3b",
        r#""hidden_size": 3072, "intermediate_size": 12288, "num_hidden_layers": 30, "num_attention_heads": 24,
        "num_key_value_heads": 2, "use_bias": true, "vocab_size": 49152"#,
        3_030_371_328,
    ),
    (
        "olmo",
        "allenai/OLMo-1B-hf",
        r#""hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 16,
        "num_key_value_heads": 16, "tie_word_embeddings": true, "vocab_size": 50304"#,
        1_176_764_416,
    ),
    (
        "olmo2",
        "allenai/OLMo-2-0325-32B",
        r#""hidden_size": 5120, "intermediate_size": 27648, "num_hidden_layers": 64, "num_attention_heads": 40,
        "num_key_value_heads": 8, "tie_word_embeddings": false, "vocab_size": 100352"#,
        32_234_279_936,
    ),
    (
        "granite",
        "ibm-granite/granite-3.1-8b-base",
        r#""hidden_size": 4096, "intermediate_size": 12800, "num_hidden_layers": 40, "num_attention_heads": 32,
        "num_key_value_heads": 8, "tie_word_embeddings": true, "vocab_size": 49155"#,
        8_170_848_256,
    ),
    (
        "stablelm",
        "stabilityai/stablelm-2-1_6b",
        r#""hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 24, "num_attention_heads": 32,
        "num_key_value_heads": 32, "use_qkv_bias": true, "tie_word_embeddings": false, "vocab_size": 100352"#,
        1_644_515_328,
    ),
    (
        "stablelm",
        "stabilityai/stablelm-2-12b",
        r#""hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 40, "num_attention_heads": 32,
        "num_key_value_heads": 8, "qk_layernorm": true, "use_parallel_residual": true,
        "tie_word_embeddings": false, "vocab_size": 100352"#,
        12_143_185_920,
    ),
    (
        "smollm3",
        "HuggingFaceTB/SmolLM3-3B",
        r#""hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36, "num_attention_heads": 16,
        "num_key_value_heads": 4, "vocab_size": 128256"#,
        3_075_098_624,
    ),
    (
        "lfm2",
        "LiquidAI/LFM2-1.2B",
        r#""hidden_size": 2048, "intermediate_size": 12288, "block_ff_dim": 12288, "block_multiple_of": 256,
        "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": true, "num_hidden_layers": 16,
        "num_attention_heads": 32, "num_key_value_heads": 8, "full_attn_idxs": [2, 5, 8, 10, 12, 14],
        "tie_embedding": true, "conv_L_cache": 3, "vocab_size": 65536"#,
        1_170_340_608,
    ),
];

const GEMMA_3_4B: &str = r#""text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
        "num_hidden_layers": 34, "sliding_window": 1024},
        "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1152, "image_size": 896,
        "intermediate_size": 4304, "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14,
        "vision_use_head": false}"#;

const GEMMAS: &[Published] = &[
    (
        "gemma",
        "google/gemma-2b",
        r#""hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18, "num_attention_heads": 8,
        "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 256000"#,
        2_506_172_416,
    ),
    (
        "gemma2",
        "google/gemma-2-9b",
        r#""hidden_size": 3584, "intermediate_size": 14336, "num_hidden_layers": 42, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 256, "sliding_window": 4096, "vocab_size": 256000"#,
        9_241_705_984,
    ),
    (
        "gemma3_text",
        "google/gemma-3-1b-pt",
        r#""hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26, "num_attention_heads": 4,
        "num_key_value_heads": 1, "head_dim": 256, "sliding_window": 512, "sliding_window_pattern": 6,
        "vocab_size": 262144"#,
        999_885_952,
    ),
    ("gemma3", "google/gemma-3-4b-pt", GEMMA_3_4B, 4_300_079_472),
];

const MIXTURES: &[Published] = &[
    (
        "mixtral",
        "mistralai/Mixtral-8x7B-v0.1",
        r#""hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000"#,
        46_702_792_704,
    ),
    (
        "qwen2_moe",
        "Qwen/Qwen1.5-MoE-A2.7B",
        r#""hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 24, "num_attention_heads": 16,
        "num_key_value_heads": 16, "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632, "decoder_sparse_step": 1, "vocab_size": 151936"#,
        14_315_784_192,
    ),
    (
        "qwen3_moe",
        "Qwen/Qwen3-30B-A3B",
        r#""hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48, "num_attention_heads": 32,
        "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
        "moe_intermediate_size": 768, "decoder_sparse_step": 1, "mlp_only_layers": [], "vocab_size": 151936"#,
        30_532_122_624,
    ),
];

const ENCODERS: &[Published] = &[
    (
        "bert",
        "google-bert/bert-base-uncased, without its head",
        r#""hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
        "max_position_embeddings": 512, "type_vocab_size": 2, "vocab_size": 30522"#,
        109_482_240,
    ),
    (
        "roberta",
        "FacebookAI/roberta-base, without its head",
        r#""hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
        "max_position_embeddings": 514, "type_vocab_size": 1, "vocab_size": 50265"#,
        124_645_632,
    ),
    (
        "vit",
        "google/vit-base-patch16-224-in21k",
        r#""architectures": ["ViTModel"], "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
        "num_attention_heads": 12, "image_size": 224, "patch_size": 16"#,
        86_389_248,
    ),
    (
        "vit",
        "google/vit-base-patch16-224",
        r#""hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
        "image_size": 224, "patch_size": 16, "num_labels": 1000"#,
        86_567_656,
    ),
    (
        "t5",
        "google-t5/t5-base",
        r#""d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 12, "num_heads": 12, "n_positions": 512,
        "vocab_size": 32128"#,
        222_903_552,
    ),
    (
        "t5",
        "google/flan-t5-base",
        r#""d_model": 768, "d_kv": 64, "d_ff": 2048, "num_layers": 12, "num_heads": 12, "n_positions": 512,
        "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false, "vocab_size": 32128"#,
        247_577_856,
    ),
    (
        "whisper",
        "openai/whisper-large-v3",
        r#""d_model": 1280, "encoder_layers": 32, "encoder_attention_heads": 20, "encoder_ffn_dim": 5120,
        "decoder_layers": 32, "decoder_attention_heads": 20, "decoder_ffn_dim": 5120, "num_mel_bins": 128,
        "max_source_positions": 1500, "max_target_positions": 448, "vocab_size": 51866"#,
        1_543_490_560,
    ),
];

fn structure(kind: &str, keys: &str) -> Structure {
    let text = format!(r#"{{"model_type": "{kind}", {keys}}}"#);
    read("config.json", text.as_bytes(), None, &Reading::default())
        .unwrap_or_else(|error| panic!("{kind}: {error}"))
}

fn published(checkpoint: &str) -> Structure {
    let all = [GPT_LIKE, LLAMA_LIKE, GEMMAS, MIXTURES, ENCODERS].concat();
    let (kind, _, keys, _) = all.iter().find(|(_, name, ..)| *name == checkpoint).unwrap();
    structure(kind, keys)
}

fn attentions(structure: &Structure) -> Vec<&Attention> {
    fn attention(layer: &Layer) -> &Attention {
        let Mixer::Attention(attention) = &layer.mixer else { panic!("{layer:?} has no attention") };
        attention
    }
    structure.layers.iter().map(attention).collect()
}

fn shape<'a>(structure: &'a Structure, name: &str) -> &'a [u64] {
    let tensor = structure.tensors.iter().find(|tensor| tensor.name == name);
    &tensor.unwrap_or_else(|| panic!("no tensor `{name}`")).shape
}

#[test]
fn parameters_are_those_of_checkpoints() {
    for (kind, checkpoint, keys, parameters) in [GPT_LIKE, LLAMA_LIKE, GEMMAS, MIXTURES, ENCODERS].concat() {
        let structure = structure(kind, keys);
        assert_eq!(structure.parameters(), parameters, "{checkpoint}");
        assert_eq!(structure.architecture, kind);
        let mut names: Vec<&str> = structure.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), structure.tensors.len(), "{checkpoint} has a name twice");
    }
}

#[test]
fn names_and_shapes_are_those_of_checkpoints() {
    let gpt2 = published("openai-community/gpt2");
    assert_eq!(shape(&gpt2, "transformer.h.11.attn.c_attn.weight"), [768, 3 * 768]);
    assert_eq!(shape(&gpt2, "transformer.h.0.mlp.c_proj.weight"), [4 * 768, 768]);
    let starcoder = published("bigcode/starcoder");
    assert_eq!(shape(&starcoder, "transformer.h.0.attn.c_attn.weight"), [6144 + 2 * 128, 6144]);
    let falcon = published("tiiuae/falcon-40b, tied");
    let fused = "transformer.h.0.self_attention.query_key_value.weight";
    assert_eq!(shape(&falcon, fused), [(128 + 2 * 8) * 64, 8192]);
    assert_eq!(shape(&falcon, "transformer.h.59.ln_mlp.bias"), [8192]);
    let mixtral = published("mistralai/Mixtral-8x7B-v0.1");
    let down = "model.layers.0.block_sparse_moe.experts.*.w2.weight";
    assert_eq!(shape(&mixtral, down), [8, 4096, 14336]);
    let stablelm = published("stabilityai/stablelm-2-12b");
    assert_eq!(shape(&stablelm, "model.layers.0.self_attn.k_layernorm.norms.*.weight"), [8, 160]);
    let gemma = published("google/gemma-3-4b-pt");
    let positions = "vision_tower.vision_model.embeddings.position_embedding.weight";
    assert_eq!(shape(&gemma, positions), [64 * 64, 1152]);
    assert_eq!(shape(&gemma, "language_model.model.layers.33.self_attn.q_norm.weight"), [256]);
    let t5 = published("google/flan-t5-base");
    assert_eq!(shape(&t5, "encoder.block.11.layer.1.DenseReluDense.wi_1.weight"), [2048, 768]);
    assert_eq!(shape(&t5, "decoder.block.11.layer.1.EncDecAttention.k.weight"), [768, 768]);
}

#[test]
fn windows_follow_the_period_of_the_architecture() {
    let window = |checkpoint: &str| {
        let structure = published(checkpoint);
        attentions(&structure).iter().map(|attention| attention.window).collect::<Vec<_>>()
    };
    let every = |period: usize, layers: usize, window: u64| {
        (1..=layers).map(|count| (count % period != 0).then_some(window)).collect::<Vec<_>>()
    };
    assert_eq!(window("google/gemma-2-9b"), every(2, 42, 4096));
    assert_eq!(window("google/gemma-3-1b-pt"), every(6, 26, 512));
    assert_eq!(window("google/gemma-3-4b-pt"), every(6, 34, 1024));
    assert_eq!(window("CohereLabs/c4ai-command-r7b-12-2024"), every(4, 32, 4096));
    assert_eq!(window("microsoft/Phi-3-mini-4k-instruct"), [Some(2047); 32]);
    assert_eq!(window("google/gemma-2b"), [None; 18]);
    assert_eq!(window("mistralai/Mistral-Nemo-Base-2407"), [None; 40]);
}

#[test]
fn windows_of_qwen_begin_after_the_layers_without_one() {
    let keys = r#""hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4,
        "sliding_window": 32, "max_window_layers": 3, "vocab_size": 100"#;
    let window = |more: &str| {
        let structure = structure("qwen2", &format!("{keys}{more}"));
        attentions(&structure).iter().map(|attention| attention.window).collect::<Vec<_>>()
    };
    assert_eq!(window(""), [None; 4]);
    assert_eq!(window(r#", "use_sliding_window": true"#), [None, None, None, Some(32)]);
    let listed =
        r#", "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]"#;
    assert_eq!(window(listed), [None, Some(32), Some(32), None]);
}

#[test]
fn positions_rotate_parts_of_heads_or_none() {
    let rotary = |checkpoint: &str| {
        let structure = published(checkpoint);
        attentions(&structure).iter().map(|attention| attention.rotary).collect::<Vec<_>>()
    };
    assert_eq!(rotary("EleutherAI/gpt-neox-20b")[0], 24);
    assert_eq!(rotary("microsoft/phi-2")[0], 32);
    assert_eq!(rotary("stabilityai/stablelm-2-1_6b")[0], 16);
    assert_eq!(rotary("openai-community/gpt2")[0], 0);
    assert_eq!(rotary("HuggingFaceTB/SmolLM3-3B")[..5], [128, 128, 128, 0, 128]);
    assert_eq!(rotary("CohereLabs/c4ai-command-r7b-12-2024")[..5], [128, 128, 128, 0, 128]);
}

#[test]
fn caches_follow_the_heads_and_windows() {
    let bytes = |checkpoint: &str, context: u64| cache_bytes(&published(checkpoint), context, Encoding::BF16);
    // One head of keys and one of values, of 64 numbers of two bytes, in 32 layers.
    assert_eq!(bytes("tiiuae/falcon-7b", 2048), 2048.0 * 32.0 * 2.0 * 64.0 * 2.0);
    // Of 34 layers, 5 see everything and 29 the last 1024 tokens.
    let width = 4.0 * 2.0 * 256.0 * 2.0;
    assert_eq!(bytes("google/gemma-3-4b-pt", 131_072), width * (5.0 * 131_072.0 + 29.0 * 1024.0));
}

#[test]
fn experts_take_the_layers_that_are_no_dense_ones() {
    let keys = r#""hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 6, "num_attention_heads": 4,
        "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "decoder_sparse_step": 2,
        "mlp_only_layers": [3], "vocab_size": 100"#;
    let layers = structure("qwen3_moe", keys).layers;
    let mixtures: Vec<bool> = layers.iter().map(|layer| layer.mixture.is_some()).collect();
    assert_eq!(mixtures, [false, true, false, false, false, true]);
    assert!(layers.iter().all(|layer| layer.mixture.is_some() != layer.dense.is_some()));
}
