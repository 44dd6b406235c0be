//! The segment sum over compressed rows, the one sparse operation of the network.
//!
//! Let A be a matrix of zeros and ones. Then `y = A x`, that is `y[i] = Σ x[j] over the entries j of row i`, is
//!
//! - message passing, if row i lists the edges into node i, or the nodes that they come from;
//! - a gather, if every row has one entry;
//! - pooling, if row s lists the members of segment s.
//!
//! Its derivative is the same operation again, `∂L/∂x = Aᵀ ∂L/∂y`. So one kernel, given a matrix and its transpose,
//! is enough to run and to train a network on graphs, and a gather and a scatter need no kernel of their own.
//!
//! A row is summed by one thread in the order of its entries. No addition is atomic, so the same input gives the same
//! bits in every run, for any number of threads; scatter kernels, which walk the edges instead, use either atomic
//! additions or a single thread for all of them. Rows of more than 256 entries are split into pieces that are summed
//! first, so that no single thread has to walk a whole graph.
//!
//! A softmax over segments is composed of these sums. The largest item of each segment is subtracted first, which does
//! not change the result but keeps the exponentials finite.
//!
//! Sums over compressed rows in place of scatter are what DGL (Wang et al. 2019) calls generalised sparse matrix
//! multiplication (g-SpMM); the attention within neighbourhoods is that of Veličković et al. (ICLR 2018).

mod cpu;
mod cuda;
mod error;
mod matrix;
mod operation;
mod reduction;

use std::sync::Arc;

use matrix::{Compressed, Matrix};

pub use error::RowsError;

/// A matrix of zeros and ones in compressed rows, with its transpose. A repeated entry counts repeatedly.
///
/// Cheap to clone. A GPU gets its own copy of the entries when a sum is first requested on it, and keeps it for the
/// lifetime of the rows.
#[derive(Debug, Clone)]
pub struct Rows {
    forward: Arc<Side>,
    backward: Arc<Side>,
}

/// The matrix or its transpose.
#[derive(Debug)]
struct Side {
    matrix: Matrix,
    /// The first row without exactly one entry, with its number of entries.
    not_single: Option<(usize, usize)>,
}

impl Side {
    fn new(rows: Compressed) -> Arc<Self> {
        let not_single = rows.not_single();
        Arc::new(Side { matrix: Matrix::new(rows), not_single })
    }
}

impl Rows {
    /// Rows over `columns` columns: the columns of row i are `indices[offsets[i]..offsets[i + 1]]`.
    ///
    /// O(rows + columns + entries).
    ///
    /// # Errors
    /// If the offsets do not rise from 0 to the number of indices, an index is not below `columns`, or there are more
    /// rows, columns or indices than 32 bits can count.
    pub fn new(columns: usize, offsets: Vec<u32>, indices: Vec<u32>) -> Result<Self, RowsError> {
        let rows = Compressed::checked(columns, offsets, indices)?;
        let transposed = Side::new(rows.transposed());
        Ok(Rows { forward: Side::new(rows), backward: transposed })
    }

    /// Rows of one column each, so that a sum is a gather: `out[i] = x[indices[i]]`.
    ///
    /// # Errors
    /// If an index is not below `columns`, or there are more columns or indices than 32 bits can count.
    pub fn gather(columns: usize, indices: Vec<u32>) -> Result<Self, RowsError> {
        let last = u32::try_from(indices.len()).map_err(|_| RowsError::TooMany(indices.len()))?;
        Rows::new(columns, (0..=last).collect(), indices)
    }

    /// A row for each of `count` segments: `out[s] = Σ x[i] over the i with segment_of[i] == s`.
    ///
    /// # Errors
    /// If a segment is not below `count`, or there are more segments or items than 32 bits can count.
    pub fn segments(count: usize, segment_of: &[u32]) -> Result<Self, RowsError> {
        Ok(Rows::gather(count, segment_of.to_vec())?.transposed())
    }

    /// Number of rows of the result.
    pub fn row_count(&self) -> usize {
        self.forward.matrix.row_count()
    }

    /// Number of rows of the input.
    pub fn column_count(&self) -> usize {
        self.forward.matrix.column_count()
    }

    /// The transposed matrix, which is precomputed. O(1).
    pub fn transposed(&self) -> Self {
        Rows { forward: Arc::clone(&self.backward), backward: Arc::clone(&self.forward) }
    }
}
