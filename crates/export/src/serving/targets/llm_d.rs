//! llm-d: a `Deployment` for every replica, or a `LeaderWorkerSet` for copies in several servers.
//!
//! Pods have the labels by which the router of llm-d finds them: `llm-d.ai/inference-serving`, and `llm-d.ai/role` with `prefill`,
//! `decode` or `prefill-decode`. Pods that decode have the routing sidecar at port 8000, which asks a prefill pod first, and their
//! engine is at port 8200. In a `LeaderWorkerSet` the first pod of a copy serves requests; the others have a rank of theirs from
//! `LWS_WORKER_INDEX`, and no labels of the router. Images have the names that llm-d's guides replace.
//!
//! Source: `guides/pd-disaggregation/modelserver/gpu/vllm/base/disaggregatedset.yaml` (5554114) and that of `sglang` (02be547),
//! `guides/recipes/modelserver/base/multi-host/default/decode-deployment.yaml` (7782151) and
//! `guides/wide-ep-lws/modelserver/gpu/vllm/base/decode.yaml` (02cebcc) of llm-d; pull request 1723 of llm-d-router (port 8200); and
//! <https://llm-d.ai/docs/architecture/Components/disagg_prefill-decode>.

use serde_json::{Value, json};
use stagewright_core::document::ServingRole;

use super::super::engines::{SGLANG, VLLM, separated, sglang, vllm};
use super::super::notes::noted;
use super::super::plan::Replica;
use super::super::{Serving, ServingTarget, yaml};
use super::manifests::{arguments, model_label, nodes, pods, resources, selector, variables};
use crate::{Export, Result};

pub(super) static TARGET: ServingTarget = ServingTarget {
    name: "llm-d",
    summary: "llm-d: a Deployment or LeaderWorkerSet for every replica, with labels for its router",
    limits: "plans for vLLM or SGLang; a copy has devices of one kind, as many in each server; the limits of its engine",
    write,
};

fn write(plan: &Serving) -> Result<Export> {
    plan.check_engine(&[VLLM, SGLANG], "llm-d starts vLLM and SGLang here")?;
    let manifests: Vec<Value> =
        plan.replicas.iter().map(|replica| manifest(plan, replica)).collect::<Result<_>>()?;
    let pools = "give the router of llm-d an InferencePool for each class, which selects `stagewright/class`";
    let export = noted(plan, yaml::documents(&manifests), "llm-d of September 2026")
        .note("put images for REPLACE_MODEL_SERVER_IMAGE and REPLACE_ROUTING_SIDECAR_IMAGE")
        .note(nodes(plan))
        .note(pools);
    Ok(match plan.question().engine.as_str() {
        SGLANG => export.also(sglang::dense_blocks(plan)),
        _ => export,
    })
}

/// Whether pods have the sidecar that asks a prefill pod.
fn has_sidecar(replica: &Replica) -> bool {
    replica.document.role == ServingRole::Decode
}

/// Port of the engine.
fn port(replica: &Replica) -> u64 {
    if has_sidecar(replica) { 8200 } else { 8000 }
}

fn manifest(plan: &Serving, replica: &Replica) -> Result<Value> {
    let (count, devices) = pods(replica)?;
    let mine = json!({ "stagewright/replica": replica.name });
    let labels = json!({
        "llm-d.ai/inference-serving": "true",
        "llm-d.ai/engine-type": plan.question().engine,
        "llm-d.ai/model": model_label(plan),
        "llm-d.ai/role": match replica.document.role {
            ServingRole::Aggregated => "prefill-decode",
            role => role.name(),
        },
        "stagewright/class": replica.document.class.to_string(),
        "stagewright/replica": replica.name,
    });
    let leader = template(plan, replica, &labels, devices, count, true)?;
    if count == 1 {
        return Ok(json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": replica.name, "labels": labels },
            "spec": {
                "replicas": replica.document.count,
                "selector": { "matchLabels": mine },
                "template": leader,
            },
        }));
    }
    let worker = template(plan, replica, &mine, devices, count, false)?;
    Ok(json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": { "name": replica.name, "labels": labels },
        "spec": {
            "replicas": replica.document.count,
            "leaderWorkerTemplate": { "size": count, "leaderTemplate": leader, "workerTemplate": worker },
        },
    }))
}

