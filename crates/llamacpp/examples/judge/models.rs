//! Models by the names that people give them, with counts of weights.
//!
//! `models.csv` has for every model its names; weights, those of the table of tokens if the output does not share it, and those
//! of routed experts, in 10^9; layers, layers with experts, experts a token and experts of a layer; and the repository whose
//! `config.json` they follow from. Totals are what `llama-bench` prints, next-token layers included.

use std::sync::LazyLock;

use serde::Deserialize;

/// Counts of a model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Model {
    names: String,
    /// Weights, in 10^9.
    pub(crate) weights: f64,
    /// Weights of the table of tokens beside an output, in 10^9; 0 if the output shares it.
    pub(crate) table: f64,
    /// Weights of routed experts, in 10^9.
    pub(crate) experts: f64,
    /// Layers.
    pub(crate) layers: f64,
    /// Layers with routed experts.
    pub(crate) expert_layers: f64,
    active: f64,
    of: f64,
    #[serde(rename = "source")]
    _source: String,
}

impl Model {
    /// Share of the routed experts that a token needs.
    pub(crate) fn active_share(&self) -> f64 {
        if self.of > 0.0 { self.active / self.of } else { 0.0 }
    }

    /// Whether experts are at 4 bits whatever the file is called, as OpenAI publishes them.
    pub(crate) fn has_four_bit_experts(&self) -> bool {
        self.names.starts_with("gpt-oss")
    }
}

static MODELS: LazyLock<Vec<(String, Model)>> = LazyLock::new(|| {
    let rows: Result<Vec<Model>, _> =
        csv::Reader::from_reader(&include_bytes!("models.csv")[..]).deserialize().collect();
    let rows = rows.unwrap_or_else(|error| panic!("models.csv: {error}"));
    let names = |model: &Model| model.names.split_whitespace().map(plain).collect::<Vec<_>>();
    rows.iter().flat_map(|model| names(model).into_iter().map(|name| (name, model.clone()))).collect()
});

/// Words of names that change no count.
const FILLERS: [&str; 14] = [
    "instruct", "it", "chat", "gguf", "base", "hf", "ud", "meta", "preview", "thinking", "qat", "dense",
    "moe", "text",
];

/// A name in lower case, with its version joined to the family: `Llama-3.1-8B-Instruct` is `llama3.1-8b`.
fn plain(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let words =
        name.split(['-', '_', ' ', ':', '/']).filter(|word| !word.is_empty() && !FILLERS.contains(word));
    let mut plain = String::new();
    for word in words {
        let is_version = word.chars().all(|symbol| symbol.is_ascii_digit() || symbol == '.');
        let after_letters = plain.ends_with(|symbol: char| symbol.is_ascii_alphabetic());
        if !(plain.is_empty() || is_version && after_letters) {
            plain.push('-');
        }
        plain.push_str(word);
    }
    plain
}

/// Whether a word is a number of weights: `8b`, `a3b`, `8x7b`.
fn is_size(word: &str) -> bool {
    word.ends_with('b') && word.chars().any(|symbol| symbol.is_ascii_digit())
}

/// A model by a name: one that is known, perhaps followed by words that are no size.
pub(crate) fn find(name: &str) -> Option<&'static Model> {
    let name = plain(name);
    let begins = |known: &str| {
        let rest = name.strip_prefix(known)?;
        let is_end = rest.is_empty() || rest.starts_with('-') && !rest.split('-').any(is_size);
        is_end.then_some(known.len())
    };
    let known = MODELS.iter().filter_map(|(known, model)| Some((begins(known)?, model)));
    known.max_by_key(|&(length, _)| length).map(|(_, model)| model)
}
