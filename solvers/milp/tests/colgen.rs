//! Column generation on small random problems: pricing against every set, bounds against every placement.

use crate::support;
use crate::support::columns;
use stagewright_testing::replicated;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use columns::resources;
use rand::RngExt;
use replicated::replicated_optimum;
use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::Split;
use stagewright_core::evaluate::evaluate;
use stagewright_core::ids::Keyed;
use stagewright_core::objective::Throughput;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{
    Context, Event, Limits, Observer, Plan, Settings, Silent, Solution, Solver, Status, Stop,
};
use stagewright_core::stage_load::StageLoad;
use stagewright_milp::Bnp;
use stagewright_milp::colgen::cuts::Cuts;
use stagewright_milp::colgen::generation::{Generation, Verdict};
use stagewright_milp::colgen::kind::Limit;
use stagewright_milp::colgen::order::narrow;
use stagewright_milp::colgen::preparation::Preparation;
use stagewright_milp::colgen::pricing::{Pricing, PricingEffort, Question};
use stagewright_milp::colgen::rules::Rules;
use stagewright_milp::colgen::states::States;
use stagewright_search::dpl::{OrderEffort, best_over_orders};
use support::optimum;
use support::random::Size;

const UNLIMITED: Limits = Limits { time: None, memory: None, gap: 0.0, simulations: None };

fn never() -> Stop {
    Stop::new(None, Arc::new(AtomicBool::new(false)))
}

fn problem(number: u64, size: Size, replicas: bool) -> Problem {
    support::problem(number, size, Split::Free, replicas)
}

fn small(number: u64) -> Problem {
    problem(number, Size { operators: 6, devices: 4, groups: number.is_multiple_of(2) }, false)
}

fn solve(problem: &Problem, threads: usize, limits: Limits) -> Solution {
    solve_from(None, problem, threads, limits, &mut Silent)
}

fn solve_from(
    start: Option<Placement>,
    problem: &Problem,
    threads: usize,
    limits: Limits,
    observer: &mut dyn Observer,
) -> Solution {
    let mut context = Context::new(Settings { limits, threads, ..Settings::default() }, observer);
    context.warm_start = start;
    Bnp::ALONE.solve(problem, &mut context).expect("a free problem")
}

/// The phases of a solve.
#[derive(Default)]
struct Phases(BTreeSet<String>);

impl Observer for Phases {
    fn event(&mut self, event: &Event) -> ControlFlow<()> {
        if let Event::Phase { name } = event {
            self.0.insert(name.clone());
        }
        ControlFlow::Continue(())
    }
}

