//! The tree: propagation, branching, and the plans found on the way.

use std::slice;

use stagewright_core::bits::members;
use stagewright_core::bound::makespan::{Reach, energy_at, one_device};
use stagewright_core::bound::{Column, LowerBound, divided};
use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::{ClassId, Graph, OpId, TensorId};
use stagewright_core::ids::Keyed;
use stagewright_core::solver::{Context, Event, Stop};
use stagewright_core::tolerance;

use super::super::instance::Instance;
use super::super::schedule::{Best, Evaluator, Schedule, is_better};
use super::node::{Node, Precedence};
use super::orders::{Orders, Placed, target};

/// Maximum number of rounds of propagation at a node.
const MAX_ROUNDS: usize = 4;

/// Maximum number of numberings of the devices of a placement.
const MAX_NUMBERINGS: usize = 40_320;

/// Share of the sum of all seconds that rounding may hide at any time of the step.
const ROUNDING: f64 = 8.0 * f64::EPSILON;

/// Maximum number of operators decided to run on a device for which tensors that wait for later readers are added up.
const MAX_KEPT: usize = 128;

/// Number of simulations for the schedules of a placement, and the growth of this number whenever no other node is left.
const FEWEST_SIMULATIONS: u64 = 256;
const GROWTH: u64 = 8;

/// How the search ended.
pub(super) enum Outcome {
    /// No open node is left.
    Exhausted,
    /// The search ended at a limit, with the lowest bound of the open nodes.
    Open(f64),
}

/// The open nodes, and the best schedule.
pub(super) struct Tree<'s, 'p> {
    instance: &'s Instance<'p>,
    graph: &'p Graph,
    evaluator: Evaluator<'s, 'p>,
    stop: Stop,
    reach: Reach<'p>,
    devices: usize,
    /// Seconds by operator and device, before any decision.
    seconds: Vec<f64>,
    /// Price of a second by device.
    prices: Vec<f64>,
    /// Bytes that the operator of a class with the most of them needs while it runs, beside what is resident: workspace,
    /// inputs and outputs.
    working: Keyed<ClassId, f64>,
    /// Whether some device may not hold everything.
    is_scarce: bool,
    open: Vec<Node>,
    /// Placements some of whose schedules were not considered yet, and the number of simulations that each of them had.
    postponed: Vec<Node>,
    simulations: u64,
    /// Maximum number of nodes, simulations of placements included.
    max_nodes: u64,
    /// Lowest bound of the placements for which some numbering of the devices was not tried.
    untried: f64,
    pub(super) best: Option<Best>,
    pub(super) nodes: u64,
}

/// Result of propagation at a node.
struct Settled {
    /// Bound for every class on every device: the longest path through an operator of the class on that device.
    through: Vec<f64>,
}

impl<'s, 'p> Tree<'s, 'p> {
    pub(super) fn new(
        instance: &'s Instance<'p>,
        evaluator: Evaluator<'s, 'p>,
        reach: Reach<'p>,
        best: Option<Best>,
        bound: &LowerBound,
        stop: Stop,
    ) -> Tree<'s, 'p> {
        let graph = instance.graph();
        let devices = instance.device_count();
        let mut seconds = Vec::with_capacity(graph.operator_count() * devices);
        for op in graph.operators() {
            seconds.extend((0..devices).map(|device| reach.at(op, device)[1]));
        }
        let domain = |class: ClassId| {
            let op = graph.class(class)[0];
            (0..devices)
                .filter(|&device| seconds[op.index() * devices + device].is_finite())
                .fold(0, |bits, device| bits | 1 << device)
        };
        let root =
            Node { devices: graph.class_ids().map(domain).collect(), orders: Vec::new(), bound: bound.value };
        let mut tree = Tree {
            instance,
            graph,
            evaluator,
            stop,
            reach,
            devices,
            seconds,
            prices: vec![1.0 / devices as f64; devices],
            working: Keyed::default(),
            is_scarce: false,
            open: vec![root],
            postponed: Vec::new(),
            simulations: FEWEST_SIMULATIONS,
            max_nodes: u64::MAX,
            untried: f64::INFINITY,
            best,
            nodes: 0,
        };
        let running =
            |class: ClassId| graph.class(class).iter().map(|&op| tree.running(op)).fold(0.0, f64::max);
        tree.working = graph.class_ids().map(running).collect();
        let pools = instance.problem().pools();
        let tensors: f64 = graph.tensors().map(|tensor| graph.bytes(tensor)).sum();
        let fixed: f64 = graph.class_ids().map(|class| instance.fixed_bytes(class)).sum();
        let all: f64 =
            graph.operators().map(|op| graph.operator(op).workspace_bytes).sum::<f64>() + tensors + fixed;
        tree.is_scarce = pools.iter().any(|pool| all > pool.memory);
        let columns: Vec<(usize, f64)> =
            pools.iter().map(|pool| (pool.devices[0].index(), pool.devices.len() as f64)).collect();
        if let Some(shares) = tree.shares(&columns, |class| tree.open[0].devices[class]) {
            for (pool, share) in pools.iter().zip(shares) {
                for device in &pool.devices {
                    tree.prices[device.index()] = share / pool.devices.len() as f64;
                }
            }
        }
        tree
    }

