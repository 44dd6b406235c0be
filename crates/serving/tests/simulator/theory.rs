//! Waits in queues whose means are known, and Little's law.

use stagewright_core::document::ServingRole;
use stagewright_serving::simulator::{Arrivals, Settings, Waits, exponential, simulate, single_server};
use stagewright_serving::{Parallel, Replica, RequestClass, Worker, engines};

use super::super::fixture::{DENSE, MIXTURE, device, ideal, model};
use super::{fleet, group, run};

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
        is_near(single_server(seed, rate, [20_000, 300_000], |_| service), exact / 2.0);
        is_near(single_server(seed, rate, [20_000, 300_000], |rng| exponential(rng, service)), exact);
    }
}

#[test]
fn prompts_one_by_one_wait_as_for_constant_services() {
    let (model, device, engine) = (model(DENSE), device(), ideal());
    let replica = Replica::single(Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap());
    let class = RequestClass::new(1000, 1);
    let prompt = replica.prompt_seconds(&class);
    for load in [0.3, 0.7] {
        let mut group = group(ServingRole::Aggregated, &replica);
        group.batch = 1;
        let fleet = fleet(class, Arrivals::Poisson { rate: load / prompt }, vec![group]);
        let (warm_up_s, measured_s) = (1000.0 * prompt, 100_000.0 * prompt);
        let outcome = run(&fleet, &Settings { seed: 5, warm_up_s, measured_s, events: u64::MAX });
        let wait = load * prompt / (2.0 * (1.0 - load));
        let own = outcome.classes[0].ttft.mean - prompt;
        assert!((own / wait - 1.0).abs() < 0.03, "{own} {wait}");
        assert!((outcome.groups[0].utilisation / load - 1.0).abs() < 0.02, "{outcome:?}");
    }
}

#[test]
fn requests_of_closed_loops_obey_littles_law() {
    let (model, device) = (model(MIXTURE), device());
    let mixed = Parallel { tensor: 2, data: 2, expert_tensor: 1, experts: 4 };
    for (engine, parallel) in engines().iter().zip([Parallel::tensor(1), mixed, Parallel::tensor(4)]) {
        let replica = Replica::single(Worker::new("", &model, engine, &device, parallel).unwrap());
        let class = RequestClass::new(700, 90);
        for roles in [vec![ServingRole::Aggregated], vec![ServingRole::Prefill, ServingRole::Decode]] {
            let groups = roles.iter().map(|&role| group(role, &replica)).collect();
            let fleet = fleet(class, Arrivals::Closed { concurrency: 20 }, groups);
            let settings = Settings { seed: 7, warm_up_s: 5.0, measured_s: 100.0, events: 10_000_000 };
            let outcome = simulate("", &fleet, &settings).unwrap();
            let own = outcome.classes[0];
            let inside = own.requests_per_s * (own.ttft.mean + 89.0 * own.tpot.mean);
            assert!(!outcome.is_cut && (inside / 20.0 - 1.0).abs() < 0.03, "{} {inside}", engine.name);
        }
    }
}
