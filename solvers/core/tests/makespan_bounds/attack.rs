//! No bound passes the best placement, and each passes the cheaper ones somewhere.

use stagewright_core::bound::{Bound, CriticalPath, Energetic, Fluid, HeaviestUnit, OneMachine};

use super::{exhaustive, random};

const INSTANCES: u64 = 2000;

/// The cheapest first.
const BOUNDS: [&dyn Bound; 5] = [&Fluid, &HeaviestUnit, &CriticalPath, &OneMachine, &Energetic];

#[test]
fn no_bound_passes_the_best_placement() {
    let (mut attacked, mut reached, mut alone) = (0, [0; BOUNDS.len()], [0; BOUNDS.len()]);
    let instances = std::env::var("N").map_or(INSTANCES, |n| n.parse().unwrap());
    let mut ratio = 0.0;
    for number in 0..instances {
        let operators = [2, 3, 4, 4, 4, 5][number as usize % 6];
        let problem = random::problem(number, operators);
        let Some(optimum) = exhaustive::optimum(&problem) else { continue };
        attacked += 1;
        let mut strongest = 0.0f64;
        for (at, bound) in BOUNDS.iter().enumerate() {
            assert!(bound.applies(&problem), "{}", bound.name());
            let value = bound.compute(&problem).expect("a feasible problem has bounds").value;
            assert!(value <= optimum, "{number}: {} says {value} > {optimum}", bound.name());
            reached[at] += u32::from(value >= optimum * (1.0 - 1e-6));
            alone[at] += u32::from(value > strongest * (1.0 + 1e-6));
            strongest = strongest.max(value);
        }
        ratio += if optimum > 0.0 { strongest / optimum } else { 1.0 };
    }
    println!("{attacked} {reached:?} {alone:?} {}", ratio / attacked as f64);
}
