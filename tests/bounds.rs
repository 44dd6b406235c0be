//! A problem has the same strongest bound in every command.

use std::time::Duration;

use stagewright::bounds::{self, Proving};
use stagewright::core::bound::closed_form;
use stagewright::core::document::{ObjectiveKind, Split};
use stagewright::core::objective::{Objective, Throughput};
use stagewright::core::problem::Problem;
use stagewright::core::solver::{Context, Limits, Silent, Solution, Solver, Status, Stop};
use stagewright::core::tolerance;
use stagewright::registry::{Role, SOLVERS};
use stagewright_testing::random::{Size, problem};

fn solved(solver: &dyn Solver, problem: &Problem) -> Solution {
    // These limits suffice for problems of this size. The answers do not depend on them.
    let limits = Limits { time: Some(Duration::from_secs(600)), simulations: Some(500), ..Limits::default() };
    let mut silent = Silent;
    let mut context = Context::new(limits, &mut silent);
    Proving(solver).solve(problem, &mut context).unwrap_or_else(|error| panic!("{}: {error}", solver.name()))
}

#[test]
fn every_answer_counts_every_bound() {
    let throughput = |split| Objective::from(Throughput { split, ..Throughput::default() });
    let objectives = [
        throughput(Split::Contiguous),
        throughput(Split::Convex),
        throughput(Split::Free),
        ObjectiveKind::Latency.into(),
        ObjectiveKind::Makespan.into(),
    ];
    let (mut answers, mut lifted) = (0, 0);
    for number in 0..40 {
        let random = problem(number, Size { operators: 7, devices: 3, groups: false });
        for objective in objectives {
            // Each copy of the problem starts without stored results.
            let fresh = || random.with_objective(objective).expect("the same graph");
            let strongest = bounds::strongest(&fresh(), &Stop::never()).value;
            for entry in SOLVERS.iter().filter(|entry| matches!(entry.role, Role::Exact | Role::Baseline)) {
                if entry.solver.unsupported(&objective).is_some() {
                    continue;
                }
                let solution = solved(entry.solver, &fresh());
                let Some(value) = solution.value() else { continue };
                answers += 1;
                let least = strongest.min(value) * (1.0 - tolerance::VALUE_RELATIVE);
                let name = entry.solver.name();
                assert!(
                    solution.bound.value >= least,
                    "{name}, {number}: {} {strongest}",
                    solution.bound.value
                );
                let closed = closed_form(&fresh(), &Stop::never()).value;
                lifted += u32::from(strongest > closed * (1.0 + 1e-6) && entry.role == Role::Baseline);
            }
        }
    }
    assert!(answers > 200 && lifted > 10, "{answers} answers, {lifted} of them above the closed forms");
}

#[test]
fn a_plan_that_reaches_a_bound_is_optimal_whoever_made_it() {
    let mut reached = 0;
    for number in 0..60 {
        let random = problem(number, Size { operators: 5, devices: 2, groups: false });
        let strongest = bounds::strongest(&random, &Stop::never());
        for entry in SOLVERS.iter().filter(|entry| entry.role == Role::Baseline) {
            if entry.solver.unsupported(random.objective()).is_some() {
                continue;
            }
            let solution = solved(entry.solver, &random);
            if let Some(value) = solution.value()
                && tolerance::gap(value, strongest.value) == 0.0
            {
                assert_eq!(solution.status, Status::Optimal, "{}, {number}", entry.solver.name());
                reached += 1;
            }
        }
    }
    assert!(reached > 10, "only {reached} plans reach a bound");
}
