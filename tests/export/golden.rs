//! Exports of built-in workloads, derived by hand from the documentation of each runtime.
//!
//! The models have layer granularity, where a decoder layer consists of its attention and its
//! feed-forward block.

use super::plans::{cut_before, device, pipeline, text, workload};

/// Llama on three stages: the embedding and 2 layers, then 3 layers, then 3 layers and the head.
fn llama() -> (stagewright::core::graph::Graph, stagewright::core::document::PlanDocument) {
    let graph = workload("llama", "2-7b", 8);
    let plan = cut_before(&graph, &["decoder.layer.2.attention", "decoder.layer.5.attention"]);
    (graph, plan)
}

#[test]
fn megatron_has_the_embedding_first_and_the_loss_last() {
    let (graph, plan) = llama();
    // The head of this Llama has a weight of its own.
    let layout = "--num-layers 8 --pipeline-model-parallel-size 3 --pipeline-model-parallel-layout 'Et*2|t*3|t*3L' \
                  --untie-embeddings-and-output-weights\n";
    assert_eq!(text("megatron", &plan, Some(&graph)), layout);
    // A single layer is written `t`, and a stage may have no layers.
    let alone = cut_before(&graph, &["decoder.layer.0.attention", "decoder.layer.1.attention", "head"]);
    let layout =
        "--num-layers 8 --pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'E|t|t*7|L'\n";
    assert_eq!(text("megatron", &alone, None), layout);
    let whole = cut_before(&graph, &[]);
    let layout = "--num-layers 8 --pipeline-model-parallel-size 1 --pipeline-model-parallel-layout 'Et*8L'\n";
    assert_eq!(text("megatron", &whole, None), layout);
}

#[test]
fn older_megatron_counts_the_first_and_the_last_stage() {
    let (graph, plan) = llama();
    let flags = "--num-layers 8 --pipeline-model-parallel-size 3 --decoder-first-pipeline-num-layers 2 \
                 --decoder-last-pipeline-num-layers 3 --untie-embeddings-and-output-weights\n";
    assert_eq!(text("megatron-layers", &plan, Some(&graph)), flags);
    let even = cut_before(&graph, &["decoder.layer.4.attention"]);
    assert_eq!(
        text("megatron-layers", &even, Some(&graph)),
        "--num-layers 8 --pipeline-model-parallel-size 2 --untie-embeddings-and-output-weights\n"
    );
}

#[test]
fn servers_count_decoder_layers_alone() {
    let (graph, plan) = llama();
    assert_eq!(text("vllm", &plan, Some(&graph)), "VLLM_PP_LAYER_PARTITION=2,3,3\n");
    assert_eq!(text("sglang", &plan, Some(&graph)), "SGLANG_PP_LAYER_PARTITION=2,3,3\n");
    let gpt = workload("gpt", "2-small", 12);
    let plan = cut_before(&gpt, &["decoder.layer.5.attention"]);
    assert_eq!(text("vllm", &plan, Some(&gpt)), "VLLM_PP_LAYER_PARTITION=5,7\n");
}

#[test]
fn torchtitan_lists_its_own_modules() {
    let (graph, plan) = llama();
    let parts = "module_fqns_per_model_part = [\n    [\"tok_embeddings\", \"layers.0\", \"layers.1\"],\n    \
                 [\"layers.2\", \"layers.3\", \"layers.4\"],\n    \
                 [\"layers.5\", \"layers.6\", \"layers.7\", \"norm\", \"lm_head\"]\n]\n";
    assert_eq!(text("torchtitan", &plan, Some(&graph)), parts);
    let named = pipeline(vec![
        device("acc0", "acc", &["tok_embeddings", "layers.0.attention.wq"]),
        device("acc1", "acc", &["layers.1.attention.wq", "norm"]),
        device("acc2", "acc", &["output"]),
    ]);
    let parts = "module_fqns_per_model_part = [\n    [\"tok_embeddings\", \"layers.0\"],\n    [\"layers.1\", \"norm\"],\n    \
                 [\"lm_head\"]\n]\n";
    assert_eq!(text("torchtitan", &named, None), parts);
}

#[test]
fn llama_cpp_counts_the_output_as_a_layer_and_has_the_embedding_on_the_host() {
    let (graph, _) = llama();
    let names: Vec<&str> = graph.operators().map(|op| graph.operator(op).name.as_str()).collect();
    // The embedding and layers 0 and 1 on the host; 3 layers; 3 layers and the output: 7 of 9 on
    // accelerators.
    let plan = pipeline(vec![
        device("cpu0", "cpu", &names[..6]),
        device("acc0", "acc", &names[6..12]),
        device("acc1", "acc", &names[12..]),
    ]);
    let flags = "--n-gpu-layers 7 --split-mode layer --tensor-split 3,4\n";
    assert_eq!(text("llama-cpp", &plan, Some(&graph)), flags);
    let host = pipeline(vec![device("cpu0", "cpu", &names)]);
    assert_eq!(text("llama-cpp", &host, Some(&graph)), "--n-gpu-layers 0\n");
}

