//! Uncertain costs: the worst case and the robust plan, compared with an enumeration of placements and scenarios.

use rand::RngExt;
use stagewright_core::bound::LowerBound;
use stagewright_core::cluster::DeviceId;
use stagewright_core::document::Split;
use stagewright_core::evaluate::evaluate;
use stagewright_core::graph::Graph;
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{
    Context, Limits, Result, Settings, Silent, Solution, Solver, Status, StopReason,
};
use stagewright_core::uncertainty::{SourceId, Sources, Uncertainty, worst_case};
use stagewright_dp::Dp;
use stagewright_search::robust::{Robust, solve};
use stagewright_search::{Local, OneDevice};
use stagewright_testing::brute_force;
use stagewright_testing::random::{self, Size};

/// A random problem whose operators have up to four kinds or none; `None` if its objective has no worst case.
fn problem(number: u64, size: Size) -> Option<Problem> {
    let problem = random::problem(number, size);
    if Uncertainty::unsupported(problem.objective()).is_some() {
        return None;
    }
    let mut rng = seed::stream(0x0FF, number);
    let mut document = problem.graph().document().clone();
    for operator in &mut document.operators {
        operator.kind = match rng.random_range(0..5) {
            0 => None,
            kind => Some(format!("kind{kind}")),
        };
    }
    let graph = Graph::from_document(document).expect("a valid graph");
    let (cluster, pins) = (problem.cluster().clone(), problem.pins().clone());
    Some(Problem::pinned(graph, cluster, *problem.objective(), pins).expect("a valid problem"))
}

/// The largest value of a placement over all scenarios, each evaluated with its own costs.
fn enumerated(problem: &Problem, scenarios: &[Problem], placement: &Placement) -> f64 {
    let nominal = evaluate(problem, placement).value;
    scenarios.iter().map(|scenario| evaluate(scenario, placement).value).fold(nominal, f64::max)
}

/// The problem of every set of at most `budget` sources.
fn scenarios(problem: &Problem, uncertainty: Uncertainty) -> Vec<Problem> {
    let sources = Sources::new(problem.graph());
    (0..1u32 << sources.count())
        .filter(|set| set.count_ones() <= uncertainty.budget)
        .map(|set| {
            let is_off = |source: SourceId| set >> source.0 & 1 == 1;
            sources.scaled(problem, |source| if is_off(source) { 1.0 + uncertainty.deviation } else { 1.0 })
        })
        .collect()
}

fn uncertainty(number: u64) -> Uncertainty {
    Uncertainty { deviation: [0.1, 0.5, 0.9][number as usize % 3], budget: 1 + (number / 3 % 3) as u32 }
}

fn robust(problem: &Problem, uncertainty: Uncertainty, solver: &dyn Solver, threads: usize) -> Robust {
    with_context(Limits::default().memory, threads, |context| {
        solve(problem, uncertainty, solver, context).expect("a problem with a worst case")
    })
}

