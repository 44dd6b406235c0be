//! Lower bounds on random small problems: against every placement, against their definitions, and against each other.

use stagewright_testing::brute_force;
use stagewright_testing::random;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use random::Size;
use stagewright_core::bound::{Bound, Fluid, HeaviestUnit};
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::{Communication, Schedule, Split};
use stagewright_core::ids::Keyed;
use stagewright_core::objective::Throughput;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Stop;
use stagewright_core::stage_load::StageLoad;
use stagewright_search::anchored::AnchoredEffort;
use stagewright_search::{Anchored, AnchoredFluid};

const BOUNDS: [&dyn Bound; 4] =
    [&Fluid, &HeaviestUnit, &ANCHORED, &AnchoredFluid { effort: AnchoredEffort::DEFAULT }];
const ANCHORED: Anchored = Anchored { effort: AnchoredEffort::DEFAULT };

/// The problem of a seed under a split rule, with serial communication if requested.
fn problem(number: u64, size: Size, split: Split, serial: bool) -> Problem {
    let problem = random::problem(number, size);
    let given = *problem.objective();
    let communication = if serial { Communication::Serial } else { given.rules().communication };
    let objective = match split {
        Split::Contiguous => Throughput { split, communication, ..given.rules() },
        _ => Throughput { split, communication, schedule: Schedule::None, microbatches: 1, ..given.rules() },
    };
    problem.with_objective(objective).expect("a valid objective")
}

#[test]
fn no_bound_passes_the_best_placement() {
    let mut attacked = [[0; 3]; BOUNDS.len()];
    let (mut reached, mut last) = (0, 0);
    let stopped = Stop::new(None, Arc::new(AtomicBool::new(true)));
    for number in 0..1000 {
        for (rule, split) in [Split::Contiguous, Split::Convex, Split::Free].into_iter().enumerate() {
            // Fewer devices leave time for more operators, and so for more communication.
            let (operators, devices) = if number % 3 == 0 { (9, 2) } else { (5, 4) };
            let size = Size { operators, devices, groups: number % 2 == 0 };
            let problem = problem(number, size, split, number % 4 != 0);
            let Some(optimum) = brute_force::optimum(&problem) else { continue };
            let mut cheaper = 0.0;
            for (index, bound) in BOUNDS.iter().enumerate().filter(|(_, bound)| bound.applies(&problem)) {
                let value = bound.compute(&problem).expect("a feasible problem has bounds").value;
                // Without any time, there may be no value.
                let early = bound.before(&problem, &stopped).map_or(0.0, |bound| bound.value);
                assert!(early <= value, "{number} {split:?}: {} says {early} > {value}", bound.name());
                assert!(value <= optimum, "{number} {split:?}: {} says {value} > {optimum}", bound.name());
                attacked[index][rule] += 1;
                last += u32::from(index + 1 == BOUNDS.len() && value > cheaper * (1.0 + 1e-6));
                cheaper = value.max(cheaper);
                reached += u32::from(optimum > 0.0 && value >= optimum * (1.0 - 1e-6));
            }
        }
    }
    assert!(attacked.iter().flatten().all(|&count| count > 150), "{attacked:?}");
    assert!(reached > 200 && last > 100, "{reached} reached, the last bound is the strongest {last} times");
}

/// max_u min_c A_c(u) / R_c by trying every set on every pool.
fn anchored(problem: &Problem, units: &Units) -> Option<f64> {
    let mut least = Keyed::filled(f64::INFINITY, units.len());
    for (pool, spec) in problem.pools().iter().enumerate() {
        let replicas = f64::from(problem.objective().rules().max_replicas.min(spec.count()));
        let mut stage_load = StageLoad::new(units, problem.objective(), pool);
        for set in 1..1u32 << units.len() {
            let holds = |unit: &UnitId| set >> unit.0 & 1 == 1;
            stage_load.clear();
            units.ids().filter(holds).for_each(|unit| stage_load.add(unit));
            if stage_load.supported() {
                let load = (0..units.passes()).map(|pass| stage_load.load(pass, 1)).sum::<f64>() / replicas;
                units.ids().filter(holds).for_each(|unit| least[unit] = least[unit].min(load));
            }
        }
    }
    let largest = least.iter().copied().fold(0.0, f64::max);
    // An iteration under a schedule takes this time for each microbatch.
    largest.is_finite().then_some(problem.objective().repetitions() * largest)
}

#[test]
fn anchored_is_its_definition() {
    let (mut compared, mut weaker) = (0, 0);
    for number in 0..1200 {
        let split = if number % 3 == 0 { Split::Contiguous } else { Split::Free };
        let problem = problem(number, Size { operators: 10, devices: 5, groups: false }, split, true);
        let units = Units::new(&problem);
        if units.len() > 11 {
            continue;
        }
        let found = ANCHORED.compute(&problem).map(|bound| bound.value);
        let expected = anchored(&problem, &units);
        assert_eq!(found.is_some(), expected.is_some(), "{number}");
        let (Some(found), Some(expected)) = (found, expected) else { continue };
        assert!((expected - found).abs() <= 1e-8 * expected, "{number}: {found} {expected}");
        assert!(found <= expected, "{number}: {found} {expected}");
        for effort in [
            AnchoredEffort { neighbourhood: 2, ..AnchoredEffort::DEFAULT },
            AnchoredEffort { work: 10, ..AnchoredEffort::DEFAULT },
        ] {
            let limited = Anchored { effort }.compute(&problem).expect("as without limits").value;
            assert!(limited <= found * (1.0 + 1e-9), "{number}: {limited} {found}");
            weaker += u32::from(limited < found * (1.0 - 1e-6));
        }
        compared += u32::from(expected > 0.0);
    }
    assert!(compared > 700 && weaker > 50, "{compared} compared, {weaker} weaker");
}

/// The bounds are ordered cheapest first, and each bound is stronger than all cheaper ones on some problem.
#[test]
fn every_bound_passes_all_cheaper_ones_somewhere() {
    let mut stronger = [0; BOUNDS.len()];
    for number in 0..800 {
        let problem = problem(number, Size { operators: 12, devices: 4, groups: false }, Split::Free, false);
        let mut cheaper = 0.0;
        for (index, bound) in BOUNDS.iter().enumerate().filter(|(_, bound)| bound.applies(&problem)) {
            let value = bound.compute(&problem).map_or(0.0, |bound| bound.value);
            stronger[index] += u32::from(value > cheaper * (1.0 + 1e-6));
            cheaper = value.max(cheaper);
        }
    }
    assert!(stronger.iter().all(|&count| count > 50), "{stronger:?}");
}
