//! Errors of flows.

use thiserror::Error;

use super::flow::{Flow, MOST};
use crate::tolerance::LARGEST_SUM;

/// Invalid flow.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum FlowError {
    /// Negative or non-finite value.
    #[error("{what} {at} is {value}, expected a finite number of at least 0")]
    BadNumber {
        /// The quantity.
        what: &'static str,
        /// Index of the item that the quantity belongs to.
        at: usize,
        /// The value.
        value: f64,
    },
    /// Finite values whose sum exceeds [`LARGEST_SUM`].
    #[error("the sum with {what} {at} exceeds {LARGEST_SUM:e}")]
    Overflow {
        /// The quantity.
        what: &'static str,
        /// Index of the item that the quantity belongs to.
        at: usize,
    },
    /// Index out of range.
    #[error("{what} {at} is {index}, expected less than {count}")]
    Unknown {
        /// Kind of the index.
        what: &'static str,
        /// Index of the item that contains the index.
        at: usize,
        /// The index.
        index: u32,
        /// Number of valid indices.
        count: usize,
    },
    /// More items than event numbers can represent.
    #[error("{count} {what}, more than {MOST}")]
    TooMany {
        /// Kind of the items.
        what: &'static str,
        /// Number of items.
        count: usize,
    },
    /// Tables of different lengths.
    #[error("{found} {what}, expected {expected}")]
    Count {
        /// Kind of the entries.
        what: &'static str,
        /// Number of entries.
        found: usize,
        /// Expected number.
        expected: usize,
    },
    /// A reader on a device other than that of the copy that it reads.
    #[error("operator {reader} reads copy {copy}, which is on another device")]
    Elsewhere {
        /// The operator.
        reader: u32,
        /// The copy.
        copy: usize,
    },
    /// Operators that wait for one another in a cycle.
    #[error("{count} operators are on a cycle or behind one")]
    Cycle {
        /// Number of operators that never run.
        count: usize,
    },
}

/// Checks that a table has the expected length.
pub(super) fn count(what: &'static str, found: usize, expected: usize) -> Result<(), FlowError> {
    match found == expected {
        true => Ok(()),
        false => Err(FlowError::Count { what, found, expected }),
    }
}

/// Checks that an index is below the number of items.
pub(super) fn known(what: &'static str, item: usize, index: u32, count: usize) -> Result<(), FlowError> {
    match (index as usize) < count {
        true => Ok(()),
        false => Err(FlowError::Unknown { what, at: item, index, count }),
    }
}

/// Number of operators that can run: those that are neither on a cycle nor downstream of one.
pub(super) fn runnable(flow: &Flow) -> usize {
    let mut waits = flow.waits.clone();
    let mut open: Vec<u32> = waits.ids().filter(|&operator| waits[operator] == 0).collect();
    let mut ran = 0;
    while let Some(operator) = open.pop() {
        ran += 1;
        for &tensor in flow.outputs.row(operator) {
            for copy in flow.copies_of(tensor) {
                for &reader in flow.readers_of(copy) {
                    waits[reader] -= 1;
                    if waits[reader] == 0 {
                        open.push(reader);
                    }
                }
            }
        }
    }
    ran
}
