//! Look-ups in random measurements.

use proptest::prelude::*;
use stagewright_core::document::{KernelDocument, KernelKind, Precision};

use crate::tables::{costs, table};

fn rows(dimensions: usize) -> impl Strategy<Value = Vec<Vec<f64>>> {
    let size = prop_oneof![Just(1.0), Just(64.0), Just(1000.0), (1.0..1e15_f64).prop_map(f64::floor)];
    let row = (prop::collection::vec(size, dimensions), 1e-12..1e15_f64).prop_map(|(mut row, seconds)| {
        row.push(seconds);
        row
    });
    prop::collection::vec(row, 1..30)
}

fn size() -> impl Strategy<Value = f64> {
    prop_oneof![1e-300..1.0_f64, 1.0..1e6_f64, 1e6..1e300_f64, Just(64.0), Just(1000.0)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn products_have_finite_positive_seconds(
        rows in rows(3),
        sizes in prop::collection::vec(size(), 4),
    ) {
        let first = rows[0].clone();
        let costs = costs(vec![table(KernelKind::Product, rows)]);
        for kernel in [
            KernelDocument::Product { batch: sizes[0], m: sizes[1], n: sizes[2], k: sizes[3] },
            KernelDocument::Product { batch: 1.0, m: sizes[1], n: first[1], k: first[2] },
            KernelDocument::Product { batch: 1.0, m: first[0], n: first[1], k: first[2] },
        ] {
            let seconds = costs.kernel("gpu", &kernel, Precision::Bf16).unwrap().seconds;
            prop_assert!(seconds.is_finite() && seconds > 0.0, "{kernel:?}: {seconds}");
        }
    }

    #[test]
    fn attention_has_finite_positive_seconds(
        rows in rows(5),
        sizes in prop::collection::vec(size(), 6),
        causal in any::<bool>(),
    ) {
        let costs = costs(vec![
            table(KernelKind::CausalAttention, rows.clone()),
            table(KernelKind::DecodeAttention, rows),
        ]);
        let kernel = KernelDocument::Attention {
            batch: sizes[0],
            queries: sizes[1],
            keys: sizes[2],
            heads: sizes[3],
            kv_heads: sizes[4],
            head_dim: sizes[5],
            causal,
        };
        let seconds = costs.kernel("gpu", &kernel, Precision::Bf16).unwrap().seconds;
        prop_assert!(seconds.is_finite() && seconds > 0.0, "{kernel:?}: {seconds}");
    }
}
