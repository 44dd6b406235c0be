//! The contiguous rule: forward tensors never go to an earlier stage, backward tensors never to a later one.
//!
//! A tensor from operator u to operator v constrains their stages:
//!
//! - both forward: stage(u) ≤ stage(v);
//! - both backward, and the colocation class of one of them has no forward operator: stage(u) ≥ stage(v). If both
//!   classes have forward operators, colocation already places them by the forward pass;
//! - otherwise not at all: updates, and tensors between the forward and the backward half, are constrained by
//!   colocation alone.
//!
//! A plan with stages must satisfy these inequalities. For a plan without stages, some order must satisfy them: the
//! graph of devices, with an arc from each device that must not be later to the device that must not be earlier, must
//! be acyclic.

use stagewright_core::document::Pass;

use super::Placed;
use super::stages::Stages;
use crate::read::{Graph, Problem};
use crate::topological;
use crate::violation::{Findings, Subject, ViolationKind};

/// `before` must not be on a later stage than `after`, because of `tensor`.
struct Bind {
    before: usize,
    after: usize,
    tensor: usize,
}

/// Reports the tensors that violate the stages, or a cycle of devices if the plan has no stages. O(pins log pins).
pub(crate) fn check(problem: &Problem, placed: &Placed, stages: &Stages, findings: &mut Findings) {
    let binds = binds(&problem.graph);
    match stages {
        Stages::Order(places) => against_stages(problem, placed, places, &binds, findings),
        Stages::Absent => some_order_exists(problem, placed, &binds, findings),
        Stages::Broken => {}
    }
}

fn binds(graph: &Graph) -> Vec<Bind> {
    let with_forward = graph.classes_with_forward();
    let bound_by_class = |operator: usize| with_forward[graph.class_of[operator]];
    let mut binds = Vec::new();
    for (tensor, edge) in graph.tensors.iter().enumerate() {
        let from = edge.producer;
        for &to in &edge.consumers {
            match (graph.pass(from), graph.pass(to)) {
                (Pass::Forward, Pass::Forward) => binds.push(Bind { before: from, after: to, tensor }),
                (Pass::Backward, Pass::Backward) if !(bound_by_class(from) && bound_by_class(to)) => {
                    binds.push(Bind { before: to, after: from, tensor });
                }
                _ => {}
            }
        }
    }
    binds
}

fn against_stages(
    problem: &Problem,
    placed: &Placed,
    places: &[Option<usize>],
    binds: &[Bind],
    findings: &mut Findings,
) {
    for bind in binds {
        let (before, after) = (placed.device_of[bind.before], placed.device_of[bind.after]);
        if places[before] <= places[after] {
            continue;
        }
        let tensor = &problem.graph.tensors[bind.tensor];
        findings.push(ViolationKind::Order, tensor.subject(), || {
            let operators = problem.graph.operators;
            let stage = |device: usize| placed.devices[device].document.stage.unwrap_or_default();
            format!(
                "{} needs {:?} no later than {:?}, but they are on {:?}, stage {}, and {:?}, stage {}",
                tensor.label(),
                operators[bind.before].name,
                operators[bind.after].name,
                placed.name(before),
                stage(before),
                placed.name(after),
                stage(after),
            )
        });
    }
}

fn some_order_exists(problem: &Problem, placed: &Placed, binds: &[Bind], findings: &mut Findings) {
    let mut arcs: Vec<(usize, usize, usize)> = binds
        .iter()
        .map(|bind| (placed.device_of[bind.before], placed.device_of[bind.after], bind.tensor))
        .filter(|(before, after, _)| before != after)
        .collect();
    arcs.sort_unstable();
    arcs.dedup_by_key(|&mut (before, after, _)| (before, after));
    let pairs: Vec<(usize, usize)> = arcs.iter().map(|&(before, after, _)| (before, after)).collect();
    let Err(cycle) = topological::sort(placed.devices.len(), &pairs) else { return };
    let Some(&first) = cycle.first() else { return };
    findings.push(ViolationKind::Order, Subject::Device(placed.name(first).to_owned()), || {
        let steps = cycle.iter().zip(cycle.iter().cycle().skip(1)).map(|(&before, &after)| {
            let because = pairs.binary_search(&(before, after)).map(|index| arcs[index].2);
            let tensor = because.map_or(String::new(), |tensor| problem.graph.tensors[tensor].label());
            format!("{:?} before {:?} ({tensor})", placed.name(before), placed.name(after))
        });
        format!("no order of the devices exists: {}", steps.collect::<Vec<_>>().join(", "))
    });
}
