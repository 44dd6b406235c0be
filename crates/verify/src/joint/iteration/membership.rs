//! The layer of every operator.
//!
//! An operator belongs to the listed layer whose path is its own path or the longest dotted prefix of it. Operators
//! that share a colocation with forward operators are in the layer of the first of these. Inputs of the model, and
//! operators in no listed layer, are in the layer of their first reader.

use std::borrow::Cow;
use std::collections::BTreeMap;

use stagewright_core::document::{OperatorDocument, Pass};

use super::kinds;
use crate::read::Graph;

/// The layer of every operator by the index of its name; `None` for operators that are in no listed layer.
/// O(pins · log + length of the names · log).
pub(super) fn layers(graph: &Graph, listed: &BTreeMap<&str, usize>) -> Vec<Option<usize>> {
    let is_input = |operator: &OperatorDocument| kinds::plain(operator) == "input";
    with(graph, |operator| {
        let document = &graph.operators[operator];
        if is_input(document) { None } else { by_path(document, listed) }
    })
}

/// Groups of operators that belong to the same layer: colocated operators of which one is forward; any other operator
/// is alone.
struct Groups {
    members: Vec<Vec<usize>>,
    of: Vec<usize>,
}

impl Groups {
    fn new(graph: &Graph) -> Self {
        let is_forward = |operator: &usize| graph.pass(*operator) == Pass::Forward;
        let (mut members, mut group_of) = (Vec::new(), vec![0; graph.operators.len()]);
        for class in &graph.classes {
            let size = if class.iter().any(is_forward) { class.len() } else { 1 };
            for part in class.chunks(size) {
                part.iter().for_each(|&operator| group_of[operator] = members.len());
                members.push(part.to_vec());
            }
        }
        Groups { members, of: group_of }
    }
}

/// The layer of every operator, given the layer of each alone, if any. O(pins · log), and at most two calls of
/// `by_itself` for every operator.
pub(super) fn with(graph: &Graph, by_itself: impl Fn(usize) -> Option<usize>) -> Vec<Option<usize>> {
    let groups = Groups::new(graph);
    // A group with forward operators is represented by the first of them.
    let first = |members: &Vec<usize>| {
        let key = |&&operator: &&usize| (graph.pass(operator) != Pass::Forward, graph.work_place[operator]);
        members.iter().min_by_key(key).copied()
    };
    let mut home: Vec<Option<usize>> =
        groups.members.iter().map(|members| first(members).and_then(&by_itself)).collect();
    by_first_reader(graph, &groups, &mut home);
    // A backward or update operator without a layer or a reader joins the last layer that it reads from.
    for group in 0..home.len() {
        let is_behind = groups.members[group].iter().all(|&operator| graph.pass(operator) != Pass::Forward);
        if home[group].is_none() && is_behind {
            let tensors = groups.members[group].iter().flat_map(|&operator| &graph.tensors_of[operator]);
            let read = tensors.map(|&tensor| groups.of[graph.tensors[tensor].producer]);
            home[group] = read.filter_map(|from| home[from]).max();
        }
    }
    groups.of.iter().map(|&group| home[group]).collect()
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

/// The path of an operator: its name if that continues the path of its layer, otherwise the path of the layer. Without
/// a layer, the path is the name, without its last part if the name has slashes.
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

/// Assigns every group without a layer to the layer of its first reader, which may in turn get it from its own first
/// reader.
fn by_first_reader(graph: &Graph, groups: &Groups, home: &mut [Option<usize>]) {
    let next: Vec<Option<usize>> = (0..home.len()).map(|group| first_reader(graph, groups, group)).collect();
    let mut is_visited = vec![false; home.len()];
    for start in 0..home.len() {
        let (mut path, mut group) = (Vec::new(), start);
        let found = loop {
            if home[group].is_some() || std::mem::replace(&mut is_visited[group], true) {
                break home[group];
            }
            path.push(group);
            match next[group] {
                Some(reader) => group = reader,
                None => break None,
            }
        };
        for group in path {
            home[group] = found;
        }
    }
}

/// The group of the first operator outside a group that reads one of its tensors.
fn first_reader(graph: &Graph, groups: &Groups, group: usize) -> Option<usize> {
    let tensors = groups.members[group].iter().flat_map(|&operator| &graph.tensors_of[operator]);
    let made = tensors.map(|&tensor| &graph.tensors[tensor]);
    let made = made.filter(|tensor| groups.of[tensor.producer] == group);
    let readers = made.flat_map(|tensor| tensor.consumers.iter().copied());
    let outside = readers.filter(|&reader| groups.of[reader] != group);
    outside.min_by_key(|&reader| graph.work_place[reader]).map(|reader| groups.of[reader])
}

/// Whether a layer is numbered: the last part of its path is a number, or a number after `layer_` or `block_`.
pub(super) fn is_numbered(layer: &str) -> bool {
    let last = layer.rsplit('.').next().unwrap_or(layer);
    let before = last.trim_end_matches(|letter: char| letter.is_ascii_digit());
    before.len() < last.len()
        && (before.is_empty() || before.ends_with("layer_") || before.ends_with("block_"))
}
