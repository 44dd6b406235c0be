//! A part of a graph as a problem of its own.

use crate::document::{GraphDocument, OperatorDocument, PinsDocument, TensorDocument};
use crate::graph::{Graph, OpId};
use crate::ids::Keyed;
use crate::problem::Problem;

/// The operators between the end of one operator and the start of another, as a problem in which these two take no
/// time. Tensors from and to other operators are left out, and so are shared parameters, so that between these times
/// every schedule of the whole graph contains a schedule of the part. `None` if the documents of the part are rejected,
/// or would not have the costs of the problem because it is scaled. O(operators + pins).
pub(super) fn part(problem: &Problem, ends: [Option<OpId>; 2], between: &[OpId]) -> Option<Problem> {
    if problem.is_scaled() {
        return None;
    }
    let (graph, [start, end]) = (problem.graph(), ends);
    let operators: Vec<OpId> = between.iter().copied().chain(ends.into_iter().flatten()).collect();
    let mut inside = Keyed::filled(false, graph.operator_count());
    operators.iter().for_each(|&op| inside[op] = true);
    let name = |op: OpId| graph.operator(op).name.clone();
    let mut tensors = Vec::new();
    for &op in operators.iter().filter(|&&op| end != Some(op)) {
        for &tensor in graph.outputs(op) {
            let readers = graph.consumers(tensor).iter();
            let readers = readers.filter(|&&reader| inside[reader] && start != Some(reader));
            let consumers: Vec<String> = readers.map(|&reader| name(reader)).collect();
            if !consumers.is_empty() {
                let whole = &graph.document().tensors[tensor.index()];
                tensors.push(TensorDocument { consumers, ..whole.clone() });
            }
        }
    }
    let pins = |op: &OpId| Some((name(*op), problem.pins().0.get(&graph.operator(*op).name)?.clone()));
    let pins = PinsDocument(operators.iter().filter_map(pins).collect());
    let mut document = GraphDocument::new(&graph.document().schema, "");
    document.operators =
        operators.iter().map(|&op| operator(problem, op, ends.contains(&Some(op)))).collect();
    document.tensors = tensors;
    problem.with_graph(Graph::from_document(document).ok()?, pins).ok()
}

/// The document of an operator, with its colocation class as a name; an end of the part takes no time.
fn operator(problem: &Problem, op: OpId, is_end: bool) -> OperatorDocument {
    let graph = problem.graph();
    let mut document = graph.operator(op).clone();
    document.colocation = Some(graph.class_of(op).index().to_string());
    if is_end {
        let kinds =
            (0..problem.cluster().kind_count()).filter(|&kind| problem.costs().seconds(op, kind).is_some());
        document.seconds = kinds.map(|kind| (problem.cluster().kind(kind).class.clone(), 0.0)).collect();
        (document.flop, document.bytes_moved, document.launches) = (None, None, None);
    }
    document
}
