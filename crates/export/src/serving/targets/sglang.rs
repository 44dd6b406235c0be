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

#[cfg(test)]
mod tests {
    use stagewright_core::document::{RequestClassDocument, ServingRole};

    use super::super::super::testing::{disaggregated, replica, stage, text};

    #[test]
    fn a_script_has_a_line_for_every_copy() {
        let script = text(&disaggregated("sglang"), "sglang");
        let expected = r#"#!/bin/sh
# SGLang: run this on every server with its number, and with `router` where requests arrive.
set -eu
SERVER_0="${SERVER_0:?its address}" # 8 large
SERVER_1="${SERVER_1:?its address}" # 4 small
case "${1:?number of this server, or router}" in
0)
    # decode-1, copy 1 of 1, on large, for class 0
    CUDA_VISIBLE_DEVICES=0,1,2,3 python3 -m sglang.launch_server --model-path org/small --tp-size 4 --max-running-requests 64 --mem-fraction-static 0.88 --disaggregation-mode decode --disaggregation-transfer-backend nixl --host 0.0.0.0 --port 8000 &
    ;;
1)
    # prefill-0, copy 1 of 2, on small, for class 0
    CUDA_VISIBLE_DEVICES=0,1 python3 -m sglang.launch_server --model-path org/small --tp-size 2 --chunked-prefill-size 8192 --mem-fraction-static 0.88 --disaggregation-mode prefill --disaggregation-transfer-backend nixl --disaggregation-bootstrap-port 40000 --host 0.0.0.0 --port 8000 &
    # prefill-0, copy 2 of 2, on small, for class 0
    CUDA_VISIBLE_DEVICES=2,3 python3 -m sglang.launch_server --model-path org/small --tp-size 2 --chunked-prefill-size 8192 --mem-fraction-static 0.88 --disaggregation-mode prefill --disaggregation-transfer-backend nixl --disaggregation-bootstrap-port 40001 --host 0.0.0.0 --port 8100 &
    ;;
router)
    # prefill and decode of class 0
    python3 -m sglang_router.launch_router --host 0.0.0.0 --port 30000 --pd-disaggregation --prefill "http://${SERVER_1}:8000" 40000 --prefill "http://${SERVER_1}:8100" 40001 --decode "http://${SERVER_0}:8000" &
    ;;
*)
    echo "there is no server $1" >&2
    exit 2
    ;;
esac
wait
"#;
        assert_eq!(script, expected);
    }

    #[test]
    fn classes_have_routers_of_their_own() {
        let mut plan = disaggregated("sglang");
        let second = RequestClassDocument { input: 100, output: 100, shared_prefix: 50, share: 0.5 };
        plan.question.classes[0].share = 0.5;
        plan.question.classes.push(second);
        let mut other = replica(ServingRole::Aggregated, 2, vec![stage("large", [1, 1, 1], 0, 32)]);
        other.class = 1;
        plan.replicas.push(other);
        let script = text(&plan, "sglang");
        assert!(
            script.contains("--port 30000 --pd-disaggregation --prefill \"http://${SERVER_1}:8000\" 40000")
        );
        assert!(
            script.contains(
                "--port 30001 --worker-urls \"http://${SERVER_0}:8100\" \"http://${SERVER_0}:8200\""
            )
        );
        assert_eq!(text(&plan, "dynamo").matches("kind: DynamoGraphDeployment").count(), 2);
        assert_eq!(text(&plan, "llm-d").matches("stagewright/class: \"1\"").count(), 2);
    }
}
