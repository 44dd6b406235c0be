//! Random placements of random problems under every communication and training mode. Every task has the properties that
//! are derived here from the graph and the cluster alone.

use std::collections::{BTreeMap, BTreeSet};

use rand::{Rng, RngExt};
use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{
    Communication, GroupDocument, LinkDocument, ObjectiveKind, Pass, Schedule, Split, Training,
};
use stagewright_core::evaluate::{
    NoSteadyState, Place, SteadyState, SteadyTask, SteadyWork, evaluate, steady,
};
use stagewright_core::graph::{OpId, TensorId};
use stagewright_core::objective::PassSums;
use stagewright_core::objective::{Objective, Throughput};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;

use super::random::{Size, problem};

const INSTANCES: u64 = 1500;

/// The problem with the kinds that had no group in a second group, so that tensors cross two uplinks.
fn with_two_groups(problem: &Problem) -> Problem {
    let mut document = problem.cluster().document().clone();
    document
        .groups
        .push(GroupDocument { name: "away".into(), uplink: LinkDocument { latency_s: 0.5, bandwidth: 2.0 } });
    for kind in document.kinds.iter_mut().filter(|kind| kind.group.is_none()) {
        kind.group = Some("away".into());
    }
    let cluster = Cluster::from_document(document).expect("a valid cluster");
    Problem::new(problem.graph().clone(), cluster, *problem.objective()).expect("a valid problem")
}

/// A placement with every operator on a device that can run it, some devices with two replicas; half of the placements
/// have an order of stages.
fn placement(rng: &mut impl Rng, problem: &Problem) -> Option<Placement> {
    let mut device_of = Vec::new();
    for op in problem.graph().operators() {
        let devices = problem.cluster().devices();
        let capable: Vec<DeviceId> =
            devices.filter(|&device| problem.seconds(op, problem.pool_of(device)).is_some()).collect();
        // Most operators join their neighbour, so that devices have runs of operators.
        let last =
            device_of.last().filter(|device| capable.contains(device) && rng.random_bool(0.5)).copied();
        device_of.push(
            last.or_else(|| (!capable.is_empty()).then(|| capable[rng.random_range(0..capable.len())]))?,
        );
    }
    let used: BTreeSet<DeviceId> = device_of.iter().copied().collect();
    let stages = if rng.random_bool(0.5) { used.iter().rev().copied().collect() } else { Vec::new() };
    let replicas: BTreeMap<DeviceId, u32> =
        used.into_iter().filter(|_| rng.random_bool(0.3)).map(|device| (device, 2)).collect();
    Some(Placement::with_stages(device_of, stages, replicas))
}

/// Checks the rules with quantities that are derived independently.
struct Rules<'a> {
    problem: &'a Problem,
    placement: &'a Placement,
    state: &'a SteadyState,
    case: String,
}