fn with_context<T>(memory: Option<u64>, threads: usize, work: impl FnOnce(&mut Context<'_>) -> T) -> T {
    let mut silent = Silent;
    let limits = Limits { time: None, memory, ..Limits::default() };
    work(&mut Context::new(Settings { limits, threads, ..Settings::default() }, &mut silent))
}

fn close(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-9 * left.abs().max(right.abs()).max(1e-12)
}

#[test]
fn the_worst_case_is_that_of_the_worst_scenario() {
    let (mut compared, mut raised) = (0, 0);
    for number in 0..1500 {
        let Some(problem) = problem(number, Size { operators: 7, devices: 4, groups: true }) else {
            continue;
        };
        let uncertainty = uncertainty(number);
        let mut rng = seed::stream(0xBAD, number);
        let devices = problem.cluster().device_count() as u32;
        let device_of = problem.graph().operators().map(|_| DeviceId(rng.random_range(0..devices))).collect();
        let replicas = problem.cluster().devices().map(|device| (device, rng.random_range(1..=3))).collect();
        let placement = Placement::with_stages(device_of, Vec::new(), replicas);
        let evaluation = evaluate(&problem, &placement);
        let sources = Sources::new(problem.graph());
        let worst = worst_case(&problem, &sources, &placement, &evaluation, uncertainty);
        let expected = enumerated(&problem, &scenarios(&problem, uncertainty), &placement);
        assert!(close(worst.value, expected), "{number}: {} {expected}", worst.value);
        assert!(worst.sources.len() <= uncertainty.budget as usize);
        let off = sources.scaled(&problem, |source| {
            if worst.sources.contains(&source) { 1.0 + uncertainty.deviation } else { 1.0 }
        });
        let named = evaluate(&off, &placement).value;
        assert!(close(worst.value, named), "{number}: {} {named}", worst.value);
        compared += 1;
        raised += usize::from(worst.value > evaluation.value);
    }
    assert!(compared > 400 && raised > 300, "{compared} {raised}");
}

#[test]
fn contiguous_plans_are_robust_and_bounds_hold() {
    let (mut compared, mut gained, mut exact) = (0, 0, 0);
    for number in 0..1200 {
        let groups = number % 4 == 0;
        let Some(problem) = problem(number, Size { operators: 6, devices: 4, groups }) else { continue };
        let uncertainty = uncertainty(number);
        let scenarios = scenarios(&problem, uncertainty);
        let least =
            brute_force::least(&problem, &mut |placement, _| enumerated(&problem, &scenarios, placement));
        let found = robust(&problem, uncertainty, &Dp, 1);
        assert_eq!(least.is_some(), found.best.is_some(), "{number}");
        let (Some(least), Some(best), Some(nominal)) = (least, &found.best, found.nominal_worst) else {
            continue;
        };
        assert!(best.worst.value >= least * (1.0 - 1e-9), "{number}: {} {least}", best.worst.value);
        assert!(found.bound.value <= least * (1.0 + 1e-9), "{number}: {} {least}", found.bound.value);
        assert!(best.worst.value <= nominal, "{number}");
        compared += 1;
        gained += usize::from(best.worst.value < nominal * (1.0 - 1e-6));
        exact += usize::from(found.gap() == Some(0.0));
        // The program over ideals does not model uplinks.
        if !groups {
            assert!(close(best.worst.value, least), "{number}: {} {least}", best.worst.value);
            assert_eq!(found.gap(), Some(0.0), "{number}");
        }
    }
    assert!(compared > 250 && gained > 8 && exact > 250, "{compared} {gained} {exact}");
}

#[test]
fn bounds_of_other_splits_hold() {
    let (mut compared, mut optimal, mut gained) = (0, 0, 0);
    for number in 0..1000 {
        let Some(problem) = problem(number, Size { operators: 5, devices: 3, groups: false }) else {
            continue;
        };
        if problem.objective().rules().max_replicas > 1 {
            continue;
        }
        let problem =
            problem.with_objective(problem.objective().with_split(Split::Free)).expect("a free split");
        let uncertainty = uncertainty(number);
        let scenarios = scenarios(&problem, uncertainty);
        let least =
            brute_force::least(&problem, &mut |placement, _| enumerated(&problem, &scenarios, placement));
        let found = robust(&problem, uncertainty, &Local, 1);
        let (Some(least), Some(best), Some(nominal)) = (least, &found.best, found.nominal_worst) else {
            continue;
        };
        assert!(best.worst.value >= least * (1.0 - 1e-9), "{number}: {} {least}", best.worst.value);
        assert!(found.bound.value <= least * (1.0 + 1e-9), "{number}: {} {least}", found.bound.value);
        compared += 1;
        optimal += usize::from(close(best.worst.value, least));
        gained += usize::from(best.worst.value < nominal * (1.0 - 1e-6));
    }
    assert!(compared > 100 && 10 * optimal > 9 * compared, "{compared} {optimal}");
    assert!(gained > 2, "{gained}");
}

#[test]
fn certain_costs_are_the_nominal_problem() {
    let mut compared = 0;
    for number in 0..600 {
        let Some(problem) = problem(number, Size { operators: 7, devices: 4, groups: true }) else {
            continue;
        };
        let found = robust(&problem, Uncertainty { deviation: 0.0, budget: 1 }, &Dp, 1);
        let Some(best) = &found.best else { continue };
        assert_eq!(Some(&best.plan), found.nominal.plan.as_ref(), "{number}");
        assert_eq!(best.worst.value.to_bits(), best.plan.value().to_bits(), "{number}");
        assert_eq!(found.bound, found.nominal.bound, "{number}");
        compared += 1;
    }
    assert!(compared > 80, "{compared}");
}

/// A budget as large as the number of sources allows all costs to be off, which scales the nominal problem.
#[test]
fn a_budget_of_all_sources_scales_the_nominal_problem() {
    let mut compared = 0;
    for number in 0..600 {
        let Some(problem) = problem(number, Size { operators: 7, devices: 4, groups: true }) else {
            continue;
        };
        let found = robust(&problem, Uncertainty { deviation: 0.3, budget: 9 }, &Dp, 1);
        let Some(best) = &found.best else { continue };
        assert!(close(best.worst.value, 1.3 * best.plan.value()), "{number}");
        assert_eq!(found.gap().map(|gap| gap < 1e-8), Some(found.nominal.gap() == Some(0.0)), "{number}");
        compared += 1;
    }
    assert!(compared > 80, "{compared}");
}

#[test]
fn the_plan_does_not_depend_on_the_number_of_threads() {
    let mut compared = 0;
    for number in 0..300 {
        let Some(problem) = problem(number, Size { operators: 10, devices: 5, groups: true }) else {
            continue;
        };
        let single = robust(&problem, uncertainty(number), &Dp, 1);
        let four = robust(&problem, uncertainty(number), &Dp, 4);
        assert_eq!(
            (single.best, single.bound, single.solved),
            (four.best, four.bound, four.solved),
            "{number}"
        );
        compared += 1;
    }
    assert!(compared > 30, "{compared}");
}

/// The search finds better plans for the costs as predicted than a baseline does.
#[test]
fn the_nominally_best_plan_is_the_best_of_all_found() {
    let (mut compared, mut improved) = (0, 0);
    for number in 0..400 {
        let Some(problem) = problem(number, Size { operators: 6, devices: 4, groups: number % 4 == 0 })
        else {
            continue;
        };
        let baseline =
            with_context(None, 1, |context| OneDevice.solve(&problem, context)).expect("any objective");
        let Some(baseline) = baseline.value() else { continue };
        let found = robust(&problem, uncertainty(number), &OneDevice, 1);
        let (Some(best), Some(nominal), Some(worst)) =
            (&found.best, found.nominal.value(), found.nominal_worst)
        else {
            panic!("{number}: there is a plan");
        };
        assert!(nominal <= best.plan.value() * (1.0 + 1e-9), "{number}: {nominal}");
        assert!(best.worst.value <= worst * (1.0 + 1e-9), "{number}: {worst}");
        improved += usize::from(nominal < baseline * (1.0 - 1e-6));
        compared += 1;
    }
    assert!(compared > 80 && improved > 20, "{compared} {improved}");
}

/// A solver that reaches a limit before it has a plan.
struct NoPlan;

impl Solver for NoPlan {
    fn name(&self) -> &'static str {
        "no-plan"
    }

    fn summary(&self) -> &'static str {
        "finds nothing"
    }

    fn unsupported(&self, _: &Objective) -> Option<&'static str> {
        None
    }

    fn run(&self, _: &Problem, _: &mut Context<'_>) -> Result<Solution> {
        let (bound, stop) = (LowerBound::TRIVIAL, Some(StopReason::Memory));
        let why = "too little memory".into();
        Ok(Solution::without_plan(self.name(), Status::Unknown, bound, stop, why))
    }
}

