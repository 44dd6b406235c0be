//! Simulation of a pipeline on the makespan engine.

use super::ScheduleError;
use super::iteration::{StageTimes, bubble};
use super::order::{Task, Work, orders, sendings};
use crate::document::Schedule;
use crate::ids::Keyed;
use crate::simulate::{Flow, FlowBuilder, Operator, Rules, Simulator, Span, Timeline};

/// A stage of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Stage {
    /// Seconds for one microbatch.
    pub times: StageTimes,
    /// Bytes that one microbatch keeps from its forward pass to the end of its backward pass.
    pub activation_bytes: f64,
    /// Resident bytes, minus bytes that the activations of the stage count too often.
    pub fixed_bytes: f64,
    /// Workspace bytes while the stage runs.
    pub workspace_bytes: f64,
}

/// A pipeline to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// The schedule.
    pub schedule: Schedule,
    /// Microbatches of an iteration.
    pub microbatches: u32,
    /// Number of devices, to which the stages are assigned as [`Schedule::device`] says.
    pub devices: u32,
    /// The stages in the order of the pipeline.
    pub stages: Vec<Stage>,
    /// Seconds of a transfer over each boundary between two stages, forward and backward, if the stage times do not
    /// include them; otherwise empty. A link carries one microbatch at a time, and all boundaries between the same two
    /// devices share one link.
    pub transfers: Vec<[f64; 2]>,
}

/// Result of a pipeline run.
#[derive(Debug, Clone)]
pub struct Run {
    /// Seconds of the iteration. Under zero-bubble-2p, whose iterations overlap, fewer than until its last task ends.
    pub seconds: f64,
    /// Idle share of the devices' time.
    pub bubble: f64,
    /// Busy seconds per device.
    pub busy: Vec<f64>,
    /// Maximum number of microbatches whose activations a device held, each of its stages counted separately.
    pub in_flight: Vec<u32>,
    /// Peak bytes per device.
    pub peak_bytes: Vec<f64>,
    /// Tasks of each device in order, each with its time interval.
    pub tasks: Vec<Vec<(Task, Span)>>,
    /// The simulated flow. Its operators are the tasks of the first device in order, then those of the second, and so
    /// on.
    pub flow: Flow,
    /// The timeline, for the critical path.
    pub timeline: Timeline,
}

impl Pipeline {
    /// Runs an iteration, in O(tasks log tasks).
    ///
    /// # Errors
    /// If the pipeline cannot be scheduled, or if a value is negative or not finite.
    pub fn run(&self) -> Result<Run, ScheduleError> {
        let orders = orders(self.schedule, self.devices, self.stages.len(), self.microbatches)?;
        if !self.transfers.is_empty() && self.transfers.len() + 1 != self.stages.len() {
            return Err(ScheduleError::Transfers { given: self.transfers.len(), stages: self.stages.len() });
        }
        let flow = self.flow(&orders)?;
        let mut simulator = Simulator::new();
        let timeline = simulator.run(&flow).clone();
        let busy = flow.device_seconds();
        let mut spans = timeline.operators().iter().copied();
        let in_flight = orders.iter().map(|order| self.most_in_flight(order)).collect();
        let tasks: Vec<Vec<(Task, Span)>> =
            orders.into_iter().map(|order| order.into_iter().zip(spans.by_ref()).collect()).collect();
        let seconds = match self.schedule {
            Schedule::ZeroBubbleTwice => {
                let of_device = |tasks: &Vec<(Task, Span)>| match (tasks.first(), tasks.last()) {
                    (Some((_, first)), Some((_, last))) => last.end - first.start,
                    _ => 0.0,
                };
                tasks.iter().map(of_device).fold(0.0, f64::max)
            }
            _ => timeline.makespan(),
        };
        Ok(Run {
            seconds,
            bubble: bubble(busy.iter().sum(), busy.len(), seconds),
            busy,
            in_flight,
            peak_bytes: timeline.peak_bytes().to_vec(),
            tasks,
            flow,
            timeline,
        })
    }

