//! Costs that are off: the worst case and the robust plan against the enumeration of placements and scenarios.

use rand::RngExt;
use stagewright_core::cluster::DeviceId;
use stagewright_core::document::Split;
use stagewright_core::evaluate::evaluate;
use stagewright_core::graph::Graph;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Limits, Silent, Solver};
use stagewright_core::uncertainty::{Scenarios, SourceId, Sources, Uncertainty, When, worst_case};
use stagewright_dp::Dp;
use stagewright_search::Local;
use stagewright_search::robust::{Robust, listed, regret, solve};
use stagewright_testing::brute_force;
use stagewright_testing::random::{self, Size};

/// A random problem whose operators are of up to four kinds, or of none, that has a worst case.
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
    Some(Problem::new(graph, cluster, *problem.objective(), pins).expect("a valid problem"))
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
    let mut silent = Silent;
    let mut context =
        Context::new(Limits { time: None, ..Limits::default() }, Default::default(), &mut silent);
    context.threads = threads;
    solve(problem, uncertainty, solver, &mut context).expect("a problem with a worst case")
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1e-12)
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
        let worst =
            worst_case(&problem, &sources, &placement, &evaluation, &Scenarios::Budgeted(uncertainty));
        let expected = enumerated(&problem, &scenarios(&problem, uncertainty), &placement);
        assert!(close(worst.value, expected), "{number}: {} {expected}", worst.value);
        let When::Sources(of_worst) = &worst.when else { panic!("budgeted scenarios name sources") };
        assert!(of_worst.len() <= uncertainty.budget as usize);
        let off = sources.scaled(&problem, |source| {
            if of_worst.contains(&source) { 1.0 + uncertainty.deviation } else { 1.0 }
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
        // Uplinks are no part of the program over ideals.
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

/// As many sources as there are scale all costs.
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
        let one = robust(&problem, uncertainty(number), &Dp, 1);
        let four = robust(&problem, uncertainty(number), &Dp, 4);
        assert_eq!((one.best, one.bound, one.solved), (four.best, four.bound, four.solved), "{number}");
        compared += 1;
    }
    assert!(compared > 30, "{compared}");
}

/// The listed scenarios, each with its least value over all placements.
fn least_values(problem: &Problem, deviation: f64) -> Option<Vec<(Problem, f64)>> {
    let sources = Sources::new(problem.graph());
    let scenarios = listed(problem, &sources, deviation);
    let least = |changed: Problem| {
        let least = brute_force::optimum(&changed)?;
        Some((changed, least))
    };
    scenarios.into_iter().map(|scenario| least(scenario.apply(problem, &sources))).collect()
}

#[test]
fn the_least_regret_is_found_and_its_bounds_hold() {
    let (mut compared, mut gained, mut optimal) = (0, 0, 0);
    for number in 0..600 {
        let Some(problem) = problem(number, Size { operators: 5, devices: 4, groups: number % 4 == 0 })
        else {
            continue;
        };
        let deviation = [0.1, 0.3, 0.8][number as usize % 3];
        let mut silent = Silent;
        let limits = Limits { time: None, ..Limits::default() };
        let mut context = Context::new(limits, Default::default(), &mut silent);
        let found = regret(&problem, deviation, &Dp, &mut context).expect("a problem with a regret");
        let Some(scenarios) = least_values(&problem, deviation) else {
            assert!(found.plan.is_none(), "{number}");
            continue;
        };
        let Some(plan) = &found.plan else { panic!("{number}: there is a plan") };
        if scenarios.iter().any(|&(_, least)| least <= 0.0) {
            continue;
        }
        let over = |placement: &Placement| {
            let ratios = scenarios.iter().map(|(changed, least)| evaluate(changed, placement).value / least);
            ratios.fold(0.0, f64::max) - 1.0
        };
        let mut least = f64::INFINITY;
        brute_force::least(&problem, &mut |placement, _| {
            least = least.min(over(placement));
            f64::INFINITY
        });
        for (case, (changed, best)) in found.cases.iter().zip(&scenarios) {
            assert!(close(case.value, evaluate(changed, &plan.placement).value), "{number}");
            assert!(case.bound <= best * (1.0 + 1e-9) && *best <= case.best * (1.0 + 1e-9), "{number}");
        }
        let own = over(&plan.placement);
        assert!(found.regret() <= own + 1e-7 && own <= found.at_most() + 1e-7, "{number}: {own}");
        assert!(
            found.bound <= least + 1e-7 && least <= own + 1e-7,
            "{number}: {} {least} {own}",
            found.bound
        );
        assert!(found.regret() <= found.of_nominal() + 1e-7, "{number}");
        compared += 1;
        gained += usize::from(found.regret() < found.of_nominal() - 1e-6);
        optimal += usize::from(own <= least + 1e-7);
    }
    assert!(compared > 100 && gained > 12 && 20 * optimal > 19 * compared, "{compared} {gained} {optimal}");
}
