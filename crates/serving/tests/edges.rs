//! Edge cases and refused input.

use stagewright_core::code::Code;
use stagewright_core::document::LinkDocument;
use stagewright_formats::InputError;
use stagewright_serving::{
    Load, Model, Parallel, Replica, RequestClass, Speculation, Step, Worker, aggregated,
};
use stagewright_structure::huggingface::{self, Reading};

use super::fixture::{DENSE, MIXTURE, device, ideal, model, near};

fn is_at(error: &InputError, code: &str, path: &str) -> bool {
    let is_code = |own: Code| own.name == code;
    is_code(error.code) && error.place.at.to_string() == path && !error.help.is_empty()
}

#[test]
fn degrees_that_do_not_fit_are_refused() {
    let (dense, mixture, device, engine) = (model(DENSE), model(MIXTURE), device(), ideal());
    let refuse =
        |model: &Model, parallel| Worker::new("plan", model, &engine, &device, parallel).unwrap_err();
    assert!(is_at(&refuse(&dense, Parallel::tensor(16)), "L020", "tp"), "more devices than heads");
    assert!(is_at(&refuse(&dense, Parallel::tensor(3)), "L020", "tp"));
    assert!(is_at(&refuse(&dense, Parallel::tensor(0)), "L020", "tp"));
    let odd = Parallel { tensor: 1, data: 3, expert_tensor: 1, experts: 3 };
    assert!(is_at(&refuse(&mixture, odd), "L020", "moe_ep"));
    let other = Parallel { tensor: 2, data: 1, expert_tensor: 1, experts: 4 };
    assert!(is_at(&refuse(&mixture, other), "L020", "moe_tp"));
    assert!(
        Worker::new("", &dense, &engine, &device, Parallel::tensor(8)).is_ok(),
        "more devices than heads of keys"
    );
}

#[test]
fn no_tokens_take_no_time_and_one_layer_is_a_model() {
    let (mut single, device, engine) = (model(DENSE), device(), ideal());
    single.layers.truncate(1);
    let worker = Worker::new("", &single, &engine, &device, Parallel::tensor(1)).unwrap();
    assert_eq!(worker.seconds(&Step::decode(0.0, 1000.0)), 0.0);
    assert!(worker.is_first() && worker.is_last());
    let step = Step::decode(1.0, 10.0);
    assert!(near(worker.seconds(&step), worker.kind_seconds(0, &step) + worker.end_seconds(&step)));
    let none = worker.clone().with_layers(7..9);
    assert_eq!((none.layers(), none.cache_bytes(100)), (1..1, 0.0));
}

#[test]
fn encoders_and_models_without_a_vocabulary_are_refused() {
    let bert = r#"{"model_type": "bert", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2,
        "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 64, "type_vocab_size": 2}"#;
    let structure = huggingface::read("config.json", bert.as_bytes(), None, &Reading::default()).unwrap();
    let error = Model::new("config.json", &structure).unwrap_err();
    assert_eq!(error.code.name, "L023");
    let mut structure = huggingface::read("c", DENSE.as_bytes(), None, &Reading::default()).unwrap();
    structure.layers.clear();
    assert!(is_at(&Model::new("c", &structure).unwrap_err(), "L023", "layers"));
}

#[test]
fn requests_without_tokens_and_loads_without_requests_are_refused() {
    let (model, device, engine) = (model(DENSE), device(), ideal());
    let replica = Replica::single(Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap());
    let run = |class: RequestClass, load: Load| aggregated("task", &replica, &class, &load);
    let load = Load::benchmark(4.0);
    assert!(is_at(&run(RequestClass::new(0, 5), load).unwrap_err(), "L024", "input"));
    assert!(is_at(&run(RequestClass::new(5, 0), load).unwrap_err(), "L024", "output"));
    assert!(is_at(&run(RequestClass::new(u64::MAX, 5), load).unwrap_err(), "L024", "input"));
    let shared = RequestClass { input: 5, output: 5, shared_prefix: 5 };
    assert!(is_at(&run(shared, load).unwrap_err(), "L024", "shared_prefix"));
    for concurrency in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = run(RequestClass::new(5, 5), Load::steady(concurrency)).unwrap_err();
        assert!(is_at(&error, "L024", "concurrency"));
    }
    assert!(run(RequestClass::new(1, 1), Load::steady(0.5)).unwrap().is_some());
}

#[test]
fn stages_have_to_hold_the_model_in_order() {
    let (model, device, engine) = (model(MIXTURE), device(), ideal());
    let worker = Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap();
    let data = Parallel { tensor: 1, data: 2, expert_tensor: 2, experts: 1 };
    let twice = Worker::new("", &model, &engine, &device, data).unwrap();
    let part = |layers| worker.clone().with_layers(layers);
    let link = LinkDocument { latency_s: 0.0, bandwidth: 1e9 };
    let refuse = |stages, links| Replica::new("plan", stages, links).unwrap_err();
    assert!(is_at(&refuse(vec![], vec![]), "L020", "stages"));
    assert!(is_at(&refuse(vec![part(0..1), part(2..3)], vec![link]), "L020", "stages[1]"));
    assert!(is_at(&refuse(vec![part(0..1), part(1..2)], vec![link]), "L020", "stages"));
    assert!(is_at(&refuse(vec![part(0..1), part(1..3)], vec![]), "L020", "links"));
    let mixed = vec![part(0..1), twice.with_layers(1..3)];
    assert!(is_at(&refuse(mixed, vec![link]), "L020", "stages[1]"));
}

#[test]
fn a_model_that_does_not_fit_has_no_batch_and_no_prediction() {
    let (model, engine) = (model(DENSE), ideal());
    let mut device = device();
    device.memory = 1e6;
    let worker = Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap();
    assert!(worker.cache_budget() < 0.0);
    assert_eq!(worker.largest_batch(1), 0);
    let replica = Replica::single(worker);
    let prediction = aggregated("", &replica, &RequestClass::new(10, 10), &Load::steady(1.0));
    assert_eq!(prediction.unwrap(), None);
}

#[test]
fn drafts_that_are_never_accepted_only_cost() {
    let (model, device, engine) = (model(DENSE), device(), ideal());
    let plain = Replica::single(Worker::new("", &model, &engine, &device, Parallel::tensor(1)).unwrap());
    let with = |acceptance| {
        let speculation = Speculation { drafts: 3, acceptance, draft_share: 0.05 };
        plain.clone().with_speculation(speculation).token_seconds(4.0, 1000.0)
    };
    assert!(with(0.0) > plain.token_seconds(4.0, 1000.0));
    assert!(with(0.8) < plain.token_seconds(4.0, 1000.0));
    for (acceptance, draft_share, path) in
        [(1.5, 0.0, "acceptance"), (f64::NAN, 0.0, "acceptance"), (0.5, -1.0, "draft_share")]
    {
        let error = Speculation { drafts: 3, acceptance, draft_share }.check("task").unwrap_err();
        assert!(is_at(&error, "L024", path));
    }
    let tokens = |acceptance| Speculation { drafts: 2, acceptance, draft_share: 0.0 }.tokens_per_step();
    assert!([0.0, 0.5, 1.0].map(tokens).iter().zip([1.0, 1.75, 3.0]).all(|(&own, other)| near(own, other)));
}