    /// The shares of the devices in the fluid bound if every class may run on the devices of `domain`. A column is a
    /// device and the number of those like it.
    fn shares(&self, columns: &[(usize, f64)], domain: impl Fn(ClassId) -> u64) -> Option<Vec<f64>> {
        let seconds = |class: ClassId, device: usize| {
            let seconds = |&op: &OpId| self.seconds[op.index() * self.devices + device];
            (domain(class) >> device & 1 == 1).then(|| self.graph.class(class).iter().map(seconds).sum())
        };
        let column = |&(device, devices): &(usize, f64)| Column {
            devices,
            seconds: self.graph.class_ids().map(|class| seconds(class, device)).collect(),
        };
        let columns: Vec<Column> = columns.iter().map(column).collect();
        divided(&columns).map(|(_, shares)| shares)
    }

    /// Searches depth first until no open node is left, `max_nodes` nodes were expanded, or a limit applies.
    pub(super) fn run(&mut self, max_nodes: u64, context: &mut Context<'_>) -> Outcome {
        self.max_nodes = max_nodes;
        context.emit(Event::Phase { name: "branch and bound".into() });
        let mut value = self.target();
        loop {
            let Some(node) = self.open.pop() else {
                if self.postponed.is_empty() {
                    break;
                }
                self.simulations *= GROWTH;
                self.open = std::mem::take(&mut self.postponed);
                self.open.sort_by(|a, b| b.bound.total_cmp(&a.bound));
                continue;
            };
            let others = self.open.iter().chain(&self.postponed);
            let least = others.map(|node| node.bound).fold(node.bound, f64::min);
            if self.nodes >= max_nodes
                || self.stop.reason().is_some()
                || context.gap_reached(self.target(), least)
            {
                self.open.push(node);
                return Outcome::Open(least.min(self.untried).min(self.target()));
            }
            self.nodes += 1;
            self.expand(node);
            if self.target() < value {
                value = self.target();
                context.emit(Event::Incumbent {
                    value: self.best.as_ref().map_or(value, |best| best.score.makespan),
                });
            }
        }
        if self.untried < self.target() { Outcome::Open(self.untried) } else { Outcome::Exhausted }
    }

    /// The value that a better step must stay below.
    fn target(&self) -> f64 {
        target(self.best.as_ref())
    }

    fn expand(&mut self, mut node: Node) {
        if node.bound >= self.target() {
            return;
        }
        let Some(settled) = self.propagate(&mut node) else { return };
        self.complete(&node, &settled);
        if node.bound >= self.target() {
            return;
        }
        let Some(class) = self.class_to_decide(&node, &settled) else {
            self.order(node);
            return;
        };
        let children = self.on_each_device(&node, class, &settled);
        let mut children: Vec<Node> =
            children.into_iter().filter(|child| child.bound < self.target()).collect();
        // The most promising child is on top.
        children.sort_by(|a, b| b.bound.total_cmp(&a.bound));
        self.open.extend(children);
    }

