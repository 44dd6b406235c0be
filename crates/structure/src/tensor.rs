//! Tensors of weights, and their purposes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::encoding::Encoding;

/// A tensor of weights, or equal tensors of all experts of a layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tensor {
    /// Name in the file, or as the framework would write it; `*` stands for the number of an expert or head.
    pub name: String,
    /// Purpose of the tensor.
    pub role: Role,
    /// Layer, counted from 0 with prediction layers last; `None` outside the layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<u64>,
    /// Shape; products take the last dimension as input, but that before it in layers of GPT-2
    /// and in experts of Llama 4. Experts come first.
    pub shape: Vec<u64>,
    /// How the weights are stored.
    pub encoding: Encoding,
    /// Bytes, with scales.
    pub bytes: u64,
    /// Encoding that the product computes in, where activations are quantised too; `None` if weights are decoded to the
    /// encoding of the activations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute: Option<Encoding>,
}

impl Tensor {
    /// Number of weights.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }
}

/// Purpose of a tensor.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Table of tokens.
    Embedding,
    /// Table of positions or token types.
    Positions,
    /// Projection to the vocabulary.
    Head,
    /// Scales and shifts of normalisations.
    Norm,
    /// Projection of queries.
    Query,
    /// Projection of keys.
    Key,
    /// Projection of values.
    Value,
    /// Projection of queries, keys and values at once.
    QueryKeyValue,
    /// Projection out of the heads.
    Output,
    /// Gate on the output of the heads.
    AttentionGate,
    /// Learned sinks of attention.
    Sinks,
    /// Projection into the latent of queries.
    QueryDown,
    /// Projection of queries out of their latent.
    QueryUp,
    /// Projection into the latent of keys and values.
    KeyValueDown,
    /// Projection of keys and values out of their latent.
    KeyValueUp,
    /// Projection into the latent of outputs.
    OutputDown,
    /// Selector of tokens of sparse attention.
    Indexer,
    /// Projection into linear attention, a state-space layer or a gated convolution.
    StateIn,
    /// Projection out of linear attention, a state-space layer or a gated convolution.
    StateOut,
    /// Decays, steps and other weights of a state.
    State,
    /// Short convolution.
    Convolution,
    /// Router of a mixture.
    Router,
    /// Gate of a dense block.
    Gate,
    /// Projection up of a dense block.
    Up,
    /// Gate and projection up of a dense block at once.
    GateUp,
    /// Projection down of a dense block.
    Down,
    /// Gates of experts.
    ExpertGate,
    /// Projections up of experts.
    ExpertUp,
    /// Gates and projections up of experts at once.
    ExpertGateUp,
    /// Projections down of experts.
    ExpertDown,
    /// Projection into the width of experts, where it is not the hidden width.
    LatentDown,
    /// Projection out of the width of experts.
    LatentUp,
    /// Gate of shared experts.
    SharedGate,
    /// Projection up of shared experts.
    SharedUp,
    /// Gate and projection up of shared experts at once.
    SharedGateUp,
    /// Projection down of shared experts.
    SharedDown,
    /// Scalar gate that weighs shared experts.
    SharedRouter,
    /// Weights of a tower.
    Tower,
    /// Projection from a tower into the model.
    Projector,
    /// Weights outside the layers that prediction layers share.
    Prediction,
    /// Anything else.
    #[default]
    Other,
}

impl Role {
    /// Whether the tensor belongs to routed experts.
    pub fn is_expert(self) -> bool {
        matches!(self, Role::ExpertGate | Role::ExpertUp | Role::ExpertGateUp | Role::ExpertDown)
    }
}
