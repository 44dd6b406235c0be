//! Interpolation of values at sizes along several axes.
//!
//! Values are smooth functions of the logarithms of sizes, plus noise: two programs that time the same kernel differ by
//! 1 to 6% in the median, and by up to 25% in one of ten cases. Interpolation between the two neighbours of a size
//! would take over their noise, so along an axis the value at a size is read off the line that fits its neighbours by
//! least squares with Gaussian weights (locally weighted regression, Cleveland 1979), which are as wide as the larger
//! of the two gaps beside the size. With one neighbour on either side this is linear interpolation. Along several axes,
//! weights multiply. A size of the axis has weight one, so that values at measured sizes are exact along that axis.

use std::collections::BTreeMap;

/// Width of the Gaussian, as a share of the larger gap beside a size.
const WIDTH: f64 = 0.7;

/// Distance of the farthest neighbours that count, as a multiple of the same gap.
const REACH: f64 = 2.2;

/// Maximum number of neighbours that count on either side.
const NEIGHBOURS: usize = 3;

/// A grid has at most this many cells per value; other values are interpolated by distance.
const CELLS_PER_VALUE: usize = 64;

/// Number of cells that a grid may always have.
const ALWAYS_CELLS: usize = 4096;

/// Number of nearest values that count without a grid.
const NEAREST: usize = 8;

/// Largest number of axes.
const AXES: usize = 3;

/// Values at points.
#[derive(Debug, Clone)]
pub(crate) struct Grid {
    /// Logarithms of the sizes along each axis.
    axes: Vec<Vec<f64>>,
    cells: Cells,
}

#[derive(Debug, Clone)]
enum Cells {
    /// Sum and number of the values of every cell, the last axis fastest.
    Dense(Vec<(f64, u32)>),
    /// Few values, spread over many sizes.
    Points(BTreeMap<Vec<usize>, (f64, u32)>),
}

/// An interpolated value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Value {
    pub(crate) value: f64,
    /// Whether the point lies within the sizes of every axis.
    pub(crate) is_inside: bool,
}

/// Weights of sizes along an axis.
type Weights = Vec<(usize, f64)>;

impl Grid {
    /// Values at points, whose sizes are positive; values at equal points are averaged. O(points · log points).
    pub(crate) fn new(points: &[(Vec<f64>, f64)]) -> Grid {
        let count = points.first().map_or(0, |(point, _)| point.len());
        debug_assert!(count <= AXES);
        let axes: Vec<Vec<f64>> = (0..count)
            .map(|axis| {
                let mut sizes: Vec<f64> = points.iter().map(|(point, _)| point[axis].ln()).collect();
                sizes.sort_by(f64::total_cmp);
                sizes.dedup();
                sizes
            })
            .collect();
        let size = axes.iter().try_fold(1_usize, |size, axis| size.checked_mul(axis.len()));
        let limit = ALWAYS_CELLS.max(CELLS_PER_VALUE.saturating_mul(points.len()));
        let mut cells = match size.filter(|&size| size <= limit) {
            Some(size) => Cells::Dense(vec![(0.0, 0); size]),
            None => Cells::Points(BTreeMap::new()),
        };
        let mut grid = Grid { axes, cells: Cells::Points(BTreeMap::new()) };
        for (point, value) in points {
            let Some(indices) = grid.indices(point) else { continue };
            let (sum, number) = match &mut cells {
                Cells::Dense(values) => {
                    let cell = grid.flat(&indices);
                    let (sum, number) = &mut values[cell];
                    (sum, number)
                }
                Cells::Points(values) => {
                    let (sum, number) = values.entry(indices).or_insert((0.0, 0));
                    (sum, number)
                }
            };
            *sum += value;
            *number += 1;
        }
        grid.cells = cells;
        grid
    }

    /// Whether the values are dense enough for a grid with a cell for every combination of sizes.
    pub(crate) fn is_dense(&self) -> bool {
        matches!(self.cells, Cells::Dense(_))
    }

    /// Logarithms of the sizes along each axis.
    pub(crate) fn axes(&self) -> &[Vec<f64>] {
        &self.axes
    }

