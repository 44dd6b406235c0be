//! Random flows under each configuration: the engine and the reference agree on every result, to the last bit.
//!
//! Times and bytes are small integers, zero included, so that ties are frequent and sums are exact.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use stagewright_core::seed;
use stagewright_core::simulate::{Activity, Cause, Flow, Operator, Rules, Simulator, Span, Timeline};

use super::reference::{self, Outcome};
use super::step::{Step, Tensor, Transfer};

const INSTANCES: u64 = 3000;

fn operators(rng: &mut ChaCha8Rng, devices: u32, pauses: bool, limit: usize) -> Vec<Operator> {
    let count = rng.random_range(1..=limit);
    let mut operator = || {
        let seconds = f64::from(rng.random_range(0..4u8));
        Operator {
            device: rng.random_range(0..devices),
            rank: rng.random_range(0..6),
            seconds,
            pause: if pauses && seconds > 0.0 { f64::from(rng.random_range(0..2u8)) } else { 0.0 },
            fixed_bytes: f64::from(rng.random_range(0..5u8)),
            workspace_bytes: f64::from(rng.random_range(0..5u8)),
        }
    };
    (0..count).map(|_| operator()).collect()
}

/// Draws readers of a tensor among the operators after its producer, in order.
fn readers(rng: &mut ChaCha8Rng, producer: usize, count: usize) -> Vec<u32> {
    (producer + 1..count).filter(|_| rng.random_bool(0.3)).map(|op| op as u32).collect()
}

fn by_device(operators: &[Operator], readers: &[u32], home: u32) -> (Vec<u32>, Vec<(u32, Vec<u32>)>) {
    let device = |op: u32| operators[op as usize].device;
    let at_home = readers.iter().copied().filter(|&op| device(op) == home).collect();
    let mut away: Vec<u32> = readers.iter().map(|&op| device(op)).filter(|&device| device != home).collect();
    away.sort_unstable();
    away.dedup();
    let on = |there: u32| readers.iter().copied().filter(|&op| device(op) == there).collect();
    (at_home, away.into_iter().map(|there| (there, on(there))).collect())
}

/// A step with ingress and egress ports, a shared port on some routes, and tensors whose producers are in any order.
fn with_ports(rng: &mut ChaCha8Rng) -> Step {
    let devices = rng.random_range(1..5);
    let operators = operators(rng, devices, false, 9);
    let mut tensors = Vec::new();
    for _ in 0..rng.random_range(0..14) {
        let producer = rng.random_range(0..operators.len());
        let home = operators[producer].device;
        let readers = readers(rng, producer, operators.len());
        let (at_home, away) = by_device(&operators, &readers, home);
        let bytes = f64::from(rng.random_range(0..5u8));
        let transfers = away.into_iter().map(|copy| {
            let mut ports = vec![home, devices + copy.0];
            ports.truncate(rng.random_range(0..3));
            if rng.random_bool(0.3) {
                ports.push(2 * devices);
            }
            Transfer { seconds: f64::from(rng.random_range(0..4u8)), gap: 0.0, ports, copies: vec![copy] }
        });
        let transfers = transfers.collect();
        tensors.push(Tensor { producer: producer as u32, bytes, at_home, transfers });
    }
    let has_priority = rng.random_bool(0.5);
    Step { rules: Rules::PORTS, devices, ports: 2 * devices + 1, has_priority, operators, tensors }
}

/// A step with one bus per device, at most one transfer per tensor, pauses and gaps.
fn with_buses(rng: &mut ChaCha8Rng) -> Step {
    let devices = rng.random_range(1..5);
    let operators = operators(rng, devices, true, 9);
    let gap = f64::from(rng.random_range(0..2u8));
    let mut order: Vec<usize> = (0..operators.len()).collect();
    order.sort_by_key(|&op| operators[op].device);
    let mut tensors = Vec::new();
    for producer in order {
        for _ in 0..rng.random_range(0..3) {
            let home = operators[producer].device;
            let readers = readers(rng, producer, operators.len());
            let (at_home, copies) = by_device(&operators, &readers, home);
            let bytes = f64::from(rng.random_range(0..4u8));
            let transfer = Transfer { seconds: bytes, gap, ports: vec![home], copies };
            let transfers = if transfer.copies.is_empty() { Vec::new() } else { vec![transfer] };
            tensors.push(Tensor { producer: producer as u32, bytes, at_home, transfers });
        }
    }
    Step { rules: Rules::OUT_BUS, devices, ports: devices, has_priority: false, operators, tensors }
}

