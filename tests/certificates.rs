//! Certificates of column generation on random small problems: the checker replays the solver's claims, and no
//! certificate, genuine or tampered with, proves more than brute force allows.

#![cfg(feature = "milp")]

use stagewright_testing::random;
use stagewright_testing::replicated;

use rand::seq::SliceRandom;
use rand::{Rng, RngExt};
use random::Size;
use stagewright::report::document::{Provenance, plan_document};
use stagewright_core::document::{CertificateDocument, PlanDocument, Schedule, Split};
use stagewright_core::graph::ClassId;
use stagewright_core::objective::Throughput;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Limits, Silent, Solution, Solver};
use stagewright_milp::Bnp;
use stagewright_verify::{BoundEvidence, BoundVerdict, Report, check};

const SOURCE: &str = "column-generation";
fn free(number: u64, operators: usize) -> Problem {
    let problem = random::problem(number, Size { operators, devices: 4, groups: number.is_multiple_of(3) });
    let given = *problem.objective();
    let objective =
        Throughput { split: Split::Free, schedule: Schedule::None, microbatches: 1, ..given.rules() };
    problem.with_objective(objective).expect("a valid objective")
}

/// The solution of column generation, and its plan after a round trip through JSON.
fn solved(problem: &Problem) -> (Solution, PlanDocument) {
    let mut silent = Silent;
    let limits = Limits { time: None, ..Limits::default() };
    let mut context = Context::new(limits, &mut silent);
    let solution = Bnp::ALONE.solve(problem, &mut context).expect("a free problem");
    let provenance = Provenance { solver: "bnp".into(), seconds: 0.0, seed: 0 };
    let written = serde_json::to_string(&plan_document(problem, &solution, provenance)).expect("JSON");
    (solution, serde_json::from_str(&written).expect("the same document"))
}

fn report(problem: &Problem, plan: &PlanDocument) -> Report {
    check(problem.graph().document(), problem.cluster().document(), None, plan).expect("a sound problem")
}

#[test]
fn every_bound_of_column_generation_is_verified() {
    let (mut verified, mut replicated) = (0, 0);
    for number in 0..700 {
        let problem = free(number, 8);
        let (solution, plan) = solved(&problem);
        let report = report(&problem, &plan);
        assert!(report.violations.is_empty(), "{number}: {:?}", report.violations);
        if solution.plan.is_none() || solution.bound.source != SOURCE {
            continue;
        }
        let BoundVerdict::Verified { by: BoundEvidence::ColumnGeneration, proved_s } = report.bound else {
            panic!("{number}: {:?} of {:?}", report.bound, plan.bound)
        };
        assert!(proved_s >= solution.bound.value, "{number}");
        verified += 1;
        replicated += u32::from(problem.objective().rules().max_replicas > 1);
    }
    assert!(verified > 80 && replicated > 30, "{verified} verified, {replicated} of them with replicas");
}

/// A certificate with random prices, threshold and order.
fn tampered(rng: &mut impl Rng, problem: &Problem, optimum: f64) -> CertificateDocument {
    let graph = problem.graph();
    let price = |rng: &mut _| f64::from(Rng::next_u32(rng) % 5);
    let operator = |class: ClassId| graph.operator(graph.class(class)[0]).name.clone();
    let classes = || graph.class_ids();
    let seconds = |class: ClassId| {
        let op = graph.class(class)[0];
        (0..problem.pools().len()).filter_map(|pool| problem.seconds(op, pool)).fold(f64::INFINITY, f64::min)
    };
    let by_work = rng.random_bool(0.5);
    let worth = |rng: &mut _, class: ClassId| match seconds(class) {
        seconds if by_work && seconds.is_finite() => seconds,
        _ => price(rng),
    };
    let prices = classes().map(|class| (operator(class), worth(rng, class))).collect();
    let pools = problem.pools().iter().map(|pool| problem.cluster().device_name(pool.devices[0]));
    let devices = pools.map(|name| (name, if rng.random_bool(0.5) { 0.0 } else { price(rng) })).collect();
    let mut order: Vec<String> = classes().map(operator).collect();
    order.shuffle(rng);
    let threshold_s = optimum * [0.2, 0.5, 0.8, 1.0 - 1e-9, 1.0, 1.0 + 1e-9, 1.5][rng.random_range(0..7)];
    CertificateDocument::ColumnGeneration { threshold_s, prices, devices, order }
}

#[test]
fn no_certificate_proves_what_brute_force_refutes() {
    let (mut proved, mut near, mut attacked) = (0, 0, 0);
    for number in 0..800 {
        let problem = free(number, 5);
        let best = replicated::replicated_optimum(&problem).flatten();
        let Some(best) = best.filter(|&best| best > 0.0) else { continue };
        let (_, mut plan) = solved(&problem);
        let own = plan.bound.certificate.clone();
        let mut rng = seed::stream(0xC0DE, number);
        let mut attack = |certificate: CertificateDocument| {
            let CertificateDocument::ColumnGeneration { threshold_s, .. } = certificate else { return };
            plan.bound.value_s = Some(threshold_s.min(best));
            plan.bound.certificate = Some(certificate);
            if let BoundVerdict::Verified { proved_s, .. } = report(&problem, &plan).bound {
                assert!(
                    proved_s < best,
                    "{number}: {proved_s} proved, but a plan has {best}: {:?}",
                    plan.bound
                );
                proved += 1;
                near += u32::from(proved_s > 0.7 * best);
            }
            attacked += 1;
        };
        for _ in 0..20 {
            attack(tampered(&mut rng, &problem, best));
        }
        // The genuine prices, at thresholds around and above the optimum.
        if let Some(CertificateDocument::ColumnGeneration { prices, devices, order, .. }) = own {
            for threshold_s in [best * (1.0 - 1e-9), best, best * (1.0 + 1e-9), best * 1.1] {
                let (prices, devices, order) = (prices.clone(), devices.clone(), order.clone());
                attack(CertificateDocument::ColumnGeneration { threshold_s, prices, devices, order });
            }
        }
    }
    let enough = attacked > 5000 && proved > 500 && near > 100;
    assert!(enough, "{attacked} attacked, {proved} proved, {near} of them near the optimum");
}
