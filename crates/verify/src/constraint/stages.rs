//! Pipeline order of the devices in a plan.
//!
//! The contiguous rule uses stages, which are optional for it, and schedules require them. Stages form an order if
//! every used device has one and no two devices have the same. A skipped number does not affect the order; the
//! [claims](crate::claim) report it.

use std::collections::BTreeMap;

use stagewright_core::document::{Schedule, Split};

use super::Placed;
use crate::read::Problem;
use crate::violation::{Findings, Subject, ViolationKind};

/// Order of the devices in the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stages {
    /// Position of each device, from 0 without gaps; `None` for a device that runs nothing.
    Order(Vec<Option<usize>>),
    /// No used device has a stage.
    Absent,
    /// Some used device has no stage, or two have the same one; already reported.
    Broken,
}

impl Stages {
    /// The used devices in pipeline order, if there is one.
    pub(crate) fn in_order(&self) -> Option<Vec<usize>> {
        let Stages::Order(places) = self else { return None };
        let mut used: Vec<usize> = (0..places.len()).filter(|&device| places[device].is_some()).collect();
        used.sort_unstable_by_key(|&device| places[device]);
        Some(used)
    }

    /// Position of each used device, counted from 1 at the last device, as 1F1B needs it.
    pub(crate) fn counted_from_last(&self) -> Option<Vec<Option<usize>>> {
        let Stages::Order(places) = self else { return None };
        let used = places.iter().flatten().count();
        Some(places.iter().map(|place| place.map(|place| used - place)).collect())
    }
}

/// Reports used devices that have a stage although the objective has no pipeline. O(devices).
pub(crate) fn absent(placed: &Placed, findings: &mut Findings) -> Stages {
    for device in placed.devices.iter().filter(|device| !device.operators.is_empty()) {
        if let Some(stage) = device.document.stage {
            let name = &device.document.name;
            findings.push(ViolationKind::Order, Subject::Device(name.clone()), || {
                format!("device {name:?} is stage {stage}, but without a pipeline there are no stages")
            });
        }
    }
    Stages::Absent
}

/// Reads the stages, and reports missing or duplicate stages if a rule needs them. O(devices log devices).
pub(crate) fn check(problem: &Problem, placed: &Placed, findings: &mut Findings) -> Stages {
    let is_ordered = problem.rules.schedule != Schedule::None;
    if problem.rules.split != Split::Contiguous && !is_ordered {
        return Stages::Absent;
    }
    let mut sound = true;
    let mut broken = |name: &str, message: String| {
        sound = false;
        findings.push(ViolationKind::Order, Subject::Device(name.to_owned()), || message);
    };
    let used = placed.devices.iter().enumerate().filter(|(_, device)| !device.operators.is_empty());
    let mut at_stage = BTreeMap::new();
    let mut without = Vec::new();
    for (position, device) in used {
        match device.document.stage {
            None => without.push(position),
            Some(stage) => {
                if let Some(first) = at_stage.insert(stage, position) {
                    let (name, other) = (placed.name(position), placed.name(first));
                    broken(name, format!("devices {other:?} and {name:?} are both stage {stage}"));
                }
            }
        }
    }
    if let Some(&first) = without.first() {
        let name = placed.name(first);
        if !at_stage.is_empty() {
            broken(name, format!("device {name:?} has no stage, but others have"));
        } else if is_ordered {
            broken(name, format!("device {name:?} has no stage, without which a schedule has no order"));
        } else {
            return Stages::Absent;
        }
        if at_stage.is_empty() {
            return Stages::Absent;
        }
    }
    if !sound {
        return Stages::Broken;
    }
    let mut places = vec![None; placed.devices.len()];
    for (place, &position) in at_stage.values().enumerate() {
        places[position] = Some(place);
    }
    Stages::Order(places)
}
