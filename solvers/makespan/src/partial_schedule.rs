//! A partial schedule: a Gantt chart to which operators are added in topological order.
//!
//! The times of a partial schedule are estimates. An operator fills the first gap on its device that is long enough
//! once its inputs can have arrived (the insertion of HEFT). A transfer leaves when the transfers added earlier have
//! left its ports, although the simulator serves transfers in the order of their requests. The memory in use counts the
//! bytes that stay on a device until all their readers are in the schedule. A partial schedule therefore only guides;
//! the simulator decides.

use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::{ClassId, OpId, TensorId};
use stagewright_core::ids::Keyed;
use stagewright_core::tolerance;

use super::instance::Instance;
use super::schedule::Schedule;

const NOWHERE: DeviceId = DeviceId(u32::MAX);

/// A partial schedule.
#[derive(Debug, Clone)]
pub(super) struct PartialSchedule<'s, 'p> {
    instance: &'s Instance<'p>,
    /// Memory of every device available to the schedule.
    room: Keyed<DeviceId, f64>,
    used: Keyed<DeviceId, f64>,
    device_of: Keyed<OpId, DeviceId>,
    home_of_class: Keyed<ClassId, DeviceId>,
    span: Keyed<OpId, [f64; 2]>,
    /// Idle intervals of every device, in order; the last never ends.
    gaps: Keyed<DeviceId, Vec<[f64; 2]>>,
    /// Devices that each tensor has been sent to, ascending, with arrival times.
    copies: Keyed<TensorId, Vec<(DeviceId, f64)>>,
    /// Devices that hold each shared parameter, ascending.
    holders: Keyed<u32, Vec<DeviceId>>,
    /// Times at which the ports become free.
    ports: Keyed<u32, f64>,
    /// Number of readers of each tensor that are not scheduled yet.
    unread: Keyed<TensorId, usize>,
    /// Inputs of the current operator, by the end of their producers.
    inputs: Vec<(f64, TensorId)>,
    /// Times at which the ports become free after the earlier inputs of the current operator; zero for ports not in
    /// `touched`.
    taken: Keyed<u32, f64>,
    touched: Vec<u32>,
    /// Whether each device has an operator.
    is_busy: Keyed<DeviceId, bool>,
    /// Whether the schedule is completed once a limit applies, without comparing devices.
    in_a_hurry: bool,
    /// By pool, the last turn in which an empty device of the pool was seen.
    empty_seen: Vec<u32>,
    turn: u32,
}

impl<'s, 'p> PartialSchedule<'s, 'p> {
    /// An empty schedule whose devices may be filled to a fraction of their memory.
    pub(super) fn new(instance: &'s Instance<'p>, share: f64) -> PartialSchedule<'s, 'p> {
        let graph = instance.graph();
        let devices = instance.device_count();
        let ports = instance.fabric().ports().count() as usize;
        PartialSchedule {
            instance,
            room: instance
                .problem()
                .cluster()
                .devices()
                .map(|device| instance.memory(device) * share)
                .collect(),
            used: Keyed::filled(0.0, devices),
            device_of: Keyed::filled(NOWHERE, graph.operator_count()),
            home_of_class: Keyed::filled(NOWHERE, graph.class_count()),
            span: Keyed::filled([0.0; 2], graph.operator_count()),
            gaps: Keyed::filled(vec![[0.0, f64::INFINITY]], devices),
            copies: Keyed::filled(Vec::new(), graph.tensor_count()),
            holders: Keyed::filled(Vec::new(), graph.parameters().len()),
            ports: Keyed::filled(0.0, ports),
            unread: graph.tensors().map(|tensor| graph.consumers(tensor).len()).collect(),
            inputs: Vec::new(),
            taken: Keyed::filled(0.0, ports),
            touched: Vec::new(),
            is_busy: Keyed::filled(false, devices),
            in_a_hurry: false,
            empty_seen: vec![0; instance.pool_count()],
            turn: 0,
        }
    }

    /// Makes the scheduler complete the schedule once a limit applies, without comparing devices.
    pub(super) fn complete_in_a_hurry(&mut self) {
        self.in_a_hurry = true;
    }

    /// Whether [`PartialSchedule::complete_in_a_hurry`] was called.
    pub(super) fn is_completed_in_a_hurry(&self) -> bool {
        self.in_a_hurry
    }

