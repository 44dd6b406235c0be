//! What the engine runs: a step as flat arrays.
//!
//! A flow has *operators*, each with its device and its seconds there; *tensors*, each with its producer; *copies*, one
//! for each device that a tensor is on, each with those that read it there; *transfers*, which bring a tensor from the
//! copy at home to copies elsewhere; and *ports*, each of which carries one transfer at a time. Everything is numbered
//! in the order in which it was added, and that order is the one that [`Ties::Index`](super::Ties::Index) speaks of.
//!
//! Copies are numbered so that those of a tensor are consecutive, the one at home first, and so are the transfers of a
//! tensor. The engine then needs no table but offsets.

use std::ops::Range;

use super::Rules;
use super::error::FlowError;
use crate::graph::Compressed;
use crate::tolerance::LARGEST_SUM;

/// Most operators and most transfers of a flow: an event is packed into a word with two bits for its kind.
pub(super) const MOST: usize = 1 << 30;

/// An operator on its device.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Operator {
    /// Index of the device.
    pub device: u32,
    /// Its place in the queue of the device: the lowest goes first, the lower index among equals.
    /// Read only where the flow has priorities.
    pub rank: u32,
    /// Seconds that it runs.
    pub seconds: f64,
    /// Seconds that the device pauses after it.
    pub pause: f64,
    /// Bytes of parameters and optimiser state, which are always there.
    pub fixed_bytes: f64,
    /// Bytes of workspace while it runs.
    pub workspace_bytes: f64,
}

/// A tensor on a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Copy {
    pub(super) device: u32,
    /// Where its readers begin; they end where those of the next begin.
    pub(super) first_reader: u32,
}

/// What a copy occupies, and how many still need it: its readers, and at home the producer and the transfers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Kept {
    pub(super) bytes: f64,
    pub(super) holds: u32,
}

/// A tensor. As with copies and transfers, one more than there are ends the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tensor {
    pub(super) producer: u32,
    pub(super) home: u32,
    pub(super) first_transfer: u32,
    /// Whether its readers at home wait for a transfer, rather than for the producer alone.
    pub(super) announced: bool,
}

/// A tensor on its way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Transfer {
    pub(super) tensor: u32,
    pub(super) producer: u32,
    pub(super) home: u32,
    /// The copies that it brings, from the first to before the last.
    pub(super) copies: [u32; 2],
    pub(super) first_port: u32,
    pub(super) seconds: f64,
    pub(super) gap: f64,
}

/// A step, ready to run.
#[derive(Debug, Clone)]
pub struct Flow {
    pub(super) rules: Rules,
    pub(super) has_priority: bool,
    pub(super) port_count: u32,
    pub(super) operators: Vec<Operator>,
    pub(super) tensors: Vec<Tensor>,
    pub(super) transfers: Vec<Transfer>,
    pub(super) copies: Vec<Copy>,
    pub(super) kept: Vec<Kept>,
    pub(super) readers: Vec<u32>,
    pub(super) ports: Vec<u32>,
    /// Bytes that are always on a device.
    pub(super) fixed: Vec<f64>,
    /// Tensors that an operator makes.
    pub(super) outputs: Compressed<u32>,
    /// Copies that an operator reads.
    pub(super) inputs: Compressed<u32>,
    /// How many copies an operator waits for.
    pub(super) waits: Vec<u32>,
    /// Bytes that the start of an operator takes: workspace and all that it makes.
    pub(super) start_bytes: Vec<f64>,
}

impl Flow {
    /// A flow of nothing, whose memory [`FlowBuilder::over`] takes.
    pub(super) fn empty() -> Flow {
        Flow {
            rules: Rules::PORTS,
            has_priority: false,
            port_count: 0,
            operators: Vec::new(),
            tensors: Vec::new(),
            transfers: Vec::new(),
            copies: Vec::new(),
            kept: Vec::new(),
            readers: Vec::new(),
            ports: Vec::new(),
            fixed: Vec::new(),
            outputs: Compressed::default(),
            inputs: Compressed::default(),
            waits: Vec::new(),
            start_bytes: Vec::new(),
        }
    }