    /// Excludes devices and orders until a fixed point; `None` if the node has no step below the target.
    fn propagate(&mut self, node: &mut Node) -> Option<Settled> {
        for round in 1.. {
            // Before the first sweep there are no tails, and any order will do.
            let rank: Keyed<OpId, f64> = Keyed::filled(0.0, self.graph.operator_count());
            let precedence = Precedence::new(self.graph, &node.orders, &rank)?;
            let mut seconds = self.seconds.clone();
            for op in self.graph.operators() {
                let devices = node.devices[self.graph.class_of(op)];
                for (device, entry) in
                    seconds[op.index() * self.devices..][..self.devices].iter_mut().enumerate()
                {
                    if devices >> device & 1 == 0 {
                        *entry = f64::INFINITY;
                    }
                }
            }
            self.reach.decide(&seconds, &node.orders, precedence.order.clone());
            node.bound = node.bound.max(tolerance::round_down(self.reach.longest()));
            let target = self.target();
            if node.bound >= target {
                return None;
            }
            let (through, mut has_changed) = self.exclude_devices(node, target)?;
            if self.is_scarce {
                has_changed |= self.exclude_full(node, &precedence)?;
            }
            has_changed |= self.exclude_orders(node, &precedence, target)?;
            node.bound = node.bound.max(tolerance::round_down(self.busiest_port(node)));
            if node.bound >= target {
                return None;
            }
            if !has_changed || round == MAX_ROUNDS {
                let mut energy = energy_at(&self.reach, &self.prices);
                if energy < target && self.devices == 2 {
                    let shares = self.shares(&[(0, 1.0), (1, 1.0)], |class| node.devices[class]);
                    energy = shares.map_or(energy, |shares| energy.max(energy_at(&self.reach, &shares)));
                }
                node.bound = node.bound.max(tolerance::round_down(energy));
                if node.bound >= target {
                    return None;
                }
                return Some(Settled { through });
            }
        }
        None
    }

    /// Longest path through an operator on a device.
    fn path(&self, op: OpId, device: usize) -> f64 {
        self.reach.at(op, device).iter().sum()
    }

    fn exclude_devices(&self, node: &mut Node, target: f64) -> Option<(Vec<f64>, bool)> {
        let mut has_changed = false;
        let mut through = vec![f64::INFINITY; self.graph.class_count() * self.devices];
        for class in self.graph.class_ids() {
            for device in members(&[node.devices[class]]) {
                let operators = self.graph.class(class).iter();
                let longest = operators.map(|&op| self.path(op, device)).fold(0.0, f64::max);
                through[class.index() * self.devices + device] = longest;
                if tolerance::round_down(longest) >= target {
                    node.devices[class] &= !(1 << device);
                    has_changed = true;
                }
            }
            if node.devices[class] == 0 {
                return None;
            }
        }
        Some((through, has_changed))
    }

    /// Excludes the devices whose memory does not hold a class beside the classes that are decided to run there; `None` if
    /// some class has no device left.
    fn exclude_full(&self, node: &mut Node, precedence: &Precedence) -> Option<bool> {
        let graph = self.graph;
        let mut resident = vec![0.0f64; self.devices];
        for class in graph.class_ids() {
            if let Some(device) = node.device_of(class) {
                resident[device] += self.instance.fixed_bytes(class);
            }
        }
        // The most bytes that one of the decided operators needs while it runs.
        let mut working = vec![0.0f64; self.devices];
        let decided = self.decided(node);
        for (device, operators) in decided.iter().enumerate() {
            let all = if operators.len() <= MAX_KEPT { &operators[..] } else { &[] };
            for &op in operators {
                let kept = all.iter().filter(|&&producer| precedence.is_before(producer, op));
                let bytes: f64 =
                    kept.map(|&producer| self.kept(node, precedence, producer, op, device)).sum();
                working[device] = working[device].max(bytes + self.running(op));
            }
        }
        let mut has_changed = false;
        for class in graph.class_ids() {
            let is_decided = node.device_of(class).is_some();
            for device in members(&[node.devices[class]]) {
                let own = if is_decided { 0.0 } else { self.instance.fixed_bytes(class) };
                let needed = resident[device] + own + working[device].max(self.working[class]);
                if !tolerance::fits(
                    tolerance::round_down(needed),
                    self.instance.memory(DeviceId::new(device)),
                ) {
                    node.devices[class] &= !(1 << device);
                    has_changed = true;
                }
            }
            if node.devices[class] == 0 {
                return None;
            }
        }
        Some(has_changed)
    }

    /// Bytes that an operator needs while it runs, beside what is resident: workspace, inputs and outputs.
    fn running(&self, op: OpId) -> f64 {
        let tensors = self.graph.inputs(op).iter().chain(self.graph.outputs(op));
        let bytes: f64 = tensors.map(|&tensor| self.graph.bytes(tensor)).sum();
        self.graph.operator(op).workspace_bytes + bytes
    }

