//! What solvers say about seeds: the plan of a solver that does not depend on the seed is the same for all of them.

use stagewright::core::document::{ObjectiveKind, PlanDocument, Split};
use stagewright::core::objective::{Objective, Throughput};
use stagewright::core::problem::Problem;
use stagewright::core::solver::{Context, Limits, Settings, Silent, Solver};
use stagewright::registry::{Role, SOLVERS};
use stagewright::report::document::{Provenance, plan_document};
use stagewright_testing::random::{Size, problem};

fn plan(solver: &dyn Solver, problem: &Problem, seed: u64) -> PlanDocument {
    let limits = Limits { time: None, ..Limits::default() };
    let mut silent = Silent;
    let mut context = Context::new(Settings { seed, ..limits.into() }, &mut silent);
    let solution = solver.solve(problem, &mut context).unwrap_or_else(|error| panic!("{error}"));
    plan_document(problem, &solution, Provenance { solver: String::new(), seconds: 0.0, seed: 0 })
}

#[test]
fn a_seed_changes_no_plan_of_a_solver_that_does_not_depend_on_it() {
    let free = Throughput { split: Split::Free, ..Throughput::default() };
    let kinds = [ObjectiveKind::Latency, ObjectiveKind::Makespan].map(Objective::from);
    let (mut same, mut different) = (0, 0);
    for number in 0..12 {
        let contiguous = problem(number, Size { operators: 16, devices: 4, groups: false });
        for objective in [Objective::default(), free.into()].into_iter().chain(kinds) {
            let Ok(problem) = contiguous.with_objective(objective) else { continue };
            // Searches and exact solvers depend on the seed; without a limit of time, they take long.
            let solvers = SOLVERS
                .iter()
                .filter(|entry| !entry.solver.capabilities().depends_on_seed || entry.role == Role::Baseline);
            for solver in solvers.map(|entry| entry.solver) {
                if solver.unsupported(problem.objective()).is_some() {
                    continue;
                }
                let first = plan(solver, &problem, 0);
                let is_same = (1..4).all(|seed| plan(solver, &problem, seed) == first);
                let depends = solver.capabilities().depends_on_seed;
                assert!(is_same || depends, "{number}: {} under {objective:?}", solver.name());
                same += usize::from(is_same && first.objective.value_s.is_some());
                different += usize::from(!is_same);
            }
        }
    }
    assert!(same > 60 && different > 0, "{same} the same, {different} different");
}