    /// A device for an operator, chosen without a comparison: the device of its class; otherwise the device of the
    /// producer that ends last, if that has room; otherwise the next device in turn that has room.
    pub(super) fn nearest(&mut self, op: OpId) -> Option<DeviceId> {
        self.turn += 1;
        let graph = self.instance.graph();
        let class = graph.class_of(op);
        if self.home_of_class[class] != NOWHERE {
            return Some(self.home_of_class[class]);
        }
        let last = graph.predecessors(op).iter().max_by(|&&a, &&b| self.end(a).total_cmp(&self.end(b)));
        let has_room = |device: &DeviceId| self.lack(op, *device) <= 0.0;
        let near = last.and_then(|&last| self.device(last)).filter(|&device| {
            self.instance.homes_of_class(class).binary_search(&device).is_ok() && has_room(&device)
        });
        let homes = self.instance.homes_of_class(class);
        let (before, after) = homes.split_at(self.turn as usize % homes.len().max(1));
        let mut in_turn = after.iter().chain(before).copied();
        near.or_else(|| in_turn.find(has_room)).or_else(|| homes.first().copied())
    }

    /// The instance.
    pub(super) fn instance(&self) -> &'s Instance<'p> {
        self.instance
    }

    /// The devices that an operator may be added to: the device of its class if the class is already placed, otherwise
    /// the devices with room for the class, otherwise the device with the smallest overflow. Only the first of several
    /// interchangeable empty devices is tried.
    pub(super) fn candidates(&mut self, op: OpId, into: &mut Vec<DeviceId>) {
        into.clear();
        let class = self.instance.graph().class_of(op);
        if self.home_of_class[class] != NOWHERE {
            into.push(self.home_of_class[class]);
            return;
        }
        let homes = self.instance.homes_of_class(class);
        let mut empty_seen = std::mem::take(&mut self.empty_seen);
        self.turn += 1;
        let is_twin = |device: DeviceId, empty_seen: &mut Vec<u32>| {
            let pool = self.instance.pool_of(device);
            !self.is_busy[device]
                && self.instance.pools_are_uniform()
                && std::mem::replace(&mut empty_seen[pool], self.turn) == self.turn
        };
        into.extend(
            homes.iter().filter(|&&device| !is_twin(device, &mut empty_seen) && self.lack(op, device) <= 0.0),
        );
        self.empty_seen = empty_seen;
        if into.is_empty() {
            let least = |a: &&DeviceId, b: &&DeviceId| self.lack(op, **a).total_cmp(&self.lack(op, **b));
            into.extend(homes.iter().min_by(least));
        }
    }

    /// Bytes that a device lacks for an operator and the parameters of its class; zero or less if it has room.
    fn lack(&self, op: OpId, device: DeviceId) -> f64 {
        let graph = self.instance.graph();
        if self.room[device] == f64::INFINITY {
            return 0.0;
        }
        let class = graph.class_of(op);
        let own = if self.home_of_class[class] == NOWHERE { self.instance.fixed_bytes(class) } else { 0.0 };
        let missing = |parameter: &&u32| !self.is_held(**parameter, device);
        let shared = graph.parameters_of(op).iter().filter(missing).map(|&it| self.instance.shared_bytes(it));
        let fixed = own + shared.sum::<f64>();
        let made: f64 = graph.outputs(op).iter().map(|&tensor| graph.bytes(tensor)).sum();
        let is_away = |tensor: &&TensorId| !self.is_on(**tensor, device);
        let brought: f64 = graph.inputs(op).iter().filter(is_away).map(|&tensor| graph.bytes(tensor)).sum();
        let needs = self.used[device] + fixed + made + brought + graph.operator(op).workspace_bytes;
        if tolerance::fits(needs, self.room[device]) { 0.0 } else { needs - self.room[device] }
    }

    /// Whether a device already holds a shared parameter.
    fn is_held(&self, parameter: u32, device: DeviceId) -> bool {
        self.holders[parameter].binary_search(&device).is_ok()
    }

    fn is_on(&self, tensor: TensorId, device: DeviceId) -> bool {
        self.device_of[self.instance.graph().producer(tensor)] == device || self.copy(tensor, device).is_ok()
    }

    /// The place of a device's copy among the copies of a tensor, or where it would be.
    fn copy(&self, tensor: TensorId, device: DeviceId) -> Result<usize, usize> {
        self.copies[tensor].binary_search_by_key(&device, |copy| copy.0)
    }

    /// Time at which all inputs of an operator can be on a device. Its producers must be scheduled.
    pub(super) fn ready(&mut self, op: OpId, device: DeviceId) -> f64 {
        self.bring(op, device, false)
    }

    /// Start of an operator that is ready at a time and takes `seconds`: the first gap that it fits.
    fn start(&self, device: DeviceId, ready: f64, seconds: f64) -> f64 {
        let gaps = &self.gaps[device];
        let first = gaps.partition_point(|gap| gap[1] < ready);
        let fits = |gap: &&[f64; 2]| gap[0].max(ready) + seconds <= gap[1];
        gaps[first..].iter().find(fits).map_or(ready, |gap| gap[0].max(ready))
    }

