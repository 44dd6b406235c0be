//! What a batch of a model holds, which turns batches a second into what people count.

/// What one run of a model works through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contents {
    /// Samples, where that is known.
    pub samples: Option<u64>,
    /// Tokens of a sample, where the model has such a dimension and its size is known.
    pub tokens: Option<u64>,
}
