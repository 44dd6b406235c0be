//! Properties that hold for all models, engines and degrees.

use stagewright_serving::{Device, Parallel, Replica, RequestClass, Step, Worker, engines};

use super::fixture::{ALL, device, model};

/// Degrees that all models allow.
fn degrees() -> Vec<Parallel> {
    let mixed = Parallel { tensor: 2, data: 2, expert_tensor: 1, experts: 4 };
    vec![Parallel::tensor(1), Parallel::tensor(2), Parallel::tensor(4), mixed]
}

/// Runs a test for workers of all models, engines, degrees and devices.
fn each(test: impl Fn(&Worker)) {
    let devices = [device(), Device::named("", "h100").unwrap(), Device::named("", "b200").unwrap()];
    for config in ALL {
        let model = model(config);
        for engine in engines() {
            for device in &devices {
                for parallel in degrees() {
                    if let Ok(worker) = Worker::new("", &model, engine, device, parallel) {
                        test(&worker);
                    }
                }
            }
        }
    }
}

#[test]
fn more_work_never_takes_less_time() {
    let batches = [1.0, 2.0, 3.0, 8.0, 64.0, 500.0, 4096.0];
    let contexts = [0.0, 1.0, 100.0, 200.0, 5000.0, 1e6];
    each(|worker| {
        for &context in &contexts {
            let seconds = batches.map(|batch| worker.seconds(&Step::decode(batch, context)));
            assert!(seconds.is_sorted(), "{seconds:?}");
        }
        for &batch in &batches {
            let seconds = contexts.map(|context| worker.seconds(&Step::decode(batch, context)));
            assert!(seconds.is_sorted(), "{seconds:?}");
            let decode = Step::decode(batch, 1000.0);
            assert!(worker.seconds(&decode.with_prompt(100.0, 0.0)) > worker.seconds(&decode));
        }
    });
}

#[test]
fn longer_sequences_never_leave_room_for_more() {
    each(|worker| {
        let batches = [1, 10, 100, 1000, 10_000, 100_000].map(|context| worker.largest_batch(context));
        assert!(batches.iter().rev().is_sorted(), "{batches:?}");
        let bytes = [0, 1, 127, 128, 129, 4096].map(|context| worker.cache_bytes(context));
        assert!(bytes.is_sorted(), "{bytes:?}");
    });
}

#[test]
fn layers_add_up_wherever_they_are_cut() {
    let step = Step::decode(16.0, 700.0).with_prompt(300.0, 0.0);
    each(|worker| {
        let count = worker.model().layers.len();
        let bytes = worker.weight_bytes();
        for cut in 0..=count {
            let [left, right] = [0..cut, cut..count].map(|layers| worker.clone().with_layers(layers));
            let seconds = left.seconds(&step) + right.seconds(&step);
            let whole = worker.seconds(&step);
            assert!((seconds - whole).abs() < 1e-9 * whole, "{cut}: {seconds} {whole}");
            let parts = left.weight_bytes() + right.weight_bytes();
            assert!((parts - bytes).abs() < 1e-9 * bytes, "{cut}: {parts} {bytes}");
            assert!((left.cache_bytes(99) + right.cache_bytes(99) - worker.cache_bytes(99)).abs() < 1e-3);
        }
    });
}

#[test]
fn a_prompt_in_chunks_takes_at_least_as_long_as_its_products_need() {
    each(|worker| {
        let replica = Replica::single(worker.clone());
        let seconds =
            [10, 100, 8192, 8193, 100_000].map(|input| replica.prompt_seconds(&RequestClass::new(input, 1)));
        assert!(seconds.is_sorted(), "{seconds:?}");
        let shared = RequestClass { input: 9000, output: 1, shared_prefix: 8000 };
        assert!(replica.prompt_seconds(&shared) < replica.prompt_seconds(&RequestClass::new(9000, 1)));
        assert!(replica.prompt_seconds(&shared) > replica.prompt_seconds(&RequestClass::new(1000, 1)));
    });
}
