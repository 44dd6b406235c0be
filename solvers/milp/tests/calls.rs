//! Latency on small random problems, against every placement into calls.

use std::collections::BTreeMap;

use rand::{Rng, RngExt};
use stagewright_core::call_timing::Offload;
use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, KindDocument, LinkDocument, OperatorDocument, PinTargets, PinsDocument,
    TensorDocument,
};
use stagewright_core::evaluate::{Violation, evaluate};
use stagewright_core::graph::{ClassId, Graph, GraphBuilder};
use stagewright_core::ids::Id;
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Limits, Plan, Settings, Silent, Solution, Solver, Status, Stop};
use stagewright_milp::calls::model::{CallsModel, Range, Rows};
use stagewright_milp::calls::reach::Reach;
use stagewright_milp::calls::scope::Scope;
use stagewright_milp::calls::seats::{SeatId, Seats};
use stagewright_milp::run::{Ending, Outcome, RunEffort, solve};
use stagewright_milp::{Lns, Milp};

const UNLIMITED: Limits = Limits { time: None, memory: None, gap: 0.0, simulations: None };
/// Maximum number of placements to try.
const MOST: f64 = 60_000.0;

fn seconds(rng: &mut impl Rng) -> f64 {
    if rng.random_bool(0.25) { 0.0 } else { f64::from(rng.random_range(1..=20)) / 4.0 }
}

/// A random problem of up to six operators on up to four devices, with every feature of a latency problem.
fn problem(number: u64) -> Problem {
    let mut rng = seed::stream(0x1A7E, number);
    let operators = rng.random_range(1..=6);
    let mut builder = GraphBuilder::new("random");
    let name = |index: usize| format!("o{index}");
    let colocated = rng.random_bool(0.4);
    for index in 0..operators {
        let mut times = BTreeMap::new();
        for (class, chance, factor) in
            [("fast", 0.95, 1.0), ("slow", 0.9, 1.5), ("cpu", 0.8, 3.0), ("old", 0.7, 3.0)]
        {
            if rng.random_bool(chance) {
                times.insert(class.to_owned(), factor * seconds(&mut rng));
            }
        }
        builder.operator(OperatorDocument {
            seconds: times,
            parameter_bytes: f64::from(rng.random_range(0..4)),
            colocation: (colocated && rng.random_bool(0.5)).then(|| format!("c{}", rng.random_range(0..2))),
            ..OperatorDocument::named(name(index))
        });
    }
    for from in 0..operators {
        let to: Vec<String> = (from + 1..operators).filter(|_| rng.random_bool(0.4)).map(name).collect();
        let parts = if rng.random_bool(0.6) { vec![to] } else { to.into_iter().map(|to| vec![to]).collect() };
        for consumers in parts.into_iter().filter(|consumers| !consumers.is_empty()) {
            let slow: BTreeMap<String, f64> =
                ["fast", "slow"].into_iter().map(|class| (class.to_owned(), seconds(&mut rng))).collect();
            builder.timed_tensor(TensorDocument {
                name: None,
                producer: name(from),
                consumers,
                bytes: 1.0,
                seconds: slow,
            });
        }
    }
    let graph: Graph = builder.build().expect("a valid graph");
    let mut kinds = Vec::new();
    let (fast, slow) = [(1, 0), (2, 0), (1, 1), (0, 1)][rng.random_range(0..4)];
    let (cpu, old) = [(1, 0), (0, 0), (2, 0), (1, 1)][rng.random_range(0..4)];
    for (class, count, host) in
        [("fast", fast, false), ("slow", slow, false), ("cpu", cpu, true), ("old", old, true)]
    {
        kinds.push(KindDocument {
            reserve_bytes: None,
            name: class.into(),
            class: class.into(),
            count,
            host,
            memory_bytes: rng.random_bool(0.5).then(|| f64::from(rng.random_range(2..12))),
            link: Some(LinkDocument { latency_s: 0.0, bandwidth: 1.0 }),
            group: None,
            server: None,
            ram: None,
        });
    }
    let cluster = Cluster::from_document(ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: "random".into(),
        classes: BTreeMap::new(),
        kinds,
        groups: Vec::new(),
        matrix: None,
    });
    let cluster = cluster.expect("a valid cluster");
    let mut pins = PinsDocument::default();
    for op in graph.operators() {
        if rng.random_bool(0.08) {
            let device = DeviceId(rng.random_range(0..u32::new(cluster.device_count())));
            let target = match rng.random_bool(0.5) {
                true => cluster.device_name(device),
                false => cluster.kind(cluster.kind_of(device)).name.clone(),
            };
            pins.0.insert(graph.operator(op).name.clone(), PinTargets::One(target));
        }
    }
    let calls = rng.random_range(1..=2);
    let objective = Objective::Latency { calls };
    Problem::pinned(graph, cluster, objective, pins).expect("a valid problem")
}

