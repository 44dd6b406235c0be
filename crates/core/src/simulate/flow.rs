//! The engine's input: a step as flat arrays.
//!
//! A flow has *operators*, each with its device and its seconds there; *tensors*, each with its producer; *copies*, one
//! for each device that holds a tensor, with its readers there; *transfers*, which bring a tensor from its home copy to
//! copies on other devices; and *ports*, each of which carries one transfer at a time. All items are numbered in the
//! order in which they were added, which is the order of [`Ties::Index`](super::Ties::Index).
//!
//! The copies of a tensor have consecutive numbers, with the home copy first, and so do its transfers. The engine then
//! needs only tables of offsets.

use std::ops::Range;
use std::sync::Arc;

use super::Rules;
use crate::csr::Csr;
use crate::ids::Keyed;

/// Maximum number of operators, and of transfers, of a flow: an event packs an index and two bits for its kind into one
/// word.
pub(super) const MOST: usize = 1 << 30;

/// An operator on its device.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Operator {
    /// Index of the device.
    pub device: u32,
    /// Rank of the operator in the queue of its device: the lowest rank runs first, ties by index. Ignored unless the
    /// flow has priorities.
    pub rank: u32,
    /// Seconds that the operator runs.
    pub seconds: f64,
    /// Seconds that the device pauses after the operator.
    pub pause: f64,
    /// Resident bytes: parameters and optimiser state. Negative if the other figures count bytes more than once.
    pub fixed_bytes: f64,
    /// Bytes of workspace while the operator runs.
    pub workspace_bytes: f64,
}

/// All data of an operator that the engine reads, in one cache line.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(align(64))]
pub(super) struct Task {
    pub(super) operator: Operator,
    /// Bytes allocated at the start of the operator: workspace and all outputs.
    pub(super) start_bytes: f64,
    /// Half-open ranges of the operator in the flow's inputs and outputs.
    pub(super) inputs: [u32; 2],
    pub(super) outputs: [u32; 2],
}

/// A copy of a tensor on a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Copy {
    pub(super) device: u32,
    /// Offset of the readers of the copy, which end at the offset of the next copy.
    pub(super) first_reader: u32,
    pub(super) bytes: f64,
}

/// A tensor. The table of tensors ends with a sentinel, as does that of copies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tensor {
    pub(super) producer: u32,
    pub(super) home: u32,
    /// Half-open range of the tensor's transfers.
    pub(super) transfers: [u32; 2],
    /// Whether the tensor's readers on its home device wait for a transfer, rather than for the producer alone.
    pub(super) announced: bool,
}

/// A parameter that operators share.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shared {
    /// Bytes on every device that has a reader, counted once per device.
    pub(super) bytes: f64,
    pub(super) readers: Vec<u32>,
    /// For every device, seconds to synchronise the gradient of the parameter if several devices hold the parameter.
    pub(super) seconds: Keyed<u32, f64>,
}

/// A transfer of a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Transfer {
    pub(super) tensor: u32,
    pub(super) producer: u32,
    pub(super) home: u32,
    /// Half-open range of the copies that the transfer delivers.
    pub(super) copies: [u32; 2],
    /// Half-open range of the ports that the transfer holds.
    pub(super) ports: [u32; 2],
    pub(super) seconds: f64,
    pub(super) gap: f64,
}

/// A step, ready to run.
#[derive(Debug, Clone)]
pub struct Flow {
    pub(super) rules: Rules,
    pub(super) has_priority: bool,
    pub(super) port_count: u32,
    /// Number of operators and of transfers in use, which is the number of events apart from the ends of pauses and
    /// gaps.
    pub(super) events: u32,
    pub(super) tasks: Keyed<u32, Task>,
    pub(super) tensors: Keyed<u32, Tensor>,
    pub(super) transfers: Keyed<u32, Transfer>,
    pub(super) copies: Keyed<u32, Copy>,
    /// Number of holders of each copy: its readers, and for a home copy also the producer and the transfers.
    pub(super) holds: Keyed<u32, u32>,
    pub(super) readers: Keyed<u32, u32>,
    pub(super) ports: Keyed<u32, u32>,
    /// Resident bytes by device.
    pub(super) fixed: Keyed<u32, f64>,
    /// The parameters that operators share.
    pub(super) shared: Arc<[Shared]>,
    /// Seconds after the last operator until every device has synchronised the gradients of the parameters that it
    /// shares with others.
    pub(super) synchronisation: f64,
    /// Whether a tensor without readers stays until the end of the step.
    pub(super) keeps_outputs: bool,
    /// Outputs of each operator.
    pub(super) outputs: Csr<u32>,
    /// Copies that each operator reads.
    pub(super) inputs: Csr<u32>,
    /// Number of copies that each operator waits for.
    pub(super) waits: Keyed<u32, u32>,
}