/// Template of the pods that serve requests, or of the others of a copy.
fn template(
    plan: &Serving,
    replica: &Replica,
    labels: &Value,
    devices: u64,
    count: u64,
    serves: bool,
) -> Result<Value> {
    let (command, words) = command(plan, replica, count, serves)?;
    let mut container = json!({
        "name": "modelserver",
        "image": "REPLACE_MODEL_SERVER_IMAGE",
        "command": command,
        "args": words,
        "env": environment(plan, replica),
        "resources": resources(devices),
        "volumeMounts": [{ "name": "shm", "mountPath": "/dev/shm" }],
    });
    if serves {
        container["ports"] = json!([{ "name": "modelserver", "containerPort": port(replica) }]);
        container["readinessProbe"] = json!({ "httpGet": { "path": "/v1/models", "port": "modelserver" } });
    }
    let mut spec = json!({
        "nodeSelector": selector(plan, replica),
        "containers": [container],
        "volumes": [{ "name": "shm", "emptyDir": { "medium": "Memory" } }],
    });
    if serves && has_sidecar(replica) {
        let connector = if plan.question().engine == SGLANG { "sglang" } else { "nixlv2" };
        spec["initContainers"] = json!([{
            "name": "routing-proxy",
            "image": "REPLACE_ROUTING_SIDECAR_IMAGE",
            "args": ["--port=8000", format!("--kv-connector={connector}"), "--secure-serving=false"],
            "ports": [{ "name": "sidecar", "containerPort": 8000 }],
            "restartPolicy": "Always",
        }]);
    }
    Ok(json!({ "metadata": { "labels": labels }, "spec": spec }))
}

/// Command of the engine, and its arguments.
fn command(
    plan: &Serving,
    replica: &Replica,
    count: u64,
    serves: bool,
) -> Result<(&'static [&'static str], Vec<String>)> {
    let is_vllm = plan.question().engine == VLLM;
    let mut words = if is_vllm { Vec::new() } else { vec!["--model-path".to_owned()] };
    words.push(plan.model().to_owned());
    words.extend(if is_vllm { vllm::options(plan, replica)? } else { sglang::options(plan, replica)? });
    let mut words = arguments(&words);
    if count > 1 {
        let nodes = ["--nnodes=$(LWS_GROUP_SIZE)", "--node-rank=$(LWS_WORKER_INDEX)"];
        words.extend(nodes.map(str::to_owned));
        let head = "$(LWS_LEADER_ADDRESS)";
        words.push(match is_vllm {
            true => format!("--master-addr={head}"),
            false => format!("--dist-init-addr={head}:20000"),
        });
    }
    match (is_vllm, serves) {
        (true, false) => words.push("--headless".to_owned()),
        (true, true) => words.push(format!("--port={}", port(replica))),
        (false, _) => words.extend(["--host=0.0.0.0".to_owned(), format!("--port={}", port(replica))]),
    }
    let command: &[&str] =
        if is_vllm { &["vllm", "serve"] } else { &["python3", "-m", "sglang.launch_server"] };
    Ok((command, words))
}

fn environment(plan: &Serving, replica: &Replica) -> Value {
    let is_vllm = plan.question().engine == VLLM;
    let mut entries = Vec::new();
    if replica.stages() > 1 {
        let name = if is_vllm { "VLLM_PP_LAYER_PARTITION" } else { "SGLANG_PP_LAYER_PARTITION" };
        entries.push((name, separated(&replica.partition())));
    }
    let mut variables = variables(&entries);
    if let (true, Value::Array(list)) =
        (is_vllm && replica.document.role != ServingRole::Aggregated, &mut variables)
    {
        let address = json!({ "fieldRef": { "fieldPath": "status.podIP" } });
        list.push(json!({ "name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": address }));
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{aggregated, disaggregated, stage, text};

    #[test]
    fn pods_have_roles_and_the_sidecar_where_they_decode() {
        let manifests = text(&disaggregated("vllm"), "llm-d");
        let (prefill, decode) = manifests.split_once("---\n").unwrap();
        assert!(
            prefill.contains("kind: Deployment") && prefill.contains("llm-d.ai/role: prefill\n"),
            "{prefill}"
        );
        assert!(prefill.contains("- \"--port=8000\"") && !prefill.contains("routing-proxy"), "{prefill}");
        assert!(
            decode.contains("llm-d.ai/role: decode\n") && decode.contains("- \"--port=8200\""),
            "{decode}"
        );
        assert!(decode.contains("- \"--kv-connector=nixlv2\""), "{decode}");
        assert!(text(&disaggregated("sglang"), "llm-d").contains("- \"--kv-connector=sglang\""));
    }

    #[test]
    fn a_copy_in_several_servers_has_a_leader_and_workers() {
        let stages = vec![stage("large", [8, 1, 1], 0, 20), stage("large", [8, 1, 1], 20, 12)];
        let manifest = text(&aggregated("vllm", stages), "llm-d");
        let (leader, worker) = manifest.split_once("    workerTemplate:\n").unwrap();
        assert!(leader.contains("kind: LeaderWorkerSet") && leader.contains("    size: 2\n"), "{leader}");
        assert!(
            leader.contains("llm-d.ai/role: prefill-decode\n") && !leader.contains("--headless"),
            "{leader}"
        );
        assert!(worker.contains("- \"--headless\"") && !worker.contains("llm-d.ai/"), "{worker}");
        for part in [leader, worker] {
            assert!(part.contains("- \"--node-rank=$(LWS_WORKER_INDEX)\""), "{part}");
        }
    }
}
