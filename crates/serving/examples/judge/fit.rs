//! The constants fitted to rows, by damped least squares of log errors and priors, each counted by its square root beyond 10%.

use stagewright_serving::Engine;

use super::cases::{Case, Outcome};
use super::constants::{unknowns, values, with_values};
use super::models::Models;

/// Weight of a unit of the log of a constant's ratio to its prior.
const PRIOR: f64 = 1.0;

/// Log error from which residuals count by their square root.
const ROBUST: f64 = 0.1;

/// Maximum number of steps of the search.
const STEPS: usize = 40;

/// Relative gain of a step at which the search ends.
const ENOUGH: f64 = 1e-5;

/// Change of the log of a constant for its derivative.
const CHANGE: f64 = 1e-3;

/// Engines with the constants that fit cases best.
pub(crate) fn fit(cases: &[&Case], models: &Models, engines: &[Engine]) -> Vec<Engine> {
    let unknowns = unknowns(engines);
    let residuals = |logs: &[f64]| -> Vec<f64> {
        let values: Vec<f64> = logs.iter().map(|log| log.exp()).collect();
        let engines = with_values(engines, &values);
        let priors =
            unknowns.iter().zip(logs).map(|(unknown, log)| PRIOR * (log - unknown.constant.prior.ln()));
        let errors = cases.iter().flat_map(|case| match case.predict(models, &engines) {
            Ok(Outcome::Predicted(prediction)) => {
                [(prediction.ttft / case.measured[0]).ln(), (prediction.tpot / case.measured[1]).ln()]
            }
            _ => [0.0; 2],
        });
        errors.chain(priors).collect()
    };
    let mut logs: Vec<f64> = values(engines).iter().map(|value| value.ln()).collect();
    let mut damping = 1e-2;
    let mut now = residuals(&logs);
    for _ in 0..STEPS {
        let derivatives: Vec<Vec<f64>> = (0..logs.len())
            .map(|index| {
                let mut changed = logs.clone();
                changed[index] += CHANGE;
                let changed = residuals(&changed);
                changed.iter().zip(&now).map(|(changed, now)| (changed - now) / CHANGE).collect()
            })
            .collect();
        let mut gain = 0.0;
        for _ in 0..8 {
            let step = step(&derivatives, &now, damping);
            let next: Vec<f64> =
                logs.iter().zip(step).map(|(log, step)| log - step.clamp(-1.0, 1.0)).collect();
            let then = residuals(&next);
            gain = 1.0 - cost(&then) / cost(&now);
            if gain > 0.0 {
                (logs, now, damping) = (next, then, damping / 3.0);
                break;
            }
            damping *= 4.0;
        }
        if gain < ENOUGH {
            break;
        }
    }
    let values: Vec<f64> = logs.iter().map(|log| log.exp()).collect();
    with_values(engines, &values)
}

fn cost(residuals: &[f64]) -> f64 {
    residuals.iter().map(|residual| (1.0 + (residual / ROBUST).powi(2)).sqrt() - 1.0).sum()
}

/// The damped step of Gauss and Newton, with weights for the robust cost.
fn step(derivatives: &[Vec<f64>], residuals: &[f64], damping: f64) -> Vec<f64> {
    let weights: Vec<f64> =
        residuals.iter().map(|residual| 1.0 / (1.0 + (residual / ROBUST).powi(2)).sqrt()).collect();
    let product = |left: &[f64], right: &[f64]| -> f64 {
        left.iter().zip(right).zip(&weights).map(|((left, right), weight)| left * right * weight).sum()
    };
    let count = derivatives.len();
    let mut rows: Vec<Vec<f64>> = (0..count)
        .map(|row| {
            let mut cells: Vec<f64> =
                derivatives.iter().map(|column| product(&derivatives[row], column)).collect();
            cells[row] *= 1.0 + damping;
            cells.push(product(&derivatives[row], residuals));
            cells
        })
        .collect();
    // Elimination without pivoting: the priors make the matrix positive definite.
    for pivot in 0..count {
        let upper = rows[pivot].clone();
        for row in (0..count).filter(|&row| row != pivot) {
            let share = rows[row][pivot] / upper[pivot];
            rows[row].iter_mut().zip(&upper).for_each(|(cell, upper)| *cell -= share * upper);
        }
    }
    (0..count).map(|index| rows[index][count] / rows[index][index]).collect()
}
