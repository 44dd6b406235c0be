//! Errors of compressed rows.

/// Invalid compressed rows, or an operation that they do not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowsError {
    /// Offsets are missing: a matrix has one offset more than rows, so at least one.
    #[error("a CSR matrix needs at least one offset")]
    NoOffsets,
    /// The entries of the first row start at index 0.
    #[error("the first offset is {0}, not 0")]
    FirstOffset(u32),
    /// A row cannot end before it starts.
    #[error("the offset after row {row} is less than the one before it")]
    Decreasing {
        /// The row.
        row: usize,
    },
    /// The last row ends with the last entry.
    #[error("the last offset is {offset}, expected the number of entries, {entries}")]
    LastOffset {
        /// The last offset.
        offset: u32,
        /// Number of entries.
        entries: usize,
    },
    /// An entry refers to a column out of range.
    #[error("entry {entry} has column {column}, expected less than {columns}")]
    Column {
        /// Index of the entry.
        entry: usize,
        /// Column of the entry.
        column: u32,
        /// Number of columns.
        columns: usize,
    },
    /// Rows, columns and entries are counted in 32 bits.
    #[error("{0} rows, columns or entries exceed 32-bit indices")]
    TooMany(usize),
    /// A softmax over segments needs every item in exactly one segment.
    #[error("a softmax needs every column in exactly one row, but column {column} is in {rows}")]
    NotSegments {
        /// The first column that is not in exactly one row.
        column: usize,
        /// Number of rows that the column is in, counting repetitions.
        rows: usize,
    },
}
