//! Invalid documents, each with its error code.

use crate::documents;

use documents::{Case, read, valid};
use serde_json::json;
use stagewright_core::document::{
    ClassDocument, Communication, Execution, MatrixDocument, ObjectiveKind, Schedule, Split, Training,
};
use stagewright_core::objective::{Objective, Throughput};

fn after(corrupt: impl FnOnce(&mut Case)) -> &'static str {
    let mut case = valid();
    corrupt(&mut case);
    case.error()
}

#[test]
fn schema() {
    assert_eq!(after(|case| case.graph.schema.push('0')), "V:schema");
    assert_eq!(after(|case| case.cluster.schema.clear()), "V:schema");
    assert_eq!(after(|case| case.plan.schema = "plan".to_owned()), "V:schema");
}

#[test]
fn duplicates() {
    assert_eq!(after(|case| case.graph.operators[0].name = "b".to_owned()), "V:duplicate");
    assert_eq!(after(|case| case.cluster.kinds[0].name = "far".to_owned()), "V:duplicate");
    assert_eq!(after(|case| case.cluster.groups.push(case.cluster.groups[0].clone())), "V:duplicate");
}

#[test]
fn unknown_names() {
    assert_eq!(after(|case| case.graph.tensors[0].producer = "z".to_owned()), "V:unknown-name");
    assert_eq!(after(|case| case.graph.tensors[0].consumers.push("z".to_owned())), "V:unknown-name");
    assert_eq!(after(|case| case.cluster.kinds[1].group = Some("pod".to_owned())), "V:unknown-name");
    assert_eq!(after(|case| case.pins = Some(read(json!({"z": "acc"})))), "V:unknown-name");
    assert_eq!(after(|case| case.pins = Some(read(json!({"a": "acc2"})))), "V:unknown-name");
    assert_eq!(after(|case| case.plan.pins = read(json!({"a": ["acc", "z"]}))), "V:unknown-name");
}

#[test]
fn figures() {
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(after(|case| _ = case.graph.operators[0].seconds.insert("x".into(), bad)), "V:figure");
        assert_eq!(after(|case| case.graph.operators[0].flop = Some(bad)), "V:figure");
        assert_eq!(after(|case| case.graph.operators[0].activation_bytes = bad), "V:figure");
        assert_eq!(after(|case| case.graph.tensors[0].bytes = bad), "V:figure");
        assert_eq!(after(|case| _ = case.graph.tensors[0].seconds.insert("x".into(), bad)), "V:figure");
        assert_eq!(after(|case| case.cluster.kinds[0].memory_bytes = Some(bad)), "V:figure");
        assert_eq!(after(|case| case.cluster.groups[0].uplink.latency_s = bad), "V:figure");
    }
    for bad in [0.0, -1.0, f64::NAN] {
        assert_eq!(after(|case| case.cluster.groups[0].uplink.bandwidth = bad), "V:figure");
        let class = |change: fn(&mut ClassDocument, f64)| {
            move |case: &mut Case| {
                let mut class = ClassDocument::default();
                change(&mut class, bad);
                case.cluster.classes.insert("gpu".to_owned(), class);
            }
        };
        assert_eq!(after(class(|class, bad| class.peak_flops = Some(bad))), "V:figure");
        assert_eq!(after(class(|class, bad| class.memory_bandwidth = Some(bad))), "V:figure");
        assert_eq!(after(class(|class, bad| class.efficiency = Some(bad))), "V:figure");
    }
}

#[test]
fn cycle() {
    let mut case = valid();
    case.graph.tensors[1].consumers.push("a".to_owned());
    let error = case.check().expect_err("a → b → a");
    assert_eq!(error.code(), "V:cycle");
    let message = error.to_string();
    assert!(message.ends_with("a → b → a") || message.ends_with("b → a → b"), "{message}");
    assert_eq!(after(|case| case.graph.tensors[1].consumers.push("b".to_owned())), "V:cycle");
}

