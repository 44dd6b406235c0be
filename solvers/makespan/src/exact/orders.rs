//! The orders of one placement: a search tree over the choices that devices have.
//!
//! A node holds pairs of operators on one device of which the first starts before the second. It is simulated under a
//! priority that follows them. A *choice* is a moment at which an operator starts while another one on its device is
//! ready, and the pairs do not decide between the two. The node branches on the earliest choice. Devices are never idle
//! while an operator is ready, so there are far fewer choices than pairs of operators.
//!
//! *Exactness.* A schedule of the node that differs from the simulated one differs first in a choice: up to the earliest
//! one, its events are the same. So if an operator starts before that, although the pairs demand another one first, the
//! node has no schedule; and if there is no choice, it has no other schedule. Either order of the pair of a choice is a
//! child, so no schedule is lost. Whether an operator that becomes ready at the very instant of a start had a choice
//! does not matter: the pair is decided in any case.
//!
//! *Bound.* What started before the earliest choice starts then in every schedule of the node, and the tensors that were
//! requested before it arrive as simulated, because ports serve requests in their order. All else starts later, on
//! each device after the operator that runs. From there, heads and tails follow the arcs and the pairs: operators that
//! precede an operator on its device run one after another, and so do the tensors that their ports carry before its own.
//! Each device and each port takes at least the time of Jackson's preemptive schedule (Carlier, "The one-machine
//! sequencing problem", European Journal of Operational Research 1982).

use stagewright_core::bits;
use stagewright_core::bound::makespan::one_device;
use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::{Graph, OpId, TensorId};
use stagewright_core::ids::Keyed;
use stagewright_core::simulate::{Flow, Span};
use stagewright_core::solver::Stop;
use stagewright_core::tolerance;

use super::super::schedule::{Best, Evaluator, Schedule, is_better};
use super::node::Precedence;

/// How the search of a placement ended.
pub(super) enum Orders {
    /// Every schedule was considered.
    All,
    /// Some were not; no schedule that was left out is shorter than this.
    Some(f64),
}

/// An operator of the placement.
#[derive(Debug, Clone, Copy)]
struct Task {
    device: usize,
    seconds: f64,
    /// Lower bounds on its start and on the time from its end to the end of the step.
    head: f64,
    tail: f64,
}

/// A tensor on its way to another device.
#[derive(Debug, Clone)]
struct Transfer {
    tensor: TensorId,
    seconds: f64,
    /// Its destinations.
    to: Vec<usize>,
    /// Its number in the flow.
    number: u32,
    /// Seconds that each of its ports is busy with earlier transfers of the same operator.
    ports: Vec<(u32, f64)>,
    readers: Vec<OpId>,
}

/// A placement whose orders are searched.
pub(super) struct Placed<'p> {
    graph: &'p Graph,
    device_of: Vec<DeviceId>,
    tasks: Keyed<OpId, Task>,
    devices: usize,
    transfers: Vec<Transfer>,
    /// The transfers of every operator's outputs.
    sent: Keyed<OpId, Vec<usize>>,
    /// The inputs of every operator from its own device, and the transfers that it waits for.
    local: Keyed<OpId, Vec<OpId>>,
    arriving: Keyed<OpId, Vec<usize>>,
    /// Seconds of every operator's outputs by port.
    carried: Keyed<OpId, Vec<(u32, f64)>>,
    ports: usize,
    /// Resident bytes and memory of every device.
    fixed: Vec<f64>,
    memory: Vec<f64>,
    /// Seconds that follow the last operator.
    synchronisation: f64,
    /// Whether devices continue at once after an operator.
    has_no_pauses: bool,
}

/// A node that is still to be examined.
struct Node {
    orders: Vec<(OpId, OpId)>,
    bound: f64,
}

/// What a simulation says about a node.
struct Simulated {
    /// The earliest choice.
    choice: Option<(f64, OpId, OpId)>,
    /// When an operator first starts although a pair demands another one before it.
    violation: f64,
}

