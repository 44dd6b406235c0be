//! Times passes and training steps of the network on the CPU and, with the feature `cuda`, on a GPU. Prints one JSON
//! line per figure.
//!
//!     cargo bench -p stagewright-policy --bench network -- passes 1000 10000
//!     cargo bench -p stagewright-policy --bench network -- steps 10
//!
//! `passes` runs a network of the shipped size on random graphs with the given numbers of units, two edges per unit, on
//! eight devices. `steps` trains it for the given number of seconds on batches of 16 and of 64 graphs of 20 to 300
//! units, as in training.

#![allow(missing_docs, clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use candle_core::{DType, Device, Result};
use rand::RngExt;
use rand::distr::Uniform;
use rand::prelude::Distribution;
use stagewright_core::cluster::DeviceId;
use stagewright_core::ids::Id;
use stagewright_core::seed::stream;
use stagewright_makespan::ClusterId;
use stagewright_policy::features::{DEVICE, EDGE, GRAPH, Input, PAIR, UNIT};
use stagewright_policy::learn::{AdamConfig, Example, Targets, Trainer};
use stagewright_policy::network::{Config, Network};

const DEVICES: usize = 8;
/// Graphs per training step: as many as in the shipped training, and more, so that a GPU has enough to do.
const BATCHES: [usize; 2] = [16, 64];
/// Range of the number of units in a graph of a training step.
const SIZES: std::ops::RangeInclusive<usize> = 20..=300;
/// Number of timed passes, unless together they take longer than [`PATIENCE`].
const PASSES: usize = 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// A random graph. Its edges go from lower to higher units, at most 64 apart.
fn input(units: usize, number: u64) -> Input {
    let mut rng = stream(number, units as u64);
    let mut features = |count: usize| -> Vec<f32> {
        let unit = Uniform::new(0.0, 1.0).expect("a range");
        unit.sample_iter(&mut rng).take(count).collect()
    };
    let count = 2 * units.saturating_sub(1);
    let (unit, edge, device) = (features(units * UNIT), features(count * EDGE), features(DEVICES * DEVICE));
    let (pair, graph) = (features(units * DEVICES * PAIR), features(GRAPH));
    let edges = (0..count).map(|edge| {
        let to = 1 + edge / 2;
        (ClusterId::new(to - 1 - rng.random_range(0..to.min(64))), ClusterId::new(to))
    });
    let edges = edges.collect();
    let homes: Vec<DeviceId> = (0..units).map(|_| DeviceId::new(rng.random_range(0..DEVICES))).collect();
    Input {
        units,
        devices: DEVICES,
        unit,
        edges,
        edge,
        device,
        pair,
        graph,
        home: homes.into(),
        capable: vec![true; units * DEVICES],
        order: ClusterId::first(units).collect(),
    }
}

/// A training example whose target is the graph's own placement; learning from it costs as much as from any other.
fn example(units: usize, number: u64) -> Example {
    let input = input(units, number);
    let mut affinity = vec![0.0; units * DEVICES];
    for (unit, home) in input.home.iter().enumerate() {
        affinity[unit * DEVICES + home.index()] = 1.0;
    }
    let edges = input.edges.len();
    let targets = Targets {
        together: vec![0.5; edges],
        edge_weight: vec![1.0 / edges as f32; edges],
        affinity,
        unit_weight: vec![1.0 / units as f32; units],
        before: input.order.windows(2).map(|pair| (pair[0], pair[1])).collect(),
        value: 0.2,
    };
    Example { input, targets }
}

/// Prints the median and the extremes of times in seconds.
fn report(measure: &str, device: &str, size: usize, mut seconds: Vec<f64>) {
    seconds.sort_by(f64::total_cmp);
    let (median, runs) = (seconds[seconds.len() / 2], seconds.len());
    let (least, slowest) = (seconds[0], seconds[runs - 1]);
    println!(
        "{{\"measure\": \"{measure}\", \"device\": \"{device}\", \"size\": {size}, \"seconds\": {median:.6}, \
         \"least\": {least:.6}, \"most\": {slowest:.6}, \"runs\": {runs}}}"
    );
}

