//! Traces are readable by viewers: valid JSON, all events within the makespan, no overlaps within a row.

use std::collections::BTreeMap;

use serde_json::Value;
use stagewright::report::step::{Step, trace};
use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Execution, GroupDocument, KindDocument, LinkDocument, OperatorDocument,
    TensorDocument,
};
use stagewright_core::graph::GraphBuilder;
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_testing::steps::{placed, problem};

fn events(step: &Step) -> Vec<Value> {
    let mut bytes = Vec::new();
    trace::write(step, &mut bytes).expect("memory takes it");
    let trace: Value = serde_json::from_slice(&bytes).expect("valid JSON");
    assert_eq!(trace["displayTimeUnit"], "ms");
    trace["traceEvents"].as_array().expect("events").clone()
}

fn of_phase<'a>(events: &'a [Value], phase: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["ph"] == phase).collect()
}

/// A field in microseconds, converted to nanoseconds.
fn nanoseconds(value: &Value) -> i64 {
    (value.as_f64().expect("a number") * 1e3).round() as i64
}

#[test]
fn every_event_lies_in_the_step_and_alone_in_its_row() {
    let (mut overlays, mut crossings) = (0, 0);
    for number in 0..1_500 {
        let problem = problem(number);
        let chosen = placed(&problem, number);
        let step = Step::new(&problem, &chosen);
        let (events, end) = (events(&step), (step.makespan() * 1e9).round() as i64);
        let flow = step.flow();
        let transfers = 0..flow.transfer_count() as u32;

        let complete = of_phase(&events, "X");
        let rows: usize = transfers.clone().map(|transfer| flow.ports_of(transfer).len()).sum();
        assert_eq!(complete.len(), problem.graph().operator_count() + rows, "{number}");
        let portless = transfers.filter(|&transfer| flow.ports_of(transfer).is_empty()).count();
        for phase in ["b", "e"] {
            assert_eq!(of_phase(&events, phase).len(), portless, "{number}");
        }
        overlays += portless;
        crossings += complete.iter().filter(|event| event["pid"] == step.devices().len() as u64 + 1).count();

        let mut named: BTreeMap<(u64, u64), u32> = BTreeMap::new();
        for event in of_phase(&events, "M").into_iter().filter(|event| event["name"] == "thread_name") {
            let row = (event["pid"].as_u64().expect("a process"), event["tid"].as_u64().expect("a thread"));
            *named.entry(row).or_default() += 1;
        }
        let mut by_row: BTreeMap<(u64, u64), Vec<[i64; 2]>> = BTreeMap::new();
        for event in &complete {
            let row = (event["pid"].as_u64().expect("a process"), event["tid"].as_u64().expect("a thread"));
            assert_eq!(named.get(&row), Some(&1), "{number}: a row has one name");
            let start = nanoseconds(&event["ts"]);
            let until = start + nanoseconds(&event["dur"]);
            assert!(0 <= start && start <= until && until <= end, "{number}: {event}");
            by_row.entry(row).or_default().push([start, until]);
        }
        for spans in by_row.values_mut() {
            spans.sort_unstable();
            assert!(spans.windows(2).all(|two| two[0][1] <= two[1][0]), "{number}: {spans:?}");
        }
    }
    assert!(overlays > 100 && crossings > 500, "{overlays}, {crossings}");
}

#[test]
fn counters_are_what_devices_hold() {
    let mut reached = 0;
    for number in 0..1_000 {
        let problem = problem(number);
        let chosen = placed(&problem, number);
        let step = Step::new(&problem, &chosen);
        let events = events(&step);
        let counters = of_phase(&events, "C");
        for (process, device) in (1u64..).zip(step.devices()) {
            let mine: Vec<_> = counters.iter().filter(|event| event["pid"] == process).collect();
            let bytes = |event: &Value| event["args"]["bytes"].as_f64().expect("bytes");
            let moments: Vec<i64> = mine.iter().map(|event| nanoseconds(&event["ts"])).collect();
            assert_eq!(moments.first(), Some(&0), "{number}");
            assert!(moments.windows(2).all(|two| two[0] < two[1]), "{number}: {moments:?}");
            let largest = mine.iter().map(|event| bytes(event)).fold(0.0, f64::max);
            assert!(largest <= device.peak_bytes, "{number}: {largest} of {}", device.peak_bytes);
            reached += u32::from(largest == device.peak_bytes);
            // At the end, only permanent bytes remain and, in version 2, the outputs of the model.
            let graph = problem.graph();
            let operators: Vec<_> =
                graph.operators().filter(|&op| chosen.device_of(op) == device.device).collect();
            let mut fixed: f64 = operators
                .iter()
                .map(|&op| graph.operator(op))
                .map(|operator| operator.parameter_bytes + operator.optimizer_bytes)
                .sum();
            if graph.is_version_2() {
                fixed += operators.iter().map(|&op| graph.operator(op).activation_bytes).sum::<f64>();
                for (parameter, document) in graph.parameters().iter().enumerate() {
                    if graph.readers(parameter).iter().any(|reader| operators.contains(reader)) {
                        fixed += document.bytes + document.optimizer_bytes;
                    }
                }
                let outputs = graph.tensors().filter(|&tensor| graph.consumers(tensor).is_empty());
                let here = outputs.filter(|&tensor| operators.contains(&graph.producer(tensor)));
                fixed += here.map(|tensor| graph.bytes(tensor)).sum::<f64>();
            }
            assert_eq!(mine.last().map(|event| bytes(event)), Some(fixed), "{number}");
        }
    }
    assert!(reached > 1_000, "{reached}");
}

