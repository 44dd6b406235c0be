//! The common part of the dynamic programs over orders and over ideals.

use std::cell::Cell;

use stagewright_core::contraction::Units;
use stagewright_core::problem::Problem;
use stagewright_core::stop::Stop;
use stagewright_core::uncertainty::Uncertainty;

use super::stage_load::{Shares, WorstLoad};

/// Inputs of the dynamic programs over orders and over ideals.
pub(super) struct Program<'a> {
    pub(super) problem: &'a Problem,
    pub(super) units: &'a Units,
    pub(super) shares: Shares,
    pub(super) uncertainty: Uncertainty,
    pub(super) stop: Stop,
    /// Bytes for the tables of one program.
    pub(super) room: u64,
    /// Whether a program left out states that the memory limit has no room for.
    pub(super) lacks_room: Cell<bool>,
}

impl Program<'_> {
    pub(super) fn worst_load(&self, pool: usize) -> WorstLoad<'_> {
        WorstLoad::new(self.problem, self.units, &self.shares, self.uncertainty, pool)
    }

    pub(super) fn most_replicas(&self, pool: usize) -> u32 {
        self.problem.objective().rules().max_replicas.min(self.problem.pools()[pool].count())
    }
}
