//! The programs over ideals and orders, for stages within limits on their load and on their memory or number of devices.

use std::cell::Cell;

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::{Schedule, SecondGoal, Split};
use stagewright_core::placement::StageAssignment;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Context;
use stagewright_core::stage_load::{Mark, StageLoad};
use stagewright_core::tolerance::VALUE_RELATIVE;

use super::aim::Aim;
use super::measure::{Measure, is_counted};
use crate::dpl::{is_chain, table_bytes};
use crate::order;
use crate::recurrence::{Combine, Growing, Program};
use crate::usage::UsageSpace;

/// Splits found by the programs.
pub(super) struct Splits {
    /// Stages of promising splits, in the order in which they were found.
    pub(super) found: Vec<Vec<StageAssignment>>,
    /// The least measure of all contiguous splits, infinite if there are none; `None` if it was not proved.
    pub(super) least: Option<f64>,
}

/// Finds splits of the given units that meet the aim, but for a limit on communication, which loads of stages do not show.
/// `problem` must have a contiguous split. `orders` are tried before the plain orders.
pub(super) fn splits(
    problem: &Problem,
    units: &Units,
    aim: Aim<'_>,
    orders: &[Vec<UnitId>],
    context: &Context<'_>,
) -> Splits {
    // Under 1F1B, the first of N stages keeps min(N, microbatches) in flight: what fits with that many fits anywhere.
    let stages =
        aim.requirements.stages.unwrap_or_else(|| problem.pools().iter().map(|pool| pool.count()).sum());
    let in_flight = problem.objective().in_flight_of(stages.max(1), stages.max(1));
    let program = Program {
        problem,
        units,
        stage: &|pool| Stage::new(problem, units, aim, in_flight, pool),
        combine: match aim.measure {
            Measure::Value | Measure::Second(SecondGoal::Memory) => Combine::Largest,
            Measure::Second(SecondGoal::Devices | SecondGoal::Communication) => Combine::Sum,
        },
        is_allowed: &|space, usage| is_allowed(problem, aim, space, usage),
        stop: context.stop().clone(),
        room: table_bytes(context.limits.memory),
        lacks_room: Cell::new(false),
    };
    let all = [orders, &order::PLAIN.map(|rule| rule.order(problem, units))].concat();
    let finished = match is_chain(units) {
        true => program.over_order(&all[0], f64::INFINITY),
        false => program.over_ideals(f64::INFINITY),
    };
    if let Some(best) = finished {
        let is_exact = is_exact(problem, aim);
        let least = best.as_ref().map_or(f64::INFINITY, |(score, _)| *score);
        let found = best.map(|(_, stages)| stages).into_iter().collect();
        return Splits { found, least: is_exact.then_some(least) };
    }
    let mut found = Vec::new();
    for (index, order) in all.iter().enumerate() {
        if context.stop().reason().is_none() && !all[..index].contains(order) {
            found.extend(program.split(order, f64::INFINITY).map(|(_, stages)| stages));
        }
    }
    Splits { found, least: None }
}

/// Whether the programs find the least measure of all contiguous splits: the value is the largest load of a stage, and what
/// is required can be told from the number of devices of each pool.
fn is_exact(problem: &Problem, aim: Aim<'_>) -> bool {
    let rules = problem.objective().rules();
    rules.split == Split::Contiguous
        && rules.schedule == Schedule::None
        && problem.objective().passes() == 1
        && problem.pools().iter().all(|pool| pool.group.is_none())
        && (aim.requirements.stages.is_none() || rules.max_replicas == 1)
}

/// Whether a split that uses these devices meets the requirements. With replicas, the number of stages is not known.
fn is_allowed(problem: &Problem, aim: Aim<'_>, space: &UsageSpace, usage: usize) -> bool {
    let pools = problem.pools();
    let used = |pool: usize| space.count(usage, pool);
    let has_stages = aim.requirements.stages.is_none_or(|stages| {
        problem.objective().rules().max_replicas > 1 || (0..pools.len()).map(used).sum::<u32>() == stages
    });
    let has_all =
        || (0..pools.len()).all(|pool| !is_counted(problem, pool) || used(pool) == pools[pool].count());
    let is_few = aim.most.is_none_or(|(goal, limit)| {
        let counted = (0..pools.len()).filter(|&pool| is_counted(problem, pool));
        goal != SecondGoal::Devices || f64::from(counted.map(used).sum::<u32>()) <= limit
    });
    has_stages && is_few && (!aim.requirements.all_devices || has_all())
}

/// A growing stage on one pool.
struct Stage<'a> {
    problem: &'a Problem,
    measure: Measure,
    /// Largest load that the stage may have.
    limit: f64,
    /// Largest memory that the stage may need, in bytes, even if more would fit; infinite without a limit.
    most_bytes: f64,
    in_flight: u32,
    pool: usize,
    is_counted: bool,
    load: StageLoad<'a>,
}

impl<'a> Stage<'a> {
    fn new(problem: &'a Problem, units: &'a Units, aim: Aim<'_>, in_flight: u32, pool: usize) -> Stage<'a> {
        let is_counted = is_counted(problem, pool);
        let most_bytes = match aim.most {
            Some((SecondGoal::Memory, most)) if is_counted => most * (1.0 + VALUE_RELATIVE),
            _ => f64::INFINITY,
        };
        let limit = aim.limit * (1.0 + VALUE_RELATIVE);
        let load = StageLoad::new(units, problem.objective(), pool);
        Stage { problem, measure: aim.measure, limit, most_bytes, in_flight, pool, is_counted, load }
    }

    fn memory(&self) -> f64 {
        self.problem.pools()[self.pool].memory
    }
}

impl Growing for Stage<'_> {
    type Before = Mark;

    fn clear(&mut self) {
        self.load.clear();
    }

    fn add(&mut self, unit: UnitId) -> Mark {
        let before = self.load.mark();
        self.load.add(unit);
        before
    }

    fn undo(&mut self, unit: UnitId, before: Mark) {
        self.load.undo(unit, before);
    }

    fn is_hopeless(&self, cap: f64, replicas: u32) -> bool {
        let compute = self.load.compute(0) / f64::from(replicas);
        !self.load.supported()
            || compute > self.limit
            || (self.measure == Measure::Value && compute >= cap)
            || !self.load.memory().may_fit(self.in_flight, self.memory().min(self.most_bytes))
    }

    fn score(&mut self, replicas: u32) -> f64 {
        let pool = &self.problem.pools()[self.pool];
        let passes: f64 =
            (0..self.problem.objective().passes()).map(|pass| self.load.load(pass, replicas)).sum();
        let load = passes + pool.synchronisation(self.load.parameter_bytes(), replicas);
        let is_too_large = || {
            self.most_bytes.is_finite() && self.load.memory().bytes().total(self.in_flight) > self.most_bytes
        };
        if load > self.limit || is_too_large() {
            return f64::INFINITY;
        }
        match self.measure {
            Measure::Value => load,
            Measure::Second(SecondGoal::Communication) => {
                (0..self.problem.objective().passes()).map(|pass| self.load.sums(pass).communication()).sum()
            }
            Measure::Second(_) if !self.is_counted => 0.0,
            Measure::Second(SecondGoal::Memory) => self.load.memory().bytes().total(self.in_flight),
            Measure::Second(SecondGoal::Devices) => f64::from(replicas),
        }
    }

    fn fits(&self) -> bool {
        self.load.memory().fits(self.in_flight, self.memory())
    }
}
