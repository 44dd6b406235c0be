//! Makespan searches on random problems: every plan against its evaluation, tiny problems against brute force, the same
//! result for any number of threads, and the behaviour without time.

use stagewright_testing::random;

use std::ops::ControlFlow;
use std::time::Duration;

use random::Size;
use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Execution, KindDocument, LinkDocument, OperatorDocument, TensorDocument,
};
use stagewright_core::evaluate::evaluate;
use stagewright_core::graph::{GraphBuilder, OpId};
use stagewright_core::ids::Id;
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{
    Context, Event, Limits, Observer, Settings, Silent, Solution, Solver, Status, StopReason,
};
use stagewright_core::tolerance::same;
use stagewright_makespan::SOLVERS;
use stagewright_makespan::instance::Instance;
use stagewright_makespan::{
    ANNEALING, ANNEALING_FROM_RANDOM, BRKGA, Fold, HEFT, MULTILEVEL, PEFT, RANDOM_PLACEMENTS, TABU,
};

/// The searches that start from list schedules.
const SEARCHES: [&dyn Solver; 4] = [&MULTILEVEL, &BRKGA, &ANNEALING, &TABU];
/// Simulations of a short search.
const FEW: u64 = 1000;
/// Simulations of a search that improves on list schedules.
const MANY: u64 = 10_000;
const UNLIMITED: Limits = Limits { time: None, memory: None, gap: 0.0, simulations: None };

fn problem(number: u64, operators: usize, devices: u32) -> Problem {
    let problem = random::problem(number, Size { operators, devices, groups: number.is_multiple_of(2) });
    let execution = if number % 3 == 1 { Execution::ContentionFree } else { Execution::Ports };
    let objective = Objective::Makespan { execution };
    problem.with_objective(objective).expect("a valid objective")
}

fn solve_as(solver: &dyn Solver, problem: &Problem, threads: usize, limits: Limits) -> Solution {
    let mut silent = Silent;
    let mut context = Context::new(Settings { limits, threads, seed: 5, ..Settings::default() }, &mut silent);
    let solution = solver.solve(problem, &mut context);
    solution.unwrap_or_else(|error| panic!("{}: {error}", solver.name()))
}

/// Solves a problem, with few simulations for the solvers that would otherwise take long.
fn solve(solver: &dyn Solver, problem: &Problem) -> Solution {
    let takes_much = ["annealing", "tabu", "random", "annealing-from-random"];
    let simulations = takes_much.contains(&solver.name()).then_some(FEW);
    solve_as(solver, problem, 1, Limits { simulations, ..UNLIMITED })
}

#[test]
fn plans_are_feasible_and_what_their_evaluation_says() {
    let (mut plans, mut better, mut infeasible, mut unknown) = (0, [0; SEARCHES.len()], 0, 0);
    for number in 0..150 {
        let problem = problem(number, 12, 5);
        let impossible = Instance::new(&problem).impossible();
        let lists = [&HEFT as &dyn Solver, &PEFT].map(|solver| solve(solver, &problem).value());
        for (index, solver) in SEARCHES.into_iter().enumerate() {
            let solution = solve(solver, &problem);
            assert_eq!(solution.status == Status::Infeasible, impossible.is_some(), "{number}");
            infeasible += usize::from(impossible.is_some());
            let Some(plan) = &solution.plan else {
                assert!(lists == [None; 2] && solution.reason.is_some(), "{number}: {}", solver.name());
                unknown += usize::from(impossible.is_none());
                continue;
            };
            let evaluation = evaluate(&problem, &plan.placement);
            assert!(evaluation.is_feasible(), "{number}: {}", solver.name());
            assert_eq!(evaluation.value, plan.value(), "{number}: {}", solver.name());
            assert!(solution.bound.value <= plan.value(), "{number}: {}", solver.name());
            for list in lists.into_iter().flatten() {
                assert!(plan.value() <= list * (1.0 + 1e-12), "{number}: {}", solver.name());
            }
            let least = lists.into_iter().flatten().fold(f64::INFINITY, f64::min);
            better[index] += usize::from(plan.value() < least * (1.0 - 1e-9));
            plans += 1;
        }
    }
    assert!(plans > 150 && infeasible > 20 && unknown < 80, "{plans} plans, {infeasible}, {unknown}");
    assert!(better.iter().all(|&better| better > 20), "better than list schedules {better:?} times");
}

