//! Gradients of every parameter of the network, through every layer and head, and of the loss, against finite
//! differences.

use crate::support;

use candle_core::{DType, Device, Tensor};
use rand::RngExt;
use stagewright_core::seed;
use stagewright_makespan::ClusterId;
use stagewright_policy::features::Input;
use stagewright_policy::learn::{Targets, imitation};
use stagewright_policy::network::Network;
use stagewright_testing::learning::step;
use support::{figures, random_network, small};

const STEP: f64 = 1e-5;

/// Compares the gradients of a loss with central differences for a few numbers of every parameter. Returns the number
/// of parameters with a non-zero gradient.
fn compare(network: &Network, loss: impl Fn(&Network) -> Tensor) -> usize {
    let value = |network: &Network| loss(network).to_scalar::<f64>().expect("a scalar");
    let gradients = loss(network).backward().expect("gradients");
    let mut felt = 0;
    for (index, (name, var)) in network.weights().vars().iter().enumerate() {
        let gradient: Vec<f64> = match gradients.get(var) {
            Some(gradient) => gradient.flatten_all().and_then(|all| all.to_vec1()).expect("numbers"),
            None => vec![0.0; var.elem_count()],
        };
        felt += usize::from(gradient.iter().any(|&slope| slope != 0.0));
        let start: Vec<f64> = var.flatten_all().and_then(|all| all.to_vec1()).expect("numbers");
        let mut rng = seed::stream(3, index as u64);
        for _ in 0..4 {
            let number = rng.random_range(0..start.len());
            let moved = |by: f64| {
                let mut numbers = start.clone();
                numbers[number] += by;
                let tensor = Tensor::from_vec(numbers, var.dims(), &Device::Cpu).expect("a tensor");
                var.set(&tensor).expect("alike");
                value(network)
            };
            let slope = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            moved(0.0);
            let error = (slope - gradient[number]).abs();
            assert!(
                error <= 1e-6 + 1e-4 * slope.abs(),
                "{name}[{number}]: {} by the chain rule, {slope} by differences",
                gradient[number]
            );
        }
    }
    felt
}

fn two_inputs() -> [Input; 2] {
    let figures_of = |number, operators, devices| figures(&step(number, operators, devices), number);
    let mut found =
        (0..).filter_map(|number| figures_of(number, 5 + 4 * (number as usize % 2), 2 + number as u32 % 2));
    [0, 1].map(|_| found.next().expect("a problem that has a plan"))
}

#[test]
fn every_head_and_layer() {
    let inputs = two_inputs();
    let network = random_network(small(), 1, DType::F64, &Device::Cpu);
    let batch = network.batch(&[&inputs[0], &inputs[1]]).expect("a batch");
    let felt = compare(&network, |network| {
        let output = network.forward(&batch).expect("an output");
        let mut sum = Tensor::zeros((), DType::F64, &Device::Cpu).expect("a tensor");
        for (index, part) in
            [&output.priority, &output.together, &output.affinity, &output.value].iter().enumerate()
        {
            let mut rng = seed::stream(9, index as u64);
            let weights: Vec<f64> = (0..part.elem_count()).map(|_| rng.random_range(-1.0..1.0)).collect();
            let weights = Tensor::from_vec(weights, part.dims(), &Device::Cpu).expect("a tensor");
            // Non-linear, so that errors do not cancel.
            let part = part.tanh().and_then(|part| part * weights).and_then(|part| part.sum_all());
            sum = (sum + part.expect("a scalar")).expect("a scalar");
        }
        sum
    });
    let silent = network.weights().vars().len() - felt;
    assert_eq!(silent, 0, "parameters that nothing depends on");
}

fn targets(input: &Input, number: u64) -> Targets {
    let mut rng = seed::stream(12, number);
    let mut shares = |count: usize| -> Vec<f32> {
        let raw: Vec<f32> = (0..count).map(|_| rng.random_range(0.0..1.0)).collect();
        let sum: f32 = raw.iter().sum();
        raw.iter().map(|share| share / sum).collect()
    };
    let affinity = (0..input.units).flat_map(|_| shares(input.devices)).collect();
    Targets {
        edge_weight: shares(input.edges.len()),
        unit_weight: shares(input.units),
        together: shares(input.edges.len()),
        affinity,
        before: (1..).take(input.units - 1).map(|unit| (ClusterId(unit - 1), ClusterId(unit))).collect(),
        value: 0.3,
    }
}

#[test]
fn imitation_loss() {
    let inputs = two_inputs();
    let network = random_network(small(), 2, DType::F64, &Device::Cpu);
    let targets = [targets(&inputs[0], 0), targets(&inputs[1], 1)];
    let batch = network.batch(&[&inputs[0], &inputs[1]]).expect("a batch");
    compare(&network, |network| {
        let output = network.forward(&batch).expect("an output");
        imitation(&output, &batch, &[&targets[0], &targets[1]]).expect("a loss").total
    });
}
