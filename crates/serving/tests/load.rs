//! Replicas and pools under loads.

use stagewright_core::document::LinkDocument;
use stagewright_serving::{
    Engine, Load, Parallel, Pools, Replica, RequestClass, Step, Worker, aggregated, disaggregated,
};

use super::fixture::{DENSE, device, ideal, model, near};

#[test]
fn aggregated_times_follow_the_formulas() {
    let (model, device) = (model(DENSE), device());
    let engine = Engine { prompt_share: 0.5, wait_steps: 2.0, wait_s: 0.01, burst: 0.1, ..ideal() };
    let worker = Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap();
    let class = RequestClass::new(1000, 200);
    let prediction =
        aggregated("", &Replica::single(worker.clone()), &class, &Load::benchmark(16.0)).unwrap().unwrap();
    let decode = worker.seconds(&Step::decode(16.0, 1100.0));
    let others = Step::decode(15.0, 1100.0);
    let delay = worker.seconds(&others.with_prompt(1000.0, 0.0)) - worker.seconds(&others);
    let tpot = decode + 0.5 * 15.0 * delay / 200.0;
    let prompt = worker.seconds(&Step::prompt(1000.0, 0.0));
    let ttft = prompt + 2.0 * tpot + 0.01 + 0.1 * 15.0 * prompt;
    assert!(near(prediction.tpot, tpot), "{prediction:?} {tpot}");
    assert!(near(prediction.ttft, ttft), "{prediction:?} {ttft}");
    let rate = 16.0 / (ttft + 199.0 * tpot);
    assert!(near(prediction.requests_per_s, rate) && near(prediction.tokens_per_s, 200.0 * rate));
    assert_eq!((prediction.batch, prediction.waiting), (16.0, 0.0));
}

#[test]
fn requests_beyond_the_memory_wait_and_do_not_slow_the_others() {
    let (model, engine) = (model(DENSE), ideal());
    let mut device = device();
    let worker = Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap();
    device.memory = worker.weight_bytes() + 10.5 * worker.cache_bytes(1200);
    let replica = Replica::single(Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap());
    let class = RequestClass::new(1000, 200);
    let run = |load: f64| aggregated("", &replica, &class, &Load::steady(load)).unwrap().unwrap();
    let (full, queue) = (run(10.0), run(30.0));
    assert_eq!((full.batch, full.waiting, queue.batch, queue.waiting), (10.0, 0.0, 10.0, 20.0));
    assert!(near(full.tpot, queue.tpot));
    assert!(near(full.requests_per_s, queue.requests_per_s), "{full:?} {queue:?}");
    assert!(queue.ttft > 2.0 * (full.ttft + 199.0 * full.tpot));
}

#[test]
fn more_requests_at_once_never_lower_times() {
    let (model, device) = (model(DENSE), device());
    for engine in stagewright_serving::engines() {
        let worker = Worker::new("", &model, engine, &device, Parallel::tensor(2)).unwrap();
        let replica = Replica::single(worker);
        let class = RequestClass::new(512, 128);
        let run = |load: f64| aggregated("", &replica, &class, &Load::benchmark(load)).unwrap().unwrap();
        let predictions = [1.0, 2.0, 5.0, 17.0, 64.0, 300.0].map(run);
        assert!(predictions.iter().map(|prediction| prediction.ttft).is_sorted());
        assert!(predictions.iter().map(|prediction| prediction.tpot).is_sorted());
    }
}

fn pools<'a>(worker: &Worker<'a>, prefills: u64, decodes: u64) -> Pools<'a> {
    Pools {
        prefill: Replica::single(worker.clone()),
        prefills,
        decode: Replica::single(worker.clone()),
        decodes,
        transfer: LinkDocument { latency_s: 1e-4, bandwidth: 1e10 },
    }
}

#[test]
fn requests_of_pools_are_where_littles_law_puts_them() {
    let (model, device, engine) = (model(DENSE), device(), ideal());
    let worker = Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap();
    let class = RequestClass::new(1000, 200);
    let pools = pools(&worker, 4, 2);
    let prediction = disaggregated("", &pools, &class, &Load::steady(64.0)).unwrap().unwrap();
    let decoding = 199.0 * prediction.tpot;
    let batch = 64.0 * decoding / (prediction.ttft + decoding) / 2.0;
    assert!((prediction.batch - batch).abs() < 1e-6 * batch, "{prediction:?} {batch}");
    assert!(near(prediction.tpot, worker.seconds(&Step::decode(prediction.batch, 1100.0))));
    assert!(near(pools.decode_rate(&class, prediction.batch), prediction.batch * 2.0 / decoding));
    let sent = 1e-4 + worker.cache_bytes(1000) / 1e10;
    assert!(near(pools.transfer_seconds(&class), sent));
    assert!(near(prediction.ttft, worker.seconds(&Step::prompt(1000.0, 0.0)) + sent));
}

#[test]
fn a_pool_that_cannot_keep_up_bounds_the_rate() {
    let (model, device, engine) = (model(DENSE), device(), ideal());
    let worker = Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap();
    let class = RequestClass::new(8000, 20);
    let pools = pools(&worker, 1, 4);
    let prediction = disaggregated("", &pools, &class, &Load::steady(200.0)).unwrap().unwrap();
    let rate = pools.prefill_rate(&class);
    assert!((prediction.requests_per_s / rate - 1.0).abs() < 1e-6, "{prediction:?} {rate}");
    assert!(near(rate, 1.0 / worker.seconds(&Step::prompt(8000.0, 0.0))));
}
