//! Labels for the makespan.
//!
//! List schedulers run first. Then come independent searches, so that their plans differ, and finally two of them
//! again, from the best plan so far.

use stagewright_core::solver::{SolveError, Solver};
use stagewright_makespan::{
    ANNEALING, CPOP, EARLIEST_TASK_FIRST, HEFT, MULTILEVEL, OrderSplit, PEFT, SMALL_COMMUNICATION, TABU,
};

use super::best::Best;
use super::{LabelEffort, Work, within};

/// One-pass schedulers, each with its largest share of the time; they count no simulations.
const LISTS: [(&dyn Solver, f64); 5] =
    [(&HEFT, 0.05), (&PEFT, 0.05), (&CPOP, 0.05), (&SMALL_COMMUNICATION, 0.05), (&EARLIEST_TASK_FIRST, 0.05)];
/// Searches from scratch, each with its share of the effort.
const SEARCHES: [(&dyn Solver, f64); 5] =
    [(&OrderSplit, 0.05), (&MULTILEVEL, 0.22), (&TABU, 0.15), (&ANNEALING, 0.15), (&MULTILEVEL, 0.13)];
/// Searches from the best plan so far, each with its share of the effort. The shares of all searches sum to 1.
const REFINEMENTS: [(&dyn Solver, f64); 2] = [(&TABU, 0.15), (&ANNEALING, 0.15)];

/// Runs all solvers, each with its own seed.
pub(super) fn search(best: &mut Best<'_>, effort: LabelEffort, work: &Work) -> Result<(), SolveError> {
    let problem = best.problem();
    let mut turn = 0;
    for (solvers, is_refining) in [(&LISTS[..], false), (&SEARCHES[..], false), (&REFINEMENTS[..], true)] {
        for &(solver, share) in solvers {
            let from = best.placement().filter(|_| is_refining).cloned();
            let limits = effort.share(share).limits(problem);
            let found = within(work, turn, limits, from, |context| solver.solve(problem, context))?;
            best.take(found);
            turn += 1;
        }
    }
    Ok(())
}
