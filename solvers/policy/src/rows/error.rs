//! Errors of compressed rows.

/// Invalid compressed rows, or an operation that they do not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowsError {
    /// No offsets: a matrix has one offset more than rows, so at least one.
    #[error("a CSR matrix needs at least one offset")]
    NoOffsets,
    /// The first offset is not 0, where the entries of the first row start.
    #[error("the first offset is {0}, not 0")]
    FirstOffset(u32),
    /// A row that ends before it starts.
    #[error("the offset after row {row} is less than the one before it")]
    Decreasing {
        /// The row.
        row: usize,
    },
    /// The last offset is not the number of entries, where the last row ends.
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
    /// More rows, columns or entries than 32 bits can count.
    #[error("{0} rows, columns or entries exceed 32-bit indices")]
    TooMany(usize),
    /// A column that is not in exactly one row, as a softmax over segments requires.
    #[error("a softmax needs every column in exactly one row, but column {column} is in {rows}")]
    NotSegments {
        /// The first column that is not in exactly one row.
        column: usize,
        /// Number of rows that the column is in, counting repetitions.
        rows: usize,
    },
}
