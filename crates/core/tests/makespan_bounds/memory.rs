//! The memory bound, compared with every placement and priority of small problems with too little memory, and by hand.

use stagewright_core::bound::{
    Bound, CriticalPath, Energetic, Fluid, HeaviestUnit, MemoryPrices, OneMachine, Windows, strongest_of,
};
use stagewright_core::document::Execution;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_testing::tight::{beside_a_host, tight};

use super::{exhaustive, random};

const OTHERS: [&dyn Bound; 6] = [&Fluid, &HeaviestUnit, &CriticalPath, &OneMachine, &Energetic, &Windows];

/// Counts the problems with a feasible placement, those on which the memory bound exceeds all other bounds, and those
/// on which it then reaches the optimum.
fn attack(problems: impl Iterator<Item = Problem>) -> [u32; 3] {
    let mut counts = [0; 3];
    for (number, problem) in problems.enumerate() {
        let Some(optimum) = exhaustive::optimum(&problem) else { continue };
        let value = MemoryPrices.compute(&problem).expect("a feasible problem has bounds").value;
        assert!(value <= optimum, "{number}: {value} > {optimum}");
        let passes =
            MemoryPrices.applies(&problem) && value > strongest_of(&OTHERS, &problem).value * (1.0 + 1e-6);
        let reaches = passes && value >= optimum * (1.0 - 1e-6);
        for (count, is_so) in counts.iter_mut().zip([true, passes, reaches]) {
            *count += u32::from(is_so);
        }
    }
    counts
}

#[test]
fn memory_bounds_no_step_beyond_the_best_placement() {
    let any =
        (0..1500).map(|number| tight(&random::problem(number, [3, 4, 4, 5][number as usize % 4]), number));
    let hosted = (0..600).map(|number| {
        let execution = if number % 2 == 0 { Execution::Ports } else { Execution::ContentionFree };
        beside_a_host(number, [3, 4, 5][number as usize % 3], Objective::Makespan { execution })
    });
    let (any, hosted) = (attack(any), attack(hosted));
    assert!(any[0] > 300 && hosted[0] > 400, "{any:?} {hosted:?}");
    assert!(hosted[1] > 100 && hosted[2] > 20, "{hosted:?} attacked, passed, reached");
}
