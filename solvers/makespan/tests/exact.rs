//! The exact solver against every placement under every priority, on random steps with ports, memory, pins and
//! colocation.

use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Silent, Solution, Solver, Status};
use stagewright_core::tolerance;
use stagewright_makespan::Exact;
use stagewright_testing::{makespan, makespan_optimum};

fn solved(problem: &Problem) -> Solution {
    let mut silent = Silent;
    let limits = Limits { time: None, ..Limits::default() };
    Exact.solve(problem, &mut Context::new(limits, Default::default(), &mut silent)).expect("a step")
}

#[test]
fn optima_of_small_steps() {
    let (mut optimal, mut infeasible) = (0, 0);
    for number in 0..1000 {
        let problem = makespan::problem(number, [2, 3, 4, 4, 5, 5][number as usize % 6]);
        let solution = solved(&problem);
        match makespan_optimum::optimum(&problem) {
            Some(optimum) => {
                assert_eq!(solution.status, Status::Optimal, "{number}");
                let value = solution.value().expect("a plan");
                assert!(tolerance::same(value, optimum), "{number}: {value} instead of {optimum}");
                assert!(solution.bound.value <= optimum, "{number}");
                optimal += 1;
            }
            None => {
                assert_eq!(solution.status, Status::Infeasible, "{number}");
                infeasible += 1;
            }
        }
    }
    assert!(optimal > 550 && infeasible > 100, "{optimal} optimal, {infeasible} infeasible");
}