    /// The configuration that it runs under.
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
        self.operators.len()
    }

    /// Number of transfers.
    pub fn transfer_count(&self) -> usize {
        self.transfers.len() - 1
    }

    /// An operator as it was added.
    pub fn operator(&self, op: u32) -> &Operator {
        &self.operators[op as usize]
    }

    /// The tensor that a transfer brings.
    pub fn tensor_of(&self, transfer: u32) -> u32 {
        self.transfers[transfer as usize].tensor
    }

    /// The operator whose output a transfer brings.
    pub fn producer_of(&self, transfer: u32) -> u32 {
        self.transfers[transfer as usize].producer
    }

    /// Seconds until what a transfer brings has arrived, and seconds that its ports rest after that.
    pub fn transfer_seconds(&self, transfer: u32) -> [f64; 2] {
        let transfer = &self.transfers[transfer as usize];
        [transfer.seconds, transfer.gap]
    }

    /// The devices that a transfer leads to.
    pub fn destinations(&self, transfer: u32) -> impl ExactSizeIterator<Item = u32> + '_ {
        let [first, last] = self.transfers[transfer as usize].copies;
        self.copies[first as usize..last as usize].iter().map(|copy| copy.device)
    }

    /// The ports that a transfer holds.
    #[inline]
    pub fn ports_of(&self, transfer: u32) -> &[u32] {
        let [first, last] = [0, 1].map(|next| self.transfers[transfer as usize + next].first_port as usize);
        &self.ports[first..last]
    }

    /// Seconds that every device computes: its operators, without the pauses.
    pub fn device_seconds(&self) -> Vec<f64> {
        let mut seconds = vec![0.0; self.device_count()];
        for operator in &self.operators {
            seconds[operator.device as usize] += operator.seconds;
        }
        seconds
    }

    /// Seconds that every port carries something: its transfers, without the gaps.
    pub fn port_seconds(&self) -> Vec<f64> {
        let mut seconds = vec![0.0; self.port_count()];
        for transfer in 0..self.transfer_count() as u32 {
            for &port in self.ports_of(transfer) {
                seconds[port as usize] += self.transfers[transfer as usize].seconds;
            }
        }
        seconds
    }

    /// The readers of a copy.
    #[inline]
    pub(super) fn readers_of(&self, copy: u32) -> &[u32] {
        let [first, last] = [0, 1].map(|next| self.copies[copy as usize + next].first_reader as usize);
        &self.readers[first..last]
    }

    /// The transfers of a tensor.
    #[inline]
    pub(super) fn transfers_of(&self, tensor: u32) -> Range<u32> {
        self.tensors[tensor as usize].first_transfer..self.tensors[tensor as usize + 1].first_transfer
    }

    /// The copies of a tensor.
    pub(super) fn copies_of(&self, tensor: u32) -> Range<u32> {
        self.tensors[tensor as usize].home..self.tensors[tensor as usize + 1].home
    }
}

/// Adds operators, tensors and transfers to a flow, in that order: all operators first, and the copies and transfers of a
/// tensor right after it.
#[derive(Debug)]
pub struct FlowBuilder {
    flow: Flow,
}

impl FlowBuilder {
    /// A flow on so many devices and ports. With priorities the queues of the devices go by [`Operator::rank`], else by
    /// the time at which an operator is ready.
    pub fn new(rules: Rules, devices: u32, ports: u32, has_priority: bool) -> FlowBuilder {
        FlowBuilder::over(Flow::empty(), rules, devices, ports, has_priority)
    }

    /// The same in the memory of a flow that is no longer needed.
    pub fn over(mut flow: Flow, rules: Rules, devices: u32, ports: u32, has_priority: bool) -> FlowBuilder {
        flow.rules = rules;
        flow.has_priority = has_priority;
        flow.port_count = ports;
        flow.operators.clear();
        flow.tensors.clear();
        flow.transfers.clear();
        flow.copies.clear();
        flow.kept.clear();
        flow.readers.clear();
        flow.ports.clear();
        flow.fixed.clear();
        flow.fixed.resize(devices as usize, 0.0);
        FlowBuilder { flow }
    }

