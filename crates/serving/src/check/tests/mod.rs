//! Brute force against rows, servers and bounds.

mod bounds;
mod optima;
mod packing;

use serde_json::json;
use stagewright_core::document::ServingQuestionDocument;
use stagewright_structure::huggingface::{self, Reading};

use crate::fleet::Problem;

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number from `low` to `high`.
    fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// A share from 0 to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn coin(&mut self) -> bool {
        self.range(0, 1) == 0
    }
}

const DENSE: &str = r#"{"model_type": "llama", "num_hidden_layers": 3, "hidden_size": 1024,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 4096,
    "vocab_size": 32000, "tie_word_embeddings": false, "torch_dtype": "bfloat16"}"#;

const MIXTURE: &str = r#"{"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 512,
    "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 1024,
    "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 1000, "tie_word_embeddings": false,
    "torch_dtype": "bfloat16"}"#;

/// A random small problem: up to two kinds with up to six devices, any goal, load, limits and modes.
fn problem(random: &mut Random) -> Problem {
    let names = ["left", "right"];
    let count = random.range(1, 2) as usize;
    let mut kinds = Vec::new();
    let mut classes = serde_json::Map::new();
    for name in &names[..count] {
        let link = json!({"latency_s": 1e-6, "bandwidth": 1e11});
        let server = json!({"devices": random.range(1, 6), "link": {"latency_s": 1e-5, "bandwidth": 1e10}});
        let devices = random.range(1, if count == 1 { 6 } else { 3 });
        kinds.push(
            json!({"name": name, "class": name, "count": devices, "memory_bytes": 4e9 + 4e9 * random.share(),
            "reserve_bytes": 0.0, "link": link, "server": server}),
        );
        let peak = 1e13 * (1.0 + 9.0 * random.share());
        classes.insert(
            (*name).into(),
            json!({"peaks": {"bf16": peak}, "memory_bandwidth": 1e12 * random.share() + 1e11}),
        );
    }
    let cluster = json!({"schema": "stagewright.cluster/1", "classes": classes, "kinds": kinds});
    let goal = ["throughput", "throughput", "devices", "price", "cache"][random.range(0, 4) as usize];
    let modes = [json!(["aggregated"]), json!(["disaggregated"]), json!(["aggregated", "disaggregated"])];
    let engine = ["vllm", "sglang"][random.range(0, 1) as usize];
    let modes = &modes[random.range(0, 2) as usize];
    let mut question = json!({"engine": engine, "goal": goal,
        "modes": modes, "max_stages": random.range(1, 2), "max_batch": random.range(1, 2)});
    let is_single = random.range(0, 2) > 0;
    question["classes"] = match is_single {
        true => json!([{"input": 500, "output": 50, "share": 1.0}]),
        false => {
            json!([{"input": 500, "output": 50, "share": 0.25}, {"input": 100, "output": 200, "share": 0.75}])
        }
    };
    if random.coin() {
        question["ttft_s"] = json!(0.3 + random.share());
        question["tpot_s"] = json!(0.002 + 0.05 * random.share());
    }
    // Several classes, or pools, have caches only for a load.
    let is_plain =
        is_single && modes.as_array().is_some_and(|modes| modes.len() == 1 && modes[0] == "aggregated");
    match (goal, random.range(0, 2)) {
        ("devices" | "price", 0) if is_single => question["concurrency"] = json!(1.0 + 6.0 * random.share()),
        ("devices" | "price", _) => question["rate"] = json!(6.0 * random.share() + 1e-3),
        ("cache", 0) if is_single => question["concurrency"] = json!(1.0 + 3.0 * random.share()),
        ("throughput", 0) => question["concurrency"] = json!(1.0 + 5.0 * random.share()),
        ("cache", _) if !is_plain => question["rate"] = json!(4.0 * random.share() + 1e-3),
        (_, 1) => question["rate"] = json!(4.0 * random.share() + 1e-3),
        _ => {}
    }
    if goal == "price" {
        let price = |name: &&str| (name.to_string(), json!(1.0 + 5.0 * random.share()));
        question["prices"] = names[..count].iter().map(price).collect::<serde_json::Map<_, _>>().into();
    }
    let config = if random.coin() { DENSE } else { MIXTURE };
    let structure = huggingface::read("config.json", config.as_bytes(), None, &Reading::default()).unwrap();
    let cluster = serde_json::from_value(cluster).unwrap();
    let question: ServingQuestionDocument = serde_json::from_value(question).unwrap();
    Problem::new("question", ("config.json", &structure), ("cluster", &cluster), question).unwrap()
}
