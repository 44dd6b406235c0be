//! The downhill simplex method of Nelder and Mead (1965), for fits of a few numbers.

/// The point of least loss after about as many evaluations as given, from a simplex with a corner at `start` and edges of
/// length `side` along the axes. Deterministic.
pub fn minimise<const N: usize>(
    loss: &dyn Fn(&[f64; N]) -> f64,
    start: [f64; N],
    side: f64,
    evaluations: usize,
) -> [f64; N] {
    let mut simplex: Vec<([f64; N], f64)> = (0..=N)
        .map(|corner| {
            let mut point = start;
            if corner > 0 {
                point[corner - 1] += side;
            }
            (point, loss(&point))
        })
        .collect();
    let mut used = simplex.len();
    while used < evaluations {
        simplex.sort_by(|left, right| left.1.total_cmp(&right.1));
        let worst = simplex[N];
        let mut centre = [0.0; N];
        for (point, _) in &simplex[..N] {
            for (sum, coordinate) in centre.iter_mut().zip(point) {
                *sum += coordinate / N as f64;
            }
        }
        let along = |distance: f64| {
            let mut point = [0.0; N];
            for axis in 0..N {
                point[axis] = centre[axis] + distance * (centre[axis] - worst.0[axis]);
            }
            (point, loss(&point))
        };
        let reflected = along(1.0);
        used += 1;
        if reflected.1 < simplex[0].1 {
            let expanded = along(2.0);
            used += 1;
            simplex[N] = if expanded.1 < reflected.1 { expanded } else { reflected };
        } else if reflected.1 < simplex[N - 1].1 {
            simplex[N] = reflected;
        } else {
            let contracted = along(if reflected.1 < worst.1 { 0.5 } else { -0.5 });
            used += 1;
            if contracted.1 < worst.1.min(reflected.1) {
                simplex[N] = contracted;
            } else {
                let best = simplex[0].0;
                for vertex in &mut simplex[1..] {
                    for (coordinate, towards) in vertex.0.iter_mut().zip(&best) {
                        *coordinate = (*coordinate + towards) / 2.0;
                    }
                    vertex.1 = loss(&vertex.0);
                }
                used += N;
            }
        }
    }
    simplex.iter().min_by(|left, right| left.1.total_cmp(&right.1)).map_or(start, |best| best.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bowl_has_its_bottom_and_a_constant_its_start() {
        let bowl =
            |point: &[f64; 3]| (point[0] - 1.0).powi(2) + 2.0 * (point[1] + 2.0).powi(2) + point[2].abs();
        let found = minimise(&bowl, [0.0; 3], 0.3, 400);
        assert!(bowl(&found) < 1e-3, "{found:?}");
        assert_eq!(minimise(&|_: &[f64; 2]| 1.0, [3.0, 4.0], 0.5, 10).map(f64::is_finite), [true; 2]);
    }
}
