//! Clusters of several kinds: gaps and certificates.

use stagewright_formats::clusters;
use stagewright_serving::{Problem, Verdict, check};

use crate::fixture::{question, read, solved};

/// The shape of Llama 3 70B.
const DENSE: &str = r#"{"model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64,
    "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256, "torch_dtype": "bfloat16"}"#;

const EXPERTS: &str = include_str!("../../../data/configurations/deepseek-v3/config.json");

#[test]
fn unequal_devices_are_planned_with_small_gaps_and_proofs() {
    for (model, name, ttft, tpot, concurrency) in [
        (DENSE, "5xh100", 2.0, 0.05, None),
        (DENSE, "8xh100+8xl40s", 2.0, 0.05, Some(64.0)),
        (DENSE, "8xh100+8xl40s+8xa100", 4.0, 0.1, None),
        (DENSE, "40xh100+40xl40s+40xa100", 1.0, 0.03, None),
        (EXPERTS, "16xh100+16xh200", 4.0, 0.1, None),
        (EXPERTS, "80xh100+60xh200+60xa100", 8.0, 0.2, None),
    ] {
        let mut asked = question(4096, 512);
        asked.ttft_s = Some(ttft);
        asked.tpot_s = Some(tpot);
        asked.concurrency = concurrency;
        let cluster = clusters::find(name).expect("a cluster");
        let structure = read(model);
        let problem =
            Problem::new("question", ("model", &structure), ("cluster", &cluster), asked).expect(name);
        let solution = solved(&problem);
        let plan = solution.document(&problem, &cluster, 0.0);
        assert!(plan.gap.is_some_and(|gap| gap <= 0.03), "{name}: {:?}", plan.gap);
        let report = check(&problem, &plan);
        assert!(report.holds(), "{name}: {:?}", report.violations);
        assert!(matches!(report.bound, Verdict::Verified { .. }), "{name}: {:?}", report.bound);
    }
}
