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

use super::super::instance::Instance;
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
    /// Devices that receive the tensor.
    to: Vec<usize>,
    /// Number of the transfer in the flow.
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
    /// Whether a device has one copy of a tensor, whatever number of readers it has.
    has_ports: bool,
    /// Seconds above which an activity ends after the instant of its start, whatever the rounding.
    instant: f64,
}

/// Bytes that a device holds for some time.
struct Held {
    from: f64,
    until: f64,
    bytes: f64,
}

/// A node that is still to be examined.
struct Node {
    /// The decision that led to the node, as an index of the decisions of all nodes.
    last: Option<usize>,
    bound: f64,
}

/// Decisions of the nodes: each pair follows that of its parent.
#[derive(Default)]
struct Decisions(Vec<(Option<usize>, (OpId, OpId))>);

impl Decisions {
    fn add(&mut self, parent: Option<usize>, pair: (OpId, OpId)) -> Option<usize> {
        self.0.push((parent, pair));
        Some(self.0.len() - 1)
    }

    /// The pairs of a node, those of its ancestors included.
    fn of(&self, node: &Node) -> impl Iterator<Item = (OpId, OpId)> {
        let mut next = node.last;
        std::iter::from_fn(move || {
            let (parent, pair) = self.0[next?];
            next = parent;
            Some(pair)
        })
    }
}

/// A simulated schedule of a node, which every other schedule of the node shares up to the earliest choice.
struct Simulated<'a> {
    operators: &'a [Span],
    transfers: &'a [Span],
    /// The pair of the earliest choice.
    choice: Option<[OpId; 2]>,
    /// When the earliest choice is; infinite if there is none.
    until: f64,
    /// When an operator first starts although the orders demand another one before it.
    violation: f64,
}

impl Simulated<'_> {
    fn start(&self, op: OpId) -> f64 {
        self.operators[op.index()].start
    }

    fn end(&self, op: OpId) -> f64 {
        self.operators[op.index()].end
    }

    /// Whether an operator starts before the earliest choice.
    fn has_started(&self, op: OpId) -> bool {
        self.start(op) < self.until
    }

    /// Whether the transfers of an operator's outputs are requested before the earliest choice.
    fn has_sent(&self, op: OpId) -> bool {
        self.has_started(op) && self.end(op) < self.until
    }
}

