//! Local search on random small problems: its state against `evaluate`, its results against brute force.

use stagewright_testing::random;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rand::RngExt;
use random::Size;
use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::{Communication, Schedule, Split, Training};
use stagewright_core::evaluate::evaluate;
use stagewright_core::ids::Keyed;
use stagewright_core::objective::Throughput;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{
    Context, Event, Limits, Observer, Plan, Settings, Silent, Solution, Solver, Status, Stop, StopReason,
};
use stagewright_core::tolerance::{self, same};
use stagewright_search::dpl::{OrderEffort, best_over_orders};
use stagewright_search::local::{Assignment, GroupId, polish};
use stagewright_search::{Dpl, Local};

/// The free split of a random problem.
fn problem(number: u64, size: Size) -> Problem {
    let problem = random::problem(number, size);
    let schedule = Schedule::None;
    let objective =
        Throughput { split: Split::Free, schedule, microbatches: 1, ..problem.objective().rules() };
    problem.with_objective(objective).expect("a valid objective")
}

fn small(number: u64) -> Problem {
    problem(number, Size { operators: 6, devices: 4, groups: number.is_multiple_of(2) })
}

fn large(number: u64) -> Problem {
    problem(number, Size { operators: 16, devices: 6, groups: number.is_multiple_of(2) })
}

fn solve(problem: &Problem, threads: usize, limits: Limits, observer: &mut dyn Observer) -> Solution {
    let mut context = Context::new(Settings { limits, threads, seed: 7, ..Settings::default() }, observer);
    Local.solve(problem, &mut context).expect("a free problem")
}

const UNLIMITED: Limits = Limits { time: None, memory: None, gap: 0.0, simulations: None };

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * (1.0 + a.abs().max(b.abs()))
}

/// Compares every value of the state with `evaluate` on its placement.
fn check_state(assignment: &Assignment<'_>, number: u64) {
    let evaluation = evaluate(assignment.problem(), &assignment.placement());
    let passes = assignment.units().passes();
    assert!(
        close(assignment.value(), evaluation.value),
        "{number}: {} {}",
        assignment.value(),
        evaluation.value
    );
    let mut used = Keyed::filled(false, assignment.devices());
    for load in &evaluation.devices {
        let device = load.device;
        used[device] = true;
        for pass in 0..passes {
            assert!(close(assignment.load(device, pass), load.pass_loads[pass]), "{number}");
        }
        // For graphs of version 2, the sums are bounds.
        let (least, needed) = (assignment.least_bytes(device), load.memory_bytes);
        assert!(least <= needed * (1.0 + 1e-9), "{number}: {least} {needed}");
        assert!(!assignment.units().bytes_are_sums() || close(least, needed), "{number}: {least} {needed}");
        assert_eq!(assignment.fits(device), tolerance::fits(needed, assignment.memory(device)), "{number}");
    }
    for device in used.ids().filter(|&device| !used[device]) {
        assert!((0..passes).all(|pass| close(assignment.load(device, pass), 0.0)), "{number}");
        assert!(close(assignment.least_bytes(device), 0.0), "{number}");
    }
    for (group, uplink) in (0..).map(GroupId).zip(&evaluation.uplinks) {
        assert!((0..passes).all(|pass| close(assignment.uplink(group, pass), uplink[pass])), "{number}");
    }
    assert_eq!(assignment.supported() && assignment.all_fit(), evaluation.is_feasible(), "{number}");
}

