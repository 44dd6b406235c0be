//! The bytes on a device fit into its memory at every moment of the step.
//!
//! The peak is computed in [`score`](crate::score); here it is compared with the capacity.

use stagewright_core::tolerance;
use stagewright_core::units::bytes_apart;

use super::Placed;
use super::memory::Memory;
use crate::read::Problem;
use crate::violation::{Findings, Subject, ViolationKind};

/// Reports the devices whose peak exceeds their memory, in the order of the plan. O(devices).
pub(crate) fn check(
    problem: &Problem,
    placed: &Placed,
    peaks: &[f64],
    findings: &mut Findings,
) -> Vec<Memory> {
    for (device, &bytes) in placed.devices.iter().zip(peaks) {
        let Some(limit) = problem.usable_memory(device.kind) else { continue };
        if !tolerance::fits(bytes, limit) {
            let name = &device.document.name;
            findings.push(ViolationKind::PeakMemory, Subject::Device(name.clone()), || {
                let [held, limit] = bytes_apart(bytes, limit);
                format!("device {name:?} holds {held} at once and has {limit}")
            });
        }
    }
    peaks.iter().map(|&bytes| Memory { bytes, in_flight_known: true }).collect()
}
