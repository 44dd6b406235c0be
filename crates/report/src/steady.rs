//! The steady state of a pipeline beside its single step, as text and JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use stagewright_core::evaluate::{
    NoSteadyState, Place, SteadyDevice, SteadyState, SteadyTask, SteadyWork, steady,
};
use stagewright_core::graph::{OpId, TensorId};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;

use super::grid::{Column, Grid};
use super::table::{replicated, share};
use super::units::{name, percent, seconds};
use super::wrap::facts;

/// The steady state of a plan, if it has one.
#[derive(Debug, Clone)]
pub struct Steady<'p> {
    problem: &'p Problem,
    /// Activities of the pipeline in a period, or the reason why there is no steady state.
    pub state: Result<SteadyState, String>,
}

impl<'p> Steady<'p> {
    /// The steady state of a placement under the objective that it was made for. Takes as long as [`steady`].
    ///
    /// # Panics
    /// If the placement was made for another graph or cluster.
    pub fn new(problem: &'p Problem, placement: &Placement) -> Steady<'p> {
        let state = steady(problem, placement).map_err(|why| match why {
            NoSteadyState::Iteration => format!("{why}, which `simulate --schedule` simulates"),
            _ => why.to_string(),
        });
        Steady { problem, state }
    }

    /// A plan without a steady state, for the reason `why`.
    pub fn none(problem: &'p Problem, why: String) -> Steady<'p> {
        Steady { problem, state: Err(why) }
    }

    /// Problem of the plan.
    pub(super) fn problem(&self) -> &'p Problem {
        self.problem
    }

    /// The name of a device, with its replicas.
    pub(super) fn device(&self, device: &SteadyDevice) -> String {
        replicated(&self.problem.cluster().device_name(device.device), device.replicas)
    }

    /// The name of the group of an uplink.
    fn group(&self, group: usize) -> &'p str {
        &self.problem.cluster().document().groups[group].name
    }

    /// The figures, then a row for every device and every uplink, for a terminal of the given width.
    pub fn text(&self, width: Option<u16>) -> String {
        let state = match &self.state {
            Ok(state) => state,
            Err(why) => return facts([("steady state", format!("none: {why}"))], width),
        };
        let mut text = facts(lines(state), width);
        for grid in [self.devices(state), self.uplinks(state)].iter().filter(|grid| !grid.is_empty()) {
            text.push('\n');
            text.push_str(&grid.text(width));
        }
        text
    }

    fn devices(&self, state: &SteadyState) -> Grid {
        let synchronises = state.devices.iter().any(|device| device.synchronised > 0.0);
        let mut columns = vec![("in a period", Column::Names)];
        columns.extend(["compute", "utilisation", "sent", "received"].map(|name| (name, Column::Figures)));
        columns.extend(synchronises.then_some(("synchronised", Column::Figures)));
        columns.extend(["load", "idle", "in flight"].map(|name| (name, Column::Figures)));
        let mut grid = Grid::new(columns);
        for device in &state.devices {
            let mut row = vec![name(&self.device(device)), seconds(device.compute)];
            row.push(percent(share(device.compute, state.period)));
            row.extend([device.sent, device.received].map(seconds));
            row.extend(synchronises.then(|| seconds(device.synchronised)));
            row.extend([device.load, idle(state, device)].map(seconds));
            row.push(device.in_flight.to_string());
            grid.row(row);
        }
        grid
    }

    fn uplinks(&self, state: &SteadyState) -> Grid {
        let mut grid = Grid::of(&[
            (Column::Names, &["uplink of group"]),
            (Column::Figures, &["carries", "utilisation"]),
        ]);
        for (group, &load) in state.uplinks.iter().enumerate() {
            grid.row([name(self.group(group)), seconds(load), percent(share(load, state.period))]);
        }
        grid
    }

