//! Candidate sets of operators, given by thresholds on their heads and tails.

use super::Reach;
use crate::graph::OpId;

/// Maximum number of thresholds on heads in the grid, and on tails.
const MAX_THRESHOLDS: usize = 192;

/// Heads and tails, each the minimum over pools, and thresholds on them. Operators are numbered as in `reach`.
pub(super) struct Thresholds {
    ends: Vec<[f64; 2]>,
    /// Thresholds on heads and on tails, each from zero upwards.
    grid: [Vec<f64>; 2],
    /// The largest thresholds that each operator reaches, as an index into the product of the grids.
    cells: Vec<usize>,
    /// The operators by descending head, and by descending tail.
    falling: [Vec<usize>; 2],
}

impl Thresholds {
    pub(super) fn new(reach: &Reach<'_>) -> Thresholds {
        let least = |row: &[f64]| row.iter().copied().fold(f64::INFINITY, f64::min);
        let sides = [&reach.heads, &reach.tails];
        let end = |&op: &OpId| sides.map(|side| least(side.far(&reach.sites, op)));
        let ends: Vec<[f64; 2]> = reach.operators.iter().map(end).collect();
        let falling = [0, 1].map(|side: usize| {
            let mut order: Vec<usize> = (0..ends.len()).collect();
            let key = |index: usize| (ends[index][side], reach.operators[index]);
            order.sort_unstable_by(|&a, &b| key(b).0.total_cmp(&key(a).0).then(key(a).1.cmp(&key(b).1)));
            order
        });
        let grid = [0, 1].map(|side: usize| {
            let mut values: Vec<f64> = falling[side].iter().rev().map(|&index| ends[index][side]).collect();
            values.dedup();
            let mut grid: Vec<f64> = if values.len() <= MAX_THRESHOLDS {
                values
            } else {
                (0..MAX_THRESHOLDS).map(|index| values[index * values.len() / MAX_THRESHOLDS]).collect()
            };
            if grid.first() != Some(&0.0) {
                grid.insert(0, 0.0);
            }
            grid
        });
        let cell = |end: f64, grid: &[f64]| grid.partition_point(|&threshold| threshold <= end) - 1;
        let cells =
            ends.iter().map(|end| cell(end[0], &grid[0]) * grid[1].len() + cell(end[1], &grid[1])).collect();
        Thresholds { ends, grid, cells, falling }
    }

    /// The pairs of thresholds with the largest sum of head threshold, tail threshold and work of the operators that
    /// reach both: with both zero, over heads alone, over tails alone, and over pairs. O(operators + grid).
    pub(super) fn candidates(&self, work: &[f64]) -> [[f64; 2]; 4] {
        let [heads, tails] = &self.grid;
        let mut sums = vec![0.0; heads.len() * tails.len()];
        for (&cell, work) in self.cells.iter().zip(work) {
            sums[cell] += work;
        }
        let mut best = (0.0, [0.0; 2]);
        let mut beyond = vec![0.0; tails.len()];
        for (head, row) in heads.iter().zip(sums.chunks_exact(tails.len())).rev() {
            let mut sum = 0.0;
            for ((tail, work), beyond) in tails.iter().zip(row).zip(&mut beyond).rev() {
                sum += work;
                *beyond += sum;
                // Thresholds that no operator reaches give no bound.
                if *beyond > 0.0 && head + tail + *beyond > best.0 {
                    best = (head + tail + *beyond, [*head, *tail]);
                }
            }
        }
        let mut current = best.1;
        for side in [0, 1, 0, 1] {
            current = self.along(side, current, work);
        }
        [[0.0; 2], self.along(0, [0.0; 2], work), self.along(1, [0.0; 2], work), current]
    }

    /// The thresholds with the best value on heads (side 0) or tails (side 1), where the other side stays fixed.
    /// O(operators).
    fn along(&self, side: usize, mut thresholds: [f64; 2], work: &[f64]) -> [f64; 2] {
        let (mut sum, mut largest) = (0.0, 0.0);
        let other = thresholds[1 - side];
        for &position in &self.falling[side] {
            let ends = self.ends[position];
            if ends[1 - side] < other {
                continue;
            }
            sum += work[position];
            // The sum for a threshold is complete, and largest, at the last operator that has this head or tail.
            if sum > 0.0 && ends[side] + sum > largest {
                largest = ends[side] + sum;
                thresholds[side] = ends[side];
            }
        }
        thresholds
    }
}
