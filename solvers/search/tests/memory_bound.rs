//! The bound of memory on random small problems with too little of it: against every placement, and against other bounds.

use stagewright_core::bound::{Bound, CriticalPath, Fluid, HeaviestUnit, MemoryPrices, strongest_of};
use stagewright_core::document::{Communication, Schedule, Split};
use stagewright_core::objective::{Objective, Throughput};
use stagewright_core::problem::Problem;
use stagewright_testing::brute_force;
use stagewright_testing::random::{self, Size};
use stagewright_testing::tight::tight;

use crate::latency_bounds;

const OTHERS: [&dyn Bound; 3] = [&Fluid, &HeaviestUnit, &CriticalPath];

/// The problem of a seed under a split rule and mode, with less memory.
fn throughput(number: u64, split: Split) -> Problem {
    let (operators, devices) = if number.is_multiple_of(3) { (6, 2) } else { (4, 4) };
    let problem = random::problem(number, Size { operators, devices, groups: number.is_multiple_of(2) });
    let given = *problem.objective();
    let communication =
        if number.is_multiple_of(4) { given.rules().communication } else { Communication::Serial };
    let objective = match split {
        Split::Contiguous => Throughput { split, communication, ..given.rules() },
        _ => Throughput { split, communication, schedule: Schedule::None, microbatches: 1, ..given.rules() },
    };
    tight(&problem.with_objective(objective).expect("a valid objective"), number)
}

#[test]
fn memory_bounds_no_throughput_beyond_the_best_placement() {
    let (mut attacked, mut stronger, mut reached) = ([0; 3], [0; 3], [0; 3]);
    for number in 0..1000 {
        for (rule, split) in [Split::Contiguous, Split::Convex, Split::Free].into_iter().enumerate() {
            let problem = throughput(number, split);
            let Some(optimum) = brute_force::optimum(&problem) else { continue };
            let value = MemoryPrices.compute(&problem).expect("a feasible problem has bounds").value;
            assert!(value <= optimum, "{number} {split:?}: {value} > {optimum}");
            attacked[rule] += 1;
            let passes = MemoryPrices.applies(&problem)
                && value > strongest_of(&OTHERS, &problem).value * (1.0 + 1e-6);
            stronger[rule] += u32::from(passes);
            reached[rule] += u32::from(passes && value >= optimum * (1.0 - 1e-6));
        }
    }
    println!("{attacked:?} {stronger:?} {reached:?}");
    assert!(attacked.iter().all(|&count| count > 300), "{attacked:?}");
    assert!(stronger.iter().all(|&count| count > 60), "{stronger:?} passed the others");
    assert!(reached.iter().all(|&count| count > 15), "{reached:?} reached the optimum");
}

#[test]
fn memory_bounds_no_latency_beyond_the_best_placement() {
    let (mut attacked, mut stronger, mut reached) = (0, 0, 0);
    for number in 0..1500 {
        let size =
            Size { operators: 3 + number as usize % 4, devices: 2 + (number / 4) as u32 % 3, groups: false };
        let calls = 1 + number as u32 % 2;
        let problem = random::problem(number, size);
        let problem = problem.with_objective(Objective::Latency { calls }).expect("a valid objective");
        let problem = tight(&problem, number);
        let Some(Some(optimum)) = latency_bounds::optimum(&problem) else { continue };
        let value = MemoryPrices.compute(&problem).expect("a feasible problem has bounds").value;
        assert!(value <= optimum, "{number} {calls}: {value} > {optimum}");
        attacked += 1;
        let passes = MemoryPrices.applies(&problem)
            && value > CriticalPath.compute(&problem).map_or(0.0, |path| path.value) * (1.0 + 1e-6);
        stronger += u32::from(passes);
        reached += u32::from(passes && value >= optimum * (1.0 - 1e-6));
    }
    println!("{attacked} {stronger} {reached}");
    assert!(attacked > 400 && stronger > 100 && reached > 30, "{attacked} {stronger} {reached}");
}