#[test]
fn pricing_is_what_every_set_says() {
    let (mut exact, mut found) = (0, 0);
    for number in 0..1000 {
        let problem = problem(number, Size { operators: 10, devices: 4, groups: false }, true);
        let units = Units::new(&problem);
        if units.len() > 12 {
            continue;
        }
        let preparation = Preparation::new(&problem, &units, 1 << 20, &never()).expect("a small problem");
        let mut rng = seed::stream(number, 3);
        // Negative prices too: the program does not rely on their sign.
        let prices: Keyed<UnitId, f64> = units.ids().map(|_| rng.random_range(-0.2..1.0)).collect();
        let total: f64 = units.ids().filter_map(|unit| units.seconds(unit, 0)).sum();
        let threshold = total * rng.random_range(0.05..1.2) + 0.01;
        for kind in &preparation.kinds {
            let states = preparation.states(kind);
            let limits = [
                kind.first.limit.at(threshold),
                kind.second.as_ref().map_or(f64::INFINITY, |second| second.limit.at(threshold)),
            ];
            let mut best = 0.0f64;
            for set in 0..1u32 << units.len() {
                let allowed = units.ids().all(|unit| set >> unit.0 & 1 == 0 || kind.allowed[unit]);
                let taken = resources(&units, kind, set);
                if allowed && taken[0] <= limits[0] && taken[1] <= limits[1] {
                    let profit = units.ids().filter(|unit| set >> unit.0 & 1 == 1).map(|unit| prices[unit]);
                    best = best.max(profit.sum());
                }
            }
            let mut pricing = Pricing::new(states, kind);
            for (labels, cells) in [(1 << 20, 512), (0, 512), (3, 256)] {
                let effort = PricingEffort { entries: 0, cells, labels, precision: 0.0, second: true };
                let question = Question { prices: &prices, threshold, goal: 0.0, effort };
                let answer = pricing.best(question, &mut Vec::new(), &never()).expect("time enough");
                assert!(answer.most >= best - 1e-12, "{number}: {} is no bound on {best}", answer.most);
                for column in &answer.columns {
                    let set = column.units.iter().fold(0, |set, unit| set | 1 << unit.0);
                    let taken = resources(&units, kind, set);
                    assert!((taken[0] - column.first).abs() < 1e-9, "{number}");
                    assert!((taken[1] - column.second).abs() < 1e-9 * (1.0 + taken[1]), "{number}");
                    let fits = |index: usize| taken[index] <= limits[index] * (1.0 + 1e-9);
                    assert!(fits(0) && fits(1), "{number}: {taken:?} {limits:?}");
                    found += 1;
                }
                if labels > 1 << 10 {
                    assert!((answer.most - best).abs() < 1e-6, "{number}: {} {best}", answer.most);
                    exact += 1;
                }
            }
        }
    }
    assert!(exact > 300 && found > 300, "{exact} exact, {found} columns");
}

