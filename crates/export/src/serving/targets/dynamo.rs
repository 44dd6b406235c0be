//! NVIDIA Dynamo: a `DynamoGraphDeployment` for each class, with a frontend and a component for every replica.
//!
//! Components have the type `prefill`, `decode` or `worker`, and as many `replicas` as the plan has copies. A copy in several servers
//! has `multinode.nodeCount` pods of equal size, to which the operator adds addresses and ranks. A frontend sends all prompts of its
//! model to prefill workers if there are any, so that aggregated replicas of a class that has these are a deployment of their own.
//! Engines take the options of this folder; settings of TensorRT-LLM are flags, and the others `--override-engine-args` in JSON.
//!
//! Source: `examples/backends/vllm/deploy/v1beta1/disagg.yaml` (14a3b0d) and `disagg-multinode.yaml` (04521f4),
//! `examples/backends/sglang/deploy/v1beta1/disagg.yaml` (2ac51dd), `examples/backends/trtllm/deploy/v1beta1/disagg.yaml` (04521f4),
//! `vllm/args.py` and `trtllm/backend_args.py` of ai-dynamo 1.6.1, and
//! <https://docs.nvidia.com/dynamo/kubernetes-deployment/multinode/multinode-deployments>.

use serde_json::{Map, Value, json};
use stagewright_core::document::ServingRole;

use super::super::engines::{
    SGLANG, TENSORRT_LLM, VLLM, disaggregated, separated, sglang, tensorrt_llm, vllm,
};
use super::super::notes::noted;
use super::super::plan::Replica;
use super::super::{Serving, ServingTarget, yaml};
use super::manifests::{arguments, nodes, pods, resources, selector, variables};
use crate::{Export, Result};

pub(super) static TARGET: ServingTarget = ServingTarget {
    name: "dynamo",
    summary: "NVIDIA Dynamo: a DynamoGraphDeployment for each class, with a component for every replica",
    limits: "a copy has devices of one kind, as many in each server; the limits of its engine",
    write,
};

/// Flags of `dynamo.trtllm` by the setting that each gives.
const FLAGS: [(&str, &str); 6] = [
    ("tensor_parallel_size", "--tensor-parallel-size"),
    ("pipeline_parallel_size", "--pipeline-parallel-size"),
    ("moe_expert_parallel_size", "--expert-parallel-size"),
    ("max_batch_size", "--max-batch-size"),
    ("max_num_tokens", "--max-num-tokens"),
    ("max_seq_len", "--max-seq-len"),
];

fn write(plan: &Serving) -> Result<Export> {
    plan.check_engine(&[VLLM, SGLANG, TENSORRT_LLM], "Dynamo starts vLLM, SGLang and TensorRT-LLM")?;
    let mut deployments = Vec::new();
    for class in plan.classes() {
        let apart: Vec<&Replica> =
            plan.of(class, ServingRole::Prefill).chain(plan.of(class, ServingRole::Decode)).collect();
        let together: Vec<&Replica> = plan.of(class, ServingRole::Aggregated).collect();
        for (name, replicas) in [("disaggregated", apart), ("aggregated", together)] {
            if !replicas.is_empty() {
                deployments.push(deployment(plan, &format!("class-{class}-{name}"), &replicas)?);
            }
        }
    }
    let several = (deployments.len() > 1).then(|| "each deployment has a frontend of its own".to_owned());
    let export = noted(plan, yaml::documents(&deployments), "Dynamo 1.6, nvidia.com/v1beta1");
    let export = export.note("put the runtime image of Dynamo for IMAGE").note(nodes(plan)).also(several);
    Ok(match plan.question().engine.as_str() {
        SGLANG => export.also(sglang::dense_blocks(plan)),
        _ => export,
    })
}

fn deployment(plan: &Serving, name: &str, replicas: &[&Replica]) -> Result<Value> {
    let mut components = vec![json!({
        "name": "Frontend",
        "type": "frontend",
        "replicas": 1,
        "podTemplate": { "spec": { "containers": [{ "name": "main", "image": "IMAGE" }] } },
    })];
    for replica in replicas {
        components.push(component(plan, replica)?);
    }
    Ok(json!({
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": { "name": name },
        "spec": { "components": components },
    }))
}