#[test]
fn the_state_is_what_evaluate_says_after_any_moves() {
    let mut modes = std::collections::BTreeSet::new();
    for number in 0..1000 {
        let problem = large(number);
        let units = Units::new(&problem);
        let mut rng = seed::stream(number, 1);
        let devices = problem.cluster().device_count();
        if devices < 2 {
            continue;
        }
        let objective = problem.objective();
        let (communication, training) = (objective.rules().communication, objective.rules().training);
        modes.insert((
            [Communication::Serial, Communication::Overlap, Communication::Duplex]
                .iter()
                .position(|&mode| mode == communication),
            training == Training::Separate,
            problem.pools().iter().any(|pool| pool.host),
            problem.pools().iter().any(|pool| pool.group.is_some()),
        ));
        let start = (0..units.len()).map(|_| DeviceId::new(rng.random_range(0..devices))).collect();
        let mut assignment = Assignment::new(&problem, &units, start);
        check_state(&assignment, number);
        for step in 0..2000 {
            let unit = UnitId::new(rng.random_range(0..units.len()));
            let from = assignment.device_of(unit);
            let to = DeviceId::new(rng.random_range(0..devices));
            if to == from {
                continue;
            }
            let delta = assignment.delta(unit, to);
            let foreseen: Vec<f64> = [(from, delta.from), (to, delta.to)]
                .iter()
                .flat_map(|(device, change)| (0..2).map(|pass| assignment.load_after(*device, pass, change)))
                .collect();
            assignment.apply(unit, to);
            let seen =
                [from, to].map(|device| [assignment.load(device, 0), assignment.load(device, 1)]).concat();
            assert!(
                foreseen.iter().zip(&seen).all(|(&a, &b)| close(a, b)),
                "{number}: {foreseen:?} {seen:?}"
            );
            if step % 50 == 0 {
                check_state(&assignment, number);
            }
        }
        check_state(&assignment, number);
    }
    // Three modes of communication, two of training, with and without hosts and groups.
    assert!(modes.len() >= 20, "only {} kinds of problem", modes.len());
}

/// The minimum value over every assignment of classes to devices, without replicas.
fn optimum(problem: &Problem) -> Option<f64> {
    let graph = problem.graph();
    let devices = problem.cluster().device_count();
    let mut choice = Keyed::filled(DeviceId(0), graph.class_count());
    let mut best: Option<f64> = None;
    loop {
        let placement = Placement::new(graph.operators().map(|op| choice[graph.class_of(op)]).collect());
        let evaluation = evaluate(problem, &placement);
        if evaluation.is_feasible() && best.is_none_or(|best| evaluation.value < best) {
            best = Some(evaluation.value);
        }
        let Some(position) = choice.iter().position(|device| device.index() + 1 < devices) else {
            return best;
        };
        choice.as_mut_slice()[position].0 += 1;
        choice.as_mut_slice()[..position].fill(DeviceId(0));
    }
}

#[test]
fn local_search_against_brute_force() {
    let (mut reached, mut missed, mut unfound, mut infeasible) = (0, 0, 0, 0);
    for number in 0..1000 {
        let problem = small(number);
        if (problem.cluster().device_count() as f64).powi(problem.graph().class_count() as i32) > 20_000.0 {
            continue;
        }
        let solution = solve(&problem, 1, UNLIMITED, &mut Silent);
        let best = optimum(&problem);
        match (best, &solution.plan) {
            (Some(best), Some(plan)) => {
                assert!(evaluate(&problem, &plan.placement).is_feasible(), "{number}");
                assert!(plan.value() >= best * (1.0 - 1e-12), "{number}: below the optimum");
                assert!(solution.bound.value <= best, "{number}: bound above the optimum");
                if same(plan.value(), best) { reached += 1 } else { missed += 1 }
            }
            (Some(_), None) => {
                assert_eq!(solution.status, Status::Unknown, "{number}");
                unfound += 1;
            }
            (None, None) => {
                assert!(matches!(solution.status, Status::Infeasible | Status::Unknown), "{number}");
                infeasible += 1;
            }
            (None, Some(_)) => panic!("{number}: a plan where brute force finds none"),
        }
        if solution.plan.is_none() {
            assert!(solution.reason.is_some_and(|reason| !reason.is_empty()), "{number}");
        }
    }
    assert!(reached > 200 && infeasible > 30, "{reached} reached, {infeasible} infeasible");
    assert!(missed * 50 <= reached && unfound * 50 <= reached, "{missed} missed, {unfound} not found");
}

#[test]
fn never_worse_than_the_contiguous_seed() {
    let mut better = 0;
    for number in 0..40 {
        let problem = large(number);
        let solution = solve(&problem, 1, UNLIMITED, &mut Silent);
        let objective =
            Throughput { split: Split::Contiguous, max_replicas: 1, ..problem.objective().rules() };
        let contiguous = problem.with_objective(objective).expect("a valid objective");
        let mut silent = Silent;
        let mut context = Context::new(UNLIMITED, &mut silent);
        let seed = Dpl.solve(&contiguous, &mut context).expect("a contiguous problem");
        let plain = best_over_orders(&contiguous, &Units::new(&contiguous), OrderEffort::Plain, &mut context)
            .expect("an answer");
        if let Some(plain) = plain {
            let value = solution.value().expect("at least the seed");
            assert!(value <= plain.value() * (1.0 + 1e-12), "{number}: {value} {}", plain.value());
            better += u32::from(seed.value().is_some_and(|seed| value < seed * (1.0 - 1e-9)));
        }
    }
    assert!(better > 5, "better only {better} times");
}

