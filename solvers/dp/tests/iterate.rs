//! Minimum iteration time under a schedule against brute force over all placements.

use rand::RngExt;
use stagewright_core::seed;
use stagewright_testing::brute_force;
use stagewright_testing::training;

use stagewright_core::bound::Bound;
use stagewright_core::document::Schedule;
use stagewright_core::evaluate::{evaluate, pipeline};
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Silent, Solution, Solver, Status};
use stagewright_core::tolerance::same;
use stagewright_dp::Dp;
use stagewright_search::{Anchored, AnchoredFluid, Dpl};
use training::training;

const SCHEDULES: [Schedule; 3] = [Schedule::GPipe, Schedule::OneFOneB, Schedule::ZeroBubble];

fn solve(solver: &dyn Solver, problem: &Problem) -> Solution {
    let mut silent = Silent;
    let limits = Limits { time: None, memory: None, gap: 0.0, simulations: None };
    let mut context = Context::new(limits, &mut silent);
    solver.solve(problem, &mut context).expect("a problem within the capabilities")
}

#[test]
fn the_least_iteration_is_found_and_proved() {
    let (mut found, mut infeasible, mut split) = (0, 0, 0);
    for number in 0..1000 {
        let problem = training(number, SCHEDULES[number as usize % 3], 5, 4);
        let optimum = brute_force::optimum(&problem);
        let exact = solve(&Dp, &problem);
        let Some(optimum) = optimum else {
            assert_eq!(exact.status, Status::Infeasible, "{number}");
            infeasible += 1;
            continue;
        };
        found += 1;
        split += u32::from(problem.objective().rules().schedule == Schedule::ZeroBubble);
        let value = exact.value().expect("a plan");
        assert!(
            same(value, optimum),
            "{number} {:?}: {value} for {optimum}",
            problem.objective().rules().schedule
        );
        assert_eq!(exact.status, Status::Optimal, "{number}: bound {} of {value}", exact.bound.value);
        let quick = solve(&Dpl, &problem);
        assert!(quick.bound.value <= optimum, "{number}");
        assert!(quick.value().is_none_or(|value| value >= optimum * (1.0 - 1e-9)), "{number}");
        let bounds: [&dyn Bound; 4] = [
            &stagewright_core::bound::Fluid,
            &stagewright_core::bound::HeaviestUnit,
            &Anchored::default(),
            &AnchoredFluid::default(),
        ];
        for bound in bounds.into_iter().filter(|bound| bound.applies(&problem)) {
            let claimed = bound.compute(&problem).expect("a feasible problem has bounds").value;
            assert!(claimed <= optimum, "{number}: {} says {claimed} of {optimum}", bound.name());
        }
    }
    assert!(found > 300 && infeasible > 5 && split > 60, "{found} {infeasible} {split}");
}

/// A solver that derives a problem under another objective must keep the costs.
#[test]
fn bounds_of_scaled_costs_hold_under_schedules() {
    let mut found = 0;
    for number in 0..300 {
        let mut rng = seed::stream(0x5CA1E, number);
        let problem = training(number, SCHEDULES[number as usize % 3], 5, 4);
        let problem = problem.scaled(|_| rng.random_range(0.2..1.5));
        let Some(optimum) = brute_force::optimum(&problem) else { continue };
        found += 1;
        for solver in [&Dp as &dyn Solver, &Dpl] {
            let solution = solve(solver, &problem);
            let (bound, value) = (solution.bound.value, solution.value());
            assert!(bound <= optimum * (1.0 + 1e-9), "{number}: {} says {bound} of {optimum}", solver.name());
            assert!(
                value.is_none_or(|value| value >= optimum * (1.0 - 1e-9)),
                "{number}: {value:?} of {optimum}"
            );
        }
        let exact = solve(&Dp, &problem);
        assert!(exact.value().is_some_and(|value| same(value, optimum)), "{number}: {optimum}");
    }
    assert!(found > 100, "{found}");
}

#[test]
fn the_value_is_what_the_engine_takes_and_so_is_the_memory() {
    for number in 0..120 {
        let problem = training(number, SCHEDULES[number as usize % 3], 6, 4);
        let Some(plan) = solve(&Dpl, &problem).plan else { continue };
        let evaluation = evaluate(&problem, &plan.placement);
        let pipeline =
            pipeline(&problem, &plan.placement, problem.objective().rules().schedule, 1).expect("a pipeline");
        let run = pipeline.run().expect("a schedule");
        assert!(same(run.seconds, evaluation.value) || run.seconds == evaluation.value, "{number}");
        for (device, &peak) in evaluation.devices.iter().zip(&run.peak_bytes) {
            assert!(
                (device.memory_bytes - peak).abs() < 1e-9,
                "{number}: {peak} for {}",
                device.memory_bytes
            );
        }
    }
}