#[test]
fn no_link() {
    assert_eq!(after(|case| case.cluster.kinds[1].link = None), "V:no-link");
    // A link is not needed by a host, by a kind without devices, or if every tensor was measured.
    for relieve in [
        |case: &mut Case| case.cluster.kinds[1].host = true,
        |case: &mut Case| case.cluster.kinds[1].count = 0,
        |case: &mut Case| {
            for tensor in &mut case.graph.tensors {
                tensor.seconds.insert("tpu".to_owned(), 1.0);
            }
        },
    ] {
        let mut case = valid();
        case.cluster.kinds[1].link = None;
        relieve(&mut case);
        case.report();
    }
}

#[test]
fn no_link_for_the_synchronisation_of_replicas() {
    let mut case = valid();
    case.cluster.kinds[0].link = None;
    for tensor in &mut case.graph.tensors {
        tensor.seconds.insert("gpu".to_owned(), 1.0);
    }
    case.report();
    case.plan.objective.max_replicas = Some(2);
    case.plan.devices[0].replicas = 2;
    assert_eq!(case.error(), "V:no-link");
}

#[test]
fn ambiguous_device() {
    // With 11 devices of acc, acc10 is both its last device and the first of acc1.
    let mut case = valid();
    case.cluster.kinds[1].name = "acc1".to_owned();
    case.report();
    case.cluster.kinds[0].count = 11;
    assert_eq!(case.error(), "V:ambiguous-device");
}

#[test]
fn rules_without_their_figures() {
    for schedule in [Schedule::GPipe, Schedule::OneFOneB] {
        for microbatches in [None, Some(0)] {
            let without = |case: &mut Case| {
                case.plan.objective.schedule = schedule;
                case.plan.objective.microbatches = microbatches;
            };
            assert_eq!(after(without), "V:rule");
        }
    }
    assert_eq!(after(|case| case.plan.objective.max_replicas = Some(0)), "V:rule");
}

#[test]
fn rules_of_pipelines_where_there_are_none() {
    for (kind, name) in [(ObjectiveKind::Latency, "latency"), (ObjectiveKind::Makespan, "makespan")] {
        let with = |change: fn(&mut Case)| {
            let mut case = valid();
            case.plan.objective.kind = kind;
            change(&mut case);
            case
        };
        let sentences = [
            (with(|case| case.plan.objective.communication = Communication::Overlap), "serial communication"),
            (with(|case| case.plan.objective.communication = Communication::Duplex), "serial communication"),
            (with(|case| case.plan.objective.training = Training::Separate), "combined training"),
            (with(|case| case.plan.objective.max_replicas = Some(2)), "a max_replicas of 1"),
        ];
        for (case, needs) in sentences {
            let error = case.check().expect_err("a rule of pipelines");
            assert_eq!(error.code(), "V:rule");
            assert_eq!(error.to_string(), format!("the objective {name} needs {needs}"));
        }
        let scheduled = with(|case| {
            case.plan.objective.schedule = Schedule::GPipe;
            case.plan.objective.microbatches = Some(2);
        });
        assert_eq!(scheduled.error(), "V:rule");
        // One replica and one call are the defaults.
        with(|case| case.plan.objective.max_replicas = Some(1)).report();
        with(|case| case.plan.objective.calls = Some(1)).report();
        let many = with(|case| case.plan.objective.calls = Some(u32::MAX));
        assert_eq!(many.check().is_ok(), kind == ObjectiveKind::Latency);
    }
    let scheduled = |microbatches, training| {
        after(move |case| {
            case.plan.objective.schedule = Schedule::GPipe;
            case.plan.objective.microbatches = Some(microbatches);
            case.plan.objective.training = training;
        })
    };
    // A schedule needs combined training, and microbatches are limited.
    assert_eq!(scheduled(4, Training::Separate), "V:rule");
    assert_eq!(scheduled(65537, Training::Combined), "V:rule");
}

