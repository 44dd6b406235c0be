//! TensorRT-LLM: a script with `trtllm-serve` for every copy, its settings in a file, and `trtllm-serve disaggregated`.
//!
//! A copy stays in one server: ranks on several are started by MPI or Slurm, which choose the servers themselves. Prefill replicas are
//! `context_servers` of `trtllm-serve disaggregated`, decode replicas `generation_servers`.
//!
//! Source: `tensorrt_llm/commands/serve.py` of TensorRT-LLM at 00209af and
//! <https://nvidia.github.io/TensorRT-LLM/1.4.0rc4/commands/trtllm-serve/trtllm-serve.html> for options;
//! `examples/disaggregated/README.md` at 0139712 and <https://nvidia.github.io/TensorRT-LLM/features/disagg-serving.html>.

use serde_json::{Value, json};
use stagewright_core::document::ServingRole;
use stagewright_core::text::quoted;

use super::super::engines::{TENSORRT_LLM, tensorrt_llm};
use super::super::notes::noted;
use super::super::placement::Placement;
use super::super::script::{self, Process};
use super::super::{Serving, ServingTarget, yaml};
use crate::{Export, ExportError, Result};

pub(super) static TARGET: ServingTarget = ServingTarget {
    name: "tensorrt-llm",
    summary: "TensorRT-LLM: a shell script with trtllm-serve and its settings for every copy",
    limits: "plans for TensorRT-LLM; a replica in one server; attention on each device or divided over all",
    write,
};

/// Port of the copy with a number on its server.
fn port(slot: u64) -> u64 {
    8000 + slot
}

fn write(plan: &Serving) -> Result<Export> {
    plan.check_engine(&[TENSORRT_LLM], "the target starts TensorRT-LLM")?;
    if let Some(replica) = plan.replicas.iter().find(|replica| replica.nodes.len() > 1) {
        let what = format!("{} groups of devices for a copy of {}", replica.nodes.len(), replica.name);
        let rule = "trtllm-serve starts its ranks in one server; Dynamo starts them in several of a kind";
        return Err(ExportError::Devices { what, rule });
    }
    let launch = |process: &Process| launch(plan, process);
    let text = script::write(plan, "TensorRT-LLM", launch, |placement| routers(plan, placement))?;
    let aggregated = plan.replicas.iter().filter(|replica| replica.document.role == ServingRole::Aggregated);
    let several = aggregated.map(|replica| replica.document.count).sum::<u64>() > 1;
    let router = "aggregated copies need a router, which TensorRT-LLM does not have: `--to router-weights` has their shares";
    Ok(noted(plan, text, "TensorRT-LLM 1.4").also(several.then(|| router.to_owned())))
}

fn launch(plan: &Serving, process: &Process) -> Result<(String, String)> {
    let replica = process.replica;
    let settings = Value::from(tensorrt_llm::settings(plan, replica)?);
    // A file for each copy: another would be written while the first is read.
    let file = format!("{}-{}.yaml", replica.name, port(process.slot));
    let before = script::file(&file, &yaml::document(&settings));
    let command = format!(
        "trtllm-serve {} --config {file} --host 0.0.0.0 --port {}",
        quoted(plan.model()),
        port(process.slot)
    );
    Ok((before, command))
}

/// Lines of a server for each class that sends requests to prefill and decode.
fn routers(plan: &Serving, placement: &Placement) -> Vec<String> {
    let mut lines = Vec::new();
    for class in plan.classes() {
        let servers = |role| {
            let copies = script::copies(plan, placement, class, role);
            let urls: Vec<String> = copies
                .map(|copy| format!("{}:{}", script::address(copy.parts[0].server), port(copy.slot)))
                .collect();
            json!({ "num_instances": urls.len(), "urls": urls })
        };
        if plan.of(class, ServingRole::Prefill).next().is_none() {
            continue;
        }
        let settings = json!({
            "hostname": "0.0.0.0",
            "port": 30_000 + u64::from(class),
            "backend": "pytorch",
            "context_servers": servers(ServingRole::Prefill),
            "generation_servers": servers(ServingRole::Decode),
        });
        lines.push(format!("# prefill and decode of class {class}"));
        // The shell puts addresses in.
        lines.push(format!("cat > class-{class}.yaml <<END\n{}END", yaml::document(&settings)));
        lines.push(format!("trtllm-serve disaggregated -c class-{class}.yaml &"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{disaggregated, text};

    #[test]
    fn a_copy_has_a_file_and_a_line() {
        let script = text(&disaggregated("tensorrt-llm"), "tensorrt-llm");
        let first = r#"
    # prefill-0, copy 1 of 2, on small, for class 0
    cat > prefill-0-8000.yaml <<'END'
cache_transceiver_config:
  backend: UCX
  max_tokens_in_buffer: 4096
disable_overlap_scheduler: true
enable_attention_dp: false
enable_chunked_prefill: true
kv_cache_config:
  free_gpu_memory_fraction: 0.9
max_num_tokens: 8192
max_seq_len: 4608
pipeline_parallel_size: 1
tensor_parallel_size: 2
END
    CUDA_VISIBLE_DEVICES=0,1 trtllm-serve org/small --config prefill-0-8000.yaml --host 0.0.0.0 --port 8000 &
"#;
        let router = r#"
    cat > class-0.yaml <<END
backend: pytorch
context_servers:
  num_instances: 2
  urls:
    - "${SERVER_1}:8000"
    - "${SERVER_1}:8001"
generation_servers:
  num_instances: 1
  urls:
    - "${SERVER_0}:8000"
hostname: "0.0.0.0"
port: 30000
END
    trtllm-serve disaggregated -c class-0.yaml &
"#;
        assert!(script.contains(first) && script.contains(router), "{script}");
        assert!(script.contains("--config prefill-0-8001.yaml"));
    }
}
