//! The closed form, fitted to synthetic seconds.

use stagewright_core::document::{KernelFitDocument, KernelKind, Precision};
use stagewright_core::kernel::{self, Work};
use stagewright_costs::fit::{fit, from_others};
use stagewright_formats::clusters::device;
use stagewright_learned::Processor;

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
                let work =
                    Work { flop: 1e6 * 8f64.powi(flop), bytes: 1e5 * 6f64.powi(bytes), inner, rows: 0.0 };
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
    let work = Work { flop: 1e9, bytes: 1e6, inner: 128.0, rows: 0.0 };
    for samples in [vec![], vec![(work, 1e-5)], vec![(work, 1e-5); 50], vec![(work, 1e-300), (work, 1e300)]] {
        let fit = fitted(&samples);
        let numbers = [fit.launch_s, fit.step_s, fit.flops, fit.bandwidth, fit.sharpness, fit.cache_bytes];
        assert!(numbers.iter().all(|value| value.is_finite() && *value > 0.0), "{fit:?}");
    }
}

#[test]
fn a_device_without_measurements_gets_the_shares_and_the_cycles_of_its_siblings() {
    let h100 = Processor::new(device("h100").unwrap(), Precision::Bf16).unwrap();
    let fit = known(KernelKind::Product, Precision::Bf16);
    let own = Processor { flops: 2.0 * h100.flops, bandwidth: 2.0 * h100.bandwidth, clock_hz: 2e9, ..h100 };
    let other = Processor { clock_hz: 1e9, ..h100 };
    let guessed = from_others(&[(other, &fit)], &own, Precision::Bf16).unwrap();
    let ratios = [
        guessed.flops / fit.flops / 2.0,
        guessed.bandwidth / fit.bandwidth / 2.0,
        2.0 * guessed.launch_s / fit.launch_s,
        2.0 * guessed.step_s / fit.step_s,
    ];
    assert!(ratios.iter().all(|ratio| (ratio - 1.0).abs() < 1e-9), "{ratios:?}");
    assert_eq!(from_others(&[], &own, Precision::Bf16), None);
    // A sibling alone counts: the A100's form is ignored beside the H100's own.
    let a100 = Processor::new(device("a100").unwrap(), Precision::Bf16).unwrap();
    let slow = KernelFitDocument { flops: fit.flops / 100.0, ..fit.clone() };
    let guessed = from_others(&[(h100, &fit), (a100, &slow)], &h100, Precision::Bf16).unwrap();
    assert!((guessed.flops / fit.flops - 1.0).abs() < 1e-9);
}
