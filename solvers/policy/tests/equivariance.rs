//! Equivariance: renaming units or devices permutes the network's output and changes nothing else. The output for each
//! graph of a batch equals that for the graph alone. One network serves any number of devices.

use crate::support;

use candle_core::{DType, Device};
use rand::seq::SliceRandom;
use stagewright_core::ids::{Id, Keyed};
use stagewright_core::seed;
use stagewright_policy::features::Input;
use stagewright_policy::network::Network;
use stagewright_policy::predict::Prediction;
use stagewright_testing::learning::step;
use support::{all_of, figures, random_network, small};

fn permutation<I: Id>(count: usize, number: u64) -> Keyed<I, I> {
    let mut to: Keyed<I, I> = I::first(count).collect();
    to.shuffle(&mut seed::stream(8, number));
    to
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs())
}

fn assert_renamed(network: &Network, input: &Input, number: u64) {
    let (unit_to, device_to) = (permutation(input.units, number), permutation(input.devices, number + 1));
    let was = Prediction::new(network, input).expect("a prediction");
    let is = Prediction::new(network, &input.renamed(&unit_to, &device_to)).expect("a prediction");
    assert!(close(was.value, is.value));
    for (edge, (&a, &b)) in was.together.iter().zip(&is.together).enumerate() {
        assert!(close(a, b), "edge {edge}: {a} and {b}");
    }
    for (unit, &to) in unit_to.iter().enumerate() {
        let to = to.index();
        assert!(close(was.priority[unit], is.priority[to]), "priority of {unit}");
        for (device, &device_to) in device_to.iter().enumerate() {
            let (a, b) = (
                was.devices_of(unit, input.devices)[device],
                is.devices_of(to, input.devices)[device_to.index()],
            );
            assert!(close(a, b), "{unit} on {device}: {a} and {b}");
        }
    }
}

#[test]
fn names_of_units_and_devices_do_not_matter() {
    let network = random_network(small(), 4, DType::F64, &Device::Cpu);
    let mut seen = 0;
    for number in 0..60 {
        let devices = [1, 2, 4, 8, 16][number as usize % 5];
        if let Some(input) = figures(&step(number, 3 + number as usize % 25, devices), number) {
            assert_renamed(&network, &input, number);
            seen += 1;
        }
    }
    assert!(seen >= 30, "{seen} of 60");
}

#[test]
fn graphs_of_a_batch_do_not_see_each_other() {
    let network = random_network(small(), 6, DType::F64, &Device::Cpu);
    let figures_of =
        |number: u64| figures(&step(number, 2 + number as usize % 20, 1 + number as u32 % 5), number);
    let inputs: Vec<Input> = (0..12).filter_map(figures_of).collect();
    assert!(inputs.len() >= 4);
    let alone: f64 = inputs.iter().flat_map(|input| all_of(&network, &[input])).sum();
    let batched = all_of(&network, &inputs.iter().collect::<Vec<_>>());
    assert!(close(alone, batched.iter().sum()));
    // Sorted, because a batch concatenates the same parts of all graphs.
    let mut alone: Vec<f64> = inputs.iter().flat_map(|input| all_of(&network, &[input])).collect();
    let mut batched = batched;
    alone.sort_by(f64::total_cmp);
    batched.sort_by(f64::total_cmp);
    assert!(alone.iter().zip(&batched).all(|(&a, &b)| close(a, b)));
}

#[test]
fn the_same_bits_whatever_the_threads() {
    let network = random_network(small(), 7, DType::F32, &Device::Cpu);
    let found = (0..).find_map(|number| figures(&step(number, 40, 4), number));
    let input = found.expect("there are many");
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| all_of(&network, &[&input]))
    };
    let single = on(1);
    for threads in [2, 3] {
        assert!(single.iter().zip(on(threads)).all(|(a, b)| a.to_bits() == b.to_bits()), "{threads} threads");
    }
}
