//! Window certificates on random steps: the checker replays every bound, and no certificate, genuine or tampered with,
//! proves more than the best placement under the best priority.

use rand::RngExt;
use stagewright::report::document::{Provenance, plan_document};
use stagewright_core::bound::{
    Bound, CriticalPath, Energetic, Fluid, HeaviestUnit, LowerBound, OneMachine, Windows, strongest_of,
};
use stagewright_core::document::CertificateDocument;
use stagewright_core::evaluate::evaluate;
use stagewright_core::graph::OpId;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Plan, Solution};
use stagewright_testing::{makespan, makespan_optimum};
use stagewright_verify::{BoundEvidence, BoundVerdict, check};

/// The verdict on a claimed bound with its certificate, in a plan with a feasible placement.
fn verdict(
    problem: &Problem,
    placement: &Placement,
    claim: f64,
    certificate: CertificateDocument,
) -> BoundVerdict {
    let plan = Plan { placement: placement.clone(), evaluation: evaluate(problem, placement) };
    let solution = Solution::with_plan("none", plan, LowerBound::TRIVIAL, None);
    let provenance = Provenance { solver: "none".into(), seconds: 0.0, seed: 0 };
    let mut document = plan_document(problem, &solution, provenance);
    document.bound.value_s = Some(claim);
    document.bound.certificate = Some(certificate);
    let pins = problem.pins();
    check(problem.graph().document(), problem.cluster().document(), Some(pins), &document)
        .expect("a plan")
        .bound
}

/// A feasible placement of minimum makespan, and its makespan.
fn best(problem: &Problem) -> Option<(Placement, f64)> {
    let mut best: Option<(Placement, f64)> = None;
    makespan_optimum::visit(problem, |placement, timeline| {
        if best.as_ref().is_none_or(|best| timeline.makespan() < best.1) {
            best = Some((placement.clone(), timeline.makespan()));
        }
    });
    best
}

#[test]
fn every_bound_is_verified_and_no_certificate_passes_the_optimum() {
    let (mut verified, mut tampered, mut near) = (0, 0, 0);
    for number in 0..400 {
        let problem = makespan::problem(number, 4);
        let Some((placement, optimum)) = best(&problem) else { continue };
        let bound = Windows.compute(&problem).expect("a feasible problem has bounds");
        let certificate = bound.certificate.expect("a certificate").to_document(&problem);
        match verdict(&problem, &placement, bound.value, certificate.clone()) {
            BoundVerdict::Verified { by: BoundEvidence::Windows, proved_s } => {
                assert!(
                    bound.value <= proved_s && proved_s <= optimum * (1.0 + 1e-9),
                    "{number}: {proved_s}"
                );
                verified += 1;
            }
            other => panic!("{number}: {other:?} of {}", bound.value),
        }
        let CertificateDocument::Windows { prices, path, .. } = certificate else { panic!("windows") };
        let mut rng = seed::stream(0x71ED, number);
        for _ in 0..20 {
            // The path consists of arbitrary operators, most of which lie on no path, or of operators of the genuine
            // path.
            let names = problem.graph().operators().map(|op: OpId| problem.graph().operator(op).name.clone());
            let path: Vec<String> = match rng.random_bool(0.5) {
                true => path.iter().filter(|_| rng.random_bool(0.7)).cloned().collect(),
                false => names.filter(|_| rng.random_bool(0.6)).collect(),
            };
            let windows = (0..=2 * path.len() as u32).filter(|_| rng.random_bool(0.6)).collect();
            let mut price = |_: &f64| f64::from(rng.random_range(0..4));
            let prices = prices.iter().map(|(kind, it)| (kind.clone(), price(it))).collect();
            let (memory, below_s) = Default::default();
            let certificate = CertificateDocument::Windows { prices, path, windows, memory, below_s };
            match verdict(&problem, &placement, 0.0, certificate) {
                BoundVerdict::Verified { proved_s, .. } => {
                    assert!(proved_s <= optimum * (1.0 + 1e-9), "{number}: {proved_s} > {optimum}");
                    tampered += 1;
                    near += u32::from(proved_s > 0.8 * optimum);
                }
                BoundVerdict::Refuted { by: BoundEvidence::Windows, .. } => {}
                other => panic!("{number}: {other:?}"),
            }
        }
    }
    assert!(
        verified > 200 && tampered > 300 && near > 50,
        "{verified} verified, {tampered} tampered, {near} near"
    );
}

/// On some larger steps, the windows exceed every other bound that ignores communication.
#[test]
fn work_confined_by_a_path() {
    let others: [&dyn Bound; 5] = [&Fluid, &HeaviestUnit, &CriticalPath, &OneMachine, &Energetic];
    let larger = (0..300)
        .filter(|&number| {
            let problem = makespan::problem(number, 24);
            let windows = Windows.compute(&problem).map_or(0.0, |bound| bound.value);
            windows > strongest_of(&others, &problem).value * 1.001
        })
        .count();
    assert!(larger >= 3, "{larger} of 300");
}
