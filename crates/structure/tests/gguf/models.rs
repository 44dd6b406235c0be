//! Models as llama.cpp converts them, with the widths of their papers.

use super::writer::{F32, MXFP4, Model, Q4_K, Q5_K, Q6_K, Q8_0};

/// Widths of a decoder.
pub(super) struct Widths {
    pub(super) layers: u32,
    pub(super) hidden: u64,
    pub(super) heads: u64,
    pub(super) kv_heads: u64,
    pub(super) head: u64,
    pub(super) inner: u64,
    pub(super) vocabulary: u64,
}

impl Widths {
    /// Keys that all decoders have, and the tensors outside of their layers.
    pub(super) fn model(&self, architecture: &str) -> Model {
        let mut model = Model::new(architecture, self.layers, self.hidden as u32, self.vocabulary);
        model.key("context_length", 131_072).key("feed_forward_length", self.inner as u32);
        model.key("attention.head_count", self.heads as u32);
        model.key("attention.head_count_kv", self.kv_heads as u32);
        model.key("attention.key_length", self.head as u32);
        model.key("attention.value_length", self.head as u32);
        model
    }
}

/// Layers that mixed quantisations of `llama-quantize` give more bits.
fn has_more_bits(layer: u32, layers: u32) -> bool {
    layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2
}

/// Llama with the mixture `Q4_K_M`, whose values have five bits in the largest models.
pub(super) fn llama(widths: &Widths, is_largest: bool) -> Model {
    let Widths { layers, hidden, heads, kv_heads, head, inner, vocabulary } = *widths;
    let mut model = widths.model("llama");
    model.tensors[0].kind = Q4_K;
    model.tensor("output.weight", &[hidden, vocabulary], Q6_K);
    for layer in 0..layers {
        let more = has_more_bits(layer, layers);
        let (values, down) = match (more, is_largest) {
            (true, _) => (Q6_K, Q6_K),
            (false, true) => (Q5_K, Q4_K),
            (false, false) => (Q4_K, Q4_K),
        };
        let mut add = |name: &str, dimensions: &[u64], kind| {
            model.tensor(&format!("blk.{layer}.{name}.weight"), dimensions, kind);
        };
        add("attn_norm", &[hidden], F32);
        add("attn_q", &[hidden, heads * head], Q4_K);
        add("attn_k", &[hidden, kv_heads * head], Q4_K);
        add("attn_v", &[hidden, kv_heads * head], values);
        add("attn_output", &[heads * head, hidden], Q4_K);
        add("ffn_norm", &[hidden], F32);
        add("ffn_gate", &[hidden, inner], Q4_K);
        add("ffn_up", &[hidden, inner], Q4_K);
        add("ffn_down", &[inner, hidden], down);
    }
    model
}

/// Qwen 3 with experts and the mixture `Q4_K_M`; `inner` is that of an expert.
pub(super) fn qwen3_moe(widths: &Widths, experts: u64, active: u32) -> Model {
    let Widths { layers, hidden, heads, kv_heads, head, inner, vocabulary } = *widths;
    let mut model = widths.model("qwen3moe");
    model.key("expert_count", experts as u32).key("expert_used_count", active);
    model.key("expert_feed_forward_length", inner as u32);
    model.tensors[0].kind = Q4_K;
    model.tensor("output.weight", &[hidden, vocabulary], Q6_K);
    for layer in 0..layers {
        let more = if has_more_bits(layer, layers) { Q6_K } else { Q4_K };
        let mut add = |name: &str, dimensions: &[u64], kind| {
            model.tensor(&format!("blk.{layer}.{name}.weight"), dimensions, kind);
        };
        add("attn_norm", &[hidden], F32);
        add("attn_q", &[hidden, heads * head], Q4_K);
        add("attn_k", &[hidden, kv_heads * head], Q4_K);
        add("attn_v", &[hidden, kv_heads * head], more);
        add("attn_output", &[heads * head, hidden], Q4_K);
        add("attn_q_norm", &[head], F32);
        add("attn_k_norm", &[head], F32);
        add("ffn_norm", &[hidden], F32);
        add("ffn_gate_inp", &[hidden, experts], F32);
        add("ffn_gate_exps", &[hidden, inner, experts], Q4_K);
        add("ffn_up_exps", &[hidden, inner, experts], Q4_K);
        add("ffn_down_exps", &[inner, hidden, experts], more);
    }
    model
}

/// gpt-oss with its experts in `MXFP4`; `inner` is that of an expert.
pub(super) fn gpt_oss(widths: &Widths, experts: u64, active: u32) -> Model {
    let Widths { layers, hidden, heads, kv_heads, head, inner, vocabulary } = *widths;
    let mut model = widths.model("gpt-oss");
    model.key("expert_count", experts as u32).key("expert_used_count", active);
    model.key("expert_feed_forward_length", inner as u32).key("attention.sliding_window", 128);
    model.tensors[0].kind = Q8_0;
    model.tensor("output.weight", &[hidden, vocabulary], Q8_0);
    for layer in 0..layers {
        let mut add = |name: &str, dimensions: &[u64], kind| {
            model.tensor(&format!("blk.{layer}.{name}"), dimensions, kind);
        };
        add("attn_norm.weight", &[hidden], F32);
        add("post_attention_norm.weight", &[hidden], F32);
        add("attn_sinks.weight", &[heads], F32);
        for (name, outputs) in [("q", heads * head), ("k", kv_heads * head), ("v", kv_heads * head)] {
            add(&format!("attn_{name}.weight"), &[hidden, outputs], Q8_0);
            add(&format!("attn_{name}.bias"), &[outputs], F32);
        }
        add("attn_output.weight", &[heads * head, hidden], Q8_0);
        add("attn_output.bias", &[hidden], F32);
        add("ffn_gate_inp.weight", &[hidden, experts], F32);
        add("ffn_gate_inp.bias", &[experts], F32);
        for (name, inputs, outputs) in
            [("gate", hidden, inner), ("up", hidden, inner), ("down", inner, hidden)]
        {
            add(&format!("ffn_{name}_exps.weight"), &[inputs, outputs, experts], MXFP4);
            add(&format!("ffn_{name}_exps.bias"), &[outputs, experts], F32);
        }
    }
    model
}

/// A small Llama for tests of single features.
pub(super) fn small() -> Model {
    llama(
        &Widths { layers: 2, hidden: 256, heads: 4, kv_heads: 2, head: 64, inner: 512, vocabulary: 512 },
        false,
    )
}
