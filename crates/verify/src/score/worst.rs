//! The value of a pipeline in a scenario, and in the worst of all scenarios.
//!
//! In a scenario, all operators of some kinds, and perhaps everything that links carry, take longer by one factor. A
//! load never falls when a cost rises, so in the worst scenarios the maximum number of sources are off, and each device
//! has a worst scenario of its own. Under serial communication, it is the scenario of the sources with the most seconds
//! of the device's load. Otherwise the load is a maximum, and the worst scenario either makes the compute and the
//! synchronisation after it longest, or the transfers. The load is computed in each of these scenarios, so every load
//! found occurs in some scenario.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::document::{Communication, ObjectiveKind, PlanDocument, Schedule, Training};

use super::sums::Sums;
use super::{load, uplink};
use crate::constraint::Placed;
use crate::constraint::resident::Resident;
use crate::error::CheckError;
use crate::read::{Problem, cost};

/// Sources that are off: kinds of operators by name (`""` for operators without a kind), and the links.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scenario<'a> {
    pub(crate) kinds: BTreeSet<&'a str>,
    pub(crate) links: bool,
}

/// Seconds of a device by source.
struct Stage<'a> {
    kinds: BTreeMap<&'a str, f64>,
    sums: Sums,
    replicas: u32,
    /// Seconds in which the replicas synchronise.
    replicated: f64,
}

/// The loads of a placement by source.
pub(crate) struct Worst<'a> {
    communication: Communication,
    stages: Vec<Stage<'a>>,
    uplinks: Vec<f64>,
}

/// Whether scenarios are defined for the objective of a plan.
pub(crate) fn is_defined(plan: &PlanDocument) -> bool {
    let objective = &plan.objective;
    objective.kind == ObjectiveKind::Throughput
        && objective.schedule == Schedule::None
        && objective.training == Training::Combined
}

impl<'a> Worst<'a> {
    /// Adds up the seconds of every device; `None` if an operator is on a device that can't run it. O(operators log
    /// sources + pins).
    pub(crate) fn new(problem: &Problem<'a>, placed: &Placed) -> Result<Option<Self>, CheckError> {
        let Some(sums) = load::sums(problem, placed)? else { return Ok(None) };
        let mut stages = Vec::with_capacity(sums.len());
        for (device, sums) in placed.devices.iter().zip(sums) {
            let kind = &problem.cluster.kinds[device.kind];
            let replicas = device.document.replicas.max(1);
            let parameters = Resident::new(&problem.graph, &device.operators).synchronised;
            let replicated = problem.once() * cost::synchronisation(parameters, replicas, kind)?;
            let mut kinds: BTreeMap<&str, f64> = BTreeMap::new();
            for &operator in &device.operators {
                let Some(seconds) = problem.seconds(operator, kind) else { return Ok(None) };
                let operators: &'a [_] = problem.graph.operators;
                *kinds.entry(operators[operator].kind.as_deref().unwrap_or("")).or_default() += seconds;
            }
            stages.push(Stage { kinds, sums: sums[0] + sums[1], replicas, replicated });
        }
        let uplinks =
            uplink::loads(problem, placed).into_iter().map(|[sent, received]| sent + received).collect();
        Ok(Some(Worst { communication: problem.rules.communication, stages, uplinks }))
    }

    /// The value in a scenario. O(devices · log sources).
    pub(crate) fn value(&self, scenario: &Scenario, deviation: f64) -> f64 {
        let stages = self.stages.iter().map(|stage| stage.load(self.communication, scenario, deviation));
        let links = if scenario.links { 1.0 + deviation } else { 1.0 };
        stages.chain(self.uplinks.iter().map(|seconds| links * seconds)).fold(0.0, f64::max)
    }

    /// The largest value over all scenarios in which at most `budget` sources are off. O(devices · sources log sources).
    pub(crate) fn worst(&self, budget: u32, deviation: f64) -> f64 {
        let none = Scenario::default();
        if budget == 0 {
            return self.value(&none, deviation);
        }
        let uplinks = self.uplinks.iter().map(|seconds| (1.0 + deviation) * seconds);
        let stages = self.stages.iter().flat_map(|stage| {
            let scenarios = stage.scenarios(self.communication, budget);
            scenarios.into_iter().map(|scenario| stage.load(self.communication, &scenario, deviation))
        });
        stages.chain(uplinks).fold(0.0, f64::max)
    }
}

impl<'a> Stage<'a> {
    fn load(&self, communication: Communication, scenario: &Scenario, deviation: f64) -> f64 {
        let off = 1.0 + deviation;
        let links = if scenario.links { off } else { 1.0 };
        let Sums { sent, received, synchronised, .. } = self.sums;
        let slower: f64 = scenario.kinds.iter().filter_map(|kind| self.kinds.get(kind)).sum();
        let sums = Sums {
            compute: self.sums.compute + deviation * slower,
            sent: links * sent,
            received: links * received,
            synchronised: links * synchronised,
        };
        sums.load(communication, self.replicas) + links * self.replicated
    }

    /// Scenarios of which one is the worst for the device.
    fn scenarios(&self, communication: Communication, budget: u32) -> Vec<Scenario<'a>> {
        let replicas = f64::from(self.replicas);
        let after = self.sums.synchronised + self.replicated;
        let with_compute = match communication {
            Communication::Serial => (self.sums.sent + self.sums.received) / replicas + after,
            Communication::Overlap | Communication::Duplex => after,
        };
        let mut sources: Vec<(f64, Option<&str>)> =
            self.kinds.iter().map(|(&kind, seconds)| (seconds / replicas, Some(kind))).collect();
        sources.push((with_compute, None));
        sources.sort_by(|left, right| right.0.total_cmp(&left.0));
        let mut largest = Scenario::default();
        for (_, source) in sources.into_iter().take(budget as usize) {
            match source {
                Some(kind) => drop(largest.kinds.insert(kind)),
                None => largest.links = true,
            }
        }
        vec![largest, Scenario { links: true, ..Scenario::default() }]
    }
}