    /// Adds an operator and returns its index.
    pub fn operator(&mut self, operator: Operator) -> u32 {
        self.flow.operators.push(operator);
        self.flow.operators.len() as u32 - 1
    }

    /// Adds a tensor of an operator that has been added, with its readers on the same device, and returns its index.
    ///
    /// # Panics
    /// Where there is no such operator.
    pub fn tensor(&mut self, producer: u32, bytes: f64, readers: impl IntoIterator<Item = u32>) -> u32 {
        let device = self.flow.operators[producer as usize].device;
        let home = self.flow.copies.len() as u32;
        let first_transfer = self.flow.transfers.len() as u32;
        self.flow.tensors.push(Tensor { producer, home, first_transfer, announced: false });
        self.add_copy(device, bytes, readers);
        self.flow.tensors.len() as u32 - 1
    }

    /// Adds a transfer of the tensor added last: it holds its ports for `seconds`, after which all that it leads to has
    /// arrived, and for a gap after that. Returns its index. The copies that it brings are added next.
    ///
    /// # Panics
    /// Where there is no tensor.
    pub fn transfer(&mut self, seconds: f64, gap: f64, ports: impl IntoIterator<Item = u32>) -> u32 {
        assert!(!self.flow.tensors.is_empty(), "a transfer is of the tensor added last");
        let copies = [self.flow.copies.len() as u32; 2];
        let first_port = self.flow.ports.len() as u32;
        let tensor = self.flow.tensors.len() as u32 - 1;
        let Tensor { producer, home, .. } = self.flow.tensors[tensor as usize];
        self.flow.transfers.push(Transfer { tensor, producer, home, copies, first_port, seconds, gap });
        self.flow.ports.extend(ports);
        self.flow.transfers.len() as u32 - 1
    }

    /// Adds a copy that the transfer added last brings, with its readers.
    ///
    /// # Panics
    /// Where there is no transfer.
    pub fn copy(&mut self, device: u32, readers: impl IntoIterator<Item = u32>) {
        let transfer = self.flow.transfers.last().expect("a copy is brought by the transfer added last");
        let bytes = self.flow.kept[transfer.home as usize].bytes;
        self.add_copy(device, bytes, readers);
        let last = self.flow.copies.len() as u32;
        self.flow.transfers.last_mut().expect("asked for above").copies[1] = last;
    }

    /// The transfer added last brings no copy: it tells the readers at home that they may read what lies there, which they
    /// otherwise know when the producer ends.
    ///
    /// # Panics
    /// Where there is no transfer, or another one tells them already.
    pub fn announce(&mut self) {
        let transfer = self.flow.transfers.last_mut().expect("what is announced is the tensor added last");
        let tensor = &mut self.flow.tensors[transfer.tensor as usize];
        assert!(!tensor.announced, "a tensor is announced once");
        tensor.announced = true;
        transfer.copies = [transfer.home, transfer.home + 1];
    }

    fn add_copy(&mut self, device: u32, bytes: f64, readers: impl IntoIterator<Item = u32>) {
        let first_reader = self.flow.readers.len() as u32;
        self.flow.copies.push(Copy { device, first_reader });
        self.flow.kept.push(Kept { bytes, holds: 0 });
        self.flow.readers.extend(readers);
    }

    /// The flow, checked, in time linear in its size.
    ///
    /// # Errors
    /// The first defect found.
    pub fn finish(mut self) -> Result<Flow, FlowError> {
        self.end_tables();
        self.check()?;
        let flow = self.index();
        let ran = super::error::runnable(&flow);
        match ran < flow.operator_count() {
            true => Err(FlowError::Cycle { count: flow.operator_count() - ran }),
            false => Ok(flow),
        }
    }

    /// The flow, where whoever added everything answers for it.
    pub(super) fn finish_checked(mut self) -> Flow {
        self.end_tables();
        let most = self.flow.operator_count().max(self.flow.transfer_count());
        assert!(most <= MOST, "more operators or transfers than events can number");
        self.index()
    }

