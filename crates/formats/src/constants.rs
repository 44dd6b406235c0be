//! Which operators hold a constant of a model file.
//!
//! A constant with one reader belongs to it. A small constant with several readers is copied to each. A large
//! one is counted once, at its first reader, and its readers are colocated: two halves of a model that share
//! an embedding must not be separated. A constant 2 that every layer multiplies by must not hold a model
//! together, and neither must a vector of ones: exporters merge equal weights, and those of all
//! normalisations are equal before training.

use petgraph::unionfind::UnionFind;
use rustc_hash::{FxHashMap, FxHashSet};
use stagewright_core::document::OperatorDocument;

/// A constant of up to this many bytes is copied to each reader: vectors are smaller, matrices larger.
pub const COPIED_BYTES: f64 = 65536.0;

/// A constant read by an operator.
pub(super) struct Use {
    /// Index of the operator.
    pub(super) reader: usize,
    /// Any unique number of the constant.
    pub(super) constant: usize,
    pub(super) bytes: f64,
    /// Whether the constant is a parameter. Other constants (indices, shapes, masks, running statistics) are held as
    /// well, but no replica synchronises them: they count as workspace and colocate no readers.
    pub(super) is_parameter: bool,
}

/// Assigns constants to their readers; `name` gives the name of a colocation class from a constant that it
/// shares.
pub(super) fn give<'a>(
    uses: impl Iterator<Item = Use>,
    operators: &mut [OperatorDocument],
    name: impl Fn(usize) -> &'a str,
) {
    let mut seen: FxHashSet<(usize, usize)> = FxHashSet::default();
    let mut first_reader: FxHashMap<usize, usize> = FxHashMap::default();
    let mut classes = UnionFind::<usize>::new(operators.len());
    let mut shared = Vec::new();
    for Use { reader, constant, bytes, is_parameter } in uses {
        if !seen.insert((reader, constant)) {
            continue;
        }
        if !is_parameter {
            operators[reader].workspace_bytes += bytes;
            continue;
        }
        if bytes > COPIED_BYTES {
            let first = *first_reader.entry(constant).or_insert(reader);
            if first != reader {
                classes.union(first, reader);
                shared.push((first, constant));
                continue;
            }
        }
        operators[reader].parameter_bytes += bytes;
    }
    // A class is named after the first constant that its members share.
    let mut called: FxHashMap<usize, usize> = FxHashMap::default();
    for (first, constant) in shared {
        called.entry(classes.find(first)).or_insert(constant);
    }
    for (index, operator) in operators.iter_mut().enumerate() {
        operator.colocation = called.get(&classes.find(index)).map(|&constant| name(constant).to_owned());
    }
}
