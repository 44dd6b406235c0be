//! Operators by layer: the tree behind the collapsible drawing of a large graph.
//!
//! The path of an operator is its layer, split at dots and slashes, followed by the parts that its name adds to the
//! layer. Where no layer is given, names alone divide operators, and only if there would otherwise be many siblings.
//! A group that still has too many members is divided into runs of consecutive members in topological order, each
//! named after its first and last. So no group has more than [`MOST`] members, whatever the names.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use stagewright_core::graph::{Graph, OpId};
use stagewright_core::ids::Keyed;

use super::figures::Texts;
use super::names::{is_separator, last_part, visible};

/// Maximum number of members of a group.
pub(super) const MOST: usize = 150;
/// Maximum number of operators of one layer that are not divided by name.
const SIDE_BY_SIDE: usize = 48;
/// Maximum number of levels of a path, so that no name makes a deep tree.
const DEEPEST: usize = 8;

/// Tree of groups of operators.
#[derive(Debug)]
pub(super) struct Groups {
    /// The groups, each after its parent; the first is the whole graph.
    pub(super) groups: Keyed<u32, Group>,
    /// Group of each operator.
    pub(super) group_of: Keyed<OpId, u32>,
}

/// A group of operators.
#[derive(Debug)]
pub(super) struct Group {
    /// Parent group; the root is its own parent.
    pub(super) parent: u32,
    /// Name among its siblings.
    pub(super) name: String,
}

impl Groups {
    /// Returns the groups of a graph, in O(operators).
    pub(super) fn new(graph: &Graph) -> Groups {
        let mut parts = Texts::default();
        let paths = graph.operators().map(|op| Path::new(graph, op, &mut parts)).collect();
        let root = Group { parent: 0, name: String::new() };
        let group_of = Keyed::filled(0, graph.operator_count());
        let of_graph = Groups { groups: vec![root].into(), group_of };
        let is_its_layer = graph.operators().map(|op| {
            let operator = graph.operator(op);
            operator.layer.as_deref() == Some(&operator.name)
        });
        let mut builder = Builder {
            of_graph,
            paths,
            is_its_layer: is_its_layer.collect(),
            parts: parts.into_texts(),
            pending: VecDeque::new(),
        };
        builder.pending.push_back(Pending { group: 0, ops: graph.topological().to_vec(), depth: 0 });
        while let Some(pending) = builder.pending.pop_front() {
            builder.divide(graph, pending);
        }
        builder.of_graph
    }
}

/// Groups of an operator from the outermost inwards, as indices of their names.
struct Path {
    parts: Vec<u32>,
    /// Number of parts that come from the layer; the rest come from the name.
    declared: usize,
}

impl Path {
    fn new(graph: &Graph, op: OpId, parts: &mut Texts) -> Path {
        let operator = graph.operator(op);
        let layer = operator.layer.as_deref().unwrap_or("");
        let name = &operator.name[..last_part(&operator.name)];
        let beyond = match layer {
            "" => name,
            _ => name.strip_prefix(layer).filter(|rest| rest.starts_with(is_separator)).unwrap_or(""),
        };
        let mut path = levels(layer);
        let declared = path.len();
        path.extend(levels(beyond));
        path.truncate(DEEPEST);
        Path { declared: declared.min(DEEPEST), parts: path.iter().map(|part| parts.number(part)).collect() }
    }
}

/// Levels of a path. A number is joined to the level before it, as in `layer.3`.
fn levels(path: &str) -> Vec<String> {
    let mut levels: Vec<String> = Vec::new();
    for part in path.split(is_separator).filter(|part| !part.is_empty()) {
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        match levels.last_mut() {
            Some(last) if is_number => {
                last.push('.');
                last.push_str(part);
            }
            _ => levels.push(part.into()),
        }
        if levels.len() > DEEPEST {
            break;
        }
    }
    levels
}