impl Rules<'_> {
    fn place(&self, op: OpId) -> usize {
        let device = self.placement.device_of(op);
        let found = self.state.devices.iter().position(|state| state.device == device);
        found.expect("every device in use")
    }

    fn rounding(&self) -> f64 {
        2e-9 * self.state.period
    }

    fn pass(&self, work: SteadyWork) -> usize {
        let graph = self.problem.graph();
        let is_forward = match work {
            SteadyWork::Operator(op) => graph.operator(op).pass == Pass::Forward,
            SteadyWork::Send(tensor) | SteadyWork::Cross(tensor) | SteadyWork::Receive(tensor) => {
                graph.operator(graph.producer(tensor)).pass == Pass::Forward
            }
            _ => false,
        };
        usize::from(!is_forward)
    }

    /// Seconds of the tasks at a place whose work is wanted, in one pass or in both.
    fn sum(&self, place: Place, pass: Option<usize>, wanted: impl Fn(SteadyWork) -> bool) -> f64 {
        let tasks = self.state.tasks.iter().filter(|task| task.place == place && wanted(task.work));
        tasks
            .filter(|task| pass.is_none_or(|pass| self.pass(task.work) == pass))
            .map(|task| task.seconds)
            .sum()
    }

    /// The load at a place, summed from its tasks, in one pass or in both.
    fn load(&self, place: Place, pass: Option<usize>) -> f64 {
        let sum = |wanted: fn(SteadyWork) -> bool| self.sum(place, pass, wanted);
        let compute = sum(|work| matches!(work, SteadyWork::Operator(_)));
        let sent = sum(|work| matches!(work, SteadyWork::Send(_)));
        let received = sum(|work| matches!(work, SteadyWork::Receive(_)));
        let crossed = sum(|work| matches!(work, SteadyWork::Cross(_) | SteadyWork::CrossGradient(_)));
        let synchronised = sum(|work| work == SteadyWork::Synchronise);
        let sums = PassSums { compute, sent, received, synchronised };
        self.problem.objective().rules().load(&sums, 1) + crossed
    }

    /// The largest load of any device or uplink.
    fn longest(&self, pass: Option<usize>) -> f64 {
        let places: BTreeSet<Place> = self.state.tasks.iter().map(|task| task.place).collect();
        places.into_iter().map(|place| self.load(place, pass)).fold(0.0, f64::max)
    }

    fn assert_period(&self) {
        let value = evaluate(self.problem, self.placement).value;
        let longest = match self.problem.objective().rules().training {
            Training::Combined => self.longest(None),
            Training::Separate => self.longest(Some(0)) + self.longest(Some(1)),
        };
        for (what, found) in [("period", self.state.period), ("longest load", longest)] {
            assert!((found - value).abs() <= 1e-9 * value, "{}: {what} {found}, value {value}", self.case);
        }
        for (index, device) in self.state.devices.iter().enumerate() {
            let load = match self.problem.objective().rules().training {
                Training::Combined => self.load(Place::Device(index), None),
                Training::Separate => {
                    [0, 1].map(|pass| self.load(Place::Device(index), Some(pass))).iter().sum()
                }
            };
            assert!((load - device.load).abs() <= 1e-9 * value, "{}: {load}, {device:?}", self.case);
        }
    }

    /// Checks that tasks of one resource never overlap, whatever their batches.
    fn assert_alone(&self, tasks: &[&SteadyTask]) {
        let period = self.state.period;
        let mut spans: Vec<[f64; 2]> = Vec::new();
        for task in tasks.iter().filter(|task| task.seconds > self.rounding()) {
            let start = task.start.rem_euclid(period);
            spans.push([start, start + task.seconds]);
        }
        spans.sort_by(|left, right| left[0].total_cmp(&right[0]));
        let next = spans.iter().skip(1).map(|span| span[0]);
        let first = spans.first().map(|span| span[0] + period);
        for (span, next) in spans.iter().zip(next.chain(first)) {
            assert!(span[1] <= next + self.rounding(), "{}: {span:?} until {next}: {tasks:#?}", self.case);
        }
    }

    fn assert_resources(&self) {
        let places: BTreeSet<Place> = self.state.tasks.iter().map(|task| task.place).collect();
        let lane = |work: SteadyWork| match (self.problem.objective().rules().communication, work) {
            (_, SteadyWork::Synchronise) => None,
            (Communication::Serial, _) | (_, SteadyWork::Operator(_)) => Some(0),
            (Communication::Overlap, _) => Some(1),
            (_, SteadyWork::Send(_)) => Some(1),
            _ => Some(2),
        };
        for place in places {
            let here = || self.state.tasks.iter().filter(move |task| task.place == place);
            for number in 0..3 {
                // A synchronisation task occupies all lanes of its device.
                self.assert_alone(
                    &here()
                        .filter(|task| lane(task.work).is_none_or(|lane| lane == number))
                        .collect::<Vec<_>>(),
                );
            }
        }
    }

    /// Checks that, under separate training, every task runs in the part of the period that belongs to its pass.
    fn assert_passes(&self) {
        let forward = self.longest(Some(0));
        for task in self.state.tasks.iter().filter(|task| task.seconds > self.rounding()) {
            let (start, _) = task.within(self.state.period);
            let window = [[0.0, forward], [forward, self.state.period]][self.pass(task.work)];
            let inside =
                start >= window[0] - self.rounding() && start + task.seconds <= window[1] + self.rounding();
            assert!(inside, "{}: {task:?} outside of {window:?}", self.case);
        }
    }

    fn task(&self, place: Place, work: SteadyWork) -> &SteadyTask {
        let mut found = self.state.tasks.iter().filter(|task| task.place == place && task.work == work);
        let task = found.next().unwrap_or_else(|| panic!("{}: no {work:?} at {place:?}", self.case));
        assert!(found.next().is_none(), "{}: {work:?} at {place:?} twice", self.case);
        task
    }

    fn assert_after(&self, task: &SteadyTask, before: &SteadyTask) {
        let end = before.start + before.seconds;
        assert!(task.start >= end - self.rounding(), "{}: {task:?} before {before:?}", self.case);
    }

    /// The groups whose uplinks a tensor between two devices crosses.
    fn between(&self, places: [usize; 2]) -> Vec<usize> {
        let cluster = self.problem.cluster();
        let groups =
            places.map(|place| cluster.group_of_kind(cluster.kind_of(self.state.devices[place].device)));
        if groups[0] == groups[1] { Vec::new() } else { groups.into_iter().flatten().collect() }
    }

    fn assert_waits(&self) {
        let (graph, costs) = (self.problem.graph(), self.problem.costs());
        let mut expected = 0;
        let of_operator = |op: OpId| self.task(Place::Device(self.place(op)), SteadyWork::Operator(op));
        for op in graph.operators() {
            let task = of_operator(op);
            let replicas = f64::from(self.placement.replicas(self.placement.device_of(op)));
            let pool = self.problem.pool_of(self.placement.device_of(op));
            assert_eq!(Some(task.seconds * replicas), self.problem.seconds(op, pool), "{}", self.case);
            expected += 1;
        }
        for tensor in graph.tensors() {
            let made = of_operator(graph.producer(tensor));
            let home = self.place(graph.producer(tensor));
            let readers = graph.consumers(tensor);
            let away: BTreeSet<usize> =
                readers.iter().map(|&op| self.place(op)).filter(|&place| place != home).collect();
            for &op in readers.iter().filter(|&&op| self.place(op) == home) {
                self.assert_after(of_operator(op), made);
            }
            if away.is_empty() {
                continue;
            }
            let sent = self.task(Place::Device(home), SteadyWork::Send(tensor));
            self.assert_after(sent, made);
            let mut crossed = BTreeSet::new();
            for &place in &away {
                let received = self.task(Place::Device(place), SteadyWork::Receive(tensor));
                let kind = self.problem.cluster().kind_of(self.state.devices[place].device);
                let replicas = f64::from(self.state.devices[place].replicas);
                assert_eq!(received.seconds * replicas, costs.transfer(tensor, kind), "{}", self.case);
                self.assert_after(received, sent);
                let mut last = sent;
                for group in self.between([home, place]) {
                    let over = self.task(Place::Uplink(group), SteadyWork::Cross(tensor));
                    assert_eq!(over.seconds, costs.uplink(tensor, group), "{}", self.case);
                    self.assert_after(over, last);
                    last = over;
                    crossed.insert(group);
                }
                self.assert_after(received, last);
                for &op in readers.iter().filter(|&&op| self.place(op) == place) {
                    self.assert_after(of_operator(op), received);
                }
            }
            expected += 1 + away.len() + crossed.len();
        }
        let is_other =
            |work: SteadyWork| matches!(work, SteadyWork::CrossGradient(_) | SteadyWork::Synchronise);
        let others = self.state.tasks.iter().filter(|task| is_other(task.work)).count();
        assert_eq!(self.state.tasks.len(), expected + others, "{}", self.case);
    }

    /// Checks that a synchronisation follows all operators of its device for the batch.
    fn assert_ends(&self) {
        for task in &self.state.tasks {
            let mine = |other: &&SteadyTask| {
                other.place == task.place && matches!(other.work, SteadyWork::Operator(_))
            };
            if task.work == SteadyWork::Synchronise {
                self.state.tasks.iter().filter(mine).for_each(|other| self.assert_after(task, other));
            }
        }
    }

    /// Checks the batches in flight by counting them one by one.
    fn assert_in_flight(&self) {
        let period = self.state.period;
        let count = |tasks: &mut dyn Iterator<Item = &SteadyTask>| {
            let (mut first, mut last) = (f64::INFINITY, 0.0f64);
            for task in tasks {
                first = first.min(task.start);
                last = last.max(task.start + task.seconds);
            }
            let mut batches = 1;
            while first + f64::from(batches) * period < last - 1e-8 * (last - first) {
                batches += 1;
            }
            batches
        };
        assert_eq!(self.state.in_flight, count(&mut self.state.tasks.iter()), "{}", self.case);
        for (index, device) in self.state.devices.iter().enumerate() {
            let is_counted = |task: &&SteadyTask| {
                task.place == Place::Device(index)
                    && matches!(
                        task.work,
                        SteadyWork::Operator(_) | SteadyWork::Send(_) | SteadyWork::Receive(_)
                    )
            };
            let counted = count(&mut self.state.tasks.iter().filter(is_counted));
            assert_eq!(device.in_flight, counted, "{}: {device:?}", self.case);
        }
    }
}

