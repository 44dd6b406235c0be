//! Memory certificates: the checker replays every bound under every objective, and no certificate, genuine or tampered
//! with, proves more than the best placement.

use rand::RngExt;
use stagewright::report::document::{Provenance, plan_document};
use stagewright_core::bound::{Bound, LowerBound, MemoryPrices};
use stagewright_core::document::{CertificateDocument, PlanDocument, Schedule, Split};
use stagewright_core::evaluate::evaluate;
use stagewright_core::objective::{Objective, Throughput};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Plan, Solution};
use stagewright_testing::random::Size;
use stagewright_testing::tight::tight;
use stagewright_testing::{brute_force, makespan, makespan_optimum, random};
use stagewright_verify::{BoundEvidence, BoundVerdict, check};

/// A feasible placement of minimum value.
fn best(problem: &Problem) -> Option<(Placement, f64)> {
    let mut best: Option<(Placement, f64)> = None;
    let mut keep = |placement: &Placement, value: f64| {
        if best.as_ref().is_none_or(|best| value < best.1) {
            best = Some((placement.clone(), value));
        }
    };
    if matches!(problem.objective(), Objective::Makespan { .. }) {
        makespan_optimum::visit(problem, |placement, timeline| keep(placement, timeline.makespan()));
    } else {
        brute_force::least(problem, &mut |placement, evaluation| {
            keep(placement, evaluation.value);
            evaluation.value
        });
    }
    best
}

/// A problem with too little memory.
fn problem(number: u64) -> Problem {
    let size = Size { operators: 5, devices: 4, groups: false };
    let problem = match number % 3 {
        0 => makespan::problem(number, 4),
        1 => random::problem(number, size).with_objective(Objective::Latency { calls: 1 }).expect("latency"),
        _ => {
            let problem = random::problem(number, size);
            let given = problem.objective().rules();
            let has_schedule = number.is_multiple_of(2);
            let rules = Throughput { is_bottleneck: false, training: Default::default(), ..given };
            let free = Throughput { split: Split::Free, schedule: Schedule::None, microbatches: 1, ..rules };
            problem.with_objective(if has_schedule { rules } else { free }).expect("throughput")
        }
    };
    tight(&problem, number)
}

fn document(problem: &Problem, placement: &Placement, claim: &LowerBound) -> PlanDocument {
    let plan = Plan { placement: placement.clone(), evaluation: evaluate(problem, placement) };
    let solution = Solution::with_plan("none", plan, claim.clone(), None);
    plan_document(problem, &solution, Provenance { solver: "none".into(), seconds: 0.0, seed: 0 })
}

fn verdict(problem: &Problem, plan: &PlanDocument) -> BoundVerdict {
    let (graph, cluster) = (problem.graph().document(), problem.cluster().document());
    check(graph, cluster, Some(problem.pins()), plan).expect("a plan").bound
}

#[test]
fn every_bound_of_memory_is_verified_and_no_tampered_certificate_passes_the_optimum() {
    let (mut verified, mut priced, mut below, mut tampered, mut refused) = ([0; 3], 0, 0, 0, 0);
    for number in 0..900 {
        let problem = problem(number);
        let Some((placement, optimum)) = best(&problem) else { continue };
        let bound = MemoryPrices.compute(&problem).expect("a feasible problem has bounds");
        let mut plan = document(&problem, &placement, &bound);
        match verdict(&problem, &plan) {
            BoundVerdict::Verified { proved_s, .. } => {
                assert!(bound.value <= proved_s * (1.0 + 1e-9), "{number}: {proved_s} of {}", bound.value);
                assert!(proved_s <= optimum * (1.0 + 1e-9), "{number}: {proved_s} > {optimum}");
                verified[number as usize % 3] += 1;
            }
            other => panic!("{number}: {other:?} of {}", bound.value),
        }
        // Claims more than the certificate proves.
        plan.bound.value_s = Some(optimum);
        if bound.value < optimum * 0.99 {
            assert!(matches!(verdict(&problem, &plan), BoundVerdict::Refuted { .. }), "{number}");
            refused += 1;
        }
        let mut rng = seed::stream(0x4D45, number);
        for _ in 0..10 {
            plan.bound.certificate = bound.certificate.as_ref().map(|it| it.to_document(&problem));
            plan.bound.value_s = Some(0.0);
            let Some(
                CertificateDocument::Fluid { memory, below_s, .. }
                | CertificateDocument::Windows { memory, below_s, .. },
            ) = &mut plan.bound.certificate
            else {
                panic!("{number}: prices of memory")
            };
            priced += usize::from(!memory.is_empty());
            below += usize::from(below_s.is_some());
            for price in memory.values_mut() {
                price.price *= rng.random_range(0.0..3.0);
                price.quantum_bytes *= rng.random_range(0.3..3.0);
            }
            *below_s = rng.random_bool(0.5).then(|| optimum * rng.random_range(0.5..2.0));
            match verdict(&problem, &plan) {
                BoundVerdict::Verified { proved_s, .. } => {
                    assert!(proved_s <= optimum * (1.0 + 1e-9), "{number}: {proved_s} > {optimum}");
                    tampered += 1;
                }
                BoundVerdict::Refuted { by: BoundEvidence::Fluid | BoundEvidence::Windows, .. } => {}
                other => panic!("{number}: {other:?}"),
            }
        }
    }
    assert!(verified.iter().all(|&count| count > 70), "{verified:?} verified");
    assert!(
        priced > 200 && below > 200 && tampered > 500 && refused > 100,
        "{priced} {below} {tampered} {refused}"
    );
}
