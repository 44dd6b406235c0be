//! The whole timeline of a step as JSON.

use serde::Serialize;
use stagewright_core::cluster::DeviceId;
use stagewright_core::simulate::{Activity, Span};

use super::{DeviceFigures, Part, PathStep, Step, UplinkFigures};
use crate::steady::{Steady, SteadyDocument};

/// A step, the output of `simulate --json`. Times are in seconds since the start of the step, sizes in bytes.
#[derive(Debug, Serialize)]
pub struct StepDocument<'a> {
    makespan_s: f64,
    devices: Vec<DeviceFigures>,
    uplinks: Vec<UplinkFigures>,
    critical_path: CriticalPath<'a>,
    operators: Vec<Operator<'a>>,
    transfers: Vec<Transfer<'a>>,
    #[serde(flatten)]
    steady: SteadyDocument<'a>,
}

#[derive(Debug, Serialize)]
struct CriticalPath<'a> {
    compute_s: f64,
    transfer_s: f64,
    device_busy_s: f64,
    link_busy_s: f64,
    #[serde(skip_serializing_if = "is_zero")]
    synchronisation_s: f64,
    steps: Vec<Stretch<'a>>,
}

/// An activity of the critical path.
#[derive(Debug, Serialize)]
struct Stretch<'a> {
    part: &'static str,
    #[serde(flatten)]
    what: What<'a>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum What<'a> {
    Operator(Operator<'a>),
    Transfer(Transfer<'a>),
}

#[derive(Debug, Serialize)]
struct Operator<'a> {
    operator: &'a str,
    device: &'a str,
    start_s: f64,
    end_s: f64,
}

#[derive(Debug, Serialize)]
struct Transfer<'a> {
    tensor: String,
    from: &'a str,
    to: &'a str,
    start_s: f64,
    end_s: f64,
}

/// Names of all devices, to which a document refers.
#[derive(Debug, Clone)]
pub struct DeviceNames(Vec<String>);

impl DeviceNames {
    /// Returns the names of the devices of a step's cluster.
    pub fn new(step: &Step) -> DeviceNames {
        let cluster = step.problem.cluster();
        DeviceNames(cluster.devices().map(|device| cluster.device_name(device)).collect())
    }

    fn get(&self, device: DeviceId) -> &str {
        &self.0[device.index()]
    }
}

impl<'a> StepDocument<'a> {
    /// The document of a step, with the steady state of its plan.
    pub fn new(step: &'a Step, names: &'a DeviceNames, steady: &Steady<'a>) -> StepDocument<'a> {
        let path = step.critical_path();
        let spans = &step.timeline;
        StepDocument {
            makespan_s: step.makespan(),
            devices: step.devices(),
            uplinks: step.uplinks(),
            critical_path: CriticalPath {
                compute_s: path.seconds(Part::Compute),
                transfer_s: path.seconds(Part::Transfer),
                device_busy_s: path.seconds(Part::Device),
                link_busy_s: path.seconds(Part::Port),
                synchronisation_s: path.synchronisation,
                steps: path.steps.iter().map(|stretch| of_path(step, names, stretch)).collect(),
            },
            operators: (0..)
                .zip(spans.operators())
                .map(|(op, &span)| operator(step, names, op, span))
                .collect(),
            transfers: (0..)
                .zip(spans.transfers())
                .map(|(number, &span)| transfer(step, names, number, span))
                .collect(),
            steady: steady.document(),
        }
    }
}

fn of_path<'a>(step: &'a Step, names: &'a DeviceNames, stretch: &PathStep) -> Stretch<'a> {
    let what = match stretch.activity {
        Activity::Operator(op) => What::Operator(operator(step, names, op, stretch.span)),
        Activity::Transfer(number) => What::Transfer(transfer(step, names, number, stretch.span)),
    };
    Stretch { part: stretch.part.name(), what }
}

fn operator<'a>(step: &'a Step, names: &'a DeviceNames, op: u32, span: Span) -> Operator<'a> {
    let device = names.get(step.device_of(op));
    Operator { operator: step.operator(op), device, start_s: span.start, end_s: span.end }
}

fn transfer<'a>(step: &Step, names: &'a DeviceNames, number: u32, span: Span) -> Transfer<'a> {
    let [from, to] = step.ends_of(number).map(|device| names.get(device));
    Transfer { tensor: step.tensor(number), from, to, start_s: span.start, end_s: span.end }
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}
