//! A problem as the policy sees it: units, transfers between them, devices, and a plan to improve on.
//!
//! Units are colocation classes if these are few enough and acyclic, otherwise clusters of acyclic heavy-edge matching,
//! so the network can read a graph of any size quickly. All objectives are read as a step under dataflow execution,
//! because the run times of operators and the costs of transfers do not depend on the objective.

use stagewright_core::cluster::DeviceId;
use stagewright_core::document::ObjectiveKind;
use stagewright_core::graph::OpId;
use stagewright_core::ids::Keyed;
use stagewright_core::objective::Objective;
use stagewright_core::problem::{Problem, ProblemError};
use stagewright_core::seed;
use stagewright_core::simulate::Activity;
use stagewright_makespan::instance::Instance;
use stagewright_makespan::schedule::{Evaluator, Schedule};
use stagewright_makespan::{ClusterId, Level, acyclic_level_of};

/// The units of a problem with everything that does not depend on the plan. A unit is a cluster of operators: see
/// [`Level`].
#[derive(Debug)]
pub struct Subject<'s, 'p> {
    pub(crate) instance: &'s Instance<'p>,
    pub(crate) level: Level,
    /// Edges between units: from, to, mean seconds of the transfer.
    pub(crate) edges: Vec<(ClusterId, ClusterId, f64)>,
    /// The units by decreasing bottom level, each after its predecessors.
    pub(crate) order: Vec<ClusterId>,
    /// Top level: longest path from the start to a unit, excluding its own seconds.
    pub(crate) top: Keyed<ClusterId, f64>,
    /// Bottom level: longest path from a unit to the end, including its own seconds.
    pub(crate) bottom: Keyed<ClusterId, f64>,
    /// Whether the objective is throughput.
    pub(crate) is_throughput: bool,
}

/// The problem of minimising the step time, on the graph, the cluster and the pins of a problem with any objective.
///
/// # Errors
/// If the combination of the inputs and the objective is invalid.
pub fn step_of(problem: &Problem) -> Result<Problem, ProblemError> {
    if problem.objective().kind() == ObjectiveKind::Makespan {
        return Ok(problem.clone());
    }
    let execution = problem.objective().execution();
    let step = Objective::Makespan { execution };
    problem.with_objective(step)
}

impl<'s, 'p> Subject<'s, 'p> {
    /// Builds the subject of a step, with at most `most_units` units if coarsening gets that far. `is_throughput` says
    /// whether the plan's objective is throughput. O(pools · operators + levels · edges log edges).
    pub fn new(instance: &'s Instance<'p>, most_units: usize, is_throughput: bool) -> Subject<'s, 'p> {
        let level = acyclic_level_of(instance, most_units, &mut seed::stream(0, 0));
        let units = level.len();
        let row = |from: ClusterId| level.next(from).iter().map(move |&(to, seconds)| (from, to, seconds));
        let edges = level.ids().flat_map(row).collect();
        let mut order = level.order().unwrap_or_else(|| level.ids().collect());
        let (mut top, mut bottom) = (Keyed::filled(0.0, units), Keyed::filled(0.0, units));
        for &unit in &order {
            let before = |&(from, seconds): &(ClusterId, f64)| top[from] + level.mean(from) + seconds;
            top[unit] = level.previous(unit).iter().map(before).fold(0.0, f64::max);
        }
        for &unit in order.iter().rev() {
            let after = |&(to, seconds): &(ClusterId, f64)| bottom[to] + seconds;
            bottom[unit] = level.mean(unit) + level.next(unit).iter().map(after).fold(0.0, f64::max);
        }
        // The sort is stable: units of equal bottom level stay in topological order.
        order.sort_by(|&a, &b| bottom[b].total_cmp(&bottom[a]));
        Subject { instance, level, edges, order, top, bottom, is_throughput }
    }

    /// The instance.
    pub fn instance(&self) -> &'s Instance<'p> {
        self.instance
    }

    /// The units.
    pub fn level(&self) -> &Level {
        &self.level
    }

    /// Number of units.
    pub fn unit_count(&self) -> usize {
        self.level.len()
    }

    /// Edges between units: from, to, mean seconds of the transfer; sorted.
    pub fn edges(&self) -> &[(ClusterId, ClusterId, f64)] {
        &self.edges
    }

    /// The units by decreasing bottom level, each after its predecessors.
    pub fn order(&self) -> &[ClusterId] {
        &self.order
    }

    /// Whether a unit can run on a device.
    pub fn can_run(&self, unit: ClusterId, device: DeviceId) -> bool {
        self.level.seconds(unit, self.instance.problem().pool_of(device)).is_finite()
    }

    /// The device of every unit, given the devices of the operators: the device that does most of the unit's work.
    pub fn devices_of(&self, device_of: &[DeviceId]) -> Keyed<ClusterId, DeviceId> {
        let (graph, devices) = (self.instance.graph(), self.instance.device_count());
        let mut work = vec![0.0f64; self.unit_count() * devices];
        for op in graph.operators() {
            let unit = self.level.cluster_of(graph.class_of(op));
            // Operators that take no time decide only if no other operator does.
            work[unit.index() * devices + device_of[op.index()].index()] +=
                self.instance.mean_seconds(op) + f64::MIN_POSITIVE;
        }
        let largest = |row: &[f64]| {
            let mut best = 0;
            for device in 1..row.len() {
                if row[device] > row[best] {
                    best = device;
                }
            }
            DeviceId::new(best)
        };
        work.chunks(devices.max(1)).map(largest).collect()
    }
}

/// A plan to improve on, as the network sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Base {
    /// The device of every unit.
    pub home: Keyed<ClusterId, DeviceId>,
    /// Mean start time of a unit's operators, as a share of the step.
    pub start: Vec<f64>,
    /// Share of a unit's seconds on the critical path.
    pub critical: Vec<f64>,
    /// Length of the step in seconds.
    pub seconds: f64,
    /// Busy seconds of every device.
    pub busy: Keyed<DeviceId, f64>,
    /// Peak memory of every device in bytes.
    pub peak: Keyed<DeviceId, f64>,
}

impl Base {
    /// Simulates a schedule once. O(operators log operators).
    pub fn new(subject: &Subject<'_, '_>, evaluator: &mut Evaluator<'_, '_>, schedule: &Schedule) -> Base {
        let (graph, level) = (subject.instance.graph(), &subject.level);
        let seconds = evaluator.score(schedule).makespan;
        let (flow, timeline) = evaluator.last();
        let (mut start, mut critical) = (vec![0.0; level.len()], vec![0.0; level.len()]);
        let mut count = vec![0.0f64; level.len()];
        let unit_of = |op| level.cluster_of(graph.class_of(op));
        for (op, span) in graph.operators().zip(timeline.operators()) {
            start[unit_of(op).index()] += span.start;
            count[unit_of(op).index()] += 1.0;
        }
        for step in timeline.critical_path(flow) {
            if let Activity::Operator(op) = step.activity {
                let op = OpId(op);
                critical[unit_of(op).index()] += subject.instance.mean_seconds(op);
            }
        }
        for unit in 0..level.len() {
            start[unit] = ratio(start[unit], count[unit] * seconds);
            critical[unit] = ratio(critical[unit], level.mean(ClusterId::new(unit))).min(1.0);
        }
        Base {
            home: subject.devices_of(&schedule.device_of),
            start,
            critical,
            seconds,
            busy: flow.device_seconds().into(),
            peak: timeline.peak_bytes().to_vec().into(),
        }
    }
}

/// A quotient, or 0 if it is not finite.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    let ratio = part / whole;
    if ratio.is_finite() { ratio } else { 0.0 }
}
