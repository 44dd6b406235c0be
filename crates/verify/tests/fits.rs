//! Fitted seconds of library kernels: the checker against the cost model.

use serde_json::json;
use stagewright_core::document::{
    ClassDocument, KernelDocument, KernelFitDocument, KernelKind, OperatorDocument, Precision,
};
use stagewright_core::kernel;

use crate::documents::{Case, placement, read};

fn class() -> ClassDocument {
    let fit = |kernel| KernelFitDocument {
        kernel,
        precision: Precision::Bf16,
        launch_s: 3e-6,
        step_s: 2e-8,
        flops: 6e14,
        bandwidth: 2e12,
        sharpness: 1.7,
        cache_bytes: 1e6,
        row_s: 1e-9,
        source: None,
    };
    ClassDocument { fits: KernelKind::ALL.map(fit).to_vec(), ..ClassDocument::default() }
}

#[test]
fn the_checker_and_the_cost_model_agree_on_every_kernel() {
    let sizes = [1.0, 3.0, 64.0, 65.0, 1000.0, 16384.0];
    let mut kernels = Vec::new();
    for m in sizes {
        for n in sizes {
            kernels.push(KernelDocument::Product { batch: 3.0, m, n, k: 77.0 });
            for causal in [false, true] {
                kernels.push(KernelDocument::Attention {
                    batch: 2.0,
                    queries: m,
                    keys: n,
                    heads: 8.0,
                    kv_heads: 2.0,
                    head_dim: 80.0,
                    causal,
                });
            }
        }
    }
    let class = class();
    let mut case = Case {
        graph: read(json!({"schema": "stagewright.graph/1", "operators": [{"name": "a"}]})),
        cluster: read(json!({"schema": "stagewright.cluster/1",
            "kinds": [{"name": "acc", "class": "gpu", "count": 1, "link": {"bandwidth": 1.0}}]})),
        pins: None,
        plan: placement(&[("acc0", "acc", &["a"])]),
    };
    case.cluster.classes.insert("gpu".into(), class.clone());
    for launch in kernels {
        case.graph.operators[0] = OperatorDocument {
            precision: Some(Precision::Bf16),
            kernels: vec![launch],
            ..OperatorDocument::named("a")
        };
        let fit = kernel::fit(&class, &launch, Precision::Bf16).unwrap();
        let expected = kernel::seconds(fit, kernel::work(&launch, Precision::Bf16));
        let report = case.report();
        assert!(report.holds(), "{:?}", report.violations);
        let seconds = report.devices[0].load_s;
        assert!((seconds / expected - 1.0).abs() < 1e-12, "{launch:?}: {seconds}, not {expected}");
    }
}