    fn end_tables(&mut self) {
        let flow = &mut self.flow;
        let [copies, transfers] = [flow.copies.len(), flow.transfers.len()].map(|length| length as u32);
        let (first_reader, first_port) = (flow.readers.len() as u32, flow.ports.len() as u32);
        let tensor = Tensor { producer: 0, home: copies, first_transfer: transfers, announced: false };
        flow.tensors.push(tensor);
        flow.copies.push(Copy { device: 0, first_reader });
        let none = [copies; 2];
        let (tensor, producer, home, seconds, gap) = (0, 0, 0, 0.0, 0.0);
        flow.transfers.push(Transfer { tensor, producer, home, copies: none, first_port, seconds, gap });
    }

    /// What follows from what was added.
    fn index(self) -> Flow {
        let mut flow = self.flow;
        let operators = flow.operators.len();
        flow.start_bytes.clear();
        for operator in &flow.operators {
            flow.start_bytes.push(operator.workspace_bytes);
            flow.fixed[operator.device as usize] += operator.fixed_bytes;
        }
        flow.waits.clear();
        flow.waits.resize(operators, 0);
        for &reader in &flow.readers {
            flow.waits[reader as usize] += 1;
        }
        for (kept, two) in flow.kept.iter_mut().zip(flow.copies.windows(2)) {
            kept.holds = two[1].first_reader - two[0].first_reader;
        }
        for two in flow.tensors.windows(2) {
            let home = &mut flow.kept[two[0].home as usize];
            home.holds += 1 + two[1].first_transfer - two[0].first_transfer;
            flow.start_bytes[two[0].producer as usize] += home.bytes;
        }
        let tensors = flow.tensors.len() as u32 - 1;
        let made = (0..tensors).zip(&flow.tensors).map(|(at, tensor)| (tensor.producer, at));
        flow.outputs.refill(operators, made);
        let copies = (0..).zip(flow.copies.windows(2));
        let read = copies.flat_map(|(copy, two)| {
            let [first, last] = [0, 1].map(|at| two[at].first_reader as usize);
            flow.readers[first..last].iter().map(move |&reader| (reader, copy))
        });
        flow.inputs.refill(operators, read);
        flow
    }

    fn check(&self) -> Result<(), FlowError> {
        let flow = &self.flow;
        for (what, count) in [("operators", flow.operators.len()), ("transfers", flow.transfer_count())] {
            if count > MOST {
                return Err(FlowError::TooMany { what, count });
            }
        }
        let mut sums = [0.0; 2];
        let mut figure = |what: &'static str, at: usize, value: f64, sum: usize| {
            if !(value.is_finite() && value >= 0.0) {
                return Err(FlowError::BadNumber { what, at, value });
            }
            sums[sum] += value;
            match sums[sum] > LARGEST_SUM {
                true => Err(FlowError::Overflow { what, at }),
                false => Ok(()),
            }
        };
        for (at, operator) in flow.operators.iter().enumerate() {
            figure("seconds of operator", at, operator.seconds, 0)?;
            figure("pause of operator", at, operator.pause, 0)?;
            figure("fixed bytes of operator", at, operator.fixed_bytes, 1)?;
            figure("workspace of operator", at, operator.workspace_bytes, 1)?;
            known("device of operator", at, operator.device, flow.fixed.len())?;
        }
        for (at, transfer) in flow.transfers[..flow.transfer_count()].iter().enumerate() {
            figure("seconds of transfer", at, transfer.seconds, 0)?;
            figure("gap of transfer", at, transfer.gap, 0)?;
            for &port in flow.ports_of(at as u32) {
                known("port of transfer", at, port, flow.port_count())?;
            }
        }
        for (at, (copy, kept)) in flow.copies.iter().zip(&flow.kept).enumerate() {
            figure("bytes of copy", at, kept.bytes, 1)?;
            known("device of copy", at, copy.device, flow.fixed.len())?;
            for &reader in flow.readers_of(at as u32) {
                known("reader of copy", at, reader, flow.operators.len())?;
                if flow.operators[reader as usize].device != copy.device {
                    return Err(FlowError::Elsewhere { reader, copy: at });
                }
            }
        }
        Ok(())
    }
}

fn known(what: &'static str, at: usize, index: u32, count: usize) -> Result<(), FlowError> {
    match (index as usize) < count {
        true => Ok(()),
        false => Err(FlowError::Unknown { what, at, index, count }),
    }
}
