//! Clusters of several kinds.

use crate::fixture::{problem, question, read, solved};

/// The shape of Llama 3 70B.
const LARGE: &str = r#"{"model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64,
    "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256, "torch_dtype": "bfloat16"}"#;

#[test]
fn unequal_devices_are_planned_within_the_limits() {
    for (cluster, ttft, tpot, concurrency) in [
        ("8xh100", 2.0, 0.05, None),
        ("8xh100+8xl40s", 2.0, 0.05, Some(64.0)),
        ("8xh100+8xl40s", 2.0, 0.05, None),
        ("8xh100+8xl40s+8xa100", 4.0, 0.1, None),
        ("64xh100+64xl40s+64xa100", 4.0, 0.1, None),
        ("20xh100", 2.0, 0.05, None),
        ("5xh100+3xl40s+7xa100", 4.0, 0.1, None),
    ] {
        let mut question = question(4096, 512);
        question.ttft_s = Some(ttft);
        question.tpot_s = Some(tpot);
        question.concurrency = concurrency;
        let problem = problem(&read(LARGE), cluster, question);
        let time = std::time::Instant::now();
        let solution = solved(&problem);
        let plan = solution.plan.as_ref().expect("a plan");
        println!(
            "{cluster} {:?} value {:.4} bound {:.4} {:?} nodes {} sizes {} columns {} {:.2}s",
            concurrency,
            plan.value,
            solution.bound,
            solution.status,
            nodes(&solution),
            solution.space.sizes.len(),
            solution.space.columns.len(),
            time.elapsed().as_secs_f64()
        );
        for chosen in &plan.replicas {
            let key = &solution.space.sizes[chosen.column.size].key;
            println!(
                "  {} x {:?} {:?} {:?} batch {} {:?}",
                chosen.count,
                key.role,
                key.groups,
                chosen.column.shape,
                chosen.column.batch,
                chosen.column.offer
            );
        }
    }
}

fn nodes(solution: &stagewright_replicas::Solution) -> usize {
    match &solution.certificate {
        stagewright_core::document::ServingCertificateDocument::Tree { nodes } => nodes.len(),
        stagewright_core::document::ServingCertificateDocument::Table {} => 0,
    }
}
