//! Options of engines that a serving plan sets, one file per engine.

pub(super) mod sglang;
pub(super) mod tensorrt_llm;
pub(super) mod vllm;

use stagewright_core::document::ServingRole;

use super::plan::{Replica, Serving};

/// Name of vLLM in plans.
pub(super) const VLLM: &str = "vllm";
/// Name of SGLang in plans.
pub(super) const SGLANG: &str = "sglang";
/// Name of TensorRT-LLM in plans.
pub(super) const TENSORRT_LLM: &str = "tensorrt-llm";

/// Tokens of prompts in a step, where a plan does not say (`chunk` in `data/engines.toml`).
const CHUNK: u64 = 8192;

/// Share of memory that an engine uses, where a plan does not say (`memory_share` in `data/engines.toml`).
fn default_share(engine: &str) -> f64 {
    match engine {
        SGLANG => 0.88,
        TENSORRT_LLM => 0.9,
        _ => 0.92,
    }
}

/// Share of memory that the engine of a plan uses.
fn memory_share(plan: &Serving) -> f64 {
    let question = plan.question();
    question.memory_share.unwrap_or_else(|| default_share(&question.engine))
}

/// Tokens of prompts in a step of a rank.
fn chunk(plan: &Serving) -> u64 {
    plan.question().chunk.unwrap_or(CHUNK)
}

/// Tokens of a step of a rank: those of prompts, or all that are decoded if they are more, with their drafts.
fn step_tokens(plan: &Serving, replica: &Replica) -> u64 {
    let drafts = plan.question().speculation.map_or(0, |speculation| u64::from(speculation.drafts));
    chunk(plan).max(replica.document.batch.saturating_mul(drafts.saturating_add(1)))
}

/// Option of a server that only reads prompts or only decodes; `None` for one that does both.
pub(super) fn disaggregated(replica: &Replica) -> Option<&'static str> {
    match replica.document.role {
        ServingRole::Aggregated => None,
        role => Some(role.name()),
    }
}

/// Numbers, separated by commas.
pub(super) fn separated(numbers: &[u32]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Appends an option with its value.
fn option(words: &mut Vec<String>, name: &str, value: impl ToString) {
    words.extend([name.to_owned(), value.to_string()]);
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, SGLANG, TENSORRT_LLM, VLLM, default_share};

    #[test]
    fn defaults_are_those_that_plans_are_made_with() {
        let constants = include_str!("../../../../../data/engines.toml");
        assert!(constants.contains(&format!("\nchunk = {CHUNK} ")));
        for engine in [VLLM, SGLANG, TENSORRT_LLM] {
            let (_, section) = constants.split_once(&format!("[engines.{engine}]")).unwrap();
            let (_, share) = section.split_once("memory_share = ").unwrap();
            let share: f64 = share.lines().next().unwrap().parse().unwrap();
            assert_eq!(share.to_bits(), default_share(engine).to_bits(), "{engine}");
        }
    }
}