/// A step without ports: tensors whose producers are in any order, with one transfer for each reader on another device,
/// and one for all readers on the home device.
fn without_contention(rng: &mut ChaCha8Rng) -> Step {
    let devices = rng.random_range(1..5);
    let operators = operators(rng, devices, false, 20);
    let mut tensors = Vec::new();
    for _ in 0..rng.random_range(0..2 * operators.len()) {
        let producer = rng.random_range(0..operators.len());
        let home = operators[producer].device;
        let mut at_home = Vec::new();
        let mut transfers = Vec::new();
        for reader in readers(rng, producer, operators.len()) {
            let there = operators[reader as usize].device;
            let mut send = |copies| {
                let seconds = f64::from(rng.random_range(0..4u8));
                transfers.push(Transfer { seconds, gap: 0.0, ports: Vec::new(), copies });
            };
            if there != home {
                send(vec![(there, vec![reader])]);
            } else {
                if at_home.is_empty() {
                    send(Vec::new());
                }
                at_home.push(reader);
            }
        }
        let bytes = f64::from(rng.random_range(0..4u8));
        tensors.push(Tensor { producer: producer as u32, bytes, at_home, transfers });
    }
    let (rules, has_priority) = (Rules::CONTENTION_FREE, rng.random_bool(0.3));
    Step { rules, devices, ports: 0, has_priority, operators, tensors }
}

fn outcome(timeline: &Timeline) -> Outcome {
    let ends = |spans: &[Span]| spans.iter().map(|span| [span.start, span.end]).collect();
    Outcome {
        makespan: timeline.makespan(),
        operators: ends(timeline.operators()),
        transfers: ends(timeline.transfers()),
        peaks: timeline.peak_bytes().to_vec(),
    }
}

/// Checks that the critical path leads from the last event to the beginning without a hole except for pauses and gaps.
fn check_path(flow: &Flow, timeline: &Timeline) {
    let path = timeline.critical_path(flow);
    let rest = |activity: Activity| match activity {
        Activity::Operator(op) => flow.operator(op).pause,
        Activity::Transfer(transfer) => flow.transfer_seconds(transfer)[1],
    };
    let first = path.first().expect("something runs");
    let after = timeline.makespan() - first.span.end;
    assert!(after == 0.0 || after == rest(first.activity), "{path:?}");
    for two in path.windows(2) {
        let rest = if two[0].cause == Cause::Input { 0.0 } else { rest(two[1].activity) };
        assert_eq!(two[1].span.end + rest, two[0].span.start, "{path:?}");
        assert_ne!(two[0].cause, Cause::Nothing, "{path:?}");
    }
    let last = path.last().expect("something runs");
    assert_eq!((last.span.start, last.cause), (0.0, Cause::Nothing), "{path:?}");
}

fn agrees(draw: fn(&mut ChaCha8Rng) -> Step) {
    let mut simulator = Simulator::new();
    let mut distinct = std::collections::BTreeSet::new();
    for instance in 0..INSTANCES {
        let step = draw(&mut seed::stream(7, instance));
        let flow = step.flow().expect("a sound step");
        let timeline = simulator.run(&flow);
        assert_eq!(outcome(timeline), reference::simulate(&step), "instance {instance}: {step:#?}");
        check_path(&flow, timeline);
        distinct.insert(timeline.makespan().to_bits());
    }
    assert!(distinct.len() > 10, "the instances differ");
}

#[test]
fn ports_agree_with_the_reference() {
    agrees(with_ports);
}

#[test]
fn out_bus_agrees_with_the_reference() {
    agrees(with_buses);
}

#[test]
fn contention_free_agrees_with_the_reference() {
    agrees(without_contention);
}