    /// The document.
    pub fn document(&self) -> SteadyDocument<'p> {
        let steady_state = self.state.as_ref().ok().map(|state| {
            let mut at_place: BTreeMap<Place, Vec<Busy>> = BTreeMap::new();
            for task in state.tasks.iter().filter(|task| task.seconds > 0.0) {
                let (start, batch) = task.within(state.period);
                at_place.entry(task.place).or_default().push(self.busy(start, batch, task));
            }
            let mut busy = |place: Place| {
                let mut busy = at_place.remove(&place).unwrap_or_default();
                busy.sort_by(|left, right| left.start_s.total_cmp(&right.start_s));
                busy
            };
            let device = |(index, device): (usize, &SteadyDevice)| Device {
                name: self.problem.cluster().device_name(device.device),
                replicas: device.replicas,
                load_s: device.load,
                compute_s: device.compute,
                sent_s: device.sent,
                received_s: device.received,
                synchronised_s: device.synchronised,
                idle_s: idle(state, device),
                utilisation: share(device.compute, state.period),
                batches_in_flight: device.in_flight,
                busy: busy(Place::Device(index)),
            };
            let devices = state.devices.iter().enumerate().map(device).collect();
            let uplink = |(group, &load_s): (usize, &f64)| Uplink {
                group: self.group(group),
                load_s,
                utilisation: share(load_s, state.period),
                busy: busy(Place::Uplink(group)),
            };
            let uplinks = state.uplinks.iter().enumerate().map(uplink).collect();
            SteadyStateDocument {
                period_s: state.period,
                latency_s: state.latency,
                batches_in_flight: state.in_flight,
                devices,
                uplinks,
            }
        });
        SteadyDocument { steady_state, no_steady_state: self.state.as_ref().err().cloned() }
    }

    fn busy(&self, start_s: f64, batch: u32, task: &SteadyTask) -> Busy<'p> {
        let graph = self.problem.graph();
        let operator = |op: OpId| What::Operator(&graph.operator(op).name);
        let tensor = |tensor: TensorId| What::Tensor(graph.tensor_name(tensor));
        let parameter = |parameter: usize| What::Gradient(&graph.parameters()[parameter].name);
        let (work, what) = match task.work {
            SteadyWork::Operator(op) => ("compute", operator(op)),
            SteadyWork::Send(sent) => ("send", tensor(sent)),
            SteadyWork::Cross(crossing) => ("cross", tensor(crossing)),
            SteadyWork::Receive(received) => ("receive", tensor(received)),
            SteadyWork::CrossGradient(shared) => ("cross", parameter(shared)),
            SteadyWork::Synchronise => ("synchronise", What::Gradients {}),
        };
        Busy { work, what, batch, start_s, end_s: start_s + task.seconds }
    }
}

/// Seconds of a period in which a device is idle.
pub(super) fn idle(state: &SteadyState, device: &SteadyDevice) -> f64 {
    (state.period - device.load).max(0.0)
}

/// The figures of a steady state in words.
fn lines(state: &SteadyState) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("steady state", format!("a batch every {}, the value of the plan", seconds(state.period))),
        ("latency", format!("{} a batch through the full pipeline", seconds(state.latency))),
        ("in flight", in_flight(state)),
    ];
    lines.extend(memory(state).map(|memory| ("memory", memory.to_owned())));
    lines
}

/// Batches that a full pipeline works on at once, in words.
pub(super) fn in_flight(state: &SteadyState) -> String {
    match state.in_flight {
        1 => "1 batch at once".into(),
        several => format!("{several} batches at once"),
    }
}

/// Memory that the plan omits in the steady state, if any.
pub(super) fn memory(state: &SteadyState) -> Option<&'static str> {
    let is_deep = state.devices.iter().any(|device| device.in_flight > 1);
    is_deep.then_some("the plan counts one batch per device; further batches need additional memory")
}

/// Steady state in the output of `simulate --json`. Times are in seconds since the period began.
#[derive(Debug, Serialize)]
pub struct SteadyDocument<'a> {
    steady_state: Option<SteadyStateDocument<'a>>,
    /// Reason why there is no steady state.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_steady_state: Option<String>,
}

#[derive(Debug, Serialize)]
struct SteadyStateDocument<'a> {
    period_s: f64,
    latency_s: f64,
    batches_in_flight: u32,
    devices: Vec<Device<'a>>,
    uplinks: Vec<Uplink<'a>>,
}

/// A device. If its stage has replicas, the activities are those of each replica.
#[derive(Debug, Serialize)]
struct Device<'a> {
    name: String,
    replicas: u32,
    load_s: f64,
    compute_s: f64,
    sent_s: f64,
    received_s: f64,
    synchronised_s: f64,
    idle_s: f64,
    utilisation: f64,
    batches_in_flight: u32,
    busy: Vec<Busy<'a>>,
}

#[derive(Debug, Serialize)]
struct Uplink<'a> {
    group: &'a str,
    load_s: f64,
    utilisation: f64,
    busy: Vec<Busy<'a>>,
}

/// An interval that begins in the period; if it ends after the period, it continues in the next. The batch is 0 for the
/// batch that the period begins, 1 for the batch before it.
#[derive(Debug, Serialize)]
struct Busy<'a> {
    work: &'static str,
    #[serde(flatten)]
    what: What<'a>,
    batch: u32,
    start_s: f64,
    end_s: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum What<'a> {
    Operator(&'a str),
    Tensor(String),
    Gradient(&'a str),
    #[serde(untagged)]
    Gradients {},
}