#[test]
fn the_same_whatever_the_threads() {
    for number in 0..15 {
        let problem = large(number);
        let solution = solve(&problem, 1, UNLIMITED, &mut Silent);
        for threads in [1, 2] {
            let again = solve(&problem, threads, UNLIMITED, &mut Silent);
            assert_eq!(solution, again, "{number} with {threads} threads");
        }
    }
}

#[test]
fn no_time_loses_no_warm_start() {
    let mut warm = 0;
    for number in 0..40 {
        let problem = large(number);
        let Some(best) = solve(&problem, 1, UNLIMITED, &mut Silent).plan else { continue };
        let limits = Limits { time: Some(Duration::ZERO), ..UNLIMITED };
        let mut silent = Silent;
        let mut context = Context::new(limits, &mut silent);
        context.warm_start = Some(best.placement.clone());
        let solution = Local.solve(&problem, &mut context).expect("an answer");
        let value = solution.value().expect("the warm start");
        assert!(value <= best.value() * (1.0 + 1e-12), "{number}");
        assert!(solution.status == Status::Optimal || solution.stop == Some(StopReason::Time), "{number}");
        warm += 1;
    }
    assert!(warm > 20, "only {warm}");
}

/// Stops at the first incumbent.
struct Impatient {
    heard: Option<f64>,
}

impl Observer for Impatient {
    fn event(&mut self, event: &Event) -> ControlFlow<()> {
        match event {
            Event::Incumbent { value } => {
                assert!(self.heard.is_none_or(|heard| *value <= heard), "a worse incumbent");
                self.heard = Some(*value);
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

#[test]
fn an_interrupt_loses_nothing() {
    let mut interrupted = 0;
    for number in 0..100 {
        let problem = large(number);
        let mut observer = Impatient { heard: None };
        let solution = solve(&problem, 1, UNLIMITED, &mut observer);
        if let Some(heard) = observer.heard {
            let value = solution.value().expect("what was announced");
            assert!(value <= heard * (1.0 + 1e-12), "{number}: {value} after {heard}");
            let stopped = solution.stop == Some(StopReason::Interrupted);
            assert!(stopped || solution.status == Status::Optimal, "{number}");
            interrupted += u32::from(stopped);
        }
    }
    assert!(interrupted > 10, "only {interrupted}");
}

#[test]
fn polish_is_pure_and_never_worse() {
    let never = Stop::new(None, Arc::new(AtomicBool::new(false)));
    let (mut better, mut polished) = (0, 0);
    for number in 0..200 {
        let problem = large(number);
        let units = Units::new(&problem);
        let mut rng = seed::stream(number, 2);
        let devices = problem.cluster().device_count();
        let device_of = (0..units.len()).map(|_| DeviceId::new(rng.random_range(0..devices))).collect();
        let start = Assignment::new(&problem, &units, device_of).placement();
        let polish = |start: &Placement| polish(&problem, &units, start, (number, 5), 2000, &never);
        let Some(plan) = polish(&start) else { continue };
        assert_eq!(Some(&plan), polish(&start).as_ref(), "{number}");
        if let Ok(start) = Plan::new(&problem, start) {
            assert!(plan.value() <= start.value() * (1.0 + 1e-12), "{number}");
            better += u32::from(plan.value() < start.value());
        }
        polished += 1;
    }
    assert!(better > 10 && polished > 20, "{better} better of {polished}");
}

#[test]
fn what_cannot_run_is_infeasible_with_a_reason() {
    let mut reasons = std::collections::BTreeMap::new();
    for number in 0..600 {
        let problem = small(number);
        let limits = Limits { time: Some(Duration::ZERO), ..UNLIMITED };
        let solution = solve(&problem, 1, limits, &mut Silent);
        if solution.status == Status::Infeasible {
            let reason = solution.reason.expect("a reason");
            let kind = ["no device can run", "has memory for them", "all devices together"];
            let kind = kind.iter().find(|kind| reason.contains(*kind)).copied();
            *reasons.entry(kind.unwrap_or_else(|| panic!("{reason}"))).or_insert(0) += 1;
        }
    }
    assert_eq!(reasons.len(), 3, "{reasons:?}");
}