/// A chain with skip connections over two servers; `name` gives the names of operators and tensors.
fn chain(length: usize, name: impl Fn(usize) -> String) -> Problem {
    let mut graph = GraphBuilder::new("chain");
    for index in 0..length {
        graph.operator(OperatorDocument {
            kind: Some(name(index)),
            layer: Some(name(index)),
            seconds: [("gpu".to_owned(), 1e-3)].into(),
            workspace_bytes: 1.0,
            ..OperatorDocument::named(name(index))
        });
    }
    for (from, to) in (1..length).map(|to| (to - 1, to)).chain((10..length).map(|to| (to - 10, to))) {
        graph.timed_tensor(TensorDocument {
            name: Some(name(from)),
            producer: name(from),
            consumers: vec![name(to)],
            bytes: 1e3,
            seconds: BTreeMap::new(),
        });
    }
    let kind = |index: usize| KindDocument {
        server: None,
        ram: None,
        reserve_bytes: None,
        name: format!("{}-{index}-", name(index)),
        class: "gpu".into(),
        count: 4,
        host: false,
        memory_bytes: None,
        link: Some(LinkDocument { latency_s: 1e-6, bandwidth: 1e9 }),
        group: Some(format!("{}-{index}", name(index))),
    };
    let group = |index: usize| GroupDocument {
        name: format!("{}-{index}", name(index)),
        uplink: LinkDocument { latency_s: 1e-5, bandwidth: 1e9 },
    };
    let cluster = ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: name(0),
        classes: BTreeMap::new(),
        kinds: vec![kind(0), kind(1)],
        groups: vec![group(0), group(1)],
        matrix: None,
    };
    let objective = Objective::Makespan { execution: Execution::Ports };
    let cluster = Cluster::from_document(cluster).expect("a sound cluster");
    Problem::new(graph.build().expect("a sound graph"), cluster, objective).expect("a problem")
}

/// Assigns the operators to the devices round-robin.
fn dealt(problem: &Problem) -> Placement {
    let devices = problem.cluster().device_count() as u32;
    Placement::new(problem.graph().operators().map(|op| DeviceId(op.0 % devices)).collect())
}

#[test]
fn names_are_what_they_are_whatever_is_in_them() {
    let hostile = |index: usize| format!("\"}},{{\\ \u{1b}[2J\u{7f}\u{0}</script>\u{2028}é{index}");
    let problem = chain(12, hostile);
    let placement = dealt(&problem);
    let step = Step::new(&problem, &placement);
    let events = events(&step);
    let names: Vec<&str> = of_phase(&events, "X")
        .into_iter()
        .filter(|event| event["cat"] == "forward")
        .filter_map(|event| event["name"].as_str())
        .collect();
    assert_eq!(names, (0..12).map(hostile).collect::<Vec<_>>());
    let processes =
        of_phase(&events, "M").into_iter().filter(|event| event["name"] == "process_name").count();
    assert_eq!(processes, 8 + 1);
    let shown = stagewright::report::step::text::step(&step, None);
    assert!(!shown.contains(['\u{1b}', '\u{0}', '\u{7f}']), "{shown}");
}

#[test]
fn fifty_thousand_operators_are_written() {
    let problem = chain(50_000, |index| format!("op{index}"));
    let placement = dealt(&problem);
    let step = Step::new(&problem, &placement);
    let mut bytes = Vec::new();
    trace::write(&step, &mut bytes).expect("memory takes it");
    let lines = bytes.iter().filter(|&&byte| byte == b'\n').count();
    assert!(lines > 50_000 + 2 * 99_000, "{lines}");
}
