//! The cut-net model on small random problems, against every placement.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, KindDocument, OperatorDocument, Split, TensorDocument,
};
use stagewright_core::evaluate::evaluate;
use stagewright_core::graph::{Graph, GraphBuilder};
use stagewright_core::ids::Keyed;
use stagewright_core::objective::Throughput;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Settings, Silent, Solution, Solver, Status, Stop};
use stagewright_milp::cutnet::cover::{Cover, covers};
use stagewright_milp::cutnet::infeasible::irreducible;
use stagewright_milp::cutnet::model::{CutNetModel, Domains, Minimise, Range, domains};
use stagewright_milp::cutnet::symmetry::{canonical, leaders, restrict};
use stagewright_milp::run::{Ending, Outcome, RunEffort, TOLERANCE, solve};
use stagewright_milp::{Lns, Milp};
use stagewright_search::local::placement;
use support::optimum;
use support::random::Size;

const UNLIMITED: Limits = Limits { time: None, memory: None, gap: 0.0, simulations: None };
const NO_START: Range = Range { low: 0.0, high: f64::INFINITY };

fn never() -> Stop {
    Stop::new(None, Default::default())
}

/// A small random problem, with a convex split for every third number and otherwise a free split.
fn small(number: u64) -> Problem {
    let split = if number.is_multiple_of(3) { Split::Convex } else { Split::Free };
    support::problem(
        number,
        Size { operators: 6, devices: 4, groups: number.is_multiple_of(2) },
        split,
        false,
    )
}

fn run(problem: &Problem, units: &Units, domains: &Domains, start: Option<&[DeviceId]>) -> Outcome<DeviceId> {
    let mut known: Vec<Cover> = Vec::new();
    loop {
        let model = CutNetModel::new(problem, units, domains, &known, NO_START, Minimise::All, &never());
        let model = model.expect("there is no limit");
        let effort = RunEffort { time: None, nodes: None, gap: 0.0, seed: 0 };
        let start = start.map(|device_of| model.start(device_of));
        let outcome = solve(model, start, effort, &never()).expect("HiGHS takes the model");
        let found = outcome.chosen.clone().map(|chosen| covers(problem, units, &chosen.into()));
        match found {
            Some(found) if !found.is_empty() => known.extend(found),
            _ => return outcome,
        }
    }
}

fn solve_whole(solver: &dyn Solver, problem: &Problem, threads: usize, limits: Limits) -> Solution {
    let mut silent = Silent;
    let mut context = Context::new(Settings { limits, threads, ..Settings::default() }, &mut silent);
    solver.solve(problem, &mut context).expect("a problem within the capabilities")
}

#[test]
fn the_model_is_what_every_placement_says() {
    let (mut feasible, mut infeasible, mut convex) = (0, 0, 0);
    for number in 0..1000 {
        let problem = small(number);
        let Some(optimum) = optimum(&problem) else { continue };
        let units = Units::new(&problem);
        let Some(mut domains) = domains(&problem, &units) else {
            assert_eq!(optimum, None, "{number}");
            continue;
        };
        for told_apart in [false, true] {
            if told_apart {
                restrict(&problem, &leaders(&problem, &units), &mut domains);
            }
            let outcome = run(&problem, &units, &domains, None);
            let Some(optimum) = optimum else {
                assert_eq!(outcome.ending, Ending::Infeasible, "{number}");
                infeasible += 1;
                continue;
            };
            assert_eq!(outcome.ending, Ending::Optimal, "{number}");
            let bound = outcome.bound.expect("a bound");
            let device_of = outcome.chosen.expect("a plan").into();
            let evaluation = evaluate(&problem, &placement(&problem, &units, &device_of));
            assert!(evaluation.is_feasible(), "{number}: {:?}", evaluation.violations);
            assert!(bound <= optimum, "{number}: bound {bound} > {optimum}");
            let slack = 1e-5 * optimum.max(1e-3);
            assert!(bound >= optimum - slack, "{number}: bound {bound} < {optimum}");
            assert!(evaluation.value <= optimum + slack, "{number}: {} {optimum}", evaluation.value);
            feasible += 1;
            convex += u32::from(problem.objective().rules().split == Split::Convex);
        }
    }
    assert!(feasible > 300 && infeasible > 20 && convex > 80, "{feasible} {infeasible} {convex}");
}

