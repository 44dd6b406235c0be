//! SGLang: a script with `sglang.launch_server` for every copy, and `sglang_router.launch_router`.
//!
//! A copy on several servers has a process on each, with `--nnodes`, `--node-rank` and `--dist-init-addr`; the first serves
//! requests. Servers with ranks of attention take ports from 233 above their own, so that copies are 100 ports apart. A server for
//! prompts is given to the router with its `--disaggregation-bootstrap-port`.
//!
//! Source: SGLang 0.5.23, `srt/arg_groups/fields/parallel.py` and `disagg.py`, and `docs/advanced_features/pd_disaggregation.md`;
//! `sglang_router/router_args.py` of sglang-router 0.3.2.

use stagewright_core::document::ServingRole;
use stagewright_core::text::quoted;

use super::super::engines::{SGLANG, separated, sglang};
use super::super::notes::noted;
use super::super::script::{self, Process};
use super::super::{Serving, ServingTarget};
use crate::{Export, Result};

pub(super) static TARGET: ServingTarget = ServingTarget {
    name: "sglang",
    summary: "SGLang: a shell script with sglang.launch_server for every copy, and its router",
    limits: "plans for SGLang; as many devices of a replica in each server",
    write,
};

/// Port of the copy with a number on its server.
fn port(slot: u64) -> u64 {
    8000 + 100 * slot
}

/// Port at which servers for decoding ask a copy for prompts for its devices.
fn bootstrap(slot: u64) -> u64 {
    40_000 + slot
}

fn write(plan: &Serving) -> Result<Export> {
    plan.check_engine(&[SGLANG], "the target starts SGLang")?;
    let text = script::write(
        plan,
        "SGLang",
        |process| launch(plan, process),
        |placement| {
            let program = "python3 -m sglang_router.launch_router";
            script::routers(plan, placement, program, "--pd-disaggregation", port, Some(bootstrap))
        },
    )?;
    let export = noted(plan, text, "SGLang 0.5.23 and sglang-router 0.3.2");
    Ok(export.also(sglang::dense_blocks(plan)))
}

fn launch(plan: &Serving, process: &Process) -> Result<(String, String)> {
    let Process { replica, rank, ranks, slot, head, .. } = process;
    let mut command = String::new();
    if replica.stages() > 1 {
        command.push_str(&format!("SGLANG_PP_LAYER_PARTITION={} ", separated(&replica.partition())));
    }
    let options = sglang::options(plan, replica)?;
    command.push_str(&format!(
        "python3 -m sglang.launch_server --model-path {} {}",
        quoted(plan.model()),
        script::words(&options)
    ));
    if *ranks > 1 {
        let first = 34_000 + 20 * slot;
        command
            .push_str(&format!(" --nnodes {ranks} --node-rank {rank} --dist-init-addr \"{head}:{first}\""));
    }
    if replica.document.role == ServingRole::Prefill {
        command.push_str(&format!(" --disaggregation-bootstrap-port {}", bootstrap(*slot)));
    }
    command.push_str(&format!(" --host 0.0.0.0 --port {}", port(*slot)));
    Ok((String::new(), command))
}
