//! Names of modules, as the framework of an architecture writes them.

/// Names of the modules of an architecture, as its checkpoints have them. Paths below a layer do not begin with that of
/// the layer.
///
/// A table starts from [`LLAMA`], whose names most architectures share, and changes what differs.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    /// Path of the layers, before the number of a layer.
    pub layers: &'static str,
    /// Names within prediction layers, with their path before a number counted from 0; those of the layers, whose numbers
    /// they continue, if `None`.
    pub prediction: Option<&'static Names>,
    /// Table of tokens.
    pub embedding: &'static str,
    /// Table of positions.
    pub positions: &'static str,
    /// Table of token types.
    pub token_types: &'static str,
    /// Normalisation after the tables.
    pub embedding_norm: &'static str,
    /// Normalisation after the last layer.
    pub final_norm: &'static str,
    /// Projection to the vocabulary.
    pub head: &'static str,
    /// Normalisations of a layer, in order; a layer uses the first of them.
    pub norms: &'static [&'static str],
    /// Attention.
    pub attention: &'static str,
    /// Attention over an encoder.
    pub cross: &'static str,
    /// Projection of queries, below attention.
    pub query: &'static str,
    /// Projection of keys.
    pub key: &'static str,
    /// Projection of values.
    pub value: &'static str,
    /// Projection of queries, keys and values at once, where they are one.
    pub query_key_value: Option<&'static str>,
    /// Projection out of the heads.
    pub output: &'static str,
    /// Normalisation of queries.
    pub query_norm: &'static str,
    /// Normalisation of keys.
    pub key_norm: &'static str,
    /// Learned sinks of attention, with the name of the tensor.
    pub sinks: &'static str,
    /// Gate on the output of the heads; `None` if the projection of queries has it as a second half.
    pub attention_gate: Option<&'static str>,
    /// Linear attention.
    pub linear: &'static str,
    /// State-space layer.
    pub state_space: &'static str,
    /// Dense feed-forward block; empty if its projections are directly below the layer.
    pub dense: &'static str,
    /// Gate of a dense block.
    pub gate: &'static str,
    /// Projection up of a dense block.
    pub up: &'static str,
    /// Gate and projection up at once, where they are one.
    pub gate_up: Option<&'static str>,
    /// Projection down of a dense block.
    pub down: &'static str,
    /// Router of a mixture.
    pub router: &'static str,
    /// Correction of the router's scores, with the name of the tensor.
    pub router_bias: &'static str,
    /// Routed experts.
    pub experts: &'static str,
    /// Gate, projection up and projection down of an expert.
    pub expert: [&'static str; 3],
    /// Gate and projection up of experts at once, where they are one.
    pub expert_gate_up: Option<&'static str>,
    /// End of the names of expert tensors that a layer has for all its experts at once, as in `.weight`; `None` if every
    /// expert has tensors of its own.
    pub stacked: Option<&'static str>,
    /// Whether such tensors have their inputs before their outputs, as in Llama 4.
    pub stacked_transposed: bool,
    /// Projections of tokens into and out of the width of the routed experts, where it is not the hidden width.
    pub latent: [&'static str; 2],
    /// Gate, projection up and projection down of shared experts.
    pub shared_expert: [&'static str; 3],
    /// Shared experts.
    pub shared: &'static str,
    /// Scalar gate of shared experts.
    pub shared_router: &'static str,
    /// Whether products in layers are stored with their inputs before their outputs, as in GPT-2.
    pub transposed: bool,
    /// Names within towers, with the path of the layers below that of the tower; those of the model, with the path
    /// `layers`, if `None`.
    pub tower: Option<&'static Names>,
}

/// Names of Llama.
pub const LLAMA: Names = Names {
    layers: "model.layers",
    prediction: None,
    embedding: "model.embed_tokens",
    positions: "model.embed_positions",
    token_types: "model.token_type_embeddings",
    embedding_norm: "model.embed_norm",
    final_norm: "model.norm",
    head: "lm_head",
    norms: &[
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    ],
    attention: "self_attn",
    cross: "cross_attn",
    query: "q_proj",
    key: "k_proj",
    value: "v_proj",
    query_key_value: None,
    output: "o_proj",
    query_norm: "q_norm",
    key_norm: "k_norm",
    sinks: "sinks",
    attention_gate: None,
    linear: "linear_attn",
    state_space: "mixer",
    dense: "mlp",
    gate: "gate_proj",
    up: "up_proj",
    gate_up: None,
    down: "down_proj",
    router: "mlp.gate",
    router_bias: "mlp.gate.e_score_correction_bias",
    experts: "mlp.experts",
    expert: ["gate_proj", "up_proj", "down_proj"],
    expert_gate_up: None,
    stacked: None,
    stacked_transposed: false,
    latent: ["mlp.fc1_latent_proj", "mlp.fc2_latent_proj"],
    shared_expert: ["gate_proj", "up_proj", "down_proj"],
    shared: "mlp.shared_experts",
    shared_router: "mlp.shared_expert_gate",
    transposed: false,
    tower: None,
};
