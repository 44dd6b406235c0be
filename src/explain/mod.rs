//! Explanation of a plan's value, and of what would improve it.
//!
//! [`Bottleneck`] is the resource that determines the value, with a breakdown of its time; [`Slack`] is the distance
//! of the other devices from it; [`Tight`] lists the constraints that leave little room. The effect of a change is not
//! estimated: [`WhatIf`] applies the change to the problem, then solves and bounds the problem again. [`Sensitivity`]
//! does the same for costs that are off.

mod bottleneck;
mod change;
mod load;
mod merged;
mod path;
mod sensitivity;
mod serial;
mod text;
mod what_if;

use serde::Serialize;
use stagewright_core::document::{BoundDocument, ObjectiveKind};
use stagewright_core::evaluate::{Evaluation, evaluate};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Stop;

pub use bottleneck::{Bottleneck, Item, Part};
pub use change::{Change, changes};
pub use merged::Merged;
pub use sensitivity::{Boundary, Case, Drawn, Sensitivity, sensitivity};
pub use serial::Serial;
pub use text::text;
pub use what_if::{WhatIf, as_it_is, what_if};

use crate::bounds::by_name;

/// The part of an explanation that needs no solver.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The value, recomputed.
    pub value_s: f64,
    /// The violated constraints; empty for a feasible plan.
    pub violations: Vec<String>,
    /// The bottleneck; one per pass if the passes are scored separately.
    pub bottlenecks: Vec<Bottleneck>,
    /// The devices in use, the most loaded first.
    pub slack: Vec<Slack>,
    /// The constraints that leave little room.
    pub tight: Vec<Tight>,
    /// Lower bounds by source, the strongest first.
    pub bounds: Vec<BoundDocument>,
    /// Work that colocation merges, if it is a large share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged: Option<Merged>,
    /// Operators that run while little else can, if they make the step longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<Serial>,
}

/// The slack of a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slack {
    /// Name of the device.
    pub device: String,
    /// Seconds for which the device is busy.
    pub load_s: f64,
    /// Difference in seconds between the value (of both passes together, if they are scored separately) and the load of
    /// the device; under a schedule, between the load of the slowest stage or uplink and that of the device. For a step
    /// or a sample, the idle seconds of the device.
    pub slack_s: f64,
    /// Bytes in use.
    pub memory_bytes: f64,
    /// Free bytes; `None` if memory is unlimited.
    pub free_bytes: Option<f64>,
}

/// A constraint that leaves little room.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "constraint", rename_all = "kebab-case")]
pub enum Tight {
    /// A device whose memory is nearly full.
    Memory {
        /// The device.
        device: String,
        /// The share in use.
        share: f64,
    },
    /// All devices of a kind are in use.
    Devices {
        /// The kind.
        kind: String,
        /// Number of devices of the kind.
        count: u32,
    },
    /// An accelerator has the maximum number of calls.
    Calls {
        /// The accelerator.
        device: String,
        /// The number of calls.
        calls: u32,
    },
}

/// Share of a device's memory above which the memory counts as nearly full.
const FULL: f64 = 0.9;

/// Explains a placement. Takes the time of the bounds plus one step of the simulator.
pub fn explain(problem: &Problem, placement: &Placement) -> Explanation {
    let evaluation = evaluate(problem, placement);
    let bottlenecks = match problem.objective().kind() {
        ObjectiveKind::Throughput => load::bottlenecks(problem, placement, &evaluation),
        ObjectiveKind::Latency => vec![path::of_sample(problem, placement, &evaluation)],
        ObjectiveKind::Makespan => vec![path::of_step(problem, placement)],
    };
    Explanation {
        value_s: evaluation.value,
        violations: evaluation.violations.iter().map(ToString::to_string).collect(),
        bottlenecks,
        slack: slack(problem, &evaluation),
        tight: tight(problem, placement, &evaluation),
        bounds: bounds(problem),
        merged: Merged::from_problem(problem),
        serial: Serial::from_problem(problem),
    }
}

fn slack(problem: &Problem, evaluation: &Evaluation) -> Vec<Slack> {
    // Under a schedule the slowest stage is decisive, not the whole iteration.
    let largest = match problem.objective().times_iteration() {
        true => evaluation
            .devices
            .iter()
            .map(|device| device.load())
            .chain(evaluation.uplinks.iter().map(|load| load[0] + load[1]))
            .fold(0.0, f64::max),
        false => evaluation.value,
    };
    let is_step = problem.objective().kind() == ObjectiveKind::Makespan;
    let mut slack: Vec<Slack> = evaluation
        .devices
        .iter()
        .map(|device| {
            // In a step, transfers overlap with computation.
            let load_s = if is_step { device.compute() } else { device.load() };
            let memory = problem.pools()[problem.pool_of(device.device)].memory;
            Slack {
                device: problem.cluster().device_name(device.device),
                load_s,
                slack_s: (largest - load_s).max(0.0),
                memory_bytes: device.memory_bytes,
                free_bytes: memory.is_finite().then(|| (memory - device.memory_bytes).max(0.0)),
            }
        })
        .collect();
    slack.sort_by(|left, right| right.load_s.total_cmp(&left.load_s));
    slack
}

fn tight(problem: &Problem, placement: &Placement, evaluation: &Evaluation) -> Vec<Tight> {
    let cluster = problem.cluster();
    let mut tight = Vec::new();
    for device in &evaluation.devices {
        let memory = problem.pools()[problem.pool_of(device.device)].memory;
        let share = device.memory_bytes / memory;
        if memory.is_finite() && share >= FULL {
            tight.push(Tight::Memory { device: cluster.device_name(device.device), share });
        }
    }
    for kind in 0..cluster.kind_count() {
        let document = cluster.kind(kind);
        let of_kind = evaluation.devices.iter().filter(|device| cluster.kind_of(device.device) == kind);
        let used: u64 = of_kind.map(|device| u64::from(device.replicas)).sum();
        if used > 0 && used >= u64::from(document.count) && !document.host {
            tight.push(Tight::Devices { kind: document.name.clone(), count: document.count });
        }
    }
    if problem.objective().kind() == ObjectiveKind::Latency && placement.has_calls() {
        let limit = problem.objective().calls();
        for device in &evaluation.devices {
            let calls = evaluation.calls.iter().filter(|call| call.device == device.device).count() as u32;
            if calls >= limit {
                tight.push(Tight::Calls { device: cluster.device_name(device.device), calls });
            }
        }
    }
    tight
}

fn bounds(problem: &Problem) -> Vec<BoundDocument> {
    let found = by_name(problem, &Stop::never());
    let mut bounds: Vec<BoundDocument> = found
        .into_iter()
        .filter_map(|(name, bound)| {
            let value_s = Some(bound?.value);
            Some(BoundDocument { value_s, source: name.into(), certificate: None })
        })
        .collect();
    bounds
        .sort_by(|left, right| right.value_s.partial_cmp(&left.value_s).unwrap_or(std::cmp::Ordering::Equal));
    bounds
}
