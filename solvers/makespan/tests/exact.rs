//! The exact solver against every placement under every priority, on random steps with ports, memory, pins and
//! colocation.

use stagewright_core::bound::{
    Bound, CriticalPath, Energetic, Fluid, HeaviestUnit, OneMachine, Segments, Windows,
};
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Silent, Solution, Solver, Status};
use stagewright_core::tolerance;
use stagewright_makespan::{Exact, TABU};
use stagewright_testing::{makespan, makespan_optimum};

fn solved(problem: &Problem) -> Solution {
    let mut silent = Silent;
    let limits = Limits { time: None, ..Limits::default() };
    Exact::UNLIMITED
        .solve(problem, &mut Context::new(limits, Default::default(), &mut silent))
        .expect("a step")
}

/// Number of operators of a problem: mostly few, sometimes as many as can still be tried.
fn size(number: u64) -> usize {
    match number % 25 {
        0 => 8,
        1 | 2 => 7,
        3..10 => 6,
        other => 2 + other as usize % 4,
    }
}

#[test]
fn optima_of_small_steps() {
    let (mut optimal, mut infeasible) = (0, 0);
    for number in 0..1000 {
        let problem = makespan::problem(number, size(number));
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

/// No bound exceeds the optimum of larger steps, and the optimum is no worse than what a search finds.
#[test]
fn bounds_and_searches_of_larger_steps() {
    let bounds: [&dyn Bound; 7] =
        [&Fluid, &HeaviestUnit, &CriticalPath, &OneMachine, &Energetic, &Windows, &Segments];
    let (mut proved, mut near) = (0, 0);
    for number in 0..400 {
        let problem = makespan::problem(0xE0 + number, 9 + number as usize % 4);
        let solution = solved(&problem);
        let Some(value) = solution.value() else { continue };
        assert_eq!(solution.status, Status::Optimal, "{number}");
        for bound in bounds {
            let found = bound.compute(&problem).expect("a feasible problem has bounds").value;
            assert!(found <= value, "{number}: {} says {found} > {value}", bound.name());
            near += u32::from(bound.name() == "segments" && found > 0.999 * value);
        }
        let mut silent = Silent;
        let limits = Limits { time: None, ..Limits::default() };
        let searched = TABU.solve(&problem, &mut Context::new(limits, Default::default(), &mut silent));
        let searched = searched.expect("a step").value().unwrap_or(f64::INFINITY);
        assert!(value <= searched * (1.0 + 1e-9), "{number}: {searched} < {value}");
        proved += 1;
    }
    assert!(proved > 80 && near > 20, "{proved} proved, segments reach {near}");
}
