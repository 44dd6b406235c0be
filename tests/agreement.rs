//! Agreement between solvers and the independent checker: every plan on random small problems passes `check`, with the
//! figures of the plan document, after a round trip through JSON.

use stagewright_testing::random;
use stagewright_testing::training;

use rand::seq::SliceRandom;
use rand::{Rng, RngExt};
use random::{Size, problem};
use stagewright::report::document::{Provenance, plan_document};
use stagewright_core::bound::LowerBound;
use stagewright_core::cluster::DeviceId;
use stagewright_core::document::{PlanDocument, Schedule, Training};
use stagewright_core::evaluate::{Violation, evaluate};
use stagewright_core::objective::Throughput;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Limits, Plan, Silent, Solution, Solver, Status};
use stagewright_dp::Dp;
use stagewright_search::{Dpl, OneDevice, PipeDream};
use stagewright_verify::{BoundVerdict, check};

#[test]
fn every_plan_passes_the_checker() {
    let solvers: [&dyn Solver; 4] = [&Dp, &Dpl, &PipeDream, &OneDevice];
    let mut plans = 0;
    for number in 0..1000 {
        let size = Size { operators: 7, devices: 5, groups: number % 2 == 0 };
        let problem = stated(problem(number, size));
        for solver in solvers {
            let mut silent = Silent;
            let mut context = Context::new(Limits { time: None, ..Limits::default() }, &mut silent);
            let solution = solver.solve(&problem, &mut context).expect("a contiguous problem");
            let provenance = Provenance { solver: solver.name().into(), seconds: 0.0, seed: 0 };
            let written =
                serde_json::to_string(&plan_document(&problem, &solution, provenance)).expect("JSON");
            let plan: PlanDocument = serde_json::from_str(&written).expect("the same document");
            let report = check(problem.graph().document(), problem.cluster().document(), None, &plan)
                .unwrap_or_else(|error| panic!("{number} {}: {error}", solver.name()));
            assert!(report.violations.is_empty(), "{number} {}: {:?}", solver.name(), report.violations);
            assert!(!matches!(report.bound, BoundVerdict::Refuted { .. }), "{number} {}", solver.name());
            if solution.status != Status::Infeasible && solution.plan.is_some() {
                assert!(report.value_s.is_some(), "{number} {}", solver.name());
                plans += 1;
            }
        }
    }
    assert!(plans > 1500, "only {plans} plans");
}

/// Checks the iteration time of every schedule, and the deferred weight gradients and memory of zero-bubble.
#[test]
fn iterations_pass_the_checker() {
    let schedules = [Schedule::GPipe, Schedule::OneFOneB, Schedule::ZeroBubble];
    let mut plans = [0; 3];
    for number in 0..450 {
        let index = number as usize % 3;
        let problem = training::training(number, schedules[index], 7, 5);
        let placement = arbitrary_placement(&problem, &mut seed::stream(0xBEEF, number));
        let mut silent = Silent;
        let mut context = Context::new(Limits { time: None, ..Limits::default() }, &mut silent);
        let planned = Dpl.solve(&problem, &mut context).expect("a contiguous problem");
        let arbitrary = Plan::try_new(&problem, placement).ok();
        let arbitrary = arbitrary.map(|plan| Solution::with_plan("none", plan, LowerBound::TRIVIAL, None));
        for solution in arbitrary.into_iter().chain([planned]) {
            let provenance = Provenance { solver: "none".into(), seconds: 0.0, seed: 0 };
            let plan = plan_document(&problem, &solution, provenance);
            let report = check(problem.graph().document(), problem.cluster().document(), None, &plan)
                .unwrap_or_else(|error| panic!("{number}: {error}"));
            assert!(report.violations.is_empty(), "{number}: {:?}", report.violations);
            let is_zero_bubble = problem.objective().rules().schedule == Schedule::ZeroBubble;
            let is_asked = index != 2 || is_zero_bubble;
            plans[index] += u32::from(solution.plan.is_some() && is_asked);
        }
    }
    assert!(plans.iter().all(|&plans| plans > 60), "{plans:?}");
}

