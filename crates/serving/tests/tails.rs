//! 95th percentiles of offers against the simulator, on random plans. `docs/serving-times.md` has the figures.

use rand::RngExt;
use stagewright_core::document::{ServingFactorDocument, ServingRole, ServingStatistic};
use stagewright_core::seed;
use stagewright_serving::simulator::{Arrivals, Fleet, Settings, Traffic, simulate};
use stagewright_serving::{Engine, RequestClass, Terms, engines};

use super::agreement::{group, pick, random_device, random_model, replica, spread};

/// Number of plans.
const PLANS: usize = 200;

/// Requests that are simulated.
const REQUESTS: f64 = 2000.0;

/// Deviations of the formulas from the simulator.
struct Case {
    is_apart: bool,
    /// Share of time in which prompts are read.
    busy: f64,
    ttft: f64,
    /// `None` for prompts apart from decoding.
    tpot: Option<f64>,
}

/// The case of a number; `None` if the plan does not fit.
fn case(number: u64) -> Option<Case> {
    let rng = &mut seed::stream(0x7A11, number);
    let model = random_model(rng);
    let (engine, chunk) = (rng.random_range(0..engines().len()), pick(rng, &[2048, 8192]));
    let engine = Engine { chunk, outside_bytes: 0.0, ..engines()[engine].clone() };
    let device = random_device(rng, &model);
    let class = RequestClass::new(spread(rng, 64.0, 4096.0) as u64, spread(rng, 32.0, 512.0) as u64);
    let terms = Terms {
        class,
        ttft: f64::INFINITY,
        tpot: f64::INFINITY,
        statistic: ServingStatistic::P95,
        transfer: device.between,
        factor: ServingFactorDocument { ttft: 1.0, tpot: 1.0 },
    };
    let served = replica(rng, &model, &engine, &device);
    let is_apart = rng.random_bool(0.5);
    let (groups, arrivals, offer, busy, tpot, decoded) = if is_apart {
        let decode = replica(rng, &model, &engine, &device);
        let slow = terms.decode(&decode, 16)?;
        let offer = terms.prefill(&served, slow.tpot?, rng.random_range(0.1..0.95))?;
        // Enough decode replicas that none of them is full.
        let count = 1 + (2.0 * offer.rate / slow.rate) as u64;
        let groups =
            vec![group(ServingRole::Prefill, &served, 1), group(ServingRole::Decode, &decode, count)];
        (groups, Arrivals::Poisson { rate: offer.rate }, offer, offer.utilisation?, None, slow.tpot?)
    } else {
        let batch = spread(rng, 2.0, 64.0) as u64;
        let offer = terms.aggregated(&served, batch).expect("a class")?;
        let busy = offer.rate / served.data() * served.prompt_seconds(&class);
        let groups = vec![group(ServingRole::Aggregated, &served, 1)];
        (groups, Arrivals::Closed { concurrency: offer.in_flight as u64 }, offer, busy, offer.tpot, 0.0)
    };
    let fleet = Fleet { traffic: vec![Traffic { class, arrivals }], groups, transfer: device.between };
    let period = offer.ttft? + class.output as f64 * tpot.unwrap_or(decoded);
    let settings = Settings {
        seed: number,
        warm_up_s: 2.0 * period,
        measured_s: (REQUESTS / offer.rate).max(3.0 * period),
        events: 20_000_000,
    };
    let outcome = simulate("", &fleet, &settings).expect("a fleet");
    let own = outcome.classes[0];
    assert!(own.finished > 0 && own.refused == 0, "case {number}: {outcome:?}");
    let deviation = |formula: f64, simulated: f64| formula / simulated - 1.0;
    Some(Case {
        is_apart,
        busy,
        ttft: deviation(offer.ttft?, own.ttft.p95),
        tpot: tpot.map(|tpot| deviation(tpot, own.tpot.p95)),
    })
}

/// Median of the absolute deviations.
fn median(deviations: impl Iterator<Item = f64>) -> f64 {
    let mut sizes: Vec<f64> = deviations.map(f64::abs).collect();
    sizes.sort_by(f64::total_cmp);
    sizes[sizes.len() / 2]
}

#[test]
fn percentiles_of_offers_are_near_those_of_the_simulator() {
    let cases: Vec<Case> = (0..).filter_map(case).take(PLANS).collect();
    // Whether prompts are apart, shares of time in which they are read, and bounds of the medians of TTFT and TPOT.
    let situations = [
        (false, 0.0..0.3, 0.1, 0.06),
        (false, 0.3..f64::INFINITY, 0.3, 0.22),
        (true, 0.0..0.5, 0.06, 0.0),
        (true, 0.5..1.0, 0.15, 0.0),
    ];
    for (is_apart, shares, ttft, tpot) in situations {
        let is_own = |case: &&Case| case.is_apart == is_apart && shares.contains(&case.busy);
        let own: Vec<&Case> = cases.iter().filter(is_own).collect();
        assert!(own.len() >= 40, "{is_apart} {shares:?}: {} plans", own.len());
        let found = median(own.iter().map(|case| case.ttft));
        assert!(found < ttft, "{is_apart} {shares:?}: TTFT {found}");
        if !is_apart {
            let found = median(own.iter().filter_map(|case| case.tpot));
            assert!(found < tpot, "{shares:?}: TPOT {found}");
        }
    }
}
