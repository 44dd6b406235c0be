//! A stage that grows and shrinks unit by unit.

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::Keyed;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::schedule::StageTimes;
use stagewright_core::stage_load::{Mark, StageLoad};

use super::label::Rest;

/// Deferred seconds and minimum times, by unit.
pub(super) struct Times {
    /// `[pool][unit]`: seconds of weight gradients that the schedule runs separately.
    deferred: Vec<Keyed<UnitId, f64>>,
    /// Minimum time of each unit over the pools that support it, divided among the maximum number of replicas there.
    pub(super) least: Keyed<UnitId, Rest>,
    /// Minimum time of each unit over the pools, on one device.
    pub(super) work: Keyed<UnitId, f64>,
}

impl Times {
    /// Computes the times in O(operators · pools).
    pub(super) fn new(problem: &Problem, units: &Units) -> Times {
        let graph = problem.graph();
        let mut deferred = vec![Keyed::filled(0.0, units.len()); units.pools()];
        for op in graph.operators().filter(|&op| problem.is_deferred(op)) {
            for (pool, deferred) in deferred.iter_mut().enumerate() {
                deferred[units.unit_of(op)] += problem.seconds(op, pool).unwrap_or(0.0);
            }
        }
        let supported = |unit: UnitId| (0..units.pools()).filter(move |&pool| units.supported(unit, pool));
        let least = |unit: UnitId, seconds: &dyn Fn(usize) -> f64| {
            let times = supported(unit).map(seconds);
            // If no pool supports a unit, the search ends elsewhere.
            times.min_by(f64::total_cmp).unwrap_or(0.0).max(0.0)
        };
        let share = |pool: usize| {
            f64::from(problem.objective().rules().max_replicas.min(problem.pools()[pool].count()))
        };
        let total = |unit: UnitId, pool: usize| units.seconds(unit, pool).unwrap_or(0.0);
        Times {
            least: units
                .ids()
                .map(|unit| Rest {
                    forward: least(unit, &|pool| units.pass_seconds(unit, pool, 0) / share(pool)),
                    passes: least(unit, &|pool| (total(unit, pool) - deferred[pool][unit]) / share(pool)),
                })
                .collect(),
            work: units.ids().map(|unit| least(unit, &|pool| total(unit, pool))).collect(),
            deferred,
        }
    }
}

/// The units of a stage on a pool.
pub(super) struct Stage<'a> {
    problem: &'a Problem,
    times: &'a Times,
    load: StageLoad<'a>,
    pool: usize,
    deferred: f64,
    before: Vec<(UnitId, Mark, f64)>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(problem: &'a Problem, units: &'a Units, times: &'a Times, pool: usize) -> Stage<'a> {
        let load = StageLoad::new(units, problem.objective(), pool);
        Stage { problem, times, load, pool, deferred: 0.0, before: Vec::new() }
    }

    pub(super) fn add(&mut self, unit: UnitId) {
        self.before.push((unit, self.load.mark(), self.deferred));
        self.load.add(unit);
        self.deferred += self.times.deferred[self.pool][unit];
    }

    /// Removes the unit that was added last.
    pub(super) fn undo(&mut self) {
        if let Some((unit, mark, deferred)) = self.before.pop() {
            self.load.undo(unit, mark);
            self.deferred = deferred;
        }
    }

    pub(super) fn supported(&self) -> bool {
        self.load.supported()
    }

    pub(super) fn fits(&self, in_flight: u32) -> bool {
        self.load.memory().fits(in_flight, self.problem.pools()[self.pool].memory)
    }

    /// Times of the stage on a number of replicas.
    pub(super) fn on(&self, replicas: u32) -> StageTimes {
        let pool = &self.problem.pools()[self.pool];
        let synchronised = pool.synchronisation(self.load.parameter_bytes(), replicas);
        let sums = [self.load.sums(0), self.load.sums(1)];
        StageTimes::new(self.objective(), &sums, self.deferred, replicas, synchronised)
    }

    /// Lower bound on the times of this and every larger stage on a number of replicas: compute alone.
    pub(super) fn at_least(&self, replicas: u32) -> StageTimes {
        let share = f64::from(replicas);
        StageTimes {
            forward: self.load.compute(0) / share,
            backward: (self.load.compute(1) - self.deferred).max(0.0) / share,
            weight: self.deferred / share,
        }
    }

    fn objective(&self) -> &Objective {
        self.problem.objective()
    }
}
