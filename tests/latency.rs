//! Latency on small random problems: the evaluation agrees with the independent checker on placements with random
//! calls, and the solvers with brute force over all placements.

use stagewright_testing::random;

use rand::{Rng, RngExt};
use random::Size;
use stagewright::portfolio;
use stagewright::registry::{Role, SOLVERS};
use stagewright::report::document::{Provenance, plan_document};
use stagewright_core::bound::LowerBound;
use stagewright_core::calls::assign;
use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::{ClusterDocument, GraphDocument, PlanDocument};
use stagewright_core::evaluate::{Violation, evaluate};
use stagewright_core::graph::Graph;
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Limits, Plan, Silent, Solution, Solver, Status, Stop};
use stagewright_core::tolerance;
use stagewright_dp::Dp;
use stagewright_search::Local;
use stagewright_search::latency::blocks::Ideals;
use stagewright_verify::{Report, ViolationKind, check};

/// Maximum number of placements that brute force tries.
const MAX_PLACEMENTS: f64 = 20_000.0;

fn latency(calls: u32) -> Objective {
    Objective::Latency { calls }
}

fn random(number: u64, operators: usize, calls: u32) -> Problem {
    let problem = random::problem(number, Size { operators, devices: 3, groups: number.is_multiple_of(3) });
    problem.with_objective(latency(calls)).expect("a valid objective")
}

fn solve(solver: &dyn Solver, problem: &Problem) -> Solution {
    let mut silent = Silent;
    let limits = Limits { time: None, ..Limits::default() };
    let mut context = Context::new(limits, &mut silent);
    solver.solve(problem, &mut context).unwrap_or_else(|error| panic!("{}: {error}", solver.name()))
}

/// Writes the solution, reads it back and checks it with the independent checker.
fn checked(problem: &Problem, solution: &Solution) -> Report {
    let provenance = Provenance { solver: solution.solver.into(), seconds: 0.0, seed: 0 };
    let written = serde_json::to_string(&plan_document(problem, solution, provenance)).expect("JSON");
    let plan: PlanDocument = serde_json::from_str(&written).expect("the same document");
    check(problem.graph().document(), problem.cluster().document(), None, &plan).expect("a sound problem")
}

/// The minimum over all assignments of operators to hosts and calls, or infinity if none is feasible; `None` if there
/// are too many to try.
fn optimum(problem: &Problem) -> Option<f64> {
    let calls = problem.objective().calls();
    let seats: Vec<(DeviceId, u32)> = problem
        .cluster()
        .devices()
        .flat_map(|device| {
            let host = problem.pools()[problem.pool_of(device)].host;
            (0..if host { 1 } else { calls }).map(move |call| (device, call))
        })
        .collect();
    let operators = problem.graph().operator_count();
    if (seats.len() as f64).powi(operators as i32) > MAX_PLACEMENTS {
        return None;
    }
    let mut choice = vec![0usize; operators];
    let mut best = f64::INFINITY;
    loop {
        let (device_of, call_of) = choice.iter().map(|&seat| seats[seat]).unzip();
        let evaluation = evaluate(problem, &Placement::with_calls(device_of, call_of));
        if evaluation.is_feasible() {
            best = best.min(evaluation.value);
        }
        let Some(position) = (0..operators).find(|&index| choice[index] + 1 < seats.len()) else {
            return Some(best);
        };
        choice[position] += 1;
        choice[..position].fill(0);
    }
}

