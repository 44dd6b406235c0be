//! Seconds and bytes that are computed by hand from the widths of small models.

use stagewright_core::document::LinkDocument;
use stagewright_serving::{Engine, MemoryOf, Parallel, Replica, Step, Worker};

use super::fixture::{DENSE, LATENT, MIXTURE, WINDOW, device, ideal, model, near};

/// Weights of a layer of the dense model: queries and output of 1024 × 1024, keys and values of 1024 × 256, three of the block.
const LAYER: f64 = 2.0 * 1024.0 * 1024.0 + 2.0 * 1024.0 * 256.0 + 3.0 * 1024.0 * 4096.0;

/// Weights of the projection to the vocabulary of the dense model.
const HEAD: f64 = 1024.0 * 32000.0;

/// The rounded maximum of two times.
fn both(read: f64, compute: f64) -> f64 {
    (read.powi(3) + compute.powi(3)).cbrt()
}

#[test]
fn a_decode_step_of_a_dense_model_reads_weights_and_caches() {
    let (model, device, engine) = (model(DENSE), device(), ideal());
    let worker = Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap();
    // One sequence after 1000 tokens; 16-bit weights at 1e12 bytes a second and two FLOP at 1e14.
    let products = |weights: f64| both(2.0 * weights / 1e12, 2.0 * weights / 1e14);
    // Keys and values of 2 heads of 128 in 16 bits.
    let cache = 1000.0 * 2.0 * 2.0 * 128.0 * 2.0 / 1e12;
    // Products that are divided alike are joined: keys and values apart from the others.
    let (keys, rest) = (2.0 * 1024.0 * 256.0, LAYER - 2.0 * 1024.0 * 256.0);
    let expected = 2.0 * (products(keys) + products(rest) + cache) + products(HEAD);
    assert!(near(worker.seconds(&Step::decode(1.0, 1000.0)), expected));
}

#[test]
fn a_prompt_of_a_dense_model_is_bound_by_flop() {
    let (model, device, engine) = (model(DENSE), device(), ideal());
    let worker = Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap();
    let products = |weights: f64, tokens: f64| both(2.0 * weights / 1e12, 2.0 * weights * tokens / 1e14);
    let (keys, rest) = (2.0 * 1024.0 * 256.0, LAYER - 2.0 * 1024.0 * 256.0);
    // A token sees half of 4096 others: scores and sums of 8 heads of 128.
    let attention = 4096.0 * 2048.0 * 2.0 * 8.0 * (128.0 + 128.0) / 1e14;
    let expected = 2.0 * (products(keys, 4096.0) + products(rest, 4096.0) + attention) + products(HEAD, 1.0);
    assert!(near(worker.seconds(&Step::prompt(4096.0, 0.0)), expected));
}

#[test]
fn tensor_parallelism_divides_products_and_adds_all_reduces() {
    let (model, device) = (model(DENSE), device());
    let engine = Engine { hop_s: 2e-6, ..ideal() };
    let worker = Worker::new("", &model, &engine, &device, Parallel::tensor(4)).unwrap();
    let products = |weights: f64| both(2.0 * weights / 1e12, 2.0 * weights * 8.0 / 1e14);
    // 2 heads of keys on 4 devices are copied twice; each device has one, and a quarter of the rest.
    let (keys, rest) = (2.0 * 1024.0 * 256.0 / 2.0, (LAYER - 2.0 * 1024.0 * 256.0) / 4.0);
    let cache = 8.0 * 1000.0 * 2.0 * 128.0 * 2.0 / 1e12;
    // Two all-reduces of 8 hidden states in 16 bits: two doublings, and 2 · 3/4 of the bytes over a link.
    let reduce = 2.0 * (2.0 * 2e-6 + 1.5 * 8.0 * 1024.0 * 2.0 / 1e11);
    let expected = 2.0 * (products(keys) + products(rest) + cache + reduce) + products(HEAD / 4.0);
    assert!(near(worker.seconds(&Step::decode(8.0, 1000.0)), expected));
}

#[test]
fn experts_are_read_as_often_as_tokens_hit_them() {
    let (model, device, engine) = (model(MIXTURE), device(), ideal());
    let worker = Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap();
    let step = |batch: f64| worker.seconds(&Step::decode(batch, 0.0));
    let expert = 3.0 * 512.0 * 1024.0;
    let products = |weights: f64, tokens: f64| both(2.0 * weights / 1e12, 2.0 * weights * tokens / 1e14);
    // Queries and output of 512 × 512 with the router are apart from keys and values only by their division.
    let (rest, keys, router) = (2.0 * 512.0 * 512.0, 2.0 * 512.0 * 512.0, 512.0 * 8.0);
    for batch in [1.0, 4.0] {
        // Of 8 experts, 2 a token: 2 for one token, 8 · (1 − (3/4)^4) for four.
        let distinct = 8.0 * (1.0 - 0.75_f64.powf(batch));
        let experts = both(2.0 * distinct * expert / 1e12, 2.0 * batch * 2.0 * expert / 1e14);
        let layer = products(rest, batch) + products(keys, batch) + products(router, batch) + experts;
        let expected = 3.0 * layer + products(512.0 * 1000.0, batch);
        assert!(near(step(batch), expected), "{batch}: {} {expected}", step(batch));
    }
}