/// Minimum value over all devices and calls for all operators; `None` if there are too many combinations to try.
fn optimum(problem: &Problem) -> Option<Option<f64>> {
    let graph = problem.graph();
    let mut seats: Vec<(DeviceId, u32)> = Vec::new();
    for device in problem.cluster().devices() {
        let host = problem.pools()[problem.pool_of(device)].host;
        seats.extend((0..if host { 1 } else { problem.objective().calls() }).map(|call| (device, call)));
    }
    if (seats.len() as f64).powi(graph.operator_count() as i32) > MOST {
        return None;
    }
    let mut choice = vec![0usize; graph.operator_count()];
    let mut best: Option<f64> = None;
    loop {
        let device_of = choice.iter().map(|&seat| seats[seat].0).collect();
        let call_of = choice.iter().map(|&seat| seats[seat].1).collect();
        let evaluation = evaluate(problem, &Placement::with_calls(device_of, call_of));
        if evaluation.is_feasible() && best.is_none_or(|best| evaluation.value < best) {
            best = Some(evaluation.value);
        }
        let Some(position) = choice.iter().position(|&seat| seat + 1 < seats.len()) else {
            return Some(best);
        };
        choice[position] += 1;
        choice[..position].fill(0);
    }
}

fn run(solver: &dyn Solver, problem: &Problem, threads: usize, start: Option<Placement>) -> Solution {
    let mut silent = Silent;
    let mut context =
        Context::new(Settings { limits: UNLIMITED, threads, ..Settings::default() }, &mut silent);
    context.warm_start = start;
    solver.solve(problem, &mut context).expect("a problem within the capabilities")
}

#[test]
fn the_program_agrees_with_every_placement() {
    let (mut optimal, mut infeasible, mut several, mut moved) = (0, 0, 0, 0);
    for number in 0..90 {
        let problem = problem(number);
        let Some(optimum) = optimum(&problem) else { continue };
        let solution = run(&Milp, &problem, 1, None);
        let Some(optimum) = optimum else {
            assert_eq!(solution.status, Status::Infeasible, "{number}: {:?}", solution.reason);
            assert!(solution.reason.is_some_and(|reason| !reason.is_empty()), "{number}");
            infeasible += 1;
            continue;
        };
        let plan = solution.plan.as_ref().unwrap_or_else(|| panic!("{number}: {:?}", solution.reason));
        assert!(evaluate(&problem, &plan.placement).is_feasible(), "{number}");
        let value = plan.value();
        assert!(
            solution.bound.value <= optimum * (1.0 + 1e-9),
            "{number}: {} > {optimum}",
            solution.bound.value
        );
        assert!((value - optimum).abs() <= 3e-6 * optimum, "{number}: {value} {optimum}");
        assert!(solution.gap().is_some_and(|gap| gap <= 3e-6), "{number}: {:?}", solution.bound);
        optimal += 1;
        several += u32::from(problem.objective().calls() > 1);
        moved += u32::from(plan.evaluation.calls.len() > 1);
    }
    assert!(
        optimal > 35 && infeasible > 2 && several > 8 && moved > 4,
        "{optimal} {infeasible} {several} {moved}"
    );
}

fn never() -> Stop {
    Stop::new(None, Default::default())
}

fn solved(model: Option<CallsModel>) -> Outcome<SeatId> {
    let effort = RunEffort { time: None, nodes: None, gap: 0.0, seed: 0 };
    solve(model.expect("there is no limit"), None, effort, &never()).expect("HiGHS takes the model")
}

/// Runs without an initial plan, and with an initial plan that excludes seats.
#[test]
fn the_model_is_what_every_placement_says() {
    let (mut feasible, mut infeasible) = (0, 0);
    for number in 0..1000 {
        let problem = problem(number);
        let Some(optimum) = optimum(&problem) else { continue };
        let (offload, seats) = (Offload::new(&problem), Seats::new(&problem).expect("few seats"));
        let Some(scope) = Scope::whole(&offload, &seats) else {
            assert_eq!(optimum, None, "{number}");
            continue;
        };
        let highs = [Some(scope.one_after_the_other()), optimum.map(|optimum| 1.05 * optimum)];
        for high in highs.into_iter().flatten().filter(|&high| high > 0.0) {
            let scope = scope.excluding(high);
            let rows = Rows { order: number.is_multiple_of(2), positions: true };
            let range = Range { low: 0.0, high };
            let outcome = solved(CallsModel::new(&scope, &Reach::new(&scope), range, rows, &never()));
            let Some(optimum) = optimum else {
                assert_eq!(outcome.ending, Ending::Infeasible, "{number}");
                infeasible += 1;
                continue;
            };
            assert_eq!(outcome.ending, Ending::Optimal, "{number}");
            let slack = 1e-5 * high;
            let bound = outcome.bound.expect("a bound");
            assert!(bound <= optimum * (1.0 + 1e-9), "{number}: {bound} > {optimum}");
            assert!(bound >= optimum - slack, "{number}: {bound} < {optimum}");
            let plan = seats.placement(&scope.seats_of(&outcome.chosen.expect("a plan"), None));
            let evaluation = evaluate(&problem, &plan);
            assert!(evaluation.is_feasible(), "{number}: {:?}", evaluation.violations);
            assert!(evaluation.value <= optimum + slack, "{number}: {} {optimum}", evaluation.value);
            feasible += 1;
        }
    }
    assert!(feasible > 150 && infeasible > 5, "{feasible} {infeasible}");
}