    /// Value at a point; `None` without values. If `without` is given, it is a value at this point to leave out.
    ///
    /// O(log sizes + 6^axes) on a grid, unless values around the point are missing, otherwise O(values).
    pub(crate) fn value(&self, point: &[f64], without: Option<f64>) -> Option<Value> {
        let logs: Vec<f64> = point.iter().map(|size| size.ln()).collect();
        if let Some(indices) = self.indices(point)
            && let Some(value) = self.cell(&indices, None)
        {
            let Some(left_out) = without else {
                return Some(Value { value, is_inside: true });
            };
            if let Some(value) = self.cell(&indices, Some(left_out)) {
                return Some(Value { value, is_inside: true });
            }
            return self.beside(&logs, &indices).or_else(|| self.nearest(&logs, Some(&indices)));
        }
        if matches!(self.cells, Cells::Points(_)) {
            return self.nearest(&logs, None);
        }
        if let Some(indices) = self.indices(point) {
            return self.beside(&logs, &indices).or_else(|| self.nearest(&logs, None));
        }
        let mut is_inside = true;
        let mut weights: Vec<Weights> = Vec::with_capacity(AXES);
        for (sizes, &log) in self.axes.iter().zip(&logs) {
            let (of_axis, inside) = weights_at(sizes, log, None);
            is_inside &= inside;
            weights.push(of_axis);
        }
        match self.combine(&weights) {
            Some(value) => Some(Value { value, is_inside }),
            None => self.nearest(&logs, None),
        }
    }

    /// The median of the interpolations along each axis, from other sizes of that axis.
    fn beside(&self, logs: &[f64], indices: &[usize]) -> Option<Value> {
        if matches!(self.cells, Cells::Points(_)) {
            return None;
        }
        let mut values = Vec::with_capacity(AXES);
        for (axis, sizes) in self.axes.iter().enumerate() {
            let (of_axis, is_inside) = weights_at(sizes, logs[axis], Some(indices[axis]));
            if is_inside {
                let mut weights: Vec<Weights> = indices.iter().map(|&index| vec![(index, 1.0)]).collect();
                weights[axis] = of_axis;
                values.extend(self.combine(&weights));
            }
        }
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let value = match values.len() {
            0 => return None,
            length if length % 2 == 0 => (values[middle - 1] + values[middle]) / 2.0,
            _ => values[middle],
        };
        Some(Value { value, is_inside: true })
    }

    /// Weighted sum over the product of the axes, clamped to the range of the weighted values; `None` if half of the
    /// weight is on cells without a value.
    fn combine(&self, weights: &[Weights]) -> Option<f64> {
        let (mut sum, mut total) = (0.0, 0.0);
        let (mut least, mut largest) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut indices = vec![0; weights.len()];
        let cells: usize = weights.iter().map(Vec::len).product();
        for mut cell in 0..cells {
            let mut weight = 1.0;
            for (axis, of_axis) in weights.iter().enumerate() {
                let (index, of_size) = of_axis[cell % of_axis.len()];
                cell /= of_axis.len();
                indices[axis] = index;
                weight *= of_size;
            }
            if let Some(value) = self.cell(&indices, None) {
                sum += weight * value;
                total += weight;
                least = least.min(value);
                largest = largest.max(value);
            }
        }
        (total > 0.5).then(|| (sum / total).clamp(least, largest))
    }

    /// Mean of the nearest values, weighted by the inverse square of the distance. O(values).
    fn nearest(&self, logs: &[f64], without: Option<&[usize]>) -> Option<Value> {
        let mut nearest: Vec<(f64, f64)> = Vec::with_capacity(NEAREST + 1);
        self.for_each(|indices, value| {
            if without == Some(indices) {
                return;
            }
            let distance: f64 = indices
                .iter()
                .enumerate()
                .map(|(axis, &index)| (self.axes[axis][index] - logs[axis]).powi(2))
                .sum();
            let place = nearest.partition_point(|&(other, _)| other <= distance);
            if place < NEAREST {
                nearest.insert(place, (distance, value));
                nearest.truncate(NEAREST);
            }
        });
        let (mut sum, mut total) = (0.0, 0.0);
        for (distance, value) in nearest {
            let weight = 1.0 / distance.max(1e-9);
            sum += weight * value;
            total += weight;
        }
        let is_inside =
            self.axes.iter().zip(logs).all(|(sizes, log)| sizes[0] <= *log && *log <= sizes[sizes.len() - 1]);
        (total > 0.0).then(|| Value { value: sum / total, is_inside })
    }