#[test]
fn the_solver_agrees_with_brute_force_and_explains() {
    let (mut optimal, mut explained) = (0, 0);
    for number in 0..1000 {
        let problem = small(number);
        let Some(optimum) = optimum(&problem) else { continue };
        let solution = solve_whole(&Milp, &problem, 1, UNLIMITED);
        match optimum {
            None => {
                assert_eq!(solution.status, Status::Infeasible, "{number}: {:?}", solution.reason);
                assert!(solution.reason.is_some(), "{number}");
                explained += 1;
            }
            Some(optimum) => {
                let value = solution.value().expect("a plan");
                assert!(solution.bound.value <= optimum, "{number}: {} > {optimum}", solution.bound.value);
                assert!((value - optimum).abs() <= 3.0 * TOLERANCE * optimum, "{number}: {value} {optimum}");
                assert!(solution.gap().is_some_and(|gap| gap <= 3.0 * TOLERANCE), "{number}");
                optimal += 1;
            }
        }
    }
    assert!(optimal > 100 && explained > 10, "{optimal} {explained}");
}

/// No neighbourhood changes the loads of other devices: the claimed values agree with `evaluate`.
#[test]
fn large_neighbourhoods_never_lose_and_often_reach_the_optimum() {
    let (mut plans, mut reached) = (0, 0);
    for number in 0..30 {
        let problem = small(number);
        let Some(optimum) = optimum(&problem) else { continue };
        let (single, two) =
            (solve_whole(&Lns, &problem, 1, UNLIMITED), solve_whole(&Lns, &problem, 2, UNLIMITED));
        assert_eq!(single, two, "{number}");
        match (single.plan, optimum) {
            (Some(plan), Some(optimum)) => {
                assert!(evaluate(&problem, &plan.placement).is_feasible(), "{number}");
                assert!(single.bound.value <= optimum, "{number}");
                plans += 1;
                reached += u32::from(plan.value() <= optimum * (1.0 + 1e-9));
            }
            (Some(_), None) => panic!("{number}: a plan where there is none"),
            (None, _) => {}
        }
    }
    assert!(plans > 10 && reached * 10 >= plans * 9, "{reached} of {plans}");
}

#[test]
fn no_time_still_gives_what_there_is() {
    let limits = Limits { time: Some(Duration::ZERO), ..UNLIMITED };
    for number in 0..40 {
        let problem = small(number);
        for solver in [&Milp as &dyn Solver, &Lns] {
            let given = solve_whole(solver, &problem, 1, UNLIMITED).plan.map(|plan| plan.placement);
            let mut silent = Silent;
            let mut context = Context::new(limits, &mut silent);
            context.warm_start = given.clone();
            let solution = solver.solve(&problem, &mut context).expect("an answer");
            assert_eq!(solution.plan.is_some(), given.is_some(), "{number}: the warm start is lost");
        }
    }
}

/// Profiles mark forbidden choices by absurd times; HiGHS rejects coefficients of that size.
#[test]
fn absurd_costs_switch_nothing_off() {
    let mut solved = 0;
    for number in 0..80 {
        let plain = small(number);
        let mut document = plain.graph().document().clone();
        for (index, operator) in document.operators.iter_mut().enumerate() {
            if (number + index as u64).is_multiple_of(3) && operator.seconds.len() > 1 {
                operator.seconds.values_mut().take(1).for_each(|seconds| *seconds = 1e16);
            }
        }
        let graph = Graph::from_document(document).expect("a valid graph");
        let problem =
            Problem::new(graph, plain.cluster().clone(), *plain.objective()).expect("a valid problem");
        let Some(Some(optimum)) = optimum(&problem) else { continue };
        if optimum >= 1e15 {
            continue;
        }
        let solution = solve_whole(&Milp, &problem, 1, UNLIMITED);
        let value = solution.value().expect("a plan");
        assert!(solution.bound.value <= optimum, "{number}: {} > {optimum}", solution.bound.value);
        assert!((value - optimum).abs() <= 3.0 * TOLERANCE * optimum, "{number}: {value} {optimum}");
        solved += 1;
    }
    assert!(solved > 30, "{solved}");
}

