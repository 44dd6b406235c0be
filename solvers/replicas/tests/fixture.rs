//! Questions and answers of tests.

use stagewright_core::document::{RequestClassDocument, ServingGoal, ServingMode, ServingQuestionDocument};
use stagewright_core::solver::{Context, Limits, Settings, Silent};
use stagewright_replicas::{Solution, solve};
use stagewright_serving::Problem;
use stagewright_structure::Structure;
use stagewright_structure::huggingface::{self, Reading};

/// A dense model of some layers.
pub(crate) fn dense(layers: u64, hidden: u64, heads: u64) -> Structure {
    let text = format!(
        r#"{{"model_type": "llama", "num_hidden_layers": {layers}, "hidden_size": {hidden},
            "num_attention_heads": {heads}, "num_key_value_heads": {heads}, "intermediate_size": {},
            "vocab_size": 32000, "torch_dtype": "bfloat16"}}"#,
        3 * hidden
    );
    read(&text)
}

/// A model with experts.
pub(crate) fn mixture() -> Structure {
    read(
        r#"{"model_type": "mixtral", "num_hidden_layers": 4, "hidden_size": 1024, "num_attention_heads": 8,
            "num_key_value_heads": 4, "intermediate_size": 2048, "num_local_experts": 8, "num_experts_per_tok": 2,
            "vocab_size": 32000, "torch_dtype": "bfloat16"}"#,
    )
}

pub(crate) fn read(text: &str) -> Structure {
    huggingface::read("config.json", text.as_bytes(), None, &Reading::default()).expect("a configuration")
}

/// A question of one class without load or limits.
pub(crate) fn question(input: u64, output: u64) -> ServingQuestionDocument {
    ServingQuestionDocument {
        engine: "vllm".into(),
        classes: vec![RequestClassDocument { input, output, shared_prefix: 0, share: 1.0 }],
        concurrency: None,
        rate: None,
        ttft_s: None,
        tpot_s: None,
        limits: Default::default(),
        goal: ServingGoal::Throughput,
        modes: vec![ServingMode::Aggregated, ServingMode::Disaggregated],
        cache: None,
        chunk: None,
        memory_share: None,
        max_batch: None,
        max_stages: 4,
        speculation: None,
        prices: [].into(),
        factors: [].into(),
        costs: Vec::new(),
        start: None,
    }
}

pub(crate) fn solved(problem: &Problem) -> Solution {
    let mut observer = Silent;
    let limits = Limits { time: Some(std::time::Duration::from_secs(60)), ..Limits::default() };
    let mut context = Context::new(Settings::from(limits), &mut observer);
    solve(problem, &mut context).expect("threads")
}