    /// Start and end of an operator if it were added to a device.
    pub(super) fn probe(&mut self, op: OpId, device: DeviceId) -> [f64; 2] {
        let ready = self.ready(op, device);
        let seconds = self.instance.seconds(op, device);
        let start = self.start(device, ready, seconds);
        [start, start + seconds]
    }

    /// The end of a scheduled operator.
    pub(super) fn end(&self, op: OpId) -> f64 {
        self.span[op][1]
    }

    /// The device of a scheduled operator.
    pub(super) fn device(&self, op: OpId) -> Option<DeviceId> {
        Some(self.device_of[op]).filter(|&device| device != NOWHERE)
    }

    /// Adds an operator, whose producers are scheduled, to a device, and returns its end.
    pub(super) fn add(&mut self, op: OpId, device: DeviceId) -> f64 {
        let (instance, graph) = (self.instance, self.instance.graph());
        let ready = self.bring(op, device, true);
        let seconds = instance.seconds(op, device);
        let start = self.start(device, ready, seconds);
        self.fill(device, start, start + seconds);
        self.span[op] = [start, start + seconds];
        for &parameter in graph.parameters_of(op) {
            if let Err(index) = self.holders[parameter].binary_search(&device) {
                self.holders[parameter].insert(index, device);
                self.used[device] += instance.shared_bytes(parameter);
            }
        }
        self.device_of[op] = device;
        self.is_busy[device] = true;
        let class = graph.class_of(op);
        if self.home_of_class[class] == NOWHERE {
            self.home_of_class[class] = device;
            self.used[device] += instance.fixed_bytes(class);
        }
        for &tensor in graph.outputs(op) {
            if self.unread[tensor] > 0 {
                self.used[device] += graph.bytes(tensor);
            }
        }
        for &tensor in graph.inputs(op) {
            let unread = &mut self.unread[tensor];
            *unread -= 1;
            if *unread == 0 {
                let bytes = graph.bytes(tensor);
                self.used[self.device_of[graph.producer(tensor)]] -= bytes;
                for &(device, _) in &self.copies[tensor] {
                    self.used[device] -= bytes;
                }
            }
        }
        start + seconds
    }

    /// Time at which all inputs of an operator are on a device. The inputs are sent in the order in which they are
    /// produced, each when its ports are free; `keep` adds the transfers to the schedule.
    fn bring(&mut self, op: OpId, device: DeviceId, keep: bool) -> f64 {
        let graph = self.instance.graph();
        let mut ready = 0.0f64;
        self.inputs.clear();
        for &tensor in graph.inputs(op) {
            let producer = graph.producer(tensor);
            let made = self.span[producer][1];
            if self.device_of[producer] == device {
                ready = ready.max(made);
            } else if let Ok(index) = self.copy(tensor, device) {
                ready = ready.max(self.copies[tensor][index].1);
            } else {
                self.inputs.push((made, tensor));
            }
        }
        self.inputs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for input in 0..self.inputs.len() {
            let (made, tensor) = self.inputs[input];
            let from = self.device_of[graph.producer(tensor)];
            let route = self.instance.fabric().route(tensor, from, device);
            let mut leaves = made;
            if self.instance.has_ports() {
                for port in route.ports() {
                    leaves = leaves.max(self.ports[port]).max(self.taken[port]);
                }
            }
            let arrives = leaves + route.seconds;
            ready = ready.max(arrives);
            if keep && let Err(index) = self.copy(tensor, device) {
                self.copies[tensor].insert(index, (device, arrives));
                self.used[device] += graph.bytes(tensor);
            }
            if !self.instance.has_ports() {
                continue;
            }
            for port in route.ports() {
                match keep {
                    true => self.ports[port] = arrives,
                    false => {
                        self.taken[port] = arrives;
                        self.touched.push(port);
                    }
                }
            }
        }
        for port in self.touched.drain(..) {
            self.taken[port] = 0.0;
        }
        ready
    }

    fn fill(&mut self, device: DeviceId, start: f64, end: f64) {
        let gaps = &mut self.gaps[device];
        let index = gaps.partition_point(|gap| gap[1] < end).min(gaps.len() - 1);
        let [from, to] = gaps[index];
        let left = (from < start).then_some([from, start]);
        let right = (end < to).then_some([end, to]);
        gaps.splice(index..=index, left.into_iter().chain(right));
    }

    /// The complete schedule; its queues are in the order of the starts.
    ///
    /// # Panics
    /// If an operator is not scheduled.
    pub(super) fn schedule(&self) -> Schedule {
        assert!(self.device_of.iter().all(|&device| device != NOWHERE), "every operator is scheduled");
        let mut order = self.instance.graph().topological().to_vec();
        order.sort_by(|&a, &b| self.span[a][0].total_cmp(&self.span[b][0]));
        Schedule::by_order(self.device_of.to_vec(), &order)
    }
}
