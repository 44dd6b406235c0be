//! The exact splitter and the independent checker agree: every plan on random small problems passes `check`, with
//! the figures that the plan document states, through JSON and back.

#[path = "../solvers/dp/tests/support/random.rs"]
mod random;

use random::{Size, problem};
use stagewright::report::document::{Provenance, plan_document};
use stagewright_core::document::PlanDocument;
use stagewright_core::evaluate::evaluate;
use stagewright_core::solver::{Context, Limits, Silent, Solver, Status};
use stagewright_dp::Dp;
use stagewright_search::{Dpl, OneDevice, PipeDream};
use stagewright_verify::{BoundVerdict, check};

#[test]
fn every_plan_passes_the_checker() {
    let solvers: [&dyn Solver; 4] = [&Dp, &Dpl, &PipeDream, &OneDevice];
    let mut plans = 0;
    for number in 0..1000 {
        let size = Size { operators: 7, devices: 5, groups: number % 2 == 0 };
        let problem = problem(number, size);
        for solver in solvers {
            let mut silent = Silent;
            let mut context = Context::new(Limits::default(), Default::default(), &mut silent);
            let solution = solver.solve(&problem, &mut context).expect("a contiguous problem");
            let provenance = Provenance { solver: solver.name().into(), seconds: 0.0, seed: 0 };
            let written =
                serde_json::to_string(&plan_document(&problem, &solution, provenance)).expect("JSON");
            let plan: PlanDocument = serde_json::from_str(&written).expect("the same document");
            let report = check(problem.graph().document(), problem.cluster().document(), None, &plan)
                .unwrap_or_else(|error| panic!("{number} {}: {error}", solver.name()));
            assert!(report.violations.is_empty(), "{number} {}: {:?}", solver.name(), report.violations);
            assert!(!matches!(report.bound, BoundVerdict::Refuted { .. }), "{number} {}", solver.name());
            if solution.status != Status::Infeasible && solution.plan.is_some() {
                assert!(report.value_s.is_some(), "{number} {}", solver.name());
                plans += 1;
            }
        }
    }
    assert!(plans > 1500, "only {plans} plans");
}

/// The merge of classes must not let through a split that the classes before the merge forbid.
#[test]
fn every_pipedream_split_is_feasible() {
    let mut plans = 0;
    for number in 0..20_000 {
        let problem = problem(number, Size { operators: 8, devices: 4, groups: false });
        let mut silent = Silent;
        let mut context = Context::new(Limits::default(), Default::default(), &mut silent);
        let solution = PipeDream.solve(&problem, &mut context).unwrap_or_else(|e| panic!("{number}: {e}"));
        if let Some(plan) = &solution.plan {
            assert!(evaluate(&problem, &plan.placement).is_feasible(), "{number}");
            plans += 1;
        }
    }
    assert!(plans > 5_000, "only {plans} plans");
}
