//! Look-up of kernels, operators and transfers.

use stagewright_core::document::{
    CostsDocument, KernelDocument, KernelKind, LinkCostsDocument, Precision, TransferKind,
};
use stagewright_costs::{Costs, Estimate, Source};

use crate::tables::{attention, costs, product, products, seconds, table};

const SIZES: [f64; 7] = [16.0, 64.0, 256.0, 1024.0, 2048.0, 8192.0, 16384.0];

fn look_up(costs: &Costs, kernel: &KernelDocument) -> Estimate {
    costs.kernel("gpu", kernel, Precision::Bf16).unwrap()
}

fn close(estimate: Estimate, expected: f64, tolerance: f64) {
    let error = (estimate.seconds / expected - 1.0).abs();
    assert!(error < tolerance, "{estimate:?}, not {expected:e}: {error}");
}

#[test]
fn measured_products_are_exact_and_products_between_them_are_interpolated() {
    let costs = costs(vec![products(&SIZES)]);
    let measured = product(1024.0, 8192.0, 2048.0);
    let expected = seconds(&measured, Precision::Bf16);
    assert_eq!(look_up(&costs, &measured), Estimate { seconds: expected, source: Source::Measured });
    for between in [product(1500.0, 8192.0, 2048.0), product(100.0, 5000.0, 700.0), product(17.0, 17.0, 17.0)]
    {
        let estimate = look_up(&costs, &between);
        assert_eq!(estimate.source, Source::Interpolated);
        close(estimate, seconds(&between, Precision::Bf16), 0.05);
    }
}

#[test]
fn products_beyond_the_range_and_batches_are_fitted() {
    let costs = costs(vec![products(&SIZES)]);
    let batched = KernelDocument::Product { batch: 48.0, m: 1024.0, n: 1024.0, k: 64.0 };
    for beyond in [product(1e6, 16384.0, 1024.0), product(1.0, 1.0, 1.0), batched] {
        let estimate = look_up(&costs, &beyond);
        assert_eq!(estimate.source, Source::Fitted);
        close(estimate, seconds(&beyond, Precision::Bf16), 0.1);
    }
}

#[test]
fn attention_of_other_sizes_is_interpolated() {
    let mut rows = Vec::new();
    for batch in [1.0, 2.0, 8.0, 32.0] {
        for tokens in [64.0, 256.0, 1024.0, 4096.0] {
            for (heads, kv_heads) in [(8.0, 8.0), (32.0, 8.0), (64.0, 8.0), (64.0, 4.0)] {
                let launch = attention(batch, tokens, heads, kv_heads);
                rows.push(vec![batch, tokens, heads, kv_heads, 128.0, seconds(&launch, Precision::Bf16)]);
            }
        }
    }
    let costs = costs(vec![table(KernelKind::CausalAttention, rows)]);
    let measured = attention(8.0, 1024.0, 32.0, 8.0);
    assert_eq!(look_up(&costs, &measured).source, Source::Measured);
    for between in [attention(3.0, 2000.0, 32.0, 8.0), attention(8.0, 1024.0, 16.0, 8.0)] {
        let estimate = look_up(&costs, &between);
        assert_eq!(estimate.source, Source::Interpolated, "{between:?}");
        close(estimate, seconds(&between, Precision::Bf16), 0.1);
    }
    let chunk = KernelDocument::Attention {
        batch: 1.0,
        queries: 512.0,
        keys: 4096.0,
        heads: 32.0,
        kv_heads: 8.0,
        head_dim: 128.0,
        causal: true,
    };
    assert_eq!(look_up(&costs, &chunk).source, Source::Fitted);
    let KernelDocument::Attention { batch, queries, keys, heads, kv_heads, head_dim, .. } = measured else {
        unreachable!("it is attention");
    };
    let unmasked =
        KernelDocument::Attention { batch, queries, keys, heads, kv_heads, head_dim, causal: false };
    let estimate = look_up(&costs, &unmasked);
    assert_eq!(estimate.source, Source::Fitted, "of the table with a mask");
    assert!(estimate.seconds > look_up(&costs, &measured).seconds);
}

