//! Structures of well-known models, from their configurations.

use stagewright_core::document::{GraphDocument, OperatorDocument, ParameterDocument};
use stagewright_structure::{Structure, huggingface};
use stagewright_workloads::language::{LanguageOptions, Phase, graph};

use crate::newest;

pub(crate) fn structure(config: &str) -> Structure {
    huggingface::read("config.json", config.as_bytes(), None, &huggingface::Reading::default()).unwrap()
}

/// Llama 3.1 8B (Grattafiori et al. 2024, table 3).
pub(crate) const LLAMA_8B: &str = r#"{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32, "vocab_size": 128256}"#;

/// Mixtral 8x7B (Jiang et al. 2024, table 1).
pub(crate) const MIXTRAL: &str = r#"{"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32, "vocab_size": 32000,
    "num_local_experts": 8, "num_experts_per_tok": 2}"#;

/// GPT-2 (Radford et al. 2019), whose head is tied.
pub(crate) const GPT2: &str = r#"{"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
    "vocab_size": 50257}"#;

/// Gemma 3 1B: a window of 512 tokens in five of six layers.
pub(crate) const GEMMA3: &str = r#"{"model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912,
    "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "num_hidden_layers": 26,
    "sliding_window": 512, "sliding_window_pattern": 6, "vocab_size": 262144}"#;

/// Models of all kinds.
pub(crate) fn all() -> Vec<Structure> {
    let newest = [
        newest::llama4_scout(),
        newest::qwen3_30b(),
        newest::gpt_oss_20b(),
        newest::deepseek_v3(),
        newest::deepseek_v2_lite(),
        newest::deepseek_v4_flash(),
        newest::glm_5_2(),
        newest::kimi_k3(),
        newest::qwen3_5_35b(),
        newest::nemotron_3_super(),
        newest::minimax_m3(),
        newest::mimo_v2_flash(),
        newest::gemma_4_26b(),
        newest::step_3_7_flash(),
        newest::nemotron_nas(),
    ];
    let older = [LLAMA_8B, MIXTRAL, GPT2, GEMMA3];
    older
        .iter()
        .map(|config| structure(config))
        .chain(newest.iter().map(|config| structure(config)))
        .collect()
}

pub(crate) fn draw(structure: &Structure, options: &LanguageOptions) -> GraphDocument {
    graph(structure, options).unwrap_or_else(|error| panic!("{}: {error}", structure.architecture))
}

pub(crate) fn decode(batch: u64, context: u64) -> LanguageOptions {
    LanguageOptions { phase: Phase::Decode, batch, context, ..LanguageOptions::default() }
}

/// Sum of a figure over the operators.
pub(crate) fn sum(graph: &GraphDocument, figure: impl Fn(&OperatorDocument) -> f64) -> f64 {
    graph.operators.iter().map(figure).sum()
}

/// Bytes of weights, shared ones counted once.
pub(crate) fn weight_bytes(graph: &GraphDocument) -> f64 {
    let shared = graph.parameters.iter().filter(|parameter| parameter.trained);
    sum(graph, |operator| operator.parameter_bytes) + shared.map(|parameter| parameter.bytes).sum::<f64>()
}

pub(crate) fn caches(graph: &GraphDocument) -> impl Iterator<Item = &ParameterDocument> {
    graph.parameters.iter().filter(|parameter| !parameter.trained)
}

pub(crate) fn operator<'a>(graph: &'a GraphDocument, name: &str) -> &'a OperatorDocument {
    let found = graph.operators.iter().find(|operator| operator.name == name);
    found.unwrap_or_else(|| panic!("no operator {name}"))
}
