//! Refinement by the simulator: clusters on the critical path move.
//!
//! The critical path explains the length of a step. A cluster is on it because its operators run there or because their
//! inputs or outputs are transferred there. Each such cluster is tried on other devices, the cluster with the largest
//! share of the path first; a move that shortens the step is kept. If an operator of the path waited for another on its
//! device, exchanging the two in the queue is tried as well. While the schedule exceeds the memory, the clusters on
//! devices that lack memory are moved instead, the largest first.

use stagewright_core::cluster::DeviceId;
use stagewright_core::csr::Csr;
use stagewright_core::graph::OpId;
use stagewright_core::ids::Keyed;
use stagewright_core::simulate::{Activity, Cause, Change};
use stagewright_core::solver::Stop;
use stagewright_core::tolerance;

use super::super::assigned;
use super::super::instance::Instance;
use super::super::schedule::{Best, Evaluator, Schedule, Score};
use super::level::{ClusterId, Level};

/// Maximum number of devices tried for a cluster.
const MAX_DEVICES: usize = 16;

/// A schedule that only improves, with its remaining budget.
#[derive(Debug)]
pub(super) struct Climb<'j, 's, 'p> {
    evaluator: &'j mut Evaluator<'s, 'p>,
    stop: &'j Stop,
    /// The current schedule.
    pub(super) current: Best,
    /// Simulation count of the evaluator at which to end.
    until: u64,
    /// Makespan at which to end.
    target: f64,
    /// Whether the evaluator is settled on the current schedule.
    is_settled: bool,
}

/// A change of a schedule.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Moves a cluster to a device.
    Put(ClusterId, DeviceId),
    /// Exchanges two operators in the queue.
    Swap(OpId, OpId),
}

impl Step {
    /// The changes of the operators.
    fn changes(self, schedule: &Schedule, members: &Csr<OpId>) -> Vec<Change> {
        match self {
            Step::Put(cluster, to) => members.row(cluster).iter().map(|&op| Change::Device(op, to)).collect(),
            Step::Swap(a, b) => {
                let ranks = &schedule.ranks;
                vec![Change::Rank(a, ranks[b.index()]), Change::Rank(b, ranks[a.index()])]
            }
        }
    }
}

/// Result of a simulation in terms of the clusters of a level.
struct Sight {
    /// Clusters to move, the most promising first.
    clusters: Vec<ClusterId>,
    /// Pairs of operators, the first of which waited for the second.
    waits: Vec<(OpId, OpId)>,
    /// The device of every cluster.
    devices: Keyed<ClusterId, DeviceId>,
    /// Compute seconds of every device.
    busy: Keyed<DeviceId, f64>,
}

