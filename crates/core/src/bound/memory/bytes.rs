//! Bytes that a colocation class holds on its device, whatever other classes are there.

use std::sync::Arc;

use crate::document::ObjectiveKind;
use crate::graph::{ClassId, Graph};
use crate::ids::Keyed;
use crate::problem::Problem;
use crate::tolerance::round_down;

/// Bytes of every class, rounded down. The bytes of a set of classes sum to at most the memory in use on its device at
/// some moment.
///
/// Parameters and optimiser state are resident throughout. A shared parameter is resident on every device that reads
/// it, so its bytes are divided equally among all classes that read it. In a pipeline and for the latency, version 1
/// adds the workspace and the activations. In version 2 a device runs its forward operators first. It then holds the
/// declared activations of all microbatches in flight, which are at least as many as on the last stage, and the forward
/// tensors that only this class keeps for its backward operators. In a makespan step these need not be held at the same
/// time. O(operators + pins log pins).
pub(super) struct ClassBytes(pub(super) Keyed<ClassId, f64>);

impl ClassBytes {
    /// The bytes of a problem's classes, computed once.
    pub(super) fn of(problem: &Problem) -> Arc<ClassBytes> {
        problem.memo(|| ClassBytes(class_bytes(problem)))
    }
}

fn class_bytes(problem: &Problem) -> Keyed<ClassId, f64> {
    let graph = problem.graph();
    let in_flight = f64::from(problem.objective().in_flight_of(1, 1));
    let is_step = problem.objective().kind() == ObjectiveKind::Makespan;
    let is_sum = problem.memory().is_sum();
    let mut bytes = Keyed::filled(0.0, graph.class_count());
    for op in graph.operators() {
        let document = graph.operator(op);
        let mut own = document.parameter_bytes + document.optimizer_bytes;
        if !(is_sum && is_step) {
            own += in_flight * document.activation_bytes;
        }
        if is_sum && !is_step {
            own += document.workspace_bytes;
        }
        bytes[graph.class_of(op)] += own;
    }
    let mut classes: Vec<ClassId> = Vec::new();
    for (parameter, document) in graph.parameters().iter().enumerate() {
        classes.clear();
        classes.extend(graph.readers(parameter).iter().map(|&op| graph.class_of(op)));
        classes.sort_unstable();
        classes.dedup();
        for &class in &classes {
            bytes[class] += (document.bytes + document.optimizer_bytes) / classes.len() as f64;
        }
    }
    if !is_sum && !is_step {
        keep_tensors(graph, in_flight, &mut bytes);
    }
    bytes.iter().map(|&bytes| round_down(bytes)).collect()
}

/// Adds the forward tensors that one class alone keeps from the forward to the backward pass.
fn keep_tensors(graph: &Graph, in_flight: f64, bytes: &mut Keyed<ClassId, f64>) {
    for tensor in graph.tensors().filter(|&tensor| graph.is_forward(graph.producer(tensor))) {
        let (mut before, mut after): (Vec<ClassId>, Vec<ClassId>) = Default::default();
        for &op in graph.pins(tensor) {
            if graph.is_forward(op) { &mut before } else { &mut after }.push(graph.class_of(op));
        }
        before.sort_unstable();
        after.sort_unstable();
        after.dedup();
        after.retain(|class| before.binary_search(class).is_ok());
        if let [class] = after[..] {
            bytes[class] += in_flight * graph.bytes(tensor);
        }
    }
}
