//! Polishing: one walk that improves a plan found by another method.

use stagewright_core::contraction::Units;
use stagewright_core::document::Split;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Plan, Stop};

use super::anneal::anneal;
use super::moves::Lines;
use super::search::cooling;
use super::start;
use super::state::{Assignment, placement};

/// Improves plans of one free problem; computes the plan-independent data once.
pub struct Polisher<'a> {
    problem: &'a Problem,
    units: &'a Units,
    lines: Lines,
}

impl<'a> Polisher<'a> {
    /// A polisher for a problem and its units; `None` if the split is not free. O((operators + pins) log units).
    pub fn new(problem: &'a Problem, units: &'a Units) -> Option<Polisher<'a>> {
        if problem.objective().rules().split != Split::Free {
            return None;
        }
        let lines = start::lines(units, start::contiguous(problem).as_ref());
        Some(Polisher { problem, units, lines })
    }

    /// Improves a plan by one cool walk of at most `steps` moves.
    ///
    /// The result depends only on the arguments, unless `stop` ends the walk. It is never worse than a
    /// feasible start without replicas; a start that overfills a device is repaired first.
    ///
    /// # Arguments
    /// `stream` is the seed and the task of the random stream.
    ///
    /// # Returns
    /// The plan; `None` if the start splits a unit, puts one on a device that cannot run it, or cannot be
    /// repaired.
    ///
    /// # Complexity
    /// O(units + pins), plus for every step the nets of a unit, or in one step of three the nets of the moving run.
    pub fn polish(&self, start: &Placement, stream: (u64, u64), steps: u64, stop: &Stop) -> Option<Plan> {
        let start = Assignment::of_placement(self.problem, self.units, start)?;
        let start = start::repaired(start, &self.lines, stop)?;
        let mut rng = seed::stream(stream.0, stream.1);
        let found = anneal(start, &self.lines, cooling(0, steps, 0.0), &mut rng, stop);
        Plan::new(self.problem, placement(self.problem, self.units, &found.device_of)).ok()
    }
}

/// Improves one plan; see [`Polisher::polish`]. Also `None` if the split of the problem is not free.
pub fn polish(
    problem: &Problem,
    units: &Units,
    start: &Placement,
    stream: (u64, u64),
    steps: u64,
    stop: &Stop,
) -> Option<Plan> {
    Polisher::new(problem, units)?.polish(start, stream, steps, stop)
}
