//! Pipelines compute what the whole model computes, wherever the model is cut.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use stagewright::core::document::Communication;
use stagewright::formats::ImportOptions;
use stagewright::formats::onnx::Whole;
use stagewright::formats::onnx::proto::{GraphProto, TensorProto};
use stagewright::runtime::pipeline::{self, Host, Measured, MeasuredStage, Run};
use stagewright::runtime::protocol::{Optimization, Throttle};
use stagewright::runtime::weights::{Missing, gather};

use super::model::{chain, dense, floats, model, node, random, tensor, write};
use super::{command, run, runtime, stderr, text};

fn host(library: PathBuf) -> Host {
    Host {
        program: env!("CARGO_BIN_EXE_stagewright").into(),
        arguments: vec!["worker".into()],
        library,
        optimization: Optimization::Basic,
        cores: Vec::new(),
        patience: Duration::from_secs(120),
        stop: Arc::new(|| false),
    }
}

/// Runs a model with its operators on the device numbers that `place` returns.
fn placed(host: &Host, bytes: &[u8], place: &mut dyn FnMut() -> usize, run: &Run) -> Measured {
    let folder = tempfile::tempdir().unwrap();
    let mut whole = Whole::new("model", bytes, &ImportOptions::default()).unwrap();
    gather(&mut whole.model, None, Missing::Refuse, folder.path()).unwrap();
    let placement: BTreeMap<String, usize> =
        whole.operators.iter().flatten().map(|name| (name.clone(), place())).collect();
    pipeline::run(host, &whole, &Run { placement, ..run.clone() }, folder.path()).unwrap()
}

fn settings(devices: usize, communication: Communication) -> Run {
    Run {
        devices: (0..devices).map(|device| format!("cpu{device}")).collect(),
        placement: BTreeMap::new(),
        samples: 3,
        seed: 5,
        communication,
        throttle: Vec::new(),
        one_by_one: false,
        compare: true,
    }
}

#[test]
fn any_placement_of_any_graph_computes_what_the_model_computes() {
    let Some(library) = runtime() else { return };
    let host = host(library);
    for seed in 0..9 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let model = random(4 + 3 * seed as usize, seed).encode_to_vec();
        let devices = rng.random_range(1..4);
        let communication =
            [Communication::Serial, Communication::Overlap, Communication::Duplex][seed as usize % 3];
        let measured =
            placed(&host, &model, &mut || rng.random_range(0..devices), &settings(devices, communication));
        assert!(measured.difference.is_some_and(|difference| difference < 1e-5), "seed {seed}: {measured:?}");
        assert!(measured.seconds_per_sample > 0.0);
    }
}

/// Zeros are cast to the type of a value on another device. Only its type is read, so the devices form no cycle.
#[test]
fn a_type_alone_makes_no_segments() {
    let Some(library) = runtime() else { return };
    let like = node("CastLike", "like", &["zeros", "b"]);
    let mut model = model(GraphProto {
        input: vec![floats("x", &[4, 4])],
        initializer: vec![tensor("zeros", &[4, 4], &[0.0; 16])],
        node: vec![
            node("Relu", "a", &["x"]),
            node("Relu", "b", &["a"]),
            like,
            node("Sub", "c", &["a", "like"]),
            node("Sub", "d", &["c", "b"]),
        ],
        output: vec![floats("d", &[4, 4])],
        ..GraphProto::default()
    });
    model.opset_import[0].version = Some(19);
    model.ir_version = Some(9);
    // Operators a and c are on one device, b and d on the other.
    let mut devices = [0, 1, 0, 1].into_iter();
    let mut place = || devices.next().unwrap();
    let measured =
        placed(&host(library), &model.encode_to_vec(), &mut place, &settings(2, Communication::Serial));
    assert_eq!(measured.difference, Some(0.0));
    assert!(measured.stages.iter().all(|stage| stage.segments == 1), "{measured:?}");
}

/// The plan sends the source of a view, and so does the run: the stored bytes are sent, not the converted numbers.
#[test]
fn integers_cross_devices_as_integers() {
    let Some(library) = runtime() else { return };
    let zero = TensorProto {
        name: Some("zero".into()),
        data_type: Some(3),
        raw_data: Some(vec![0]),
        ..TensorProto::default()
    };
    let mut model = model(GraphProto {
        input: vec![floats("x", &[16, 4])],
        initializer: vec![tensor("scale", &[], &[0.1]), zero],
        node: vec![
            node("QuantizeLinear", "q", &["x", "scale", "zero"]),
            node("DequantizeLinear", "d", &["q", "scale", "zero"]),
            node("Relu", "a", &["d"]),
            node("Relu", "b", &["d"]),
            node("Add", "y", &["a", "b"]),
        ],
        output: vec![floats("y", &[16, 4])],
        ..GraphProto::default()
    });
    model.opset_import[0].version = Some(17);
    let mut devices = [0, 0, 1, 1, 1].into_iter();
    let mut place = || devices.next().unwrap();
    let measured =
        placed(&host(library), &model.encode_to_vec(), &mut place, &settings(2, Communication::Serial));
    assert_eq!(measured.difference, Some(0.0));
    let sent: Vec<f64> = measured.transfers.iter().map(|transfer| transfer.bytes).collect();
    assert_eq!(sent, [64.0]);
}

