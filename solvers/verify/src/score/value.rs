//! The value: the largest load, or the largest forward load plus the largest backward load.
//!
//! A full pipeline delivers one sample each time its slowest resource, a device or an uplink, is done. With
//! `separate` training the two halves of a step run one after the other, each with its own slowest resource.

use stagewright_core::document::Training;

use super::sums::Sums;
use super::{cost, load, uplink};
use crate::constraint::Placed;
use crate::error::CheckError;
use crate::read::{Problem, Rules};

/// The figures of a placement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Score {
    pub(crate) value: f64,
    /// Largest forward and largest backward load, where training is `separate`.
    pub(crate) halves: Option<[f64; 2]>,
    /// One for each device of the placement.
    pub(crate) devices: Vec<DeviceScore>,
    /// One for each group; none where uplinks play no part.
    pub(crate) uplinks: Vec<f64>,
}

/// The figures of a device: the load of each replica, the others before division among them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DeviceScore {
    pub(crate) load: f64,
    pub(crate) compute: f64,
    pub(crate) communication: f64,
}

/// Scores a placement; none where an operator is on a device that can't run it.
pub(crate) fn score(problem: &Problem, placed: &Placed) -> Result<Option<Score>, CheckError> {
    let Some(sums) = load::sums(problem, placed)? else { return Ok(None) };
    let mut largest = [0.0f64; 2];
    let mut devices = Vec::with_capacity(sums.len());
    for (device, sums) in placed.devices.iter().zip(&sums) {
        let replicas = device.document.replicas.max(1);
        let parameters = device.operators.iter().map(|&u| problem.graph.operators[u].parameter_bytes).sum();
        let kind = &problem.cluster.kinds[device.kind];
        let sync = cost::synchronisation(parameters, replicas, kind)?;
        let halves = device_load(&problem.rules, sums, replicas, sync);
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
    Ok(Some(Score { value: largest[0] + largest[1], halves, devices, uplinks }))
}

/// The load of each replica, in the halves that are maximised apart: `combined` training has one.
fn device_load(rules: &Rules, sums: &[Sums; 2], replicas: u32, sync: f64) -> [f64; 2] {
    let replicas = f64::from(replicas);
    match rules.training {
        Training::Combined => [(sums[0] + sums[1]).load(rules.communication) / replicas + sync, 0.0],
        Training::Separate => {
            let [forward, backward] = sums.map(|sums| sums.load(rules.communication) / replicas);
            [forward, backward + sync]
        }
    }
}

fn grow(largest: &mut [f64; 2], halves: [f64; 2]) {
    for (largest, half) in largest.iter_mut().zip(halves) {
        *largest = largest.max(half);
    }
}