#[test]
fn every_placement_has_a_steady_state_that_keeps_the_rules() {
    let modes = [Communication::Serial, Communication::Overlap, Communication::Duplex];
    let (mut played, mut deep, mut crossings) = (0, 0, 0);
    for number in 0..INSTANCES {
        let mut drawn = problem(number, Size { operators: 12, devices: 6, groups: number % 2 == 0 });
        if number % 4 == 0 {
            drawn = with_two_groups(&drawn);
        }
        let mut rng = seed::stream(0x57EA, number);
        let Some(placement) = placement(&mut rng, &drawn) else { continue };
        for communication in modes {
            for training in [Training::Combined, Training::Separate] {
                let split = if number % 3 == 0 { Split::Free } else { Split::Contiguous };
                let objective =
                    Throughput { split, communication, training, max_replicas: 2, ..Throughput::default() };
                let problem = drawn.with_objective(objective).expect("a valid objective");
                let state = steady(&problem, &placement).expect("every operator has a time");
                let case = format!("problem {number} with {communication:?}, {training:?}");
                let rules = Rules { problem: &problem, placement: &placement, state: &state, case };
                rules.assert_period();
                rules.assert_waits();
                if state.period > 0.0 {
                    rules.assert_resources();
                    rules.assert_ends();
                    rules.assert_in_flight();
                    played += 1;
                }
                if training == Training::Separate {
                    rules.assert_passes();
                }
                deep += usize::from(state.in_flight > 3);
                let crosses = |task: &SteadyTask| matches!(task.work, SteadyWork::Cross(TensorId(_)));
                crossings += usize::from(state.tasks.iter().any(crosses));
            }
        }
    }
    assert!(
        played > 4000 && deep > 400 && crossings > 400,
        "{played} played, {deep} deep, {crossings} cross"
    );
}

