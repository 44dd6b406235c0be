//! Task graphs whose optimal makespan is known by construction: no bound is above the optimum, no plan below it, and
//! every plan reported as optimal attains it.

use std::time::Duration;

use stagewright::portfolio;
use stagewright::registry::BOUNDS;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Silent, Solution, Solver, Status};
use stagewright_makespan::SOLVERS;
use stagewright_testing::kwok_ahmad::{KnownOptimum, rgpos};
use stagewright_testing::task_graphs::TaskGraph;

use super::makespan::agreed;

const RATIOS_OF_COMMUNICATION: [f64; 3] = [0.1, 1.0, 10.0];

fn drawn(number: u64, tasks: usize) -> KnownOptimum {
    rgpos(number, tasks, 2 + number as u32 % 3, RATIOS_OF_COMMUNICATION[number as usize / 3 % 3])
}

/// The problems of a graph with a known optimum, without contention and with ports.
fn executions(known: KnownOptimum) -> [(KnownOptimum, Problem); 2] {
    let free = known.problem();
    [(known.clone(), free), known.for_ports()]
}

#[test]
fn optimal_schedules_take_their_length() {
    let mut edges = [0; 2];
    for number in 0..60 {
        for ((known, problem), edges) in
            executions(drawn(number, 10 + number as usize)).into_iter().zip(&mut edges)
        {
            *edges += known.graph.edges.len();
            let (evaluation, report) = agreed(&problem, &known.placement(), number);
            assert_eq!(evaluation.value, f64::from(known.length), "{number}");
            assert_eq!(report.value_s, Some(evaluation.value), "{number}");
        }
    }
    assert!(2 * edges[1] > edges[0], "{edges:?} edges");
}

fn solved(solver: &dyn Solver, problem: &Problem) -> Solution {
    let mut silent = Silent;
    let limits =
        Limits { time: Some(Duration::from_millis(100)), simulations: Some(500), ..Limits::default() };
    let mut context = Context::new(limits, &mut silent);
    solver.solve(problem, &mut context).expect("a step")
}

#[test]
fn bounds_and_plans_enclose_known_optima() {
    let (mut optimal, mut longer) = (0, 0);
    let drawn = (0..12).flat_map(|number| executions(drawn(number, 12 + number as usize)));
    for (number, (known, problem)) in drawn.enumerate() {
        let optimum = f64::from(known.length);
        for bound in BOUNDS.iter().filter(|bound| bound.applies(&problem)) {
            let value = bound.compute(&problem).expect("a feasible problem has bounds").value;
            assert!(value <= optimum, "{number}: {} says {value} > {optimum}", bound.name());
        }
        let auto = portfolio::auto(problem.objective()).expect("a solver for the makespan").solver;
        // These graphs do not repeat, so they are not folded.
        let others = SOLVERS.iter().filter(|solver| solver.name() != "fold");
        for &solver in others.chain([&auto]) {
            let solution = solved(solver, &problem);
            let value = solution.value().expect("a plan");
            assert!(value >= optimum, "{number}: {} says {value} < {optimum}", solver.name());
            assert!(solution.bound.value <= optimum, "{number}: {}", solver.name());
            let is_optimal = solution.status == Status::Optimal;
            assert_eq!(is_optimal, value == optimum, "{number}: {} says {value}", solver.name());
            optimal += u32::from(is_optimal);
            longer += u32::from(!is_optimal);
        }
    }
    assert!(optimal > 30 && longer > 30, "{optimal} optimal, {longer} longer");
}

#[test]
fn task_graphs_are_read_from_files() {
    let graph = TaskGraph::from_td("3\n1   5   2   2  7       3  1    \n2   6   1   3  4    \n3   7   0\n");
    let expected = TaskGraph { seconds: vec![5, 6, 7], edges: vec![(0, 1, 7), (0, 2, 1), (1, 2, 4)] };
    assert_eq!(graph, Some(expected));
    for text in ["", "1\n1   5   1", "1\n2   5   0", "1\n1   5   0   1", "1\n1   5   1   0  3"] {
        assert_eq!(TaskGraph::from_td(text), None, "{text}");
    }
}
