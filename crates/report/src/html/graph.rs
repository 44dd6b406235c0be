//! The collapsible graph of operators by layer and device.

use serde::Serialize;
use stagewright_core::ids::Keyed;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;

use super::Page;
use super::groups::Groups;
use super::names::{title, visible};
use super::shell::Section;
use super::tables::{Tables, pass_number};
use crate::units;

/// Graph section; `None` without a plan.
pub(super) fn section(page: &Page) -> Option<Section> {
    page.placement?;
    Some(Section { id: "graph", title: "Graph", markup: include_str!("page/graph.html").into() })
}

/// The graph in columns, with one entry per operator in topological order, or per group.
#[derive(Serialize)]
pub(super) struct GraphData {
    groups: GroupColumns,
    operators: Operators,
}

/// Groups; the first is the whole graph.
#[derive(Serialize)]
struct GroupColumns {
    parent: Vec<u32>,
    name: Vec<String>,
    seconds: Vec<u32>,
    bytes: Vec<u32>,
}

/// Operators.
#[derive(Default, Serialize)]
struct Operators {
    group: Vec<u32>,
    /// Name up to its title, and the title, as text indices.
    stem: Vec<u32>,
    name: Vec<u32>,
    /// Kind of operator, as a text index; `None` if not given.
    kind: Vec<Option<u32>>,
    /// Code of the pass, from [`pass_number`].
    pass: Vec<u8>,
    device: Vec<u32>,
    seconds: Vec<u32>,
    bytes: Vec<u32>,
    /// Number of readers of each operator.
    readers: Vec<u32>,
    /// Distance to each reader in topological order, for one operator after the other.
    steps: Vec<u32>,
}

impl GraphData {
    /// Returns the data of a placement, in O((operators + pins) log operators).
    pub(super) fn new(problem: &Problem, placement: &Placement, tables: &mut Tables) -> GraphData {
        let graph = problem.graph();
        let tree = Groups::new(graph);
        let mut seconds = Keyed::filled(0.0, tree.groups.len());
        let mut bytes = Keyed::filled(0.0, tree.groups.len());
        let mut operators = Operators::default();
        for &op in graph.topological() {
            let operator = graph.operator(op);
            let device = placement.device_of(op);
            let group = tree.group_of[op];
            // An operator that its device cannot run takes no time, as in a step.
            let took = problem.seconds(op, problem.pool_of(device)).unwrap_or(0.0);
            seconds[group] += took;
            bytes[group] += operator.bytes();
            let (stem, name) = operator.name.split_at(title(&operator.name));
            operators.group.push(group);
            operators.stem.push(tables.texts.number(&visible(stem)));
            operators.name.push(tables.texts.number(&visible(name)));
            operators.kind.push(operator.kind.as_ref().map(|kind| tables.texts.number(&visible(kind))));
            operators.pass.push(pass_number(operator.pass));
            operators.device.push(tables.number_of.get(&device).copied().unwrap_or(0));
            operators.seconds.push(tables.seconds.number(took, units::seconds));
            operators.bytes.push(tables.bytes.number(operator.bytes(), units::bytes));
            let place = tables.place_of[op];
            let mut readers: Vec<u32> =
                graph.successors(op).iter().map(|&reader| tables.place_of[reader]).collect();
            readers.sort_unstable();
            operators.readers.push(readers.len() as u32);
            operators.steps.extend(readers.iter().map(|reader| reader - place));
        }
        // Every group is after its parent, so its sums are complete before they are added to the parent's.
        for group in tree.groups.ids().skip(1).rev() {
            let parent = tree.groups[group].parent;
            let (took, held) = (seconds[group], bytes[group]);
            seconds[parent] += took;
            bytes[parent] += held;
        }
        let seconds = seconds.iter().map(|&sum| tables.seconds.number(sum, units::seconds)).collect();
        let bytes = bytes.iter().map(|&sum| tables.bytes.number(sum, units::bytes)).collect();
        let (parent, name) =
            tree.groups.into_vec().into_iter().map(|group| (group.parent, group.name)).unzip();
        GraphData { groups: GroupColumns { parent, name, seconds, bytes }, operators }
    }
}
