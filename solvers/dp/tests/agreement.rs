//! The splitter against brute force and the textbook program on small random problems.

use rand::RngExt;
use stagewright_core::bound::{CLOSED_FORMS, LowerBound, strongest};
use stagewright_core::cluster::Cluster;
use stagewright_core::contraction::Units;
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Communication, KindDocument, OperatorDocument, TensorDocument, Training,
};
use stagewright_core::evaluate::evaluate;
use stagewright_core::graph::{Graph, GraphBuilder};
use stagewright_core::objective::Throughput;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{
    Context, Limits, Settings, Silent, Solution, Solver, Status, Stop, StopReason,
};
use stagewright_core::tolerance::same;
use stagewright_dp::{Dp, DpWithin};
use stagewright_search::Dpl;
use stagewright_search::boundary::{Boundaries, BoundaryCuts};
use stagewright_testing::random::{Size, problem};
use stagewright_testing::{brute_force, textbook};

fn solve(solver: &dyn Solver, problem: &Problem, threads: usize) -> Solution {
    let mut silent = Silent;
    let limits = Limits { time: None, memory: None, gap: 0.0, simulations: None };
    let mut context = Context::new(Settings { limits, threads, ..Settings::default() }, &mut silent);
    solver.solve(problem, &mut context).expect("a problem within the capabilities")
}

fn check_consistent(number: u64, problem: &Problem, solution: &Solution, optimum: Option<f64>) {
    if let Some(plan) = &solution.plan {
        let again = evaluate(problem, &plan.placement);
        assert!(again.is_feasible(), "{number}: {:?}", again.violations);
        assert!(same(again.value, plan.value()), "{number}");
        assert!(solution.bound.value <= plan.value(), "{number}: bound above value");
        let optimum = optimum.unwrap_or_else(|| panic!("{number}: a plan where brute force finds none"));
        assert!(solution.bound.value <= optimum, "{number}: bound {} > {optimum}", solution.bound.value);
        assert!(plan.value() >= optimum * (1.0 - 1e-12), "{number}: better than brute force");
    }
}

fn check_closed_forms(number: u64, problem: &Problem, optimum: Option<f64>) {
    let Some(optimum) = optimum else { return };
    for bound in CLOSED_FORMS.iter().filter(|bound| bound.applies(problem)) {
        let value = bound.compute(problem).expect("a feasible problem has bounds").value;
        assert!(value <= optimum, "{number}: {} says {value} > {optimum}", bound.name());
    }
}

#[test]
fn dp_agrees_with_brute_force() {
    let (mut feasible, mut infeasible) = (0, 0);
    for number in 0..1500 {
        let problem = problem(number, Size { operators: 5, devices: 4, groups: false });
        let optimum = brute_force::optimum(&problem);
        check_closed_forms(number, &problem, optimum);
        let solution = solve(&Dp, &problem, 1);
        check_consistent(number, &problem, &solution, optimum);
        match optimum {
            Some(optimum) => {
                feasible += 1;
                assert_eq!(solution.status, Status::Optimal, "{number}: {:?}", problem.objective());
                assert!(
                    same(solution.value().unwrap(), optimum),
                    "{number}: {:?} {optimum}",
                    solution.value()
                );
            }
            None => {
                infeasible += 1;
                assert_eq!(solution.status, Status::Infeasible, "{number}: {:?}", problem.objective());
            }
        }
        let heuristic = solve(&Dpl, &problem, 1);
        check_consistent(number, &problem, &heuristic, optimum);
    }
    assert!(feasible > 500 && infeasible > 100, "{feasible} feasible, {infeasible} infeasible");
}

/// Bounds and plans of minimum cuts on identical devices, with communication.
#[test]
fn boundary_cuts_hold() {
    let mut stronger = 0;
    for number in 0..600 {
        let original = problem(number, Size { operators: 9, devices: 4, groups: number.is_multiple_of(4) });
        let mut cluster = original.cluster().document().clone();
        for kind in &mut cluster.kinds {
            // Some problems have hosts, and some have more devices than units.
            let host = u32::from(number.is_multiple_of(7));
            kind.count = if kind.class == "cpu" { host } else { 1 + (number % 2) as u32 };
            kind.memory_bytes = kind.memory_bytes.filter(|_| number % 3 == 0);
        }
        let cluster = Cluster::from_document(cluster).expect("a valid cluster");
        let graph = original.graph().clone();
        let training = if number % 5 == 0 { Training::Separate } else { Training::Combined };
        let objective = Throughput { training, ..Throughput::default() };
        let Ok(problem) = Problem::new(graph, cluster, objective) else { continue };
        let exact = solve(&Dp, &problem, 1);
        let Some(optimum) = exact.value() else { continue };
        assert_eq!(exact.status, Status::Optimal, "{number}");
        let units = Units::new(&problem);
        let stop = Stop::new(None, Default::default());
        for value in [optimum, 1.1 * optimum, 3.0 * optimum] {
            let Some(boundaries) = Boundaries::new(&units, &stop) else { continue };
            let Ok(mut cuts) = BoundaryCuts::new(&problem, &boundaries, value, None, 1) else { continue };
            while cuts.round(&stop) {}
            let Some(bound) = cuts.bound() else { continue };
            assert!(bound.value <= optimum, "{number}: {} > {optimum}", bound.value);
            stronger += u32::from(bound.value > strongest(&problem).value * 1.001);
        }
        check_consistent(number, &problem, &solve(&Dpl, &problem, 1), Some(optimum));
    }
    assert!(stronger > 60, "only {stronger} stronger than the closed forms");
}