    /// Builds the flow. A chain of tensors of zero bytes fixes the order of tasks on a device. The activations of a
    /// microbatch are a tensor from its forward pass to its backward pass, or to its weight gradient if that is
    /// separate.
    fn flow(&self, orders: &[Vec<Task>]) -> Result<Flow, ScheduleError> {
        let (count, microbatches) = (self.stages.len() as u32, self.microbatches);
        let mut flow = FlowBuilder::new(Rules::PORTS, self.devices, 2 * self.devices, false);
        let mut number = Keyed::filled(0, (3 * count * microbatches) as usize);
        let place = |task: Task| (task.work as u32 * count + task.stage) * microbatches + task.microbatch;
        let mut holds_fixed = Keyed::filled(true, self.stages.len());
        for (device, order) in (0..).zip(orders) {
            for &task in order {
                let stage = self.stage(task);
                let fixed = std::mem::take(&mut holds_fixed[task.stage]);
                number[place(task)] = flow.operator(Operator {
                    device,
                    seconds: self.seconds(task),
                    fixed_bytes: if fixed { stage.fixed_bytes } else { 0.0 },
                    workspace_bytes: stage.workspace_bytes,
                    ..Operator::default()
                });
            }
        }
        let is_split = self.schedule.is_split();
        for (device, order) in (0..).zip(orders) {
            let sent = sendings(self.schedule, device, self.devices, order);
            for (position, &task) in order.iter().enumerate() {
                let own = number[place(task)];
                let last = number[place(order[sent[position]])];
                if let Some(&next) = order.get(position + 1) {
                    flow.tensor(own, 0.0, [number[place(next)]]);
                }
                let same = |work| number[place(Task { work, ..task })];
                match task.work {
                    Work::Forward => {
                        let bytes = self.stage(task).activation_bytes;
                        let weight = is_split.then(|| same(Work::Weight));
                        flow.tensor(own, bytes, [same(Work::Backward)].into_iter().chain(weight));
                        if task.stage + 1 < count {
                            let next = Task { stage: task.stage + 1, ..task };
                            self.send(&mut flow, last, task, (next, number[place(next)]));
                        }
                    }
                    Work::Backward => {
                        if task.stage > 0 {
                            let next = Task { stage: task.stage - 1, ..task };
                            self.send(&mut flow, last, task, (next, number[place(next)]));
                        }
                    }
                    Work::Weight => {}
                }
            }
        }
        Ok(flow.finish()?)
    }

    /// Sends a result to the neighbouring stage over a link of the sender, which has one for each direction.
    fn send(&self, flow: &mut FlowBuilder, from: u32, task: Task, (next, to): (Task, u32)) {
        let device = |stage: u32| self.schedule.device(stage as usize, self.devices as usize) as u32;
        let (here, there) = (device(task.stage), device(next.stage));
        if here == there {
            flow.tensor(from, 0.0, [to]);
            return;
        }
        flow.tensor(from, 0.0, []);
        let pass = usize::from(task.work == Work::Backward);
        // In a V, the second half of the pipeline passes tensors on to the devices before.
        let is_back = match self.schedule {
            Schedule::DualPipeV => there < here,
            _ => pass == 1,
        };
        match self.transfers.get(task.stage.min(next.stage) as usize) {
            None => flow.transfer(0.0, 0.0, []),
            Some(seconds) => flow.transfer(seconds[pass], 0.0, [here + u32::from(is_back) * self.devices]),
        };
        flow.copy(there, [to]);
    }

    fn stage(&self, task: Task) -> &Stage {
        &self.stages[task.stage as usize]
    }

    fn seconds(&self, task: Task) -> f64 {
        let StageTimes { forward, backward, weight } = self.stage(task).times;
        match task.work {
            Work::Forward => forward,
            Work::Backward if self.schedule.is_split() => backward,
            Work::Backward => backward + weight,
            Work::Weight => weight,
        }
    }

    fn most_in_flight(&self, order: &[Task]) -> u32 {
        let last = if self.schedule.is_split() { Work::Weight } else { Work::Backward };
        let (mut held, mut peak) = (0u32, 0);
        for task in order {
            if task.work == Work::Forward {
                held += 1;
                peak = peak.max(held);
            } else if task.work == last {
                held -= 1;
            }
        }
        peak
    }
}