#[test]
fn a_throttled_link_takes_as_long_as_it_says() {
    let Some(library) = runtime() else { return };
    let host = host(library);
    // 1 MB is sent from one device to the other: 50 ms at 20 MB/s, far longer than the two products take.
    let model = chain(2, 1024, 256).encode_to_vec();
    for communication in [Communication::Serial, Communication::Overlap, Communication::Duplex] {
        let throttle = Some(Throttle { bandwidth: 2e7, latency_s: 0.0 });
        let run = Run { throttle: vec![throttle; 2], samples: 6, ..settings(2, communication) };
        let mut next = 0;
        let mut place = || {
            next += 1;
            usize::from(next > 2)
        };
        let measured = placed(&host, &model, &mut place, &run);
        let link = 1024.0 * 256.0 * 4.0 / 2e7;
        // On a busy machine, the first sample that counts may be late, which shortens the others.
        assert!(measured.seconds_per_sample > 0.6 * link, "{communication:?}: {measured:?}");
        // Both ends wait for the link.
        let waited = |stage: &MeasuredStage| stage.communication_s > 0.99 * link;
        assert!(measured.stages.iter().all(waited), "{communication:?}: {measured:?}");
    }
}

#[test]
fn outputs_that_no_operator_makes_are_no_obstacle() {
    let Some(library) = runtime() else { return };
    let graph = GraphProto {
        input: vec![floats("x", &[4, 8]), floats("unread", &[4, 8])],
        initializer: vec![tensor("small", &[2], &[1.0, 2.0]), tensor("large", &[32, 32], &[0.5; 1024])],
        node: vec![node("Relu", "relu", &["x"]), node("Tanh", "tanh", &["relu"])],
        output: vec![
            floats("unread", &[4, 8]),
            floats("small", &[2]),
            floats("tanh", &[4, 8]),
            floats("large", &[32, 32]),
            floats("x", &[4, 8]),
        ],
        ..GraphProto::default()
    };
    let mut next = 0;
    let mut place = || {
        next += 1;
        next - 1
    };
    let settings = settings(2, Communication::Serial);
    let measured = placed(&host(library), &model(graph).encode_to_vec(), &mut place, &settings);
    assert!(measured.difference.is_some_and(|difference| difference < 1e-5), "{measured:?}");
}

/// Repeats a measurement until the seconds of the operators are as expected. Other work on the machine disturbs some
/// measurements, but not all.
fn measured_at_last(costs: &Path, measure: impl Fn() -> Output, is_right: impl Fn(&Value) -> bool) {
    let mut all = Vec::new();
    for _ in 0..10 {
        let output = measure();
        assert!(output.status.success(), "{}", stderr(&output));
        let measured: Value = serde_json::from_slice(&std::fs::read(costs).unwrap()).unwrap();
        let seconds = measured["operators"][0]["seconds"].clone();
        if is_right(&seconds) {
            return;
        }
        all.push(seconds);
    }
    panic!("{all:?}");
}

/// The model arrives through standard input, which can be read only once.
#[test]
fn a_profiled_plan_runs_and_both_times_are_told() {
    let Some(library) = runtime() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write(&chain(6, 64, 256), &path("model.onnx"));
    let model = path("model.onnx");
    let (costs, machine, plan) = (path("costs.json"), path("machine.toml"), path("plan.json"));
    let piped = |arguments: &[&str]| {
        let input = File::open(&model).expect("it was written");
        command(&library, arguments).stdin(input).output().expect("the program starts")
    };
    measured_at_last(
        &costs,
        || piped(&["profile", "-", "--runs", "3", "--out", text(&costs), "--machine", text(&machine)]),
        |seconds| {
            assert_eq!(seconds.as_object().unwrap().len(), 12);
            seconds["product0"].as_f64() > seconds["relu0"].as_f64()
        },
    );
    let planned = run(
        &library,
        &["plan", text(&model), "--cluster", text(&machine), "--costs", text(&costs), "--out", text(&plan)],
    );
    assert!(planned.status.success(), "{}", stderr(&planned));
    let ran = piped(&["run", "-", text(&plan), "--samples", "5", "--repeat", "2", "--json"]);
    assert!(ran.status.success(), "{}", stderr(&ran));
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(told["repeats_s"].as_array().unwrap().len(), 2);
    assert!(told["measured_s"].as_f64().unwrap() > 0.0 && told["predicted_s"].as_f64().unwrap() > 0.0);
    assert!(told["difference"].as_f64().unwrap() < 1e-5);
}

/// ONNX Runtime computes a product with bias on three axes as a product on two axes, between changes of shape.
#[test]
fn the_seconds_of_fused_kernels_are_those_of_their_nodes() {
    let Some(library) = runtime() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (model, costs) = (folder.path().join("model.onnx"), folder.path().join("costs.json"));
    write(&dense(), &model);
    let profile = || run(&library, &["profile", text(&model), "--runs", "20", "--out", text(&costs)]);
    measured_at_last(&costs, profile, |measured| {
        let seconds = |name: &str| measured[name].as_f64().unwrap();
        let layers = [seconds("product0") + seconds("sum0"), seconds("product1") + seconds("sum1")];
        layers[1] > 3.0 * layers[0] && seconds("product1") > seconds("sum1")
    });
}
