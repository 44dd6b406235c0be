//! The value: the largest load, or the largest forward load plus the largest backward load.
//!
//! A full pipeline delivers one sample each time its slowest resource, a device or an uplink, is done. With `separate`
//! training the two halves of a step run one after the other, each with its own slowest resource. Under a schedule the
//! value is the time of its iteration, but at least the seconds of the slowest uplink in one iteration.

use stagewright_core::document::{Schedule, Training};

use super::iteration::{self, Times};
use super::sums::Sums;
use super::{load, uplink, weights};
use crate::constraint::Placed;
use crate::constraint::resident::Resident;
use crate::constraint::stages::Stages;
use crate::error::CheckError;
use crate::read::{Problem, Rules, cost};

/// Figures of a placement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Score {
    pub(crate) value: f64,
    /// Largest forward and largest backward load, if training is `separate`.
    pub(crate) halves: Option<[f64; 2]>,
    /// Figures of each device of the placement.
    pub(crate) devices: Vec<DeviceScore>,
    /// Load of the uplink of each group; empty if uplinks play no part.
    pub(crate) uplinks: Vec<f64>,
}

/// Figures of a device: the load is per replica, the others before division among replicas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DeviceScore {
    pub(crate) load: f64,
    pub(crate) compute: f64,
    pub(crate) communication: f64,
}

/// Scores a placement; `None` if an operator is on a device that can't run it, or a schedule has no order of stages.
pub(crate) fn score(
    problem: &Problem,
    placed: &Placed,
    stages: &Stages,
) -> Result<Option<Score>, CheckError> {
    let Some(sums) = load::sums(problem, placed)? else { return Ok(None) };
    let deferred = match problem.rules.schedule {
        Schedule::ZeroBubble => weights::seconds(problem, placed)?,
        _ => vec![0.0; placed.devices.len()],
    };
    let mut times = Vec::with_capacity(placed.devices.len());
    let mut largest = [0.0f64; 2];
    let mut devices = Vec::with_capacity(sums.len());
    for (device, sums) in placed.devices.iter().zip(&sums) {
        let replicas = device.document.replicas.max(1);
        let parameters = Resident::new(&problem.graph, &device.operators).synchronised;
        let kind = &problem.cluster.kinds[device.kind];
        let sync = problem.once() * cost::synchronisation(parameters, replicas, kind)?;
        let stage = stage_times(&problem.rules, sums, replicas, sync, deferred[times.len()]);
        times.push(stage);
        let halves = match problem.rules.schedule {
            Schedule::None => device_load(&problem.rules, sums, replicas, sync),
            // A schedule runs one pass at a time, so the passes add up.
            _ => [stage.forward, stage.backward + stage.weight],
        };
        let total = sums[0] + sums[1];
        devices.push(DeviceScore {
            load: halves[0] + halves[1],
            compute: total.compute,
            communication: total.communication(),
        });
        grow(&mut largest, halves);
    }
    let uplinks: Vec<f64> = uplink::loads(problem, placed)
        .into_iter()
        .map(|[forward, backward]| {
            let halves = match problem.rules.training {
                Training::Combined => [forward + backward, 0.0],
                Training::Separate => [forward, backward],
            };
            grow(&mut largest, halves);
            forward + backward
        })
        .collect();
    let halves = (problem.rules.training == Training::Separate).then_some(largest);
    let value = if problem.rules.schedule == Schedule::None {
        largest[0] + largest[1]
    } else {
        let Some(order) = stages.in_order() else { return Ok(None) };
        let times: Vec<Times> = order.into_iter().map(|device| times[device]).collect();
        let carried = uplinks.iter().map(|load| f64::from(problem.rules.microbatches) * load);
        carried.fold(iteration::seconds(problem.rules.schedule, &times, problem.rules.microbatches), f64::max)
    };
    Ok(Some(Score { value, halves, devices, uplinks }))
}

/// Seconds of a stage for one microbatch, by pass. Deferred weight gradients compute, but communicate nothing.
fn stage_times(rules: &Rules, sums: &[Sums; 2], replicas: u32, sync: f64, deferred: f64) -> Times {
    let rest = Sums { compute: (sums[1].compute - deferred).max(0.0), ..sums[1] };
    let [forward, backward] = [sums[0], rest].map(|sums| sums.load(rules.communication, replicas));
    Times { forward, backward: backward + sync, weight: deferred / f64::from(replicas) }
}

/// Load of each replica, in the halves that are maximised separately; `combined` training has a single half.
fn device_load(rules: &Rules, sums: &[Sums; 2], replicas: u32, sync: f64) -> [f64; 2] {
    match rules.training {
        Training::Combined => [(sums[0] + sums[1]).load(rules.communication, replicas) + sync, 0.0],
        Training::Separate => {
            let [forward, backward] = sums.map(|sums| sums.load(rules.communication, replicas));
            [forward, backward + sync]
        }
    }
}

fn grow(largest: &mut [f64; 2], halves: [f64; 2]) {
    for (largest, half) in largest.iter_mut().zip(halves) {
        *largest = largest.max(half);
    }
}
