//! The closed form of [`stagewright_core::kernel`], fitted to measurements.
//!
//! Minimises the mean absolute logarithm of the ratio of fitted to measured seconds, which outliers hardly move and
//! which counts short and long kernels alike, by the downhill simplex method of Nelder and Mead (1965) on the
//! logarithms of the seven numbers. The start comes from extremes of the data: the shortest kernel, the largest rate. A
//! small penalty on the distance to the start determines what the data leave open, as with few rows. Deterministic.

use rand::seq::SliceRandom;
use stagewright_core::document::{KernelFitDocument, KernelKind, Precision};
use stagewright_core::kernel::{self, Work};
use stagewright_core::seed;
use stagewright_learned::Processor;
use stagewright_learned::downhill::minimise;

/// Maximum number of rows that a fit uses: more do not change its first two digits.
const MOST_ROWS: usize = 3000;

/// Seconds to quantise a row, from which a fit starts.
const ROW: f64 = 3e-9;

/// Number of evaluations of the loss, which is a sum over all rows.
const EVALUATIONS: usize = 900;

/// Side of the first simplex, in logarithms.
const SIDE: f64 = 0.4;

/// Weight of the squared distance to the start.
const PENALTY: f64 = 2e-4;

/// Fits the form to kernels with their seconds. The fit has no source. O(rows).
pub fn fit(kernel: KernelKind, precision: Precision, samples: &[(Work, f64)]) -> KernelFitDocument {
    let mut samples = samples.to_vec();
    if samples.len() > MOST_ROWS {
        samples = samples.partial_shuffle(&mut seed::stream(0, 0), MOST_ROWS).0.to_vec();
    }
    let start = start(&samples);
    let document = |point: &[f64; 7]| form(kernel, precision, point);
    let loss = |point: &[f64; 7]| {
        let fit = document(point);
        let sum: f64 =
            samples.iter().map(|&(work, seconds)| (kernel::seconds(&fit, work) / seconds).ln().abs()).sum();
        let penalty: f64 = point.iter().zip(&start).map(|(value, from)| (value - from).powi(2)).sum();
        let loss = sum / samples.len().max(1) as f64 + PENALTY * penalty;
        if loss.is_finite() { loss } else { f64::MAX }
    };
    let mut best = start;
    for _ in 0..2 {
        best = minimise(&loss, best, SIDE, EVALUATIONS / 2);
    }
    document(&best)
}

/// Fit for a device without measurements, from devices with fits of the same kernel and precision: the geometric means
/// of the shares of peak and memory bandwidth that the others reach, of the cycles of launches and steps, and of their
/// other numbers. Siblings alone count if there are any, by their distance; otherwise all count alike. `None` without
/// other devices. O(devices).
pub fn from_others(
    others: &[(Processor, &KernelFitDocument)],
    own: &Processor,
    precision: Precision,
) -> Option<KernelFitDocument> {
    let (_, first) = others.first()?;
    let processors: Vec<Processor> = others.iter().map(|(processor, _)| *processor).collect();
    let siblings = own.sibling_weights(&processors);
    let has_siblings = siblings.iter().any(Option::is_some);
    let mean = |figure: &dyn Fn(&(Processor, &KernelFitDocument)) -> f64| {
        let (mut sum, mut total) = (0.0, 0.0);
        for (other, sibling) in others.iter().zip(&siblings) {
            let weight = if has_siblings { sibling.unwrap_or(0.0) } else { 1.0 };
            sum += weight * figure(other).max(f64::MIN_POSITIVE).ln();
            total += weight;
        }
        (sum / total).exp()
    };
    Some(KernelFitDocument {
        kernel: first.kernel,
        precision,
        launch_s: mean(&|(other, fit)| fit.launch_s * other.clock_hz) / own.clock_hz,
        step_s: mean(&|(other, fit)| fit.step_s * other.clock_hz) / own.clock_hz,
        row_s: match is_quantised(precision) {
            true => mean(&|(_, fit)| fit.row_s),
            false => 0.0,
        },
        flops: mean(&|(other, fit)| fit.flops / other.flops) * own.flops,
        bandwidth: mean(&|(other, fit)| fit.bandwidth / other.bandwidth) * own.bandwidth,
        sharpness: mean(&|(_, fit)| fit.sharpness).max(1.0),
        cache_bytes: mean(&|(_, fit)| fit.cache_bytes),
        source: None,
    })
}

/// Whether measured products of a precision include the quantisation of an operand.
fn is_quantised(precision: Precision) -> bool {
    precision == Precision::Fp8
}

/// The closed form at a point, which has the logarithms of launch, step, rates, sharpness less one, cache, and the quantisation of a
/// row.
fn form(kernel: KernelKind, precision: Precision, point: &[f64; 7]) -> KernelFitDocument {
    let [launch, step, flops, bandwidth, sharpness, cache, row] =
        point.map(|log| log.clamp(-300.0, 300.0).exp());
    KernelFitDocument {
        kernel,
        precision,
        launch_s: launch,
        step_s: step,
        row_s: if is_quantised(precision) { row } else { 0.0 },
        flops,
        bandwidth,
        sharpness: 1.0 + sharpness.min(31.0),
        cache_bytes: cache,
        source: None,
    }
}

fn start(samples: &[(Work, f64)]) -> [f64; 7] {
    let extreme = |figure: &dyn Fn(&(Work, f64)) -> f64| {
        samples.iter().map(figure).filter(|value| value.is_finite() && *value > 0.0).fold(0.0, f64::max)
    };
    let shortest = samples.iter().map(|&(_, seconds)| seconds).fold(f64::INFINITY, f64::min);
    let shortest = if shortest.is_finite() { shortest } else { 1e-6 };
    let flops = extreme(&|(work, seconds)| work.flop / seconds).max(1.0);
    // Only kernels that move the most bytes are used, because a cache may serve the others.
    let largest = extreme(&|(work, _)| work.bytes);
    let bandwidth =
        extreme(&|(work, seconds)| if work.bytes >= largest / 4.0 { work.bytes / seconds } else { 0.0 })
            .max(1.0);
    [
        (0.8 * shortest).ln(),
        (0.003 * shortest).ln(),
        flops.ln(),
        bandwidth.ln(),
        0.0,
        (largest / 1000.0).max(1.0).ln(),
        ROW.ln(),
    ]
}