/// Times passes, from the numbers of the input to those of the output, after one untimed pass.
fn passes(name: &str, device: &Device, units: usize) -> Result<()> {
    let network = network(device).frozen().map_err(candle_core::Error::wrap)?;
    let input = input(units, 1);
    let pass = || {
        let output = network.forward(&network.batch(&[&input])?)?;
        for part in [&output.priority, &output.together, &output.affinity, &output.value] {
            std::hint::black_box(part.to_device(&Device::Cpu)?);
        }
        device.synchronize()
    };
    pass()?;
    let (begun, mut seconds) = (Instant::now(), Vec::new());
    while seconds.is_empty() || (seconds.len() < PASSES && begun.elapsed() < PATIENCE) {
        let start = Instant::now();
        pass()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    report("pass", name, units, seconds);
    Ok(())
}

/// Times training steps for at least `limit`, after two untimed steps.
fn steps(name: &str, device: &Device, graphs: usize, limit: Duration) -> Result<()> {
    let mut rng = stream(2, 0);
    let examples: Vec<Example> =
        (0..4 * graphs).map(|number| example(rng.random_range(SIZES), number as u64)).collect();
    let mut trainer =
        Trainer::new(network(device), AdamConfig::default()).map_err(candle_core::Error::wrap)?;
    let (mut begun, mut seconds) = (Instant::now(), Vec::new());
    for (step, batch) in examples.chunks(graphs).cycle().enumerate() {
        if step == 2 {
            (begun, seconds) = (Instant::now(), Vec::new());
        }
        let start = Instant::now();
        let batch: Vec<&Example> = batch.iter().collect();
        trainer.imitate(&batch, 1e-4).map_err(candle_core::Error::wrap)?;
        device.synchronize()?;
        seconds.push(start.elapsed().as_secs_f64());
        if step > 2 && begun.elapsed() > limit {
            break;
        }
    }
    report("step", name, graphs, seconds);
    Ok(())
}

fn network(device: &Device) -> Network {
    Network::new(Config::default(), 1, DType::F32, device).expect("a network")
}

/// The GPU, if there is one, and then the CPU, which is slower.
fn devices() -> Vec<(&'static str, Device)> {
    let mut devices = vec![("cpu", Device::Cpu)];
    if !cfg!(feature = "cuda") {
        eprintln!("no GPU is benched without the feature `cuda`");
        return devices;
    }
    match Device::new_cuda(0) {
        Ok(device) => devices.insert(0, ("gpu", device)),
        Err(error) => eprintln!("no GPU is benched, since none answers: {error}"),
    }
    devices
}

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let numbers: Option<Vec<usize>> = words.iter().skip(1).map(|word| word.parse().ok()).collect();
    let least = match words.first().map(String::as_str) {
        Some("passes") => 2,
        Some("steps") => 1,
        _ => usize::MAX,
    };
    let numbers = numbers.filter(|numbers| numbers.iter().min().is_some_and(|&fewest| fewest >= least));
    let (Some(what), Some(numbers)) = (words.first(), numbers) else {
        eprintln!("usage: network passes UNITS… | network steps SECONDS");
        return ExitCode::from(2);
    };
    // A size for which a tensor operation lacks memory is skipped; the figures of smaller sizes have been printed.
    let done = |name: &str, result: Result<()>| {
        if let Err(error) = &result {
            eprintln!("{what} on the {name}: {error}");
        }
        result.is_ok()
    };
    let mut is_complete = true;
    for number in numbers {
        for (name, device) in devices() {
            let result = match what.as_str() {
                "passes" => passes(name, &device, number),
                _ => BATCHES
                    .into_iter()
                    .try_for_each(|graphs| steps(name, &device, graphs, Duration::from_secs(number as u64))),
            };
            is_complete &= done(name, result);
        }
    }
    if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