#[test]
fn sequences_leave_inputs_out() {
    let graph = workload("bert", "base", 3);
    // The embeddings, layers 0 and 1; layer 2 and the pooler. `tokens` and `segments` are data.
    let plan = cut_before(&graph, &["encoder.layer.2.attention"]);
    let layers = "[\n    \"embeddings\",\n    \"encoder.layer.0\",\n    \"encoder.layer.1\",\n    \"encoder.layer.2\",\n    \
                  \"pooler\"\n]";
    let balance = format!("balance = [3, 2]\ndevices = [0, 1]\nlayers = {layers}\n");
    assert_eq!(text("torchgpipe", &plan, Some(&graph)), balance);
    let module = text("deepspeed", &plan, Some(&graph));
    let head = format!(
        "from deepspeed.pipe import PipelineModule\n\nPARTS = [0, 3, 5]\nLAYERS = {layers}\n\n\nclass "
    );
    assert!(module.starts_with(&head), "{module}");
}

#[test]
fn pipedream_has_a_criterion_and_replicas() {
    let graph = workload("bert", "base", 3);
    let mut plan = cut_before(&graph, &["encoder.layer.2.attention"]);
    plan.devices[0].replicas = 3;
    let found: serde_json::Value =
        serde_json::from_str(&text("pipedream", &plan, Some(&graph))).expect("it is JSON");
    let expected = serde_json::json!({
        "module_to_stage_map": [0, 0, 0, 1, 1, 1],
        "stage_to_rank_map": {"0": [0, 1, 2], "1": [3]},
        "modules": ["embeddings", "encoder.layer.0", "encoder.layer.1", "encoder.layer.2", "pooler"],
    });
    assert_eq!(found, expected);
}

#[test]
fn a_traced_program_is_cut_where_modules_begin() {
    let graph = workload("gpt", "2-small", 4);
    let plan = cut_before(&graph, &["decoder.layer.1.feed_forward", "decoder.layer.2.attention", "head"]);
    let spec = "from torch.distributed.pipelining import SplitPoint\n\nsplit_spec = {\n    \
                \"transformer.h.1.ln_2\": SplitPoint.BEGINNING,\n    \
                \"transformer.h.2\": SplitPoint.BEGINNING,\n    \"transformer.ln_f\": SplitPoint.BEGINNING\n}\n";
    assert_eq!(text("torch-pipelining", &plan, Some(&graph)), spec);
}

#[test]
fn a_device_map_has_the_highest_modules_that_are_on_one_device() {
    let graph = workload("gpt", "2-small", 3);
    let plan = cut_before(&graph, &["decoder.layer.1.feed_forward"]);
    let map = "{\n    \"transformer.wte\": 0,\n    \"transformer.wpe\": 0,\n    \"transformer.h.0\": 0,\n    \
               \"transformer.h.1.ln_1\": 0,\n    \"transformer.h.1.attn\": 0,\n    \"transformer.h.1.ln_2\": 1,\n    \
               \"transformer.h.1.mlp\": 1,\n    \"transformer.h.2\": 1,\n    \"transformer.ln_f\": 1,\n    \
               \"lm_head\": 1\n}\n";
    assert_eq!(text("accelerate", &plan, Some(&graph)), map);
    assert_eq!(text("accelerate", &cut_before(&graph, &[]), Some(&graph)), "{\n    \"\": 0\n}\n");
}

#[test]
fn devices_are_numbered_by_kind_and_number() {
    // Kinds appear in order of their first appearance, and numbers in numeric order, independently of the stage order.
    let plan = pipeline(vec![
        device("a10", "a", &["m.0"]),
        device("cpu0", "cpu", &["m.1"]),
        device("b0", "b", &["m.2"]),
        device("a9", "a", &["m.3"]),
    ]);
    let map = "{\n    \"m.0\": 1,\n    \"m.1\": \"cpu\",\n    \"m.2\": 2,\n    \"m.3\": 0\n}\n";
    assert_eq!(text("accelerate", &plan, None), map);
    let module = text("openvino", &plan, None);
    let head = "DEVICE = \"HETERO:GPU.0,GPU.1,GPU.2,CPU\"\nAFFINITY = {\n    \"m.0\": \"GPU.1\",\n    \
                \"m.1\": \"CPU\",\n    \"m.2\": \"GPU.2\",\n    \"m.3\": \"GPU.0\"\n}\n";
    assert!(module.starts_with(head), "{module}");
}

#[test]
fn onnx_runtime_has_one_provider_of_a_type() {
    let plan = pipeline(vec![device("cpu0", "cpu", &["/a/MatMul"]), device("acc0", "acc", &["/b/MatMul"])]);
    let module = text("onnxruntime", &plan, None);
    let head = "SETTINGS = \"accelerator(=stagewright_accelerator); cpu(=stagewright_host)\"\nLAYER_ANN = {\n    \
                \"/a/MatMul\": \"stagewright_host\",\n    \"/b/MatMul\": \"stagewright_accelerator\"\n}\n";
    assert!(module.starts_with(head), "{module}");
}
