//! Agreement with the published simulators, in the start time of every operator.
//!
//! Every instance of the oracle files is run under the configuration of its simulator and compared. Without
//! `STAGEWRIGHT_SHARED` there are no files, and the tests report that they were skipped.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use stagewright_testing::heterogeneous;

use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use stagewright_core::cluster::DeviceId;
use stagewright_core::evaluate::evaluate;
use stagewright_core::placement::Placement;
use stagewright_core::simulate::{ContentionFree, OutBus, Simulator, Span};
use stagewright_core::tolerance::same;

fn oracle<T: DeserializeOwned>(name: &str) -> Option<T> {
    let Some(folder) = std::env::var_os("STAGEWRIGHT_SHARED").map(PathBuf::from) else {
        println!("skipped: STAGEWRIGHT_SHARED is not set");
        return None;
    };
    let path = folder.join("oracles").join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Some(serde_json::from_slice(&bytes).expect("a sound file"))
}

/// Whether two times agree; zero agrees with zero.
fn agree(a: f64, b: f64) -> bool {
    a == b || same(a, b)
}

fn compare(instance: usize, found: &[Span], expected: &[[f64; 2]]) {
    assert_eq!(found.len(), expected.len());
    for (op, (found, &[start, end])) in found.iter().zip(expected).enumerate() {
        assert!(
            agree(found.start, start) && agree(found.end, end),
            "instance {instance}, operator {op}: {found:?}, published {start} to {end}"
        );
    }
}

#[derive(Deserialize)]
struct OutBusFile {
    launch_gap_us: f64,
    bus_gap_us: f64,
    bytes_per_us: f64,
    instances: Vec<OutBusInstance>,
}

#[derive(Deserialize)]
struct OutBusInstance {
    cost_us: Vec<f64>,
    out_bytes: Vec<Vec<f64>>,
    edges: Vec<(u32, u32, u32)>,
    ndev: u32,
    placement: Vec<u32>,
    expected: OutBusExpected,
}

#[derive(Deserialize)]
struct OutBusExpected {
    makespan_us: f64,
    start_end: Vec<[f64; 2]>,
}

#[test]
fn placeto_agrees_on_every_start_and_end() {
    let Some(file) = oracle::<OutBusFile>("makespan_outbus.json") else { return };
    assert!(file.instances.len() >= 100);
    let mut simulator = Simulator::new();
    for (index, instance) in file.instances.iter().enumerate() {
        let step = OutBus {
            devices: instance.ndev,
            placement: &instance.placement,
            seconds: &instance.cost_us,
            output_bytes: &instance.out_bytes,
            edges: &instance.edges,
            launch_gap: file.launch_gap_us,
            bus_gap: file.bus_gap_us,
            bytes_per_second: file.bytes_per_us,
        };
        let timeline = simulator.run(&step.flow().expect("a sound instance"));
        compare(index, timeline.operators(), &instance.expected.start_end);
        let (found, expected) = (timeline.makespan(), instance.expected.makespan_us);
        assert!(agree(found, expected), "instance {index}: makespan {found}, published {expected}");
    }
}

#[derive(Deserialize)]
struct File<T> {
    instances: Vec<T>,
}

#[derive(Deserialize)]
struct ContentionFreeInstance {
    compute: Vec<f64>,
    edges: Vec<(u32, u32, f64)>,
    speed: Vec<f64>,
    delay: Vec<Vec<f64>>,
    sec_per_byte: Vec<Vec<f64>>,
    placement: Vec<u32>,
    expected: ContentionFreeExpected,
}

#[derive(Deserialize)]
struct ContentionFreeExpected {
    makespan: f64,
    start_end: Vec<[f64; 2]>,
}

/// Seconds of every operator on its device.
fn seconds(compute: &[f64], speed: &[f64], placement: &[u32]) -> Vec<f64> {
    compute.iter().zip(placement).map(|(compute, &device)| compute / speed[device as usize]).collect()
}

#[test]
fn giph_agrees_on_every_start_and_end() {
    giph_agrees("makespan_contention_free.json", 100);
}

/// Instances with whole seconds, so that many events coincide.
#[test]
fn giph_agrees_on_ties() {
    giph_agrees("ties.json", 1);
}

fn giph_agrees(name: &str, at_least: usize) {
    let Some(file) = oracle::<File<ContentionFreeInstance>>(name) else { return };
    assert!(file.instances.len() >= at_least);
    let mut simulator = Simulator::new();
    for (index, instance) in file.instances.iter().enumerate() {
        let step = ContentionFree {
            placement: &instance.placement,
            seconds: &seconds(&instance.compute, &instance.speed, &instance.placement),
            edges: &instance.edges,
            delay: &instance.delay,
            seconds_per_byte: &instance.sec_per_byte,
        };
        let timeline = simulator.run(&step.flow().expect("a sound instance"));
        compare(index, timeline.operators(), &instance.expected.start_end);
        let (found, expected) = (timeline.makespan(), instance.expected.makespan);
        assert!(agree(found, expected), "instance {index}: makespan {found}, published {expected}");
    }
}

/// The published makespans of HEFT's placements are those of the simulator without contention, whose queues are ordered
/// by ready time. They are not those of HEFT's own schedule, which orders by rank and fills gaps.
#[test]
fn heft_placements_take_what_is_published() {
    let Some(tasks) = heterogeneous::tasks() else { return };
    let mut simulator = Simulator::new();
    for (index, task) in tasks.iter().enumerate() {
        for (allowed, device) in task.allowed.iter().zip(&task.heft_placement) {
            assert!(allowed.contains(device), "task {index}");
        }
        let step = ContentionFree {
            placement: &task.heft_placement,
            seconds: &seconds(&task.compute, &task.speed, &task.heft_placement),
            edges: &task.edges,
            delay: &task.delay,
            seconds_per_byte: &task.sec_per_byte,
        };
        let found = simulator.run(&step.flow().expect("a sound task")).makespan();
        let expected = task.heft_makespan;
        assert!(agree(found, expected), "task {index}: makespan {found}, published {expected}");
        // A problem with this execution model gives the same makespan.
        let placement = Placement::new(task.heft_placement.iter().copied().map(DeviceId).collect());
        let evaluation = evaluate(&task.problem(), &placement);
        assert!(evaluation.is_feasible(), "task {index}: {:?}", evaluation.violations);
        assert!(
            agree(evaluation.value, expected),
            "task {index}: {}, published {expected}",
            evaluation.value
        );
    }
}
