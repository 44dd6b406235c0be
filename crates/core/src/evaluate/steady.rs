//! The steady state of a pipeline: what devices and uplinks do in one period once the pipeline is full.
//!
//! The value of a placement for throughput is its period, the time from one batch to the next. This module constructs a
//! schedule with that period. Every device works through its operators in the order of the model
//! ([`Graph::work_order`](crate::graph::Graph::work_order)), receives a tensor before the first operator that reads it,
//! and sends a tensor after the operator that produces it, each once a period. Under serial communication a device does
//! one thing at a time; where communication overlaps, it has lanes of its own. The forward and the backward pass are
//! placed in the period where they hand batches on soonest; with separate training the period consists of that of the
//! forward pass, then that of the backward pass. A stage on several devices divides every batch among them. Replicas,
//! and devices with copies of a parameter, then synchronise gradients while they do nothing else. A tensor is received
//! once it has been sent and has crossed the uplinks on its route.
//!
//! This schedule is one of many: others with the same period may have a lower latency.

use rustc_hash::FxHashMap;
use thiserror::Error;

use super::throughput::{crossed, slowest};
use super::{Evaluation, Violation, evaluate, slots};
use crate::cluster::DeviceId;
use crate::document::{Communication, ObjectiveKind};
use crate::graph::{OpId, TensorId};
use crate::ids::Keyed;
use crate::placement::Placement;
use crate::problem::Problem;
use crate::schedule::Modulo;
use crate::tolerance::VALUE_RELATIVE;

/// One period of a full pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct SteadyState {
    /// Seconds from one batch to the next: the value of the placement.
    pub period: f64,
    /// Seconds from the beginning of a batch to the end of all work for it.
    pub latency: f64,
    /// Maximum number of batches that have begun and not ended at any time.
    pub in_flight: u32,
    /// The devices in use, in the order of [`evaluate`](super::evaluate).
    pub devices: Vec<SteadyDevice>,
    /// The load of every group's uplink.
    pub uplinks: Vec<f64>,
    /// All tasks for a batch.
    pub tasks: Vec<SteadyTask>,
}

/// The work of a device in a period; if the stage has replicas, the work of each replica.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteadyDevice {
    /// The device.
    pub device: DeviceId,
    /// Devices that share the stage.
    pub replicas: u32,
    /// Seconds that the device is busy, as the evaluation counts them; at most the period.
    pub load: f64,
    /// Seconds of compute.
    pub compute: f64,
    /// Seconds in which the device sends.
    pub sent: f64,
    /// Seconds in which the device receives.
    pub received: f64,
    /// Seconds in which the device synchronises gradients: with its replicas, and those of shared parameters.
    pub synchronised: f64,
    /// Maximum number of batches at any time for which the device has begun its first task and not ended its last,
    /// synchronisation aside.
    pub in_flight: u32,
}

/// A task that is done once for every batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SteadyTask {
    /// The device or uplink that does the work.
    pub place: Place,
    /// The work that the task does.
    pub work: SteadyWork,
    /// Seconds from the beginning of the batch until the task starts.
    pub start: f64,
    /// Seconds that the task takes.
    pub seconds: f64,
}

impl SteadyTask {
    /// Seconds from the beginning of a period to the start of the task, and the batch that the task belongs to: 0 for
    /// the batch begun in this period, 1 for the batch before it, and so on.
    pub fn within(&self, period: f64) -> (f64, u32) {
        if period <= 0.0 {
            return (0.0, 0);
        }
        // A start within rounding error before a period begins counts as the beginning of that period.
        let age = (self.start / period + VALUE_RELATIVE).floor().max(0.0);
        ((self.start - age * period).max(0.0), age as u32)
    }
}

/// A device or an uplink that does the work of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A device, by its index in [`SteadyState::devices`].
    Device(usize),
    /// An uplink, by the index of its group.
    Uplink(usize),
}

/// The work of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SteadyWork {
    /// An operator runs.
    Operator(OpId),
    /// A tensor leaves its device.
    Send(TensorId),
    /// A tensor crosses an uplink.
    Cross(TensorId),
    /// A tensor arrives.
    Receive(TensorId),
    /// The gradient of a shared parameter crosses an uplink.
    CrossGradient(usize),
    /// A device synchronises its gradients with its replicas, and with other devices that hold the same parameters.
    Synchronise,
}

