//! Steps of products at the sizes of tiles and waves.
//!
//! A product is divided into tiles, one per thread block, and the processors of a device run them in waves. Its seconds
//! therefore grow in steps, of ⌈m / t⌉ rows of tiles and of ⌈tiles / processors⌉ waves, that no smooth form has. The
//! logarithms of these quantities over their continuous values are features of a linear model of the residuals, times
//! the share of computation in the fitted seconds. Its weights come from the data: the second differences of the
//! residuals between neighbouring sizes, along m and n, against those of the features, by least squares. The number of
//! processors is the candidate that explains the most; on published tables it is the real one (108 for A100, 132 for
//! H100, 142 for L40S, 148 for B200, 188 for RTX PRO 6000).

use crate::grid::{Grid, weights_at};

/// Rows of tiles that libraries use.
const ROWS: [f64; 3] = [64.0, 128.0, 256.0];

/// Tiles whose waves count.
const TILES: [(f64, f64); 3] = [(128.0, 128.0), (128.0, 256.0), (256.0, 128.0)];

/// Numbers of processors of GPUs.
const PROCESSORS: [f64; 29] = [
    16.0, 20.0, 24.0, 30.0, 40.0, 46.0, 56.0, 58.0, 60.0, 68.0, 72.0, 80.0, 82.0, 84.0, 96.0, 104.0, 108.0,
    110.0, 114.0, 120.0, 128.0, 132.0, 142.0, 144.0, 148.0, 152.0, 160.0, 170.0, 188.0,
];

/// Largest difference that counts; larger ones are outliers and are clamped to it.
const LARGEST_DIFFERENCE: f64 = 0.4;

/// Maximum number of sizes of k that are used: the steps hardly depend on k.
const SIZES_OF_K: usize = 8;

/// Fewest differences from which weights are learned.
const FEWEST: usize = 200;

/// Ridge on the weights, per difference.
const RIDGE: f64 = 1e-5;

const FEATURES: usize = ROWS.len() + TILES.len();

/// Sizes of a product, its weight in a difference, and its share of computation.
type Part = ([f64; 3], f64, f64);

/// Difference between a residual and the value that its neighbours along an axis give, with the cells that enter into
/// it.
type Difference = (f64, Vec<Part>);

/// Weights of the steps of one table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Steps {
    pub(crate) processors: f64,
    weights: [f64; FEATURES],
}

impl Steps {
    /// Learns the weights from residuals over (m, n, k); `share` is the share of computation in the fitted seconds.
    /// `None` if there are too few differences. O(values · candidates).
    pub(crate) fn learn(residuals: &Grid, share: impl Fn(&[f64]) -> f64) -> Option<Steps> {
        let differences = differences(residuals, share)?;
        if differences.len() < FEWEST {
            return None;
        }
        let mut best: Option<(f64, Steps)> = None;
        for processors in PROCESSORS {
            let Some((error, steps)) = Steps::fit(processors, &differences) else { continue };
            if best.as_ref().is_none_or(|(least, _)| error < *least) {
                best = Some((error, steps));
            }
        }
        best.map(|(_, steps)| steps)
    }

    /// Fits the weights for a number of processors. Returns the sum of the differences that they leave unexplained, and
    /// the weights.
    fn fit(processors: f64, differences: &[Difference]) -> Option<(f64, Steps)> {
        let row = |(difference, cells): &Difference| {
            let mut row = [0.0; FEATURES];
            for &([m, n, _], weight, share) in cells {
                for (sum, feature) in row.iter_mut().zip(features(m, n, 1.0, processors)) {
                    *sum += weight * share * feature;
                }
            }
            (row, *difference)
        };
        let rows: Vec<([f64; FEATURES], f64)> = differences.iter().map(row).collect();
        let weights = least_squares(&rows)?;
        let error = |(row, difference): &([f64; FEATURES], f64)| {
            let explained: f64 = row.iter().zip(&weights).map(|(feature, weight)| feature * weight).sum();
            (difference - explained).abs()
        };
        Some((rows.iter().map(error).sum(), Steps { processors, weights }))
    }

    /// Logarithm of the factor of a product. O(1).
    pub(crate) fn at(&self, m: f64, n: f64, batch: f64, share: f64) -> f64 {
        let features = features(m, n, batch, self.processors);
        let sum: f64 = features.iter().zip(&self.weights).map(|(feature, weight)| feature * weight).sum();
        share * sum
    }
}

/// Second differences of the residuals along m and along n. `None` unless the table is a dense one of products.
fn differences(residuals: &Grid, share: impl Fn(&[f64]) -> f64) -> Option<Vec<Difference>> {
    let [rows, columns, inner] = residuals.axes() else { return None };
    // Scattered sizes have hardly any three in a row.
    if !residuals.is_dense() {
        return None;
    }
    let every = inner.len().div_ceil(SIZES_OF_K).max(1);
    let mut differences = Vec::new();
    for axis in 0..2 {
        for k in (0..inner.len()).step_by(every) {
            for m in 0..rows.len() {
                for n in 0..columns.len() {
                    differences.extend(difference(residuals, axis, [m, n, k], &share));
                }
            }
        }
    }
    Some(differences)
}