#[test]
fn evaluation_and_checker_agree_on_random_calls() {
    let (mut feasible, mut cyclic, mut several) = (0, 0, 0);
    for number in 0..20_000 {
        let problem = random(number, 6, 1 + (number % 3) as u32);
        let mut rng = seed::stream(0xCA11, number);
        let graph = problem.graph();
        let devices = problem.cluster().device_count() as u32;
        let few: Vec<u32> = (0..rng.random_range(1..=3)).map(|_| rng.random_range(0..devices)).collect();
        let of_class: Vec<u32> =
            (0..graph.class_count()).map(|_| few[rng.random_range(0..few.len())]).collect();
        let device_of = graph.operators().map(|op| DeviceId(of_class[graph.class_of(op).index()])).collect();
        // The calls mostly follow the topological order, so that many placements are feasible.
        let calls = problem.objective().calls() + 1;
        let mut call_of = vec![0; graph.operator_count()];
        for (position, &op) in graph.topological().iter().enumerate() {
            call_of[op.index()] = match rng.random_bool(0.8) {
                true => position as u32 * calls / graph.operator_count() as u32,
                false => rng.random_range(0..calls),
            };
        }
        let placement = Placement::with_calls(device_of, call_of);
        let evaluation = evaluate(&problem, &placement);
        let core = evaluation.is_feasible();
        let stuck = evaluation.violations.iter().any(|broken| matches!(broken, Violation::CallOrder { .. }));
        feasible += u32::from(core);
        cyclic += u32::from(stuck);
        several += u32::from(core && evaluation.calls.iter().any(|call| call.call > 0));
        let plan = Plan { placement, evaluation };
        let report = checked(&problem, &Solution::with_plan("none", plan, LowerBound::TRIVIAL, None));
        let broken = report.violations.iter().find(|violation| violation.kind.breaks_feasibility());
        assert_eq!(core, broken.is_none(), "{number}: {broken:?}");
        if core {
            // Among the claims that the checker verifies are the value, the loads and the memory of every device.
            assert!(report.violations.is_empty(), "{number}: {:?}", report.violations);
        }
        if stuck {
            let kinds: Vec<_> = report.violations.iter().map(|violation| violation.kind).collect();
            assert!(kinds.contains(&ViolationKind::Calls), "{number}: {kinds:?}");
        }
    }
    let enough = feasible > 3_000 && cyclic > 500 && several > 500;
    assert!(enough, "{feasible} feasible, {cyclic} cyclic, {several} with several calls");
}

#[test]
fn no_solver_is_below_brute_force_and_every_plan_is_what_it_says() {
    let auto = portfolio::auto(&latency(1)).expect("auto takes latency").solver;
    let (mut problems, mut infeasible, mut proved, mut best) = (0, 0, 0, 0);
    for number in 0..30 {
        let problem = random(number, 5, 1 + (number % 2) as u32);
        let Some(optimum) = optimum(&problem) else { continue };
        problems += 1;
        infeasible += u32::from(optimum.is_infinite());
        let named = SOLVERS.iter().map(|entry| (entry.solver, entry.role));
        for (solver, role) in named.chain([(auto, Role::Exact)]) {
            if solver.unsupported(problem.objective()).is_some() {
                continue;
            }
            let solution = solve(solver, &problem);
            let name = solver.name();
            if solution.status != Status::Infeasible {
                let bound = solution.bound.value;
                assert!(
                    bound <= optimum * (1.0 + tolerance::VALUE_RELATIVE),
                    "{number} {name}: {bound} > {optimum}"
                );
            }
            if let Some(value) = solution.value() {
                let least = optimum * (1.0 - tolerance::VALUE_RELATIVE);
                assert!(value >= least, "{number} {name}: {value} < {optimum}");
                let report = checked(&problem, &solution);
                assert!(report.violations.is_empty(), "{number} {name}: {:?}", report.violations);
                best += u32::from(name == auto.name() && tolerance::same(value, optimum));
                proved += u32::from(name == auto.name() && solution.status == Status::Optimal);
            } else {
                assert!(solution.reason.is_some(), "{number} {name}");
                // Contraction excludes some plans, which only the integer program finds.
                let contracted = Units::new(&problem).len() < problem.graph().operator_count();
                let excused = role == Role::Baseline || contracted || problem.objective().calls() > 1;
                assert!(excused || optimum.is_infinite(), "{number} {name} has no plan");
                assert!(name != auto.name() || optimum.is_infinite() || !cfg!(feature = "milp"), "{number}");
            }
            assert!(solution.status != Status::Infeasible || optimum.is_infinite(), "{number} {name}");
        }
    }
    let feasible = problems - infeasible;
    assert!(problems > 10, "{problems} problems, {infeasible} infeasible");
    assert!(best * 100 >= feasible * 95, "auto has the optimum of {best} of {feasible}, {proved} proved");
}

