//! Whose memory a constant of a model file is in.
//!
//! A constant with one reader belongs to it. A small one with several is copied to each; a large one is
//! counted once, at its first reader, and its readers have to share a device: two halves of a model that use
//! one embedding are not to be torn apart, but neither should a constant of 2 that every layer multiplies by
//! hold a model together, or a vector of ones: exporters merge weights that are equal, as those of all
//! normalisations are before training.

use petgraph::unionfind::UnionFind;
use rustc_hash::{FxHashMap, FxHashSet};
use stagewright_core::document::OperatorDocument;

/// A constant of up to this many bytes is copied to each reader: vectors are smaller, matrices larger.
pub const COPIED_BYTES: f64 = 65536.0;

/// An operator reads a constant.
pub(super) struct Use {
    /// The operator, by its place.
    pub(super) reader: usize,
    /// The constant, by any number that is its own.
    pub(super) constant: usize,
    pub(super) bytes: f64,
    /// Whether it is a parameter. What is none (indices, shapes, masks, running statistics) is there as well,
    /// but no replica has to synchronise it: it counts as workspace, and ties nobody together.
    pub(super) is_parameter: bool,
}

/// Gives constants to their readers; `name` is what the class of those that share one is called.
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
    // A class is called after the first constant that its members share.
    let mut called: FxHashMap<usize, usize> = FxHashMap::default();
    for (first, constant) in shared {
        called.entry(classes.find(first)).or_insert(constant);
    }
    for (at, operator) in operators.iter_mut().enumerate() {
        operator.colocation = called.get(&classes.find(at)).map(|&constant| name(constant).to_owned());
    }
}
