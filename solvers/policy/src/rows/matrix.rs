//! Compressed rows in the form that kernels read: checked, transposed, and with long rows split into pieces.

use stagewright_core::ids::{Id, Keyed};

use super::RowsError;
use super::cuda::Copies;

/// Longest row that is reduced in one pass; longer rows are split into pieces of this length.
///
/// One thread walks a row, so this bounds how long other threads wait for it: pooling a whole graph is a single row. It
/// is a constant because it determines the order of the additions, and so the last bits of a sum.
const PIECE: usize = 256;

/// A matrix in compressed rows, factored into two matrices if rows are too long.
#[derive(Debug)]
pub(super) enum Matrix {
    /// No row is longer than [`PIECE`].
    Whole(Compressed),
    /// `pieces` reduces columns to pieces of rows, and `joined` reduces pieces to rows.
    InPieces { pieces: Compressed, joined: Box<Matrix> },
}

/// Compressed rows: the columns of row `i` are `indices[offsets[i]..offsets[i + 1]]`.
#[derive(Debug)]
pub(super) struct Compressed {
    pub(super) columns: usize,
    pub(super) offsets: Vec<u32>,
    pub(super) indices: Vec<u32>,
    /// Copies on the GPUs that requested them.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "read by the kernel's side alone"))]
    pub(super) copies: Copies,
}

impl Matrix {
    /// Splits long rows.
    ///
    /// The pieces of a row are summed in index order, and then their sums in the order of the pieces, so a sum depends
    /// on the matrix only. O(rows + entries).
    pub(super) fn new(rows: Compressed) -> Self {
        if (0..rows.row_count()).all(|row| rows.row(row).len() <= PIECE) {
            return Matrix::Whole(rows);
        }
        let mut piece_ends = vec![0];
        let mut piece_offsets = vec![0];
        for row in 0..rows.row_count() {
            let end = rows.offsets[row + 1];
            piece_ends.extend((rows.offsets[row]..end).step_by(PIECE).skip(1));
            // A row without entries has no piece.
            if rows.offsets[row] < end {
                piece_ends.push(end);
            }
            piece_offsets.push(to_u32(piece_ends.len() - 1));
        }
        let pieces = piece_ends.len() - 1;
        let joined = Compressed::new(pieces, piece_offsets, (0..to_u32(pieces)).collect());
        Matrix::InPieces {
            pieces: Compressed::new(rows.columns, piece_ends, rows.indices),
            joined: Box::new(Matrix::new(joined)),
        }
    }

    pub(super) fn row_count(&self) -> usize {
        match self {
            Matrix::Whole(rows) => rows.row_count(),
            Matrix::InPieces { joined, .. } => joined.row_count(),
        }
    }

    pub(super) fn column_count(&self) -> usize {
        match self {
            Matrix::Whole(rows) => rows.columns,
            Matrix::InPieces { pieces, .. } => pieces.columns,
        }
    }
}

impl Compressed {
    fn new(columns: usize, offsets: Vec<u32>, indices: Vec<u32>) -> Self {
        Compressed { columns, offsets, indices, copies: Copies::default() }
    }

    /// Rows from a caller's offsets and indices. O(rows + entries).
    ///
    /// # Errors
    /// If the offsets do not rise from 0 to the number of entries, a column is out of range, or a count exceeds 32
    /// bits.
    pub(super) fn checked(columns: usize, offsets: Vec<u32>, indices: Vec<u32>) -> Result<Self, RowsError> {
        let (first, last) = match offsets[..] {
            [] => return Err(RowsError::NoOffsets),
            [first, ..] => (first, offsets[offsets.len() - 1]),
        };
        if first != 0 {
            return Err(RowsError::FirstOffset(first));
        }
        if let Some(row) = offsets.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(RowsError::Decreasing { row });
        }
        if last as usize != indices.len() {
            return Err(RowsError::LastOffset { offset: last, entries: indices.len() });
        }
        if let Some(entry) = indices.iter().position(|&column| column as usize >= columns) {
            return Err(RowsError::Column { entry, column: indices[entry], columns });
        }
        // Each of these counts is also an offset or an index of the transposed rows.
        for count in [columns, offsets.len() - 1, indices.len()] {
            u32::try_from(count).map_err(|_| RowsError::TooMany(count))?;
        }
        Ok(Compressed::new(columns, offsets, indices))
    }

    /// The transpose, with the rows of each column in ascending order. A counting sort, O(rows + columns + entries).
    pub(super) fn transposed(&self) -> Self {
        let mut offsets = Keyed::filled(0, self.columns + 1);
        for &column in &self.indices {
            offsets[column + 1] += 1;
        }
        for column in u32::first(self.columns) {
            offsets[column + 1] += offsets[column];
        }
        let mut free = offsets.clone();
        let mut indices = Keyed::filled(0, self.indices.len());
        for row in 0..self.row_count() {
            for &column in self.row(row) {
                let place: &mut u32 = &mut free[column];
                indices[*place] = to_u32(row);
                *place += 1;
            }
        }
        Compressed::new(self.row_count(), offsets.into_vec(), indices.into_vec())
    }

    pub(super) fn row_count(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The columns of row `row`.
    pub(super) fn row(&self, row: usize) -> &[u32] {
        &self.indices[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    /// The first row without exactly one entry, with its number of entries.
    pub(super) fn not_single(&self) -> Option<(usize, usize)> {
        (0..self.row_count()).map(|row| (row, self.row(row).len())).find(|&(_, length)| length != 1)
    }
}

fn to_u32(count: usize) -> u32 {
    u32::try_from(count).expect("rows, columns and entries are counted in 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entries of every row, through all levels of pieces.
    fn entries(matrix: &Matrix) -> Vec<Vec<u32>> {
        let rows_of = |rows: &Compressed| (0..rows.row_count()).map(|row| rows.row(row).to_vec()).collect();
        match matrix {
            Matrix::Whole(rows) => rows_of(rows),
            Matrix::InPieces { pieces, joined } => {
                let pieces: Vec<Vec<u32>> = rows_of(pieces);
                assert!(pieces.iter().all(|piece| !piece.is_empty() && piece.len() <= PIECE));
                let sums =
                    |row: &Vec<u32>| row.iter().flat_map(|&piece| pieces[piece as usize].clone()).collect();
                entries(joined).iter().map(sums).collect()
            }
        }
    }

    #[test]
    fn pieces_of_long_rows_join_to_the_rows() {
        for lengths in
            [vec![0, 256, 3], vec![257, 0, 0, 512, 1, 513], vec![0, 256 * 256 + 1, 0], vec![70_000]]
        {
            let mut offsets = vec![0];
            let mut indices = vec![];
            for &length in &lengths {
                indices.extend((0..length).map(|i| (i * 7 + 1) % 11));
                offsets.push(to_u32(indices.len()));
            }
            let rows = Compressed::checked(11, offsets, indices).unwrap();
            let wanted: Vec<Vec<u32>> = (0..rows.row_count()).map(|row| rows.row(row).to_vec()).collect();
            let matrix = Matrix::new(rows);
            assert_eq!(matches!(matrix, Matrix::Whole(_)), lengths.iter().all(|&length| length <= 256));
            assert_eq!((matrix.row_count(), matrix.column_count()), (lengths.len(), 11));
            assert_eq!(entries(&matrix), wanted);
        }
    }
}