/// Every subset is an ideal, so listing them exceeds the limit, and the plan found before is kept.
#[test]
fn ideals_that_memory_cannot_hold_lose_no_plan() {
    let operator =
        |index: u32| serde_json::json!({"name": format!("op{index}"), "seconds": {"cpu": 3.0, "gpu": 1.0}});
    let operators: Vec<_> = (0..200).map(operator).collect();
    let graph = serde_json::json!({"schema": "stagewright.graph/1", "operators": operators, "tensors": []});
    let cluster = serde_json::json!({"schema": "stagewright.cluster/1", "kinds": [
        {"name": "acc", "class": "gpu", "count": 1, "link": {"latency_s": 0.0, "bandwidth": 1.0}},
        {"name": "host", "class": "cpu", "count": 1, "host": true}]});
    let problem = problem(graph, cluster, 1);
    let order = (0..200).map(UnitId).collect();
    let stop = Stop::new(None, Default::default());
    assert!(Ideals::all(&Units::new(&problem), order, Some(1 << 22), &stop).is_none());
    let mut silent = Silent;
    let limits = Limits { time: None, memory: Some(1 << 24), ..Limits::default() };
    let mut context = Context::new(limits, &mut silent);
    let solution = Dp.solve(&problem, &mut context).expect("latency");
    assert_eq!(solution.value(), Some(3.0), "all of it side by side on the host");
}

#[test]
fn more_calls_than_could_ever_be_made_are_no_harm() {
    for number in 0..20 {
        let [few, many] = [6, u32::MAX].map(|calls| solve(&Local, &random(number, 6, calls)).value());
        assert_eq!(few.is_some(), many.is_some(), "{number}");
    }
}

/// Builds a problem from its documents.
fn problem(graph: serde_json::Value, cluster: serde_json::Value, calls: u32) -> Problem {
    let graph: GraphDocument = serde_json::from_value(graph).expect("a graph");
    let cluster: ClusterDocument = serde_json::from_value(cluster).expect("a cluster");
    let (graph, cluster) = (Graph::from_document(graph), Cluster::from_document(cluster));
    Problem::new(graph.expect("sound"), cluster.expect("sound"), latency(calls)).expect("a problem")
}

fn chain(rng: &mut impl Rng, calls: u32) -> Problem {
    let count = rng.random_range(1..=5u32);
    let operators: Vec<_> = (0..count)
        .map(|index| {
            let (on_host, on_acc) = (rng.random_range(0..30u32), rng.random_range(0..4u32));
            serde_json::json!({"name": format!("op{index}"), "seconds": {"cpu": on_host, "gpu": on_acc},
                               "parameter_bytes": rng.random_range(0..3u32)})
        })
        .collect();
    let tensors: Vec<_> = (1..count)
        .map(|index| {
            serde_json::json!({"producer": format!("op{}", index - 1), "consumers": [format!("op{index}")],
                               "bytes": rng.random_range(0..5u32)})
        })
        .collect();
    let graph =
        serde_json::json!({"schema": "stagewright.graph/1", "operators": operators, "tensors": tensors});
    let cluster = serde_json::json!({"schema": "stagewright.cluster/1", "kinds": [
        {"name": "acc", "class": "gpu", "count": 2, "memory_bytes": rng.random_range(1..8u32),
         "link": {"latency_s": 0.0, "bandwidth": 1.0}},
        {"name": "host", "class": "cpu", "count": 1, "host": true}]});
    problem(graph, cluster, calls)
}

#[test]
fn the_block_program_is_exact_on_chains() {
    let mut below_the_host = 0;
    for number in 0..300 {
        let problem = chain(&mut seed::stream(7, number), 1);
        let optimum = optimum(&problem).expect("few placements");
        let found = solve(&Dp, &problem).value().expect("hosts take everything");
        assert!(tolerance::same(found, optimum) || found == optimum, "{number}: {found} and {optimum}");
        let calls = |plan: &Plan| plan.evaluation.calls.len();
        below_the_host += u32::from(solve(&Dp, &problem).plan.as_ref().map_or(0, calls) > 0);
    }
    assert!(below_the_host > 100, "only {below_the_host} plans call an accelerator");
}

