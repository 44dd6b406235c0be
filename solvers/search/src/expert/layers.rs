//! The layer of each operator, derived from its layer path.
//!
//! A model is a list of repeated blocks, and module paths number them: `encoder.layer.3.attention` is part of the block
//! `encoder.layer.3`. The block of a path ends at its first component with an index: a number (`3`), or a name that
//! ends in a number (`conv1`), also with a letter after it (`mixed_5b`, as Inception numbers its modules). If that
//! component names a mere list, which contains no operator directly, and a number follows, the number belongs to the
//! block: `layer1.0` and `features.0.1` are layers of a stage. Operators without an index in their path (embeddings,
//! heads) are in no layer.

use rustc_hash::{FxHashMap, FxHashSet};
use stagewright_core::graph::{Graph, OpId};
use stagewright_core::ids::Keyed;

/// The layers of a graph, numbered by their first operator.
#[derive(Debug, Clone)]
pub(super) struct Layers {
    of: Keyed<OpId, Option<usize>>,
    count: usize,
}

impl Layers {
    /// The layers of a graph, in time linear in the lengths of its layer paths.
    ///
    /// # Errors
    /// If the graph names no layers.
    pub(super) fn new(graph: &Graph) -> Result<Layers, String> {
        let paths = || graph.operators().map(|op| graph.operator(op).layer.as_deref());
        let inhabited: FxHashSet<&str> = paths().flatten().collect();
        let mut numbers: FxHashMap<&str, usize> = FxHashMap::default();
        let layer_of = paths()
            .map(|path| {
                let block = block(path?, |list| !inhabited.contains(list))?;
                let next = numbers.len();
                Some(*numbers.entry(block).or_insert(next))
            })
            .collect();
        if numbers.is_empty() {
            return Err("the graph names no layers: no operator has a layer path with an index in it, \
                        such as `encoder.layer.3`"
                .into());
        }
        Ok(Layers { of: layer_of, count: numbers.len() })
    }

    /// Number of layers, at least 1.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The layer of an operator; `None` for embeddings, heads and other operators outside the layers.
    pub(super) fn of(&self, op: OpId) -> Option<usize> {
        self.of[op]
    }
}

/// The part of a path that names its block.
fn block(path: &str, is_list: impl Fn(&str) -> bool) -> Option<&str> {
    let mut end = 0;
    let mut components = path.split('.').peekable();
    while let Some(component) = components.next() {
        end += component.len();
        if has_index(component) {
            if let Some(inner) = components.next_if(|next| is_number(next) && is_list(&path[..end])) {
                end += 1 + inner.len();
            }
            return Some(&path[..end]);
        }
        end += 1;
    }
    None
}

fn is_number(component: &str) -> bool {
    !component.is_empty() && component.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a path component ends in an index: a number, or after an underscore a number and a letter. `conv2d` has no
/// index.
fn has_index(component: &str) -> bool {
    let with_letter = component
        .rsplit_once('_')
        .and_then(|(_, last)| last.strip_suffix(|letter: char| letter.is_ascii_lowercase()))
        .is_some_and(is_number);
    with_letter || component.ends_with(|last: char| last.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_ends_at_the_first_index() {
        let block = |path| block(path, |_| false);
        assert_eq!(block("encoder.layer.3.attention"), Some("encoder.layer.3"));
        assert_eq!(block("decoder.layer.11"), Some("decoder.layer.11"));
        assert_eq!(block("layer.3.expert.7"), Some("layer.3"));
        assert_eq!(block("layer.3.fc1"), Some("layer.3"));
        assert_eq!(block("3.conv"), Some("3"));
        assert_eq!(block("mixed_5b.branch1x1.0"), Some("mixed_5b"));
        assert_eq!(block("stem.conv1"), Some("stem.conv1"));
        assert_eq!(block("é_5b.x"), Some("é_5b"));
        for path in ["embeddings", "stem.conv2d", "", ".", "a..b"] {
            assert_eq!(block(path), None, "{path}");
        }
    }

    #[test]
    fn a_number_in_a_list_belongs_to_the_block() {
        let of_lists = |path| block(path, |_| true);
        assert_eq!(of_lists("features.0.1.relu"), Some("features.0.1"));
        assert_eq!(of_lists("layer1.0.conv2"), Some("layer1.0"));
        assert_eq!(of_lists("features.0.pool"), Some("features.0"));
        assert_eq!(of_lists("a.0.1.2"), Some("a.0.1"));
        // A cell with operators of its own numbers its parts, not its layers.
        assert_eq!(block("stage0.3.2.left", |list| list == "stage0"), Some("stage0.3"));
    }
}
