//! vLLM: a script with `vllm serve` for every copy, and `vllm-router` for prefill and decode.
//!
//! A copy on several servers has a process on each, with `--nnodes`, `--node-rank` and `--master-addr`; all but the first are
//! `--headless`, and vLLM infers ranks of attention from their number. Servers for prompts and for decoding find each other by
//! `VLLM_NIXL_SIDE_CHANNEL_HOST` and `VLLM_NIXL_SIDE_CHANNEL_PORT`, to which ranks of attention add their number.
//!
//! Source: vLLM 0.33.0, `vllm/engine/arg_utils.py`, `vllm/entrypoints/cli/serve.py` and `vllm/envs.py`;
//! `vllm_router/launch_router.py` and the README of vllm-router 0.1.17.

use stagewright_core::text::quoted;

use super::super::engines::{VLLM, disaggregated, separated, vllm};
use super::super::notes::noted;
use super::super::script::{self, Process};
use super::super::{Serving, ServingTarget};
use crate::{Export, Result};

pub(super) static TARGET: ServingTarget = ServingTarget {
    name: "vllm",
    summary: "vLLM: a shell script with vllm serve for every copy, and vllm-router",
    limits: "plans for vLLM; whole experts on all devices of a replica or none; no pipelines that decode alone; as many \
             devices of a replica in each server",
    write,
};

/// Port of the copy with a number on its server.
fn port(slot: u64) -> u64 {
    8000 + slot
}

fn write(plan: &Serving) -> Result<Export> {
    plan.check_engine(&[VLLM], "the target starts vLLM")?;
    let text = script::write(
        plan,
        "vLLM",
        |process| launch(plan, process),
        |placement| {
            let disaggregated = "--vllm-pd-disaggregation";
            script::routers(plan, placement, "vllm-router", disaggregated, port, None)
        },
    )?;
    Ok(noted(plan, text, "vLLM 0.33 and vllm-router 0.1.17"))
}

fn launch(plan: &Serving, process: &Process) -> Result<(String, String)> {
    let Process { replica, rank, ranks, slot, head, address } = process;
    let mut command = String::new();
    if replica.stages() > 1 {
        command.push_str(&format!("VLLM_PP_LAYER_PARTITION={} ", separated(&replica.partition())));
    }
    if disaggregated(replica).is_some() {
        let side = 10_000 + 128 * slot;
        command.push_str(&format!(
            "VLLM_NIXL_SIDE_CHANNEL_HOST=\"{address}\" VLLM_NIXL_SIDE_CHANNEL_PORT={side} "
        ));
    }
    let options = vllm::options(plan, replica)?;
    command.push_str(&format!("vllm serve {} {}", quoted(plan.model()), script::words(&options)));
    if *ranks > 1 {
        let (master, ranks_port) = (50_000 + slot, 51_000 + slot);
        command.push_str(&format!(
            " --nnodes {ranks} --node-rank {rank} --master-addr \"{head}\" --master-port {master}"
        ));
        if replica.stage.data > 1 {
            command.push_str(&format!(" --data-parallel-rpc-port {ranks_port}"));
        }
    }
    match rank {
        0 => command.push_str(&format!(" --port {}", port(*slot))),
        _ => command.push_str(" --headless"),
    }
    Ok((String::new(), command))
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{disaggregated, text};

    #[test]
    fn a_script_has_a_line_for_every_copy() {
        let script = text(&disaggregated("vllm"), "vllm");
        let expected = r#"#!/bin/sh
# vLLM: run this on every server with its number, and with `router` where requests arrive.
set -eu
SERVER_0="${SERVER_0:?its address}" # 8 large
SERVER_1="${SERVER_1:?its address}" # 4 small
case "${1:?number of this server, or router}" in
0)
    # decode-1, copy 1 of 1, on large, for class 0
    CUDA_VISIBLE_DEVICES=0,1,2,3 VLLM_NIXL_SIDE_CHANNEL_HOST="${SERVER_0}" VLLM_NIXL_SIDE_CHANNEL_PORT=10000 vllm serve org/small --tensor-parallel-size 4 --max-num-seqs 64 --max-num-batched-tokens 8192 --max-model-len 4608 --gpu-memory-utilization 0.92 --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_consumer"}' --port 8000 &
    ;;
1)
    # prefill-0, copy 1 of 2, on small, for class 0
    CUDA_VISIBLE_DEVICES=0,1 VLLM_NIXL_SIDE_CHANNEL_HOST="${SERVER_1}" VLLM_NIXL_SIDE_CHANNEL_PORT=10000 vllm serve org/small --tensor-parallel-size 2 --max-num-batched-tokens 8192 --max-model-len 4608 --gpu-memory-utilization 0.92 --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_producer"}' --port 8000 &
    # prefill-0, copy 2 of 2, on small, for class 0
    CUDA_VISIBLE_DEVICES=2,3 VLLM_NIXL_SIDE_CHANNEL_HOST="${SERVER_1}" VLLM_NIXL_SIDE_CHANNEL_PORT=10128 vllm serve org/small --tensor-parallel-size 2 --max-num-batched-tokens 8192 --max-model-len 4608 --gpu-memory-utilization 0.92 --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_producer"}' --port 8001 &
    ;;
router)
    # prefill and decode of class 0
    vllm-router --host 0.0.0.0 --port 30000 --vllm-pd-disaggregation --prefill "http://${SERVER_1}:8000" --prefill "http://${SERVER_1}:8001" --decode "http://${SERVER_0}:8000" &
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
}