/// A set that fits a device by its [`StageLoad`] is a column: constraints that a kind leaves out never exclude a set.
#[test]
fn a_load_within_the_threshold_is_a_column() {
    let mut compared = 0;
    for number in 0..300 {
        let problem = small(number);
        let units = Units::new(&problem);
        let preparation = Preparation::new(&problem, &units, 1 << 20, &never()).expect("a small problem");
        for kind in preparation.kinds.iter().filter(|_| units.len() <= 10) {
            let mut stage_load = StageLoad::new(&units, problem.objective(), kind.pool);
            for set in 1..1u32 << units.len() {
                stage_load.clear();
                units.ids().filter(|unit| set >> unit.0 & 1 == 1).for_each(|unit| stage_load.add(unit));
                let load: f64 = (0..units.passes()).map(|pass| stage_load.load(pass, 1)).sum();
                let taken = resources(&units, kind, set);
                let within = |taken: f64| taken <= load * (1.0 + 1e-12) + 1e-12;
                let second = kind.second.as_ref().is_some_and(|second| second.limit == Limit::Threshold);
                assert!(
                    within(taken[0]) && (!second || within(taken[1])),
                    "{number}: {taken:?} above {load}"
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 1000);
}

#[test]
fn no_excluded_threshold_has_a_split() {
    let (mut excluded, mut covered) = (0, 0);
    for number in 0..1000 {
        let problem = small(number);
        let Some(Some(best)) = optimum(&problem) else { continue };
        let units = Units::new(&problem);
        let preparation = Preparation::new(&problem, &units, 1 << 20, &never()).expect("a small problem");
        for share in [0.3, 0.7, 0.9, 0.99, 1.0 - 1e-9, 1.0, 1.1] {
            let threshold = best * share;
            if threshold == 0.0 {
                continue;
            }
            let mut generation = Generation::new(&problem, &units, &preparation, None);
            match generation.decide(threshold, 1000, &never()).expect("a sound master") {
                Verdict::Excluded(_) => {
                    assert!(share < 1.0, "{number}: excluded {threshold}, but a split has {best}");
                    excluded += 1;
                }
                Verdict::Covered => covered += 1,
                Verdict::Spent | Verdict::Stalled => {}
            }
        }
    }
    assert!(excluded > 300 && covered > 300, "{excluded} excluded, {covered} covered");
}

#[test]
fn bounds_and_plans_against_brute_force() {
    let (mut optimal, mut open, mut raised) = (0, 0, 0);
    for number in 0..500 {
        let problem = small(number);
        let Some(best) = optimum(&problem) else { continue };
        let solution = solve(&problem, 1, UNLIMITED);
        match (best, &solution.plan) {
            (Some(best), Some(plan)) => {
                assert!(evaluate(&problem, &plan.placement).is_feasible(), "{number}");
                assert!(
                    solution.bound.value <= best * (1.0 + 1e-12),
                    "{number}: {:?} {best}",
                    solution.bound
                );
                assert!(plan.value() >= best * (1.0 - 1e-12), "{number}");
                raised += u32::from(solution.bound.source == "column-generation");
                match solution.status {
                    Status::Optimal => optimal += 1,
                    _ => open += 1,
                }
            }
            (None, Some(_)) => panic!("{number}: a plan where brute force finds none"),
            (_, None) => assert!(matches!(solution.status, Status::Infeasible | Status::Unknown), "{number}"),
        }
    }
    assert!(open == 0 && optimal > 300 && raised > 50, "{optimal} optimal, {open} open, {raised} raised");
}

/// Starts are optimal or random, and some are infeasible. A proof without local search proves the start optimal.
#[test]
fn every_start_leads_to_the_optimum() {
    let (mut proved, mut improved) = (0, 0);
    for number in 0..100 {
        let problem = small(number);
        let Some(Some(best)) = optimum(&problem) else { continue };
        let own = solve(&problem, 1, UNLIMITED).plan.expect("a plan").placement;
        let mut rng = seed::stream(number, 4);
        let devices = problem.cluster().devices().count();
        let draws = std::iter::repeat_with(|| {
            let device = |_| DeviceId::new(rng.random_range(0..devices));
            Placement::new(problem.graph().operators().map(device).collect())
        });
        for start in std::iter::once(own).chain(draws.take(3)) {
            let before = Plan::try_new(&problem, start.clone()).ok();
            let start = Some(start);
            let mut phases = Phases::default();
            let solution = solve_from(start.clone(), &problem, 1, UNLIMITED, &mut phases);
            assert_eq!(solution.status, Status::Optimal, "{number}");
            let found = solution.value().expect("a plan");
            assert!((found - best).abs() <= 2e-9 * best, "{number}: {found} {best}");
            let has_searched = phases.0.contains("local search");
            let is_better = before.is_some_and(|plan| plan.value() > found * (1.0 + 1e-9));
            assert!(has_searched || !is_better, "{number}");
            improved += u32::from(is_better);
            proved += u32::from(solution.bound.source == "column-generation" && !has_searched);
            let near = solve_from(start, &problem, 1, Limits { gap: 0.05, ..UNLIMITED }, &mut Silent);
            assert!(near.bound.value <= best * (1.0 + 1e-12), "{number}: {:?} {best}", near.bound);
            assert!(near.gap().is_some_and(|gap| gap <= 0.05), "{number}: {:?}", near.gap());
        }
    }
    assert!(proved > 10 && improved > 50, "{proved} proved, {improved} improved");
}

#[test]
fn no_excluded_threshold_has_a_replicated_split() {
    let (mut replicated, mut excluded) = (0, 0);
    for number in 0..1000 {
        let problem = problem(number, Size { operators: 5, devices: 4, groups: false }, true);
        let Some(Some(best)) = replicated_optimum(&problem) else { continue };
        let Some(Some(plain)) = optimum(&problem) else { continue };
        replicated += u32::from(best < plain * (1.0 - 1e-9));
        let units = Units::new(&problem);
        let preparation = Preparation::new(&problem, &units, 1 << 20, &never()).expect("a small problem");
        for share in [0.5, 0.9, 1.0 - 1e-9, 1.0] {
            let mut generation = Generation::new(&problem, &units, &preparation, None);
            if best > 0.0 {
                let verdict = generation.decide(best * share, 1000, &never()).expect("a sound master");
                if let Verdict::Excluded(_) = verdict {
                    assert!(share < 1.0, "{number}: excluded {best}");
                    excluded += 1;
                }
            }
        }
    }
    assert!(replicated > 20 && excluded > 200, "{replicated} better with replicas, {excluded} excluded");
}

/// Local search does not use replicas; the best contiguous split with replicas is still a candidate.
#[test]
fn a_replicated_contiguous_split_is_not_lost() {
    let mut replicated = 0;
    for number in 0..150 {
        let problem = problem(number, Size { operators: 5, devices: 4, groups: false }, true);
        let objective = Throughput { split: Split::Contiguous, ..problem.objective().rules() };
        let contiguous = problem.with_objective(objective).expect("a valid objective");
        let (mut silent, units) = (Silent, Units::new(&contiguous));
        let mut context = Context::new(UNLIMITED, &mut silent);
        let Some(seed) =
            best_over_orders(&contiguous, &units, OrderEffort::Plain, &mut context).expect("an answer")
        else {
            continue;
        };
        let solution = solve(&problem, 1, UNLIMITED);
        let plan = solution.plan.expect("at least the contiguous split");
        assert!(plan.value() <= seed.value() * (1.0 + 1e-12), "{number}");
        assert!(evaluate(&problem, &plan.placement).is_feasible(), "{number}");
        replicated += u32::from(plan.evaluation.devices.iter().any(|device| device.replicas > 1));
    }
    assert!(replicated > 10, "only {replicated}");
}

#[test]
fn the_same_whatever_the_threads() {
    for number in 0..8 {
        let problem = problem(number, Size { operators: 9, devices: 4, groups: false }, false);
        assert_eq!(solve(&problem, 1, UNLIMITED), solve(&problem, 2, UNLIMITED), "{number}");
    }
}

#[test]
fn no_time_still_gives_a_plan_and_a_bound() {
    let limits = Limits { time: Some(Duration::ZERO), ..UNLIMITED };
    for number in 0..60 {
        let problem = small(number);
        let solution = solve(&problem, 1, limits);
        if let Some(plan) = &solution.plan {
            assert!(solution.bound.value <= plan.value(), "{number}");
        } else {
            assert!(solution.reason.is_some(), "{number}");
        }
    }
}

/// Nets dropped to save states relax the loads: the result of pricing still bounds every set.
#[test]
fn a_relaxed_state_graph_bounds_from_above() {
    let mut relaxed = 0;
    for number in 0..200 {
        let problem = problem(number, Size { operators: 14, devices: 4, groups: false }, false);
        let units = Units::new(&problem);
        let cuts = Cuts::new(&units);
        let order = narrow(units.len(), &cuts, &never());
        let pools = units.pools();
        let Some(full) = States::new(&order, &cuts, &Rules::default(), pools, 1 << 20) else { continue };
        let Some((small, Some(_))) = States::relaxed(&order, &cuts, pools, full.len() / 2, &never()) else {
            continue;
        };
        let prices = Keyed::filled(1.0, units.len());
        let preparation = Preparation::new(&problem, &units, 1 << 20, &never()).expect("a small problem");
        for kind in &preparation.kinds {
            let bound = |states: &States| {
                let threshold = kind.first.units.iter().sum::<f64>() * 0.6 + 0.1;
                let effort = PricingEffort {
                    entries: 0,
                    cells: 1 << 12,
                    labels: 1 << 20,
                    precision: 0.0,
                    second: true,
                };
                let question = Question { prices: &prices, threshold, goal: 0.0, effort };
                let answer = Pricing::new(states, kind).best(question, &mut Vec::new(), &never());
                answer.expect("time enough").most
            };
            assert!(bound(&small) >= bound(&full) - 1e-6, "{number}");
        }
        relaxed += 1;
    }
    assert!(relaxed > 20, "only {relaxed}");
}
