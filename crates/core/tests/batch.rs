//! Values of many placements, and the pipeline order found for placements without one, checked against their
//! definitions.

use rand::{Rng, RngExt};
use stagewright_core::cluster::DeviceId;
use stagewright_core::evaluate::{Values, evaluate};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_testing::{makespan, random};

fn devices(problem: &Problem, rng: &mut impl Rng) -> Vec<DeviceId> {
    let count = problem.cluster().device_count() as u32;
    problem.graph().operators().map(|_| DeviceId(rng.random_range(0..count))).collect()
}

/// The values of the placements by `evaluate`, one placement at a time.
fn one_by_one(problem: &Problem, placements: &[Placement]) -> Vec<f64> {
    let value = |placement: &Placement| {
        let evaluation = evaluate(problem, placement);
        if evaluation.is_feasible() { evaluation.value } else { f64::INFINITY }
    };
    placements.iter().map(value).collect()
}

#[test]
fn values_of_many_placements_are_those_of_each() {
    let mut feasible = 0;
    for number in 0..300 {
        let size = random::Size { operators: 6, devices: 3, groups: true };
        let mut rng = seed::stream(0xBA7C, number);
        for problem in [random::problem(number, size), makespan::problem(number, 6)] {
            let placements: Vec<Placement> = (0..20)
                .map(|index| {
                    let device_of = devices(&problem, &mut rng);
                    let mut priority: Vec<_> = problem.graph().operators().collect();
                    match index % 4 {
                        0 => return Placement::new(device_of),
                        // A priority that lists an operator twice.
                        1 => priority[0] = priority[priority.len() - 1],
                        _ => priority.reverse(),
                    }
                    Placement::with_priority(device_of, priority)
                })
                .collect();
            let mut shared = Values::new(&problem);
            let values: Vec<f64> = placements.iter().map(|placement| shared.of(placement)).collect();
            assert_eq!(values, one_by_one(&problem, &placements), "problem {number}");
            feasible += values.iter().filter(|value| value.is_finite()).count();
        }
    }
    assert!(feasible > 1000, "{feasible}");
}

/// Whether the placement is feasible with its devices in some order, which starts with `order` and continues with those
/// of `left`.
fn has_order(
    problem: &Problem,
    device_of: &[DeviceId],
    order: &mut Vec<DeviceId>,
    left: &[DeviceId],
) -> bool {
    if left.is_empty() {
        let placement = Placement::with_stages(device_of.to_vec(), order.clone(), Default::default());
        let evaluation = evaluate(problem, &placement);
        return !evaluation.violations.iter().any(|violation| violation.to_string().contains("the order"));
    }
    (0..left.len()).any(|index| {
        let mut rest = left.to_vec();
        order.push(rest.remove(index));
        let found = has_order(problem, device_of, order, &rest);
        order.pop();
        found
    })
}

#[test]
fn a_pipeline_order_is_found_iff_there_is_one() {
    let (mut with, mut without) = (0, 0);
    for number in 0..400 {
        let problem = random::problem(number, random::Size { operators: 5, devices: 4, groups: false });
        let mut rng = seed::stream(0x0DE2, number);
        for _ in 0..5 {
            let device_of = devices(&problem, &mut rng);
            let placement = Placement::in_pipeline_order(&problem, device_of.clone());
            let used = Placement::new(device_of.clone()).used();
            let exists = has_order(&problem, &device_of, &mut Vec::new(), &used);
            assert_eq!(!placement.stages().is_empty(), exists, "problem {number}");
            if exists {
                assert!(has_order(&problem, &device_of, &mut placement.stages().to_vec(), &[]));
                assert_eq!(placement.used().len(), used.len());
                with += 1;
            } else {
                without += 1;
            }
        }
    }
    assert!(with > 500 && without > 100, "{with} {without}");
}