/// Why a placement has no steady state.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum NoSteadyState {
    /// The objective does not pipeline batches.
    #[error("a plan for {} runs one batch at a time", .0.name())]
    OneBatch(ObjectiveKind),
    /// The value is the time of an iteration.
    #[error("under a schedule the pipeline fills and drains in every iteration")]
    Iteration,
    /// An operator cannot run on its device.
    #[error(transparent)]
    Unsupported(Violation),
    /// The value is not finite.
    #[error("the placement has no finite value")]
    NotFinite,
}

/// The steady state of a placement, in O((operators + pins) log (operators + pins)).
///
/// # Errors
/// The reason why the placement has no steady state.
///
/// # Panics
/// If the placement was made for another graph or cluster.
pub fn steady(problem: &Problem, placement: &Placement) -> Result<SteadyState, NoSteadyState> {
    let objective = problem.objective();
    if objective.kind() != ObjectiveKind::Throughput {
        return Err(NoSteadyState::OneBatch(objective.kind()));
    }
    if objective.times_iteration() {
        return Err(NoSteadyState::Iteration);
    }
    let mut evaluation = evaluate(problem, placement);
    let is_unsupported = |violation: &Violation| matches!(violation, Violation::Unsupported { .. });
    if let Some(index) = evaluation.violations.iter().position(is_unsupported) {
        return Err(NoSteadyState::Unsupported(evaluation.violations.swap_remove(index)));
    }
    if !evaluation.devices.iter().all(|load| load.load().is_finite()) {
        return Err(NoSteadyState::NotFinite);
    }
    let mut layout = Layout::new(problem, placement, &evaluation);
    layout.operators();
    layout.gradients();
    // If the period is zero, all tasks take no time and start at zero.
    if evaluation.value > 0.0 {
        layout.modulo.run();
    }
    Ok(layout.state())
}

/// A task of the schedule, with the work that it does.
#[derive(Debug, Clone, Copy)]
struct Known {
    number: u32,
    place: Place,
    work: SteadyWork,
    seconds: f64,
}

/// The lanes of a device for each pass; the communication mode determines which lanes are separate.
#[derive(Debug, Clone, Copy)]
struct Lanes {
    receives: [usize; 2],
    computes: [usize; 2],
    sends: [usize; 2],
}

/// The tasks of a placement before they are scheduled.
struct Layout<'a> {
    problem: &'a Problem,
    evaluation: &'a Evaluation,
    /// The index of each device among those in use.
    slot: Keyed<DeviceId, usize>,
    placement: &'a Placement,
    /// Seconds of each pass, as they are scored.
    passes: [f64; 2],
    modulo: Modulo,
    /// Lanes of each device in use.
    lanes: Vec<Lanes>,
    /// The window after which each device in use synchronises gradients; `None` if the device synchronises none.
    windows: Vec<Option<usize>>,
    /// Window of each group's uplink in each pass, and its lane once a tensor crosses the uplink.
    uplinks: Vec<[(usize, Option<usize>); 2]>,
    /// Position of each device in use in the order of the pipeline.
    turns: Vec<usize>,
    known: Vec<Known>,
    /// Gradients that cross uplinks, each with the indices of the devices that must finish before.
    gradients: Vec<(Known, Vec<usize>)>,
}

