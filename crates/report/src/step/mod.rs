//! One step of a placement under dataflow execution.
//!
//! Any placement can be simulated as one step, whatever objective it was made for: [`Step`] runs the makespan
//! simulator and keeps its result. [`document`] reports the whole timeline as JSON, [`text`] a summary, [`trace`]
//! the timeline for a trace viewer.

mod critical;
pub mod document;
mod memory;
pub mod text;
pub mod trace;

use serde::Serialize;
use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::{OpId, TensorId};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::simulate::{Flow, Ports, Simulator, Timeline};
use stagewright_core::tolerance;

pub use critical::{CriticalPath, Part, PathStep};

/// A simulated step.
#[derive(Debug, Clone)]
pub struct Step<'p> {
    problem: &'p Problem,
    placement: &'p Placement,
    flow: Flow,
    timeline: Timeline,
    /// Busy seconds of each port.
    carried: Vec<f64>,
}

/// Figures of one device in a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceFigures {
    /// The device.
    #[serde(skip)]
    pub device: DeviceId,
    /// Name of the device.
    pub name: String,
    /// Name of the device's kind.
    pub kind: String,
    /// Number of operators on the device.
    pub operators: usize,
    /// Compute time in seconds.
    #[serde(rename = "compute_s")]
    pub compute: f64,
    /// Share of the step in which the device computes, from 0 to 1.
    pub utilisation: f64,
    /// Seconds in which the device sends.
    #[serde(rename = "sent_s")]
    pub sent: f64,
    /// Seconds in which the device receives.
    #[serde(rename = "received_s")]
    pub received: f64,
    /// Seconds of the step in which the device does not compute.
    #[serde(rename = "idle_s")]
    pub idle: f64,
    /// Peak memory in bytes.
    #[serde(rename = "peak_memory_bytes")]
    pub peak_bytes: f64,
    /// Memory of the device in bytes; `None` if unlimited.
    #[serde(rename = "memory_limit_bytes")]
    pub memory_bytes: Option<f64>,
    /// Whether the peak is within the memory of the device.
    pub fits: bool,
}

/// Figures of the uplink of one group in a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UplinkFigures {
    /// Name of the group.
    pub group: String,
    /// Busy time in seconds.
    #[serde(rename = "busy_s")]
    pub busy: f64,
    /// Share of the step in which the uplink is busy, from 0 to 1.
    pub utilisation: f64,
}

impl<'p> Step<'p> {
    /// Simulates a placement, in O((operators + pins) log operators). An operator takes no time on a device that
    /// cannot run it, so the figures of such a step are meaningless.
    ///
    /// # Panics
    /// If [`Flow::from_placement`] panics.
    pub fn new(problem: &'p Problem, placement: &'p Placement) -> Step<'p> {
        let flow = Flow::from_placement(problem, placement);
        let timeline = Simulator::new().run(&flow).clone();
        let carried = flow.port_seconds();
        Step { problem, placement, flow, timeline, carried }
    }

    /// The problem of the step.
    pub(super) fn problem(&self) -> &'p Problem {
        self.problem
    }

    /// Seconds until the last event.
    pub fn makespan(&self) -> f64 {
        self.timeline.makespan()
    }

    /// Time intervals of operators, by index in the graph, and of transfers, by index in the flow.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// The simulated flow.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Figures of the devices in use.
    pub fn devices(&self) -> Vec<DeviceFigures> {
        let cluster = self.problem.cluster();
        let compute = self.flow.device_seconds();
        let ports = Ports::new(self.problem);
        let mut operators = vec![0; cluster.device_count()];
        for op in self.problem.graph().operators() {
            operators[self.placement.device_of(op).index()] += 1;
        }
        let figures = |device: DeviceId| {
            let compute = compute[device.index()];
            let kind = cluster.kind(cluster.kind_of(device));
            let (peak, limit) = (
                self.timeline.peak_bytes()[device.index()],
                self.problem.pools()[self.problem.pool_of(device)].memory,
            );
            DeviceFigures {
                device,
                name: cluster.device_name(device),
                kind: kind.name.clone(),
                operators: operators[device.index()],
                compute,
                sent: self.carried(ports.egress(device)),
                received: self.carried(ports.ingress(device)),
                // Summed in another order, the same seconds can slightly exceed the makespan.
                idle: (self.makespan() - compute).max(0.0),
                utilisation: self.timeline.utilisation(compute).min(1.0),
                peak_bytes: peak,
                memory_bytes: limit.is_finite().then_some(limit),
                fits: tolerance::fits(peak, limit),
            }
        };
        self.placement.used().into_iter().map(figures).collect()
    }

    /// Busy seconds of a port; 0 if the step has no ports, without contention.
    fn carried(&self, port: u32) -> f64 {
        self.carried.get(port as usize).copied().unwrap_or(0.0)
    }

    /// Figures of the uplinks of all groups.
    pub fn uplinks(&self) -> Vec<UplinkFigures> {
        let ports = Ports::new(self.problem);
        let groups = self.problem.cluster().document().groups.iter().enumerate();
        let figures = groups.map(|(id, group)| {
            let busy = self.carried(ports.uplink(id));
            let utilisation = self.timeline.utilisation(busy).min(1.0);
            UplinkFigures { group: group.name.clone(), busy, utilisation }
        });
        figures.collect()
    }

    /// Name of an operator.
    pub fn operator(&self, op: u32) -> &str {
        &self.problem.graph().operator(OpId(op)).name
    }

    /// Name of the tensor of a transfer.
    pub fn tensor(&self, transfer: u32) -> String {
        self.problem.graph().tensor_name(TensorId(self.flow.tensor_of(transfer)))
    }

    /// Device of an operator.
    pub fn device_of(&self, op: u32) -> DeviceId {
        self.placement.device_of(OpId(op))
    }

    /// Source and destination device of a transfer.
    pub fn ends_of(&self, transfer: u32) -> [DeviceId; 2] {
        let from = self.device_of(self.flow.producer_of(transfer));
        // In the flow of a placement, a transfer has one destination.
        let to = self.flow.destinations(transfer).next().map_or(from, DeviceId);
        [from, to]
    }
}
