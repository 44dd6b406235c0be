//! The work of a step: operators with their seconds, and transfers of tensors.

use stagewright_core::document::Execution;

use super::route::{self, Way};
use crate::constraint::Placed;
use crate::error::CheckError;
use crate::read::{Problem, Tensor, cost};

/// A transfer of a tensor to a device. A transfer to the producer's own device moves no data and only makes the tensor
/// available there.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) tensor: usize,
    pub(super) to: usize,
    pub(super) seconds: f64,
    pub(super) ways: Vec<Way>,
    /// Readers of the tensor on the device that receives it, in document order.
    pub(super) readers: Vec<usize>,
}

/// A tensor on its producer's device.
#[derive(Debug)]
pub(super) struct Made {
    /// Readers of the tensor on its producer's device.
    pub(super) readers: Vec<usize>,
    /// Indices of the tensor's transfers.
    pub(super) transfers: Vec<usize>,
}

/// The work of a step.
#[derive(Debug)]
pub(super) struct Step {
    /// Device of each operator.
    pub(super) device_of: Vec<usize>,
    /// Seconds of each operator on its device.
    pub(super) seconds: Vec<f64>,
    /// Tensors that each operator makes.
    pub(super) makes: Vec<Vec<usize>>,
    /// Tensors on their producers' devices, by tensor.
    pub(super) made: Vec<Made>,
    /// Transfers by tensor, then in the order of their requests: by destination in the order of the cluster; without
    /// contention, by reader in the order in which the tensor names them, with the transfer to the producer's own
    /// device in the place of the first reader there.
    pub(super) transfers: Vec<Transfer>,
    /// Number of devices in the plan.
    pub(super) devices: usize,
}

impl Step {
    /// Lists the work of a placement; `None` if an operator is on a device that can't run it. O(operators + pins log
    /// pins of a tensor).
    pub(super) fn new(
        problem: &Problem,
        placed: &Placed,
        execution: Execution,
    ) -> Result<Option<Step>, CheckError> {
        let operators = problem.graph.operators;
        let on = |operator: usize| &problem.cluster.kinds[placed.devices[placed.device_of[operator]].kind];
        let seconds = (0..operators.len()).map(|operator| cost::seconds(&operators[operator], on(operator)));
        let Some(seconds) = seconds.collect::<Option<Vec<f64>>>() else { return Ok(None) };
        let mut step = Step {
            device_of: placed.device_of.clone(),
            seconds,
            makes: vec![Vec::new(); operators.len()],
            made: Vec::with_capacity(problem.graph.tensors.len()),
            transfers: Vec::new(),
            devices: placed.devices.len(),
        };
        for (position, tensor) in problem.graph.tensors.iter().enumerate() {
            step.makes[tensor.producer].push(position);
            let home = placed.device_of[tensor.producer];
            let at_home = readers_at_home(placed, tensor);
            let first = step.transfers.len();
            let sent = match execution {
                Execution::Ports => to_each_device(placed, tensor),
                Execution::ContentionFree => to_each_reader(placed, tensor, &at_home),
            };
            for (to, readers) in sent {
                let seconds = route::seconds(problem, placed, tensor, [home, to])?;
                let ways = match execution {
                    Execution::Ports => route::ways(problem, placed, [home, to]),
                    Execution::ContentionFree => Vec::new(),
                };
                step.transfers.push(Transfer { tensor: position, to, seconds, ways, readers });
            }
            let transfers = (first..step.transfers.len()).collect();
            step.made.push(Made { readers: at_home, transfers });
        }
        Ok(Some(step))
    }
}

/// Readers of a tensor on its producer's device, in document order.
fn readers_at_home(placed: &Placed, tensor: &Tensor) -> Vec<usize> {
    let home = placed.device_of[tensor.producer];
    let is_here = |operator: &usize| placed.device_of[*operator] == home;
    let mut readers: Vec<usize> = tensor.consumers.iter().copied().filter(is_here).collect();
    readers.sort_unstable();
    readers
}

/// Destinations of a tensor and its readers there: each other device with readers, once.
fn to_each_device(placed: &Placed, tensor: &Tensor) -> Vec<(usize, Vec<usize>)> {
    let home = placed.device_of[tensor.producer];
    let seat = |&operator: &usize| {
        let device = placed.device_of[operator];
        (placed.devices[device].kind, placed.devices[device].number, device, operator)
    };
    let mut away: Vec<_> = tensor.consumers.iter().map(seat).filter(|seat| seat.2 != home).collect();
    away.sort_unstable();
    let by_device = away.chunk_by(|left, right| left.2 == right.2);
    by_device.map(|there| (there[0].2, there.iter().map(|seat| seat.3).collect())).collect()
}

/// Destinations of a tensor without contention: one for each reader elsewhere, and one for all readers at home.
fn to_each_reader(placed: &Placed, tensor: &Tensor, at_home: &[usize]) -> Vec<(usize, Vec<usize>)> {
    let home = placed.device_of[tensor.producer];
    let mut has_word = false;
    let mut sent = Vec::new();
    for &reader in &tensor.consumers {
        let to = placed.device_of[reader];
        if to != home {
            sent.push((to, vec![reader]));
        } else if !std::mem::replace(&mut has_word, true) {
            sent.push((to, at_home.to_vec()));
        }
    }
    sent
}
