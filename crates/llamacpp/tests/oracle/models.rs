//! Random models of the kinds that differ in placement or memory, as llama.cpp converts them.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use stagewright_core::seed::stream;

use crate::models::{self, Widths};
use crate::writer::{F32, Model, Q8_0, Value};

/// Makes a model out of a random stream.
type Kind = fn(&mut ChaCha8Rng) -> Model;

const KINDS: &[(&str, Kind)] = &[
    ("llama", |random| models::llama(&widths(random), random.random_bool(0.5))),
    ("tied", tied),
    ("qwen3moe", |random| {
        let (experts, active) = experts(random);
        models::qwen3_moe(&widths(random), experts, active)
    }),
    ("gpt-oss", |random| {
        let (experts, active) = experts(random);
        models::gpt_oss(&widths(random), experts, active)
    }),
    ("latent", latent),
    ("hybrid", hybrid),
    ("state-space", state_space),
    ("convolution", convolution),
    ("gemma", gemma),
    ("prediction", prediction),
];

/// A model by its number, and its name.
pub(super) fn model(number: usize) -> (String, Model) {
    let (name, kind) = KINDS[number % KINDS.len()];
    let mut model = kind(&mut stream(61, number as u64));
    readable(&mut model);
    (format!("{name}-{number}"), model)
}

/// Adds the keys without which llama.cpp reads no model: those of its vocabulary.
pub(super) fn readable(model: &mut Model) {
    let vocabulary = model.tensors[0].dimensions[1] as u32;
    model.general("tokenizer.ggml.model", "none").key("vocab_size", vocabulary);
}

fn pick(random: &mut ChaCha8Rng, values: &[u64]) -> u64 {
    values[random.random_range(0..values.len())]
}

fn widths(random: &mut ChaCha8Rng) -> Widths {
    let kv_heads = pick(random, &[1, 2, 4, 8]);
    let head = pick(random, &[64, 128, 256]);
    Widths {
        layers: random.random_range(2..=12),
        hidden: 256 * random.random_range(1..=20),
        // Outputs of the heads are whole blocks of weights.
        heads: (kv_heads * pick(random, &[1, 2, 4, 8])).max(256 / head),
        kv_heads,
        head,
        inner: 256 * random.random_range(1..=48),
        vocabulary: 1024 * random.random_range(1..=200),
    }
}

/// Experts, and those of a token.
fn experts(random: &mut ChaCha8Rng) -> (u64, u32) {
    let active = random.random_range(1..=10);
    (u64::from(active) * pick(random, &[2, 4, 8]), active)
}

/// Tensors of a layer in 8 bits, those of one dimension and of convolutions in 32.
fn add(model: &mut Model, layer: u32, tensors: &[(&str, &[u64])]) {
    for (name, dimensions) in tensors {
        let suffix = if name.contains(".bias") || ["ssm_a", "ssm_d"].contains(name) { "" } else { ".weight" };
        let is_narrow = dimensions.len() == 1 || dimensions[0] < 32 || name.contains("norm");
        let kind = if is_narrow { F32 } else { Q8_0 };
        model.tensor(&format!("blk.{layer}.{name}{suffix}"), dimensions, kind);
    }
}

fn output(model: &mut Model, random: &mut ChaCha8Rng) {
    let dimensions = model.tensors[0].dimensions.clone();
    if random.random_bool(0.5) {
        model.tensor("output.weight", &dimensions, Q8_0);
    }
}

fn attention(model: &mut Model, layer: u32, widths: &Widths, is_gated: bool) {
    let Widths { hidden, heads, kv_heads, head, .. } = *widths;
    let queries = heads * head;
    add(
        model,
        layer,
        &[
            ("attn_q", &[hidden, if is_gated { 2 * queries } else { queries }]),
            ("attn_k", &[hidden, kv_heads * head]),
            ("attn_v", &[hidden, kv_heads * head]),
            ("attn_output", &[queries, hidden]),
            ("attn_q_norm", &[head]),
            ("attn_k_norm", &[head]),
        ],
    );
}

fn dense(model: &mut Model, layer: u32, hidden: u64, inner: u64) {
    add(
        model,
        layer,
        &[("ffn_gate", &[hidden, inner]), ("ffn_up", &[hidden, inner]), ("ffn_down", &[inner, hidden])],
    );
}

