//! The waits between the steps of a plan for latency are acyclic.
//!
//! A step waits for the producers of its inputs, and a call for the previous call on its accelerator. If
//! these waits form no cycle, every step eventually starts, and the set of each call is convex: a path that
//! left a call and came back would make the call wait for its own end.

use super::Placed;
use super::calls::Steps;
use crate::read::Problem;
use crate::topological;
use crate::violation::{Findings, Subject, ViolationKind};

/// Maximum number of waits in a message about a cycle.
const MAX_WAITS: usize = 8;

/// Waits between steps.
#[derive(Debug)]
pub(crate) struct Waits {
    /// Pairs of a step and a step that waits for it; pairs may repeat.
    pub(crate) arcs: Vec<(usize, usize)>,
    /// Topological order of the steps.
    pub(crate) order: Vec<usize>,
}

/// Finds an order of the steps, or reports a cycle. O(steps + pins).
pub(crate) fn check(
    problem: &Problem,
    placed: &Placed,
    steps: &Steps,
    findings: &mut Findings,
) -> Option<Waits> {
    let arcs = arcs(problem, steps);
    match topological::sort(steps.list.len(), &arcs) {
        Ok(order) => Some(Waits { arcs, order }),
        Err(cycle) => {
            report(problem, placed, steps, cycle, findings);
            None
        }
    }
}

fn arcs(problem: &Problem, steps: &Steps) -> Vec<(usize, usize)> {
    let feeds = problem.graph.tensors.iter().flat_map(|tensor| tensor.arcs());
    let feeds =
        feeds.map(|(from, to)| (steps.step_of[from], steps.step_of[to])).filter(|(from, to)| from != to);
    let in_turn = steps.list.windows(2).enumerate().filter_map(|(step, pair)| {
        let calls = pair[0].device == pair[1].device && pair[0].call.is_some();
        calls.then_some((step, step + 1))
    });
    feeds.chain(in_turn).collect()
}

/// Reports a cycle of waits. The cycle contains a call, since the operators alone form none; the message starts at a
/// call and gives for each wait the operators that cause it.
fn report(problem: &Problem, placed: &Placed, steps: &Steps, mut cycle: Vec<usize>, findings: &mut Findings) {
    let Some(start) = cycle.iter().position(|&step| steps.list[step].call.is_some()) else { return };
    cycle.rotate_left(start);
    let device = placed.name(steps.list[cycle[0]].device);
    findings.push(ViolationKind::Calls, Subject::Device(device.to_owned()), || {
        let pairs = cycle.iter().copied().zip(cycle.iter().copied().cycle().skip(1));
        let mut waits: Vec<String> =
            pairs.take(MAX_WAITS).map(|(from, to)| wait(problem, placed, steps, from, to)).collect();
        if cycle.len() > MAX_WAITS {
            waits.push("…".to_owned());
        }
        format!("no order of the calls exists: {}", waits.join(", "))
    });
}

fn wait(problem: &Problem, placed: &Placed, steps: &Steps, from: usize, to: usize) -> String {
    let mut arcs = problem.graph.tensors.iter().flat_map(|tensor| tensor.arcs());
    let because =
        arcs.find(|&(producer, consumer)| (steps.step_of[producer], steps.step_of[consumer]) == (from, to));
    let names = because.map(|(producer, consumer)| {
        (problem.graph.operators[producer].name.as_str(), problem.graph.operators[consumer].name.as_str())
    });
    let (producer, consumer) = names.unwrap_or_default();
    let (from, to) = (steps.list[from].label(placed, producer), steps.list[to].label(placed, consumer));
    match names {
        Some(_) => format!("{from} before {to} ({producer:?} feeds {consumer:?})"),
        None => format!("{from} before {to} (calls run in turn)"),
    }
}