/// The second difference at a cell; `None` at the ends of the axis, or if a residual is missing.
fn difference(
    residuals: &Grid,
    axis: usize,
    own: [usize; 3],
    share: impl Fn(&[f64]) -> f64,
) -> Option<Difference> {
    let axes = residuals.axes();
    let index = own[axis];
    if index == 0 || index + 1 == axes[axis].len() {
        return None;
    }
    let (weights, _) = weights_at(&axes[axis][index - 1..=index + 1], axes[axis][index], Some(1));
    let mut cells = vec![(own, 1.0)];
    for (neighbour, weight) in weights {
        let mut cell = own;
        cell[axis] = index - 1 + neighbour;
        cells.push((cell, -weight));
    }
    let mut difference = 0.0;
    let mut known = Vec::with_capacity(3);
    for (cell, weight) in cells {
        let value = residuals.cell(&cell, None)?;
        let size = |axis: usize| axes[axis][cell[axis]].exp().round();
        let point = [size(0), size(1), size(2)];
        difference += weight * value;
        known.push((point, weight, share(&point)));
    }
    (known.len() == 3).then(|| (difference.clamp(-LARGEST_DIFFERENCE, LARGEST_DIFFERENCE), known))
}

/// Logarithms of the steps over their continuous values.
fn features(m: f64, n: f64, batch: f64, processors: f64) -> [f64; FEATURES] {
    let mut features = [0.0; FEATURES];
    for (feature, rows) in features.iter_mut().zip(ROWS) {
        *feature = ((m / rows).ceil() * rows / m).ln();
    }
    for (feature, (rows, columns)) in features[ROWS.len()..].iter_mut().zip(TILES) {
        let tiles = (m / rows).ceil() * (n / columns).ceil() * batch;
        let waves = (tiles / processors).ceil() * processors;
        *feature = (waves * rows * columns / (m * n * batch)).ln();
    }
    features
}

/// Least squares with a small ridge; `None` if the system is singular.
fn least_squares(rows: &[([f64; FEATURES], f64)]) -> Option<[f64; FEATURES]> {
    let mut system = [[0.0; FEATURES + 1]; FEATURES];
    for (row, value) in rows {
        for i in 0..FEATURES {
            for j in 0..FEATURES {
                system[i][j] += row[i] * row[j];
            }
            system[i][FEATURES] += row[i] * value;
        }
    }
    for (i, row) in system.iter_mut().enumerate() {
        row[i] += RIDGE * rows.len() as f64;
    }
    // Gaussian elimination; the matrix is positive definite, so no pivoting.
    for i in 0..FEATURES {
        let pivot = system[i];
        if pivot[i] <= 0.0 || pivot[i].is_nan() {
            return None;
        }
        for (j, row) in system.iter_mut().enumerate() {
            if j != i {
                let factor = row[i] / pivot[i];
                for (cell, of_pivot) in row.iter_mut().zip(pivot) {
                    *cell -= factor * of_pivot;
                }
            }
        }
    }
    let mut weights = [0.0; FEATURES];
    for (i, weight) in weights.iter_mut().enumerate() {
        *weight = system[i][FEATURES] / system[i][i];
    }
    weights.iter().all(|weight| weight.is_finite()).then_some(weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_processors_is_found_from_waves() {
        let sizes: Vec<f64> = (1..=24).map(|i| f64::from(i) * 200.0 + 17.0).collect();
        let mut points = Vec::new();
        for &m in &sizes {
            for &n in &sizes {
                let tiles = (m / 128.0).ceil() * (n / 256.0).ceil();
                let waves = (tiles / 108.0).ceil() * 108.0;
                points.push((vec![m, n, 1024.0], (waves * 128.0 * 256.0 / (m * n)).ln()));
            }
        }
        let steps = Steps::learn(&Grid::new(&points), |_| 1.0).unwrap();
        assert_eq!(steps.processors, 108.0);
        let (m, n) = (1000.0, 3000.0);
        let waves = ((8.0 * 12.0_f64) / 108.0).ceil() * 108.0 * 128.0 * 256.0 / (m * n);
        assert!((steps.at(m, n, 1.0, 1.0) - waves.ln()).abs() < 0.02);
    }

    #[test]
    fn few_values_have_no_steps() {
        let points: Vec<(Vec<f64>, f64)> = (1..20).map(|i| (vec![f64::from(i), 2.0, 3.0], 0.1)).collect();
        assert_eq!(Steps::learn(&Grid::new(&points), |_| 1.0), None);
        assert_eq!(Steps::learn(&Grid::new(&[]), |_| 1.0), None);
    }
}