#[test]
fn the_search_needs_no_plan_of_the_solver() {
    let (mut compared, mut found, mut free) = (0, 0, 0);
    for number in 0..600 {
        let Some(problem) = problem(number, Size { operators: 6, devices: 4, groups: false }) else {
            continue;
        };
        let Some(expected) = robust(&problem, uncertainty(number), &Dp, 1).best else { continue };
        if expected.worst.value <= 0.0 {
            continue;
        }
        let own = robust(&problem, uncertainty(number), &NoPlan, 1);
        assert!(own.nominal.reason.is_some_and(|why| why.contains("too little memory")), "{number}");
        compared += 1;
        let Some(best) = own.best else { continue };
        assert!(close(best.worst.value, expected.worst.value), "{number}");
        found += 1;
        let problem = problem.with_objective(problem.objective().with_split(Split::Free)).expect("any split");
        free += usize::from(robust(&problem, uncertainty(number), &NoPlan, 1).best.is_some());
    }
    assert!(compared > 120 && 10 * found > 9 * compared && 2 * free > found, "{compared} {found} {free}");
}

#[test]
fn the_tables_respect_the_memory_limit() {
    let (mut proved, mut left_out) = (0, 0);
    for number in 0..400 {
        let Some(problem) = problem(number, Size { operators: 7, devices: 4, groups: false }) else {
            continue;
        };
        let within = |memory| {
            with_context(Some(memory), 1, |context| solve(&problem, uncertainty(number), &OneDevice, context))
                .expect("a problem with a worst case")
        };
        let all = within(8 << 30);
        let Some(least) = all.best.as_ref().map(|best| best.worst.value) else { continue };
        if all.bound.source != LowerBound::EXHAUSTED {
            continue;
        }
        proved += 1;
        assert_ne!(within(0).bound.source, LowerBound::EXHAUSTED, "{number}");
        for memory in [0, 4 << 10, 32 << 10] {
            let some = within(memory);
            let value = some.best.as_ref().map_or(f64::INFINITY, |best| best.worst.value);
            assert!(some.bound.value <= least * (1.0 + 1e-9) && least <= value * (1.0 + 1e-9), "{number}");
            left_out += usize::from(some.gap() != Some(0.0));
        }
    }
    assert!(proved > 50 && left_out > 50, "{proved} {left_out}");
}
