//! Settings of `trtllm-serve`: the fields of `TorchLlmArgs`.
//!
//! `tensor_parallel_size` counts all devices of a stage. `enable_attention_dp` copies attention on each of them, so that a plan has
//! either ranks of one device or one rank. `moe_expert_parallel_size` is any divisor. `pp_partition` has the layers of stages.
//! `max_batch_size` counts the sequences of a rank, in a pipeline those of a microbatch: the engine holds as many times more as there
//! are stages. `max_num_tokens` has all tokens of a step. `free_gpu_memory_fraction` is a share of what weights leave.
//!
//! Servers for prompts run without the overlap scheduler, and `cache_transceiver_config` has to be the same on both sides, with a
//! buffer for the longest prompt.
//!
//! Source: <https://nvidia.github.io/TensorRT-LLM/1.4.0rc4/llm-api/reference/TorchLlmArgs.html>,
//! <https://nvidia.github.io/TensorRT-LLM/1.4.0rc4/features/parallel-strategy.html>,
//! <https://nvidia.github.io/TensorRT-LLM/features/disagg-serving.html>, and the pull requests 17390 (overlap scheduler) of
//! TensorRT-LLM and 5523 (`UCX`, `max_tokens_in_buffer`) of Dynamo.

use serde_json::{Map, Value, json};
use stagewright_core::document::ServingRole;

use super::super::plan::{Replica, Serving};
use super::{memory_share, step_tokens};
use crate::Result;

/// Settings of a replica by name.
///
/// # Errors
/// If TensorRT-LLM has no setting for its ranks or its cache (E036).
pub(in super::super) fn settings(plan: &Serving, replica: &Replica) -> Result<Map<String, Value>> {
    let (document, stage) = (replica.document, replica.stage);
    if stage.tensor > 1 && stage.data > 1 {
        let what = format!("{} ranks of {} devices", stage.data, stage.tensor);
        let rule = "TensorRT-LLM has ranks of one device, or one rank";
        return Err(replica.lacks(what, rule, "plan for vLLM or SGLang", "stages[0].data"));
    }
    let mut settings = Map::new();
    let mut set = |name: &str, value: Value| settings.insert(name.to_owned(), value);
    set("tensor_parallel_size", replica.width().into());
    set("pipeline_parallel_size", replica.stages().into());
    if replica.stages() > 1 {
        set("pp_partition", replica.partition().into());
    }
    if stage.experts > 1 {
        set("moe_expert_parallel_size", stage.experts.into());
    }
    set("enable_attention_dp", (stage.data > 1).into());
    if document.batch > 0 {
        set("max_batch_size", document.batch.div_ceil(replica.stages()).into());
    }
    set("max_num_tokens", step_tokens(plan, replica).into());
    set("max_seq_len", replica.tokens().into());
    if document.role != ServingRole::Decode {
        set("enable_chunked_prefill", true.into());
    }
    let mut cache = Map::new();
    cache.insert("free_gpu_memory_fraction".to_owned(), memory_share(plan).into());
    match plan.question().cache.as_deref() {
        None => {}
        Some("fp8") => {
            cache.insert("dtype".to_owned(), "fp8".into());
        }
        Some(encoding) => {
            let what = format!("a cache in `{}`", encoding.escape_debug());
            let rule = "TensorRT-LLM is given fp8 here, or chooses the encoding by the model";
            return Err(replica.lacks(what, rule, "plan with --cache fp8, or without --cache", "batch"));
        }
    }
    if replica.class.shared_prefix > 0 {
        cache.insert("enable_block_reuse".to_owned(), true.into());
    }
    set("kv_cache_config", cache.into());
    if document.role != ServingRole::Aggregated {
        let tokens = replica.class.input;
        set("cache_transceiver_config", json!({ "backend": "UCX", "max_tokens_in_buffer": tokens }));
    }
    if document.role == ServingRole::Prefill {
        set("disable_overlap_scheduler", true.into());
    }
    Ok(settings)
}