/// Routed experts, with as wide a shared one if `shared` is above 0.
fn mixture(model: &mut Model, layer: u32, hidden: u64, [inner, experts, shared]: [u64; 3]) {
    add(
        model,
        layer,
        &[
            ("ffn_gate_inp", &[hidden, experts]),
            ("ffn_gate_exps", &[hidden, inner, experts]),
            ("ffn_up_exps", &[hidden, inner, experts]),
            ("ffn_down_exps", &[inner, hidden, experts]),
        ],
    );
    if shared > 0 {
        add(
            model,
            layer,
            &[
                ("ffn_gate_shexp", &[hidden, shared]),
                ("ffn_up_shexp", &[hidden, shared]),
                ("ffn_down_shexp", &[shared, hidden]),
            ],
        );
    }
}

fn expert_keys(model: &mut Model, inner: u64, experts: u64, active: u32) {
    model.key("expert_count", experts as u32).key("expert_used_count", active);
    model.key("expert_feed_forward_length", inner as u32);
}

fn tied(random: &mut ChaCha8Rng) -> Model {
    let widths = widths(random);
    let mut model = models::llama(&widths, false);
    model.tensors.retain(|tensor| tensor.name != "output.weight");
    if random.random_bool(0.5) {
        model.tensor("rope_freqs.weight", &[widths.head / 2], F32);
    }
    model
}

/// DeepSeek-V2 and V3: dense layers first, then experts with shared ones; early files have keys and values in one projection.
fn latent(random: &mut ChaCha8Rng) -> Model {
    let widths = Widths { kv_heads: 1, heads: pick(random, &[4, 8, 16, 32]), ..widths(random) };
    let Widths { layers, hidden, heads, inner, .. } = widths;
    let (rank, rotary, plain, value) = (pick(random, &[256, 512]), 64, pick(random, &[64, 128, 192]), 128);
    let is_fused = random.random_bool(0.2);
    let mut model = widths.model("deepseek2");
    model.keys.retain(|(key, _)| !key.contains("attention.key") && !key.contains("attention.value"));
    let (key, expanded) = (plain + rotary, heads * (plain + value));
    if is_fused {
        model.keys.retain(|(key, _)| !key.ends_with("head_count_kv"));
        model.key("attention.head_count_kv", heads as u32);
        model.key("attention.key_length", key as u32).key("attention.value_length", value as u32);
    } else {
        model.key("attention.key_length", (rank + rotary) as u32).key("attention.value_length", rank as u32);
        model.key("attention.key_length_mla", key as u32).key("attention.value_length_mla", value as u32);
    }
    let query_rank = pick(random, &[0, 256, 1536]);
    model.key("attention.q_lora_rank", query_rank as u32).key("attention.kv_lora_rank", rank as u32);
    model.key("rope.dimension_count", rotary as u32).key("expert_shared_count", 1);
    let (count, active) = experts(random);
    let expert = 256 * random.random_range(1..=8);
    let first = if random.random_bool(0.3) { layers } else { random.random_range(0..=layers / 2) };
    expert_keys(&mut model, expert, count, active);
    model.key("leading_dense_block_count", first);
    output(&mut model, random);
    for layer in 0..layers {
        let norms: &[(&str, &[u64])] =
            &[("attn_norm", &[hidden]), ("ffn_norm", &[hidden]), ("attn_kv_a_norm", &[rank])];
        add(&mut model, layer, norms);
        add(&mut model, layer, &[("attn_kv_a_mqa", &[hidden, rank + rotary])]);
        add(&mut model, layer, &[("attn_output", &[heads * value, hidden])]);
        match query_rank {
            0 => add(&mut model, layer, &[("attn_q", &[hidden, heads * key])]),
            _ => {
                add(
                    &mut model,
                    layer,
                    &[("attn_q_a", &[hidden, query_rank]), ("attn_q_a_norm", &[query_rank])],
                );
                add(&mut model, layer, &[("attn_q_b", &[query_rank, heads * key])]);
            }
        }
        match is_fused {
            true => add(&mut model, layer, &[("attn_kv_b", &[rank, expanded])]),
            false => add(
                &mut model,
                layer,
                &[("attn_k_b", &[plain, rank, heads]), ("attn_v_b", &[rank, value, heads])],
            ),
        }
        match layer < first {
            true => dense(&mut model, layer, hidden, inner),
            false => mixture(&mut model, layer, hidden, [expert, count, expert]),
        }
    }
    model
}

