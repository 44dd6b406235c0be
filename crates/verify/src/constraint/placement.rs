//! Every operator is on exactly one device, every device exists in the cluster, and no kind is used beyond
//! its count.
//!
//! All other constraints and all figures presuppose this one. So the plan is read into a [`Draft`] that may
//! be incomplete, and only a draft without violations becomes a [`Placed`].

use std::collections::BTreeMap;

use stagewright_core::document::{DeviceDocument, PlanDocument};

use crate::read::Problem;
use crate::violation::{Findings, Subject, ViolationKind};

/// A device of the plan, possibly invalid.
#[derive(Debug)]
pub(crate) struct DraftDevice<'a> {
    pub(crate) document: &'a DeviceDocument,
    /// Kind and number; `None` if the cluster has no such device.
    pub(crate) seat: Option<(usize, u32)>,
    operators: Vec<usize>,
}

/// A possibly incomplete placement.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    /// Devices in the order of the plan.
    pub(crate) devices: Vec<DraftDevice<'a>>,
    /// First device that lists each operator.
    pub(crate) device_of: Vec<Option<usize>>,
    sound: bool,
}

/// A device of a sound placement.
#[derive(Debug)]
pub(crate) struct Device<'a> {
    pub(crate) document: &'a DeviceDocument,
    pub(crate) kind: usize,
    /// Number within the kind.
    pub(crate) number: u32,
    pub(crate) operators: Vec<usize>,
}

/// A sound placement: every operator on exactly one device that exists.
#[derive(Debug)]
pub(crate) struct Placed<'a> {
    /// Devices in the order of the plan.
    pub(crate) devices: Vec<Device<'a>>,
    /// Device of each operator.
    pub(crate) device_of: Vec<usize>,
}

/// Reads the devices of a plan and reports violations. O(operators + devices log devices).
pub(crate) fn check<'a>(problem: &Problem, plan: &'a PlanDocument, findings: &mut Findings) -> Draft<'a> {
    let mut report = Reporter { findings, sound: true };
    let mut devices: Vec<DraftDevice> = plan
        .devices
        .iter()
        .map(|document| DraftDevice { document, seat: seat(problem, document), operators: Vec::new() })
        .collect();
    devices_exist_once(&devices, &mut report);
    let device_of = operators_placed_once(problem, &mut devices, &mut report);
    replicas_in_range(problem, &devices, &mut report);
    counts_suffice(problem, &devices, &mut report);
    let sound = report.sound;
    Draft { devices, device_of, sound }
}

impl<'a> Draft<'a> {
    /// The placement; `None` if it has violations.
    pub(crate) fn complete(self) -> Option<Placed<'a>> {
        if !self.sound {
            return None;
        }
        let device = |draft: DraftDevice<'a>| {
            let (kind, number) = draft.seat?;
            Some(Device { document: draft.document, kind, number, operators: draft.operators })
        };
        Some(Placed {
            devices: self.devices.into_iter().map(device).collect::<Option<_>>()?,
            device_of: self.device_of.into_iter().collect::<Option<_>>()?,
        })
    }
}

impl Placed<'_> {
    /// Name of a device.
    pub(crate) fn name(&self, device: usize) -> &str {
        &self.devices[device].document.name
    }
}

fn seat(problem: &Problem, document: &DeviceDocument) -> Option<(usize, u32)> {
    let kind = problem.cluster.find_kind(&document.kind)?;
    Some((kind, problem.cluster.number_in_kind(kind, &document.name)?))
}

/// Reports violations of this constraint, and records whether there were any; those of other constraints don't count.
struct Reporter<'f> {
    findings: &'f mut Findings,
    sound: bool,
}

impl Reporter<'_> {
    fn push(&mut self, subject: Subject, message: impl FnOnce() -> String) {
        self.sound = false;
        self.findings.push(ViolationKind::Placement, subject, message);
    }
}

fn devices_exist_once(devices: &[DraftDevice], report: &mut Reporter) {
    let mut used = BTreeMap::new();
    for device in devices {
        let DeviceDocument { name, kind, .. } = device.document;
        let subject = || Subject::Device(name.clone());
        match device.seat {
            None => report.push(subject(), || format!("the cluster has no device {name:?} of kind {kind:?}")),
            Some(seat) => {
                if used.insert(seat, ()).is_some() {
                    report.push(subject(), || format!("device {name:?} is listed more than once"));
                }
            }
        }
    }
}

fn operators_placed_once(
    problem: &Problem,
    devices: &mut [DraftDevice],
    report: &mut Reporter,
) -> Vec<Option<usize>> {
    let mut device_of: Vec<Option<usize>> = vec![None; problem.graph.operators.len()];
    let names: Vec<&str> = devices.iter().map(|device| device.document.name.as_str()).collect();
    for (position, device) in devices.iter_mut().enumerate() {
        let here = names[position];
        for name in &device.document.ops {
            let subject = || Subject::Operator(name.clone());
            let Some(operator) = problem.graph.find(name) else {
                report.push(subject(), || format!("device {here:?} runs {name:?}, which the graph lacks"));
                continue;
            };
            match device_of[operator] {
                Some(first) => {
                    let there = names[first];
                    report.push(subject(), || {
                        format!("operator {name:?} is on {there:?} and again on {here:?}")
                    });
                }
                None => {
                    device_of[operator] = Some(position);
                    device.operators.push(operator);
                }
            }
        }
    }
    for (operator, device) in problem.graph.operators.iter().zip(&device_of) {
        if device.is_none() {
            let name = &operator.name;
            report.push(Subject::Operator(name.clone()), || format!("operator {name:?} is on no device"));
        }
    }
    device_of
}

fn replicas_in_range(problem: &Problem, devices: &[DraftDevice], report: &mut Reporter) {
    let max_replicas = problem.rules.max_replicas;
    for device in devices {
        let DeviceDocument { name, replicas, .. } = device.document;
        if *replicas == 0 || *replicas > max_replicas {
            report.push(Subject::Device(name.clone()), || {
                format!(
                    "the stage on device {name:?} has {replicas} replicas, but must have 1 to {max_replicas}"
                )
            });
        }
    }
}

fn counts_suffice(problem: &Problem, devices: &[DraftDevice], report: &mut Reporter) {
    let mut taken = vec![0u64; problem.cluster.kinds.len()];
    for device in devices.iter().filter(|device| !device.operators.is_empty()) {
        if let Some((kind, _)) = device.seat {
            taken[kind] += u64::from(device.document.replicas);
        }
    }
    for (kind, &taken) in problem.cluster.kinds.iter().zip(&taken) {
        let (name, count) = (&kind.document.name, kind.document.count);
        if taken > u64::from(count) {
            report.push(Subject::Kind(name.clone()), || {
                format!("the plan takes {taken} devices of kind {name:?}, which has {count}")
            });
        }
    }
}
