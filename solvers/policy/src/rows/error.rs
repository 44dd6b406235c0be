//! What can be wrong with compressed rows.

/// Why numbers do not describe compressed rows, or why rows do not allow an operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowsError {
    /// Offsets are one more than the rows, and so at least one.
    #[error("compressed rows need at least one offset")]
    NoOffsets,
    /// The entries of the first row begin where the entries begin.
    #[error("the first offset is {0}, not 0")]
    FirstOffset(u32),
    /// A row cannot end before it begins.
    #[error("the offset after row {row} is less than the one before it")]
    Decreasing {
        /// The row.
        row: usize,
    },
    /// The last row ends where the entries end.
    #[error("the last offset is {offset}, and there are {entries} entries")]
    LastOffset {
        /// The last offset.
        offset: u32,
        /// How many entries there are.
        entries: usize,
    },
    /// An entry names a column that is not there.
    #[error("entry {entry} is column {column} of {columns}")]
    Column {
        /// Which of the entries.
        entry: usize,
        /// What it says.
        column: u32,
        /// How many columns there are.
        columns: usize,
    },
    /// Rows, columns and entries are counted in 32 bits.
    #[error("{0} rows, columns or entries are more than 32 bits can count")]
    TooMany(usize),
    /// A softmax over segments needs every item in one of them.
    #[error("a softmax needs every column in exactly one row, and column {column} is in {rows}")]
    NotSegments {
        /// The first column that is not.
        column: usize,
        /// In how many rows it is, counting repetitions.
        rows: usize,
    },
}
