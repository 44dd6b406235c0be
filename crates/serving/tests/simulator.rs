//! The simulator against queueing theory.

use stagewright_serving::simulator::{Waits, exponential, single_server};

fn is_near(waits: Waits, theory: f64) {
    let error = (waits.mean - theory).abs();
    assert!(error < (3.0 * waits.standard_error).max(0.02 * theory), "{waits:?} {theory}");
}

#[test]
fn waits_at_one_server_are_those_of_theory() {
    for (seed, load) in [(1, 0.3), (2, 0.6), (3, 0.9)] {
        let service = 0.02;
        let rate = load / service;
        let exact = load * service / (1.0 - load);
        is_near(single_server(seed, rate, [20_000, 600_000], |_| service), exact / 2.0);
        is_near(single_server(seed, rate, [20_000, 600_000], |rng| exponential(rng, service)), exact);
    }
}