    /// Bytes of the outputs of a producer that a device keeps while an operator runs that does not read them, for readers
    /// that run later there.
    fn kept(&self, node: &Node, precedence: &Precedence, producer: OpId, op: OpId, device: usize) -> f64 {
        let graph = self.graph;
        let is_kept = |&&tensor: &&TensorId| {
            let readers = graph.consumers(tensor);
            !readers.contains(&op)
                && readers.iter().any(|&reader| {
                    node.device_of(graph.class_of(reader)) == Some(device) && precedence.is_before(op, reader)
                })
        };
        graph.outputs(producer).iter().filter(is_kept).map(|&tensor| graph.bytes(tensor)).sum()
    }

    /// The operators that are decided to run on each device.
    fn decided(&self, node: &Node) -> Vec<Vec<OpId>> {
        let mut on: Vec<Vec<OpId>> = vec![Vec::new(); self.devices];
        for op in self.graph.operators() {
            if let Some(device) = node.device_of(self.graph.class_of(op)) {
                on[device].push(op);
            }
        }
        on
    }

    /// Decides the order of two operators on one device if the other order exceeds the target.
    fn exclude_orders(&self, node: &mut Node, precedence: &Precedence, target: f64) -> Option<bool> {
        let before = node.orders.len();
        for (device, operators) in self.decided(node).into_iter().enumerate() {
            let machine = one_device(operators.iter().map(|&op| self.reach.at(op, device)));
            node.bound = node.bound.max(tolerance::round_down(machine));
            if node.bound >= target {
                return None;
            }
            for (index, &a) in operators.iter().enumerate() {
                for &b in &operators[index + 1..] {
                    if precedence.is_decided(a, b) {
                        continue;
                    }
                    let is_late =
                        |first, second| tolerance::round_down(self.in_order(first, second, device)) >= target;
                    match (is_late(a, b), is_late(b, a)) {
                        (true, true) => return None,
                        (true, false) => node.orders.push((b, a)),
                        (false, true) => node.orders.push((a, b)),
                        (false, false) => {}
                    }
                }
            }
        }
        Some(node.orders.len() > before)
    }

    /// Lower bound on the step from the ports. The transfers of a port between decided devices follow one another, each
    /// after the head of its tensor and before the longest tail of its readers on the receiving device.
    fn busiest_port(&self, node: &Node) -> f64 {
        if !self.instance.has_ports() {
            return 0.0;
        }
        let device_of = |op: OpId| node.device_of(self.graph.class_of(op));
        let mut transfers: Vec<Vec<[f64; 3]>> = Vec::new();
        for tensor in self.graph.tensors() {
            let producer = self.graph.producer(tensor);
            let Some(from) = device_of(producer) else { continue };
            let [head, seconds, _] = self.reach.at(producer, from);
            let mut tails: Vec<(usize, f64)> = Vec::new();
            for &reader in self.graph.consumers(tensor) {
                if let Some(to) = device_of(reader).filter(|&to| to != from) {
                    let [_, own, tail] = self.reach.at(reader, to);
                    match tails.iter_mut().find(|(device, _)| *device == to) {
                        Some((_, longest)) => *longest = longest.max(own + tail),
                        None => tails.push((to, own + tail)),
                    }
                }
            }
            for (to, tail) in tails {
                let route = self.instance.fabric().route(tensor, DeviceId::new(from), DeviceId::new(to));
                for port in route.ports() {
                    let port = port as usize;
                    if transfers.len() <= port {
                        transfers.resize(port + 1, Vec::new());
                    }
                    transfers[port].push([head + seconds, route.seconds, tail]);
                }
            }
        }
        transfers.into_iter().map(|port| one_device(port.into_iter())).fold(0.0, f64::max)
    }

    /// Lower bound on the step if one operator runs before another on a device.
    fn in_order(&self, first: OpId, second: OpId, device: usize) -> f64 {
        let ([head, seconds, _], [_, own, tail]) =
            (self.reach.at(first, device), self.reach.at(second, device));
        head + seconds + own + tail
    }

