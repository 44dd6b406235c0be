//! The constants fitted to rows, by damped least squares of log errors and priors, each counted by its square root beyond 10%.

use stagewright_llamacpp::constants::{
    ARITHMETIC, CROSSING, EFFICIENCY, EXPERT_LAYER, HOP, HOST_EFFICIENCY, HOST_LAYER, LAYER, LAYER_2024,
    METAL_ARITHMETIC,
};

use super::rows::Case;

/// Number of constants.
const COUNT: usize = 10;

/// Values of constants, in the order of [`CONSTANTS`].
pub(crate) type Values = [f64; COUNT];

/// Name of a constant, its shipped value, its prior, and the weight of one unit of the log of its ratio to the prior.
///
/// Priors are round figures that were chosen before the fit: reading at nearly full bandwidth, some operations a weight, and
/// overheads of some launches of kernels.
pub(crate) const CONSTANTS: [(&str, f64, f64, f64); COUNT] = [
    ("EFFICIENCY", EFFICIENCY, 0.95, 0.25),
    ("ARITHMETIC", ARITHMETIC, 6.0, 0.15),
    ("METAL_ARITHMETIC", METAL_ARITHMETIC, 15.0, 0.15),
    ("LAYER", LAYER, 40e-6, 0.1),
    ("LAYER_2024", LAYER_2024, 80e-6, 0.1),
    ("EXPERT_LAYER", EXPERT_LAYER, 50e-6, 0.1),
    ("HOP", HOP, 200e-6, 0.1),
    ("CROSSING", CROSSING, 50e-6, 0.1),
    ("HOST_EFFICIENCY", HOST_EFFICIENCY, 0.6, 0.25),
    ("HOST_LAYER", HOST_LAYER, 30e-6, 0.1),
];

/// Log error from which residuals count by their square root.
const ROBUST: f64 = 0.1;

/// Steps of the search, far more than it needs.
const STEPS: usize = 60;

/// Relative change of a constant for its derivative.
const CHANGE: f64 = 1e-4;

/// Relative error of a case with other constants.
pub(crate) fn error(case: &Case, values: &Values) -> f64 {
    let [
        efficiency,
        arithmetic,
        metal,
        layer,
        layer_2024,
        expert_layer,
        hop,
        crossing,
        host_efficiency,
        host_layer,
    ] = *values;
    let mut case = case.clone();
    for device in &mut case.devices {
        let operations = if device.class.is_metal() { metal } else { arithmetic };
        device.rates.efficiency = efficiency;
        device.rates.arithmetic = operations * device.bandwidth / device.vector_peak;
        device.rates.layer = if device.rates.layer == LAYER_2024 { layer_2024 } else { layer };
        device.rates.expert_layer = expert_layer;
    }
    (case.host.efficiency, case.host.layer) = (host_efficiency, host_layer);
    case.speed(hop, crossing) / case.measured - 1.0
}

/// The constants that fit cases best.
pub(crate) fn fit(cases: &[&Case]) -> Values {
    let mut logs = CONSTANTS.map(|(_, _, prior, _)| prior.ln());
    let mut damping = 1e-3;
    let mut now = residuals(cases, &logs);
    for _ in 0..STEPS {
        let derivatives: Vec<Vec<f64>> = (0..COUNT)
            .map(|index| {
                let mut changed = logs;
                changed[index] += CHANGE;
                let changed = residuals(cases, &changed);
                changed.iter().zip(&now).map(|(changed, now)| (changed - now) / CHANGE).collect()
            })
            .collect();
        let step = step(&derivatives, &now, damping);
        let mut next = logs;
        next.iter_mut().zip(step).for_each(|(log, step)| *log -= step);
        let then = residuals(cases, &next);
        if cost(&then) < cost(&now) {
            (logs, now, damping) = (next, then, damping / 3.0);
        } else {
            damping *= 4.0;
        }
    }
    logs.map(f64::exp)
}

fn residuals(cases: &[&Case], logs: &[f64; COUNT]) -> Vec<f64> {
    let values = logs.map(f64::exp);
    let priors = CONSTANTS.iter().zip(logs).map(|(&(_, _, prior, weight), log)| weight * (log - prior.ln()));
    cases.iter().map(|case| (1.0 + error(case, &values)).ln()).chain(priors).collect()
}

fn cost(residuals: &[f64]) -> f64 {
    residuals.iter().map(|residual| (1.0 + (residual / ROBUST).powi(2)).sqrt() - 1.0).sum()
}

/// The damped step of Gauss and Newton, with weights for the robust cost.
fn step(derivatives: &[Vec<f64>], residuals: &[f64], damping: f64) -> Values {
    let weights: Vec<f64> =
        residuals.iter().map(|residual| 1.0 / (1.0 + (residual / ROBUST).powi(2)).sqrt()).collect();
    let product = |left: &[f64], right: &[f64]| -> f64 {
        left.iter().zip(right).zip(&weights).map(|((left, right), weight)| left * right * weight).sum()
    };
    let mut rows: Vec<Vec<f64>> = (0..COUNT)
        .map(|row| {
            let mut cells: Vec<f64> =
                derivatives.iter().map(|column| product(&derivatives[row], column)).collect();
            cells[row] *= 1.0 + damping;
            cells.push(product(&derivatives[row], residuals));
            cells
        })
        .collect();
    // Elimination without pivoting: the priors make the matrix positive definite.
    for pivot in 0..COUNT {
        let upper = rows[pivot].clone();
        for (index, row) in rows.iter_mut().enumerate().filter(|&(index, _)| index != pivot) {
            let share = row[pivot] / upper[pivot];
            debug_assert!(share.is_finite(), "row {index}");
            row.iter_mut().zip(&upper).for_each(|(cell, upper)| *cell -= share * upper);
        }
    }
    std::array::from_fn(|index| rows[index][COUNT] / rows[index][index])
}
