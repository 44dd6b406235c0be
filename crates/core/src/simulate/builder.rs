//! Incremental construction of flows.

use std::sync::Arc;

use super::Rules;
use super::error::{FlowError, known, runnable};
use super::flow::{Copy, Flow, MOST, Operator, Shared, Task, Tensor, Transfer};
use crate::ids::Id;
use crate::tolerance::LARGEST_SUM;

/// Adds operators, tensors and transfers to a flow: first all operators, then each tensor, immediately followed by its
/// transfers, each with the copies that it delivers.
#[derive(Debug, Clone)]
pub struct FlowBuilder {
    pub(super) flow: Flow,
}

impl FlowBuilder {
    /// Starts a flow on `devices` devices and `ports` ports. With priorities the device queues are ordered by
    /// [`Operator::rank`], otherwise by the time at which an operator becomes ready.
    pub fn new(rules: Rules, devices: u32, ports: u32, has_priority: bool) -> FlowBuilder {
        FlowBuilder::over(Flow::default(), rules, devices, ports, has_priority)
    }

    /// Starts a flow that reuses the memory of a flow no longer needed; otherwise like [`FlowBuilder::new`].
    pub fn over(mut flow: Flow, rules: Rules, devices: u32, ports: u32, has_priority: bool) -> FlowBuilder {
        flow.rules = rules;
        flow.has_priority = has_priority;
        flow.port_count = ports;
        flow.tasks.clear();
        flow.shared = Arc::default();
        flow.synchronisation = 0.0;
        flow.keeps_outputs = false;
        flow.fixed.clear();
        flow.fixed.resize(devices as usize, 0.0);
        let mut builder = FlowBuilder { flow };
        builder.clear_tensors();
        builder
    }

    /// Sets the shared parameters, and whether tensors without readers stay until the end of the step.
    pub(super) fn residents(&mut self, shared: Arc<[Shared]>, keeps_outputs: bool) {
        self.flow.shared = shared;
        self.flow.keeps_outputs = keeps_outputs;
    }

    /// Removes all tensors.
    pub(super) fn clear_tensors(&mut self) {
        let flow = &mut self.flow;
        flow.tensors.clear();
        flow.transfers.clear();
        flow.copies.clear();
        flow.readers.clear();
        flow.ports.clear();
    }

    /// Adds an operator and returns its index.
    pub fn operator(&mut self, operator: Operator) -> u32 {
        self.flow.tasks.push(Task { operator, ..Task::default() })
    }

    /// Adds a tensor that an operator added before produces, with its readers on the producer's device, and returns the
    /// tensor's index.
    ///
    /// # Panics
    /// If the producer has not been added.
    pub fn tensor(&mut self, producer: u32, bytes: f64, readers: impl IntoIterator<Item = u32>) -> u32 {
        self.tensor_on(self.flow.tasks[producer].operator.device, producer, bytes, readers)
    }

    /// Adds a tensor whose producer is known to be on `device`; otherwise like [`FlowBuilder::tensor`].
    pub(super) fn tensor_on(
        &mut self,
        device: u32,
        producer: u32,
        bytes: f64,
        readers: impl IntoIterator<Item = u32>,
    ) -> u32 {
        let home = self.flow.copies.next_id();
        let transfers = [self.flow.transfers.next_id(); 2];
        self.add_copy(device, bytes, readers);
        self.flow.tensors.push(Tensor { producer, home, transfers, announced: false })
    }

    /// Adds a transfer of the tensor added last and returns the transfer's index. The transfer holds its ports for
    /// `seconds`, after which it has arrived at all its destinations, and then for another `gap` seconds. Add the
    /// copies that it delivers next.
    ///
    /// # Panics
    /// If there is no tensor.
    pub fn transfer(&mut self, seconds: f64, gap: f64, ports: impl IntoIterator<Item = u32>) -> u32 {
        let flow = &mut self.flow;
        let tensor = flow.tensors.ids().next_back().expect("a transfer is of the tensor added last");
        flow.tensors[tensor].transfers[1] += 1;
        let Tensor { producer, home, .. } = flow.tensors[tensor];
        let copies = [flow.copies.next_id(); 2];
        let first_port = flow.ports.next_id();
        flow.ports.extend(ports);
        let ports = [first_port, flow.ports.next_id()];
        flow.transfers.push(Transfer { tensor, producer, home, copies, ports, seconds, gap })
    }

    /// Adds a copy that the transfer added last delivers, with its readers.
    ///
    /// # Panics
    /// If there is no transfer.
    pub fn copy(&mut self, device: u32, readers: impl IntoIterator<Item = u32>) {
        let transfer = self.flow.transfers.last().expect("a copy is brought by the transfer added last");
        let bytes = self.flow.copies[transfer.home].bytes;
        self.add_copy(device, bytes, readers);
        let last = self.flow.copies.next_id();
        self.flow.transfers.last_mut().expect("asked for above").copies[1] = last;
    }

    /// Makes the transfer added last deliver no copy. Instead, its arrival releases the home copy to the readers on the
    /// home device, which could otherwise read the tensor when its producer ends.
    ///
    /// # Panics
    /// If there is no transfer, or another one already releases the home copy.
    pub fn announce(&mut self) {
        let transfer = self.flow.transfers.last_mut().expect("what is announced is the tensor added last");
        let tensor = &mut self.flow.tensors[transfer.tensor];
        assert!(!tensor.announced, "a tensor is announced once");
        tensor.announced = true;
        transfer.copies = [transfer.home, transfer.home + 1];
    }

