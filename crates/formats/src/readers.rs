//! Readers of operators' outputs, gathered edge by edge.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

/// Readers of every output of every operator, all by index.
#[derive(Debug, Default)]
pub(super) struct Readers {
    of_output: BTreeMap<(usize, usize), Vec<usize>>,
    seen: FxHashSet<(usize, usize, usize)>,
}

impl Readers {
    /// Adds a reader of an output; an operator that reads it twice is one reader.
    pub(super) fn add(&mut self, producer: usize, output: usize, reader: usize) {
        if self.seen.insert((producer, output, reader)) {
            self.of_output.entry((producer, output)).or_default().push(reader);
        }
    }

    /// Producer, output and readers, sorted by producer and output; readers in order of first appearance.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, usize, &[usize])> {
        self.of_output.iter().map(|(&(producer, output), readers)| (producer, output, readers.as_slice()))
    }
}
