//! Options of `vllm serve`.
//!
//! Attention has `--data-parallel-size` ranks of `--tensor-parallel-size` devices, and `--max-num-seqs` sequences each. Experts are
//! split over all devices of a stage, or whole on one of them with `--enable-expert-parallel`. `VLLM_PP_LAYER_PARTITION` has the
//! layers of stages, and `--max-num-batched-tokens` all tokens of a step, which may not be fewer than sequences.
//!
//! `NixlConnector` moves caches; it raises for pipelines that decode, and calls `kv_both` deprecated for roles that are known.
//!
//! Source: vLLM 0.33.0, `EngineArgs.add_cli_args` and `create_engine_config` in `vllm/engine/arg_utils.py`, `CacheDType` in
//! `vllm/config/cache.py`, `get_pp_indices` in `vllm/distributed/utils.py`, and `distributed/kv_transfer/kv_connector/v1/nixl`.

use stagewright_core::document::ServingRole;

use super::super::plan::{Replica, Serving};
use super::{memory_share, option, step_tokens};
use crate::Result;

/// Options of a replica, without the model and its port.
///
/// # Errors
/// If vLLM has no option for its experts, its cache or its stages (E036).
pub(in super::super) fn options(plan: &Serving, replica: &Replica) -> Result<Vec<String>> {
    check(plan, replica)?;
    let (document, stage) = (replica.document, replica.stage);
    let mut words = Vec::new();
    option(&mut words, "--tensor-parallel-size", stage.tensor);
    if replica.stages() > 1 {
        option(&mut words, "--pipeline-parallel-size", replica.stages());
    }
    if stage.data > 1 {
        option(&mut words, "--data-parallel-size", stage.data);
    }
    if stage.experts > 1 {
        words.push("--enable-expert-parallel".to_owned());
    }
    if document.batch > 0 {
        option(&mut words, "--max-num-seqs", document.batch);
    }
    option(&mut words, "--max-num-batched-tokens", step_tokens(plan, replica));
    option(&mut words, "--max-model-len", replica.tokens());
    option(&mut words, "--gpu-memory-utilization", memory_share(plan));
    if let Some(encoding) = plan.question().cache.as_deref().and_then(cache) {
        option(&mut words, "--kv-cache-dtype", encoding);
    }
    if replica.class.shared_prefix > 0 {
        words.push("--enable-prefix-caching".to_owned());
    }
    if let Some(role) = connector(replica) {
        option(&mut words, "--kv-transfer-config", role);
    }
    Ok(words)
}

/// Configuration of the connector; `None` for a replica that reads and decodes.
fn connector(replica: &Replica) -> Option<String> {
    let role = match replica.document.role {
        ServingRole::Aggregated => return None,
        ServingRole::Prefill => "kv_producer",
        ServingRole::Decode => "kv_consumer",
    };
    Some(format!(r#"{{"kv_connector":"NixlConnector","kv_role":"{role}"}}"#))
}

/// Name of an encoding of caches; `None` if vLLM lacks it.
fn cache(encoding: &str) -> Option<&'static str> {
    match encoding {
        "fp8" => Some("fp8"),
        "bf16" => Some("bfloat16"),
        "f16" | "fp16" => Some("float16"),
        _ => None,
    }
}

fn check(plan: &Serving, replica: &Replica) -> Result<()> {
    let stage = replica.stage;
    if stage.experts > 1 && stage.experts != replica.width() {
        let what = format!("{} groups of experts on {} devices", stage.experts, replica.width());
        let rule = "vLLM has whole experts on every device of a stage, or on none";
        return Err(replica.lacks(what, rule, "plan for SGLang or TensorRT-LLM", "stages[0].experts"));
    }
    if replica.stages() > 1 && replica.document.role == ServingRole::Decode {
        let rule = "the connector of vLLM takes no pipeline that decodes";
        let what = format!("{} stages", replica.stages());
        return Err(replica.lacks(
            what,
            rule,
            "plan with --max-stages 1, or without --disaggregated",
            "stages",
        ));
    }
    match plan.question().cache.as_deref() {
        Some(encoding) if cache(encoding).is_none() => {
            let what = format!("a cache in `{}`", encoding.escape_debug());
            let rule = "vLLM is given fp8, bf16 or f16 here";
            Err(replica.lacks(what, rule, "plan with one of these encodings", "batch"))
        }
        _ => Ok(()),
    }
}
