//! One step of a placement under dataflow execution, for people and programs.
//!
//! Any placement can be played as one step, whatever objective it was made for: [`Step`] runs the simulator
//! of the makespan and keeps what it said. [`document`] is the whole timeline for programs, [`text`] the
//! summary for people, [`trace`] the timeline for a viewer of traces.

mod critical;
pub mod document;
mod memory;
pub mod text;
pub mod trace;

use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::{OpId, TensorId};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::simulate::{Flow, Ports, Simulator, Timeline};
use stagewright_core::tolerance;

pub use critical::{CriticalPath, Part, PathStep};

/// A step as it goes.
#[derive(Debug, Clone)]
pub struct Step<'p> {
    problem: &'p Problem,
    placement: &'p Placement,
    flow: Flow,
    timeline: Timeline,
    /// Seconds that each port carries something.
    carried: Vec<f64>,
}

/// What one device does in a step.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceFigures {
    /// The device.
    pub device: DeviceId,
    /// Its name.
    pub name: String,
    /// The name of its kind.
    pub kind: String,
    /// Operators that it runs.
    pub operators: usize,
    /// Seconds that it computes.
    pub compute: f64,
    /// Seconds that something leaves it.
    pub sent: f64,
    /// Seconds that something enters it.
    pub received: f64,
    /// Seconds of the step in which it does not compute.
    pub idle: f64,
    /// The share of the step in which it computes, from 0 to 1.
    pub utilisation: f64,
    /// The most bytes that it ever holds.
    pub peak_bytes: f64,
    /// Bytes of memory that it has; none where unlimited.
    pub memory_bytes: Option<f64>,
    /// Whether the peak is within its memory.
    pub fits: bool,
}

/// What the uplink of one group carries in a step.
#[derive(Debug, Clone, PartialEq)]
pub struct UplinkFigures {
    /// The group.
    pub group: String,
    /// Seconds that it carries something.
    pub busy: f64,
    /// The share of the step in which it does, from 0 to 1.
    pub utilisation: f64,
}

impl<'p> Step<'p> {
    /// Plays a placement, in O((operators + pins) log operators). An operator takes no time on a device that
    /// cannot run it: what such a step shows means nothing.
    ///
    /// # Panics
    /// As for [`Flow::of`].
    pub fn of(problem: &'p Problem, placement: &'p Placement) -> Step<'p> {
        let flow = Flow::of(problem, placement);
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

    /// When everything ran: operators by their index in the graph, transfers by their index in the flow.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// What ran, as the simulator sees it.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// The devices in use.
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
                // Sums of the same seconds in another order may be a little more than the makespan.
                idle: (self.makespan() - compute).max(0.0),
                utilisation: self.timeline.utilisation(compute).min(1.0),
                peak_bytes: peak,
                memory_bytes: limit.is_finite().then_some(limit),
                fits: tolerance::fits(peak, limit),
            }
        };
        self.placement.used().into_iter().map(figures).collect()
    }

    /// Seconds that a port carries something: none where a step has no ports, without contention.
    fn carried(&self, port: u32) -> f64 {
        self.carried.get(port as usize).copied().unwrap_or(0.0)
    }

    /// The uplinks of all groups.
    pub fn uplinks(&self) -> Vec<UplinkFigures> {
        let ports = Ports::new(self.problem);
        let groups = self.problem.cluster().document().groups.iter().enumerate();
        let figures = groups.map(|(at, group)| {
            let busy = self.carried(ports.uplink(at));
            let utilisation = self.timeline.utilisation(busy).min(1.0);
            UplinkFigures { group: group.name.clone(), busy, utilisation }
        });
        figures.collect()
    }

    /// The name of an operator.
    pub(crate) fn operator(&self, op: u32) -> &str {
        &self.problem.graph().operator(OpId(op)).name
    }

    /// The name of the tensor that a transfer brings.
    pub(crate) fn tensor(&self, transfer: u32) -> String {
        self.problem.graph().tensor_name(TensorId(self.flow.tensor_of(transfer)))
    }

    /// The device of an operator.
    pub(crate) fn device_of(&self, op: u32) -> DeviceId {
        self.placement.device_of(OpId(op))
    }

    /// The devices that a transfer leads from and to.
    pub(crate) fn ends_of(&self, transfer: u32) -> [DeviceId; 2] {
        let from = self.device_of(self.flow.producer_of(transfer));
        // A transfer of a placement leads to one device.
        let to = self.flow.destinations(transfer).next().map_or(from, DeviceId);
        [from, to]
    }
}
