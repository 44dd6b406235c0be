//! The closed form of [`stagewright_core::kernel`], fitted to measurements.
//!
//! Minimises the mean absolute logarithm of the ratio of fitted to measured seconds, which outliers hardly move and
//! which counts short and long kernels alike, by the downhill simplex method of Nelder and Mead (1965) on the
//! logarithms of the six numbers. The start comes from extremes of the data: the shortest kernel, the largest rate. A
//! small penalty on the distance to the start determines what the data leave open, as with few rows. Deterministic.

use rand::seq::SliceRandom;
use stagewright_core::document::{ClassDocument, KernelFitDocument, KernelKind, Precision};
use stagewright_core::kernel::{self, Work};
use stagewright_core::seed;

/// Maximum number of rows that a fit uses: more do not change its first two digits.
const MOST_ROWS: usize = 3000;

/// Number of evaluations of the loss, which is a sum over all rows.
const EVALUATIONS: usize = 900;

/// Weight of the squared distance to the start.
const PENALTY: f64 = 2e-4;

/// Fits the form to kernels with their seconds. The fit has no source. O(rows).
pub fn fit(kernel: KernelKind, precision: Precision, samples: &[(Work, f64)]) -> KernelFitDocument {
    let mut samples = samples.to_vec();
    if samples.len() > MOST_ROWS {
        samples = samples.partial_shuffle(&mut seed::stream(0, 0), MOST_ROWS).0.to_vec();
    }
    let start = start(&samples);
    let document = |point: &[f64; 6]| form(kernel, precision, point);
    let loss = |point: &[f64; 6]| {
        let fit = document(point);
        let sum: f64 =
            samples.iter().map(|&(work, seconds)| (kernel::seconds(&fit, work) / seconds).ln().abs()).sum();
        let penalty: f64 = point.iter().zip(&start).map(|(value, from)| (value - from).powi(2)).sum();
        let loss = sum / samples.len().max(1) as f64 + PENALTY * penalty;
        if loss.is_finite() { loss } else { f64::MAX }
    };
    let mut best = start;
    for _ in 0..2 {
        best = minimise(&loss, best, EVALUATIONS / 2);
    }
    document(&best)
}

/// Fit for a class without measurements, from classes with fits of the same kernel and precision: the geometric means
/// of the shares of peak and memory bandwidth that the others reach, and of their other numbers. `None` without such
/// classes, or without the peak or the bandwidth of the class. O(classes).
pub fn from_others(
    others: &[(&ClassDocument, &KernelFitDocument)],
    class: &ClassDocument,
    precision: Precision,
) -> Option<KernelFitDocument> {
    let peak = |class: &ClassDocument| class.peaks.get(&precision).copied().or(class.peak_flops);
    let known: Vec<(f64, f64, &KernelFitDocument)> = others
        .iter()
        .filter_map(|&(class, fit)| Some((peak(class)?, class.memory_bandwidth?, fit)))
        .collect();
    let (_, _, first) = known.first()?;
    let mean = |figure: &dyn Fn(&(f64, f64, &KernelFitDocument)) -> f64| {
        (known.iter().map(|class| figure(class).max(f64::MIN_POSITIVE).ln()).sum::<f64>()
            / known.len() as f64)
            .exp()
    };
    Some(KernelFitDocument {
        kernel: first.kernel,
        precision,
        launch_s: mean(&|(_, _, fit)| fit.launch_s),
        step_s: mean(&|(_, _, fit)| fit.step_s),
        flops: mean(&|(peak, _, fit)| fit.flops / peak) * peak(class)?,
        bandwidth: mean(&|(_, bandwidth, fit)| fit.bandwidth / bandwidth) * class.memory_bandwidth?,
        sharpness: mean(&|(_, _, fit)| fit.sharpness).max(1.0),
        cache_bytes: mean(&|(_, _, fit)| fit.cache_bytes),
        source: None,
    })
}

/// The closed form at a point, which has the logarithms of launch, step, rates, sharpness less one, and cache.
fn form(kernel: KernelKind, precision: Precision, point: &[f64; 6]) -> KernelFitDocument {
    let [launch, step, flops, bandwidth, sharpness, cache] = point.map(|log| log.clamp(-300.0, 300.0).exp());
    KernelFitDocument {
        kernel,
        precision,
        launch_s: launch,
        step_s: step,
        flops,
        bandwidth,
        sharpness: 1.0 + sharpness.min(31.0),
        cache_bytes: cache,
        source: None,
    }
}

fn start(samples: &[(Work, f64)]) -> [f64; 6] {
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
    ]
}

/// Downhill simplex.
fn minimise(loss: &dyn Fn(&[f64; 6]) -> f64, start: [f64; 6], evaluations: usize) -> [f64; 6] {
    const SIDE: f64 = 0.4;
    let mut simplex: Vec<([f64; 6], f64)> = (0..7)
        .map(|corner| {
            let mut point = start;
            if corner > 0 {
                point[corner - 1] += SIDE;
            }
            (point, loss(&point))
        })
        .collect();
    let mut used = simplex.len();
    while used < evaluations {
        simplex.sort_by(|left, right| left.1.total_cmp(&right.1));
        let worst = simplex[6];
        let mut centre = [0.0; 6];
        for (point, _) in &simplex[..6] {
            for (sum, coordinate) in centre.iter_mut().zip(point) {
                *sum += coordinate / 6.0;
            }
        }
        let along = |distance: f64| {
            let mut point = [0.0; 6];
            for axis in 0..6 {
                point[axis] = centre[axis] + distance * (centre[axis] - worst.0[axis]);
            }
            (point, loss(&point))
        };
        let reflected = along(1.0);
        used += 1;
        if reflected.1 < simplex[0].1 {
            let expanded = along(2.0);
            used += 1;
            simplex[6] = if expanded.1 < reflected.1 { expanded } else { reflected };
        } else if reflected.1 < simplex[5].1 {
            simplex[6] = reflected;
        } else {
            let contracted = along(if reflected.1 < worst.1 { 0.5 } else { -0.5 });
            used += 1;
            if contracted.1 < worst.1.min(reflected.1) {
                simplex[6] = contracted;
            } else {
                let best = simplex[0].0;
                for vertex in &mut simplex[1..] {
                    for (coordinate, towards) in vertex.0.iter_mut().zip(&best) {
                        *coordinate = (*coordinate + towards) / 2.0;
                    }
                    vertex.1 = loss(&vertex.0);
                }
                used += 6;
            }
        }
    }
    simplex.iter().min_by(|left, right| left.1.total_cmp(&right.1)).map_or(start, |best| best.0)
}
