//! Layers, derived from the paths of operators.
//!
//! The path of an operator is its dotted name, if the name lies below the layer that the model states for the operator;
//! otherwise that layer; without a stated layer, the operator's own name: a dotted name in full, a name with slashes
//! without its last part.
//!
//! The path of a layer ends with its first number: `model.layers.3` of `model.layers.3.mlp.gate_proj`,
//! `encoder.layer_3` of `encoder.layer_3.attention`. Numbers that follow immediately belong to it, since a sequence
//! within a sequence is not a layer: `features.5.3` of `features.5.3.attn`, a block of Swin. Layers whose paths differ
//! in that number alone form a *stack*. An operator without such a number belongs to the shortest prefix of its path
//! that contains no stack: `lm_head` of `lm_head.linear`; `model.norm` of `model.norm`, if `model.layers.3` exists.
//! Operators that a module with a stack runs outside the stack, such as those that compute the mask for all its layers,
//! are in no layer.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use petgraph::unionfind::UnionFind;
use stagewright_core::document::{GraphDocument, OperatorDocument};

use crate::names;

/// Word endings that make a following number a layer number: `layer_3`, `encoder_layer_3`, `block_3`.
const NUMBERED: [&str; 2] = ["layer_", "block_"];

/// A position in a stack.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Numbered {
    /// Prefix of the stack's paths before the number.
    pub stack: String,
    /// The number.
    pub number: u64,
}

/// Layer of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<'a> {
    /// Path of the layer.
    pub path: &'a str,
    /// Position in a stack, if any.
    pub number: Option<Numbered>,
    /// Whether the path is of a module that contains a stack, and so not of a layer.
    pub is_above: bool,
}

