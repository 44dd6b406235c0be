//! Branch and price on small random problems: the tree against every placement, and pricing with pairs against every
//! set.

use crate::support;
use crate::support::columns;
use stagewright_testing::replicated;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use columns::resources;
use rand::{Rng, RngExt};
use rayon::{ThreadPool, ThreadPoolBuilder};
use replicated::replicated_optimum;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::{Split, Training};
use stagewright_core::evaluate::evaluate;
use stagewright_core::ids::{Id, Keyed};
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::Stop;
use stagewright_milp::colgen::dive::Dive;
use stagewright_milp::colgen::generation::{Generation, Verdict};
use stagewright_milp::colgen::node::Ground;
use stagewright_milp::colgen::preparation::Preparation;
use stagewright_milp::colgen::pricing::{Pricing, PricingEffort, Question};
use stagewright_milp::colgen::rules::{Bar, Column, Pair, Rules};
use stagewright_milp::colgen::tree;
use support::optimum;
use support::random::Size;

const STATES: usize = 1 << 16;
/// Enough nodes for every problem here.
const MAX_NODES: u64 = 20_000;
/// Enough nodes for most problems in which columns ignore part of the value.
const FEW_NODES: u64 = 500;
/// Just below a value, by more than the tolerance of optimality.
const BELOW: f64 = 1.0 - 1e-8;

fn never() -> Stop {
    Stop::new(None, Arc::new(AtomicBool::new(false)))
}

fn threads(count: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(count).build().expect("threads")
}

fn problem(number: u64, operators: usize, devices: u32) -> Problem {
    support::problem(
        number,
        Size { operators, devices, groups: number.is_multiple_of(2) },
        Split::Free,
        false,
    )
}

fn search(problem: &Problem, threshold: f64, max_nodes: u64, pool: &ThreadPool) -> tree::Verdict {
    let units = Units::new(problem);
    let preparation = Preparation::new(problem, &units, STATES, &never()).expect("a small problem");
    let ground = ground(problem, &units, &preparation);
    let quest = tree::Quest { threshold, incumbent: threshold, most: max_nodes };
    let verdict = tree::search(&ground, Arc::new([]), quest, pool, &never(), |_| ());
    assert_eq!(verdict.failure, None);
    verdict
}

fn ground<'a>(problem: &'a Problem, units: &'a Units, preparation: &'a Preparation) -> Ground<'a> {
    Ground { problem, units, preparation, states: STATES, memory: None }
}

/// Whether the relaxation of the root alone excludes a threshold.
fn root_excludes(problem: &Problem, threshold: f64) -> bool {
    let units = Units::new(problem);
    let preparation = Preparation::new(problem, &units, STATES, &never()).expect("a small problem");
    let mut generation = Generation::new(problem, &units, &preparation, None);
    let verdict = generation.decide(threshold, 1000, &never()).expect("a sound master");
    matches!(verdict, Verdict::Excluded(_))
}

/// A problem with its optimum, if that is known and not zero.
fn with_optimum(number: u64) -> Option<(Problem, f64)> {
    let problem = problem(number, 9, 4);
    let best = optimum(&problem)??;
    (best > 0.0).then_some((problem, best))
}

/// Whether columns ignore part of the value: uplinks, or the maxima of the two passes of separate training. The tree
/// then detects that part only at its leaves.
fn columns_are_blind(problem: &Problem) -> bool {
    problem.objective().rules().training == Training::Separate
        || problem.pools().iter().any(|pool| pool.group.is_some())
}

#[test]
fn the_tree_closes_what_the_root_leaves_open() {
    let pool = threads(2);
    let (mut compared, mut open) = (0, 0);
    let (mut blind, mut blind_open) = (0, 0);
    for (number, (problem, best)) in (0..900).filter_map(|number| Some((number, with_optimum(number)?))) {
        let is_blind = columns_are_blind(&problem);
        let max_nodes = if is_blind { FEW_NODES } else { MAX_NODES };
        let verdict = search(&problem, best * BELOW, max_nodes, &pool);
        assert!(verdict.plan.is_none(), "{number}: a plan below the optimum");
        if is_blind {
            blind += 1;
            blind_open += u32::from(!verdict.excluded);
            continue;
        }
        assert!(verdict.excluded, "{number}: open after {} nodes", verdict.nodes);
        compared += 1;
        if !root_excludes(&problem, best * BELOW) {
            open += 1;
        }
    }
    assert!(compared > 200 && open > 5, "{compared} compared, {open} open at the root");
    assert!(blind > 100 && blind_open * 10 < blind, "{blind_open} of {blind} open");
}