/// A slow operator that only the host can run lies between two halves. Both halves fit in the memory of the one
/// accelerator, but one call can run only one of them, and two calls can run both.
fn sandwich(calls: u32) -> Problem {
    let graph = serde_json::json!({"schema": "stagewright.graph/1",
        "operators": [
            {"name": "first", "seconds": {"cpu": 20.0, "gpu": 1.0}, "parameter_bytes": 4},
            {"name": "middle", "seconds": {"cpu": 1.0}},
            {"name": "last", "seconds": {"cpu": 20.0, "gpu": 1.0}, "parameter_bytes": 4}],
        "tensors": [
            {"producer": "first", "consumers": ["middle"], "bytes": 1},
            {"producer": "middle", "consumers": ["last"], "bytes": 1}]});
    let cluster = serde_json::json!({"schema": "stagewright.cluster/1", "kinds": [
        {"name": "acc", "class": "gpu", "count": 1, "memory_bytes": 8, "link": {"latency_s": 0.0, "bandwidth": 1.0}},
        {"name": "host", "class": "cpu", "count": 1, "host": true}]});
    problem(graph, cluster, calls)
}

#[test]
fn two_calls_beat_one_where_a_host_stands_between() {
    // One call: 1 + 1 (out) + 1 + 20; two calls: 1 + 1 + 1 + 1 (in) + 1.
    for solver in [&Dp as &dyn Solver, &Local] {
        let value = |calls| solve(solver, &sandwich(calls)).value();
        assert_eq!((value(1), value(2)), (Some(23.0), Some(5.0)), "{}", solver.name());
    }
}

#[test]
fn more_calls_are_never_worse() {
    let mut better = 0;
    for number in 0..80 {
        for solver in [&Dp as &dyn Solver, &Local] {
            let [single, two] = [1, 2].map(|calls| solve(solver, &random(number, 6, calls)).value());
            match (single, two) {
                (Some(single), Some(two)) => {
                    assert!(two <= single * (1.0 + tolerance::VALUE_RELATIVE), "{number}: {two} > {single}");
                    better += u32::from(two < single * 0.999);
                }
                (Some(_), None) => panic!("{number}: a plan with one call, none with two"),
                (None, _) => {}
            }
        }
    }
    assert!(better > 0, "two calls never helped");
}

#[test]
fn calls_are_assigned_in_an_order_and_few() {
    let mut several = 0;
    for number in 0..2_000 {
        let problem = random(number, 7, 7);
        let mut rng = seed::stream(0xA551, number);
        let devices = problem.cluster().device_count() as u32;
        let device_of: Vec<_> =
            problem.graph().operators().map(|_| DeviceId(rng.random_range(0..devices))).collect();
        let placement = assign(&problem, &Placement::new(device_of));
        let evaluation = evaluate(&problem, &placement);
        let stuck = evaluation.violations.iter().any(|broken| matches!(broken, Violation::CallOrder { .. }));
        assert!(!stuck, "{number}: the calls wait for one another");
        // A placement without calls is evaluated with one call per accelerator if that is possible.
        let merged = evaluate(
            &problem,
            &Placement::new(problem.graph().operators().map(|op| placement.device_of(op)).collect()),
        );
        let possible = !merged.violations.iter().any(|broken| matches!(broken, Violation::CallOrder { .. }));
        let one_each = evaluation.calls.iter().all(|call| call.call == 0);
        assert_eq!(possible, one_each, "{number}");
        several += u32::from(!one_each);
    }
    assert!(several > 200, "only {several} need several calls");
}