impl<'j, 's, 'p> Climb<'j, 's, 'p> {
    /// Starts from a schedule; ends when the evaluator's simulation count reaches `until`.
    pub(super) fn new(
        evaluator: &'j mut Evaluator<'s, 'p>,
        stop: &'j Stop,
        current: Best,
        until: u64,
        target: f64,
    ) -> Climb<'j, 's, 'p> {
        Climb { evaluator, stop, current, until, target, is_settled: false }
    }

    /// Whether the target or a limit is reached.
    pub(super) fn is_over(&self) -> bool {
        let is_done = self.current.score.fits() && self.current.score.makespan <= self.target;
        is_done || self.evaluator.runs >= self.until || self.stop.reason().is_some()
    }

    /// Number of simulations left.
    pub(super) fn left(&self) -> u64 {
        self.until.saturating_sub(self.evaluator.runs)
    }

    fn instance(&self) -> &'s Instance<'p> {
        self.evaluator.instance()
    }

    /// Accepts an assignment, with or without priorities, if it is better.
    pub(super) fn offer(&mut self, device_of: Vec<DeviceId>) -> bool {
        let order = assigned::order(self.instance(), &device_of);
        let mut is_better = self.take(&Schedule::by_order(device_of.clone(), &order));
        if self.stop.reason().is_none() {
            is_better |= self.take(&Schedule::without_priority(device_of));
        }
        is_better
    }

    fn take(&mut self, schedule: &Schedule) -> bool {
        let score =
            self.evaluator.score_below(schedule, self.limit()).filter(|score| *score < self.current.score);
        if let Some(score) = score {
            self.current = Best { score, schedule: schedule.clone() };
            self.is_settled = false;
        }
        score.is_some()
    }

    /// The makespan below which a schedule that fits is better than the current one.
    fn limit(&self) -> f64 {
        let Score { makespan, .. } = self.current.score;
        if self.current.score.fits() {
            makespan - makespan * tolerance::OPTIMAL_RELATIVE
        } else {
            f64::INFINITY
        }
    }

    /// Moves clusters of a level until no move helps or the budget is spent.
    pub(super) fn climb(&mut self, level: &Level, simulations: u64) {
        let end = self.evaluator.runs.saturating_add(simulations);
        let members = level.operators(self.instance());
        loop {
            let sight = self.see(level, &members);
            let Some(is_better) = self.step(level, &members, &sight, end) else { return };
            if !is_better {
                // No move helps with these priorities.
                let device_of = self.current.schedule.device_of.clone();
                let order = assigned::order(self.instance(), &device_of);
                if !self.take(&Schedule::by_order(device_of, &order)) {
                    return;
                }
            }
        }
    }

    /// Makes the first change that helps. Returns whether there was such a change; `None` if a limit is reached.
    fn step(&mut self, level: &Level, members: &Csr<OpId>, sight: &Sight, end: u64) -> Option<bool> {
        let puts =
            |cluster| self.targets(level, sight, cluster).into_iter().map(move |to| Step::Put(cluster, to));
        let mut steps: Vec<Step> = sight.clusters.iter().copied().flat_map(puts).collect();
        steps.extend(sight.waits.iter().map(|&(op, before)| Step::Swap(op, before)));
        for step in steps {
            if self.is_over() || self.evaluator.runs >= end {
                return None;
            }
            let changes = step.changes(&self.current.schedule, members);
            let score = self.evaluator.change(changes.iter().copied(), self.limit());
            if let Some(score) = score.filter(|score| *score < self.current.score) {
                self.evaluator.keep();
                self.current.score = score;
                self.current.schedule.apply(&changes);
                return Some(true);
            }
            self.evaluator.take_back();
        }
        Some(false)
    }

    /// Settles on the current schedule and ranks the clusters to move.
    fn see(&mut self, level: &Level, members: &Csr<OpId>) -> Sight {
        let instance = self.instance();
        let graph = instance.graph();
        let mut weight = Keyed::filled(0.0f64, level.len());
        let mut waits = Vec::new();
        if !std::mem::replace(&mut self.is_settled, true) {
            self.evaluator.settle(&self.current.schedule);
        }
        let score = self.current.score;
        let (flow, timeline) = self.evaluator.settled();
        let Schedule { device_of, ranks } = &self.current.schedule;
        let devices = level.devices(instance, device_of);
        if score.fits() {
            let path = timeline.critical_path(flow);
            let mut on_path =
                |op: OpId, seconds: f64| weight[level.cluster_of(graph.class_of(op))] += seconds;
            // The path runs from its last step to its first, so a transfer brings its tensor to the activity listed
            // before it.
            let mut later = None;
            for (index, step) in path.iter().enumerate() {
                let seconds = step.span.end - step.span.start;
                match step.activity {
                    Activity::Operator(op) => {
                        on_path(OpId(op), seconds);
                        let earlier = path.get(index + 1).map(|step| step.activity);
                        if let (Cause::Device, Some(Activity::Operator(earlier))) = (step.cause, earlier)
                            && !ranks.is_empty()
                        {
                            waits.push((OpId(op), OpId(earlier)));
                        }
                    }
                    Activity::Transfer(transfer) => {
                        on_path(OpId(flow.producer_of(transfer)), seconds);
                        if let Some(Activity::Operator(reader)) = later {
                            on_path(OpId(reader), seconds);
                        }
                    }
                }
                later = Some(step.activity);
            }
        } else {
            let is_full = |device: DeviceId| {
                !tolerance::fits(timeline.peak_bytes()[device.index()], instance.memory(device))
            };
            for cluster in level.ids().filter(|&cluster| is_full(devices[cluster])) {
                weight[cluster] = level.bytes(cluster);
            }
        }
        let mut clusters: Vec<ClusterId> = level
            .ids()
            .filter(|&cluster| weight[cluster] > 0.0 && !members.row(cluster).is_empty())
            .collect();
        clusters.sort_by(|&a, &b| weight[b].total_cmp(&weight[a]));
        Sight { clusters, waits, devices, busy: flow.device_seconds().into() }
    }

    /// Other devices for a cluster: those that it communicates most with, then the least busy ones.
    fn targets(&self, level: &Level, sight: &Sight, cluster: ClusterId) -> Vec<DeviceId> {
        let problem = self.instance().problem();
        let mut near = Keyed::filled(0.0f64, sight.busy.len());
        for &(other, seconds) in level.links(cluster) {
            near[sight.devices[other]] += seconds;
        }
        let can = |device: &DeviceId| {
            *device != sight.devices[cluster] && level.seconds(cluster, problem.pool_of(*device)).is_finite()
        };
        let mut targets: Vec<DeviceId> = problem.cluster().devices().filter(can).collect();
        targets.sort_by(|&a, &b| near[b].total_cmp(&near[a]).then(sight.busy[a].total_cmp(&sight.busy[b])));
        targets.truncate(MAX_DEVICES);
        targets
    }
}
