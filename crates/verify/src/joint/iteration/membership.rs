//! The layer of every operator.
//!
//! A forward operator belongs to the listed layer that is its path or the longest dotted prefix of it. Operators that share
//! a colocation are in the layer of the first forward operator among them, all others in that of their first reader.

use std::borrow::Cow;
use std::collections::BTreeMap;

use stagewright_core::document::{OperatorDocument, Pass};

use crate::read::Graph;

/// The layer of every operator by the index of its name; `None` for operators that are in no listed layer.
/// O(pins · log + length of the names · log).
pub(super) fn layers(graph: &Graph, listed: &BTreeMap<&str, usize>) -> Vec<Option<usize>> {
    with(graph, |operator| by_path(&graph.operators[operator], listed))
}

/// The layer of every operator by the index of its name, with the layer that each has by itself, if any.
/// O(pins · log), and `by_itself` at most twice for every operator.
pub(super) fn with(graph: &Graph, by_itself: impl Fn(usize) -> Option<usize>) -> Vec<Option<usize>> {
    let mut home: Vec<Option<usize>> = Vec::with_capacity(graph.classes.len());
    for members in &graph.classes {
        let forward = members.iter().filter(|&&operator| graph.pass(operator) == Pass::Forward);
        let first = forward.min_by_key(|&&operator| graph.work_place[operator]);
        home.push(first.and_then(|&operator| by_itself(operator)));
    }
    by_first_reader(graph, &mut home);
    for (class, members) in graph.classes.iter().enumerate() {
        if home[class].is_none() {
            home[class] = members.iter().find_map(|&operator| by_itself(operator));
        }
    }
    // A backward or update operator without a layer and a reader is with the last that it reads.
    for class in 0..home.len() {
        let is_behind = graph.classes[class].iter().all(|&operator| graph.pass(operator) != Pass::Forward);
        if home[class].is_none() && is_behind {
            let tensors = graph.classes[class].iter().flat_map(|&operator| &graph.tensors_of[operator]);
            let read = tensors.map(|&tensor| graph.class_of[graph.tensors[tensor].producer]);
            home[class] = read.filter_map(|from| home[from]).max();
        }
    }
    graph.class_of.iter().map(|&class| home[class]).collect()
}

/// The listed layer of an operator.
fn by_path(operator: &OperatorDocument, listed: &BTreeMap<&str, usize>) -> Option<usize> {
    let path = path(operator);
    let mut path = path.as_ref();
    loop {
        if let Some(&layer) = listed.get(path) {
            return Some(layer);
        }
        path = path.rsplit_once('.')?.0;
    }
}

/// The path of an operator: its name if that continues the path of its layer, else that path. Without a layer it is the name,
/// of one with slashes all but the last part.
pub(super) fn path(operator: &OperatorDocument) -> Cow<'_, str> {
    let name = operator.name.as_str();
    match operator.layer.as_deref().filter(|layer| !layer.is_empty()) {
        Some(layer) => {
            let rest = name.strip_prefix(layer);
            Cow::Borrowed(if rest.is_some_and(|rest| rest.starts_with('.')) { name } else { layer })
        }
        None => match name.rsplit_once('/') {
            Some((above, _)) if !above.contains('.') => {
                let parts: Vec<&str> = above.split('/').filter(|part| !part.is_empty()).collect();
                if parts.is_empty() { Cow::Borrowed(name) } else { Cow::Owned(parts.join(".")) }
            }
            _ => Cow::Borrowed(name),
        },
    }
}

/// Gives every class without a layer that of its first reader, which may itself get it from a reader.
fn by_first_reader(graph: &Graph, home: &mut [Option<usize>]) {
    let next: Vec<Option<usize>> = (0..home.len()).map(|class| first_reader(graph, class)).collect();
    let mut is_visited = vec![false; home.len()];
    for start in 0..home.len() {
        let (mut path, mut class) = (Vec::new(), start);
        let found = loop {
            if home[class].is_some() || std::mem::replace(&mut is_visited[class], true) {
                break home[class];
            }
            path.push(class);
            match next[class] {
                Some(reader) => class = reader,
                None => break None,
            }
        };
        for class in path {
            home[class] = found;
        }
    }
}

/// The class of the first operator outside a class that reads a tensor of it.
fn first_reader(graph: &Graph, class: usize) -> Option<usize> {
    let tensors = graph.classes[class].iter().flat_map(|&operator| &graph.tensors_of[operator]);
    let made = tensors.map(|&tensor| &graph.tensors[tensor]);
    let made = made.filter(|tensor| graph.class_of[tensor.producer] == class);
    let readers = made.flat_map(|tensor| tensor.consumers.iter().copied());
    let outside = readers.filter(|&reader| graph.class_of[reader] != class);
    outside.min_by_key(|&reader| graph.work_place[reader]).map(|reader| graph.class_of[reader])
}

/// Whether a layer is numbered: the last part of its path is a number, or a number behind `layer_` or `block_`.
pub(super) fn is_numbered(layer: &str) -> bool {
    let last = layer.rsplit('.').next().unwrap_or(layer);
    let before = last.trim_end_matches(|letter: char| letter.is_ascii_digit());
    before.len() < last.len()
        && (before.is_empty() || before.ends_with("layer_") || before.ends_with("block_"))
}