impl<'p> Placed<'p> {
    /// A placement, given the head, the seconds and the tail of every operator on its device, with the flow of one of its
    /// schedules.
    pub(super) fn new(
        graph: &'p Graph,
        device_of: Vec<DeviceId>,
        devices: usize,
        sides: impl Fn(OpId) -> [f64; 3],
        flow: &Flow,
        memory: Vec<f64>,
        synchronisation: f64,
    ) -> Placed<'p> {
        let task = |op: OpId| {
            let device = device_of[op.index()];
            let [head, seconds, tail] = sides(op);
            Task { device: device.index(), seconds, head, tail }
        };
        let tasks: Keyed<OpId, Task> = graph.operators().map(task).collect();
        let count = graph.operator_count();
        let mut transfers: Vec<Transfer> = Vec::new();
        let mut sent = Keyed::filled(Vec::new(), count);
        let mut arriving = Keyed::filled(Vec::new(), count);
        let mut carried: Keyed<OpId, Vec<(u32, f64)>> = Keyed::filled(Vec::new(), count);
        for number in 0..flow.transfer_count() as u32 {
            let producer = OpId(flow.producer_of(number));
            let tensor = TensorId(flow.tensor_of(number));
            let [seconds, gap] = flow.transfer_seconds(number);
            let is_destination =
                |op: OpId| flow.destinations(number).any(|device| device == device_of[op.index()].0);
            let readers: Vec<OpId> =
                graph.consumers(tensor).iter().copied().filter(|&op| is_destination(op)).collect();
            let mut ports = Vec::new();
            for &port in flow.ports_of(number) {
                let busy = &mut carried[producer];
                match busy.iter_mut().find(|(other, _)| *other == port) {
                    Some((_, before)) => {
                        ports.push((port, *before));
                        *before += seconds + gap;
                    }
                    None => {
                        ports.push((port, 0.0));
                        busy.push((port, seconds + gap));
                    }
                }
            }
            sent[producer].push(transfers.len());
            readers.iter().for_each(|&op| arriving[op].push(transfers.len()));
            let to = flow.destinations(number).map(|device| device as usize).collect();
            transfers.push(Transfer { tensor, seconds, to, number, ports, readers });
        }
        let is_local = |op: OpId, input: OpId| tasks[op].device == tasks[input].device;
        let local = graph
            .operators()
            .map(|op| graph.predecessors(op).iter().copied().filter(|&input| is_local(op, input)).collect())
            .collect();
        let has_no_pauses = graph.operators().all(|op| flow.operator(op.0).pause <= 0.0);
        Placed {
            graph,
            device_of,
            tasks,
            devices,
            transfers,
            sent,
            local,
            arriving,
            carried,
            ports: flow.port_count(),
            fixed: flow.fixed_bytes().to_vec(),
            memory,
            synchronisation,
            has_no_pauses,
        }
    }

    /// Searches all schedules that keep to `orders`, depth first, with at most `max_nodes` simulations, for one that is
    /// better than `best`. Of `orders`, only those are needed that every better schedule keeps to.
    pub(super) fn search(
        &self,
        orders: &[(OpId, OpId)],
        evaluator: &mut Evaluator<'_, '_>,
        best: &mut Option<Best>,
        max_nodes: u64,
        stop: &Stop,
    ) -> (Orders, u64) {
        let mut open = vec![Node { orders: orders.to_vec(), bound: 0.0 }];
        let mut nodes = 0;
        while let Some(node) = open.pop() {
            if node.bound >= target(best.as_ref()) {
                continue;
            }
            if nodes == max_nodes || stop.reason().is_some() {
                open.push(node);
                let least = open.iter().map(|node| node.bound).fold(f64::INFINITY, f64::min);
                return (Orders::Some(least), nodes);
            }
            nodes += 1;
            self.expand(node, evaluator, best, &mut open);
        }
        (Orders::All, nodes)
    }

    fn expand(
        &self,
        node: Node,
        evaluator: &mut Evaluator<'_, '_>,
        best: &mut Option<Best>,
        open: &mut Vec<Node>,
    ) {
        let longest = self.tasks.iter().map(|task| task.tail).fold(0.0, f64::max);
        // Operators with long tails come first.
        let rank: Keyed<OpId, f64> = self.tasks.iter().map(|task| (longest - task.tail).max(0.0)).collect();
        let Some(precedence) = Precedence::new(self.graph, &node.orders, &rank) else { return };
        let schedule = Schedule::by_order(self.device_of.clone(), &precedence.order);
        let score = evaluator.score(&schedule);
        let timeline = evaluator.last().1;
        let simulated = self.examine(&node.orders, &precedence, timeline.operators(), timeline.transfers());
        let from = simulated.choice.map_or(f64::INFINITY, |choice| choice.0);
        let is_full = || self.exceeds_memory(timeline.operators(), timeline.transfers(), from);
        let bound = match simulated.choice {
            _ if simulated.violation < from => None,
            None => None,
            Some(_) if !score.fits() && is_full() => None,
            Some(_) => {
                Some(self.bound(&node.orders, &precedence, timeline.operators(), timeline.transfers(), from))
            }
        };
        if best.as_ref().is_none_or(|best| is_better(score, best.score)) {
            *best = Some(Best { score, schedule });
        }
        let (Some((_, a, b)), Some(bound)) = (simulated.choice, bound) else { return };
        let bound = node.bound.max(tolerance::round_down(bound + self.synchronisation));
        if bound >= target(best.as_ref()) {
            return;
        }
        // The simulated order is on top.
        for (first, second) in [(b, a), (a, b)] {
            let mut orders = node.orders.clone();
            orders.push((first, second));
            open.push(Node { orders, bound });
        }
    }

    /// Finds the earliest choice and the earliest violation in a simulation.
    fn examine(
        &self,
        orders: &[(OpId, OpId)],
        precedence: &Precedence,
        spans: &[Span],
        transfers: &[Span],
    ) -> Simulated {
        let start = |op: OpId| spans[op.index()].start;
        let violates = |&&(first, second): &&(OpId, OpId)| start(second) < start(first);
        let violation =
            orders.iter().filter(violates).map(|&(_, second)| start(second)).fold(f64::INFINITY, f64::min);
        let mut queues: Vec<Vec<(OpId, f64)>> = vec![Vec::new(); self.devices];
        for op in self.graph.operators() {
            let local = self.local[op].iter().map(|input| spans[input.index()].end);
            let arriving = self.arriving[op]
                .iter()
                .map(|&transfer| transfers[self.transfers[transfer].number as usize].end);
            let ready = if self.has_no_pauses { local.chain(arriving).fold(0.0, f64::max) } else { 0.0 };
            queues[self.tasks[op].device].push((op, ready));
        }
        let mut choice: Option<(f64, OpId, OpId)> = None;
        for queue in &mut queues {
            queue.sort_by(|a, b| start(a.0).total_cmp(&start(b.0)));
            for (place, &(a, _)) in queue.iter().enumerate() {
                let at = start(a);
                if choice.is_some_and(|(earliest, ..)| earliest <= at) {
                    break;
                }
                let waiting = queue[place + 1..]
                    .iter()
                    .filter(|&&(b, ready)| ready <= at && !precedence.is_decided(a, b));
                let urgent = waiting
                    .max_by(|x, y| self.tasks[x.0].tail.total_cmp(&self.tasks[y.0].tail).then(y.0.cmp(&x.0)));
                if let Some(&(b, _)) = urgent {
                    choice = Some((at, a, b));
                    break;
                }
            }
        }
        Simulated { choice, violation }
    }

    /// Whether some operator that starts before `from` exceeds the memory of its device. What starts or ends at the instant
    /// of its start does not count, except the operator itself.
    fn exceeds_memory(&self, spans: &[Span], transfers: &[Span], from: f64) -> bool {
        let start = |op: OpId| spans[op.index()].start;
        // By device, the bytes of a tensor or a workspace, with the time from which they are held and that until which.
        let mut held: Vec<Vec<[f64; 3]>> = vec![Vec::new(); self.devices];
        for op in self.graph.operators() {
            let device = self.tasks[op].device;
            let operator = self.graph.operator(op);
            held[device].push([start(op), spans[op.index()].end, operator.workspace_bytes]);
            for &tensor in self.graph.outputs(op) {
                let bytes = self.graph.bytes(tensor);
                let mut until = Keyed::filled(0.0f64, self.devices);
                until[device] = spans[op.index()].end;
                for &reader in self.graph.consumers(tensor) {
                    let there = &mut until[self.tasks[reader].device];
                    *there = there.max(spans[reader.index()].end);
                }
                for &number in self.sent[op].iter().filter(|&&number| self.transfers[number].tensor == tensor)
                {
                    let transfer = &self.transfers[number];
                    let span = transfers[transfer.number as usize];
                    until[device] = until[device].max(span.end);
                    for &to in &transfer.to {
                        if to != device {
                            held[to].push([span.start, until[to], bytes]);
                        }
                    }
                }
                held[device].push([start(op), until[device], bytes]);
            }
        }
        self.graph.operators().filter(|&op| start(op) < from && self.tasks[op].seconds > 0.0).any(|op| {
            let device = self.tasks[op].device;
            let at = start(op);
            let bytes: f64 = held[device]
                .iter()
                .filter(|[first, last, _]| *first <= at && *last > at)
                .map(|held| held[2])
                .sum();
            !tolerance::fits(tolerance::round_down(self.fixed[device] + bytes), self.memory[device])
        })
    }

    /// Lower bound on the step of every schedule of a node whose events before `from` are as simulated.
    fn bound(
        &self,
        orders: &[(OpId, OpId)],
        precedence: &Precedence,
        spans: &[Span],
        simulated: &[Span],
        from: f64,
    ) -> f64 {
        let count = self.tasks.len();
        let has_started = |op: OpId| spans[op.index()].start < from;
        let mut free = vec![from; self.devices];
        for op in self.graph.operators().filter(|&op| has_started(op)) {
            let device = self.tasks[op].device;
            free[device] = free[device].max(spans[op.index()].end);
        }
        let mut before: Keyed<OpId, Vec<OpId>> = Keyed::filled(Vec::new(), count);
        let mut after: Keyed<OpId, Vec<OpId>> = Keyed::filled(Vec::new(), count);
        for &(first, second) in orders {
            before[second].push(first);
            after[first].push(second);
        }
        let mut heads = Keyed::filled(0.0f64, count);
        let mut arrivals = vec![0.0f64; self.transfers.len()];
        let mut starts = vec![0.0f64; self.transfers.len()];
        let end = |heads: &Keyed<OpId, f64>, op: OpId| heads[op] + self.tasks[op].seconds;
        for &op in &precedence.order {
            let task = self.tasks[op];
            if has_started(op) {
                heads[op] = spans[op.index()].start;
            } else {
                let mut head = task.head.max(free[task.device]);
                for &input in self.local[op].iter().chain(&before[op]) {
                    head = head.max(end(&heads, input));
                }
                for &transfer in &self.arriving[op] {
                    head = head.max(arrivals[transfer]);
                }
                // Those that precede it on its device run one after another.
                let (mut first, mut sum) = (f64::INFINITY, 0.0);
                for other in bits::members(precedence.before(op)).map(OpId::new) {
                    if self.tasks[other].device == task.device && !has_started(other) {
                        first = first.min(heads[other]);
                        sum += self.tasks[other].seconds;
                    }
                }
                heads[op] = if sum > 0.0 { head.max(first + sum) } else { head };
            }
            let ends = end(&heads, op);
            let is_requested = has_started(op) && spans[op.index()].end < from;
            for &number in &self.sent[op] {
                let transfer = &self.transfers[number];
                if is_requested {
                    starts[number] = simulated[transfer.number as usize].start;
                    arrivals[number] = simulated[transfer.number as usize].end;
                    continue;
                }
                let mut start = ends;
                for &(port, earlier) in &transfer.ports {
                    let (mut first, mut sum) = (ends, 0.0);
                    if task.seconds > 0.0 {
                        for other in bits::members(precedence.before(op)).map(OpId::new) {
                            if has_started(other) && spans[other.index()].end < from {
                                continue;
                            }
                            if let Some(&(_, seconds)) =
                                self.carried[other].iter().find(|(carrying, _)| *carrying == port)
                            {
                                first = first.min(end(&heads, other));
                                sum += seconds;
                            }
                        }
                    }
                    start = start.max(ends + earlier).max(first + sum + earlier);
                }
                starts[number] = start;
                arrivals[number] = start + transfer.seconds;
            }
        }
        let mut tails = Keyed::filled(0.0f64, count);
        let mut later = vec![0.0f64; self.transfers.len()];
        for &op in precedence.order.iter().rev() {
            let task = self.tasks[op];
            let mut tail = task.tail;
            let through = |tails: &Keyed<OpId, f64>, other: OpId| self.tasks[other].seconds + tails[other];
            for &other in &after[op] {
                tail = tail.max(through(&tails, other));
            }
            for &other in self.graph.successors(op) {
                if self.tasks[other].device == task.device {
                    tail = tail.max(through(&tails, other));
                }
            }
            for &number in &self.sent[op] {
                let transfer = &self.transfers[number];
                let longest =
                    transfer.readers.iter().map(|&reader| through(&tails, reader)).fold(0.0, f64::max);
                later[number] = longest;
                let earlier = transfer.ports.iter().map(|port| port.1).fold(0.0, f64::max);
                tail = tail.max(earlier + transfer.seconds + longest);
            }
            tails[op] = tail;
        }
        let mut jobs: Vec<Vec<[f64; 3]>> = vec![Vec::new(); self.devices];
        for op in self.graph.operators() {
            let task = self.tasks[op];
            jobs[task.device].push([heads[op], task.seconds, tails[op]]);
        }
        let mut carried: Vec<Vec<[f64; 3]>> = vec![Vec::new(); self.ports];
        for (number, transfer) in self.transfers.iter().enumerate() {
            for &(port, _) in &transfer.ports {
                carried[port as usize].push([starts[number], transfer.seconds, later[number]]);
            }
        }
        jobs.into_iter().chain(carried).map(|jobs| one_device(jobs.into_iter())).fold(0.0, f64::max)
    }
}

/// The value that a better step must stay below.
pub(super) fn target(best: Option<&Best>) -> f64 {
    match best {
        Some(best) if best.score.fits() => tolerance::round_down(best.score.makespan),
        _ => f64::INFINITY,
    }
}