/// A problem on one kind whose total memory just suffices, so that most orders have no split.
fn tight(number: u64, seconds: f64, mark: f64, communication: Communication) -> Problem {
    let mut rng = seed::stream(number, 7);
    let count = rng.random_range(4..=7);
    let mut builder = GraphBuilder::new("tight");
    let mut bytes = 0.0;
    for index in 0..count {
        let parameter_bytes = f64::from(rng.random_range(1..=4));
        bytes += parameter_bytes;
        builder.operator(OperatorDocument {
            seconds: [("acc".to_string(), seconds * f64::from(rng.random_range(1..=9)))].into(),
            parameter_bytes,
            ..OperatorDocument::named(format!("o{index}"))
        });
    }
    for to in 1..count {
        for from in 0..to {
            if rng.random_bool(0.35) {
                let time = if rng.random_bool(0.4) { mark } else { 0.1 * f64::from(rng.random_range(0..=5)) };
                builder.timed_tensor(TensorDocument {
                    name: None,
                    producer: format!("o{from}"),
                    consumers: vec![format!("o{to}")],
                    bytes: 0.0,
                    seconds: [("acc".to_string(), time)].into(),
                });
            }
        }
    }
    let devices: u32 = rng.random_range(2..=3);
    let kind = KindDocument {
        reserve_bytes: None,
        name: "acc".into(),
        class: "acc".into(),
        count: devices,
        host: false,
        memory_bytes: Some((bytes / f64::from(devices)).ceil()),
        link: None,
        group: None,
        server: None,
        ram: None,
    };
    let cluster = ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: Default::default(),
        kinds: vec![kind],
        groups: Vec::new(),
        matrix: None,
    };
    let objective = Throughput { communication, ..Throughput::default() };
    let graph = builder.build().expect("a valid graph");
    let cluster = Cluster::from_document(cluster).expect("a valid cluster");
    Problem::new(graph, cluster, objective).expect("a valid problem")
}

/// Without compute, or with a tensor of absurd cost, a running sum would leave a rounding error that looks like a cost.
#[test]
fn rounding_is_never_a_cost() {
    let mut feasible = 0;
    for number in 0..300 {
        for (seconds, mark) in [(0.0, 0.3), (1e-12, 0.7), (0.1, 1e16)] {
            for communication in [Communication::Serial, Communication::Overlap, Communication::Duplex] {
                let problem = tight(number, seconds, mark, communication);
                let optimum = brute_force::optimum(&problem);
                let solution = solve(&Dp, &problem, 1);
                check_consistent(number, &problem, &solution, optimum);
                match optimum {
                    None => assert_eq!(solution.status, Status::Infeasible, "{number}"),
                    Some(optimum) => {
                        feasible += 1;
                        let value = solution.value().expect("a plan");
                        assert!(
                            (value - optimum).abs() <= 1e-9 * optimum,
                            "{number} {seconds} {mark} {communication:?}: {value} {optimum}"
                        );
                    }
                }
            }
        }
    }
    assert!(feasible > 1000, "{feasible} feasible");
}

/// Profiles mark forbidden choices by absurd times; these must not swallow the costs that matter.
#[test]
fn absurd_costs_cost_no_precision() {
    let mut feasible = 0;
    for number in 0..400 {
        let plain = problem(number, Size { operators: 5, devices: 4, groups: false });
        let mut document = plain.graph().document().clone();
        for (index, tensor) in document.tensors.iter_mut().enumerate() {
            if (number + index as u64).is_multiple_of(3) {
                tensor.seconds = document
                    .operators
                    .iter()
                    .flat_map(|op| op.seconds.keys())
                    .map(|class| (class.clone(), 1e16))
                    .collect();
            }
        }
        if let Some(operator) = document.operators.get_mut(number as usize % 4) {
            operator.seconds.values_mut().take(1).for_each(|seconds| *seconds = 1e16);
        }
        let graph = Graph::from_document(document).expect("a valid graph");
        let problem =
            Problem::new(graph, plain.cluster().clone(), *plain.objective()).expect("a valid problem");
        let optimum = brute_force::optimum(&problem);
        let solution = solve(&Dp, &problem, 1);
        check_consistent(number, &problem, &solution, optimum);
        let Some(optimum) = optimum else { continue };
        assert_eq!(solution.status, Status::Optimal, "{number}");
        assert!(same(solution.value().unwrap(), optimum), "{number}: {:?} {optimum}", solution.value());
        feasible += 1;
    }
    assert!(feasible > 100, "{feasible} feasible");
}

