//! The tables of the example `judge`, so that they have no second copy.

#[path = "../examples/judge/models.rs"]
#[allow(dead_code, reason = "the example asks for more of a model")]
mod models;
#[path = "../examples/judge/rows.rs"]
#[allow(dead_code, reason = "the example reads more of a row")]
mod rows;

use models::Models;
use rows::{Role, Row};
use stagewright_serving::Parallel;

#[test]
fn models_have_their_published_sizes() {
    // Parameters in 10^9 by the model cards.
    let cards = [
        ("meta-llama/Llama-3.1-8B-Instruct", 8.03),
        ("meta-llama/Llama-3.1-70B", 70.6),
        ("meta-llama/Llama-3.1-405B", 405.9),
        ("Qwen/Qwen3-32B", 32.8),
        ("Qwen/Qwen3-235B-A22B-FP8", 235.1),
        ("deepseek-ai/DeepSeek-R1", 671.0),
        ("moonshotai/Kimi-K2.5", 1026.0),
        ("openai/gpt-oss-120b", 116.8),
        ("MiniMaxAI/MiniMax-M2.5", 228.7),
        ("zhipuai/GLM-5", 744.0),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 46.7),
    ];
    let mut models = Models::default();
    for (path, billions) in cards {
        let id = models.find(path, "").unwrap_or_else(|error| panic!("{path}: {error}"));
        let model = models.get(id);
        let layers = model.layers.iter().map(|&kind| {
            let kind = &model.kinds[kind];
            let products: f64 = kind.products.iter().map(|product| product.weights).sum();
            products + kind.experts.map_or(0.0, |experts| experts.weights * experts.count as f64)
        });
        let head = model.head.map_or(0.0, |head| head.weights);
        let table = if model.is_tied { 0.0 } else { head };
        let own = (layers.sum::<f64>() + head + table) / 1e9;
        assert!((own / billions - 1.0).abs() < 0.02, "{path}: {own:.1} and {billions}");
    }
    assert!(models.find("nobody/Unknown-7B", "").unwrap_err().contains("not known"));
}

#[test]
fn labels_quantise_what_checkpoints_quantise() {
    let mut models = Models::default();
    let mut bytes = |path: &str, label: &str| {
        let id = models.find(path, label).unwrap();
        let model = models.get(id);
        let kind = &model.kinds[model.layers[model.layers.len() - 1]];
        let product = kind.products.iter().map(|product| product.bytes).sum::<f64>();
        let weights = kind.products.iter().map(|product| product.weights).sum::<f64>();
        let experts = kind.experts.map_or(0.0, |experts| experts.bytes / experts.weights);
        (product / weights, experts)
    };
    let (dense, _) = bytes("Qwen/Qwen3-32B", "fp8");
    assert!((dense - 1.0).abs() < 0.01, "{dense}");
    let (attention, experts) = bytes("MiniMaxAI/MiniMax-M2.5", "fp4");
    assert!(attention > 1.9 && (experts - 0.5625).abs() < 0.01, "{attention} {experts}");
    let cache = |models: &Models, id| models.get(id).cache.bytes_per_number();
    let mut other = Models::default();
    let labels = ["fp4", "fp8", "bf16"].map(|label| other.find("Qwen/Qwen3-32B", label).unwrap());
    assert_eq!(labels.map(|id| cache(&other, id)), [1.0, 1.0, 2.0]);
    let (_, experts) = bytes("openai/gpt-oss-120b", "fp8");
    assert!((experts - 17.0 / 32.0).abs() < 0.01, "the checkpoint's own: {experts}");
}

#[test]
fn missing_degrees_follow_from_the_others() {
    let header = "row,backend,tp_size,pp_size,attention_dp_size,moe_tp_size,moe_ep_size,batch_size,mode\n";
    let read = |line: &str| -> Row {
        let text = format!("{header}{line}\n");
        csv::Reader::from_reader(text.as_bytes()).deserialize().next().unwrap().unwrap()
    };
    let parallel = |tensor, data, expert_tensor, experts| Parallel { tensor, data, expert_tensor, experts };
    let experts = |line: &str| read(line).parallel(Role::Aggregated, true);
    assert_eq!(experts("1,vllm,1.0,,,2.0,1.0,4.0,agg"), Some((parallel(1, 2, 2, 1), 1)));
    assert_eq!(experts("1,vllm,8.0,1.0,1.0,1.0,8.0,4.0,agg"), Some((parallel(8, 1, 1, 8), 1)));
    assert_eq!(experts("1,vllm,4.0,1.0,1.0,2.0,1.0,4.0,agg"), Some((parallel(4, 1, 4, 1), 1)));
    assert_eq!(experts("1,vllm,4.0,2.0,1.0,0.0,0.0,4.0,agg"), Some((parallel(4, 1, 4, 1), 2)));
    assert_eq!(experts("1,vllm,,,,,,4.0,agg"), None);
    let dense = read("1,vllm,2.0,,,2.0,1.0,4.0,agg").parallel(Role::Aggregated, false);
    assert_eq!(dense, Some((Parallel::tensor(2), 1)));
}
