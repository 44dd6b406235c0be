//! Random placements with random calls against a simulation, with which every figure has to agree. All times
//! are integers, so sums are exact in any order.

use crate::documents;
mod random;
mod simulation;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use stagewright_verify::{BoundEvidence, BoundVerdict};

use random::{ACCELERATORS, DEVICES, random};

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_latency_is_that_of_the_simulation(random in random()) {
        let report = random.case().report();
        let Some(outcome) = random.simulate() else {
            prop_assert_eq!(random.case().broken(), ["calls"]);
            prop_assert_eq!(report.value_s, None);
            return Ok(());
        };
        prop_assert!(report.holds(), "{:?}", report.violations);
        prop_assert_eq!(report.value_s, Some(outcome.value as f64));
        for (device, [compute, communication, bytes]) in report.devices.iter().zip(outcome.devices) {
            prop_assert_eq!(device.compute_s, compute as f64);
            prop_assert_eq!(device.communication_s, communication as f64);
            prop_assert_eq!(device.load_s, (compute + communication) as f64);
            prop_assert_eq!(device.memory_bytes, bytes as f64);
        }
        prop_assert!(random.claiming(&outcome).report().holds());
    }

    #[test]
    fn a_plan_with_another_value_is_refuted(
        random in random(), by in prop::sample::select(vec![-1.0, 0.5, 1.0, 100.0]),
    ) {
        let Some(outcome) = random.simulate() else { return Ok(()) };
        let mut case = random.claiming(&outcome);
        case.plan.objective.value_s = Some(outcome.value as f64 + by);
        prop_assert_eq!(case.broken(), ["value"]);
    }

    #[test]
    fn a_plan_with_an_operator_moved_holds_only_where_that_changes_nothing(
        random in random(),
        operator in any::<prop::sample::Index>(),
        device in 0..DEVICES.len(),
        call in 0usize..3,
    ) {
        let Some(outcome) = random.simulate() else { return Ok(()) };
        let moved = random.moved(operator.index(random.seconds.len()), device, call);
        let unchanged = moved.simulate().as_ref() == Some(&outcome);
        prop_assert_eq!(moved.claiming(&outcome).report().holds(), unchanged);
    }

    #[test]
    fn a_plan_with_calls_swapped_holds_only_where_that_changes_nothing(
        random in random(), device in 0..ACCELERATORS, call in 0usize..3,
    ) {
        let Some(outcome) = random.simulate() else { return Ok(()) };
        let Some(swapped) = random.swapped(device, call) else { return Ok(()) };
        let broken = swapped.claiming(&outcome).broken();
        match swapped.simulate() {
            None => prop_assert_eq!(broken, ["calls"]),
            Some(other) if other == outcome => prop_assert_eq!(broken, [""; 0]),
            // The order of calls changes their start, not their duration.
            Some(_) => prop_assert_eq!(broken, ["value"]),
        }
    }

    #[test]
    fn the_critical_path_is_below_every_simulation(random in random()) {
        let Some(outcome) = random.simulate() else { return Ok(()) };
        let mut case = random.case();
        case.plan.bound.value_s = Some(0.0);
        case.plan.bound.source = "critical-path".to_owned();
        let BoundVerdict::Verified { by: BoundEvidence::CriticalPath, proved_s } = case.report().bound else {
            panic!("{:?}", case.report().bound)
        };
        prop_assert!(proved_s <= outcome.value as f64);
    }
}

/// The properties above are not vacuous: many random cases run, many are blocked, and mutations often matter.
#[test]
fn the_random_cases_tell_something() {
    let mut runner = TestRunner::deterministic();
    let strategy = random();
    let (mut ran, mut blocked, mut slower, mut blocked_by_swap) = (0, 0, 0, 0);
    for _ in 0..2048 {
        let random = strategy.new_tree(&mut runner).unwrap().current();
        let Some(outcome) = random.simulate() else {
            blocked += 1;
            continue;
        };
        ran += 1;
        for device in 0..ACCELERATORS {
            match random.swapped(device, 0).map(|swapped| swapped.simulate()) {
                Some(None) => blocked_by_swap += 1,
                Some(Some(other)) if other != outcome => slower += 1,
                _ => {}
            }
        }
    }
    let counts = [ran, blocked, slower, blocked_by_swap];
    assert!(counts.iter().all(|&count| count > 200), "{counts:?}");
}
