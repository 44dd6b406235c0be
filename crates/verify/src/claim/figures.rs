//! The value, the figures and positions of the devices and the loads of the uplinks match the placement.
//!
//! A plan without a value makes no such claims, and nothing is checked. Figures agree within the relative tolerance for
//! sums taken in different orders; a non-finite claim agrees with nothing.

use std::collections::BTreeMap;

use stagewright_core::document::{DeviceDocument, PlanDocument};
use stagewright_core::tolerance;
use stagewright_core::units::{bytes_apart, seconds, seconds_apart};

use crate::constraint::memory::Memory;
use crate::read::Problem;
use crate::score::Score;
use crate::violation::{Findings, Subject, ViolationKind};

/// Reports the figures that differ. `score` and `memory` are in the order of the plan's devices.
pub(crate) fn check(
    problem: &Problem,
    plan: &PlanDocument,
    score: &Score,
    memory: &[Memory],
    findings: &mut Findings,
) {
    let Some(claimed) = plan.objective.value_s else { return };
    if !agree(claimed, score.value) {
        findings.push(ViolationKind::Value, Subject::Plan, || {
            let [claimed, actual] = seconds_apart(claimed, score.value);
            format!("the plan claims a value of {claimed}, but it is {actual}")
        });
    }
    for ((device, score), memory) in plan.devices.iter().zip(&score.devices).zip(memory) {
        let mut figures = vec![
            ("load_s", device.load_s, score.load),
            ("compute_s", device.compute_s, score.compute),
            ("communication_s", device.communication_s, score.communication),
        ];
        if memory.in_flight_known {
            figures.push(("memory_bytes", device.memory_bytes, memory.bytes));
        }
        device_figures(device, &figures, findings);
    }
    stages(plan, findings);
    uplinks(problem, plan, score, findings);
}

/// Reports a skipped stage number, since stages are positions in a pipeline. The constraint on the order reports two
/// devices at one position.
fn stages(plan: &PlanDocument, findings: &mut Findings) {
    let used = plan.devices.iter().filter(|device| !device.ops.is_empty());
    let mut stages: Vec<(u32, &str)> =
        used.filter_map(|device| Some((device.stage?, device.name.as_str()))).collect();
    stages.sort_unstable();
    if stages.windows(2).any(|two| two[0].0 == two[1].0) {
        return;
    }
    if let Some((place, (stage, name))) = (0..).zip(stages).find(|(place, (stage, _))| place != stage) {
        findings.push(ViolationKind::DeviceFigures, Subject::Device(name.to_owned()), || {
            format!("the plan claims device {name:?} to be stage {stage}, but no device is stage {place}")
        });
    }
}

fn device_figures(device: &DeviceDocument, figures: &[(&str, f64, f64)], findings: &mut Findings) {
    let name = &device.name;
    for &(what, claimed, actual) in figures {
        if !agree(claimed, actual) {
            findings.push(ViolationKind::DeviceFigures, Subject::Device(name.clone()), || {
                let is_bytes = what == "memory_bytes";
                let apart = if is_bytes { bytes_apart } else { seconds_apart };
                let [claimed, actual] = apart(claimed, actual);
                format!("the plan claims {what} of device {name:?} to be {claimed}, but it is {actual}")
            });
        }
    }
}

/// Reports wrong and missing loads of uplinks; if uplinks are modelled, the plan must state the load of each.
fn uplinks(problem: &Problem, plan: &PlanDocument, score: &Score, findings: &mut Findings) {
    let names = problem.cluster.groups.iter().map(|group| group.name.as_str());
    // If uplinks are not modelled, their loads are zero.
    let loads = score.uplinks.iter().copied().chain(std::iter::repeat(0.0));
    let mut missing: BTreeMap<&str, f64> = names.zip(loads).collect();
    let mut wrong = |name: &str, message: String| {
        findings.push(ViolationKind::UplinkFigures, Subject::Group(name.to_owned()), || message);
    };
    for uplink in &plan.uplinks {
        let (name, claimed) = (uplink.group.as_str(), uplink.load_s);
        match missing.remove(name) {
            None => wrong(name, format!("the plan lists group {name:?}, which is unknown or listed twice")),
            Some(actual) if !agree(claimed, actual) => {
                let [claimed, actual] = seconds_apart(claimed, actual);
                let message = format!(
                    "the plan claims a load of {claimed} on the uplink of {name:?}, but it is {actual}"
                );
                wrong(name, message);
            }
            Some(_) => {}
        }
    }
    for (name, actual) in missing.into_iter().filter(|_| !score.uplinks.is_empty()) {
        let load = seconds(actual);
        wrong(name, format!("the plan leaves out the uplink of {name:?}, with a load of {load}"));
    }
}

/// Whether a claim agrees with the recomputed figure. An infinite figure is an overflow and agrees with
/// nothing, which a relative difference alone would not ensure.
fn agree(claimed: f64, actual: f64) -> bool {
    claimed.is_finite() && actual.is_finite() && tolerance::same(claimed, actual)
}
