//! A step as plain data for the reference, and as a flow for the engine.

use stagewright_core::simulate::{Flow, FlowBuilder, FlowError, Operator, Rules};

#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) rules: Rules,
    pub(crate) devices: u32,
    pub(crate) ports: u32,
    pub(crate) has_priority: bool,
    pub(crate) operators: Vec<Operator>,
    pub(crate) tensors: Vec<Tensor>,
}

#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    pub(crate) producer: u32,
    pub(crate) bytes: f64,
    pub(crate) at_home: Vec<u32>,
    pub(crate) transfers: Vec<Transfer>,
}

#[derive(Debug, Clone)]
pub(crate) struct Transfer {
    pub(crate) seconds: f64,
    pub(crate) gap: f64,
    pub(crate) ports: Vec<u32>,
    /// Destination devices, each with its readers; empty if the transfer releases the home copy.
    pub(crate) copies: Vec<(u32, Vec<u32>)>,
}

impl Step {
    pub(crate) fn flow(&self) -> Result<Flow, FlowError> {
        let mut flow = FlowBuilder::new(self.rules, self.devices, self.ports, self.has_priority);
        for &operator in &self.operators {
            flow.operator(operator);
        }
        for tensor in &self.tensors {
            flow.tensor(tensor.producer, tensor.bytes, tensor.at_home.iter().copied());
            for transfer in &tensor.transfers {
                flow.transfer(transfer.seconds, transfer.gap, transfer.ports.iter().copied());
                if transfer.copies.is_empty() {
                    flow.announce();
                }
                for (device, readers) in &transfer.copies {
                    flow.copy(*device, readers.iter().copied());
                }
            }
        }
        flow.finish()
    }

    /// Every transfer with its tensor, in the order of their numbers.
    pub(crate) fn transfers(&self) -> Vec<(&Tensor, &Transfer)> {
        let mut all = Vec::new();
        for tensor in &self.tensors {
            all.extend(tensor.transfers.iter().map(|transfer| (tensor, transfer)));
        }
        all
    }
}