    /// Simulates the node with every undecided class on its most promising device, and keeps the schedule if it is
    /// better than the best.
    fn complete(&mut self, node: &Node, settled: &Settled) {
        let mut load = vec![0.0; self.devices];
        let mut device_of = vec![DeviceId(0); self.graph.operator_count()];
        for class in self.graph.class_ids() {
            let operators = self.graph.class(class);
            let seconds = |device: usize| -> f64 {
                operators.iter().map(|&op| self.seconds[op.index() * self.devices + device]).sum()
            };
            let end = |device: usize| {
                (settled.through[class.index() * self.devices + device], load[device] + seconds(device))
            };
            let better = |&a: &usize, &b: &usize| {
                let (a, b) = (end(a), end(b));
                a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
            };
            let Some(device) = members(slice::from_ref(&node.devices[class])).min_by(better) else { return };
            load[device] += seconds(device);
            for &op in operators {
                device_of[op.index()] = DeviceId::new(device);
            }
        }
        let longest_tail =
            self.graph.operators().map(|op| self.reach.at(op, device_of[op.index()].index())[2]);
        let tails: Keyed<OpId, f64> = longest_tail.collect();
        let longest = tails.iter().copied().fold(0.0, f64::max);
        // Operators with long tails come first.
        let rank: Keyed<OpId, f64> = tails.iter().map(|tail| (longest - tail).max(0.0)).collect();
        let Some(precedence) = Precedence::new(self.graph, &node.orders, &rank) else { return };
        self.try_schedule(Schedule::by_order(device_of, &precedence.order));
    }

    /// Simulates a schedule, and keeps it if it is better than the best.
    fn try_schedule(&mut self, schedule: Schedule) {
        let score = self.evaluator.score(&schedule);
        if self.best.as_ref().is_none_or(|best| is_better(score, best.score)) {
            self.best = Some(Best { score, schedule });
        }
    }

    /// Searches the schedules of a placement, under every numbering of its devices that may make a difference.
    fn order(&mut self, node: Node) {
        let devices: Vec<usize> = self
            .graph
            .operators()
            .map(|op| node.device_of(self.graph.class_of(op)).unwrap_or_default())
            .collect();
        let instant = self.instant(&devices);
        let (numberings, is_all) = self.numberings(&devices, instant);
        if !is_all {
            self.untried = self.untried.min(node.bound);
        }
        let mut left_out = f64::INFINITY;
        let mut left = self.simulations.min(self.max_nodes.saturating_sub(self.nodes));
        let share = (left / numberings.len() as u64).max(1);
        for numbers in numberings {
            if self.stop.reason().is_some() || left == 0 {
                left_out = left_out.min(node.bound);
                break;
            }
            let device_of = devices.iter().map(|&device| DeviceId::new(numbers[device])).collect();
            let schedule = Schedule::without_priority(device_of);
            self.evaluator.score(&schedule);
            let (flow, timeline) = self.evaluator.last();
            let is_full = |(device, &bytes): (usize, &f64)| {
                !tolerance::fits(bytes, self.instance.memory(DeviceId::new(device)))
            };
            if flow.fixed_bytes().iter().enumerate().any(is_full) {
                continue;
            }
            let sides = |op: OpId| self.reach.at(op, devices[op.index()]);
            let synchronisation = timeline.synchronisation();
            let placed =
                Placed::new(self.instance, schedule.device_of, sides, flow, synchronisation, instant);
            let most = share.min(left);
            let (found, nodes) =
                placed.search(&node.orders, &mut self.evaluator, &mut self.best, most, &self.stop);
            self.nodes += nodes;
            left -= nodes;
            if let Orders::Some(least) = found {
                left_out = left_out.min(least.max(node.bound));
            }
        }
        if left_out < self.target() {
            self.postponed.push(Node { bound: left_out, ..node });
        }
    }

    /// Seconds above which an activity of a placement ends after the instant of its start, whatever the rounding.
    fn instant(&self, devices: &[usize]) -> f64 {
        let seconds: f64 = self
            .graph
            .operators()
            .map(|op| self.seconds[op.index() * self.devices + devices[op.index()]])
            .sum();
        let transfers: f64 = self.graph.tensors().flat_map(|tensor| self.routes(tensor, devices)).sum();
        ROUNDING * (seconds + transfers)
    }

    /// Seconds of the transfers of a tensor, by reader on another device.
    fn routes(&self, tensor: TensorId, devices: &[usize]) -> impl Iterator<Item = f64> {
        let from = devices[self.graph.producer(tensor).index()];
        let away =
            self.graph.consumers(tensor).iter().map(|&op| devices[op.index()]).filter(move |&to| to != from);
        away.map(move |to| {
            self.instance.fabric().route(tensor, DeviceId::new(from), DeviceId::new(to)).seconds
        })
    }

