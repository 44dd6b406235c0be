//! The solvers and lower bounds by name.
//!
//! A new solver is a row of [`SOLVERS`], a new bound a row of [`BOUNDS`]: the command line and `bench` find them here.

use stagewright_core::bound::{
    Bound, CriticalPath, Destructive, Energetic, Fluid, HeaviestUnit, MemoryPrices, OneMachine, Segments,
    Windows,
};
use stagewright_core::objective::Objective;
use stagewright_core::solver::Solver;
use stagewright_dp::{Dp, MaxLoadSplit};
use stagewright_makespan::{
    ANNEALING, ANNEALING_FROM_RANDOM, BRKGA, CPOP, EARLIEST_TASK_FIRST, Exact, Fold, HEFT, MULTILEVEL,
    OrderSplit, PEFT, RANDOM_PLACEMENTS, SMALL_COMMUNICATION, TABU,
};
use stagewright_search::anchored::AnchoredEffort;
use stagewright_search::latency::bound::{self, CallChains};
use stagewright_search::{
    ACCELERATE_BALANCED, Anchored, AnchoredFluid, Dpl, EMBEDDINGS_ON_HOST, EQUAL_LAYERS, EQUAL_PARAMETERS,
    EQUAL_TIME, GRAPH_PARTITION, LAYER_PER_DEVICE, LatencyGreedy, Local, OneDevice, PipeDream,
};

use crate::integer::{BNP, LNS, MILP};
use crate::learned;

/// The purpose of a solver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Proves optimality, given time.
    Exact,
    /// Finds good plans.
    Search,
    /// A baseline for comparison, which mostly takes milliseconds; never chosen automatically.
    Baseline,
    /// A learned system of the literature, for comparison; uses all the time it is given and is never chosen
    /// automatically.
    Learned,
}

impl Role {
    /// Name of the role, for display.
    pub fn name(self) -> &'static str {
        match self {
            Role::Exact => "exact",
            Role::Search => "search",
            Role::Baseline => "baseline",
            Role::Learned => "learned",
        }
    }
}

/// A row of the table of solvers.
pub struct Entry {
    /// The solver.
    pub solver: &'static dyn Solver,
    /// Purpose of the solver.
    pub role: Role,
}

/// All solvers, in order of preference for `auto`.
pub const SOLVERS: &[Entry] = &[
    Entry { solver: &Dp, role: Role::Exact },
    Entry { solver: &BNP, role: Role::Exact },
    Entry { solver: &MILP, role: Role::Exact },
    Entry { solver: &Exact::UNLIMITED, role: Role::Exact },
    Entry { solver: &Dpl, role: Role::Search },
    Entry { solver: &Local, role: Role::Search },
    Entry { solver: &LNS, role: Role::Search },
    Entry { solver: &ANNEALING, role: Role::Search },
    Entry { solver: &TABU, role: Role::Search },
    Entry { solver: &MULTILEVEL, role: Role::Search },
    Entry { solver: &Fold, role: Role::Search },
    Entry { solver: &BRKGA, role: Role::Search },
    Entry { solver: &OrderSplit, role: Role::Search },
    Entry { solver: &HEFT, role: Role::Search },
    Entry { solver: &PEFT, role: Role::Search },
    Entry { solver: &CPOP, role: Role::Search },
    Entry { solver: &EARLIEST_TASK_FIRST, role: Role::Search },
    Entry { solver: &SMALL_COMMUNICATION, role: Role::Search },
    Entry { solver: &learned::POLICY, role: Role::Search },
    Entry { solver: &PipeDream, role: Role::Baseline },
    Entry { solver: &EQUAL_LAYERS, role: Role::Baseline },
    Entry { solver: &EQUAL_PARAMETERS, role: Role::Baseline },
    Entry { solver: &ACCELERATE_BALANCED, role: Role::Baseline },
    Entry { solver: &EQUAL_TIME, role: Role::Baseline },
    Entry { solver: &LAYER_PER_DEVICE, role: Role::Baseline },
    Entry { solver: &EMBEDDINGS_ON_HOST, role: Role::Baseline },
    Entry { solver: &GRAPH_PARTITION, role: Role::Baseline },
    Entry { solver: &LatencyGreedy, role: Role::Baseline },
    Entry { solver: &MaxLoadSplit, role: Role::Baseline },
    Entry { solver: &OneDevice, role: Role::Baseline },
    Entry { solver: &learned::GDP, role: Role::Learned },
    Entry { solver: &learned::PLACETO, role: Role::Learned },
    Entry { solver: &learned::HSDAG, role: Role::Learned },
    Entry { solver: &learned::HDP, role: Role::Learned },
];

/// The bounds that need no solver, cheapest first.
pub const BOUNDS: &[&dyn Bound] = &[
    &Fluid,
    &HeaviestUnit,
    &CriticalPath,
    &OneMachine,
    &Energetic,
    &Windows,
    &MemoryPrices,
    &Segments,
    &Destructive,
    &Anchored { effort: AnchoredEffort::DEFAULT },
    &AnchoredFluid { effort: AnchoredEffort::DEFAULT },
    &CallChains { effort: bound::CallChainEffort::DEFAULT },
];

/// Looks up a solver by name.
///
/// ```
/// assert!(stagewright::registry::named("dp").is_some());
/// assert!(stagewright::registry::named("oracle").is_none());
/// ```
pub fn named(name: &str) -> Option<&'static dyn Solver> {
    SOLVERS.iter().map(|entry| entry.solver).find(|solver| solver.name() == name)
}

/// Prefix of the names of ablations in `--solver`, which suites use for their runs.
pub const ABLATION: &str = "ablation:";

/// Looks up an ablation: a solver without one of its parts, or one that chooses at random. Only suites can name
/// ablations.
pub fn ablation(name: &str) -> Option<&'static dyn Solver> {
    let by_chance: [&dyn Solver; 2] = [&ANNEALING_FROM_RANDOM, &RANDOM_PLACEMENTS];
    by_chance.into_iter().chain(learned::ABLATIONS).find(|solver| solver.name() == name)
}

/// The names of the solvers that support an objective.
pub fn supporting(objective: &Objective) -> Vec<&'static str> {
    SOLVERS
        .iter()
        .filter(|entry| entry.solver.unsupported(objective).is_none())
        .map(|entry| entry.solver.name())
        .collect()
}

#[cfg(test)]
mod tests {
    use stagewright_core::bound::CLOSED_FORMS;

    use super::*;

    #[test]
    fn names_are_unique_and_leave_auto_free() {
        let mut names: Vec<_> = SOLVERS.iter().map(|entry| entry.solver.name()).collect();
        assert!(names.iter().all(|name| ablation(name).is_none()));
        names.push("auto");
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn every_closed_form_is_a_bound_and_no_two_share_a_name() {
        let mut names: Vec<_> = BOUNDS.iter().map(|bound| bound.name()).collect();
        for closed in CLOSED_FORMS {
            assert!(names.contains(&closed.name()), "{}", closed.name());
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
