//! Walk, scan and brute force agree at caps near the optimum. At loose caps, a wrong bound would prune nothing that
//! matters.

use stagewright_testing::brute_force;
use stagewright_testing::random;

use random::{Size, problem};
use stagewright_core::contraction::Units;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Stop;
use stagewright_core::tolerance::same;
use stagewright_search::usage::UsageSpace;

use crate::allowance::Budget;
use crate::catalogue::Catalogue;
use crate::lattice::Lattice;
use crate::recurrence::{Counts, Recurrence};
use crate::solver::largest_loads;
use crate::uplink::Uplinks;
use crate::weight::Weights;

/// Minimum bottleneck below a cap, by walk and by scan.
fn both(problem: &Problem, cap: f64) -> [Option<f64>; 2] {
    let units = Units::new(problem);
    let space = UsageSpace::new(problem, units.len(), 1 << 20).expect("a small problem");
    let lattice = Lattice::new(problem, &units, cap);
    let weights = Weights::new(problem, &lattice);
    let stop = Stop::new(None, Default::default());
    let catalogue = Catalogue::new(&lattice, &weights, None, &stop).expect("a small lattice");
    let uplinks = Uplinks::new(problem, &units, &lattice);
    [None, Some(&catalogue)].map(|catalogue| {
        let plain = Recurrence::new(problem, &units, &lattice, &weights, &space);
        let recurrence = Recurrence { catalogue, uplinks: uplinks.as_ref(), ..plain };
        let budget = Budget { stop: &stop, memory: None, steps: None };
        let run = recurrence.minimise(0, [cap, cap], budget, &mut Counts::default());
        assert!(run.halt.is_none());
        run.best.map(|stages| {
            let [first, _] = largest_loads(&recurrence, &units, &stages).expect("a feasible plan");
            first
        })
    })
}

#[test]
fn walk_and_scan_find_the_optimum_below_a_cap() {
    let mut found = 0;
    for number in 0..600 {
        let problem = problem(number, Size { operators: 5, devices: 4, groups: number % 2 == 0 });
        if problem.objective().passes() > 1 {
            continue;
        }
        let optimum = brute_force::optimum(&problem);
        let Some(optimum) = optimum.filter(|&optimum| optimum > 0.0) else { continue };
        for slack in [1e-6, 0.1] {
            for value in both(&problem, optimum * (1.0 + slack)) {
                assert!(value.is_some_and(|value| same(value, optimum)), "{number}: {value:?} {optimum}");
            }
        }
        assert_eq!(both(&problem, optimum * (1.0 - 1e-6)), [None, None], "{number}");
        found += 1;
    }
    assert!(found > 100, "{found}");
}

#[test]
fn walk_and_scan_agree() {
    for number in 0..200 {
        let problem = problem(number, Size { operators: 14, devices: 5, groups: number % 2 == 0 });
        let loose = both(&problem, f64::MAX);
        let [Some(walked), Some(scanned)] = loose else {
            assert_eq!(loose, [None, None], "{number}");
            continue;
        };
        assert!(same(walked, scanned), "{number}: {walked} {scanned}");
        if walked > 0.0 && problem.objective().passes() == 1 {
            for value in both(&problem, walked * (1.0 + 1e-6)) {
                assert!(value.is_some_and(|value| same(value, walked)), "{number}: {value:?} {walked}");
            }
        }
    }
}
