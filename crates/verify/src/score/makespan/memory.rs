//! Memory use of the devices during a step.
//!
//! A *copy* is a tensor on a device: one on its producer's device, and one at the destination of each
//! transfer. Each copy is needed by its readers, and on the producer's device by the producer and the
//! transfers, until they end. A transfer back to the producer's device makes a copy of zero bytes that
//! nothing needs.

use std::collections::BTreeSet;

use super::step::Step;
use super::story::{Moment, Task};
use crate::constraint::Placed;
use crate::read::Problem;

/// Peak bytes of each device in the plan. O(operators + pins).
pub(super) fn peaks(problem: &Problem, placed: &Placed, step: &Step, moments: &[Moment]) -> Vec<f64> {
    let mut shelf = Shelf::new(problem, placed, step);
    let mut peaks = shelf.held.clone();
    for &moment in moments {
        match moment {
            Moment::Starts(task) => {
                let device = shelf.starts(task);
                peaks[device] = peaks[device].max(shelf.held[device]);
            }
            Moment::Ends(task) => shelf.ends(task),
        }
    }
    peaks
}

/// A tensor on a device.
#[derive(Debug, Clone, Copy)]
struct Copy {
    device: usize,
    bytes: f64,
    needed_by: usize,
}

struct Shelf<'a> {
    problem: &'a Problem<'a>,
    step: &'a Step,
    /// Bytes on each device now.
    held: Vec<f64>,
    /// The copies on the producers' devices, by tensor, then the copies made by transfers, by transfer.
    copies: Vec<Copy>,
    /// Copies that each operator reads.
    reads: Vec<Vec<usize>>,
}

impl<'a> Shelf<'a> {
    fn new(problem: &'a Problem, placed: &Placed, step: &'a Step) -> Shelf<'a> {
        let tensors = &problem.graph.tensors;
        let mut held = vec![0.0; placed.devices.len()];
        for (operator, &device) in problem.graph.operators.iter().zip(&step.device_of) {
            held[device] += operator.parameter_bytes + operator.optimizer_bytes;
            if problem.graph.is_version_2 {
                held[device] += operator.activation_bytes;
            }
        }
        for parameter in &problem.graph.parameters {
            let devices: BTreeSet<usize> =
                parameter.readers.iter().map(|&reader| step.device_of[reader]).collect();
            for device in devices {
                held[device] += parameter.document.bytes + parameter.document.optimizer_bytes;
            }
        }
        let mut copies = Vec::with_capacity(tensors.len() + step.transfers.len());
        let mut reads = vec![Vec::new(); step.device_of.len()];
        let mut add = |device: usize, bytes: f64, readers: &[usize], besides: usize| {
            for &reader in readers {
                reads[reader].push(copies.len());
            }
            copies.push(Copy { device, bytes, needed_by: readers.len() + besides });
        };
        for (tensor, made) in tensors.iter().zip(&step.made) {
            let home = step.device_of[tensor.producer];
            // In version 2 a tensor without readers is an output of the model, which stays in memory.
            let stays = problem.graph.is_version_2 && tensor.consumers.is_empty();
            let besides = 1 + made.transfers.len() + usize::from(stays);
            add(home, tensor.document.bytes, &made.readers, besides);
        }
        for transfer in &step.transfers {
            match transfer.to == step.device_of[tensors[transfer.tensor].producer] {
                true => add(transfer.to, 0.0, &[], 0),
                false => add(transfer.to, tensors[transfer.tensor].document.bytes, &transfer.readers, 0),
            }
        }
        Shelf { problem, step, held, copies, reads }
    }

    /// Allocates the memory of a task that starts; returns its device.
    fn starts(&mut self, task: Task) -> usize {
        match task {
            Task::Operator(operator) => {
                let device = self.step.device_of[operator];
                self.held[device] += self.problem.graph.operators[operator].workspace_bytes;
                for &tensor in &self.step.makes[operator] {
                    self.held[device] += self.copies[tensor].bytes;
                }
                device
            }
            Task::Transfer(transfer) => {
                let copy = self.copies[self.step.made.len() + transfer];
                self.held[copy.device] += copy.bytes;
                copy.device
            }
        }
    }

    fn ends(&mut self, task: Task) {
        match task {
            Task::Operator(operator) => {
                let device = self.step.device_of[operator];
                self.held[device] -= self.problem.graph.operators[operator].workspace_bytes;
                for copy in std::mem::take(&mut self.reads[operator]) {
                    self.let_go(copy);
                }
                for &tensor in &self.step.makes[operator] {
                    self.let_go(tensor);
                }
            }
            Task::Transfer(transfer) => self.let_go(self.step.transfers[transfer].tensor),
        }
    }

    /// Drops one user of a copy; the last one frees it.
    fn let_go(&mut self, copy: usize) {
        let copy = &mut self.copies[copy];
        copy.needed_by -= 1;
        if copy.needed_by == 0 {
            self.held[copy.device] -= copy.bytes;
        }
    }
}