#[test]
fn bytes_of_weights_and_caches_are_those_of_the_tensors() {
    let (dense, mixture, device, engine) = (model(DENSE), model(MIXTURE), device(), ideal());
    let worker = |parallel| Worker::new("", &dense, &engine, &device, parallel).unwrap();
    // Two norms a layer and one at the end.
    let norms = 5.0 * 1024.0;
    assert!(near(worker(Parallel::tensor(1)).weight_bytes(), 2.0 * (2.0 * LAYER + 2.0 * HEAD + norms)));
    let keys = 2.0 * 1024.0 * 256.0;
    let quarter = 2.0 * ((LAYER - keys) / 4.0 + keys / 2.0) + 2.0 * HEAD / 4.0 + norms;
    assert!(near(worker(Parallel::tensor(4)).weight_bytes(), 2.0 * quarter));
    assert!(near(worker(Parallel::tensor(1)).cache_bytes(100), 2.0 * 100.0 * 2.0 * 256.0 * 2.0));
    assert!(near(worker(Parallel::tensor(4)).cache_bytes(100), 100.0 * 2.0 * 256.0 * 2.0));
    let single = Worker::new("", &mixture, &engine, &device, Parallel::tensor(1)).unwrap();
    let whole = 3.0 * (4.0 * 512.0 * 512.0 + 512.0 * 8.0 + 8.0 * 3.0 * 512.0 * 1024.0) + 2.0 * 512.0 * 1000.0;
    assert!(near(single.weight_bytes(), 2.0 * (whole + 7.0 * 512.0)));
}

#[test]
fn the_largest_batch_is_what_the_budget_holds() {
    let (model, device) = (model(DENSE), device());
    let total = Engine { memory_share: 0.9, outside_bytes: 1e9, ..ideal() };
    let free = Engine { memory_of: MemoryOf::Free, ..total.clone() };
    let weights = Worker::new("", &model, &total, &device, Parallel::tensor(1)).unwrap().weight_bytes();
    // 2 layers with 2 heads of 128, keys and values, in 16 bits.
    let sequence = 2.0 * 2.0 * 256.0 * 2.0 * 5000.0;
    for (engine, budget) in [(&total, 9e9 - 1e9 - weights), (&free, 0.9 * (9e9 - weights))] {
        let worker = Worker::new("", &model, engine, &device, Parallel::tensor(1)).unwrap();
        assert!(near(worker.cache_budget(), budget));
        assert_eq!(worker.largest_batch(5000), (budget / sequence) as u64);
    }
}

#[test]
fn latents_are_whole_on_every_device_and_windows_bound_caches() {
    let (latent, window, device, engine) = (model(LATENT), model(WINDOW), device(), ideal());
    for degree in [1, 4] {
        let worker = Worker::new("", &latent, &engine, &device, Parallel::tensor(degree)).unwrap();
        assert!(near(worker.cache_bytes(100), 4.0 * 100.0 * (128.0 + 32.0) * 2.0));
    }
    let worker = Worker::new("", &window, &engine, &device, Parallel::tensor(1)).unwrap();
    let token = 2.0 * 8.0 * 64.0 * 2.0;
    assert!(near(worker.cache_bytes(1000), 2.0 * (1000.0 + 128.0) * token));
}

#[test]
fn stages_follow_each_other_and_the_slowest_sets_the_pace() {
    let (model, device, engine) = (model(LATENT), device(), ideal());
    let worker = Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap();
    let stages = vec![worker.clone().with_layers(0..1), worker.clone().with_layers(1..4)];
    let link = LinkDocument { latency_s: 1e-5, bandwidth: 1e10 };
    let replica = Replica::new("", stages.clone(), vec![link]).unwrap();
    // A batch of 8 is two microbatches of 4, each of which waits for the slower stage twice.
    let step = Step::decode(4.0, 500.0);
    let first = stages[0].seconds(&step) + 1e-5 + 4.0 * 512.0 * 2.0 / 1e10;
    let slowest = first.max(stages[1].seconds(&step));
    assert!(near(replica.token_seconds(8.0, 500.0), 2.0 * slowest));
    let whole = Replica::single(worker.clone());
    assert!(near(whole.token_seconds(8.0, 500.0), worker.seconds(&Step::decode(8.0, 500.0))));
    let layers: f64 = stages.iter().map(|stage| stage.seconds(&step)).sum();
    assert!(near(layers, worker.seconds(&step)), "stages divide the layers and the ends");
}