#[test]
fn the_tree_finds_the_optimum_from_above() {
    let pool = threads(2);
    let mut better = 0;
    for (number, (problem, best)) in (0..200).filter_map(|number| Some((number, with_optimum(number)?))) {
        let verdict = search(&problem, best * 1.5, MAX_NODES, &pool);
        let plan = verdict.plan.as_ref().expect("a plan of the threshold exists");
        assert!(evaluate(&problem, &plan.placement).is_feasible(), "{number}");
        assert!((plan.value() - best).abs() <= 1e-9 * best, "{number}: {} for {best}", plan.value());
        assert!(verdict.excluded && verdict.threshold < best, "{number}: {verdict:?}");
        better += u32::from(verdict.nodes > 1);
    }
    assert!(better > 50, "only {better}");
}

#[test]
fn the_tree_knows_replicas() {
    let pool = threads(2);
    let (mut compared, mut better) = (0, 0);
    for number in 0..1000 {
        let problem =
            support::problem(number, Size { operators: 5, devices: 4, groups: false }, Split::Free, true);
        let Some(Some(best)) = replicated_optimum(&problem) else { continue };
        if best == 0.0 {
            continue;
        }
        let verdict = search(&problem, best * 1.2, MAX_NODES, &pool);
        let plan = verdict.plan.as_ref().expect("a plan of the threshold exists");
        assert!((plan.value() - best).abs() <= 1e-9 * best, "{number}: {} for {best}", plan.value());
        assert!(verdict.excluded && verdict.threshold < best, "{number}: {verdict:?}");
        compared += 1;
        better += u32::from(optimum(&problem).flatten().is_none_or(|plain| best < plain * BELOW));
    }
    assert!(compared > 100 && better > 10, "{compared} compared, {better} better with replicas");
}

#[test]
fn no_nodes_decide_nothing() {
    let (problem, best) = (0..).find_map(with_optimum).expect("some problem has one");
    let verdict = search(&problem, best * 2.0, 0, &threads(1));
    assert_eq!((verdict.excluded, verdict.plan, verdict.nodes), (false, None, 0));
}

#[test]
fn the_same_tree_whatever_the_threads() {
    let pools = [threads(1), threads(2)];
    let mut plans = 0;
    for number in 0..24 {
        let problem = problem(number, 12, 5);
        let total: f64 = {
            let units = Units::new(&problem);
            units.ids().filter_map(|unit| units.seconds(unit, 0)).sum()
        };
        let found: Vec<tree::Verdict> =
            pools.iter().map(|pool| search(&problem, total + 0.1, 60, pool)).collect();
        assert_eq!(found[0], found[1], "{number}");
        plans += u32::from(found[0].plan.is_some());
    }
    assert!(plans > 2, "only {plans}");
}

/// Random rules over the units and kinds of a problem.
fn rules(rng: &mut impl Rng, units: u32, kinds: usize) -> Rules {
    let mut rules = Rules::default();
    for _ in 0..rng.random_range(0..5) {
        let pair = [rng.random_range(0..units), rng.random_range(0..units)].map(UnitId);
        if pair[0] != pair[1] {
            rules.pairs.push(Pair { units: pair, together: rng.random_bool(0.5) });
        }
    }
    for _ in 0..rng.random_range(0..3) {
        rules.bars.push(Bar { kind: rng.random_range(0..kinds), unit: UnitId(rng.random_range(0..units)) });
    }
    if rng.random_bool(0.3) {
        let units: Vec<UnitId> = (0..units).map(UnitId).filter(|_| rng.random_bool(0.2)).collect();
        rules.placed.push(Column { kind: rng.random_range(0..kinds), units: units.into(), needs: 0.0 });
    }
    rules
}