/// Two units exceed the memory by less than HiGHS's default tolerance for rows: no plan has both on one device.
#[test]
fn memory_is_as_tight_as_the_evaluation_has_it() {
    let mut builder = GraphBuilder::new("tight");
    for (name, bytes) in [("a", 0.5 + 1e-7), ("b", 0.5), ("c", 0.4), ("d", 0.4)] {
        builder.operator(OperatorDocument {
            seconds: [("acc".to_string(), 1.0)].into(),
            parameter_bytes: 1e9 * bytes,
            ..OperatorDocument::named(name)
        });
    }
    // Separating the first two units costs as much as all compute of a device.
    builder.timed_tensor(TensorDocument {
        name: None,
        producer: "a".into(),
        consumers: vec!["b".into()],
        bytes: 0.0,
        seconds: [("acc".to_string(), 2.0)].into(),
    });
    let kind = KindDocument {
        reserve_bytes: None,
        name: "acc".into(),
        class: "acc".into(),
        count: 2,
        host: false,
        memory_bytes: Some(1e9),
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
    let cluster = Cluster::from_document(cluster).expect("a valid cluster");
    let objective = Throughput { split: Split::Free, ..Throughput::default() };
    let graph = builder.build().expect("a valid graph");
    let problem = Problem::new(graph, cluster, objective).expect("a valid problem");
    let optimum = optimum(&problem).flatten().expect("a plan");
    let solution = solve_whole(&Milp, &problem, 1, UNLIMITED);
    assert!(solution.value().is_some_and(|value| (value - optimum).abs() < 1e-9), "{solution:?}");
    assert!(solution.gap().is_some_and(|gap| gap <= 3.0 * TOLERANCE), "{solution:?}");
}

#[test]
fn an_interrupt_ends_a_run_at_once() {
    let problem = support::problem(3, Size { operators: 40, devices: 6, groups: false }, Split::Free, false);
    let units = Units::new(&problem);
    let Some(domains) = domains(&problem, &units) else { panic!("some unit has no device") };
    let model = CutNetModel::new(&problem, &units, &domains, &[], NO_START, Minimise::All, &never());
    let model = model.expect("there is no limit");
    let effort = RunEffort { time: None, nodes: None, gap: 0.0, seed: 0 };
    let interrupted = Stop::new(None, Arc::new(AtomicBool::new(true)));
    let outcome = solve(model, None, effort, &interrupted).expect("an outcome");
    assert!(matches!(outcome.ending, Ending::Abandoned | Ending::Optimal), "{outcome:?}");
}

#[test]
fn renaming_devices_keeps_the_value() {
    let mut checked = 0;
    for number in 0..200 {
        let problem = small(number);
        let units = Units::new(&problem);
        let Some(domains) = domains(&problem, &units) else { continue };
        let device_of: Keyed<UnitId, DeviceId> =
            domains.iter().enumerate().map(|(index, domain)| domain[(7 * index) % domain.len()]).collect();
        let leaders = leaders(&problem, &units);
        let renamed = canonical(&problem, &leaders, &device_of);
        let value = |device_of| evaluate(&problem, &placement(&problem, &units, device_of));
        let (before, after) = (value(&device_of), value(&renamed));
        assert!((before.value - after.value).abs() <= 1e-12 * before.value.max(1.0), "{number}");
        assert_eq!(before.violations.len(), after.violations.len(), "{number}");
        let mut restricted = domains.clone();
        restrict(&problem, &leaders, &mut restricted);
        for (unit, domain) in restricted.enumerate() {
            assert!(domain.contains(&renamed[unit]), "{number}: {unit:?}");
        }
        checked += 1;
    }
    assert!(checked > 100, "{checked}");
}

#[test]
fn an_irreducible_set_has_nothing_superfluous() {
    let mut found = 0;
    for number in 0..300 {
        let problem = small(number);
        let units = Units::new(&problem);
        let Some(set) = irreducible(&problem, &units, &never()) else { continue };
        let fits = |chosen: &[UnitId]| {
            // Every assignment of the chosen units.
            let last = problem.cluster().devices().last().expect("a device");
            let mut choice = vec![DeviceId(0); chosen.len()];
            loop {
                let fit = problem.pools().iter().enumerate().all(|(pool, spec)| {
                    spec.devices.iter().all(|device| {
                        let here = chosen
                            .iter()
                            .zip(&choice)
                            .filter(|(_, own)| *own == device)
                            .map(|(&unit, _)| unit);
                        let bytes: f64 = here.clone().map(|unit| units.bytes(unit, 1)).sum();
                        bytes <= spec.memory * (1.0 + 1e-9)
                            && here.into_iter().all(|unit| units.supported(unit, pool))
                    })
                });
                if fit {
                    return true;
                }
                let Some(position) = choice.iter().position(|&device| device < last) else { return false };
                choice[position].0 += 1;
                choice[..position].fill(DeviceId(0));
            }
        };
        assert!(!fits(&set), "{number}: {set:?} fits");
        for without in 0..set.len() {
            let mut fewer = set.clone();
            fewer.remove(without);
            assert!(fits(&fewer), "{number}: {set:?} is not irreducible");
        }
        found += 1;
    }
    assert!(found > 20, "{found}");
}
