//! Requirements on plans and second goals agree with brute force, and plans that claim them falsely are refused.

use rand::RngExt;
use stagewright::portfolio::auto;
use stagewright::report::document::{Provenance, plan_document};
use stagewright::selection::{self, Requirements, Second, Selected, Selection, measured, shortfall};
use stagewright_core::document::{ObjectiveKind, PlanDocument, Schedule, SecondGoal, Split};
use stagewright_core::evaluate::Evaluation;
use stagewright_core::graph::OpId;
use stagewright_core::objective::{Objective, Throughput};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Limits, Silent, Status};
use stagewright_core::tolerance::{VALUE_RELATIVE, same};
use stagewright_testing::brute_force::least;
use stagewright_testing::random::{self, Size};
use stagewright_verify::{Report, Verdict, check};

const SIZE: Size = Size { operators: 5, devices: 3, groups: true };
const GOALS: [SecondGoal; 3] = [SecondGoal::Memory, SecondGoal::Devices, SecondGoal::Communication];

/// A random problem under one of several objectives.
fn problem(number: u64) -> Problem {
    let problem = random::problem(number, SIZE);
    // Relaxations of schedules have no document.
    let mut rules = problem.objective().rules();
    if rules.is_bottleneck {
        rules = Throughput { is_bottleneck: false, schedule: Schedule::None, microbatches: 1, ..rules };
    }
    let without_order = |split| Throughput { split, schedule: Schedule::None, microbatches: 1, ..rules };
    let other: Objective = match number % 6 {
        3 => without_order(Split::Free).into(),
        4 => without_order(Split::Convex).into(),
        5 if number.is_multiple_of(4) => ObjectiveKind::Latency.into(),
        5 => ObjectiveKind::Makespan.into(),
        _ => rules.into(),
    };
    problem.with_objective(other).unwrap_or(problem)
}

/// Random requirements and a random second goal; at least one of them.
fn selection(problem: &Problem, number: u64) -> Selection {
    let mut rng = seed::stream(0x5E1E, number);
    let graph = problem.graph();
    let mut requirements = Requirements::default();
    // Stages that are alone have no replicas.
    let is_single = problem.objective().rules().max_replicas == 1;
    match rng.random_range(0..5) {
        0 => requirements.stages = Some(rng.random_range(1..=4)),
        1 => requirements.all_devices = true,
        2 if is_single => {
            let op = OpId::new(rng.random_range(0..graph.operator_count()));
            requirements.alone = vec![graph.class(graph.class_of(op)).to_vec()];
        }
        3 => {
            requirements.stages = Some(rng.random_range(1..=3));
            if is_single {
                requirements.alone = vec![graph.class(graph.class_of(OpId::new(0))).to_vec()];
            }
        }
        _ => {}
    }
    let within = [0.0, 0.01, 0.5][rng.random_range(0..3)];
    let second = (requirements.is_empty() || rng.random_bool(0.5))
        .then(|| Second { goal: GOALS[rng.random_range(0..3)], within });
    Selection { requirements, second }
}

fn solve(problem: &Problem, selection: &Selection) -> Selected {
    let mut silent = Silent;
    let mut context = Context::new(Limits { time: None, ..Limits::default() }, &mut silent);
    let solver = auto(problem.objective()).expect("a solver").solver;
    selection::solve(problem, selection, solver, &mut context).expect("a solution")
}

/// Whether a plan meets the requirements, derived anew.
fn meets(problem: &Problem, required: &Requirements, placement: &Placement, evaluation: &Evaluation) -> bool {
    let is_alone = |group: &Vec<OpId>| {
        let device = placement.device_of(group[0]);
        problem.graph().operators().all(|op| (placement.device_of(op) == device) == group.contains(&op))
    };
    shortfall(problem, required, evaluation) == 0 && required.alone.iter().all(is_alone)
}

/// Over all plans that meet the requirements: the least value, and the least second goal within its share, with the least value
/// of the plans that have it.
fn brute(problem: &Problem, selection: &Selection) -> Option<(f64, Option<(f64, f64)>)> {
    let mut plans: Vec<(f64, f64)> = Vec::new();
    let _ = least(problem, &mut |placement, evaluation| {
        if meets(problem, &selection.requirements, placement, evaluation) {
            let goal = selection.second.map_or(0.0, |second| measured(problem, second.goal, evaluation));
            plans.push((evaluation.value, goal));
        }
        f64::INFINITY
    });
    let value = plans.iter().map(|plan| plan.0).min_by(f64::total_cmp)?;
    let second = selection.second.map(|second| {
        let limit = value * (1.0 + second.within) * (1.0 + VALUE_RELATIVE);
        let within = || plans.iter().filter(|plan| plan.0 <= limit);
        let goal = within().map(|plan| plan.1).fold(f64::INFINITY, f64::min);
        let equal = within().filter(|plan| plan.1 <= goal * (1.0 + VALUE_RELATIVE));
        (goal, equal.map(|plan| plan.0).fold(f64::INFINITY, f64::min))
    });
    Some((value, second))
}

fn document(problem: &Problem, selection: &Selection, found: &Selected) -> PlanDocument {
    let provenance = Provenance { solver: "auto".into(), seconds: 0.0, seed: 0 };
    let mut plan = plan_document(problem, &found.solution, provenance);
    plan.requirements = selection::requirements(problem.graph(), &selection.requirements);
    let second = selection.second.zip(found.second);
    plan.second_goal = second.map(|(second, found)| selection::second_goal(second, found));
    plan
}