#[test]
fn what_is_no_pipeline_has_no_steady_state() {
    let mut seen = BTreeSet::new();
    for number in 0..60 {
        let drawn = problem(number, Size { operators: 6, devices: 4, groups: false });
        let mut rng = seed::stream(0x57EA, number);
        let Some(placement) = placement(&mut rng, &drawn) else { continue };
        let period_of = |objective: Objective| {
            steady(&drawn.with_objective(objective).expect("a valid objective"), &placement)
        };
        for kind in [ObjectiveKind::Latency, ObjectiveKind::Makespan] {
            let found = period_of(kind.into());
            assert_eq!(found, Err(NoSteadyState::OneBatch(kind)));
        }
        let schedule = Throughput { schedule: Schedule::OneFOneB, microbatches: 2, ..Throughput::default() };
        assert_eq!(period_of(schedule.into()), Err(NoSteadyState::Iteration));
        // With zero replicas, nothing takes a finite time.
        let nowhere = placement.used().into_iter().map(|device| (device, 0)).collect();
        let device_of = drawn.graph().operators().map(|op| placement.device_of(op)).collect();
        let nowhere = Placement::with_stages(device_of, Vec::new(), nowhere);
        assert_eq!(
            steady(&drawn.with_objective(Objective::default()).expect("valid"), &nowhere),
            Err(NoSteadyState::NotFinite)
        );
        // All operators on one device, which cannot run some of them.
        let device = placement.used()[0];
        let all = Placement::new(vec![device; drawn.graph().operator_count()]);
        let found = steady(&drawn.with_objective(Objective::default()).expect("valid"), &all);
        seen.insert(matches!(found, Err(NoSteadyState::Unsupported(_))));
    }
    assert_eq!(seen.len(), 2, "some can run everything and some cannot");
}