impl<'a> Layout<'a> {
    fn new(problem: &'a Problem, placement: &'a Placement, evaluation: &'a Evaluation) -> Layout<'a> {
        let used: Vec<DeviceId> = evaluation.devices.iter().map(|load| load.device).collect();
        let mut layout = Layout {
            problem,
            evaluation,
            slot: slots(problem, &used),
            placement,
            passes: slowest(&evaluation.devices, &evaluation.uplinks),
            modulo: Modulo::new(evaluation.value),
            lanes: Vec::new(),
            windows: Vec::new(),
            uplinks: Vec::new(),
            turns: Vec::new(),
            known: Vec::new(),
            gradients: Vec::new(),
        };
        layout.turns = layout.turns_of(used.len());
        for place in 0..used.len() {
            let lanes = layout.lanes_of(place);
            layout.lanes.push(lanes);
        }
        for _ in 0..problem.cluster().group_count() {
            let windows = layout.passes_apart(0.0).unwrap_or_else(|| [layout.modulo.resource(); 2]);
            layout.uplinks.push(windows.map(|window| (window, None)));
        }
        layout
    }

    fn place_of(&self, op: OpId) -> usize {
        self.slot[self.placement.device_of(op)]
    }

    /// Position of each device in the pipeline; if the placement has no order, by the first operator of each device.
    fn turns_of(&self, used: usize) -> Vec<usize> {
        if !self.placement.stages().is_empty() {
            return (0..used).collect();
        }
        let mut turns = vec![None; used];
        let mut next = 0;
        for op in self.problem.graph().work_order() {
            turns[self.place_of(op)].get_or_insert_with(|| {
                next += 1;
                next - 1
            });
        }
        turns.into_iter().map(|turn| turn.unwrap_or(next)).collect()
    }

    /// Rank of a lane: devices are ranked in the direction of the pass; within a device, the lane that is needed first
    /// comes first.
    fn rank(&self, pass: usize, place: usize, within: usize) -> usize {
        let count = self.turns.len();
        let turn = if pass == 0 { self.turns[place] } else { 2 * count - 1 - self.turns[place] };
        4 * turn + within
    }

    /// The windows of the two passes under separate training, the second shortened by the seconds that replicas need to
    /// synchronise; otherwise `None`.
    fn passes_apart(&mut self, synchronised: f64) -> Option<[usize; 2]> {
        let [forward, backward] = self.passes;
        let is_separate = self.problem.objective().passes() == 2;
        is_separate.then(|| {
            let first = self.modulo.window(Some(0.0), forward);
            [first, self.modulo.window(Some(forward), backward - synchronised)]
        })
    }

    fn lanes_of(&mut self, place: usize) -> Lanes {
        let synchronised = self.evaluation.devices[place].synchronised;
        let apart = self.passes_apart(synchronised);
        // The idle time in which replicas synchronise is one contiguous interval.
        let whole = (apart.is_none() && synchronised > 0.0)
            .then(|| self.modulo.window(None, self.evaluation.value - synchronised));
        self.windows.push(apart.map(|windows| windows[1]).or(whole).filter(|_| synchronised > 0.0));
        let communication = self.problem.objective().rules().communication;
        let mut lane = |within| {
            let ranks = [0, 1].map(|pass| self.rank(pass, place, within));
            if let Some(window) = whole {
                return [self.modulo.lane(window, ranks[0]); 2];
            }
            let windows = apart.unwrap_or_else(|| [self.modulo.resource(); 2]);
            [0, 1].map(|pass| self.modulo.lane(windows[pass], ranks[pass]))
        };
        match communication {
            Communication::Serial => {
                let all = lane(0);
                Lanes { receives: all, computes: all, sends: all }
            }
            Communication::Overlap => {
                let moves = lane(0);
                Lanes { receives: moves, computes: lane(1), sends: moves }
            }
            Communication::Duplex => Lanes { receives: lane(0), computes: lane(1), sends: lane(2) },
        }
    }

    /// The lane of an uplink, ranked after the first device that sends a tensor over the uplink.
    fn uplink(&mut self, pass: usize, group: usize, sender: usize) -> usize {
        let (window, lane) = self.uplinks[group][pass];
        let lane = lane.unwrap_or_else(|| self.modulo.lane(window, self.rank(pass, sender, 3)));
        self.uplinks[group][pass].1 = Some(lane);
        lane
    }

    fn task(&mut self, lane: usize, place: Place, work: SteadyWork, seconds: f64) -> u32 {
        let number = self.modulo.task(lane, seconds);
        self.known.push(Known { number, place, work, seconds });
        number
    }

    fn replicas(&self, place: usize) -> f64 {
        f64::from(self.evaluation.devices[place].replicas)
    }

    fn kind(&self, place: usize) -> usize {
        self.problem.cluster().kind_of(self.evaluation.devices[place].device)
    }

    fn group(&self, place: usize) -> Option<usize> {
        self.problem.cluster().group_of_kind(self.kind(place))
    }

    /// Adds the tasks of operators in the order of the model, with receptions before them and transmissions after them.
    fn operators(&mut self) {
        let (problem, graph) = (self.problem, self.problem.graph());
        let mut task_of = Keyed::filled(0, graph.operator_count());
        // `sent` has the tasks that the receiver of a tensor waits for, `received` the task that receives the tensor.
        let mut sent: FxHashMap<(TensorId, usize), Vec<u32>> = FxHashMap::default();
        let mut received: FxHashMap<(TensorId, usize), u32> = FxHashMap::default();
        for op in graph.work_order() {
            let place = self.place_of(op);
            let mut inputs = Vec::new();
            for &tensor in graph.inputs(op) {
                let producer = graph.producer(tensor);
                if self.place_of(producer) == place {
                    inputs.push(task_of[producer]);
                    continue;
                }
                let arrival = match received.get(&(tensor, place)) {
                    Some(&task) => task,
                    None => {
                        let waits = sent.remove(&(tensor, place)).unwrap_or_default();
                        let task = self.receive(tensor, place, &waits);
                        received.insert((tensor, place), task);
                        task
                    }
                };
                inputs.push(arrival);
            }
            let pass = usize::from(!graph.is_forward(op));
            let pool = problem.pool_of(self.evaluation.devices[place].device);
            let seconds = problem.seconds(op, pool).unwrap_or(0.0) / self.replicas(place);
            let lane = self.lanes[place].computes[pass];
            let task = self.task(lane, Place::Device(place), SteadyWork::Operator(op), seconds);
            inputs.iter().for_each(|&on| self.modulo.wait(task, on));
            task_of[op] = task;
            for &tensor in graph.outputs(op) {
                for (reader, waits) in self.send(tensor, place, task) {
                    sent.insert((tensor, reader), waits);
                }
            }
        }
    }

    fn pass_of(&self, tensor: TensorId) -> usize {
        let graph = self.problem.graph();
        usize::from(!graph.is_forward(graph.producer(tensor)))
    }

    fn receive(&mut self, tensor: TensorId, place: usize, waits: &[u32]) -> u32 {
        let lane = self.lanes[place].receives[self.pass_of(tensor)];
        let seconds = self.problem.costs().transfer(tensor, self.kind(place)) / self.replicas(place);
        let task = self.task(lane, Place::Device(place), SteadyWork::Receive(tensor), seconds);
        waits.iter().for_each(|&on| self.modulo.wait(task, on));
        task
    }

    /// Sends a tensor over the uplinks on its route, and returns the task that each of its receivers waits for.
    fn send(&mut self, tensor: TensorId, home: usize, made: u32) -> Vec<(usize, Vec<u32>)> {
        let (problem, pass) = (self.problem, self.pass_of(tensor));
        let mut places: Vec<usize> =
            problem.graph().pins(tensor).iter().map(|&op| self.place_of(op)).collect();
        places.sort_unstable();
        places.dedup();
        if places.len() < 2 {
            return Vec::new();
        }
        let lane = self.lanes[home].sends[pass];
        let seconds = problem.costs().transfer(tensor, self.kind(home)) / self.replicas(home);
        let task = self.task(lane, Place::Device(home), SteadyWork::Send(tensor), seconds);
        self.modulo.wait(task, made);
        let mut crossing = FxHashMap::default();
        let mut groups: Vec<usize> = crossed(problem, &self.evaluation.devices, &places).collect();
        // The uplink of the producer's group comes first, then those of the readers' groups.
        groups.sort_by_key(|&group| self.group(home) != Some(group));
        for group in groups {
            let lane = self.uplink(pass, group, home);
            let seconds = problem.costs().uplink(tensor, group);
            let over = self.task(lane, Place::Uplink(group), SteadyWork::Cross(tensor), seconds);
            let out = self.group(home).and_then(|group| crossing.get(&group).copied());
            self.modulo.wait(over, out.unwrap_or(task));
            crossing.insert(group, over);
        }
        let route = |&place: &usize| {
            let ends = [self.group(home), self.group(place)];
            let over = ends.iter().flatten().filter(|_| ends[0] != ends[1]);
            let waits = over.filter_map(|group| crossing.get(group).copied());
            (place, std::iter::once(task).chain(waits).collect())
        };
        places.iter().filter(|&&place| place != home).map(route).collect()
    }

    /// Adds the gradients of shared parameters that cross uplinks, in any order, after the operators.
    fn gradients(&mut self) {
        let (problem, graph) = (self.problem, self.problem.graph());
        let pass = 1;
        for parameter in 0..graph.parameters().len() {
            let mut places: Vec<usize> =
                graph.readers(parameter).iter().map(|&op| self.place_of(op)).collect();
            let first = places[0];
            places.sort_unstable();
            places.dedup();
            if places.len() < 2 {
                continue;
            }
            for group in crossed(problem, &self.evaluation.devices, &places).collect::<Vec<_>>() {
                let lane = self.uplink(pass, group, first);
                let seconds = problem.costs().gradient_uplink(parameter, group);
                if seconds > 0.0 {
                    let number = self.modulo.last_task(lane, seconds);
                    let work = SteadyWork::CrossGradient(parameter);
                    self.gradients
                        .push((Known { number, place: Place::Uplink(group), work, seconds }, places.clone()));
                }
            }
        }
    }

    /// Start of the first and end of the last task of each device for a batch, synchronisation aside.
    fn spans(&self) -> Vec<[f64; 2]> {
        let mut spans = vec![[f64::INFINITY, 0.0]; self.evaluation.devices.len()];
        for task in &self.known {
            if let Place::Device(place) = task.place {
                let [start, end] = spans[place];
                let of_task = [self.modulo.start(task.number), self.modulo.end(task.number)];
                spans[place] = [start.min(of_task[0]), end.max(of_task[1])];
            }
        }
        spans
    }

    /// Schedules the gradients and synchronisations that follow the operators of a batch, and returns the steady state.
    fn state(mut self) -> SteadyState {
        let period = self.evaluation.value;
        let spans = self.spans();
        for (gradient, places) in std::mem::take(&mut self.gradients) {
            let from = places.iter().map(|&place| spans[place][1]).fold(0.0, f64::max);
            self.modulo.finish(gradient.number, from);
            self.known.push(gradient);
        }
        let task = |&Known { number, place, work, seconds }: &Known| {
            let start = self.modulo.start(number);
            SteadyTask { place, work, start, seconds }
        };
        let mut tasks: Vec<SteadyTask> = self.known.iter().map(task).collect();
        let mut devices = Vec::with_capacity(spans.len());
        for (place, (load, [first, last])) in self.evaluation.devices.iter().zip(spans).enumerate() {
            let each = |seconds: f64| seconds / f64::from(load.replicas);
            devices.push(SteadyDevice {
                device: load.device,
                replicas: load.replicas,
                load: load.load(),
                compute: each(load.compute()),
                sent: each(load.sums.iter().map(|sums| sums.sent).sum()),
                received: each(load.sums.iter().map(|sums| sums.received).sum()),
                synchronised: load.synchronised,
                in_flight: at_once(last - first, period),
            });
            if let Some(window) = self.windows[place] {
                let start = self.modulo.end_of_window(window, last);
                let (place, work) = (Place::Device(place), SteadyWork::Synchronise);
                tasks.push(SteadyTask { place, work, start, seconds: load.synchronised });
            }
        }
        let first = tasks.iter().map(|task| task.start).fold(f64::INFINITY, f64::min);
        let last = tasks.iter().map(|task| task.start + task.seconds).fold(0.0, f64::max);
        let latency = (last - first).max(0.0);
        SteadyState {
            period,
            latency,
            in_flight: at_once(latency, period),
            devices,
            uplinks: self.evaluation.uplinks.iter().map(|load| load[0] + load[1]).collect(),
            tasks,
        }
    }
}

/// Maximum number of intervals of `seconds` seconds that overlap, if one begins every period.
fn at_once(seconds: f64, period: f64) -> u32 {
    if period <= 0.0 {
        return 1;
    }
    let periods = seconds / period;
    (periods - periods * VALUE_RELATIVE).ceil().max(1.0) as u32
}
