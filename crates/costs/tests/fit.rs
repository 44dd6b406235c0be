//! The closed form, fitted to synthetic seconds.

use stagewright_core::document::{ClassDocument, KernelFitDocument, KernelKind, Precision};
use stagewright_core::kernel::{self, Work};
use stagewright_costs::fit::{fit, from_others};

use crate::tables::known;

fn fitted(samples: &[(Work, f64)]) -> KernelFitDocument {
    fit(KernelKind::Product, Precision::Bf16, samples)
}

#[test]
fn a_fit_to_its_own_seconds_is_close() {
    let known = known(KernelKind::Product, Precision::Bf16);
    let mut samples = Vec::new();
    for flop in 0..12 {
        for bytes in 0..8 {
            for inner in [64.0, 1024.0, 16384.0] {
                let work = Work { flop: 1e6 * 8f64.powi(flop), bytes: 1e5 * 6f64.powi(bytes), inner };
                samples.push((work, kernel::seconds(&known, work)));
            }
        }
    }
    let fit = fitted(&samples);
    let errors = samples.iter().map(|&(work, seconds)| (kernel::seconds(&fit, work) / seconds).ln().abs());
    let mean = errors.sum::<f64>() / samples.len() as f64;
    assert!(mean < 0.02, "{mean}: {fit:?}");
}

#[test]
fn fits_of_no_row_one_row_and_equal_rows_are_finite() {
    let work = Work { flop: 1e9, bytes: 1e6, inner: 128.0 };
    for samples in [vec![], vec![(work, 1e-5)], vec![(work, 1e-5); 50], vec![(work, 1e-300), (work, 1e300)]] {
        let fit = fitted(&samples);
        let numbers = [fit.launch_s, fit.step_s, fit.flops, fit.bandwidth, fit.sharpness, fit.cache_bytes];
        assert!(numbers.iter().all(|value| value.is_finite() && *value > 0.0), "{fit:?}");
    }
}

#[test]
fn a_class_without_measurements_gets_the_shares_that_others_reach() {
    let class = |peak, bandwidth| ClassDocument {
        peak_flops: Some(peak),
        memory_bandwidth: Some(bandwidth),
        ..ClassDocument::default()
    };
    let (known_class, fit) = (class(1e15, 4e12), known(KernelKind::Product, Precision::Bf16));
    let guessed = from_others(&[(&known_class, &fit)], &class(2e15, 8e12), Precision::Bf16).unwrap();
    assert!((guessed.flops / 12e14 - 1.0).abs() < 1e-9);
    assert!((guessed.bandwidth / 4e12 - 1.0).abs() < 1e-9);
    assert_eq!(from_others(&[], &known_class, Precision::Bf16), None);
}
