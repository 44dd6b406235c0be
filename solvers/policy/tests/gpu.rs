//! The network gives the same output and learns the same on a GPU as on the CPU. Skipped without a GPU.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use crate::support;

use candle_core::{DType, Device};
use stagewright_policy::features::Input;
use stagewright_policy::learn::{AdamConfig, Example, Targets, Trainer};
use stagewright_policy::network::Network;
use stagewright_testing::learning::step;
use support::{all_of, figures, random_network, small};

/// Tolerance for sums in another order.
const CLOSE: f64 = 2e-3;

fn gpu() -> Option<Device> {
    match Device::new_cuda(0) {
        Ok(device) => Some(device),
        Err(error) => {
            println!("skipped: no GPU answers: {error}");
            None
        }
    }
}

fn inputs() -> Vec<Input> {
    let figures_of =
        |number: u64| figures(&step(number, 10 + number as usize, 2 + number as u32 % 6), number);
    (0..40).filter_map(figures_of).take(6).collect()
}

/// The current placement as the target: enough to have gradients everywhere.
fn taught(input: Input) -> Example {
    let mut affinity = vec![0.0; input.units * input.devices];
    for (unit, &home) in input.home.iter().enumerate() {
        affinity[unit * input.devices + home.index()] = 1.0;
    }
    let edges = input.edges.len();
    let targets = Targets {
        together: vec![0.5; edges],
        edge_weight: vec![1.0 / edges.max(1) as f32; edges],
        affinity,
        unit_weight: vec![1.0 / input.units as f32; input.units],
        before: input.order.windows(2).map(|pair| (pair[0], pair[1])).collect(),
        value: 0.2,
    };
    Example { input, targets }
}

#[test]
fn a_gpu_says_what_the_processor_says() {
    let Some(device) = gpu() else { return };
    let inputs = inputs();
    let inputs: Vec<&Input> = inputs.iter().collect();
    let on = |device: &Device| all_of(&random_network(small(), 5, DType::F32, device), &inputs);
    let (here, there) = (on(&Device::Cpu), on(&device));
    for (index, (a, b)) in here.iter().zip(&there).enumerate() {
        assert!((a - b).abs() <= CLOSE * (1.0 + a.abs()), "{index}: {a} on the processor, {b} on the GPU");
    }
    assert_eq!(there, on(&device), "the same bits every time");
}

#[test]
fn a_gpu_learns_what_the_processor_learns() {
    let Some(device) = gpu() else { return };
    let examples: Vec<Example> = inputs().into_iter().map(taught).collect();
    let examples: Vec<&Example> = examples.iter().collect();
    let lost = |device: &Device| {
        let network = Network::new(small(), 5, DType::F32, device).expect("a network");
        let mut trainer = Trainer::new(network, AdamConfig::default()).expect("a training");
        let step = |_| trainer.imitate(&examples, 1e-3).expect("a step").0;
        let losses: Vec<_> = (0..5).map(step).collect();
        losses
            .iter()
            .map(|losses| [losses.affinity, losses.together, losses.priority, losses.value])
            .collect::<Vec<_>>()
    };
    for (step, (here, there)) in lost(&Device::Cpu).iter().zip(lost(&device)).enumerate() {
        for (a, b) in here.iter().zip(there) {
            assert!(
                (a - b).abs() <= CLOSE * (1.0 + a.abs()),
                "step {step}: {a} on the processor, {b} on the GPU"
            );
        }
    }
}
