//! Options of `sglang.launch_server`.
//!
//! `--tp-size` counts all devices of a stage, and `--attn-dp-size` the ranks of attention among them; it replaces `--dp-size` with
//! `--enable-dp-attention`, which go after 2026. `--max-running-requests` counts the sequences of all ranks, and
//! `--chunked-prefill-size` is divided by their number. `--ep-size` is any divisor of `--tp-size`. `SGLANG_PP_LAYER_PARTITION`
//! has the layers of stages. With ranks of attention, dense blocks are divided over all devices, and not over those of a rank.
//!
//! Source: SGLang 0.5.23, `srt/arg_groups/fields`, `handle_data_parallelism` and `handle_deprecated_dp_attention` in
//! `srt/arg_groups/parallel_hook.py`, `get_pp_indices` in `srt/distributed/utils.py`, and `docs/advanced_features/pd_disaggregation.md`.

use stagewright_core::document::ServingRole;

use super::super::plan::{Replica, Serving};
use super::{chunk, disaggregated, memory_share, option};
use crate::Result;

/// Options of a replica, without the model and its ports.
///
/// # Errors
/// If SGLang has no option for its cache (E036).
pub(in super::super) fn options(plan: &Serving, replica: &Replica) -> Result<Vec<String>> {
    let (document, stage) = (replica.document, replica.stage);
    let mut words = Vec::new();
    option(&mut words, "--tp-size", replica.width());
    if replica.stages() > 1 {
        option(&mut words, "--pp-size", replica.stages());
    }
    if stage.data > 1 {
        option(&mut words, "--attn-dp-size", stage.data);
    }
    if stage.experts > 1 {
        option(&mut words, "--ep-size", stage.experts);
    }
    if document.batch > 0 {
        option(&mut words, "--max-running-requests", document.batch.saturating_mul(stage.data));
    }
    if document.role != ServingRole::Decode {
        option(&mut words, "--chunked-prefill-size", chunk(plan).saturating_mul(stage.data));
    }
    option(&mut words, "--mem-fraction-static", memory_share(plan));
    if let Some(encoding) = plan.question().cache.as_deref() {
        let Some(name) = cache(encoding) else {
            let what = format!("a cache in `{}`", encoding.escape_debug());
            let rule = "SGLang is given fp8 or bf16 here";
            return Err(replica.lacks(what, rule, "plan with one of these encodings", "batch"));
        };
        option(&mut words, "--kv-cache-dtype", name);
    }
    if let Some(mode) = disaggregated(replica) {
        option(&mut words, "--disaggregation-mode", mode);
        option(&mut words, "--disaggregation-transfer-backend", "nixl");
    }
    Ok(words)
}

/// Name of an encoding of caches; `None` if SGLang lacks it.
fn cache(encoding: &str) -> Option<&'static str> {
    match encoding {
        "fp8" => Some("fp8_e4m3"),
        "bf16" => Some("bfloat16"),
        _ => None,
    }
}

/// Note on dense blocks, if a replica has ranks of attention.
pub(in super::super) fn dense_blocks(plan: &Serving) -> Option<String> {
    plan.replicas.iter().any(|replica| replica.stage.data > 1).then(|| {
        "with --attn-dp-size, SGLang divides dense blocks over all devices of a stage, and the plan over those of a rank"
            .to_owned()
    })
}
