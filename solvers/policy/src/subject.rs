//! A problem as the policy sees it: units, what passes between them, devices, and a plan to improve on.
//!
//! Units are colocation classes where these are few enough and on no cycle, and else clusters of acyclic heavy-edge
//! matching, so that a graph of any size is one that the network reads in a moment. All objectives are read as a step under
//! dataflow execution: what runs where for how long and what it takes to send is the same for all of them.

use stagewright_core::cluster::DeviceId;
use stagewright_core::document::{ObjectiveKind, Split};
use stagewright_core::objective::Objective;
use stagewright_core::problem::{Problem, ProblemError};
use stagewright_core::seed;
use stagewright_core::simulate::Activity;
use stagewright_search::makespan::scene::Scene;
use stagewright_search::makespan::schedule::{Judge, Schedule};
use stagewright_search::makespan::{Level, acyclic_level_of};

/// Units and what is known of them whatever the plan. Units stand for operators: see [`Level`].
#[derive(Debug)]
pub struct Subject<'s, 'p> {
    pub(crate) scene: &'s Scene<'p>,
    pub(crate) level: Level,
    /// Edges by unit: from, to, mean seconds of what is sent.
    pub(crate) edges: Vec<(u32, u32, f64)>,
    /// The units by falling way to the end; each after all that it reads.
    pub(crate) order: Vec<u32>,
    /// The longest way from the beginning to a unit, its own seconds excluded.
    pub(crate) top: Vec<f64>,
    /// The longest way from a unit to the end, its own seconds included.
    pub(crate) bottom: Vec<f64>,
    /// Whether throughput is asked for.
    pub(crate) is_throughput: bool,
}

/// The step of a problem whatever it asks for: the same graph, cluster and pins.
///
/// # Errors
/// As for [`Problem::new`].
pub fn step_of(problem: &Problem) -> Result<Problem, ProblemError> {
    if problem.objective().kind == ObjectiveKind::Makespan {
        return Ok(problem.clone());
    }
    let execution = problem.objective().execution;
    let step =
        Objective { kind: ObjectiveKind::Makespan, split: Split::Free, execution, ..Objective::default() };
    problem.with_objective(step)
}

impl<'s, 'p> Subject<'s, 'p> {
    /// The subject of a step in at most so many units, where coarsening comes that far. O(pools · operators + levels ·
    /// edges log edges). `is_throughput` says what the plan is for.
    pub fn new(scene: &'s Scene<'p>, most_units: usize, is_throughput: bool) -> Subject<'s, 'p> {
        let level = acyclic_level_of(scene, most_units, &mut seed::stream(0, 0));
        let units = level.len();
        let row = |from: usize| level.next(from).iter().map(move |&(to, seconds)| (from as u32, to, seconds));
        let edges: Vec<(u32, u32, f64)> = (0..units).flat_map(row).collect();
        let topological = level.order().unwrap_or_else(|| (0..units as u32).collect());
        let (mut top, mut bottom) = (vec![0.0f64; units], vec![0.0f64; units]);
        for &unit in &topological {
            let unit = unit as usize;
            let before =
                |&(from, seconds): &(u32, f64)| top[from as usize] + level.mean(from as usize) + seconds;
            top[unit] = level.previous(unit).iter().map(before).fold(0.0, f64::max);
        }
        for &unit in topological.iter().rev() {
            let unit = unit as usize;
            let after = |&(to, seconds): &(u32, f64)| bottom[to as usize] + seconds;
            bottom[unit] = level.mean(unit) + level.next(unit).iter().map(after).fold(0.0, f64::max);
        }
        let mut order = topological;
        // Stable: units of one rank stay in topological order.
        order.sort_by(|&a, &b| bottom[b as usize].total_cmp(&bottom[a as usize]));
        Subject { scene, level, edges, order, top, bottom, is_throughput }
    }

    /// The scene.
    pub fn scene(&self) -> &'s Scene<'p> {
        self.scene
    }

    /// The units.
    pub fn level(&self) -> &Level {
        &self.level
    }

    /// Number of units.
    pub fn unit_count(&self) -> usize {
        self.level.len()
    }

    /// Edges between units: from, to, mean seconds of what is sent; sorted.
    pub fn edges(&self) -> &[(u32, u32, f64)] {
        &self.edges
    }

    /// The units by falling way to the end, each after all that it reads.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Whether a unit can run on a device.
    pub fn can_run(&self, unit: usize, device: DeviceId) -> bool {
        self.level.seconds(unit, self.scene.problem().pool_of(device)).is_finite()
    }

    /// The device of every unit under those of the operators: where most of its work is.
    pub fn devices_of(&self, device_of: &[DeviceId]) -> Vec<u32> {
        let (graph, devices) = (self.scene.graph(), self.scene.device_count());
        let mut work = vec![0.0f64; self.unit_count() * devices];
        for op in graph.operators() {
            let unit = self.level.cluster_of(graph.class_of(op));
            // What takes no time has a say where nothing else has.
            work[unit * devices + device_of[op.index()].index()] +=
                self.scene.mean_seconds(op) + f64::MIN_POSITIVE;
        }
        let most = |row: &[f64]| {
            let mut best = 0;
            for device in 1..row.len() {
                if row[device] > row[best] {
                    best = device;
                }
            }
            best as u32
        };
        work.chunks(devices.max(1)).map(most).collect()
    }
}

/// A plan to improve on, as the network sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Base {
    /// The device of every unit.
    pub home: Vec<u32>,
    /// When a unit's operators start on average, as a share of the step.
    pub start: Vec<f64>,
    /// The share of a unit's seconds that is on the critical path.
    pub critical: Vec<f64>,
    /// Seconds of the step.
    pub seconds: f64,
    /// Busy seconds of every device.
    pub busy: Vec<f64>,
    /// What every device holds at its worst moment.
    pub peak: Vec<f64>,
}

impl Base {
    /// That of a schedule, simulated once. O(operators log operators).
    pub fn new(subject: &Subject<'_, '_>, judge: &mut Judge<'_, '_>, schedule: &Schedule) -> Base {
        let (graph, level) = (subject.scene.graph(), &subject.level);
        let seconds = judge.score(schedule).makespan;
        let (flow, timeline) = judge.last();
        let (mut start, mut critical) = (vec![0.0; level.len()], vec![0.0; level.len()]);
        let mut count = vec![0.0f64; level.len()];
        let unit_of = |op| level.cluster_of(graph.class_of(op));
        for (op, span) in graph.operators().zip(timeline.operators()) {
            start[unit_of(op)] += span.start;
            count[unit_of(op)] += 1.0;
        }
        for step in timeline.critical_path(flow) {
            if let Activity::Operator(op) = step.activity {
                let op = stagewright_core::graph::OpId(op);
                critical[unit_of(op)] += subject.scene.mean_seconds(op);
            }
        }
        for unit in 0..level.len() {
            start[unit] = ratio(start[unit], count[unit] * seconds);
            critical[unit] = ratio(critical[unit], level.mean(unit)).min(1.0);
        }
        Base {
            home: subject.devices_of(&schedule.device_of),
            start,
            critical,
            seconds,
            busy: flow.device_seconds(),
            peak: timeline.peak_bytes().to_vec(),
        }
    }
}

/// A quotient, nothing where there is nothing to divide by.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    let ratio = part / whole;
    if ratio.is_finite() { ratio } else { 0.0 }
}