impl Default for Flow {
    /// An empty flow.
    fn default() -> Flow {
        Flow {
            rules: Rules::PORTS,
            has_priority: false,
            port_count: 0,
            events: 0,
            tasks: Keyed::default(),
            tensors: Keyed::default(),
            transfers: Keyed::default(),
            copies: Keyed::default(),
            holds: Keyed::default(),
            readers: Keyed::default(),
            ports: Keyed::default(),
            fixed: Keyed::default(),
            shared: Arc::default(),
            synchronisation: 0.0,
            keeps_outputs: false,
            outputs: Csr::default(),
            inputs: Csr::default(),
            waits: Keyed::default(),
        }
    }
}

impl Flow {
    /// The rules under which the flow runs.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Number of devices.
    pub fn device_count(&self) -> usize {
        self.fixed.len()
    }

    /// Number of ports.
    pub fn port_count(&self) -> usize {
        self.port_count as usize
    }

    /// Number of operators.
    pub fn operator_count(&self) -> usize {
        self.tasks.len()
    }

    /// Number of transfers.
    pub fn transfer_count(&self) -> usize {
        self.transfers.len()
    }

    /// An operator as it was added.
    pub fn operator(&self, op: u32) -> &Operator {
        &self.tasks[op].operator
    }

    /// The tensor that a transfer brings.
    pub fn tensor_of(&self, transfer: u32) -> u32 {
        self.transfers[transfer].tensor
    }

    /// The operator whose output a transfer brings.
    pub fn producer_of(&self, transfer: u32) -> u32 {
        self.transfers[transfer].producer
    }

    /// Seconds until a transfer has arrived, and seconds for which its ports then remain occupied.
    pub fn transfer_seconds(&self, transfer: u32) -> [f64; 2] {
        let transfer = &self.transfers[transfer];
        [transfer.seconds, transfer.gap]
    }

    /// Destination devices of a transfer.
    pub fn destinations(&self, transfer: u32) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.copies.range(self.transfers[transfer].copies).iter().map(|copy| copy.device)
    }

    /// The ports that a transfer holds.
    #[inline]
    pub fn ports_of(&self, transfer: u32) -> &[u32] {
        self.ports.range(self.transfers[transfer].ports)
    }

    /// Compute seconds of every device, without pauses.
    pub fn device_seconds(&self) -> Vec<f64> {
        let mut seconds = Keyed::filled(0.0, self.device_count());
        for Task { operator, .. } in &self.tasks {
            seconds[operator.device] += operator.seconds;
        }
        seconds.into_vec()
    }

    /// Transfer seconds of every port, without gaps.
    pub fn port_seconds(&self) -> Vec<f64> {
        let mut seconds = Keyed::filled(0.0, self.port_count());
        for transfer in &self.transfers {
            for &port in self.ports.range(transfer.ports) {
                seconds[port] += transfer.seconds;
            }
        }
        seconds.into_vec()
    }

    /// Resident bytes of every device, shared parameters included.
    pub fn fixed_bytes(&self) -> &[f64] {
        &self.fixed
    }

    /// Sums up the resident bytes of every device and the synchronisation time.
    pub(super) fn add_up_fixed(&mut self) {
        self.fixed.fill(0.0);
        for Task { operator, .. } in &self.tasks {
            self.fixed[operator.device] += operator.fixed_bytes;
        }
        let mut devices: Vec<u32> = Vec::new();
        let mut synchronising = Keyed::filled(0.0, if self.shared.is_empty() { 0 } else { self.fixed.len() });
        for shared in &*self.shared {
            devices.clear();
            devices.extend(shared.readers.iter().map(|&op| self.tasks[op].operator.device));
            devices.sort_unstable();
            devices.dedup();
            for &device in &devices {
                self.fixed[device] += shared.bytes;
                if devices.len() > 1 {
                    synchronising[device] += shared.seconds[device];
                }
            }
        }
        self.synchronisation = synchronising.iter().copied().fold(0.0, f64::max);
    }

    /// Number of holders of a tensor's home copy other than its readers: its producer, its transfers and, for an output
    /// without readers that is kept, the model.
    pub(super) fn holds_at_home(&self, tensor: u32, transfers: u32) -> u32 {
        let Tensor { home, .. } = self.tensors[tensor];
        let is_output = self.keeps_outputs && transfers == 0 && self.readers_of(home).is_empty();
        1 + transfers + u32::from(is_output)
    }

    /// The readers of a copy.
    #[inline]
    pub(super) fn readers_of(&self, copy: u32) -> &[u32] {
        self.readers.range([copy, copy + 1].map(|copy| self.copies[copy].first_reader))
    }

    /// The copies that an operator reads.
    #[inline]
    pub(super) fn inputs_of(&self, task: &Task) -> &[u32] {
        self.inputs.items(task.inputs)
    }

    /// The tensors that an operator produces.
    #[inline]
    pub(super) fn outputs_of(&self, task: &Task) -> &[u32] {
        self.outputs.items(task.outputs)
    }

    /// The transfers of a tensor.
    #[inline]
    pub(super) fn transfers_of(&self, tensor: u32) -> Range<u32> {
        let [first, last] = self.tensors[tensor].transfers;
        first..last
    }

    /// The copies of a tensor.
    pub(super) fn copies_of(&self, tensor: u32) -> Range<u32> {
        self.tensors[tensor].home..self.tensors[tensor + 1].home
    }
}
