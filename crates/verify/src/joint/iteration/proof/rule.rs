//! The layers that the graph has, independent of those that a plan lists.
//!
//! The layer of a path ends with the first number of the path, or with the last of the numbers that directly follow the
//! first. Parts such as `layer_3` count as numbers in paths without other numbers. A path without a number is in the
//! layer of its shortest prefix that is not a proper prefix of any numbered layer, and in no layer if all its prefixes
//! are.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::document::{OperatorDocument, Pass};

use crate::joint::iteration::membership;
use crate::joint::iteration::model::Model;

/// Maximum number of parts of a path.
const MOST_PARTS: usize = 64;

/// Whether the layers of a model, whose names are given in its order, are exactly those of the graph. `false` if the
/// rule is ambiguous. O(pins · log + length of the names · (log + parts)).
pub(super) fn holds(model: &Model, names: &[&str]) -> bool {
    let graph = model.graph;
    let paths: Vec<Cow<str>> = graph.operators.iter().map(membership::path).collect();
    // In names such as `/a/a.0/b`, it is ambiguous which part belongs to the path and which repeats it.
    let is_open = |operator: &OperatorDocument| {
        operator.layer.as_deref().is_none_or(str::is_empty)
            && operator.name.rsplit_once('/').is_some_and(|(above, _)| above.contains('.'))
    };
    if graph.operators.iter().any(is_open) || !paths.iter().all(|path| is_clear(path)) {
        return false;
    }

    let ends: Vec<Option<usize>> = paths.iter().map(|path| end_of_numbers(path)).collect();
    let mut above: BTreeSet<&str> = BTreeSet::new();
    for (path, end) in paths.iter().zip(&ends) {
        above.extend(end.iter().flat_map(|&end| parts(&path[..end]).filter(move |part| part.len() < end)));
    }
    let listed: BTreeMap<&str, usize> =
        names.iter().enumerate().map(|(layer, &name)| (name, layer)).collect();
    let mut layers = Vec::with_capacity(paths.len());
    for (operator, (path, end)) in paths.iter().zip(&ends).enumerate() {
        let name = match end {
            Some(end) => Some(&path[..*end]),
            None => parts(path).find(|part| !above.contains(part)),
        };
        // Inputs of the model belong to the layer that reads them. A forward operator in an unlisted layer belongs to
        // no layer of the plan, so it has no index.
        let index = name.filter(|_| !model.is_input(operator)).map(|name| listed.get(name).copied());
        let is_forward = graph.pass(operator) == Pass::Forward;
        layers.push(index.and_then(|index| index.or(is_forward.then_some(usize::MAX))));
    }
    let expected = membership::with(graph, |operator| layers[operator]);
    // All listed layers have operators, so all of them are layers of the graph.
    expected.iter().zip(&model.layer_of).all(|(expected, layer)| *expected == Some(*layer))
}

/// Prefixes of a path, from the shortest to the whole path.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('.').map(|(end, _)| end).chain([path.len()]).map(|end| &path[..end])
}

/// Byte offset within a path at which its layer ends: after the last number of the layer.
fn end_of_numbers(path: &str) -> Option<usize> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|letter| letter.is_ascii_digit());
    let last = |prefix: &str| prefix.rsplit('.').next().is_some_and(is_number);
    let plain = parts(path).skip_while(|prefix| !last(prefix)).take_while(|prefix| last(prefix)).last();
    plain.or_else(|| parts(path).find(|prefix| membership::is_numbered(prefix))).map(str::len)
}

/// Whether all numbers of a path are written in the usual way, without leading zeros, and there are not too many parts.
fn is_clear(path: &str) -> bool {
    path.split('.').nth(MOST_PARTS).is_none()
        && path.split('.').filter(|part| membership::is_numbered(part)).all(|part| {
            let digits = &part[part.trim_end_matches(|letter: char| letter.is_ascii_digit()).len()..];
            digits.parse().is_ok_and(|number: u64| number.to_string() == digits)
        })
}

#[cfg(test)]
mod tests {
    use super::{end_of_numbers, is_clear};

    #[test]
    fn the_layer_of_a_path_ends_with_its_first_numbers() {
        for (path, layer) in [
            ("model.layers.3.mlp.experts.5", Some("model.layers.3")),
            ("features.5.3.attn.0", Some("features.5.3")),
            ("encoder.layer_12.attention", Some("encoder.layer_12")),
            ("block_1.layer_2.x", Some("block_1")),
            ("block_1.layers.2", Some("block_1.layers.2")),
            ("3", Some("3")),
            ("linear_3.conv2d", None),
            ("layer_.x..", None),
            ("", None),
        ] {
            assert_eq!(end_of_numbers(path).map(|end| &path[..end]), layer, "{path}");
        }
    }

    #[test]
    fn numbers_are_written_in_one_way() {
        let digits = "9".repeat(20);
        for open in ["layers.03", "layer_007.x", &format!("layers.{digits}"), &".".repeat(64)] {
            assert!(!is_clear(open), "{open}");
        }
        for clear in ["layers.0", "layer_7.conv_03", "2d_layer_3", &".".repeat(63)] {
            assert!(is_clear(clear), "{clear}");
        }
    }
}
