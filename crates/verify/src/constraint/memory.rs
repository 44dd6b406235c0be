//! The bytes of all operators on a device fit into its memory.
//!
//! The bytes of a microbatch are computed in [`resident`](super::resident); here they are multiplied by the number of
//! microbatches in flight. Without a schedule, that is one. Under GPipe, every stage keeps all m, since all forward
//! passes come first. Under 1F1B, the j-th stage, counted from 1 at the last, keeps min(j, m), since it has started j
//! microbatches when the first comes back. Under zero-bubble, each of the p stages keeps min(p, m), since it defers its
//! weight gradients until it has started p microbatches. Each replica holds the same bytes.

use stagewright_core::tolerance;
use stagewright_core::units::bytes_apart;

use super::Placed;
use super::resident::Resident;
use super::stages::Stages;
use crate::read::{InFlight, Problem};
use crate::violation::{Findings, Subject, ViolationKind};

/// Memory use of one device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Memory {
    pub(crate) bytes: f64,
    /// False if the plan has no stages to count from, as 1F1B requires; the bytes are then for one microbatch.
    pub(crate) in_flight_known: bool,
}

/// Sums the bytes of each device and reports the devices that exceed their memory. O(operators).
pub(crate) fn check(
    problem: &Problem,
    placed: &Placed,
    stages: &Stages,
    findings: &mut Findings,
) -> Vec<Memory> {
    let from_last = stages.counted_from_last();
    let used = placed.devices.iter().filter(|device| !device.operators.is_empty()).count();
    let mut memory = Vec::with_capacity(placed.devices.len());
    for (position, device) in placed.devices.iter().enumerate() {
        let microbatches = match (problem.rules.in_flight, &from_last) {
            (InFlight::One, _) => Some(1.0),
            (InFlight::All(all), _) => Some(f64::from(all)),
            (InFlight::Stages(all), _) => Some((used as f64).min(f64::from(all))),
            (InFlight::FromLast(all), Some(places)) => {
                Some(places[position].map_or(1.0, |place| (place as f64).min(f64::from(all))))
            }
            (InFlight::FromLast(_), None) => None,
        };
        let resident = Resident::new(&problem.graph, &device.operators);
        let least = resident.total(1.0);
        let needed = microbatches.map_or(least, |count| resident.total(count));
        memory.push(Memory { bytes: needed, in_flight_known: microbatches.is_some() });

        let Some(limit) = problem.usable_memory(device.kind) else { continue };
        let name = &device.document.name;
        if !tolerance::fits(least, limit) {
            findings.push(ViolationKind::Memory, Subject::Device(name.clone()), || {
                let [needed, limit] = bytes_apart(least, limit);
                format!("device {name:?} needs {needed} with one microbatch and has {limit}")
            });
        } else if !tolerance::fits(needed, limit) {
            let count = microbatches.unwrap_or(1.0);
            findings.push(ViolationKind::InFlightMemory, Subject::Device(name.clone()), || {
                let [needed, limit] = bytes_apart(needed, limit);
                format!("device {name:?} needs {needed} with {count} microbatches and has {limit}")
            });
        }
    }
    memory
}
