//! Reductions of a row, as the kernels compute them.

/// A reduction of the entries of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reduction {
    /// The sum; 0 for an empty row.
    Sum,
    /// The maximum; −∞ for an empty row.
    Max,
}

impl Reduction {
    pub(super) fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "rows-sum",
            Reduction::Max => "rows-max",
        }
    }
}
