//! The line format of labels.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stagewright_core::cluster::DeviceId;
use stagewright_core::document::ObjectiveKind;
use stagewright_core::graph::OpId;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;

use super::super::instance::Instance;
use super::super::label::{Label, Labelled};
use super::StoreError;

/// A stored label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredLabel {
    /// Number of the instance.
    pub index: u64,
    /// Name of the instance.
    pub name: String,
    /// Family of the instance's graph.
    pub family: String,
    /// The value of the best placement, in seconds.
    pub value: f64,
    /// The lower bound, in seconds.
    pub bound: f64,
    /// Whether the value and the bound are equal.
    pub proved: bool,
    /// The placements, the best first.
    pub plans: Vec<StoredPlan>,
}

/// A stored placement, as indices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredPlan {
    /// Value of the placement, in seconds.
    pub value: f64,
    /// The device of every operator.
    pub devices: Vec<u32>,
    /// Devices in the order of the stages, for throughput.
    pub stages: Option<Vec<u32>>,
    /// Operators by decreasing priority, for makespan; null if operators run as they become ready.
    pub priority: Option<Vec<u32>>,
}

impl StoredLabel {
    pub(super) fn new(index: u64, instance: &Instance, label: &Label) -> StoredLabel {
        StoredLabel {
            index,
            name: instance.name.clone(),
            family: instance.family.into(),
            value: label.value,
            bound: label.bound,
            proved: label.proved,
            plans: label.plans.iter().map(|plan| StoredPlan::new(&instance.problem, plan)).collect(),
        }
    }

    /// The label for the problem of the instance.
    ///
    /// # Errors
    /// [`StoreError::OtherProblem`] if it does not fit the problem: a placement has another number of operators or
    /// refers to devices that do not exist. The values of placements are not checked.
    pub fn label(&self, problem: &Problem) -> Result<Label, StoreError> {
        let fault = |cause: String| StoreError::OtherProblem { index: self.index, cause };
        let plan = |plan: &StoredPlan| {
            let placement = plan.placement(problem).map_err(fault)?;
            Ok(Labelled { value: plan.value, placement })
        };
        let plans = self.plans.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
        if plans.is_empty() {
            return Err(fault("it has no placement".into()));
        }
        Ok(Label { value: self.value, bound: self.bound, proved: self.proved, plans })
    }
}

impl StoredPlan {
    fn new(problem: &Problem, plan: &Labelled) -> StoredPlan {
        let placement = &plan.placement;
        let indices = |devices: &[DeviceId]| devices.iter().map(|device| device.0).collect();
        let is_makespan = problem.objective().kind() == ObjectiveKind::Makespan;
        let priority = placement.priority();
        StoredPlan {
            value: plan.value,
            devices: problem.graph().operators().map(|op| placement.device_of(op).0).collect(),
            stages: (!is_makespan).then(|| indices(&placement.used())),
            priority: (!priority.is_empty()).then(|| priority.iter().map(|op| op.0).collect()),
        }
    }

    fn placement(&self, problem: &Problem) -> Result<Placement, String> {
        let (operators, devices) = (problem.graph().operator_count(), problem.cluster().device_count());
        if self.devices.len() != operators {
            return Err(format!("it places {} operators of {operators}", self.devices.len()));
        }
        let device = |&device: &u32| match (device as usize) < devices {
            true => Ok(DeviceId(device)),
            false => Err(format!("it names device {device} of {devices}")),
        };
        let device_of = self.devices.iter().map(device).collect::<Result<Vec<_>, _>>()?;
        if let Some(stages) = &self.stages {
            let stages = stages.iter().map(device).collect::<Result<Vec<_>, _>>()?;
            each_once(device_of.iter().map(|device| device.0), &stages)?;
            return Ok(Placement::with_stages(device_of, stages, BTreeMap::new()));
        }
        let Some(priority) = &self.priority else { return Ok(Placement::new(device_of)) };
        let mut sorted = priority.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..operators as u32) {
            return Err("its priority does not list every operator once".into());
        }
        Ok(Placement::with_priority(device_of, priority.iter().copied().map(OpId).collect()))
    }
}

/// Checks that the stages are the devices in use, each once.
fn each_once(used: impl Iterator<Item = u32>, stages: &[DeviceId]) -> Result<(), String> {
    let sorted = |mut devices: Vec<u32>| {
        devices.sort_unstable();
        devices
    };
    let mut used = sorted(used.collect());
    used.dedup();
    match used == sorted(stages.iter().map(|device| device.0).collect()) {
        true => Ok(()),
        false => Err("its stages are not the devices in use".into()),
    }
}
