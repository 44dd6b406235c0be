//! Recovers the placement that a plan document describes.
//!
//! The inverse of `plan_document` of `stagewright-report`. In addition to the devices of
//! the operators it reads the data of the plan's objective: stages and replicas for throughput, calls for
//! latency, the priority for makespan. It does not check whether the placement is feasible or has the claimed
//! value; the plan only has to state the device of every operator.

use std::collections::BTreeMap;

use stagewright_core::cluster::DeviceId;
use stagewright_core::code::Code;
use stagewright_core::document::{ObjectiveKind, PlanDocument};
use stagewright_core::graph::OpId;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use thiserror::Error;

use crate::code::L::*;

/// A plan describes no placement for a problem.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// The cluster does not have this device.
    #[error("the cluster has no device `{0}`")]
    UnknownDevice(String),
    /// The model does not have this operator.
    #[error("{place} names operator `{operator}`, which is not in the model")]
    UnknownOperator {
        /// The operator.
        operator: String,
        /// Place of the operator in the plan.
        place: String,
    },
    /// An operator is on two devices, or twice on one.
    #[error("operator `{0}` is placed twice")]
    PlacedTwice(String),
    /// Some operators have no device.
    #[error("{count} operators are not placed, the first is `{first}`")]
    NotPlaced {
        /// The first operator without a device.
        first: String,
        /// Number of operators without a device.
        count: usize,
    },
    /// No operator of the model has a counterpart in the plan of a sibling.
    #[error("no operator of the plan has a counterpart in the model")]
    NoCounterpart,
    /// A call of a device runs an operator of another device.
    #[error("a call of {device} runs operator `{operator}`, which is on another device")]
    Elsewhere {
        /// The operator.
        operator: String,
        /// The device.
        device: String,
    },
}

impl PlacementError {
    /// Stable error code.
    pub fn code(&self) -> Code {
        match self {
            PlacementError::UnknownDevice(_) => L001,
            PlacementError::UnknownOperator { .. } => L002,
            PlacementError::PlacedTwice(_) => L003,
            PlacementError::NotPlaced { .. } => L004,
            PlacementError::Elsewhere { .. } => L005,
            PlacementError::NoCounterpart => L006,
        }
        .into()
    }

    /// A hint for fixing the error.
    pub fn help(&self) -> &'static str {
        match self {
            PlacementError::UnknownDevice(_) => "give the cluster that the plan was made for",
            PlacementError::UnknownOperator { .. } => {
                "give the model that the plan was made for; `check` lists every mismatch"
            }
            PlacementError::PlacedTwice(_) => "list every operator once, with its device",
            PlacementError::NoCounterpart => {
                "give a plan of the same architecture, whose operators have the same names up to their numbers"
            }
            PlacementError::NotPlaced { .. } => {
                "give a plan that places every operator of the model; `check` lists every mismatch"
            }
            PlacementError::Elsewhere { .. } => {
                "list only operators of the device in its calls; `check` lists the others"
            }
        }
    }
}

/// The placement that a plan describes, in O((operators + names) log operators).
///
/// # Errors
/// If the plan describes no placement for this problem; the error is the first reason.
pub fn placement(problem: &Problem, plan: &PlanDocument) -> Result<Placement, PlacementError> {
    let names = Names::new(problem);
    let device_of = names.devices(plan)?;
    match plan.objective.kind {
        ObjectiveKind::Throughput => {
            let (stages, replicas) = names.stages(plan)?;
            match stages.is_empty() && replicas.is_empty() {
                true => Ok(Placement::in_pipeline_order(problem, device_of)),
                false => Ok(Placement::with_stages(device_of, stages, replicas)),
            }
        }
        ObjectiveKind::Latency => match names.calls(plan, &device_of)? {
            Some(call_of) => Ok(Placement::with_calls(device_of, call_of)),
            None => Ok(Placement::new(device_of)),
        },
        ObjectiveKind::Makespan => {
            let named = plan.priority.iter().flatten();
            let priority = named.map(|name| names.operator(name, || "the priority".into()));
            Ok(Placement::with_priority(device_of, priority.collect::<Result<_, _>>()?))
        }
    }
}

/// The names of a problem's operators.
struct Names<'a> {
    problem: &'a Problem,
    operators: BTreeMap<&'a str, OpId>,
}

impl<'a> Names<'a> {
    fn new(problem: &'a Problem) -> Names<'a> {
        let graph = problem.graph();
        Names {
            problem,
            operators: graph.operators().map(|op| (graph.operator(op).name.as_str(), op)).collect(),
        }
    }

    fn operator(&self, name: &str, place: impl FnOnce() -> String) -> Result<OpId, PlacementError> {
        let unknown = || PlacementError::UnknownOperator { operator: name.into(), place: place() };
        self.operators.get(name).copied().ok_or_else(unknown)
    }

    fn device(&self, name: &str) -> Result<DeviceId, PlacementError> {
        let unknown = || PlacementError::UnknownDevice(name.into());
        self.problem.cluster().device_named(name).ok_or_else(unknown)
    }

    fn devices(&self, plan: &PlanDocument) -> Result<Vec<DeviceId>, PlacementError> {
        let graph = self.problem.graph();
        let mut device_of = vec![None; graph.operator_count()];
        for device in &plan.devices {
            let id = self.device(&device.name)?;
            for name in &device.ops {
                let op = self.operator(name, || format!("device {}", device.name))?;
                if device_of[op.index()].replace(id).is_some() {
                    return Err(PlacementError::PlacedTwice(name.clone()));
                }
            }
        }
        let mut unplaced = graph.operators().filter(|op| device_of[op.index()].is_none());
        match unplaced.next() {
            Some(op) => {
                let first = graph.operator(op).name.clone();
                Err(PlacementError::NotPlaced { first, count: 1 + unplaced.count() })
            }
            None => Ok(device_of.into_iter().flatten().collect()),
        }
    }

    /// The devices in pipeline order, empty unless the plan gives every device in use a distinct stage; and
    /// the devices with replicas.
    fn stages(
        &self,
        plan: &PlanDocument,
    ) -> Result<(Vec<DeviceId>, BTreeMap<DeviceId, u32>), PlacementError> {
        let used = plan.devices.iter().filter(|device| !device.ops.is_empty());
        let mut replicas = BTreeMap::new();
        let mut order = BTreeMap::new();
        let mut count = 0;
        for device in used {
            let id = self.device(&device.name)?;
            if device.replicas != 1 {
                replicas.insert(id, device.replicas);
            }
            count += 1;
            if let Some(stage) = device.stage {
                order.insert(stage, id);
            }
        }
        let stages = if order.len() == count { order.into_values().collect() } else { Vec::new() };
        Ok((stages, replicas))
    }

    /// The call number of each operator; `None` if no device has calls.
    fn calls(&self, plan: &PlanDocument, device_of: &[DeviceId]) -> Result<Option<Vec<u32>>, PlacementError> {
        let mut call_of = None;
        for device in &plan.devices {
            let Some(calls) = &device.calls else { continue };
            let id = self.device(&device.name)?;
            let call_of = call_of.get_or_insert_with(|| vec![0; device_of.len()]);
            for (number, call) in (0..).zip(calls) {
                for name in call {
                    let op = self.operator(name, || format!("a call of {}", device.name))?;
                    if device_of[op.index()] != id {
                        let (operator, device) = (name.clone(), device.name.clone());
                        return Err(PlacementError::Elsewhere { operator, device });
                    }
                    call_of[op.index()] = number;
                }
            }
        }
        Ok(call_of)
    }
}
