//! The critical path of a step, or of a sample through its calls.

use stagewright_core::evaluate::Evaluation;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::simulate::Activity;

use super::bottleneck::{Bottleneck, Item, Part, longest};
use crate::report::step::{self, Step};

/// The critical path of a step: its parts add up to the makespan.
pub(super) fn of_step(problem: &Problem, placement: &Placement) -> Bottleneck {
    let step = Step::new(problem, placement);
    let path = step.critical_path();
    let part = |part: step::Part| Part { name: part.name(), seconds: path.seconds(part) };
    let items = path.steps.iter().map(|path_step| {
        let (name, role) = match path_step.activity {
            Activity::Operator(op) => (step.operator(op).to_owned(), {
                let device = problem.cluster().device_name(step.device_of(op));
                format!("operator on {device}")
            }),
            Activity::Transfer(transfer) => (step.tensor(transfer), {
                let [from, to] = step.ends_of(transfer).map(|end| problem.cluster().device_name(end));
                format!("tensor from {from} to {to}")
            }),
        };
        let role = match path_step.part {
            step::Part::Compute | step::Part::Transfer => role,
            step::Part::Device => format!("{role}, which the next one waited for to end"),
            step::Part::Port => format!("{role}, whose link the next one waited for"),
        };
        Item { name, role, seconds: path_step.seconds() }
    });
    let seconds = path.synchronisation;
    let synchronising = (seconds > 0.0).then_some(Part { name: "synchronisation", seconds });
    Bottleneck {
        resource: "critical path".into(),
        seconds: step.makespan(),
        items: longest(items.collect()),
        parts: step::Part::ALL.map(part).into_iter().chain(synchronising).collect(),
    }
}

/// The calls of a sample. They may overlap, so the parts can add up to more than the latency.
pub(super) fn of_sample(problem: &Problem, placement: &Placement, evaluation: &Evaluation) -> Bottleneck {
    let mut parts = ["calls: inputs", "calls: compute", "calls: outputs", "hosts"]
        .map(|name| Part { name, seconds: 0.0 });
    for device in &evaluation.devices {
        let sums = device.sums[0];
        let is_host = problem.pools()[problem.pool_of(device.device)].host;
        if is_host {
            parts[3].seconds += sums.compute;
        } else {
            for (part, seconds) in parts.iter_mut().zip([sums.received, sums.compute, sums.sent]) {
                part.seconds += seconds;
            }
        }
    }
    let mut sizes = std::collections::BTreeMap::new();
    for op in problem.graph().operators() {
        *sizes.entry((placement.device_of(op), placement.call_of(op))).or_insert(0usize) += 1;
    }
    let items = evaluation.calls.iter().map(|call| {
        let operators = sizes.get(&(call.device, call.call)).copied().unwrap_or(0);
        Item {
            name: format!("call of {}", problem.cluster().device_name(call.device)),
            role: format!(
                "{operators} operators, from {} to {}",
                crate::report::units::seconds(call.start),
                crate::report::units::seconds(call.finish)
            ),
            seconds: call.finish - call.start,
        }
    });
    Bottleneck {
        resource: "sample".into(),
        seconds: evaluation.value,
        parts: parts.to_vec(),
        items: longest(items.collect()),
    }
}
