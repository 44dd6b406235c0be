//! The value, the device figures and the uplink loads match the recomputed ones.
//!
//! They are claims only in a plan with a value. Figures agree within the relative tolerance for sums taken in
//! different orders; a non-finite claim agrees with nothing.

use std::collections::BTreeMap;

use stagewright_core::document::{DeviceDocument, PlanDocument};
use stagewright_core::tolerance;

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
            format!("the plan claims a value of {claimed:?} s, but it is {:?} s", score.value)
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
    uplinks(problem, plan, score, findings);
}

fn device_figures(device: &DeviceDocument, figures: &[(&str, f64, f64)], findings: &mut Findings) {
    let name = &device.name;
    for &(what, claimed, actual) in figures {
        if !agree(claimed, actual) {
            findings.push(ViolationKind::DeviceFigures, Subject::Device(name.clone()), || {
                format!("the plan claims {what} of device {name:?} to be {claimed:?}, but it is {actual:?}")
            });
        }
    }
}

/// Checks the uplink loads. A group that the plan omits must have load zero.
fn uplinks(problem: &Problem, plan: &PlanDocument, score: &Score, findings: &mut Findings) {
    let names = problem.cluster.groups.iter().map(|group| group.name.as_str());
    // If uplinks play no part, their loads are zero.
    let loads = score.uplinks.iter().copied().chain(std::iter::repeat(0.0));
    let mut missing: BTreeMap<&str, f64> = names.zip(loads).collect();
    let mut wrong = |name: &str, message: String| {
        findings.push(ViolationKind::UplinkFigures, Subject::Group(name.to_owned()), || message);
    };
    for uplink in &plan.uplinks {
        let (name, claimed) = (uplink.group.as_str(), uplink.load_s);
        match missing.remove(name) {
            None => wrong(name, format!("the plan lists group {name:?}, which is unknown or listed twice")),
            Some(actual) if !agree(claimed, actual) => wrong(
                name,
                format!(
                    "the plan claims a load of {claimed:?} s on the uplink of {name:?}, but it is {actual:?}"
                ),
            ),
            Some(_) => {}
        }
    }
    for (name, actual) in missing {
        if actual > 0.0 {
            wrong(name, format!("the plan leaves out the uplink of {name:?}, with a load of {actual:?} s"));
        }
    }
}

/// Whether a claim agrees with the recomputed figure. An infinite figure is an overflow and agrees with
/// nothing, which a relative difference alone would not ensure.
fn agree(claimed: f64, actual: f64) -> bool {
    claimed.is_finite() && actual.is_finite() && tolerance::same(claimed, actual)
}