    /// The numberings of the devices that may make a difference to a placement: by device, its number. At one instant, a
    /// tensor is sent first to the device of lower index. If there are too many, only the one as it is, and `false`.
    fn numberings(&self, devices: &[usize], instant: f64) -> (Vec<Vec<usize>>, bool) {
        let identity: Vec<usize> = (0..self.devices).collect();
        if !self.instance.pools_are_uniform() || !self.depends_on_numbers(devices, instant) {
            return (vec![identity], true);
        }
        let mut used = devices.to_vec();
        used.sort_unstable();
        used.dedup();
        let pool = |device: usize| self.instance.pool_of(DeviceId::new(device));
        // Only the order of the used devices matters: of a pool without others between its devices, the first ones suffice.
        let numbers_of = |device: usize| {
            let all: Vec<usize> = (0..self.devices).filter(|&other| pool(other) == pool(device)).collect();
            let is_whole =
                all.last().zip(all.first()).is_some_and(|(last, first)| last - first + 1 == all.len());
            let count = used.iter().filter(|&&other| pool(other) == pool(device)).count();
            if is_whole { all[..count].to_vec() } else { all }
        };
        let mut numberings: Vec<Vec<usize>> = vec![Vec::new()];
        for &device in &used {
            let all = numbers_of(device);
            if numberings.len() * all.len() > MAX_NUMBERINGS * self.devices {
                return (vec![identity], false);
            }
            let longer = numberings.iter().flat_map(|numbers| {
                let free = all.iter().filter(|other| !numbers.contains(other));
                free.map(|&other| [numbers.as_slice(), &[other]].concat())
            });
            numberings = longer.collect();
            if numberings.len() > MAX_NUMBERINGS {
                return (vec![identity], false);
            }
        }
        let by_device = |numbers: Vec<usize>| {
            let mut all = identity.clone();
            used.iter().zip(numbers).for_each(|(&device, number)| all[device] = number);
            all
        };
        (numberings.into_iter().map(by_device).collect(), true)
    }

    /// Whether the step of a placement may depend on the numbers of its devices: some tensor goes to several devices,
    /// or an operator or transfer takes no time, so that starts at one instant depend on the order of earlier ones.
    fn depends_on_numbers(&self, devices: &[usize], instant: f64) -> bool {
        let takes_no_time =
            |op: OpId| self.seconds[op.index() * self.devices + devices[op.index()]] <= instant;
        self.graph.operators().any(takes_no_time)
            || self.graph.tensors().any(|tensor| {
                let from = devices[self.graph.producer(tensor).index()];
                let mut away = self.graph.consumers(tensor).iter().map(|&op| devices[op.index()]);
                let first = away.clone().find(|&to| to != from);
                away.any(|to| to != from && Some(to) != first)
                    || self.routes(tensor, devices).any(|seconds| seconds <= instant)
            })
    }

    /// The undecided class whose second-best device has the largest bound.
    fn class_to_decide(&self, node: &Node, settled: &Settled) -> Option<ClassId> {
        let regret = |class: ClassId| {
            let mut least = [f64::INFINITY; 2];
            for device in members(slice::from_ref(&node.devices[class])) {
                let through = settled.through[class.index() * self.devices + device];
                if through < least[0] {
                    least = [through, least[0]];
                } else if through < least[1] {
                    least[1] = through;
                }
            }
            let seconds: f64 =
                self.graph.class(class).iter().map(|&op| self.instance.least_seconds(op)).sum();
            (least[1], seconds)
        };
        let undecided = self.graph.class_ids().filter(|&class| node.device_of(class).is_none());
        undecided.max_by(|&a, &b| {
            let (a, b) = (regret(a), regret(b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        })
    }

    fn on_each_device(&self, node: &Node, class: ClassId, settled: &Settled) -> Vec<Node> {
        let mut tried: Vec<usize> = Vec::new();
        let mut children = Vec::new();
        for device in members(slice::from_ref(&node.devices[class])) {
            if tried.iter().any(|&other| self.are_interchangeable(node, device, other)) {
                continue;
            }
            tried.push(device);
            let mut child = node.clone();
            child.devices[class] = 1 << device;
            let through = settled.through[class.index() * self.devices + device];
            child.bound = child.bound.max(tolerance::round_down(through));
            children.push(child);
        }
        children
    }

    /// Whether two devices differ only in their numbers, and no class is decided to run on either of them.
    fn are_interchangeable(&self, node: &Node, a: usize, b: usize) -> bool {
        let pool = |device: usize| self.instance.pool_of(DeviceId::new(device));
        self.instance.pools_are_uniform()
            && pool(a) == pool(b)
            && node.devices.iter().all(|&devices| devices >> a & 1 == devices >> b & 1)
    }
}