/// `evaluate` and the checker agree on feasibility for every placement, whatever its origin.
#[test]
fn any_placement_is_feasible_for_both_or_neither() {
    let (mut feasible, mut replicated, mut pools) = (0, 0, 0);
    for number in 0..42_000 {
        let problem = stated(problem(number, Size { operators: 4, devices: 4, groups: false }));
        let placement = arbitrary_placement(&problem, &mut seed::stream(0xF00D, number));
        let evaluation = evaluate(&problem, &placement);
        let core = evaluation.is_feasible();
        replicated += u32::from(core && evaluation.devices.iter().any(|device| device.replicas > 1));
        pools += u32::from(matches!(evaluation.violations[..], [Violation::Pool { .. }]));
        feasible += u32::from(core);
        let plan = Plan { placement, evaluation };
        let solution = Solution::with_plan("none", plan, LowerBound::TRIVIAL, None);
        let provenance = Provenance { solver: "none".into(), seconds: 0.0, seed: 0 };
        let plan = plan_document(&problem, &solution, provenance);
        let report = check(problem.graph().document(), problem.cluster().document(), None, &plan)
            .unwrap_or_else(|error| panic!("{number}: {error}"));
        let broken = report.violations.iter().find(|violation| violation.kind.breaks_feasibility());
        assert_eq!(core, broken.is_none(), "{number}: {:?} {broken:?}", solution.plan);
        if core {
            assert!(report.violations.is_empty(), "{number}: {:?}", report.violations);
        }
    }
    let enough = feasible > 2_000 && replicated > 20 && pools > 20;
    assert!(enough, "{feasible} feasible, {replicated} with replicas, {pools} for their pools alone");
}

/// The problem with an objective that a document can state: under a schedule, the value is the iteration time.
fn stated(problem: Problem) -> Problem {
    let objective = *problem.objective();
    if !objective.rules().is_bottleneck {
        return problem;
    }
    let objective = Throughput { is_bottleneck: false, training: Training::Combined, ..objective.rules() };
    problem.with_objective(objective).expect("the same problem under its schedule")
}

/// A placement of classes on random devices, with the devices in random order and some of them with 0 to 3 replicas.
fn arbitrary_placement(problem: &Problem, rng: &mut impl Rng) -> Placement {
    let (graph, devices) = (problem.graph(), problem.cluster().device_count() as u32);
    // Only a few devices, so that many placements are feasible.
    let few: Vec<u32> = (0..rng.random_range(1..=2)).map(|_| rng.random_range(0..devices)).collect();
    let of_class: Vec<DeviceId> =
        (0..graph.class_count()).map(|_| DeviceId(few[rng.random_range(0..few.len())])).collect();
    let device_of: Vec<DeviceId> = graph.operators().map(|op| of_class[graph.class_of(op).index()]).collect();
    let mut stages = device_of.clone();
    stages.sort_unstable();
    stages.dedup();
    stages.shuffle(rng);
    let mut replicas = std::collections::BTreeMap::new();
    for &stage in &stages {
        if rng.random_bool(0.3) {
            let max_replicas = problem.objective().rules().max_replicas;
            replicas.insert(stage, if rng.random_bool(0.9) { max_replicas } else { rng.random_range(0..=3) });
        }
    }
    Placement::with_stages(device_of, stages, replicas)
}

/// Merging classes must not admit a split that the constraints of the original classes forbid.
#[test]
fn every_pipedream_split_is_feasible() {
    let mut plans = 0;
    for number in 0..20_000 {
        let problem = problem(number, Size { operators: 8, devices: 4, groups: false });
        let mut silent = Silent;
        let mut context = Context::new(Limits { time: None, ..Limits::default() }, &mut silent);
        let solution = PipeDream.solve(&problem, &mut context).unwrap_or_else(|e| panic!("{number}: {e}"));
        if let Some(plan) = &solution.plan {
            assert!(evaluate(&problem, &plan.placement).is_feasible(), "{number}");
            plans += 1;
        }
    }
    assert!(plans > 5_000, "only {plans} plans");
}