/// The minimum makespan over all placements of classes, with every order of the operators as priority and without
/// priority.
fn optimum(problem: &Problem) -> Option<f64> {
    let graph = problem.graph();
    let devices = problem.cluster().device_count();
    let orders = orders(graph.operator_count());
    let mut choice = vec![0; graph.class_count()];
    let mut best: Option<f64> = None;
    loop {
        let device_of: Vec<DeviceId> =
            graph.operators().map(|op| DeviceId::new(choice[graph.class_of(op).index()])).collect();
        let with = orders.iter().map(|order| Placement::with_priority(device_of.clone(), order.clone()));
        for placement in with.chain([Placement::new(device_of.clone())]) {
            let evaluation = evaluate(problem, &placement);
            if evaluation.is_feasible() && best.is_none_or(|best| evaluation.value < best) {
                best = Some(evaluation.value);
            }
        }
        let Some(position) = choice.iter().position(|&device| device + 1 < devices) else { return best };
        choice[position] += 1;
        choice[..position].fill(0);
    }
}

/// All orders of `count` operators.
fn orders(count: usize) -> Vec<Vec<OpId>> {
    let mut orders = vec![Vec::new()];
    for op in OpId::first(count) {
        let longer = |order: &Vec<OpId>| -> Vec<Vec<OpId>> {
            let with = |position| {
                let mut order = order.clone();
                order.insert(position, op);
                order
            };
            (0..=order.len()).map(with).collect()
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    orders
}

#[test]
fn never_below_brute_force_and_mostly_equal() {
    let (mut reached, mut missed, mut unfound, mut none) =
        ([0; SEARCHES.len()], [0; SEARCHES.len()], [0; SEARCHES.len()], 0);
    for number in 0..1000 {
        let problem = problem(number, 4, 3);
        let placements = (problem.cluster().device_count() as u64).pow(problem.graph().class_count() as u32);
        let orders: u64 = (1..=problem.graph().operator_count() as u64).product();
        if placements * orders > 30_000 {
            continue;
        }
        let optimum = optimum(&problem);
        none += usize::from(optimum.is_none());
        for (index, solver) in SEARCHES.into_iter().enumerate() {
            let value = solve(solver, &problem).value();
            match (optimum, value) {
                (Some(best), Some(value)) => {
                    assert!(value >= best * (1.0 - 1e-12), "{number}: {} {value} {best}", solver.name());
                    if same(value, best) { reached[index] += 1 } else { missed[index] += 1 }
                }
                (Some(_), None) => unfound[index] += 1,
                (None, None) => {}
                (None, Some(_)) => panic!("{number}: a plan where brute force finds none"),
            }
        }
    }
    assert!(none > 20, "only {none} without a plan");
    for index in 0..SEARCHES.len() {
        let counts = (reached[index], missed[index], unfound[index]);
        assert!(counts.0 > 100 && (counts.1 + counts.2) * 20 <= counts.0, "{index}: {counts:?}");
    }
}

#[test]
fn every_solver_makes_feasible_plans_that_brute_force_does_not_beat() {
    let mut plans = vec![0; SOLVERS.len()];
    for number in 400..500 {
        let problem = problem(number, 4, 3);
        let classes = problem.graph().class_count() as u32;
        let placements = (problem.cluster().device_count() as u64).pow(classes);
        let orders: u64 = (1..=problem.graph().operator_count() as u64).product();
        if placements * orders > 30_000 {
            continue;
        }
        let optimum = optimum(&problem);
        for (plans, solver) in plans.iter_mut().zip(SOLVERS) {
            let Some(plan) = solve(*solver, &problem).plan else { continue };
            assert!(evaluate(&problem, &plan.placement).is_feasible(), "{number}: {}", solver.name());
            let best = optimum.unwrap_or_else(|| panic!("{number}: a plan where brute force finds none"));
            assert!(plan.value() >= best * (1.0 - 1e-12), "{number}: {}", solver.name());
            *plans += 1;
        }
    }
    // Random graphs do not repeat, so they are not folded.
    let is_met = |(solver, &plans): (&&dyn Solver, &u32)| plans > 30 || solver.name() == Fold.name();
    assert!(SOLVERS.iter().zip(&plans).all(is_met), "{plans:?}");
}

#[test]
fn the_same_whatever_the_threads() {
    for number in 0..12 {
        let problem = problem(number, 14, 6);
        for solver in SEARCHES {
            let single = solve_as(solver, &problem, 1, UNLIMITED);
            for threads in [2, 3] {
                assert_eq!(single, solve_as(solver, &problem, threads, UNLIMITED), "{number}: {threads}");
            }
        }
    }
}

/// If the start is better than the first partitions, cycles run from the start and from the best partition.
#[test]
fn cycles_beside_a_better_start_are_the_same_whatever_the_threads() {
    let mut better = 0;
    for number in 0..40 {
        let problem = problem(number, 30, 6);
        let Some(start) = solve_as(&MULTILEVEL, &problem, 1, UNLIMITED).plan else { continue };
        let from_start = |threads| {
            let mut silent = Silent;
            let mut context =
                Context::new(Settings { limits: UNLIMITED, threads, ..Settings::default() }, &mut silent);
            context.warm_start = Some(start.placement.clone());
            MULTILEVEL.solve(&problem, &mut context).expect("a makespan")
        };
        let single = from_start(1);
        assert_eq!(single, from_start(2), "{number}");
        assert!(single.value().expect("a plan") <= start.value() * (1.0 + 1e-12), "{number}");
        let first = solve_as(&MULTILEVEL, &problem, 1, Limits { simulations: Some(1), ..UNLIMITED });
        better += usize::from(first.value().is_none_or(|first| start.value() < first * (1.0 - 1e-9)));
    }
    assert!(better > 2, "{better} starts are better");
}

#[test]
fn what_begins_with_nothing_is_the_same_whatever_the_threads_and_keeps_to_its_simulations() {
    let limits = |count| Limits { simulations: Some(count), ..UNLIMITED };
    let mut better = 0;
    for number in 0..12 {
        let problem = problem(number, 14, 6);
        for solver in [&RANDOM_PLACEMENTS as &dyn Solver, &ANNEALING_FROM_RANDOM] {
            let played = |solution: &Solution| {
                let count = solution.statistics.iter().find(|(name, _)| *name == "simulations");
                count.map_or(0, |&(_, count)| count)
            };
            let few = solve_as(solver, &problem, 1, limits(1));
            let many = solve_as(solver, &problem, 1, limits(500));
            assert!(played(&few) <= 2 + 1 && played(&many) <= 500 + 2, "{number}: {}", solver.name());
            assert_eq!(many, solve_as(solver, &problem, 3, limits(500)), "{number}: {}", solver.name());
            if let (Some(few), Some(many)) = (few.value(), many.value()) {
                assert!(many <= few, "{number}: {}: {few} {many}", solver.name());
                better += usize::from(many < few);
            }
        }
    }
    assert!(better > 3, "{better}");
}

#[test]
fn where_nothing_can_be_moved_walks_end() {
    // Each operator has only one possible device, and the two tensors queue at the port of the first.
    let mut builder = GraphBuilder::new("fixed");
    for name in ["fast", "slow", "third"] {
        let seconds = [(name.to_owned(), 1.0)].into();
        builder.operator(OperatorDocument { seconds, ..OperatorDocument::named(name) });
    }
    for to in ["slow", "third"] {
        builder.timed_tensor(TensorDocument {
            name: None,
            producer: "fast".into(),
            consumers: vec![to.into()],
            bytes: 4.0,
            seconds: Default::default(),
        });
    }
    let mut document = branches(1, 2, None).cluster().document().clone();
    document.kinds.iter_mut().for_each(|kind| kind.count = 1);
    let third = KindDocument { name: "third".into(), class: "third".into(), ..document.kinds[0].clone() };
    document.kinds.push(third);
    let cluster = Cluster::from_document(document).expect("a valid cluster");
    let objective = Objective::Makespan { execution: Execution::Ports };
    let graph = builder.build().expect("a valid graph");
    let problem = Problem::new(graph, cluster, objective).expect("a valid problem");
    for solver in [&ANNEALING as &dyn Solver, &TABU, &ANNEALING_FROM_RANDOM] {
        let solution = solve_as(solver, &problem, 1, UNLIMITED);
        let value = solution.value().expect("a plan");
        assert!(value > solution.bound.value * 1.01, "{}: a loop is tried", solver.name());
    }
}

/// A training step of parallel branches, with colocated passes and weights, on two kinds of devices.
fn branches(width: usize, depth: usize, memory_bytes: Option<f64>) -> Problem {
    let mut builder = GraphBuilder::new("branches");
    let mut rng = seed::stream(9, 0);
    let mut random = |from: f64, to: f64| rand::RngExt::random_range(&mut rng, from..to);
    let mut operator = |builder: &mut GraphBuilder, name: String, colocation: Option<String>| {
        let seconds = [("fast".into(), random(1.0, 3.0)), ("slow".into(), random(2.0, 5.0))].into();
        let bytes = if colocation.is_some() { random(1.0, 3.0) } else { 0.0 };
        builder.operator(OperatorDocument {
            seconds,
            colocation,
            parameter_bytes: bytes,
            ..OperatorDocument::named(name)
        });
    };
    for branch in 0..width {
        for layer in 0..depth {
            let together = (layer % 2 == 0).then(|| format!("c{branch}.{layer}"));
            operator(&mut builder, format!("f{branch}.{layer}"), together.clone());
            operator(&mut builder, format!("b{branch}.{layer}"), together);
        }
    }
    operator(&mut builder, "join".into(), None);
    let mut tensor = |from: String, to: String| {
        let (producer, consumers) = (from, vec![to]);
        builder.timed_tensor(TensorDocument {
            name: None,
            producer,
            consumers,
            bytes: 1.0,
            seconds: Default::default(),
        });
    };
    for branch in 0..width {
        for layer in 1..depth {
            tensor(format!("f{branch}.{}", layer - 1), format!("f{branch}.{layer}"));
            tensor(format!("b{branch}.{layer}"), format!("b{branch}.{}", layer - 1));
            tensor(format!("f{branch}.{layer}"), format!("b{branch}.{layer}"));
        }
        tensor(format!("f{branch}.{}", depth - 1), "join".into());
        tensor("join".into(), format!("b{branch}.{}", depth - 1));
    }
    let kind = |name: &str| KindDocument {
        reserve_bytes: None,
        name: name.into(),
        class: name.into(),
        count: 2,
        host: false,
        memory_bytes,
        link: Some(LinkDocument { latency_s: 0.1, bandwidth: 1.0 }),
        group: None,
        server: None,
        ram: None,
    };
    let cluster = ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: Default::default(),
        kinds: vec![kind("fast"), kind("slow")],
        groups: Vec::new(),
        matrix: None,
    };
    let objective = Objective::Makespan { execution: Execution::Ports };
    let cluster = Cluster::from_document(cluster).expect("a valid cluster");
    Problem::new(builder.build().expect("a valid graph"), cluster, objective).expect("a valid problem")
}

#[test]
fn colocated_passes_on_cycles_are_partitioned() {
    let roomy = branches(8, 10, None);
    let heft = solve(&HEFT, &roomy).value().expect("a plan");
    for solver in SEARCHES {
        let limits = Limits { simulations: Some(MANY), ..UNLIMITED };
        let value = solve_as(solver, &roomy, 1, limits).value().expect("a plan");
        assert!(value < heft, "{}: {value} {heft}", solver.name());
    }
}

#[test]
fn no_time_ends_with_a_plan_and_loses_no_warm_start() {
    let problem = branches(20, 50, None);
    for solver in SEARCHES {
        for time in [Duration::ZERO, Duration::from_millis(1)] {
            let limits = Limits { time: Some(time), ..UNLIMITED };
            let solution = solve_as(solver, &problem, 1, limits);
            assert!(solution.plan.is_some() && solution.stop == Some(StopReason::Time), "{}", solver.name());
        }
        let warm = solve(&PEFT, &problem).plan.expect("a plan");
        let mut silent = Silent;
        let limits = Limits { time: Some(Duration::ZERO), ..UNLIMITED };
        let mut context = Context::new(limits, &mut silent);
        context.warm_start = Some(warm.placement.clone());
        let value = solver.solve(&problem, &mut context).expect("an answer").value().expect("a plan");
        assert!(value <= warm.value(), "{}: {value} after {}", solver.name(), warm.value());
    }
}

/// Stops at the second incumbent.
struct Impatient {
    heard: Vec<f64>,
}

impl Observer for Impatient {
    fn event(&mut self, event: &Event) -> ControlFlow<()> {
        if let Event::Incumbent { value } = event {
            assert!(self.heard.last().is_none_or(|last| value < last), "{value} after {:?}", self.heard);
            self.heard.push(*value);
        }
        if self.heard.len() >= 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn what_is_announced_is_answered() {
    let problem = branches(6, 8, None);
    for solver in SEARCHES {
        let mut observer = Impatient { heard: Vec::new() };
        let mut context = Context::new(UNLIMITED, &mut observer);
        let solution = solver.solve(&problem, &mut context).expect("an answer");
        assert_eq!(solution.stop, Some(StopReason::Interrupted), "{}", solver.name());
        assert_eq!(observer.heard.len(), 2, "{}", solver.name());
        assert!(same(solution.value().expect("a plan"), observer.heard[1]), "{}", solver.name());
    }
}

#[test]
fn what_fits_only_when_spread_is_spread() {
    // Two devices have room for all parameters, but not for the tensors that wait for the backward pass.
    let roomy = branches(6, 8, None);
    let bytes: f64 = roomy.graph().operators().map(|op| roomy.graph().operator(op).parameter_bytes).sum();
    let problem = branches(6, 8, Some(bytes / 2.0));
    for solver in SEARCHES {
        let limits = Limits { simulations: Some(MANY), ..UNLIMITED };
        let plan = solve_as(solver, &problem, 1, limits).plan.expect("a plan that fits");
        assert!(evaluate(&problem, &plan.placement).is_feasible(), "{}", solver.name());
        assert!(plan.placement.used().len() > 2, "{}", solver.name());
    }
}

#[test]
fn nothing_or_one_of_anything() {
    let problem = |count, devices| {
        let mut builder = GraphBuilder::new("few");
        for index in 0..count {
            let seconds = [("a".into(), 2.0)].into();
            builder.operator(OperatorDocument { seconds, ..OperatorDocument::named(format!("op{index}")) });
        }
        let kind = KindDocument {
            reserve_bytes: None,
            name: "a".into(),
            class: "a".into(),
            count: devices,
            host: false,
            memory_bytes: None,
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
        let objective = Objective::Makespan { execution: Execution::Ports };
        let cluster = Cluster::from_document(cluster).expect("a valid cluster");
        let graph = builder.build().expect("a valid graph");
        Problem::new(graph, cluster, objective).expect("a valid problem")
    };
    for solver in SEARCHES {
        for (count, devices, value) in [(0, 2, 0.0), (1, 1, 2.0), (1, 3, 2.0), (5, 1, 10.0), (6, 3, 4.0)] {
            let solution = solve(solver, &problem(count, devices));
            assert_eq!(solution.value(), Some(value), "{}: {count} on {devices}", solver.name());
        }
    }
}