/// Operators of a group that are still to be divided by the parts at `depth` of their paths.
struct Pending {
    group: u32,
    ops: Vec<OpId>,
    depth: usize,
}

/// A member of a group.
enum Member {
    Operator(OpId),
    Group(u32, Vec<OpId>),
}

struct Builder {
    of_graph: Groups,
    paths: Keyed<OpId, Path>,
    /// Whether the name of each operator equals its layer.
    is_its_layer: Keyed<OpId, bool>,
    parts: Keyed<u32, String>,
    pending: VecDeque<Pending>,
}

impl Builder {
    fn divide(&mut self, graph: &Graph, pending: Pending) {
        let Pending { group, ops, depth } = pending;
        let is_declared = |op: OpId| depth < self.paths[op].declared;
        let by_name = ops.iter().filter(|&&op| !is_declared(op)).count() > SIDE_BY_SIDE;
        let mut members: Vec<Member> = Vec::new();
        let mut place_of: FxHashMap<u32, usize> = FxHashMap::default();
        for &op in &ops {
            let part = self.paths[op].parts.get(depth).filter(|_| by_name || is_declared(op));
            match part.map(|part| (*part, place_of.get(part))) {
                None => members.push(Member::Operator(op)),
                Some((part, None)) => {
                    place_of.insert(part, members.len());
                    members.push(Member::Group(part, vec![op]));
                }
                Some((_, Some(&place))) => {
                    if let Member::Group(_, ops) = &mut members[place] {
                        ops.push(op);
                    }
                }
            }
        }
        if let [Member::Group(part, _)] = members[..] {
            // A group whose only member is a group is merged with it.
            if group != 0 {
                let name = &mut self.of_graph.groups[group].name;
                name.push('.');
                name.push_str(&visible(&self.parts[part]));
            }
            self.pending.push_back(Pending { group, ops, depth: depth + 1 });
            return;
        }
        self.put(graph, group, members, depth + 1);
    }

    /// Adds members to a group, in runs of equal size if there are too many. Runs are nested at most
    /// log(operators) / log([`MOST`]) deep.
    fn put(&mut self, graph: &Graph, group: u32, members: Vec<Member>, depth: usize) {
        if members.len() > MOST {
            let mut size = MOST;
            while members.len().div_ceil(size) > MOST {
                size *= MOST;
            }
            let parts = members.len().div_ceil(size);
            let (least, larger) = (members.len() / parts, members.len() % parts);
            let mut members = members.into_iter();
            for part in 0..parts {
                let size = least + usize::from(part < larger);
                let members: Vec<Member> = members.by_ref().take(size).collect();
                let inner = self.group(group, self.range(graph, &members));
                self.put(graph, inner, members, depth);
            }
            return;
        }
        for member in members {
            match member {
                Member::Operator(op) => self.of_graph.group_of[op] = group,
                Member::Group(part, ops) => match ops[..] {
                    // A name with a single operator makes no group, nor does a layer with the name of its
                    // only operator.
                    [op] if depth > self.paths[op].declared || self.is_its_layer[op] => {
                        self.of_graph.group_of[op] = group;
                    }
                    _ => {
                        let inner = self.group(group, visible(&self.parts[part]));
                        self.pending.push_back(Pending { group: inner, ops, depth });
                    }
                },
            }
        }
    }

    /// Name of a run of members, from the first to the last; operators contribute their full names.
    fn range(&self, graph: &Graph, members: &[Member]) -> String {
        let name = |member: &Member| match member {
            Member::Operator(op) => visible(&graph.operator(*op).name),
            Member::Group(part, _) => visible(&self.parts[*part]),
        };
        let ends = [members.first(), members.last()];
        ends.into_iter().flatten().map(name).collect::<Vec<_>>().join(" … ")
    }

    fn group(&mut self, parent: u32, name: String) -> u32 {
        self.of_graph.groups.push(Group { parent, name })
    }
}
