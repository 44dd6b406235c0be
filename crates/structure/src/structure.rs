//! The structure of a language model, `stagewright.structure/1`: what lies between a configuration and a graph.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::encoding::Encoding;
use crate::tensor::{Role, Tensor};

/// Version of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum StructureSchema {
    /// Version 1.
    #[default]
    #[serde(rename = "stagewright.structure/1")]
    V1,
}

/// A language model, layer by layer, without its weights.
///
/// All widths are numbers of elements. A layer of multi-token prediction follows the layers of the model and has
/// [`Layer::is_prediction`] set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Structure {
    /// Version of the document.
    pub schema: StructureSchema,
    /// Name for display.
    pub name: String,
    /// `model_type` of a Hugging Face configuration, or `general.architecture` of a GGUF file.
    pub architecture: String,
    /// Width of the hidden state.
    pub hidden: u64,
    /// Entries of the vocabulary; 0 for a model without tokens.
    pub vocabulary: u64,
    /// Maximum number of tokens of a sequence, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// Tables at the input.
    #[serde(default)]
    pub embedding: Embedding,
    /// Kind of every normalisation.
    pub norm: Norm,
    /// Layers in order.
    pub layers: Vec<Layer>,
    /// Layers of prediction that a GGUF file counts after the others, and has no tensors of.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missing_predictions: u64,
    /// Whether a normalisation follows the last layer.
    pub final_norm: bool,
    /// Projection to the vocabulary; `None` for a model that ends in its hidden states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
    /// Encoders beside the layers: of images, of audio, or of text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub towers: Vec<Tower>,
    /// Weights outside all blocks above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other: Vec<Weight>,
    /// Encoding of cached keys and values that the model asks for; 16 bits if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Encoding>,
    /// Every tensor of the model: exact where a file gave it, otherwise derived from the fields above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tensors: Vec<Tensor>,
}

/// Tables at the input of a model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Embedding {
    /// Width of an entry, if it is not that of the hidden state; a projection then follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u64>,
    /// Rows of a learned table of positions; 0 if there is none.
    #[serde(skip_serializing_if = "is_zero")]
    pub positions: u64,
    /// Rows of a table of token types (segments); 0 if there is none.
    #[serde(skip_serializing_if = "is_zero")]
    pub token_types: u64,
    /// Whether a normalisation follows.
    #[serde(skip_serializing_if = "is_false")]
    pub norm: bool,
}

/// Kind of a normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Norm {
    /// Root mean square with a scale.
    Rms,
    /// Mean and variance with a scale and a shift.
    Layer,
    /// Mean and variance with a scale.
    LayerWithoutBias,
    /// Without weights.
    Plain,
}

impl Norm {
    /// Number of weights of a normalisation over a width.
    pub fn weights(self, width: u64) -> u64 {
        match self {
            Norm::Rms | Norm::LayerWithoutBias => width,
            Norm::Layer => 2 * width,
            Norm::Plain => 0,
        }
    }
}

/// Projection to the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Whether the projection shares its weights with the table of tokens.
    pub tied: bool,
    /// Whether the projection has a bias.
    #[serde(default, skip_serializing_if = "is_false")]
    pub bias: bool,
}

/// A layer: a mixer of tokens, and a feed-forward block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Mixer of tokens.
    pub mixer: Mixer,
    /// Attention over the output of an encoder, in decoders that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cross: Option<Attention>,
    /// Feed-forward block on every token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dense: Option<Dense>,
    /// Mixture of experts. A layer may have one beside a dense block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixture: Option<Mixture>,
    /// Number of normalisations over the hidden state.
    pub norms: u64,
    /// Whether the mixer and the feed-forward block read the same input, instead of one after the other.
    #[serde(default, skip_serializing_if = "is_false")]
    pub parallel: bool,
    /// Whether the layer predicts further tokens and is not needed for the next one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_prediction: bool,
    /// Weights of the layer outside the blocks above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other: Vec<Weight>,
}

/// Mixer of tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Mixer {
    /// Attention with keys and values of every head or group of heads.
    Attention(Attention),
    /// Attention over a latent of keys and values (MLA; DeepSeek-AI 2024).
    Latent(Latent),
    /// Attention whose queries and outputs have low rank, and whose single head of keys is also its values, over a
    /// window and over compressed earlier tokens (DeepSeek-V4).
    Compressed(Compressed),
    /// Linear attention with a state instead of a cache (gated delta rule and kin).
    Linear(Linear),
    /// State-space layer (Mamba 2; Dao and Gu 2024).
    StateSpace(StateSpace),
    /// Gated short convolution (LFM2).
    Convolution(Convolution),
    /// No mixer: the layer has a feed-forward block alone.
    None,
}