/// Without its memory limit, the host would be the best device for all operators, which would hide the plans that fit.
#[test]
fn what_overfills_a_host_is_no_proof_that_nothing_fits() {
    let operator = |name: &str, bytes: u32, gpu: bool| {
        let seconds =
            if gpu { serde_json::json!({"cpu": 1.0, "gpu": 100.0}) } else { serde_json::json!({"cpu": 1.0}) };
        serde_json::json!({"name": name, "seconds": seconds, "parameter_bytes": bytes})
    };
    let tensor = |from: &str, to: &str| serde_json::json!({"producer": from, "consumers": [to], "bytes": 0});
    let graph = serde_json::json!({"schema": "stagewright.graph/1",
        "operators": [operator("a", 4, false), operator("d", 5, true), operator("b", 10, true), operator("c", 4, false)],
        "tensors": [tensor("a", "d"), tensor("d", "b"), tensor("b", "c")]});
    let cluster = serde_json::json!({"schema": "stagewright.cluster/1", "kinds": [
        {"name": "acc", "class": "gpu", "count": 1, "memory_bytes": 12, "link": {"latency_s": 0.0, "bandwidth": 1.0}},
        {"name": "host", "class": "cpu", "count": 1, "host": true, "memory_bytes": 13}]});
    let problem = problem(graph, cluster, 1);
    assert_eq!(optimum(&problem), Some(103.0));
    assert_ne!(solve(&Dp, &problem).status, Status::Infeasible);
    let auto = portfolio::auto(&latency(1)).expect("auto takes latency").solver;
    let found = solve(auto, &problem);
    assert_ne!(found.status, Status::Infeasible);
    assert_eq!(found.value(), cfg!(feature = "milp").then_some(103.0));
}

/// A huge transfer time that means "never" must not leave a rounding error in a sum after it is subtracted again.
#[test]
fn absurd_transfers_cost_no_precision() {
    let operator = |name: &str, cpu: f64, gpu: Option<f64>| match gpu {
        Some(gpu) => serde_json::json!({"name": name, "seconds": {"cpu": cpu, "gpu": gpu}}),
        None => serde_json::json!({"name": name, "seconds": {"cpu": cpu}}),
    };
    let tensor = |from: &str, to: &str, bytes: f64| serde_json::json!({"producer": from, "consumers": [to], "bytes": bytes});
    let graph = serde_json::json!({"schema": "stagewright.graph/1",
        "operators": [operator("a", 10.0, Some(1.0)), operator("b", 10.0, Some(1.0)), operator("c", 10.0, Some(1.0)),
                      operator("d", 1.0, None), operator("e", 20.0, Some(1.0))],
        "tensors": [tensor("a", "b", 1e30), tensor("b", "c", 1e30), tensor("a", "d", 40.0), tensor("c", "d", 1.0),
                    tensor("d", "e", 0.1)]});
    let cluster = serde_json::json!({"schema": "stagewright.cluster/1", "kinds": [
        {"name": "acc", "class": "gpu", "count": 2, "link": {"latency_s": 0.0, "bandwidth": 1.0}},
        {"name": "host", "class": "cpu", "count": 1, "host": true}]});
    let problem = problem(graph, cluster, 1);
    let optimum = optimum(&problem).expect("few placements");
    let found = solve(&Dp, &problem).value().expect("a plan");
    assert!(tolerance::same(found, optimum), "{found} and {optimum}");
}

#[test]
fn memory_forces_the_hosts_and_what_fits_nowhere_is_said_so() {
    let with = |memory: u32, on_host: bool| {
        let seconds = if on_host {
            serde_json::json!({"cpu": 9.0, "gpu": 1.0})
        } else {
            serde_json::json!({"gpu": 1.0})
        };
        let operator =
            |name: &str| serde_json::json!({"name": name, "seconds": seconds, "parameter_bytes": 4});
        let graph = serde_json::json!({"schema": "stagewright.graph/1",
            "operators": [operator("a"), operator("b"), operator("c")],
            "tensors": [{"producer": "a", "consumers": ["b"], "bytes": 0}, {"producer": "b", "consumers": ["c"], "bytes": 0}]});
        let cluster = serde_json::json!({"schema": "stagewright.cluster/1", "kinds": [
            {"name": "acc", "class": "gpu", "count": 1, "memory_bytes": memory,
             "link": {"latency_s": 0.0, "bandwidth": 1.0}},
            {"name": "host", "class": "cpu", "count": 1, "host": true}]});
        problem(graph, cluster, 1)
    };
    let auto = portfolio::auto(&latency(1)).expect("auto takes latency").solver;
    let value = |memory| solve(auto, &with(memory, true)).value();
    assert_eq!([value(12), value(8), value(4), value(3)], [Some(3.0), Some(11.0), Some(19.0), Some(27.0)]);
    for memory in [8, 3] {
        let solution = solve(auto, &with(memory, false));
        assert_eq!((solution.status, solution.plan), (Status::Infeasible, None));
        assert!(solution.reason.is_some_and(|why| !why.is_empty()));
    }
}