    /// Calls `visit` with the indices and the mean of every cell with values. O(cells).
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&[usize], f64)) {
        match &self.cells {
            Cells::Points(values) => {
                for (indices, &(sum, number)) in values {
                    visit(indices, sum / f64::from(number));
                }
            }
            Cells::Dense(values) => {
                let mut indices = vec![0; self.axes.len()];
                for (index, &(sum, number)) in values.iter().enumerate() {
                    if number > 0 {
                        let mut rest = index;
                        for axis in (0..self.axes.len()).rev() {
                            indices[axis] = rest % self.axes[axis].len();
                            rest /= self.axes[axis].len();
                        }
                        visit(&indices, sum / f64::from(number));
                    }
                }
            }
        }
    }

    /// Mean of a cell, leaving out the value `without` if there is one; `None` if no value remains.
    pub(crate) fn cell(&self, indices: &[usize], without: Option<f64>) -> Option<f64> {
        let (sum, number) = match &self.cells {
            Cells::Dense(values) => values[self.flat(indices)],
            Cells::Points(values) => values.get(indices).copied()?,
        };
        match without {
            None => (number > 0).then(|| sum / f64::from(number)),
            Some(value) => (number > 1).then(|| (sum - value) / f64::from(number - 1)),
        }
    }

    fn indices(&self, point: &[f64]) -> Option<Vec<usize>> {
        let index_of = |(sizes, size): (&Vec<f64>, &f64)| {
            sizes.binary_search_by(|known| known.total_cmp(&size.ln())).ok()
        };
        self.axes.iter().zip(point).map(index_of).collect()
    }

    fn flat(&self, indices: &[usize]) -> usize {
        self.axes.iter().zip(indices).fold(0, |flat, (sizes, index)| flat * sizes.len() + index)
    }
}

