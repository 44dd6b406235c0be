//! What llama.cpp fixes in its code, and no key of a GGUF file says.
//!
//! A file names its architecture in `general.architecture`. Layers follow from tensors and keys for any architecture; the
//! tables here have what remains: which layers see a window only, which have a state instead of a cache (a check, as tensors
//! tell it too), and which models rotate nothing. Windows are by `set_swa_pattern` in the models of llama.cpp.

/// Which layers see a window, of every `period` layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Windows {
    /// Layers of a period, one of which sees all tokens; 0 if none does.
    pub(super) period: u64,
    /// Whether the first layer of a period sees all tokens, instead of the last.
    pub(super) dense_first: bool,
    /// Tokens of a window where the key `attention.sliding_window` is missing; 0 if there is none then.
    pub(super) tokens: u64,
}

impl Windows {
    /// Whether a layer sees a window, if `period` is given instead of that of the architecture.
    pub(super) fn bounds(self, layer: u64, period: Option<u64>) -> bool {
        let period = period.unwrap_or(self.period);
        match layer.checked_rem(period) {
            None => true,
            Some(position) if self.dense_first => position != 0,
            Some(position) => position < period - 1,
        }
    }
}

/// Architecture, period, whether the first layer of a period sees all tokens, tokens without a key.
const WINDOWS: &[(&str, u64, bool, u64)] = &[
    ("gemma2", 2, false, 4096),
    ("gemma3", 6, false, 0),
    ("gemma3n", 5, false, 0),
    ("gemma-embedding", 6, false, 0),
    ("gpt-oss", 2, false, 0),
    ("plamo3", 8, false, 0),
    ("modern-bert", 3, true, 0),
    // Chunks of tokens: a token sees those of its chunk, at most as many.
    ("llama4", 4, false, 8192),
    ("cohere2", 4, false, 0),
    ("cohere2moe", 4, true, 0),
    ("exaone4", 4, false, 0),
    ("exaone-moe", 4, false, 0),
    ("olmo2", 4, false, 0),
    ("afmoe", 4, false, 0),
    ("smallthinker", 4, true, 0),
    ("deepseek4", 0, false, 0),
];

/// Windows of an architecture. An architecture without any ignores the key `attention.sliding_window`, unless the file has a
/// pattern.
pub(super) fn windows(architecture: &str) -> Option<Windows> {
    let row = WINDOWS.iter().find(|row| row.0 == architecture)?;
    Some(Windows { period: row.1, dense_first: row.2, tokens: row.3 })
}

/// How keys say which layers have a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recurrence {
    /// Layers with `attention.head_count_kv` of 0.
    WithoutHeads,
    /// Layers with `attention.head_count_kv` and `feed_forward_length` of 0.
    WithoutHeadsAndInner,
    /// All but the last of every `full_attention_interval` layers.
    Interval,
}

/// Layers of a period in which one has attention, where the key `full_attention_interval` is missing.
pub(super) const FULL_ATTENTION_INTERVAL: u64 = 4;

/// How keys say which layers of an architecture have a state, if any do.
pub(super) fn recurrence(architecture: &str) -> Option<Recurrence> {
    match architecture {
        "jamba" | "granitehybrid" | "lfm2" | "lfm2moe" | "kimi-linear" | "plamo2" => {
            Some(Recurrence::WithoutHeads)
        }
        "nemotron_h" | "nemotron_h_moe" => Some(Recurrence::WithoutHeadsAndInner),
        "qwen3next" | "qwen35" | "qwen35moe" => Some(Recurrence::Interval),
        _ => None,
    }
}

/// Layers from the first that read the caches of earlier ones, where the key `attention.shared_kv_layers` is missing.
pub(super) fn own_caches(architecture: &str) -> Option<u64> {
    (architecture == "gemma3n").then_some(20)
}

/// Whether positions rotate no queries and keys: they are learned, or weigh scores by distance, or come from states.
pub(super) fn rotates_nothing(architecture: &str) -> bool {
    const NAMES: &[&str] = &[
        "gpt2",
        "mpt",
        "refact",
        "bloom",
        "starcoder",
        "bert",
        "jina-bert-v2",
        "jais",
        "jamba",
        "nemotron_h",
        "nemotron_h_moe",
    ];
    NAMES.contains(&architecture)
}

/// Whether tokens see later tokens where the key `attention.causal` is missing.
pub(super) fn sees_later(architecture: &str) -> bool {
    matches!(architecture, "gemma-embedding" | "dream" | "llada" | "llada-moe" | "rnd1" | "llama-embed")
}

/// Whether a model ends in its hidden states, without a projection to the vocabulary.
pub(super) fn embeds(architecture: &str) -> bool {
    architecture.ends_with("bert")
        || architecture.contains("-bert-")
        || architecture.ends_with("-embedding")
        || architecture == "llama-embed"
}

/// Whether the file names the last normalisation `token_embd_norm`.
pub(super) fn ends_in_embedding_norm(architecture: &str) -> bool {
    matches!(architecture, "lfm2" | "lfm2moe")
}

/// Whether the key `feed_forward_length` counts gate and projection up together.
pub(super) fn halves_inner(architecture: &str) -> bool {
    architecture == "qwen"
}

/// Whether mixer and feed-forward block read the same input although each has a normalisation.
pub(super) fn is_parallel(architecture: &str) -> bool {
    architecture == "falcon"
}