/// Attention with keys and values.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Attention {
    /// Heads of queries.
    pub heads: u64,
    /// Heads of keys and values.
    pub kv_heads: u64,
    /// Width of a head of queries and keys.
    pub key: u64,
    /// Width of a head of values.
    pub value: u64,
    /// Width of queries and keys that positions rotate; 0 without rotary positions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rotary: u64,
    /// Number of latest tokens that are seen; all if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Whether the projections of queries, keys and values have biases.
    #[serde(default, skip_serializing_if = "is_false")]
    pub bias: bool,
    /// Whether the projection of keys has no bias although those of queries and values have one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keys_without_bias: bool,
    /// Whether the output projection has a bias.
    #[serde(default, skip_serializing_if = "is_false")]
    pub output_bias: bool,
    /// Normalisation of queries and keys.
    #[serde(default, skip_serializing_if = "is_default")]
    pub qk_norm: QkNorm,
    /// Whether a gate of the width of the queries multiplies the output of the heads.
    #[serde(default, skip_serializing_if = "is_false")]
    pub gate: bool,
    /// Whether a scalar gate for every head multiplies its output.
    #[serde(default, skip_serializing_if = "is_false")]
    pub head_gate: bool,
    /// Whether a learned sink takes part of every head's weight.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sinks: bool,
    /// Whether values are read from the projection of keys.
    #[serde(default, skip_serializing_if = "is_false")]
    pub values_are_keys: bool,
    /// Layer whose keys and values are read instead of own ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares_cache_of: Option<u64>,
    /// Selector of the tokens that are seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexer: Option<Indexer>,
    /// Whether tokens see later tokens too, as in encoders.
    #[serde(default, skip_serializing_if = "is_false")]
    pub bidirectional: bool,
}

/// Normalisation of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QkNorm {
    /// None, or one without weights.
    #[default]
    None,
    /// Over a head, with weights that heads share.
    Head,
    /// Over all heads at once.
    Full,
    /// Over a head, with weights of its own for every head.
    EachHead,
}

/// Latent attention (MLA).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Latent {
    /// Heads.
    pub heads: u64,
    /// Width of the latent of queries; `None` if they are projected directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_rank: Option<u64>,
    /// Width of the latent of keys and values, which is what the cache holds.
    pub rank: u64,
    /// Width of the part of a query or key without positions.
    pub plain: u64,
    /// Width of the rotary part of a query or key, whose key all heads share. The cache holds it too.
    pub rotary: u64,
    /// Width of a value.
    pub value: u64,
    /// Whether the projections into latents and out of the heads have biases.
    #[serde(default, skip_serializing_if = "is_false")]
    pub bias: bool,
    /// Whether a gate of the width of the values multiplies the output of the heads.
    #[serde(default, skip_serializing_if = "is_false")]
    pub gate: bool,
    /// Selector of the tokens that are seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexer: Option<Indexer>,
}

/// Selector of the tokens that sparse attention sees (DeepSeek-V3.2): scores of few narrow heads over all tokens. Beside
/// keys and values of every head it has normalised queries and keys, and no weights of its heads (MiniMax-M3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Indexer {
    /// Heads of queries.
    pub heads: u64,
    /// Width of a head; the cache holds one key of this width for every token.
    pub width: u64,
    /// Tokens, or compressed entries, that are selected.
    pub selected: u64,
    /// Whether the selection of an earlier layer is used, without weights and cache of its own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared: bool,
}

/// Attention over a window and over compressed earlier tokens (DeepSeek-V4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compressed {
    /// Heads of queries.
    pub heads: u64,
    /// Width of a head, and of the single head of keys and values.
    pub width: u64,
    /// Width of the rotary part of a head.
    pub rotary: u64,
    /// Width of the latent of queries.
    pub query_rank: u64,
    /// Groups of heads with an output projection of low rank each.
    pub output_groups: u64,
    /// Width of the latent of a group's output.
    pub output_rank: u64,
    /// Number of latest tokens that are seen uncompressed.
    pub window: u64,
    /// Earlier tokens that become one entry of the cache; 0 if they are not seen.
    pub ratio: u64,
    /// Selector of the compressed entries that are seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexer: Option<Indexer>,
}

