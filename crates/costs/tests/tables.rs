//! Synthetic measurements.

use stagewright_core::document::{
    CostsDocument, KernelCostsDocument, KernelDocument, KernelFitDocument, KernelKind, Precision,
};
use stagewright_core::kernel;
use stagewright_costs::Costs;

/// A fit from which synthetic seconds come.
pub(crate) fn known(kernel: KernelKind, precision: Precision) -> KernelFitDocument {
    KernelFitDocument {
        kernel,
        precision,
        launch_s: 3e-6,
        step_s: 2e-8,
        flops: 6e14,
        bandwidth: 2e12,
        sharpness: 2.0,
        cache_bytes: 1e7,
        row_s: 0.0,
        source: None,
    }
}

/// Seconds by the known fit.
pub(crate) fn seconds(launch: &KernelDocument, precision: Precision) -> f64 {
    kernel::seconds(&known(kernel::kind(launch), precision), kernel::work(launch, precision))
}

/// A product of m × k times k × n.
pub(crate) fn product(m: f64, n: f64, k: f64) -> KernelDocument {
    KernelDocument::Product { batch: 1.0, m, n, k }
}

/// Causal attention with as many queries as keys.
pub(crate) fn attention(batch: f64, tokens: f64, heads: f64, kv_heads: f64) -> KernelDocument {
    KernelDocument::Attention {
        batch,
        queries: tokens,
        keys: tokens,
        heads,
        kv_heads,
        head_dim: 128.0,
        causal: true,
    }
}

/// Products of all sizes on three axes, on the class `gpu` at bf16.
pub(crate) fn products(sizes: &[f64]) -> KernelCostsDocument {
    let mut rows = Vec::new();
    for &m in sizes {
        for &n in sizes {
            for &k in sizes {
                rows.push(vec![m, n, k, seconds(&product(m, n, k), Precision::Bf16)]);
            }
        }
    }
    table(KernelKind::Product, rows)
}

/// Measurements on the class `gpu` at bf16.
pub(crate) fn table(kernel: KernelKind, rows: Vec<Vec<f64>>) -> KernelCostsDocument {
    KernelCostsDocument {
        class: "gpu".into(),
        kernel,
        precision: Precision::Bf16,
        source: "test".into(),
        rows,
    }
}

/// Costs of tables of kernels.
pub(crate) fn costs(kernels: Vec<KernelCostsDocument>) -> Costs {
    let document = CostsDocument { kernels, ..CostsDocument::new("test") };
    Costs::new([("test".to_owned(), document)]).unwrap()
}