    fn add_copy(&mut self, device: u32, bytes: f64, readers: impl IntoIterator<Item = u32>) {
        let first_reader = self.flow.readers.next_id();
        self.flow.copies.push(Copy { device, first_reader, bytes });
        self.flow.readers.extend(readers);
    }

    /// Checks and returns the flow, in time linear in its size.
    ///
    /// # Errors
    /// The first defect found.
    pub fn finish(mut self) -> Result<Flow, FlowError> {
        self.end_tables();
        self.check()?;
        let flow = self.index();
        let ran = runnable(&flow);
        match ran < flow.operator_count() {
            true => Err(FlowError::Cycle { count: flow.operator_count() - ran }),
            false => Ok(flow),
        }
    }

    /// Returns the flow without validating its contents, for which the caller is responsible.
    pub(super) fn finish_checked(mut self) -> Flow {
        self.end_tables();
        let largest = self.flow.operator_count().max(self.flow.transfer_count());
        assert!(largest <= MOST, "more operators or transfers than events can number");
        self.index()
    }

    fn end_tables(&mut self) {
        let flow = &mut self.flow;
        let (home, transfers) = (flow.copies.next_id(), [flow.transfers.next_id(); 2]);
        flow.tensors.push(Tensor { producer: 0, home, transfers, announced: false });
        flow.copies.push(Copy { device: 0, first_reader: flow.readers.next_id(), bytes: 0.0 });
    }

    /// Computes the derived tables.
    fn index(self) -> Flow {
        let mut flow = self.flow;
        let operators = flow.operator_count();
        flow.add_up_fixed();
        flow.waits.clear();
        flow.waits.resize(operators, 0);
        for &reader in &flow.readers {
            flow.waits[reader] += 1;
        }
        flow.holds.clear();
        flow.holds.extend(flow.copies.windows(2).map(|two| two[1].first_reader - two[0].first_reader));
        let tensors = u32::first(flow.tensors.len() - 1);
        flow.events = operators as u32;
        for index in tensors.clone() {
            let tensor = flow.tensors[index];
            let transfers = tensor.transfers[1] - tensor.transfers[0];
            flow.events += transfers;
            flow.holds[tensor.home] += flow.holds_at_home(index, transfers);
        }
        let made = tensors.zip(&flow.tensors).map(|(index, tensor)| (tensor.producer, index));
        flow.outputs.refill(operators, made);
        let copies = (0..).zip(flow.copies.windows(2));
        let read = copies.flat_map(|(copy, two)| {
            let readers = flow.readers.range([two[0].first_reader, two[1].first_reader]);
            readers.iter().map(move |&reader| (reader, copy))
        });
        flow.inputs.refill(operators, read);
        for (op, task) in flow.tasks.iter_mut().enumerate() {
            task.inputs = flow.inputs.range(op);
            task.outputs = flow.outputs.range(op);
            let made = flow.outputs.row(op).iter().map(|&tensor| &flow.tensors[tensor]);
            let bytes = made.map(|tensor| flow.copies[tensor.home].bytes);
            task.start_bytes = bytes.fold(task.operator.workspace_bytes, |sum, bytes| sum + bytes);
        }
        flow
    }

    fn check(&self) -> Result<(), FlowError> {
        let flow = &self.flow;
        for (what, count) in [("operators", flow.operator_count()), ("transfers", flow.transfer_count())] {
            if count > MOST {
                return Err(FlowError::TooMany { what, count });
            }
        }
        let mut sums = [0.0; 2];
        let mut figure = |what: &'static str, index: usize, value: f64, sum: usize| {
            if !(value.is_finite() && value >= 0.0) {
                return Err(FlowError::BadNumber { what, at: index, value });
            }
            sums[sum] += value;
            match sums[sum] > LARGEST_SUM {
                true => Err(FlowError::Overflow { what, at: index }),
                false => Ok(()),
            }
        };
        for (index, Task { operator, .. }) in flow.tasks.iter().enumerate() {
            figure("seconds of operator", index, operator.seconds, 0)?;
            figure("pause of operator", index, operator.pause, 0)?;
            figure("fixed bytes of operator", index, operator.fixed_bytes.abs(), 1)?;
            figure("workspace of operator", index, operator.workspace_bytes, 1)?;
            known("device of operator", index, operator.device, flow.fixed.len())?;
        }
        for (index, transfer) in flow.transfers.iter().enumerate() {
            figure("seconds of transfer", index, transfer.seconds, 0)?;
            figure("gap of transfer", index, transfer.gap, 0)?;
            for &port in flow.ports.range(transfer.ports) {
                known("port of transfer", index, port, flow.port_count())?;
            }
        }
        for (index, two) in flow.copies.windows(2).enumerate() {
            let copy = &two[0];
            figure("bytes of copy", index, copy.bytes, 1)?;
            known("device of copy", index, copy.device, flow.fixed.len())?;
            for &reader in flow.readers.range([copy.first_reader, two[1].first_reader]) {
                known("reader of copy", index, reader, flow.operator_count())?;
                if flow.tasks[reader].operator.device != copy.device {
                    return Err(FlowError::Elsewhere { reader, copy: index });
                }
            }
        }
        Ok(())
    }
}
