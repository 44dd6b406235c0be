//! The policy as a solver: for any network, plans are feasible, have the value that their evaluation gives, and are
//! never worse than the floor; results do not depend on the number of threads; empty and single-operator problems work.

use crate::support;

use std::time::Duration;

use candle_core::{DType, Device};
use stagewright_core::document::ObjectiveKind;
use stagewright_core::evaluate::evaluate;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Settings, Silent, Solution, Solver, Status};
use stagewright_core::tolerance::same;
use stagewright_makespan::HEFT;
use stagewright_policy::network::Config;
use stagewright_policy::{Origin, Parts, Policy};
use stagewright_search::Dpl;
use stagewright_testing::learning::{empty, split, step};
use support::{random_network, small};

const UNLIMITED: Limits = Limits { time: None, memory: None, gap: 0.0, simulations: None };
const QUICK: Limits =
    Limits { time: Some(Duration::from_millis(150)), memory: None, gap: 0.0, simulations: None };

fn policy(parts: Parts) -> Policy {
    let network = random_network(small(), 11, DType::F32, &Device::Cpu);
    Policy::new("policy", "a test", Origin::Network(Box::new(network)), parts)
}

fn solve(solver: &dyn Solver, problem: &Problem, limits: Limits, threads: usize) -> Solution {
    let mut silent = Silent;
    let mut context = Context::new(Settings { limits, threads, seed: 3, ..Settings::default() }, &mut silent);
    solver.solve(problem, &mut context).unwrap_or_else(|error| panic!("{}: {error}", solver.name()))
}

fn assert_sound(problem: &Problem, solution: &Solution, number: u64) -> Option<f64> {
    let plan = solution.plan.as_ref()?;
    let evaluation = evaluate(problem, &plan.placement);
    assert!(evaluation.violations.is_empty(), "{number}: {:?}", evaluation.violations);
    assert!(same(evaluation.value, plan.value()), "{number}");
    assert!(solution.bound.value <= plan.value() * (1.0 + 1e-9), "{number}");
    Some(plan.value())
}

/// The first step for which a list schedule finds a plan.
fn feasible(operators: usize, devices: u32) -> Problem {
    let has_plan = |problem: &Problem| solve(&HEFT, problem, UNLIMITED, 1).plan.is_some();
    (0..).map(|number| step(number, operators, devices)).find(has_plan).expect("there are many")
}

#[test]
fn plans_are_feasible_and_no_worse_than_the_floor() {
    let policy = policy(Parts::ALL);
    let mut plans = 0;
    for number in 0..60 {
        let (problem, floor): (Problem, &dyn Solver) = match number % 2 {
            0 => (step(number, 4 + number as usize % 20, 1 + number as u32 % 4), &HEFT),
            _ => (split(number, 4 + number as usize % 12, 1 + number as u32 % 4), &Dpl),
        };
        let solution = solve(&policy, &problem, QUICK, 1);
        let value = assert_sound(&problem, &solution, number);
        let floor = solve(floor, &problem, UNLIMITED, 1);
        if let (Some(value), Some(floor), 0) = (value, floor.value(), number % 2) {
            assert!(value <= floor * (1.0 + 1e-9), "{number}: {value} and {floor}");
        }
        assert!(value.is_some() || floor.plan.is_none(), "{number}: {:?}", solution.reason);
        plans += usize::from(value.is_some());
    }
    assert!(plans >= 25, "{plans} of 60");
}

#[test]
fn the_network_alone_makes_plans_too() {
    let alone = policy(Parts { floor: false, draws: 1, search: false });
    let mut plans = 0;
    for number in 0..30 {
        let problem = match number % 2 {
            0 => step(number, 12, 3),
            _ => split(number, 10, 3),
        };
        plans +=
            usize::from(assert_sound(&problem, &solve(&alone, &problem, UNLIMITED, 1), number).is_some());
    }
    assert!(plans >= 10, "{plans} of 30");
}

#[test]
fn the_same_whatever_the_threads() {
    let policy = policy(Parts::ALL);
    for (number, problem) in [step(2, 18, 3), step(4, 25, 4), split(3, 14, 3)].iter().enumerate() {
        let placements: Vec<_> = [1, 2, 3]
            .map(|threads| solve(&policy, problem, UNLIMITED, threads).plan.map(|plan| plan.placement))
            .into();
        assert!(placements.iter().all(|placement| *placement == placements[0]), "{number}");
    }
}

#[test]
fn one_checkpoint_serves_any_number_of_devices() {
    let policy = policy(Parts { search: false, ..Parts::ALL });
    for devices in [1, 2, 4, 8, 16] {
        let found = (0..20).any(|number| {
            let problem = step(number, 20, devices);
            assert_sound(&problem, &solve(&policy, &problem, UNLIMITED, 1), number).is_some()
        });
        assert!(found, "{devices} devices");
    }
}

#[test]
fn no_time_and_nothing_to_place() {
    let policy = policy(Parts::ALL);
    let none = Limits { time: Some(Duration::ZERO), ..UNLIMITED };
    let problem = feasible(12, 3);
    assert!(solve(&policy, &problem, none, 1).plan.is_some(), "a list schedule at least");
    for problem in
        [empty(ObjectiveKind::Makespan), empty(ObjectiveKind::Throughput), step(0, 1, 1), split(1, 1, 1)]
    {
        let solution = solve(&policy, &problem, QUICK, 1);
        assert!(solution.plan.is_some() || solution.status == Status::Infeasible, "{:?}", solution.reason);
    }
}

#[test]
fn a_network_of_absurd_numbers_is_an_error() {
    let network = random_network(small(), 11, DType::F32, &Device::Cpu);
    for var in network.weights().vars().values() {
        let numbers = vec![3e38f32; var.elem_count()];
        let huge = candle_core::Tensor::from_vec(numbers, var.dims(), &Device::Cpu).expect("a tensor");
        var.set(&huge).expect("alike");
    }
    let policy = Policy::new("policy", "a test", Origin::Network(Box::new(network)), Parts::ALL);
    let mut silent = Silent;
    let mut context = Context::new(UNLIMITED, &mut silent);
    let problem = (0..).map(|number| step(number, 12, 3)).find(|problem| {
        let floor = solve(&HEFT, problem, UNLIMITED, 1);
        floor.plan.is_some() && floor.status != Status::Optimal
    });
    let error = policy.solve(&problem.expect("there are many"), &mut context);
    assert!(error.is_err_and(|error| error.to_string().contains("not finite")));
}

#[test]
fn what_there_is_no_room_for_is_not_asked() {
    let policy = policy(Parts::ALL);
    let limits = Limits { memory: Some(1000), ..QUICK };
    let mut found = false;
    for number in 0..20 {
        let problem = step(number, 16, 3);
        let solution = solve(&policy, &problem, limits, 1);
        let reason = solution.reason.clone().unwrap_or_default();
        found |= solution.plan.is_some() && reason.contains("of memory");
    }
    assert!(found, "a plan without the network, saying so");
}

#[test]
fn without_a_network_it_is_the_floor_and_a_search() {
    let nothing = Policy::new("nothing", "a test", Origin::Nothing, Parts::ALL);
    let untrained = Policy::new("untrained", "a test", Origin::Untrained(1), Parts::ALL);
    let problem = feasible(16, 3);
    for policy in [nothing, untrained] {
        let solution = solve(&policy, &problem, QUICK, 1);
        assert!(assert_sound(&problem, &solution, 2).is_some());
    }
    assert!(Config::default().mistake().is_none());
}
