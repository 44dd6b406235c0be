//! What is wrong with a flow.

use thiserror::Error;

use super::flow::{Flow, MOST};
use crate::tolerance::LARGEST_SUM;

/// Why what was added makes no flow.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FlowError {
    /// A figure that is negative or not finite.
    #[error("{what} {at} is {value}, expected a finite number of at least 0")]
    BadNumber {
        /// Which figure.
        what: &'static str,
        /// Index of what has it.
        at: usize,
        /// The value.
        value: f64,
    },
    /// Figures, each finite, that sum to more than [`LARGEST_SUM`].
    #[error("with the {what} {at} the sum is above {LARGEST_SUM:e}")]
    Overflow {
        /// Which figure.
        what: &'static str,
        /// Index of what has it.
        at: usize,
    },
    /// An index of nothing.
    #[error("{what} {at} is {index}, of {count}")]
    Unknown {
        /// What the index is of.
        what: &'static str,
        /// Index of what names it.
        at: usize,
        /// The index.
        index: u32,
        /// How many there are.
        count: usize,
    },
    /// More than events can number.
    #[error("{count} {what}, more than {MOST}")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// How many.
        count: usize,
    },
    /// Tables of different lengths.
    #[error("{found} {what}, expected {expected}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// A reader on another device than what it reads.
    #[error("operator {reader} reads copy {copy}, which is on another device")]
    Elsewhere {
        /// The operator.
        reader: u32,
        /// The copy.
        copy: usize,
    },
    /// Operators that wait for one another.
    #[error("{count} operators are on a cycle or behind one")]
    Cycle {
        /// How many never run.
        count: usize,
    },
}

/// Checks that a table has one entry for everything.
pub(super) fn count(what: &'static str, found: usize, expected: usize) -> Result<(), FlowError> {
    match found == expected {
        true => Ok(()),
        false => Err(FlowError::Count { what, found, expected }),
    }
}

/// How many operators run at all: those on no cycle and behind none.
pub(super) fn runnable(flow: &Flow) -> usize {
    let mut waits = flow.waits.clone();
    let mut open: Vec<u32> =
        (0..waits.len() as u32).filter(|&operator| waits[operator as usize] == 0).collect();
    let mut ran = 0;
    while let Some(operator) = open.pop() {
        ran += 1;
        for &tensor in flow.outputs.row(operator as usize) {
            for copy in flow.copies_of(tensor) {
                for &reader in flow.readers_of(copy) {
                    waits[reader as usize] -= 1;
                    if waits[reader as usize] == 0 {
                        open.push(reader);
                    }
                }
            }
        }
    }
    ran
}
