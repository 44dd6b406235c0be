//! Rows of variable length in one array.

/// Rows of variable length in one array.
#[derive(Debug, Clone)]
pub(super) struct Rows<T> {
    offsets: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy> Rows<T> {
    /// Rows from pairs of a row and an item, sorted by row.
    pub(super) fn of(rows: usize, pairs: impl Iterator<Item = (u32, T)>) -> Rows<T> {
        let mut offsets = vec![0u32; rows + 1];
        let count = |(row, item): (u32, T)| {
            offsets[row as usize + 1] += 1;
            item
        };
        let items = pairs.map(count).collect();
        for row in 0..rows {
            offsets[row + 1] += offsets[row];
        }
        Rows { offsets, items }
    }

    /// The items of a row.
    pub(super) fn row(&self, row: usize) -> &[T] {
        &self.items[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }
}

impl Rows<(u32, f64)> {
    /// Rows from sorted edges.
    pub(super) fn of_sorted(rows: usize, edges: &[(u32, u32, f64)]) -> Rows<(u32, f64)> {
        Rows::of(rows, edges.iter().map(|&(from, to, seconds)| (from, (to, seconds))))
    }
}