#[test]
fn one_row_prices_its_size_and_scales_to_others() {
    let costs = costs(vec![table(KernelKind::Product, vec![vec![4096.0, 4096.0, 4096.0, 2e-4]])]);
    assert_eq!(
        look_up(&costs, &product(4096.0, 4096.0, 4096.0)),
        Estimate { seconds: 2e-4, source: Source::Measured }
    );
    let larger = look_up(&costs, &product(32768.0, 4096.0, 4096.0));
    assert!(larger.source == Source::Fitted && larger.seconds > 2e-4 && larger.seconds < 2e-2, "{larger:?}");
}

#[test]
fn without_rows_nothing_is_priced() {
    let costs = costs(vec![table(KernelKind::Product, Vec::new())]);
    assert_eq!(costs.kernel("gpu", &product(1.0, 1.0, 1.0), Precision::Bf16), None);
    assert_eq!(costs.kernel("other", &product(1.0, 1.0, 1.0), Precision::Bf16), None);
    assert!(costs.is_empty());
}

#[test]
fn the_median_of_repeated_rows_counts_and_later_documents_replace_earlier_ones() {
    let row = |seconds| vec![8.0, 8.0, 8.0, seconds];
    let document = |rows| CostsDocument {
        kernels: vec![table(KernelKind::Product, rows)],
        ..CostsDocument::new("test")
    };
    let seconds_from = |documents: Vec<CostsDocument>| {
        let costs = Costs::new(documents.into_iter().map(|document| ("test".to_owned(), document))).unwrap();
        look_up(&costs, &product(8.0, 8.0, 8.0)).seconds
    };
    let first = document(vec![row(9e-6), row(1e-6), row(2e-6)]);
    assert_eq!(seconds_from(vec![first.clone()]), 2e-6);
    assert_eq!(seconds_from(vec![first, document(vec![row(5e-6)])]), 5e-6);
}

#[test]
fn half_precisions_and_classes_of_one_precision_share_measurements() {
    let costs = costs(vec![products(&SIZES)]);
    let launch = product(64.0, 64.0, 64.0);
    let estimate = |class, precision| costs.kernel(class, &launch, precision);
    assert_eq!(estimate("gpu-bf16", Precision::Bf16).unwrap().source, Source::Measured);
    assert_eq!(estimate("gpu", Precision::Fp16).unwrap().source, Source::Fitted);
    assert_eq!(estimate("gpu", Precision::Fp8), None);
    assert_eq!(estimate("gpu-large", Precision::Bf16), None);
}

#[test]
fn dimensions_that_are_not_positive_have_no_seconds() {
    let costs = costs(vec![products(&SIZES)]);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(costs.kernel("gpu", &product(bad, 64.0, 64.0), Precision::Bf16), None);
        let batched = KernelDocument::Product { batch: bad, m: 1.0, n: 1.0, k: 1.0 };
        assert_eq!(costs.kernel("gpu", &batched, Precision::Bf16), None);
    }
}

#[test]
fn transfers_are_looked_up_by_class_kind_and_place() {
    let link = LinkCostsDocument {
        class: "gpu".into(),
        transfer: TransferKind::AllReduce,
        devices: 4,
        between_servers: true,
        source: "test".into(),
        rows: vec![[1e3, 1e-5], [1e6, 1e-4]],
    };
    let document = CostsDocument { links: vec![link], ..CostsDocument::new("test") };
    let costs = Costs::new([("test".to_owned(), document)]).unwrap();
    let measured = costs.transfer("gpu", TransferKind::AllReduce, 4, true, 1e6).unwrap();
    assert_eq!(measured, Estimate { seconds: 1e-4, source: Source::Measured });
    assert_eq!(costs.transfer("gpu", TransferKind::AllReduce, 4, false, 1e6), None);
    assert_eq!(costs.transfer("gpu", TransferKind::AllGather, 4, true, 1e6), None);
    assert_eq!(costs.link("gpu", true), None, "no send was measured");
}
