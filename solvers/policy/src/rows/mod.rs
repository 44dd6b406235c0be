//! The segment sum over compressed rows, the one sparse operation of the network.
//!
//! Let A be a matrix of zeros and ones. Then `y = A x`, that is `y[i] = Σ x[j] over the entries j of row i`, is
//!
//! - message passing, where row i lists the edges into node i, or the nodes that they come from;
//! - a gather, where every row has one entry;
//! - pooling, where row s lists the members of segment s.
//!
//! Its derivative is the same operation again, `∂L/∂x = Aᵀ ∂L/∂y`. So one kernel, given a matrix and its transpose,
//! is enough to run and to train a network on graphs, and a gather and a scatter need no kernel of their own.
//!
//! A row is summed by one thread in the order of its entries. Nothing is added atomically, so the same input gives the
//! same bits in every run, whatever the number of threads; scatter kernels, which walk the edges instead, have either
//! atomic additions or one thread that does them all. Rows of more than 256 entries are cut into pieces that are summed
//! first, so that no single thread has to walk the whole of a graph.
//!
//! A softmax over segments is composed of these, with the largest item of each segment subtracted first, which changes
//! nothing but keeps the exponentials finite.
//!
//! Sums over compressed rows in place of scatter are what DGL (Wang et al. 2019) calls generalised sparse matrix
//! multiplication (g-SpMM); the attention within neighbourhoods is that of Veličković et al. (ICLR 2018).

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(not(feature = "cuda"))]
#[path = "cuda_off.rs"]
mod cuda;
mod error;
mod matrix;
mod operation;

use std::sync::Arc;

use matrix::{Compressed, Matrix};

pub use error::RowsError;

/// A matrix of zeros and ones in compressed rows, with its transpose. An entry that is repeated counts repeatedly.
///
/// Cheap to clone. A GPU gets its own copy of the entries when it is first asked for a sum, and keeps it as long as
/// the rows live.
#[derive(Debug, Clone)]
pub struct Rows {
    forward: Arc<Side>,
    backward: Arc<Side>,
}

/// The matrix or its transpose.
#[derive(Debug)]
struct Side {
    matrix: Matrix,
    /// The first row that does not have exactly one entry, and how many it has.
    not_single: Option<(usize, usize)>,
}

impl Side {
    fn new(rows: Compressed) -> Arc<Self> {
        let not_single = rows.not_single();
        Arc::new(Side { matrix: Matrix::new(rows), not_single })
    }
}

impl Rows {
    /// Rows over `columns` columns: those of row i are `indices[offsets[i]..offsets[i + 1]]`.
    ///
    /// O(rows + columns + entries).
    ///
    /// # Errors
    /// Offsets that do not rise from 0 to the number of indices; an index that is not below `columns`; more rows,
    /// columns or indices than 32 bits can count.
    pub fn new(columns: usize, offsets: Vec<u32>, indices: Vec<u32>) -> Result<Self, RowsError> {
        let rows = Compressed::checked(columns, offsets, indices)?;
        let transposed = Side::new(rows.transposed());
        Ok(Rows { forward: Side::new(rows), backward: transposed })
    }

    /// Rows of one column each, so that a sum is a gather: `out[i] = x[indices[i]]`.
    ///
    /// # Errors
    /// As [`Rows::new`].
    pub fn gather(columns: usize, indices: Vec<u32>) -> Result<Self, RowsError> {
        let last = u32::try_from(indices.len()).map_err(|_| RowsError::TooMany(indices.len()))?;
        Rows::new(columns, (0..=last).collect(), indices)
    }

    /// A row for each of `count` segments: `out[s] = Σ x[i] over the i with segment_of[i] == s`.
    ///
    /// # Errors
    /// As [`Rows::new`], with segments for columns.
    pub fn segments(count: usize, segment_of: &[u32]) -> Result<Self, RowsError> {
        Ok(Rows::gather(count, segment_of.to_vec())?.transposed())
    }

    /// How many rows a sum has.
    pub fn row_count(&self) -> usize {
        self.forward.matrix.row_count()
    }

    /// How many rows are summed.
    pub fn column_count(&self) -> usize {
        self.forward.matrix.column_count()
    }

    /// The transposed matrix. O(1): it is there already.
    pub fn transposed(&self) -> Self {
        Rows { forward: Arc::clone(&self.backward), backward: Arc::clone(&self.forward) }
    }
}