/// Linear attention.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Linear {
    /// Heads of queries and keys.
    pub key_heads: u64,
    /// Heads of values, each with a state of `key` by `value`.
    pub value_heads: u64,
    /// Width of a head of queries and keys.
    pub key: u64,
    /// Width of a head of values.
    pub value: u64,
    /// Tokens that the short convolution before it sees; 0 without one.
    pub kernel: u64,
    /// How decay and gates are computed.
    pub rule: Rule,
}

/// Rule of a linear attention.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Gated delta rule (Yang et al. 2025): a decay and a step for every head of values, and an output gate.
    GatedDelta,
    /// Kimi delta attention (Kimi Linear 2025): a decay for every channel, by a projection of low rank.
    ChannelDelta {
        /// Width of the latent of the output gate; `None` if it is projected directly.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gate_rank: Option<u64>,
    },
}

/// State-space layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StateSpace {
    /// Heads.
    pub heads: u64,
    /// Width of a head.
    pub width: u64,
    /// Width of the state of a channel.
    pub state: u64,
    /// Groups of heads that share their input and output matrices.
    pub groups: u64,
    /// Tokens that the short convolution before it sees.
    pub kernel: u64,
    /// Whether the convolution has a bias.
    #[serde(default, skip_serializing_if = "is_false")]
    pub kernel_bias: bool,
    /// Whether the projections have biases.
    #[serde(default, skip_serializing_if = "is_false")]
    pub bias: bool,
    /// Bytes of a number of the state.
    pub state_bytes: u64,
}

/// Gated short convolution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Convolution {
    /// Width of the convolution.
    pub width: u64,
    /// Tokens that it sees.
    pub kernel: u64,
    /// Whether the projections and the convolution have biases.
    #[serde(default, skip_serializing_if = "is_false")]
    pub bias: bool,
}

/// Feed-forward block on every token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dense {
    /// Inner width.
    pub inner: u64,
    /// Whether a gate is projected beside the inner state (SwiGLU and kin).
    pub gated: bool,
    /// Whether the projections have biases.
    #[serde(default, skip_serializing_if = "is_false")]
    pub bias: bool,
}

/// Mixture of experts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mixture {
    /// Routed experts.
    pub experts: u64,
    /// Routed experts of a token.
    pub active: u64,
    /// Inner width of a routed expert.
    pub inner: u64,
    /// Whether experts have a gate beside the inner state.
    pub gated: bool,
    /// Whether the projections of experts have biases.
    #[serde(default, skip_serializing_if = "is_false")]
    pub bias: bool,
    /// Whether the router's scores have a bias or a correction.
    #[serde(default, skip_serializing_if = "is_false")]
    pub router_bias: bool,
    /// Width that tokens are projected to before the routed experts, and from after them; the hidden width if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latent: Option<u64>,
    /// Block beside the routed experts that takes every token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<Shared>,
}

/// Shared experts, which take every token and run as one block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// Inner width of all shared experts together.
    pub inner: u64,
    /// Whether a scalar gate weighs the block.
    #[serde(default, skip_serializing_if = "is_false")]
    pub scaled: bool,
}

/// An encoder beside the layers of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tower {
    /// Path of its modules.
    pub name: String,
    /// Kind of input.
    pub kind: TowerKind,
    /// Width of its hidden state.
    pub hidden: u64,
    /// Kind of its normalisations.
    pub norm: Norm,
    /// Layers in order.
    pub layers: Vec<Layer>,
    /// Weights outside the layers: patches, positions, mergers, projections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other: Vec<Weight>,
}

/// Kind of input of a tower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TowerKind {
    /// Images and videos.
    Vision,
    /// Sound.
    Audio,
    /// Text, as the encoder of a model with an encoder and a decoder.
    Text,
}

/// Weights outside the blocks that a structure names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weight {
    /// Path of the tensor below that of its layer, tower or model, as in `mlp.router.scale`.
    pub name: String,
    /// Shape.
    pub shape: Vec<u64>,
    /// Purpose: a projector, a part of prediction layers, or anything else.
    #[serde(default, skip_serializing_if = "is_default")]
    pub role: Role,
}

impl Weight {
    /// A weight of no particular purpose.
    pub fn new(name: impl Into<String>, shape: &[u64]) -> Weight {
        Weight { name: name.into(), shape: shape.to_vec(), role: Role::Other }
    }
}

impl Structure {
    /// Adds a tower, and the weights that project its outputs into the model.
    pub fn add_tower(&mut self, tower: Tower, projector: Vec<Weight>) {
        self.towers.push(tower);
        self.other.extend(projector.into_iter().map(|weight| Weight { role: Role::Projector, ..weight }));
    }
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
