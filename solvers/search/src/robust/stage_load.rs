//! The worst load of a growing stage.

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;
use stagewright_core::stage_load::{Mark, StageLoad};
use stagewright_core::uncertainty::{Exposed, SourceId, Sources, Uncertainty};

use crate::recurrence::Growing;

/// The compute of every unit by source of error.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    /// Number of sources without the links.
    kinds: usize,
    /// `[pool][unit]`: seconds by source.
    of: Vec<Keyed<UnitId, Vec<(SourceId, f64)>>>,
}

impl Shares {
    /// Adds up the operators of every unit, in O(pools · operators log operators).
    pub(super) fn new(problem: &Problem, units: &Units, sources: &Sources) -> Shares {
        let of_unit = |unit: UnitId, pool: usize| {
            let mut shares: Vec<(SourceId, f64)> = units
                .members(unit)
                .iter()
                .map(|&op| (sources.of(op), problem.seconds(op, pool).unwrap_or(0.0)))
                .filter(|&(_, seconds)| seconds > 0.0)
                .collect();
            shares.sort_by_key(|&(source, _)| source);
            shares.dedup_by(|next, sum| {
                let is_same = next.0 == sum.0;
                if is_same {
                    sum.1 += next.1;
                }
                is_same
            });
            shares
        };
        let of_pool = |pool: usize| units.ids().map(|unit| of_unit(unit, pool)).collect();
        Shares { kinds: sources.count() - 1, of: (0..problem.pools().len()).map(of_pool).collect() }
    }
}

/// State of a set before a unit joined it.
pub(super) struct Before {
    mark: Mark,
    logged: usize,
}

/// The worst load of a growing set of units on one pool.
pub(super) struct WorstLoad<'a> {
    problem: &'a Problem,
    shares: &'a Shares,
    uncertainty: Uncertainty,
    pool: usize,
    load: StageLoad<'a>,
    /// Compute of the set by source.
    kinds: Vec<f64>,
    /// Overwritten entries of `kinds`.
    log: Vec<(SourceId, f64)>,
    scratch: Vec<f64>,
}

impl<'a> WorstLoad<'a> {
    /// An empty set on a pool.
    pub(super) fn new(
        problem: &'a Problem,
        units: &'a Units,
        shares: &'a Shares,
        uncertainty: Uncertainty,
        pool: usize,
    ) -> Self {
        WorstLoad {
            problem,
            shares,
            uncertainty,
            pool,
            load: StageLoad::new(units, problem.objective(), pool),
            kinds: vec![0.0; shares.kinds],
            log: Vec::new(),
            scratch: Vec::new(),
        }
    }
}

impl Growing for WorstLoad<'_> {
    type Before = Before;

    fn clear(&mut self) {
        self.load.clear();
        self.kinds.fill(0.0);
        self.log.clear();
    }

    fn add(&mut self, unit: UnitId) -> Before {
        let before = Before { mark: self.load.mark(), logged: self.log.len() };
        self.load.add(unit);
        for &(source, seconds) in &self.shares.of[self.pool][unit] {
            let sum = &mut self.kinds[source.index()];
            self.log.push((source, *sum));
            *sum += seconds;
        }
        before
    }

    fn undo(&mut self, unit: UnitId, before: Before) {
        self.load.undo(unit, before.mark);
        for (source, sum) in self.log.drain(before.logged..).rev() {
            self.kinds[source.index()] = sum;
        }
    }

    fn is_hopeless(&self, cap: f64, replicas: u32) -> bool {
        let memory = self.problem.pools()[self.pool].memory;
        !self.load.supported()
            || self.load.compute(0) / f64::from(replicas) >= cap
            || !self.load.memory().may_fit(1, memory)
    }

    fn fits(&self) -> bool {
        self.load.memory().fits(1, self.problem.pools()[self.pool].memory)
    }

    /// The worst load of the set.
    fn score(&mut self, replicas: u32) -> f64 {
        let synchronisation =
            self.problem.pools()[self.pool].synchronisation(self.load.parameter_bytes(), replicas);
        let sums = self.load.sums(0);
        let exposed = Exposed { sums: &sums, kinds: &self.kinds, replicas, synchronisation };
        exposed.worst(&self.problem.objective().rules(), self.uncertainty, &mut self.scratch)
    }
}
