//! The exact solver against every placement under every priority, on random steps with ports, memory, pins and
//! colocation.

use stagewright_core::bound::{
    Bound, CriticalPath, Destructive, Energetic, Fluid, HeaviestUnit, OneMachine, Segments, Windows,
};
use stagewright_core::cluster::{ClusterBuilder, DeviceId};
use stagewright_core::document::{KindDocument, LinkDocument, ObjectiveKind, OperatorDocument};
use stagewright_core::graph::GraphBuilder;
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Silent, Solution, Solver, Status};
use stagewright_core::tolerance;
use stagewright_makespan::instance::Instance;
use stagewright_makespan::{Exact, TABU};
use stagewright_testing::devices::devices;
use stagewright_testing::{makespan, makespan_optimum};

/// The exact solution, starting from a given placement or from the result of annealing.
fn solved_from(problem: &Problem, start: Option<Placement>) -> Solution {
    let mut silent = Silent;
    let limits = Limits { time: None, ..Limits::default() };
    let mut context = Context::new(limits, &mut silent);
    context.warm_start = start;
    Exact::UNLIMITED.solve(problem, &mut context).expect("a step")
}

fn solved(problem: &Problem) -> Solution {
    solved_from(problem, None)
}

/// The placement and the priority of the longest step.
fn worst(problem: &Problem) -> Option<Placement> {
    let mut worst: Option<(f64, Placement)> = None;
    makespan_optimum::visit(problem, |placement, timeline| {
        if worst.as_ref().is_none_or(|worst| timeline.makespan() > worst.0) {
            worst = Some((timeline.makespan(), placement.clone()));
        }
    });
    worst.map(|worst| worst.1)
}

/// Number of operators of a problem: mostly few, sometimes as many as brute force can handle.
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
                // The tree itself finds the optimum, not only the search that provides its start.
                if problem.graph().operator_count() < 6 {
                    let from_worst = solved_from(&problem, worst(&problem));
                    assert_eq!(from_worst.status, Status::Optimal, "{number} from the worst");
                    let value = from_worst.value().expect("a plan");
                    assert!(tolerance::same(value, optimum), "{number}: {value} instead of {optimum}");
                }
            }
            None => {
                assert_eq!(solution.status, Status::Infeasible, "{number}");
                infeasible += 1;
            }
        }
    }
    assert!(optimal > 550 && infeasible > 100, "{optimal} optimal, {infeasible} infeasible");
}

/// Memory that is found too small without a search is too small for every step, and few problems without a step are
/// not found.
#[test]
fn evident_lack_of_memory_is_a_proof() {
    let (mut evident, mut crowded, mut infeasible) = (0, 0, 0);
    for number in 0..2000 {
        let problem = makespan::problem(0xA00 + number, 2 + number as usize % 4);
        let reason = Instance::new(&problem).impossible();
        if makespan_optimum::optimum(&problem).is_some() {
            assert_eq!(reason, None, "{number}");
            continue;
        }
        infeasible += 1;
        evident += u32::from(reason.is_some());
        crowded += u32::from(reason.is_some_and(|reason| reason.contains("the tensors that exist while")));
    }
    assert!(
        evident > 650 && infeasible - evident < 20 && crowded > 5,
        "{evident}, {crowded} of {infeasible}"
    );
}

/// No bound exceeds the optimum of larger steps, and the optimum is no worse than the result of a search.
#[test]
fn bounds_and_searches_of_larger_steps() {
    let bounds: [&dyn Bound; 8] =
        [&Fluid, &HeaviestUnit, &CriticalPath, &OneMachine, &Energetic, &Windows, &Segments, &Destructive];
    let (mut proved, mut near) = (0, 0);
    for number in 0..150 {
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
        let searched = TABU.solve(&problem, &mut Context::new(limits, &mut silent));
        let searched = searched.expect("a step").value().unwrap_or(f64::INFINITY);
        assert!(value <= searched * (1.0 + 1e-9), "{number}: {searched} < {value}");
        proved += 1;
    }
    assert!(proved > 30 && near > 15, "{proved} proved, segments reach {near}");
}

/// A tensor goes to two devices of a pool, first to the one of lower index: the longer reader must run there, so which
/// of the two devices an operator takes makes a difference although they are otherwise identical.
#[test]
fn the_numbers_of_devices_decide_ties() {
    let mut graph = GraphBuilder::new("ties");
    for (name, class, seconds) in [("p", "p", 1.0), ("x", "r", 10.0), ("a", "q", 1.5), ("b", "q", 9.0)] {
        let seconds = [(class.to_string(), seconds)].into();
        let unsupported =
            ["p", "q", "r"].into_iter().filter(|other| *other != class).map(Into::into).collect();
        graph.operator(OperatorDocument { seconds, unsupported, ..OperatorDocument::named(name) });
    }
    graph.tensor("p", ["a", "b"], 1.0).tensor("x", ["a"], 0.0);
    let mut cluster = ClusterBuilder::new("four");
    for (kind, count) in [("p", 1), ("q", 2), ("r", 1)] {
        let link = Some(LinkDocument { latency_s: 0.0, bandwidth: 1.0 });
        cluster.kind(KindDocument { link, ..KindDocument::named(kind, count) });
    }
    let (graph, cluster) = (graph.build().expect("a graph"), cluster.build().expect("a cluster"));
    let objective = Objective::from(ObjectiveKind::Makespan);
    let problem = Problem::new(graph, cluster, objective).expect("a problem");
    let optimum = makespan_optimum::optimum(&problem).expect("a step");
    assert!(tolerance::same(optimum, 11.5), "{optimum}");
    let value = solved_from(&problem, worst(&problem)).value().expect("a plan");
    assert!(tolerance::same(value, optimum), "{value}");
}

/// A given schedule that exceeds the memory is not used as a start, even if the graph is too large for the tree.
#[test]
fn a_start_that_does_not_fit_costs_no_plan() {
    let mut graph = GraphBuilder::new("many");
    for number in 0..1200 {
        let (seconds, parameter_bytes) = ([("acc".to_string(), 1.0)].into(), 1.0);
        graph.operator(OperatorDocument {
            seconds,
            parameter_bytes,
            ..OperatorDocument::named(format!("op{number}"))
        });
    }
    let graph = graph.build().expect("a graph");
    let (cluster, objective) = (devices(2, Some(700.0)), Objective::from(ObjectiveKind::Makespan));
    let problem = Problem::new(graph, cluster, objective).expect("a problem");
    let all_on_one = Placement::new(vec![DeviceId(0); 1200]);
    let solution = solved_from(&problem, Some(all_on_one));
    let value = solution.value().expect("a plan");
    assert!((600.0..=700.0).contains(&value), "{value}");
}
