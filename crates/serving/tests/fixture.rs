//! Small models, a device and an engine whose figures are easy to follow by hand.

use std::collections::BTreeMap;

use stagewright_core::document::{LinkDocument, Precision};
use stagewright_serving::{Device, Engine, MemoryOf, Model};
use stagewright_structure::huggingface::{self, Reading};

/// A dense model of 2 layers: hidden 1024, 8 heads of 128, 2 heads of keys, inner width 4096, vocabulary 32000.
pub(crate) const DENSE: &str = r#"{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 1024,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 4096,
    "vocab_size": 32000, "tie_word_embeddings": false, "torch_dtype": "bfloat16"}"#;

/// A mixture of 3 layers: hidden 512, 4 heads of 128, 8 experts of inner width 1024, 2 a token, vocabulary 1000.
pub(crate) const MIXTURE: &str = r#"{"model_type": "mixtral", "num_hidden_layers": 3, "hidden_size": 512,
    "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 1024,
    "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 1000, "tie_word_embeddings": false,
    "torch_dtype": "bfloat16"}"#;

/// Latent attention and experts of 4 layers, the first of which is dense.
pub(crate) const LATENT: &str = r#"{"model_type": "deepseek_v3", "num_hidden_layers": 4, "hidden_size": 512,
    "num_attention_heads": 8, "num_key_value_heads": 8, "intermediate_size": 2048, "moe_intermediate_size": 256,
    "n_routed_experts": 16, "n_shared_experts": 1, "num_experts_per_tok": 4, "first_k_dense_replace": 1,
    "moe_layer_freq": 1, "kv_lora_rank": 128, "q_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32,
    "v_head_dim": 64, "vocab_size": 1000, "tie_word_embeddings": false, "torch_dtype": "bfloat16"}"#;

/// Linear attention in three layers of four, and sliding windows are in gpt-oss alone.
pub(crate) const WINDOW: &str = r#"{"model_type": "gpt_oss", "num_hidden_layers": 4, "hidden_size": 512,
    "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 512,
    "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 128, "vocab_size": 1000,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
    "tie_word_embeddings": false, "quantization_config": {"quant_method": "mxfp4"}}"#;

/// All models.
pub(crate) const ALL: [&str; 4] = [DENSE, MIXTURE, LATENT, WINDOW];

/// The work of a configuration.
pub(crate) fn model(config: &str) -> Model {
    let structure = huggingface::read("config.json", config.as_bytes(), None, &Reading::default());
    Model::new("config.json", &structure.expect("a configuration")).expect("a decoder")
}

/// A device with 100 TFLOP/s, 1 TB/s and 10 GB, in servers of 8.
pub(crate) fn device() -> Device {
    let peaks = BTreeMap::from([(Precision::Bf16, 1e14), (Precision::Fp32, 1e13)]);
    Device {
        name: "test".into(),
        peaks,
        bandwidth: 1e12,
        memory: 10e9,
        inside: LinkDocument { latency_s: 1e-6, bandwidth: 1e11 },
        between: LinkDocument { latency_s: 1e-5, bandwidth: 1e10 },
        server: 8,
    }
}

/// An engine that loses nothing: all shares are 1, and there are no overheads.
pub(crate) fn ideal() -> Engine {
    Engine {
        name: "ideal".into(),
        source: "tests".into(),
        memory_share: 1.0,
        memory_of: MemoryOf::Total,
        outside_bytes: 0.0,
        chunk: 8192,
        weight_bandwidth: 1.0,
        expert_bandwidth: 1.0,
        cache_bandwidth: 1.0,
        products: 1.0,
        expert_products: 1.0,
        attention: 1.0,
        link: 1.0,
        hop_s: 0.0,
        decoding: 0.0,
        decode_share: 1.0,
        handoff_s: 0.0,
        activations: 0.0,
        launch_s: 0.0,
        sequence_s: 0.0,
        prompt_share: 1.0,
        wait_steps: 0.0,
        wait_s: 0.0,
        burst: 0.0,
    }
}

/// Whether two numbers are equal but for rounding.
pub(crate) fn near(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-9 * left.abs().max(right.abs())
}