#[test]
fn dp_agrees_with_brute_force_on_uplinks() {
    let mut loaded = 0;
    for number in 0..600 {
        let problem = problem(number, Size { operators: 5, devices: 4, groups: true });
        let optimum = brute_force::optimum(&problem);
        let solution = solve(&Dp, &problem, 1);
        check_consistent(number, &problem, &solution, optimum);
        let Some(optimum) = optimum else {
            assert_eq!(solution.status, Status::Infeasible, "{number}");
            continue;
        };
        assert_eq!(solution.status, Status::Optimal, "{number}: {:?}", problem.objective());
        assert!(same(solution.value().unwrap(), optimum), "{number}: {:?} {optimum}", solution.value());
        let uplinks = solution.plan.unwrap().evaluation.uplinks;
        loaded += u32::from(uplinks.iter().flatten().any(|&load| load > 0.0));
    }
    assert!(loaded > 30, "only {loaded} with a loaded uplink");
}

/// A gap reached before the search with uplinks is reported as the stop reason.
#[test]
fn a_reached_gap_is_told_with_uplinks_as_well() {
    let mut ended = 0;
    for number in 0..1500 {
        let problem = problem(number, Size { operators: 5, devices: 4, groups: true });
        for gap in [0.1, 0.3, 0.6] {
            let mut silent = Silent;
            let limits = Limits { time: None, memory: None, gap, simulations: None };
            let mut context = Context::new(limits, &mut silent);
            let solution = Dp.solve(&problem, &mut context).expect("a problem within the capabilities");
            if solution.status == Status::Feasible {
                assert_eq!(solution.stop, Some(StopReason::Gap), "{number}");
                ended += u32::from(solution.bound.source == LowerBound::SEARCHED);
            }
        }
    }
    assert!(ended > 0, "none ended after the search without uplinks");
}

#[test]
fn dp_agrees_with_the_textbook() {
    for number in 0..60 {
        let problem = problem(number, Size { operators: 9, devices: 4, groups: false });
        for communication in [Communication::Serial, Communication::Overlap, Communication::Duplex] {
            let objective =
                Throughput { communication, training: Training::Combined, ..Throughput::default() };
            let problem = problem.with_objective(objective).expect("a valid objective");
            let textbook = textbook::optimum(&problem, 4096);
            let solution = solve(&Dp, &problem, 2);
            match (textbook, solution.value()) {
                (Some(textbook), Some(value)) => {
                    assert!(same(textbook, value), "{number}: {textbook} {value}")
                }
                (None, None) => assert_eq!(solution.status, Status::Infeasible, "{number}"),
                other => panic!("{number}: {other:?}"),
            }
        }
    }
}

#[test]
fn threads_do_not_change_the_answer() {
    for number in 0..100 {
        let problem = problem(number, Size { operators: 12, devices: 5, groups: false });
        let (single, two) = (solve(&Dp, &problem, 1), solve(&Dp, &problem, 2));
        assert_eq!(single, two, "{number}");
    }
}

/// A step limit ends the search at the same plan and bound for any number of threads, and a high enough limit ends it
/// with the proof of an unlimited search.
#[test]
fn a_number_of_steps_ends_the_search_at_the_same_place() {
    let within = |problem: &Problem, steps: u64, threads: usize| {
        let mut silent = Silent;
        let limits = Limits { time: None, memory: None, gap: 0.0, simulations: None };
        let mut context = Context::new(Settings { limits, threads, ..Settings::default() }, &mut silent);
        DpWithin { steps }.solve(problem, &mut context).expect("a problem within the capabilities")
    };
    let mut unfinished = 0;
    for number in 0..60 {
        let problem = problem(number, Size { operators: 24, devices: 4, groups: number % 2 == 0 });
        if problem.objective().times_iteration() {
            continue;
        }
        let whole = solve(&Dp, &problem, 2);
        assert_eq!(within(&problem, u64::MAX, 2), whole, "{number}");
        for steps in [0, 10, 300, 5000] {
            let alone = within(&problem, steps, 1);
            assert_eq!(within(&problem, steps, 4), alone, "{number}, {steps}");
            let taken = alone.statistics.iter().find(|(name, _)| *name == "steps").expect("they are counted");
            assert!(alone.stop.is_none() || taken.1 <= 2 * steps + 1000, "{number}: {} of {steps}", taken.1);
            let best = whole.plan.as_ref().map(|plan| plan.value());
            if let (Some(plan), Some(best)) = (&alone.plan, best) {
                assert!(alone.bound.value <= best && best <= plan.value(), "{number}, {steps}");
            }
            unfinished += u32::from(alone.stop == Some(StopReason::Time));
        }
    }
    assert!(unfinished > 20, "{unfinished}");
}
