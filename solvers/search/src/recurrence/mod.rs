//! Dynamic programs over stages whose score depends on the stage alone.
//!
//! The score of a split is the largest score of its stages, or their sum. [`Program::on_line`] finds the best split of one
//! linear order, and [`Program::over_ideals`] the best of all contiguous splits of a small lattice. The exact splitter has
//! programs of its own, which prune more but know only loads.

mod ideals;
mod line;
mod states;

use std::cell::Cell;

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::problem::Problem;
use stagewright_core::stop::Stop;

use crate::dpl::Positions;
use crate::usage::UsageSpace;
pub(crate) use states::Stages;

/// A growing set of units on one pool, with its score as a stage.
pub(crate) trait Growing {
    /// What [`Growing::undo`] needs.
    type Before;

    /// Empties the set.
    fn clear(&mut self);

    /// Adds a unit that is not in the set.
    fn add(&mut self, unit: UnitId) -> Self::Before;

    /// Removes the unit that was added last.
    fn undo(&mut self, unit: UnitId, before: Self::Before);

    /// Whether no superset is a stage with a score below the cap on at most `replicas` devices.
    fn is_hopeless(&self, cap: f64, replicas: u32) -> bool;

    /// Score of the set on a number of replicas; infinite if the set must not be a stage.
    fn score(&mut self, replicas: u32) -> f64;

    /// Whether the set fits into the memory of a device.
    fn fits(&self) -> bool;
}

/// Combination of the scores of stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Combine {
    Largest,
    Sum,
}

impl Combine {
    fn of(self, score: f64, stage: f64) -> f64 {
        match self {
            Combine::Largest => score.max(stage),
            Combine::Sum => score + stage,
        }
    }
}

/// Inputs of the dynamic programs over orders and over ideals.
pub(crate) struct Program<'a, G> {
    pub(crate) problem: &'a Problem,
    pub(crate) units: &'a Units,
    /// Makes an empty set on a pool.
    pub(crate) stage: &'a dyn Fn(usize) -> G,
    pub(crate) combine: Combine,
    /// Whether a split may use these devices.
    pub(crate) is_allowed: &'a dyn Fn(&UsageSpace, usize) -> bool,
    pub(crate) stop: Stop,
    /// Bytes for the tables of one program.
    pub(crate) room: u64,
    /// Whether a program left out states that the memory limit has no room for.
    pub(crate) lacks_room: Cell<bool>,
}

impl<G: Growing> Program<'_, G> {
    fn most_replicas(&self, pool: usize) -> u32 {
        self.problem.objective().rules().max_replicas.min(self.problem.pools()[pool].count())
    }

    /// The best stages over an order and cuts at its promising positions, which are refined once around the best cuts if
    /// not all positions were tried; `None` if there is no split with a score below the cap, or the solve has to stop first.
    pub(crate) fn split(&self, order: &[UnitId], mut cap: f64) -> Option<Stages> {
        let mut positions = Positions::new(self.problem, self.units, order);
        let rounds = if positions.are_all(order.len()) { 1 } else { 2 };
        let mut best = None;
        for _ in 0..rounds {
            let Some(space) = self.usages(0, positions.list().len(), true) else { break };
            let Some(Some((score, stages))) = self.on_line(order, &positions, &space, cap) else { break };
            positions = Positions::near(&stages, order.len());
            cap = score;
            best = Some((score, stages));
        }
        best
    }

    /// The best stages with a score below the cap, for units with a single order; `Some(None)` if there are no such
    /// stages. `None` if the order is too long for all its positions, there are too many states, or the solve has to
    /// stop first.
    pub(crate) fn over_order(&self, order: &[UnitId], cap: f64) -> Option<Option<Stages>> {
        let positions = Positions::new(self.problem, self.units, order);
        if !positions.are_all(order.len()) {
            return None;
        }
        let space = self.usages(0, positions.list().len(), false)?;
        self.on_line(order, &positions, &space, cap)
    }
}