/// Qwen3-Next: three layers of linear attention to one of gated attention, with experts.
fn hybrid(random: &mut ChaCha8Rng) -> Model {
    let widths = widths(random);
    let Widths { layers, hidden, .. } = widths;
    let (groups, state) = (pick(random, &[2, 4, 8, 16]), 128);
    let value_heads = groups * pick(random, &[1, 2, 4]);
    let (keys, values) = (groups * state, value_heads * state);
    let mut model = widths.model("qwen3next");
    let (count, active) = experts(random);
    let inner = 256 * random.random_range(1..=8);
    expert_keys(&mut model, inner, count, active);
    model.key("expert_shared_feed_forward_length", inner as u32);
    model.key("ssm.conv_kernel", 4).key("ssm.inner_size", values as u32).key("ssm.state_size", state as u32);
    model.key("ssm.time_step_rank", value_heads as u32).key("ssm.group_count", groups as u32);
    output(&mut model, random);
    for layer in 0..layers {
        add(&mut model, layer, &[("attn_norm", &[hidden]), ("post_attention_norm", &[hidden])]);
        if layer % 4 == 3 {
            attention(&mut model, layer, &widths, true);
        } else {
            add(
                &mut model,
                layer,
                &[
                    ("attn_qkv", &[hidden, 2 * keys + values]),
                    ("attn_gate", &[hidden, values]),
                    ("ssm_conv1d", &[4, 2 * keys + values]),
                    ("ssm_dt.bias", &[value_heads]),
                    ("ssm_a", &[value_heads]),
                    ("ssm_ba", &[hidden, 2 * value_heads]),
                    ("ssm_norm", &[state]),
                    ("ssm_out", &[values, hidden]),
                ],
            );
        }
        mixture(&mut model, layer, hidden, [inner, count, inner]);
        add(&mut model, layer, &[("ffn_gate_inp_shexp", &[hidden])]);
    }
    model
}

/// Granite 4: state-space layers with some of attention, with and without experts.
fn state_space(random: &mut ChaCha8Rng) -> Model {
    let widths = widths(random);
    let Widths { layers, hidden, inner, kv_heads, .. } = widths;
    let (state, heads, groups, channels) = (128, 2 * hidden / 64, 1, 2 * hidden);
    let mut model = widths.model("granitehybrid");
    model.keys.retain(|(key, _)| !key.ends_with("head_count_kv"));
    let has_attention = |layer: u32| layer % 4 == 1;
    let kv_heads: Vec<u32> =
        (0..layers).map(|layer| if has_attention(layer) { kv_heads as u32 } else { 0 }).collect();
    model.key("attention.head_count_kv", Value::Numbers(kv_heads));
    model
        .key("ssm.conv_kernel", 4)
        .key("ssm.inner_size", channels as u32)
        .key("ssm.state_size", state as u32);
    model.key("ssm.time_step_rank", heads as u32).key("ssm.group_count", groups as u32);
    let (count, active) = experts(random);
    let has_experts = random.random_bool(0.5);
    if has_experts {
        expert_keys(&mut model, inner, count, active);
        model.key("expert_shared_feed_forward_length", inner as u32);
    }
    output(&mut model, random);
    for layer in 0..layers {
        add(&mut model, layer, &[("attn_norm", &[hidden]), ("ffn_norm", &[hidden])]);
        if has_attention(layer) {
            attention(&mut model, layer, &widths, false);
            model
                .tensors
                .retain(|tensor| !tensor.name.contains("_q_norm") && !tensor.name.contains("_k_norm"));
        } else {
            add(
                &mut model,
                layer,
                &[
                    ("ssm_in", &[hidden, 2 * channels + 2 * groups * state + heads]),
                    ("ssm_conv1d", &[4, channels + 2 * groups * state]),
                    ("ssm_conv1d.bias", &[channels + 2 * groups * state]),
                    ("ssm_dt.bias", &[heads]),
                    ("ssm_a", &[1, heads]),
                    ("ssm_d", &[1, heads]),
                    ("ssm_norm", &[channels / groups, groups]),
                    ("ssm_out", &[channels, hidden]),
                ],
            );
        }
        match has_experts {
            true => mixture(&mut model, layer, hidden, [inner, count, inner]),
            false => dense(&mut model, layer, hidden, inner),
        }
    }
    model
}