#[test]
fn matrix() {
    let square = |count: usize, figure: f64| -> MatrixDocument {
        let rows = vec![vec![figure; count]; count];
        MatrixDocument { delay_s: rows.clone(), seconds_per_byte: rows }
    };
    let mut right = valid();
    right.cluster.matrix = Some(square(3, 0.5));
    right.report();
    assert_eq!(after(|case| case.cluster.matrix = Some(square(2, 0.5))), "V:matrix");
    assert_eq!(after(|case| case.cluster.matrix = Some(square(0, 0.5))), "V:matrix");
    let ragged = |case: &mut Case| {
        let mut matrix = square(3, 0.5);
        matrix.seconds_per_byte[1].pop();
        case.cluster.matrix = Some(matrix);
    };
    assert_eq!(after(ragged), "V:matrix");
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(after(|case| case.cluster.matrix = Some(square(3, bad))), "V:figure");
    }
    let billions = |case: &mut Case| {
        case.cluster.kinds[0].count = u32::MAX;
        case.cluster.matrix = Some(square(3, 0.5));
    };
    assert_eq!(after(billions), "V:matrix");
}

#[test]
fn execution_of_no_step() {
    for kind in [ObjectiveKind::Throughput, ObjectiveKind::Latency] {
        let free = |case: &mut Case| {
            case.plan.objective.kind = kind;
            case.plan.objective.execution = Execution::ContentionFree;
        };
        assert_eq!(after(free), "V:rule");
    }
}

/// The checker rejects the same objectives as the core, which validates them without a graph.
#[test]
fn microbatches_and_schedules_are_for_each_other() {
    for schedule in [Schedule::None, Schedule::GPipe, Schedule::OneFOneB, Schedule::ZeroBubble] {
        for split in [Split::Contiguous, Split::Convex, Split::Free] {
            for microbatches in [0, 1, 2, 65_536, 65_537, u32::MAX] {
                let mut case = valid();
                case.plan.objective.schedule = schedule;
                case.plan.objective.split = split;
                case.plan.objective.microbatches = Some(microbatches);
                let rules = Throughput { schedule, split, microbatches, ..Throughput::default() };
                let objective = Objective::from(rules);
                let found = case.check().map_err(|error| error.code().name);
                assert_eq!(found.is_ok(), objective.validate().is_ok(), "{objective:?}: {found:?}");
                assert!(found.is_ok() || found == Err("V:rule"), "{objective:?}: {found:?}");
            }
        }
    }
    let mut several = valid();
    several.plan.objective.microbatches = Some(4);
    let error = several.check().expect_err("nothing says how they follow one another").to_string();
    assert_eq!(error, "an iteration of several microbatches needs a schedule");
}

#[test]
fn calls_out_of_place() {
    assert_eq!(after(|case| case.plan.objective.calls = Some(0)), "V:rule");
    assert_eq!(after(|case| case.plan.objective.calls = Some(2)), "V:rule");
    let none = |case: &mut Case| {
        case.plan.objective.kind = ObjectiveKind::Latency;
        case.plan.objective.calls = Some(0);
    };
    assert_eq!(after(none), "V:rule");
    let mut with_calls = valid();
    with_calls.plan.objective.calls = Some(1);
    assert_eq!(with_calls.broken(), [""; 0]);
}

#[test]
fn not_checked() {
    assert_eq!(after(|case| case.plan.objective.schedule = Schedule::Interleaved), "V:not-checked");
    assert_eq!(after(|case| case.plan.objective.schedule = Schedule::ZeroBubbleTwice), "V:not-checked");
    assert_eq!(after(|case| case.plan.objective.schedule = Schedule::DualPipeV), "V:not-checked");
    let mut checked = valid();
    checked.plan.objective.communication = Communication::Duplex;
    checked.report();
}