fn component(plan: &Serving, replica: &Replica) -> Result<Value> {
    let (count, devices) = pods(replica)?;
    let (module, words) = command(plan, replica)?;
    let mut container = json!({
        "name": "main",
        "image": "IMAGE",
        "command": ["python3", "-m", module],
        "args": arguments(&words),
        "resources": resources(devices),
    });
    let variable = match plan.question().engine.as_str() {
        VLLM => Some("VLLM_PP_LAYER_PARTITION"),
        SGLANG => Some("SGLANG_PP_LAYER_PARTITION"),
        _ => None,
    };
    if let Some(variable) = variable.filter(|_| replica.stages() > 1) {
        container["env"] = variables(&[(variable, separated(&replica.partition()))]);
    }
    let mut component = json!({
        "name": replica.name,
        "type": disaggregated(replica).unwrap_or("worker"),
        "replicas": replica.document.count,
        "podTemplate": { "spec": { "nodeSelector": selector(plan, replica), "containers": [container] } },
    });
    if count > 1 {
        component["multinode"] = json!({ "nodeCount": count });
    }
    Ok(component)
}

/// Module of a worker, and its arguments.
fn command(plan: &Serving, replica: &Replica) -> Result<(&'static str, Vec<String>)> {
    let model = plan.model();
    let mode = disaggregated(replica).map(|mode| ["--disaggregation-mode", mode]);
    let named = |option: &str| vec![option.to_owned(), model.to_owned()];
    let served = || ["--served-model-name", model].map(str::to_owned);
    Ok(match plan.question().engine.as_str() {
        VLLM => {
            let mut words = named("--model");
            words.extend(mode.into_iter().flatten().map(str::to_owned));
            words.extend(vllm::options(plan, replica)?);
            ("dynamo.vllm", words)
        }
        SGLANG => {
            let mut words = named("--model-path");
            words.extend(served());
            words.extend(sglang::options(plan, replica)?);
            if mode.is_some() {
                words.extend(["--disaggregation-bootstrap-port", "12345"].map(str::to_owned));
            }
            words.extend(["--host", "0.0.0.0"].map(str::to_owned));
            ("dynamo.sglang", words)
        }
        _ => {
            let mut words = named("--model-path");
            words.extend(served());
            words.extend(mode.into_iter().flatten().map(str::to_owned));
            words.extend(flags(tensorrt_llm::settings(plan, replica)?));
            ("dynamo.trtllm", words)
        }
    })
}

/// Settings of TensorRT-LLM as flags of its worker, and the others in JSON.
fn flags(mut settings: Map<String, Value>) -> Vec<String> {
    let mut words = Vec::new();
    for (setting, flag) in FLAGS {
        if let Some(value) = settings.remove(setting) {
            words.extend([flag.to_owned(), value.to_string()]);
        }
    }
    if settings.remove("enable_attention_dp") == Some(Value::Bool(true)) {
        words.push("--enable-attention-dp".to_owned());
    }
    words.extend(["--override-engine-args".to_owned(), Value::from(settings).to_string()]);
    words
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{aggregated, disaggregated, stage, text};

    #[test]
    fn a_deployment_has_a_component_for_every_replica() {
        let manifest = text(&disaggregated("sglang"), "dynamo");
        for part in [
            "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata:\n  name: class-0-disaggregated\n",
            "    - name: prefill-0\n",
            "      replicas: 2\n      type: prefill\n",
            "                - dynamo.sglang\n",
            "                  nvidia.com/gpu: \"4\"\n          nodeSelector:\n            stagewright/kind: large\n",
            "                - \"--disaggregation-bootstrap-port\"\n                - \"12345\"\n",
        ] {
            assert!(manifest.contains(part), "{manifest}");
        }
        assert!(!manifest.contains("multinode"));
    }

    #[test]
    fn a_copy_in_several_servers_is_multinode() {
        let stages = vec![stage("large", [8, 1, 1], 0, 20), stage("large", [8, 1, 1], 20, 12)];
        let manifest = text(&aggregated("vllm", stages.clone()), "dynamo");
        assert!(
            manifest.contains("    - multinode:\n        nodeCount: 2\n      name: aggregated-0\n"),
            "{manifest}"
        );
        let variable = "- name: VLLM_PP_LAYER_PARTITION\n                  value: \"20,12\"\n";
        assert!(manifest.contains(variable), "{manifest}");
        let manifest = text(&aggregated("tensorrt-llm", stages), "dynamo");
        assert!(manifest.contains("\\\"pp_partition\\\":[20,12]"), "{manifest}");
    }
}