fn checked(problem: &Problem, plan: &PlanDocument) -> Report {
    check(problem.graph().document(), problem.cluster().document(), None, plan).expect("a report")
}

/// Whether the search for this problem is exhaustive.
fn is_decided(problem: &Problem) -> bool {
    let rules = problem.objective().rules();
    problem.objective().kind() == ObjectiveKind::Throughput
        && rules.schedule == Schedule::None
        && rules.max_replicas == 1
}

#[test]
fn selections_agree_with_brute_force() {
    let (mut decided, mut infeasible, mut with_second, mut again_decided) = (0, 0, 0, 0);
    for number in 0..500 {
        let problem = problem(number);
        let selection = selection(&problem, number);
        let found = solve(&problem, &selection);
        let plan = document(&problem, &selection, &found);
        let report = checked(&problem, &plan);
        assert!(report.holds(), "{number}: {:?}", report.violations);
        if let Some(plan) = &found.solution.plan {
            assert!(meets(&problem, &selection.requirements, &plan.placement, &plan.evaluation), "{number}");
        }
        if problem.objective().kind() != ObjectiveKind::Throughput {
            continue;
        }
        let Some((value, goal)) = brute(&problem, &selection) else {
            assert!(found.solution.plan.is_none(), "{number}");
            assert!(!is_decided(&problem) || found.solution.status == Status::Infeasible, "{number}");
            infeasible += 1;
            continue;
        };
        assert_ne!(found.solution.status, Status::Infeasible, "{number}");
        assert!(found.solution.bound.value <= value * (1.0 + 1e-9), "{number}");
        let best = found.second.map(|second| second.best).or(found.solution.value());
        assert!(best.is_none_or(|best| best >= value * (1.0 - 1e-9)), "{number}");
        if let (Some(second), Some((goal, again)), Some(best)) = (found.second, goal, best)
            && same(best, value)
        {
            assert!(second.bound <= goal * (1.0 + 1e-9), "{number}: {second:?}, {goal}");
            assert!(second.value >= goal * (1.0 - 1e-9), "{number}: {second:?}, {goal}");
            assert!(
                !is_decided(&problem) || same(second.value, goal) || goal == 0.0,
                "{number}: {second:?}, {goal}"
            );
            let chosen = found.solution.value().expect("a plan");
            if same(second.value, goal) || goal == 0.0 && second.value == 0.0 {
                assert!(chosen >= again * (1.0 - 1e-9), "{number}: {chosen}, {again}");
                let is_least = same(chosen, again) || again == 0.0;
                assert!(!is_decided(&problem) || is_least, "{number}: {second:?}, {chosen}, {again}");
                again_decided += u32::from(is_decided(&problem) && !same(again, value));
            }
            with_second += 1;
        }
        if is_decided(&problem) {
            assert!(
                best.is_some_and(|best| same(best, value) || value == 0.0),
                "{number}: {best:?}, {value}"
            );
            decided += 1;
        }
    }
    assert!(decided > 120 && infeasible > 20 && with_second > 100, "{decided} {infeasible} {with_second}");
    assert!(again_decided > 4, "{again_decided}");
}

#[test]
fn false_claims_are_refused() {
    let mut refused = [0; 5];
    for number in 0..60 {
        let problem = problem(6 * number);
        let second = Some(Second { goal: GOALS[number as usize % 3], within: 0.1 });
        let selection = Selection { requirements: Requirements::default(), second };
        let found = solve(&problem, &selection);
        let plan = document(&problem, &selection, &found);
        let (Some(claimed), false) = (plan.second_goal.clone(), plan.devices.is_empty()) else { continue };
        let report = checked(&problem, &plan);
        assert!(
            report.holds() && report.second_goal == Some(Verdict::NotVerified),
            "{:?}",
            report.violations
        );
        let forged = |index: usize, change: &dyn Fn(&mut PlanDocument), refused: &mut [u32; 5]| {
            let mut forged = plan.clone();
            change(&mut forged);
            if forged != plan {
                assert!(!checked(&problem, &forged).holds(), "{number}, {index}: {forged:?}");
                refused[index] += 1;
            }
        };
        let goal = |value: f64, plan: &mut PlanDocument| {
            let second = stagewright_core::document::SecondGoalDocument {
                value,
                gap: 0.0,
                bound: value,
                ..claimed.clone()
            };
            plan.second_goal = Some(second);
        };
        forged(0, &|plan| goal(claimed.value + 1.0, plan), &mut refused);
        forged(1, &|plan| plan.second_goal.as_mut().expect("a second goal").best_s *= 0.5, &mut refused);
        let stages = plan.devices.len() as u32 + 1;
        forged(2, &|plan| plan.requirements.get_or_insert_default().stages = Some(stages), &mut refused);
        let device = plan.devices.iter().find(|device| device.ops.len() > 1);
        if let Some(device) = device {
            let alone = vec![vec![device.ops[0].clone()]];
            forged(3, &|plan| plan.requirements.get_or_insert_default().alone = alone.clone(), &mut refused);
        }
        let absent = vec![vec!["no such operator".to_owned()]];
        forged(4, &|plan| plan.requirements.get_or_insert_default().alone = absent.clone(), &mut refused);
    }
    assert!(refused.iter().all(|&count| count > 10), "{refused:?}");
}
