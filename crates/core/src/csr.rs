//! Compressed sparse rows.

use crate::ids::Id;

/// Compressed sparse rows: the lists of all rows in one array. The default has no rows.
#[derive(Debug, Clone, Default)]
pub struct Csr<T> {
    offsets: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy> Csr<T> {
    /// Builds rows from (row, item) pairs; each row keeps the order of the pairs.
    pub fn from_pairs(rows: usize, pairs: &[(impl Id, T)]) -> Self {
        let mut compressed = Csr { offsets: Vec::new(), items: Vec::new() };
        compressed.refill(rows, pairs.iter().copied());
        compressed
    }

    /// Builds rows from (row, item) pairs that are sorted by row.
    pub fn from_sorted(rows: usize, pairs: impl Iterator<Item = (impl Id, T)>) -> Self {
        let mut offsets = vec![0u32; rows + 1];
        let items = pairs.map(|(row, item)| {
            offsets[row.index() + 1] += 1;
            item
        });
        let items = items.collect();
        for row in 0..rows {
            offsets[row + 1] += offsets[row];
        }
        Csr { offsets, items }
    }

    /// Builds rows from the list of each row.
    pub fn from_rows(rows: impl Iterator<Item = Vec<T>>) -> Self {
        let (mut offsets, mut items) = (vec![0], Vec::new());
        for row in rows {
            items.extend(row);
            offsets.push(items.len() as u32);
        }
        Csr { offsets, items }
    }

    /// Rebuilds the rows, reusing their memory.
    pub fn refill(&mut self, rows: usize, pairs: impl Iterator<Item = (impl Id, T)> + Clone) {
        // The next insertion position of a row is stored one entry late, so that it ends up as the offset of the next
        // row.
        self.offsets.clear();
        self.offsets.resize(rows + 2, 0);
        self.items.clear();
        self.items.extend(pairs.clone().map(|(row, item)| {
            self.offsets[row.index() + 2] += 1;
            item
        }));
        for row in 2..rows + 2 {
            self.offsets[row] += self.offsets[row - 1];
        }
        for (row, item) in pairs {
            let next = &mut self.offsets[row.index() + 1];
            self.items[*next as usize] = item;
            *next += 1;
        }
        self.offsets.pop();
    }

    /// The items of a row.
    #[inline]
    pub fn row(&self, row: impl Id) -> &[T] {
        self.items(self.range(row))
    }

    /// Range of a row's items, for use with [`items`](Csr::items).
    pub fn range(&self, row: impl Id) -> [u32; 2] {
        [self.offsets[row.index()], self.offsets[row.index() + 1]]
    }

    /// The items of all rows from `first` to `last`, both included.
    pub fn between(&self, first: impl Id, last: impl Id) -> &[T] {
        &self.items[self.offsets[first.index()] as usize..self.offsets[last.index() + 1] as usize]
    }

    /// The items of all rows.
    pub fn all(&self) -> &[T] {
        &self.items
    }

    /// The items of a range.
    #[inline]
    pub fn items(&self, [first, last]: [u32; 2]) -> &[T] {
        &self.items[first as usize..last as usize]
    }

    /// The items of a row, mutably.
    pub fn row_mut(&mut self, row: impl Id) -> &mut [T] {
        let [first, last] = self.range(row);
        &mut self.items[first as usize..last as usize]
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }
}