#[test]
fn pricing_under_rules_is_what_every_admitted_set_says() {
    let (mut exact, mut bound_by_rules) = (0, 0);
    for number in 0..1000 {
        let problem = problem(number, 9, 4);
        let units = Units::new(&problem);
        if units.len() < 2 {
            continue;
        }
        let mut rng = seed::stream(0xA9A47, number);
        let root = Preparation::new(&problem, &units, STATES, &never()).expect("a small problem");
        let rules = rules(&mut rng, u32::new(units.len()), root.kinds.len());
        let node = root.under(&rules, STATES).expect("few states");
        // The prices of a partition may have either sign.
        let prices: Keyed<UnitId, f64> = units.ids().map(|_| rng.random_range(-0.4..1.0)).collect();
        let total: f64 = units.ids().filter_map(|unit| units.seconds(unit, 0)).sum();
        let threshold = total * rng.random_range(0.05..1.2) + 0.01;
        for (index, kind) in root.kinds.iter().enumerate() {
            let second = kind.second.as_ref().map_or(f64::INFINITY, |second| second.limit.at(threshold));
            let (mut best, mut free) = (0.0f64, 0.0f64);
            for set in 0..1u32 << units.len() {
                let held: Vec<UnitId> = units.ids().filter(|unit| set >> unit.0 & 1 == 1).collect();
                let profit: f64 = held.iter().map(|&unit| prices[unit]).sum();
                let taken = resources(&units, kind, set);
                let fits = taken[0] <= kind.first.limit.at(threshold) && taken[1] <= second;
                if fits && held.iter().all(|&unit| kind.allowed[unit]) {
                    let column = Column { kind: index, units: held.into(), needs: 0.0 };
                    free = free.max(profit);
                    best = if rules.admit(&column) { best.max(profit) } else { best };
                }
            }
            let kind = &node.kinds[index];
            let effort =
                PricingEffort { entries: 0, cells: 512, labels: 1 << 20, precision: 0.0, second: true };
            let question = Question { prices: &prices, threshold, goal: 0.0, effort };
            let mut pricing = Pricing::new(node.states(kind), kind);
            let answer = pricing.best(question, &mut Vec::new(), &never()).expect("time enough");
            assert!((answer.most - best).abs() < 1e-6, "{number}: {} for {best}", answer.most);
            for set in &answer.columns {
                let mut held = set.units.clone();
                held.sort_unstable();
                let column = Column { kind: index, units: held.into(), needs: 0.0 };
                assert!(rules.admit(&column), "{number}: {column:?} under {rules:?}");
            }
            exact += 1;
            bound_by_rules += u32::from(best < free - 1e-6);
        }
    }
    assert!(exact > 500 && bound_by_rules > 200, "{exact} exact, {bound_by_rules} bound by the rules");
}

#[test]
fn dives_end_in_plans() {
    let (mut plans, mut optimal) = (0, 0);
    for (number, (problem, best)) in (0..200).filter_map(|number| Some((number, with_optimum(number)?))) {
        let units = Units::new(&problem);
        let preparation = Preparation::new(&problem, &units, STATES, &never()).expect("a small problem");
        let ground = ground(&problem, &units, &preparation);
        let dive = Dive { threshold: best * 1.02, stream: (7, number) };
        let run = || dive.run(&ground, &Arc::from([]), None, &never()).expect("a sound master");
        let Some(plan) = run() else { continue };
        assert!(evaluate(&problem, &plan.placement).is_feasible(), "{number}");
        assert!(plan.value() >= best * (1.0 - 1e-12), "{number}: {} for {best}", plan.value());
        assert_eq!(run(), Some(plan.clone()), "{number}");
        plans += 1;
        optimal += u32::from(plan.value() <= best * (1.0 + 1e-9));
    }
    assert!(plans > 60 && optimal > 40, "{plans} plans, {optimal} optimal");
}