impl<'p> Placed<'p> {
    /// A placement, given the head, the seconds and the tail of every operator on its device, with the flow of one of its
    /// schedules.
    pub(super) fn new(
        instance: &Instance<'p>,
        device_of: Vec<DeviceId>,
        sides: impl Fn(OpId) -> [f64; 3],
        flow: &Flow,
        synchronisation: f64,
        instant: f64,
    ) -> Placed<'p> {
        let (graph, devices) = (instance.graph(), instance.device_count());
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
            let to: Vec<usize> = flow.destinations(number).map(|device| device as usize).collect();
            // Without contention, every reader has a copy of its own, and those of a device arrive together.
            let is_same = |before: &Transfer| before.tensor == tensor && before.to == to;
            if ports.is_empty() && transfers.last().is_some_and(is_same) {
                continue;
            }
            sent[producer].push(transfers.len());
            readers.iter().for_each(|&op| arriving[op].push(transfers.len()));
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
            memory: (0..devices).map(|device| instance.memory(DeviceId::new(device))).collect(),
            synchronisation,
            has_no_pauses,
            has_ports: instance.has_ports(),
            instant,
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
        let mut open = vec![Node { last: None, bound: 0.0 }];
        let mut decisions = Decisions::default();
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
            let decided: Vec<(OpId, OpId)> = orders.iter().copied().chain(decisions.of(&node)).collect();
            let Some((pair, bound)) = self.examine(&decided, evaluator, best) else { continue };
            let bound = bound.max(node.bound);
            if bound < target(best.as_ref()) {
                // The simulated order is on top.
                for (first, second) in [(pair[1], pair[0]), (pair[0], pair[1])] {
                    open.push(Node { last: decisions.add(node.last, (first, second)), bound });
                }
            }
        }
        (Orders::All, nodes)
    }

    /// Simulates the node of some pairs, and keeps its schedule if it is the best. Returns the pair of the earliest choice, and a
    /// lower bound on the step; `None` if the node has no other schedule.
    fn examine(
        &self,
        orders: &[(OpId, OpId)],
        evaluator: &mut Evaluator<'_, '_>,
        best: &mut Option<Best>,
    ) -> Option<([OpId; 2], f64)> {
        let longest = self.tasks.iter().map(|task| task.tail).fold(0.0, f64::max);
        // Operators with long tails come first.
        let rank: Keyed<OpId, f64> = self.tasks.iter().map(|task| (longest - task.tail).max(0.0)).collect();
        let precedence = Precedence::new(self.graph, orders, &rank)?;
        let schedule = Schedule::by_order(self.device_of.clone(), &precedence.order);
        let score = evaluator.score(&schedule);
        let timeline = evaluator.last().1;
        let simulated = self.simulated(orders, &precedence, timeline.operators(), timeline.transfers());
        let is_possible = simulated.violation >= simulated.until
            && (score.fits() || !self.has_ports || !self.exceeds_memory(&simulated));
        let found = simulated.choice.filter(|_| is_possible).map(|pair| {
            let bound = self.bound(orders, &precedence, &simulated) + self.synchronisation;
            (pair, tolerance::round_down(bound))
        });
        if best.as_ref().is_none_or(|best| is_better(score, best.score)) {
            *best = Some(Best { score, schedule });
        }
        found
    }

    /// Finds the earliest choice and the earliest violation in a simulation.
    fn simulated<'a>(
        &self,
        orders: &[(OpId, OpId)],
        precedence: &Precedence,
        operators: &'a [Span],
        transfers: &'a [Span],
    ) -> Simulated<'a> {
        let nothing = f64::INFINITY;
        let mut simulated =
            Simulated { operators, transfers, choice: None, until: nothing, violation: nothing };
        for &(first, second) in orders {
            if simulated.start(second) < simulated.start(first) {
                simulated.violation = simulated.violation.min(simulated.start(second));
            }
        }
        let mut queues: Vec<Vec<(OpId, f64)>> = vec![Vec::new(); self.devices];
        for op in self.graph.operators() {
            let local = self.local[op].iter().map(|&input| simulated.end(input));
            let arrival = |&number: &usize| transfers[self.transfers[number].number as usize].end;
            let arriving = self.arriving[op].iter().map(arrival);
            let ready = if self.has_no_pauses { local.chain(arriving).fold(0.0, f64::max) } else { 0.0 };
            queues[self.tasks[op].device].push((op, ready));
        }
        for queue in &mut queues {
            queue.sort_by(|a, b| simulated.start(a.0).total_cmp(&simulated.start(b.0)));
            for (place, &(op, _)) in queue.iter().enumerate() {
                let start = simulated.start(op);
                if simulated.until <= start {
                    break;
                }
                let waiting = queue[place + 1..]
                    .iter()
                    .filter(|&&(other, ready)| ready <= start && !precedence.is_decided(op, other));
                let urgent = waiting
                    .map(|&(other, _)| other)
                    .max_by(|&a, &b| self.tasks[a].tail.total_cmp(&self.tasks[b].tail).then(b.cmp(&a)));
                if let Some(other) = urgent {
                    (simulated.choice, simulated.until) = (Some([op, other]), start);
                    break;
                }
            }
        }
        simulated
    }

    /// Whether some operator that starts before the earliest choice exceeds the memory of its device. Of what starts or ends
    /// at the instant of its start, only what is held beside it counts.
    fn exceeds_memory(&self, simulated: &Simulated<'_>) -> bool {
        let held = self.held(simulated);
        let counts = |&op: &OpId| simulated.has_started(op) && simulated.end(op) > simulated.start(op);
        self.graph.operators().filter(counts).any(|op| {
            let (device, start) = (self.tasks[op].device, simulated.start(op));
            let beside = held[device].iter().filter(|held| held.from <= start && held.until > start);
            let bytes = self.fixed[device] + beside.map(|held| held.bytes).sum::<f64>();
            !tolerance::fits(tolerance::round_down(bytes), self.memory[device])
        })
    }

    /// By device, the tensors and workspaces that it holds.
    fn held(&self, simulated: &Simulated<'_>) -> Vec<Vec<Held>> {
        let mut held: Vec<Vec<Held>> = (0..self.devices).map(|_| Vec::new()).collect();
        for op in self.graph.operators() {
            let (device, from, end) = (self.tasks[op].device, simulated.start(op), simulated.end(op));
            held[device].push(Held { from, until: end, bytes: self.graph.operator(op).workspace_bytes });
            for &tensor in self.graph.outputs(op) {
                let bytes = self.graph.bytes(tensor);
                let mut until = vec![0.0f64; self.devices];
                until[device] = end;
                for &reader in self.graph.consumers(tensor) {
                    let there = &mut until[self.tasks[reader].device];
                    *there = there.max(simulated.end(reader));
                }
                let transfers = self.sent[op].iter().map(|&number| &self.transfers[number]);
                for transfer in transfers.filter(|transfer| transfer.tensor == tensor) {
                    let span = simulated.transfers[transfer.number as usize];
                    until[device] = until[device].max(span.end);
                    for &to in transfer.to.iter().filter(|&&to| to != device) {
                        held[to].push(Held { from: span.start, until: until[to], bytes });
                    }
                }
                held[device].push(Held { from, until: until[device], bytes });
            }
        }
        held
    }

    /// Lower bound on the last end of an operator in every schedule of a node.
    fn bound(&self, orders: &[(OpId, OpId)], precedence: &Precedence, simulated: &Simulated<'_>) -> f64 {
        let mut before: Keyed<OpId, Vec<OpId>> = Keyed::filled(Vec::new(), self.tasks.len());
        let mut after = before.clone();
        for &(first, second) in orders {
            before[second].push(first);
            after[first].push(second);
        }
        let (heads, starts) = self.heads(&before, precedence, simulated);
        let (tails, later) = self.tails(&after, precedence);
        let mut jobs: Vec<Vec<[f64; 3]>> = vec![Vec::new(); self.devices + self.ports];
        for op in self.graph.operators() {
            let task = self.tasks[op];
            jobs[task.device].push([heads[op], task.seconds, tails[op]]);
        }
        for (number, transfer) in self.transfers.iter().enumerate() {
            for &(port, _) in &transfer.ports {
                jobs[self.devices + port as usize].push([starts[number], transfer.seconds, later[number]]);
            }
        }
        jobs.into_iter().map(|jobs| one_device(jobs.into_iter())).fold(0.0, f64::max)
    }

    /// Lower bounds on the start of every operator and of every transfer.
    fn heads(
        &self,
        before: &Keyed<OpId, Vec<OpId>>,
        precedence: &Precedence,
        simulated: &Simulated<'_>,
    ) -> (Keyed<OpId, f64>, Vec<f64>) {
        let mut free = vec![simulated.until; self.devices];
        for op in self.graph.operators().filter(|&op| simulated.has_started(op)) {
            let device = self.tasks[op].device;
            free[device] = free[device].max(simulated.end(op));
        }
        let mut heads = Keyed::filled(0.0f64, self.tasks.len());
        let mut starts = vec![0.0f64; self.transfers.len()];
        for &op in &precedence.order {
            let task = self.tasks[op];
            let end = |other: OpId| heads[other] + self.tasks[other].seconds;
            let earlier = || bits::members(precedence.before(op)).map(OpId::new);
            let head = if simulated.has_started(op) {
                simulated.start(op)
            } else {
                let inputs = self.local[op].iter().chain(&before[op]).map(|&input| end(input));
                let arrivals =
                    self.arriving[op].iter().map(|&number| starts[number] + self.transfers[number].seconds);
                // Those that precede it on its device run one after another.
                let beside = earlier().filter(|&other| {
                    self.tasks[other].device == task.device && !simulated.has_started(other)
                });
                let (first, sum) = beside.fold((f64::INFINITY, 0.0), |(first, sum), other| {
                    (f64::min(first, heads[other]), sum + self.tasks[other].seconds)
                });
                let one_by_one = if sum > 0.0 { first + sum } else { 0.0 };
                inputs.chain(arrivals).fold(task.head.max(free[task.device]).max(one_by_one), f64::max)
            };
            let request = head + task.seconds;
            // By port, when what was requested before has passed.
            let mut passed: Vec<(u32, f64)> = Vec::new();
            for &number in &self.sent[op] {
                let transfer = &self.transfers[number];
                starts[number] = if simulated.has_sent(op) {
                    simulated.transfers[transfer.number as usize].start
                } else {
                    let mut start = |&(port, own): &(u32, f64)| {
                        if let Some(&(_, known)) = passed.iter().find(|passed| passed.0 == port) {
                            return known + own;
                        }
                        // What precedes an operator that takes time has requested its transfers before.
                        let (mut first, mut sum) = (request, 0.0);
                        for other in earlier()
                            .filter(|&other| task.seconds > self.instant && !simulated.has_sent(other))
                        {
                            let carried = self.carried[other].iter().find(|carried| carried.0 == port);
                            if let Some(&(_, seconds)) = carried {
                                (first, sum) = (first.min(end(other)), sum + seconds);
                            }
                        }
                        let after = f64::max(request, first + sum);
                        passed.push((port, after));
                        after + own
                    };
                    transfer.ports.iter().map(&mut start).fold(request, f64::max)
                };
            }
            heads[op] = head;
        }
        (heads, starts)
    }

    /// Lower bounds on the time from the end of every operator, and from that of every transfer, to the last end of an
    /// operator.
    fn tails(&self, after: &Keyed<OpId, Vec<OpId>>, precedence: &Precedence) -> (Keyed<OpId, f64>, Vec<f64>) {
        let mut tails = Keyed::filled(0.0f64, self.tasks.len());
        let mut later = vec![0.0f64; self.transfers.len()];
        for &op in precedence.order.iter().rev() {
            let task = self.tasks[op];
            let through = |other: &OpId| self.tasks[*other].seconds + tails[*other];
            let is_here = |other: &&OpId| self.tasks[**other].device == task.device;
            let readers = self.graph.successors(op).iter().filter(is_here);
            let mut tail = readers.chain(&after[op]).map(through).fold(task.tail, f64::max);
            for &number in &self.sent[op] {
                let transfer = &self.transfers[number];
                later[number] = transfer.readers.iter().map(through).fold(0.0, f64::max);
                let own = transfer.ports.iter().map(|&(_, own)| own).fold(0.0, f64::max);
                tail = tail.max(own + transfer.seconds + later[number]);
            }
            tails[op] = tail;
        }
        (tails, later)
    }
}

/// The value that a better step must stay below.
pub(super) fn target(best: Option<&Best>) -> f64 {
    match best {
        Some(best) if best.score.fits() => tolerance::round_down(best.score.makespan),
        _ => f64::INFINITY,
    }
}
