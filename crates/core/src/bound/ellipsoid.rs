//! The ellipsoid method (Shor 1977) with central cuts, for concave functions of a few variables.

use crate::stop::Stop;

/// Shrinks an ellipsoid with axes of the given radii around `centre`, for at most `rounds` rounds or until `stop`
/// applies. `cut` returns the direction from a centre to the maximum, and itself keeps the best centre. Needs two or
/// more variables. O(variables² · rounds).
pub(super) fn shrink(
    mut centre: Vec<f64>,
    radii: &[f64],
    rounds: usize,
    stop: &Stop,
    mut cut: impl FnMut(&[f64]) -> Option<Vec<f64>>,
) -> Option<()> {
    let d = centre.len();
    let size = d as f64;
    let mut matrix = vec![vec![0.0; d]; d];
    for (axis, row) in matrix.iter_mut().enumerate() {
        row[axis] = radii[axis] * radii[axis];
    }
    for _ in 0..rounds {
        if stop.reason().is_some() {
            break;
        }
        // The half-space to keep is {x : cut · (x − centre) ≥ 0}.
        let cut = cut(&centre)?;
        let step: Vec<f64> =
            matrix.iter().map(|row| row.iter().zip(&cut).map(|(a, b)| a * b).sum()).collect();
        let norm = step.iter().zip(&cut).map(|(a, b)| a * b).sum::<f64>().sqrt();
        if !norm.is_finite() || norm <= f64::MIN_POSITIVE {
            break;
        }
        let scale = size * size / (size * size - 1.0);
        for row in 0..d {
            centre[row] += step[row] / norm / (size + 1.0);
            for column in 0..d {
                let shrink = 2.0 / (size + 1.0) * step[row] * step[column] / (norm * norm);
                matrix[row][column] = scale * (matrix[row][column] - shrink);
            }
        }
    }
    Some(())
}

/// From a point outside the simplex of shares, the direction back into it; `None` for a point inside. The last share is
/// not listed, since it is what remains of 1.
pub(super) fn into_simplex(shares: &[f64]) -> Option<Vec<f64>> {
    let mut cut = vec![0.0; shares.len()];
    if let Some(negative) = shares.iter().position(|&share| share < 0.0) {
        cut[negative] = 1.0;
    } else if 1.0 - shares.iter().sum::<f64>() < 0.0 {
        cut.fill(-1.0);
    } else {
        return None;
    }
    Some(cut)
}
