//! Checkpoints read back bit by bit; damaged files, foreign files and files with non-finite numbers are rejected with
//! their error codes; interrupted and resumed training equals uninterrupted training.

use crate::support;

use candle_core::{DType, Device, Tensor};
use stagewright_core::seed;
use stagewright_core::solver::{Context, Limits, Silent, Solver};
use stagewright_makespan::HEFT;
use stagewright_makespan::instance::Instance;
use stagewright_policy::checkpoint::{Card, CheckpointError};
use stagewright_policy::learn::{AdamConfig, Example, Teacher, TrainError, Trainer, example};
use stagewright_policy::network::Network;
use stagewright_policy::subject::Subject;
use stagewright_testing::learning::step;
use support::{all_of, figures, small};

fn network() -> (Network, Card) {
    (Network::new(small(), 3, DType::F32, &Device::Cpu).expect("a network"), Card::new(small(), 3))
}

fn code(bytes: &[u8]) -> &'static str {
    match Network::from_bytes(bytes, &Device::Cpu) {
        Ok(_) => "read",
        Err(error) => {
            assert!(!error.help().is_empty() && !error.to_string().is_empty());
            error.code().name
        }
    }
}

#[test]
fn what_is_written_reads_back() {
    let (network, card) = network();
    let bytes = network.to_bytes(&card).expect("bytes");
    assert_eq!(bytes, network.to_bytes(&card).expect("bytes"), "the same bytes every time");
    let (again, read) = Network::from_bytes(&bytes, &Device::Cpu).expect("a checkpoint");
    assert_eq!(card, read);
    let found = (0..).find_map(|number| figures(&step(number, 12, 3), number));
    let input = found.expect("there are many");
    assert_eq!(all_of(&network, &[&input]), all_of(&again, &[&input]));
}

#[test]
fn what_is_cut_short_is_refused_wherever_it_is_cut() {
    let (network, card) = network();
    let bytes = network.to_bytes(&card).expect("bytes");
    for length in (0..bytes.len()).step_by(997).chain([bytes.len() - 1]) {
        assert_eq!(code(&bytes[..length]), "K001", "{length} bytes of {}", bytes.len());
    }
    assert_eq!(code(b"{\"schema\": \"stagewright.plan/1\"}"), "K001");
}

#[test]
fn what_is_of_something_else_is_refused() {
    let (network, card) = network();
    let with = |change: &dyn Fn(&mut Card)| {
        let mut card = card.clone();
        change(&mut card);
        network.to_bytes(&card).expect("bytes")
    };
    assert_eq!(code(&with(&|card| card.schema = "stagewright.policy/2".into())), "K003");
    assert_eq!(code(&with(&|card| card.features += 1)), "K004");
    assert_eq!(code(&with(&|card| card.network.heads = 3)), "K005");
    assert_eq!(code(&with(&|card| card.network.width = 0)), "K005");
    assert_eq!(code(&with(&|card| card.network.layers = usize::MAX)), "K005");
    assert_eq!(code(&with(&|card| card.network.layers = 3)), "K006");
    assert_eq!(code(&with(&|card| card.network.layers = 1)), "K006");
    assert_eq!(code(&with(&|card| card.network.width = 16)), "K006");
    let plain = safetensors_of(&[1.0, 2.0]);
    assert_eq!(code(&plain), "K002");
}

fn safetensors_of(numbers: &[f32]) -> Vec<u8> {
    let data: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![numbers.len()], &data);
    safetensors::serialize([("x", view.expect("a view"))], None).expect("bytes")
}

#[test]
fn numbers_that_are_none_are_refused() {
    let (network, card) = network();
    for bad in [f32::NAN, f32::INFINITY] {
        let var = network.weights().vars().values().next_back().expect("a parameter");
        let numbers = vec![bad; var.elem_count()];
        var.set(&Tensor::from_vec(numbers, var.dims(), &Device::Cpu).expect("a tensor")).expect("alike");
        assert_eq!(code(&network.to_bytes(&card).expect("bytes")), "K007");
    }
}

fn examples() -> Vec<Example> {
    let mut found = Vec::new();
    for number in 0..16 {
        let problem = step(number, 10, 3);
        let Some(input) = figures(&problem, number) else { continue };
        let mut silent = Silent;
        let limits = Limits { time: None, ..Limits::default() };
        let mut context = Context::new(limits, &mut silent);
        let Some(plan) = HEFT.solve(&problem, &mut context).expect("a solution").plan else { continue };
        let instance = Instance::new(&problem);
        let subject = Subject::new(&instance, usize::MAX, false);
        let teacher = Teacher { value: plan.value(), placement: plan.placement };
        found.push(example(&subject, input, &[teacher], 1e-3, &mut seed::stream(1, number)));
    }
    assert!(found.len() >= 4);
    found
}

#[test]
fn a_training_that_goes_on_is_one_that_never_stopped() {
    let examples = examples();
    let config = AdamConfig { learning_rate: 3e-3, ..AdamConfig::default() };
    let steps = |trainer: &mut Trainer, count: u64| {
        for _ in 0..count {
            let step = trainer.step() as usize;
            let batch = [&examples[step % examples.len()], &examples[(step + 1) % examples.len()]];
            trainer.imitate(&batch, config.rate_at(trainer.step(), 12)).expect("a step");
        }
    };
    let (network, card) = network();
    let mut whole = Trainer::new(network, config).expect("a training");
    steps(&mut whole, 12);

    let mut part = Trainer::new(self::network().0, config).expect("a training");
    steps(&mut part, 5);
    let bytes = part.to_bytes(&card, serde_json::json!({"seen": 5})).expect("bytes");
    drop(part);
    let (mut rest, state) = Trainer::from_bytes(&bytes, config, &Device::Cpu).expect("a state");
    assert_eq!((state.step, rest.step()), (5, 5));
    assert_eq!(state.progress, serde_json::json!({"seen": 5}));
    steps(&mut rest, 7);
    let bytes_of = |trainer: &Trainer| trainer.network.to_bytes(&card).expect("bytes");
    assert!(bytes_of(&whole) == bytes_of(&rest), "the same parameters to the bit");

    // A state is not a checkpoint, and vice versa.
    assert_eq!(code(&bytes), "K003");
    let error = Trainer::from_bytes(&bytes_of(&whole), config, &Device::Cpu).expect_err("no state");
    assert!(matches!(error, TrainError::State(CheckpointError::Schema(..))), "{error}");
    for length in (0..bytes.len()).step_by(9973) {
        let error = Trainer::from_bytes(&bytes[..length], config, &Device::Cpu).expect_err("cut short");
        assert_eq!(error.code(), "K001");
    }
}

#[test]
fn imitation_learns_what_it_is_taught() {
    let examples = examples();
    let all: Vec<&Example> = examples.iter().collect();
    let config = AdamConfig { learning_rate: 1e-2, warmup: 5, ..AdamConfig::default() };
    let mut trainer = Trainer::new(network().0, config).expect("a training");
    let before = trainer.losses(&all).expect("losses");
    for step in 0..150 {
        trainer.imitate(&all, config.rate_at(step, 150)).expect("a step");
    }
    let after = trainer.losses(&all).expect("losses");
    assert!(after.affinity < 0.5 * before.affinity, "{} to {}", before.affinity, after.affinity);
    assert!(after.priority < 0.7 * before.priority, "{} to {}", before.priority, after.priority);
    assert!(after.hits > 0.8, "{} of the units where they are taught to be", after.hits);
}