/// Layer of every path, in O(paths · length of a path · log paths).
pub fn layers_of<'a>(paths: &'a [Cow<'_, str>]) -> Vec<Found<'a>> {
    let numbered: Vec<Option<(usize, Numbered)>> = paths.iter().map(|path| numbered(path)).collect();
    // A module that contains a stack is not a layer.
    let mut above: BTreeSet<&str> = BTreeSet::new();
    for (path, numbered) in paths.iter().zip(&numbered) {
        let Some((end, _)) = numbered else { continue };
        above.extend(parts(&path[..*end]).filter(|part| part.len() < *end));
    }
    let found = paths.iter().zip(numbered).map(|(path, numbered)| match numbered {
        Some((end, number)) => Found { path: &path[..end], number: Some(number), is_above: false },
        None => {
            let layer = parts(path).find(|part| !above.contains(part));
            Found { path: layer.unwrap_or(path), number: None, is_above: layer.is_none() }
        }
    });
    found.collect()
}

/// Colocates the operators of every layer, together with everything that they are colocated with already.
///
/// An operator that runs in the kernel of another operator, or in no kernel, is in the layer of the operators that it
/// is colocated with: a cast at the head of a layer that ends the kernel of the previous layer does not merge the two
/// layers.
pub fn keep_whole(graph: &mut GraphDocument) {
    let paths: Vec<Cow<str>> =
        graph.operators.iter().map(|operator| path(&operator.name, operator.layer.as_deref())).collect();
    let found = layers_of(&paths);
    let has_kernel = |operator: &OperatorDocument| operator.launches != Some(0.0);
    let class = |operator: &OperatorDocument| operator.colocation.clone();
    let with_kernel: BTreeSet<String> =
        graph.operators.iter().filter(|operator| has_kernel(operator)).filter_map(class).collect();
    let mut groups: UnionFind<usize> = UnionFind::new(found.len());
    let mut by_layer: BTreeMap<&str, usize> = BTreeMap::new();
    let mut by_class: BTreeMap<String, usize> = BTreeMap::new();
    for (index, (operator, found)) in graph.operators.iter().zip(&found).enumerate() {
        let class = class(operator);
        let rides = !has_kernel(operator) && class.as_ref().is_some_and(|class| with_kernel.contains(class));
        if !rides && !found.is_above {
            groups.union(index, *by_layer.entry(found.path).or_insert(index));
        }
        if let Some(class) = class {
            groups.union(index, *by_class.entry(class).or_insert(index));
        }
    }
    // A group is named after the layer of its first operator that has one; a group without layers, after its class.
    let mut names: BTreeMap<usize, String> = BTreeMap::new();
    for (&layer, &index) in &by_layer {
        let name = names.entry(groups.find(index)).or_insert_with(|| layer.to_owned());
        if by_layer[name.as_str()] > index {
            layer.clone_into(name);
        }
    }
    let mut taken: BTreeSet<String> = by_layer.keys().map(|&layer| layer.to_owned()).collect();
    for (class, &index) in &by_class {
        names.entry(groups.find(index)).or_insert_with(|| {
            let mut name = class.clone();
            while !taken.insert(name.clone()) {
                name.push('\'');
            }
            name
        });
    }
    for (index, operator) in graph.operators.iter_mut().enumerate() {
        operator.colocation = names.get(&groups.find(index)).cloned();
    }
}

/// Layer of every operator, and whether the layer is part of a stack; `None` for an operator in no layer.
pub fn layer_names(graph: &GraphDocument) -> Vec<Option<(String, bool)>> {
    let paths: Vec<Cow<str>> =
        graph.operators.iter().map(|operator| path(&operator.name, operator.layer.as_deref())).collect();
    let name = |found: Found<'_>| (!found.is_above).then(|| (found.path.to_owned(), found.number.is_some()));
    layers_of(&paths).into_iter().map(name).collect()
}

/// Path of an operator with a name and an optional layer.
pub fn path<'a>(name: &'a str, layer: Option<&'a str>) -> Cow<'a, str> {
    match layer.filter(|layer| !layer.is_empty()) {
        Some(layer) => {
            let below = name.strip_prefix(layer).is_some_and(|rest| rest.starts_with('.'));
            Cow::Borrowed(if below { name } else { layer })
        }
        None if name.contains('/') => match names::layer(name) {
            Some(layer) => Cow::Owned(layer),
            None => Cow::Borrowed(name),
        },
        None => Cow::Borrowed(name),
    }
}

/// Largest number of parts considered: no module is nested deeper, and a name of dots alone must not cost
/// time.
const DEEPEST: usize = 64;

/// Prefixes of a dotted path, the shortest first and the path itself last. Prefixes of more than 64 parts are
/// left out, except for the whole path.
pub fn parts(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('.').map(|(end, _)| end).take(DEEPEST).chain([path.len()]);
    ends.map(|end| &path[..end])
}

/// End of the first numbered part of a path, with its position in its stack. A part that is a number takes
/// precedence over one that ends in a number.
fn numbered(path: &str) -> Option<(usize, Numbered)> {
    let find = |of_part: fn(&str) -> Option<(&str, u64)>| {
        let mut start = 0;
        let mut last = None;
        for part in path.split('.') {
            let end = start + part.len();
            match (of_part(part), last) {
                (Some((word, number)), None) => last = Some((start, end, word, number)),
                (Some(("", number)), Some(_)) => last = Some((start, end, "", number)),
                (_, Some(_)) => break,
                (None, None) => {}
            }
            start = end + 1;
        }
        last.map(|(start, end, word, number)| {
            (end, Numbered { stack: format!("{}{word}", &path[..start]), number })
        })
    };
    find(|part| Some(("", number(part)?))).or_else(|| {
        find(|part| {
            let digits = part.rfind(|c: char| !c.is_ascii_digit())? + 1;
            let (word, digits) = part.split_at_checked(digits)?;
            NUMBERED.iter().any(|end| word.ends_with(end)).then_some(())?;
            Some((word, number(digits)?))
        })
    })
}

/// Parses a number in canonical form, so that no two layers have the same number.
fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::GRAPH_SCHEMA;

    use super::*;

    fn found(path: &str) -> Option<(&str, String, u64)> {
        numbered(path).map(|(end, numbered)| (&path[..end], numbered.stack, numbered.number))
    }

    #[test]
    fn the_first_number_of_a_path_makes_the_layer() {
        let layers = |stack: &str, layer, number| Some((layer, stack.to_owned(), number));
        assert_eq!(found("model.layers.3.mlp.expert.5"), layers("model.layers.", "model.layers.3", 3));
        assert_eq!(found("encoder.layer_12.attention"), layers("encoder.layer_", "encoder.layer_12", 12));
        assert_eq!(found("blk.0"), layers("blk.", "blk.0", 0));
        assert_eq!(found("features.5.3.attn.0"), layers("features.5.", "features.5.3", 3));
        assert_eq!(found("block_1.layers.2"), layers("block_1.layers.", "block_1.layers.2", 2));
        for none in ["", "linear_3", "conv2d", "layer_", "layers.03", "layers.99999999999999999999", "é3.ü"]
        {
            assert_eq!(found(none), None, "{none}");
        }
    }

    #[test]
    fn parts_grow_to_the_whole_path() {
        assert_eq!(parts("a.b..c").collect::<Vec<_>>(), ["a", "a.b", "a.b.", "a.b..c"]);
        assert_eq!(parts("").collect::<Vec<_>>(), [""]);
        let deep = ".".repeat(1 << 20);
        assert_eq!(parts(&deep).last(), Some(deep.as_str()));
        assert_eq!(parts(&deep).count(), DEEPEST + 1);
    }

    fn graph(operators: Vec<OperatorDocument>) -> GraphDocument {
        GraphDocument {
            operators,
            schema: GRAPH_SCHEMA.into(),
            name: String::new(),
            tensors: Vec::new(),
            cluster: None,
            parameters: Vec::new(),
            batch: None,
            pipedream_skips: Vec::new(),
        }
    }

    #[test]
    fn whole_layers_take_their_classes_along() {
        let operator = |name: &str, colocation: Option<&str>| OperatorDocument {
            colocation: colocation.map(str::to_owned),
            ..OperatorDocument::named(name)
        };
        let mut graph = graph(vec![
            operator("embed", Some("tied")),
            operator("h.0.attn", None),
            operator("h.0.mlp.up", None),
            operator("h.1.attn", None),
            operator("head", Some("tied")),
        ]);
        keep_whole(&mut graph);
        let classes: Vec<_> =
            graph.operators.iter().map(|op| op.colocation.as_deref().expect("a class")).collect();
        assert_eq!(classes, ["embed", "h.0", "h.0", "h.1", "embed"]);
    }

    #[test]
    fn what_lies_between_layers_makes_none_of_them_one() {
        let operator = |name: &str, layer: &str, colocation: Option<&str>, launches: f64| OperatorDocument {
            layer: Some(layer.into()),
            colocation: colocation.map(str::to_owned),
            launches: Some(launches),
            ..OperatorDocument::named(name)
        };
        let mut graph = graph(vec![
            operator("mask", "model", None, 1.0),
            operator("positions", "model", Some("model.h.0"), 1.0),
            operator("up", "model.h.0.mlp", Some("kernel"), 1.0),
            operator("cast", "model.h.1.norm", Some("kernel"), 0.0),
            operator("norm", "model.h.1.norm", None, 1.0),
            operator("tables", "model", Some("model.h.0'"), 1.0),
            operator("view", "model", Some("end"), 0.0),
            operator("head", "head", Some("end"), 1.0),
        ]);
        keep_whole(&mut graph);
        let classes: Vec<_> = graph.operators.iter().map(|op| op.colocation.as_deref()).collect();
        let expected = [
            None,
            Some("model.h.0'"),
            Some("model.h.0"),
            Some("model.h.0"),
            Some("model.h.1"),
            Some("model.h.0''"),
            Some("head"),
            Some("head"),
        ];
        assert_eq!(classes, expected);
    }
}