/// Weights of the sizes for a value at `log`, without the size at an index; and whether `log` lies within the sizes
/// that remain. Outside of them the nearest size has weight one; without sizes there are no weights.
pub(crate) fn weights_at(sizes: &[f64], log: f64, without: Option<usize>) -> (Weights, bool) {
    let above = sizes.partition_point(|&size| size < log);
    if without.is_none() && sizes.get(above) == Some(&log) {
        return (vec![(above, 1.0)], true);
    }
    let others = |index: &usize| Some(*index) != without;
    let upper: Vec<usize> = (above..sizes.len()).filter(others).take(NEIGHBOURS).collect();
    let lower: Vec<usize> = (0..above).rev().filter(others).take(NEIGHBOURS).collect();
    let (Some(&up), Some(&down)) = (upper.first(), lower.first()) else {
        let end = upper.first().or(lower.first());
        return (end.map(|&index| (index, 1.0)).into_iter().collect(), false);
    };
    let gap = (sizes[up] - log).max(log - sizes[down]);
    let near: Vec<(usize, f64, f64)> = lower
        .into_iter()
        .chain(upper)
        .map(|index| (index, sizes[index] - log))
        .filter(|&(_, distance)| distance.abs() <= REACH * gap)
        .map(|(index, distance)| (index, distance, (-0.5 * (distance / (WIDTH * gap)).powi(2)).exp()))
        .collect();
    let moment =
        |power: i32| near.iter().map(|&(_, distance, weight)| weight * distance.powi(power)).sum::<f64>();
    let [s0, s1, s2] = [moment(0), moment(1), moment(2)];
    let determinant = s0 * s2 - s1 * s1;
    if determinant <= 0.0 || determinant.is_nan() {
        // Sizes so close that their distances vanish.
        return (vec![(down, 0.5), (up, 0.5)], true);
    }
    let line =
        |(index, distance, weight): (usize, f64, f64)| (index, weight * (s2 - distance * s1) / determinant);
    (near.into_iter().map(line).collect(), true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(grid: &Grid, point: &[f64]) -> Value {
        grid.value(point, None).unwrap()
    }

    fn plane(sizes: &[f64]) -> Grid {
        let mut points = Vec::new();
        for &x in sizes {
            for &y in sizes {
                points.push((vec![x, y], 3.0 * x.ln() - 2.0 * y.ln()));
            }
        }
        Grid::new(&points)
    }

    #[test]
    fn values_at_points_are_exact_and_planes_are_interpolated_exactly() {
        let grid = plane(&[1.0, 2.0, 3.0, 8.0, 16.0, 100.0]);
        assert_eq!(value(&grid, &[3.0, 8.0]).value, 3.0 * 3f64.ln() - 2.0 * 8f64.ln());
        for point in [[5.0_f64, 8.0], [1.5, 90.0], [2.5, 2.5]] {
            let expected = 3.0 * point[0].ln() - 2.0 * point[1].ln();
            let Value { value, is_inside } = value(&grid, &point);
            assert!(is_inside && (value - expected).abs() < 1e-9, "{point:?}: {value}, not {expected}");
        }
    }

    #[test]
    fn a_size_between_two_is_interpolated_linearly_in_its_logarithm() {
        let grid = Grid::new(&[(vec![1.0], 0.0), (vec![16.0], 4.0)]);
        assert!((value(&grid, &[2.0]).value - 1.0).abs() < 1e-12);
    }

    #[test]
    fn beyond_the_range_the_last_value_counts() {
        let grid = plane(&[1.0, 10.0, 100.0]);
        let Value { value, is_inside } = value(&grid, &[1e6, 10.0]);
        assert!(!is_inside);
        assert!((value - (3.0 * 100f64.ln() - 2.0 * 10f64.ln())).abs() < 1e-9);
    }

    #[test]
    fn one_point_is_the_value_everywhere_and_no_point_has_none() {
        let grid = Grid::new(&[(vec![4.0, 4.0], 7.0)]);
        assert_eq!(value(&grid, &[4.0, 4.0]), Value { value: 7.0, is_inside: true });
        assert_eq!(value(&grid, &[4.0, 5.0]), Value { value: 7.0, is_inside: false });
        assert_eq!(Grid::new(&[]).value(&[1.0], None), None);
    }

    #[test]
    fn equal_points_are_averaged_and_one_of_them_can_be_left_out() {
        let grid = Grid::new(&[(vec![2.0], 1.0), (vec![2.0], 5.0), (vec![1.0], 0.0), (vec![4.0], 8.0)]);
        assert_eq!(value(&grid, &[2.0]).value, 3.0);
        assert_eq!(grid.value(&[2.0], Some(5.0)).unwrap().value, 1.0);
        // At the end of the axis the nearest values count, by the inverse square of their distance: 3 four times as
        // much as 8.
        assert!((grid.value(&[1.0], Some(0.0)).unwrap().value - 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_missing_cell_is_interpolated_along_its_axes() {
        let sizes = [1.0_f64, 2.0, 4.0, 8.0];
        let mut points = Vec::new();
        for x in sizes {
            for y in sizes {
                if (x, y) != (2.0, 4.0) {
                    points.push((vec![x, y], x.ln() + y.ln()));
                }
            }
        }
        let missing = value(&Grid::new(&points), &[2.0, 4.0]);
        assert!((missing.value - 8f64.ln()).abs() < 1e-9 && missing.is_inside);
    }

    #[test]
    fn scattered_points_need_no_grid() {
        let points: Vec<(Vec<f64>, f64)> = (1..400_u32)
            .map(|i| {
                let x = f64::from(i);
                (vec![x, 1000.0 - x, 1.0 + x * x % 997.0], x)
            })
            .collect();
        let grid = Grid::new(&points);
        assert!(matches!(grid.cells, Cells::Points(_)));
        assert_eq!(value(&grid, &points[57].0).value, 58.0);
        let near = value(&grid, &[100.5, 899.5, 29.0]).value;
        assert!((60.0..140.0).contains(&near), "{near}");
    }

    proptest! {
        #[test]
        fn values_stay_within_those_of_the_points(
            points in prop::collection::vec((prop::collection::vec(1e-3..1e9_f64, 2), -5.0..5.0_f64), 1..40),
            at in prop::collection::vec(1e-6..1e12_f64, 2),
        ) {
            let Value { value, .. } = Grid::new(&points).value(&at, None).unwrap();
            let least = points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
            let largest = points.iter().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(least - 1e-9 <= value && value <= largest + 1e-9);
        }
    }
}