/// LFM2: short convolutions with some layers of attention.
fn convolution(random: &mut ChaCha8Rng) -> Model {
    let mut widths = widths(random);
    widths.hidden = widths.heads * widths.head;
    let Widths { layers, hidden, inner, kv_heads, .. } = widths;
    let mut model = widths.model("lfm2");
    model.keys.retain(|(key, _)| !key.ends_with("head_count_kv"));
    let has_attention = |layer: u32| layer % 3 == 1;
    let kv_heads: Vec<u32> =
        (0..layers).map(|layer| if has_attention(layer) { kv_heads as u32 } else { 0 }).collect();
    model.key("attention.head_count_kv", Value::Numbers(kv_heads)).key("shortconv.l_cache", 3);
    for tensor in &mut model.tensors {
        tensor.name = tensor.name.replace("output_norm", "token_embd_norm");
    }
    for layer in 0..layers {
        add(&mut model, layer, &[("attn_norm", &[hidden]), ("ffn_norm", &[hidden])]);
        match has_attention(layer) {
            true => attention(&mut model, layer, &widths, false),
            false => add(
                &mut model,
                layer,
                &[
                    ("shortconv.conv", &[3, hidden]),
                    ("shortconv.in_proj", &[hidden, 3 * hidden]),
                    ("shortconv.out_proj", &[hidden, hidden]),
                ],
            ),
        }
        dense(&mut model, layer, hidden, inner);
    }
    model
}

fn gemma(random: &mut ChaCha8Rng) -> Model {
    let widths = widths(random);
    gemma_3(&widths, pick(random, &[512, 1024, 4096]) as u32)
}

/// Gemma 3: five layers with a window to one without.
pub(super) fn gemma_3(widths: &Widths, window: u32) -> Model {
    let Widths { layers, hidden, inner, .. } = *widths;
    let mut model = widths.model("gemma3");
    model.key("attention.sliding_window", window);
    for layer in 0..layers {
        let norms = ["attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"];
        norms.iter().for_each(|norm| add(&mut model, layer, &[(norm, &[hidden])]));
        attention(&mut model, layer, widths, false);
        dense(&mut model, layer, hidden, inner);
    }
    model
}

fn prediction(random: &mut ChaCha8Rng) -> Model {
    let widths = widths(random);
    let experts = experts(random);
    let expert = 256 * random.random_range(1..=8);
    let first = random.random_range(0..=1);
    let has_output = random.random_bool(0.5);
    let is_missing = random.random_bool(0.5);
    glm_4_5(&widths, experts, expert, Parts { first, has_output, has_prediction: !is_missing })
}

/// Parts of GLM-4.5: dense layers at its beginning, and tensors that a file may lack.
pub(super) struct Parts {
    pub(super) first: u32,
    pub(super) has_output: bool,
    pub(super) has_prediction: bool,
}

/// GLM-4.5: experts with a shared one, and a last layer that predicts.
pub(super) fn glm_4_5(widths: &Widths, (count, active): (u64, u32), expert: u64, parts: Parts) -> Model {
    let Widths { layers, hidden, inner, .. } = *widths;
    let mut model = widths.model("glm4moe");
    expert_keys(&mut model, expert, count, active);
    model.key("expert_shared_count", 1).key("leading_dense_block_count", parts.first);
    model.key("nextn_predict_layers", 1);
    if parts.has_output {
        let dimensions = model.tensors[0].dimensions.clone();
        model.tensor("output.weight", &dimensions, Q8_0);
    }
    for layer in 0..layers - u32::from(!parts.has_prediction) {
        add(&mut model, layer, &[("attn_norm", &[hidden]), ("post_attention_norm", &[hidden])]);
        attention(&mut model, layer, widths, false);
        match layer < parts.first {
            true => dense(&mut model, layer, hidden, inner),
            false => {
                mixture(&mut model, layer, hidden, [expert, count, expert]);
                add(&mut model, layer, &[("exp_probs_b.bias", &[count])]);
            }
        }
    }
    if parts.has_prediction {
        let norms: &[(&str, &[u64])] = &[("nextn.enorm", &[hidden]), ("nextn.hnorm", &[hidden])];
        add(&mut model, layers - 1, norms);
        add(&mut model, layers - 1, &[("nextn.eh_proj", &[2 * hidden, hidden])]);
    }
    model
}
