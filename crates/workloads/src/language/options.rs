//! Options of the graph of a structure, and their ranges.

use std::num::NonZeroU64;

use stagewright_structure::{Encoding, Structure};

use crate::{Granularity, Optimizer, Precision, WorkloadError};

/// Kind of a step of a language model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Reads the prompts of new sequences, and computes the logits of their last tokens.
    #[default]
    Prefill,
    /// Computes one more token of every sequence.
    Decode,
    /// Trains on whole sequences.
    Training(Optimizer),
}

/// Maximum number of sequences.
const MOST_SEQUENCES: u64 = 1 << 16;

/// Options of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanguageOptions {
    /// Kind of the step; prefill by default.
    pub phase: Phase,
    /// Sequences of a step; 1 by default.
    pub batch: u64,
    /// New tokens of a sequence in prefill, and tokens of a sequence in training; 1024 by default. A step of decode has
    /// one.
    pub sequence: u64,
    /// Tokens of a sequence that the cache holds before the step; 0 by default. Training has no cache.
    pub context: u64,
    /// Sequences whose caches and states the devices hold; those of the batch by default, and never fewer. The step reads
    /// and writes those of the batch.
    pub sequences: Option<u64>,
    /// Encoding of cached keys and values; that of the structure by default, or else 16 bits.
    pub cache: Option<Encoding>,
    /// Number format of activations, and in training of weights and gradients; `bf16` by default. In inference weights
    /// have the encodings of the structure.
    pub precision: Precision,
    /// Whether products with the weights of layers compute in 8 bits in training (Micikevicius et al. 2022, "FP8
    /// formats for deep learning"). The tensors that they read are cast, and kept and gathered in 8 bits. Weights and
    /// gradients keep their precision; casts of weights, once in an iteration, and scales are not counted.
    pub fp8_products: bool,
    /// The unit that an operator represents; a kernel by default, or a layer of the model with all its experts.
    pub granularity: Granularity,
    /// Routed experts in an operator; 8 by default.
    pub expert_group: NonZeroU64,
    /// Whether prefill computes the logits of every token, as an evaluation does, and not only those of the last tokens.
    pub all_logits: bool,
    /// Whether layers of multi-token prediction are drawn; if not, as by default, their weights are in no operator.
    pub prediction: bool,
    /// Tokens of a sequence that the towers read in prefill and in training: patches of images, frames of sound, text of an
    /// encoder. With 0, the default, towers hold their weights and do not run, as in runtimes with text alone. In decode
    /// they never run, and attention over an encoder reads the keys and values of these tokens.
    pub tower_tokens: u64,
}

impl Default for LanguageOptions {
    fn default() -> Self {
        LanguageOptions {
            phase: Phase::default(),
            batch: 1,
            sequence: 1024,
            context: 0,
            sequences: None,
            cache: None,
            precision: Precision::Bf16,
            fp8_products: false,
            granularity: Granularity::default(),
            expert_group: const { NonZeroU64::new(8).unwrap() },
            all_logits: false,
            prediction: false,
            tower_tokens: 0,
        }
    }
}

/// Sizes of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) is_training: bool,
    pub(super) is_decode: bool,
    /// Sequences of the step.
    pub(super) batch: u64,
    /// Sequences whose caches are held.
    pub(super) sequences: u64,
    /// New tokens of a sequence.
    pub(super) tokens: u64,
    /// Tokens of a sequence before the new ones.
    pub(super) context: u64,
    pub(super) cache: Encoding,
    /// Routed experts in an operator.
    pub(super) expert_group: u64,
    pub(super) all_logits: bool,
    /// Tokens of a sequence in towers; 0 if these are idle.
    pub(super) tower_tokens: u64,
}

impl Step {
    /// Sizes of the step that options describe.
    ///
    /// # Errors
    /// If a size is out of its range.
    pub(super) fn new(structure: &Structure, options: &LanguageOptions) -> Result<Step, WorkloadError> {
        let is_decode = options.phase == Phase::Decode;
        let is_training = matches!(options.phase, Phase::Training(_));
        let batch = within("batch", options.batch, 1, MOST_SEQUENCES)?;
        let sequences = options.sequences.unwrap_or(batch);
        Ok(Step {
            is_training,
            is_decode,
            batch,
            sequences: within("sequences", sequences, batch, MOST_SEQUENCES)?,
            tokens: if is_decode { 1 } else { within("sequence", options.sequence, 1, 1 << 20)? },
            context: if is_training { 0 } else { within("context", options.context, 0, 1 << 28)? },
            cache: options.cache.or(structure.cache).unwrap_or(Encoding::BF16),
            all_logits: options.all_logits,
            expert_group: options.expert_group.get(),
            tower_tokens: within("tower-tokens", options.tower_tokens, 0, 1 << 20)?,
        })
    }

    /// New tokens of all sequences.
    pub(super) fn rows(&self) -> f64 {
        self.batch as f64 * self.tokens as f64
    }

    /// Tokens of a sequence after the step.
    pub(super) fn length(&self) -> u64 {
        self.context + self.tokens
    }
}

fn within(size: &'static str, value: u64, least: u64, most: u64) -> Result<u64, WorkloadError> {
    match (least..=most).contains(&value) {
        true => Ok(value),
        false => Err(WorkloadError::OutOfRange { size, value, least, most }),
    }
}