/// Re-optimising a part of a plan is as good as the best of all placements that leave the rest fixed.
#[test]
fn a_part_of_a_plan_is_what_every_placement_of_it_says() {
    let (mut tried, mut better, mut without_order) = (0, 0, 0);
    for number in 0..1000 {
        let problem = problem(number);
        let (offload, seats) = (Offload::new(&problem), Seats::new(&problem).expect("few seats"));
        let graph = problem.graph();
        let mut rng = seed::stream(0xBA27, number);
        let random = (0..50).find_map(|_| {
            let all = u32::new(seats.len());
            let plan: Vec<SeatId> = graph.operators().map(|_| SeatId(rng.random_range(0..all))).collect();
            let plan = Plan::new(&problem, seats.placement(&plan)).ok().filter(|plan| plan.value() > 0.0)?;
            Some((plan.value(), seats.of_placement(&problem, &plan.placement)?))
        });
        let Some((value, plan)) = random else { continue };
        let is_call = |&seat: &SeatId| seats.seat(seat).call.is_some();
        let open: Vec<SeatId> =
            SeatId::first(seats.len()).filter(is_call).filter(|_| rng.random_bool(0.6)).collect();
        let free: Vec<ClassId> = graph.class_ids().filter(|_| rng.random_bool(0.6)).collect();
        let Some(scope) = Scope::around(&offload, &seats, &plan, &open, &free) else { continue };
        // Every choice of the scope's own domains.
        let mut least = value;
        let domains = scope.domains();
        let mut indices = vec![0usize; domains.len()];
        loop {
            let chosen: Vec<SeatId> =
                indices.iter().zip(&domains).map(|(&index, domain)| domain[index]).collect();
            let evaluation = evaluate(&problem, &seats.placement(&scope.seats_of(&chosen, Some(&plan))));
            if evaluation.is_feasible() {
                least = least.min(evaluation.value);
            }
            let Some(next) = (0..indices.len()).find(|&block| indices[block] + 1 < domains[block].len())
            else {
                break;
            };
            indices[next] += 1;
            indices[..next].fill(0);
        }
        let slack = 1e-5 * value;
        for positions in [false, true] {
            let rows = Rows { positions, ..Rows::default() };
            let range = Range { low: 0.0, high: value };
            let outcome = solved(CallsModel::new(&scope, &Reach::new(&scope), range, rows, &never()));
            assert_eq!(outcome.ending, Ending::Optimal, "{number}");
            let bound = outcome.bound.expect("a bound");
            assert!(bound <= least * (1.0 + 1e-9), "{number}: {bound} > {least}");
            let found = scope.seats_of(&outcome.chosen.expect("the plan at least"), Some(&plan));
            let moved = graph.operators().filter(|op| found[op.index()] != plan[op.index()]);
            for op in moved {
                assert!(free.contains(&graph.class_of(op)), "{number}");
            }
            let evaluation = evaluate(&problem, &seats.placement(&found));
            if !positions && matches!(evaluation.violations[..], [Violation::CallOrder { .. }]) {
                // A cycle that takes no time.
                without_order += 1;
                continue;
            }
            assert!(bound >= least - slack, "{number}: {bound} < {least}");
            assert!(evaluation.value <= least + slack, "{number}: {evaluation:?}");
        }
        tried += 1;
        better += u32::from(least < value);
    }
    assert!(tried > 300 && better > 100 && without_order > 0, "{tried} {better} {without_order}");
}

#[test]
fn large_neighbourhoods_never_lose_and_often_reach_the_optimum() {
    let (mut plans, mut reached) = (0, 0);
    for number in 0..12 {
        let problem = problem(number);
        let Some(Some(optimum)) = optimum(&problem) else { continue };
        let hosts: Vec<DeviceId> =
            problem.pools().iter().filter(|pool| pool.host).map(|pool| pool.devices[0]).collect();
        let on_host = |&host: &DeviceId| Placement::new(vec![host; problem.graph().operator_count()]);
        let start = hosts.iter().map(on_host).find_map(|placement| Plan::new(&problem, placement).ok());
        let value = start.as_ref().map(Plan::value);
        let [single, two] = [1, 2]
            .map(|threads| run(&Lns, &problem, threads, start.as_ref().map(|start| start.placement.clone())));
        assert_eq!(single, two, "{number}");
        let Some(plan) = single.plan else {
            assert!(value.is_none(), "{number}");
            continue;
        };
        assert!(evaluate(&problem, &plan.placement).is_feasible(), "{number}");
        assert!(value.is_none_or(|value| plan.value() <= value), "{number}");
        assert!(single.bound.value <= optimum, "{number}");
        plans += 1;
        reached += u32::from(plan.value() <= optimum * (1.0 + 1e-9));
    }
    assert!(plans > 3 && reached * 10 >= plans * 8, "{plans} {reached}");
}
