//! One walk over a plan that another method made.

use stagewright_core::contract::Units;
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

/// Improves plans of one free problem; what does not depend on the plan is made once.
pub struct Polisher<'a> {
    problem: &'a Problem,
    units: &'a Units,
    lines: Lines,
}

impl<'a> Polisher<'a> {
    /// For a problem and its units; none where its split is not free. O((operators + pins) log units).
    pub fn new(problem: &'a Problem, units: &'a Units) -> Option<Polisher<'a>> {
        if problem.objective().split != Split::Free {
            return None;
        }
        let lines = start::lines(units, start::contiguous(problem).as_ref());
        Some(Polisher { problem, units, lines })
    }

    /// Improves a plan by one cool walk of at most `steps` moves.
    ///
    /// The result depends on the arguments alone, unless `stop` ends the walk. It is never worse than a
    /// feasible start without replicas; a start that overfills a device is mended first.
    ///
    /// # Arguments
    /// `stream` is the seed and the task of the random stream.
    ///
    /// # Returns
    /// The plan; none where the start parts a unit, puts one where it cannot run, or cannot be mended.
    ///
    /// # Complexity
    /// O(units + pins), and per step the nets of a unit, or for one step in three those of the run that
    /// moves.
    pub fn polish(&self, start: &Placement, stream: (u64, u64), steps: u64, stop: &Stop) -> Option<Plan> {
        let start = Assignment::of_placement(self.problem, self.units, start)?;
        let start = start::repaired(start, &self.lines, stop)?;
        let mut rng = seed::stream(stream.0, stream.1);
        let found = anneal(start, &self.lines, cooling(0, steps, 0.0), &mut rng, stop);
        Plan::new(self.problem, placement(self.problem, self.units, &found.device_of)).ok()
    }
}

/// Improves one plan; see [`Polisher::polish`]. Also none where the split of the problem is not free.
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
