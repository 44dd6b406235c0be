//! Work done once per iteration: updates of the parameters and the synchronisation of gradients.

use std::collections::BTreeMap;

use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Communication, KindDocument, LinkDocument, OperatorDocument,
    ParameterDocument, Pass, Schedule,
};
use stagewright_core::evaluate::{evaluate, pipeline};
use stagewright_core::graph::GraphBuilder;
use stagewright_core::objective::{Objective, Throughput};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;

/// Two stages, each with a forward operator of 2 s and a backward operator of 3 s, and an update of 8 s on the second.
/// Links carry one byte per second. In version 2, `readers` share 4 bytes of parameters.
fn problem(readers: &[&str], objective: Objective) -> Problem {
    let mut builder = GraphBuilder::new("step");
    let of_pass = [(Pass::Forward, 2.0), (Pass::Backward, 3.0), (Pass::Update, 8.0)];
    for (name, index, stage) in
        [("f0", 0, "0"), ("f1", 0, "1"), ("b1", 1, "1"), ("b0", 1, "0"), ("u1", 2, "1")]
    {
        let (pass, seconds) = of_pass[index];
        builder.operator(OperatorDocument {
            pass,
            colocation: Some(stage.to_owned()),
            seconds: BTreeMap::from([("gpu".to_owned(), seconds)]),
            parameter_bytes: if name == "f1" { 2.0 } else { 0.0 },
            ..OperatorDocument::named(name)
        });
    }
    for (from, to) in [("f0", "f1"), ("f1", "b1"), ("b1", "b0"), ("b1", "u1")] {
        builder.tensor(from, [to], 0.0);
    }
    if !readers.is_empty() {
        builder.parameter(tied(readers));
    }
    let graph = builder.build().expect("a sound graph");
    Problem::new(graph, cluster(), objective).expect("a problem")
}

/// A trained parameter of 4 bytes with the given readers.
fn tied(readers: &[&str]) -> ParameterDocument {
    ParameterDocument {
        name: "tied".to_owned(),
        bytes: 4.0,
        optimizer_bytes: 0.0,
        trained: true,
        together: false,
        readers: readers.iter().map(|&reader| reader.to_owned()).collect(),
    }
}

fn cluster() -> Cluster {
    let cluster = Cluster::from_document(ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: BTreeMap::new(),
        kinds: vec![KindDocument {
            name: "gpu".into(),
            class: "gpu".into(),
            count: 4,
            host: false,
            memory_bytes: None,
            reserve_bytes: None,
            link: Some(LinkDocument { latency_s: 0.0, bandwidth: 1.0 }),
            group: None,
            server: None,
            ram: None,
        }],
        groups: Vec::new(),
        matrix: None,
    });
    cluster.expect("a sound cluster")
}

/// The value with one stage per device, and with `replicas` replicas of the second.
fn value(readers: &[&str], replicas: u32, objective: Objective) -> f64 {
    let problem = problem(readers, Throughput { max_replicas: 2, ..objective.rules() }.into());
    let graph = problem.graph();
    let device_of =
        graph.operators().map(|op| DeviceId(u32::from(graph.operator(op).name.ends_with('1')))).collect();
    let replicas = BTreeMap::from_iter((replicas > 1).then_some((DeviceId(1), replicas)));
    let placement = Placement::with_stages(device_of, vec![DeviceId(0), DeviceId(1)], replicas);
    let evaluation = evaluate(&problem, &placement);
    assert!(evaluation.violations.is_empty(), "{:?}", evaluation.violations);
    evaluation.value
}

#[test]
fn every_holder_of_a_shared_parameter_sends_and_receives_its_gradient() {
    for readers in [["f0", "f1"], ["f1", "f0"]] {
        // 2 + 3 + 8 s of compute on the second device, then 2 (m − 1)/m of 4 bytes.
        for communication in [Communication::Serial, Communication::Overlap, Communication::Duplex] {
            let objective = Throughput { communication, ..Throughput::default() };
            assert_eq!(value(&readers, 1, objective.into()), 13.0 + 4.0, "{readers:?} {communication:?}");
        }
        // Each of two replicas synchronises the shared gradient, then the two synchronise that gradient and 2 bytes of
        // their own with each other.
        assert_eq!(value(&readers, 2, Objective::default()), 6.5 + 4.0 + 6.0, "{readers:?}");
    }
}

#[test]
fn an_iteration_updates_once() {
    let iteration = |readers: &[&str], replicas, microbatches| {
        let schedule = Schedule::GPipe;
        value(readers, replicas, Throughput { schedule, microbatches, ..Throughput::default() }.into())
    };
    // The backward pass of the second stage takes 3 s, plus its share of 8 s of updates and 4 s of synchronisation.
    // That of the first stage includes its share of the synchronisation.
    for microbatches in [1, 2, 4] {
        let (again, share) = (f64::from(microbatches - 1), 1.0 / f64::from(microbatches));
        let forward = 4.0 + again * 2.0;
        let backward = |first: f64, second: f64| first + second + again * f64::max(first, second);
        let alone = forward + backward(3.0 + 4.0 * share, 3.0 + 12.0 * share);
        assert_eq!(iteration(&["f0", "f1"], 1, microbatches), alone, "{microbatches} microbatches");
        let on_two = 3.0 + again * 2.0 + backward(3.0 + 4.0 * share, 1.5 + (4.0 + 4.0 + 6.0) * share);
        assert_eq!(
            iteration(&["f0", "f1"], 2, microbatches),
            on_two,
            "{microbatches} microbatches, replicas"
        );
    }
    // Version 1 updates after every microbatch.
    assert_eq!(iteration(&[], 1, 4), 4.0 + 6.0 + (3.0 + 11.0) + 33.0);
    assert_eq!(iteration(&[], 2, 4), 3.0 + 6.0 + (3.0 + 5.5 + 2.0) + 3.0 * 7.5);
}

/// Seconds and peak memory of each device when the pipeline is simulated.
fn simulated(problem: &Problem, placement: &Placement, schedule: Schedule, chunks: u32) -> (f64, Vec<f64>) {
    let pipeline = pipeline(problem, placement, schedule, chunks).expect("a pipeline");
    let run = pipeline.run().expect("a schedule");
    (run.seconds, run.peak_bytes)
}

/// Two forward operators on one device and two backward operators on another. The backward operators read different
/// tensors, so their device never holds both at once.
#[test]
fn a_stage_that_never_holds_its_whole_stash_is_simulated() {
    let mut builder = GraphBuilder::new("step");
    for (name, pass) in
        [("g", Pass::Forward), ("h", Pass::Forward), ("b2", Pass::Backward), ("b1", Pass::Backward)]
    {
        builder.operator(OperatorDocument {
            pass,
            seconds: BTreeMap::from([("gpu".to_owned(), 1.0)]),
            ..OperatorDocument::named(name)
        });
    }
    builder.tensor("g", ["b2"], 4.0).tensor("h", ["b1"], 4.0).version_2();
    let objective = Throughput { schedule: Schedule::GPipe, microbatches: 3, ..Throughput::default() };
    let problem = Problem::new(builder.build().expect("a graph"), cluster(), objective);
    let problem = problem.expect("a problem");
    let device_of = problem
        .graph()
        .operators()
        .map(|op| DeviceId(u32::from(problem.graph().operator(op).name.starts_with('b'))));
    let placement =
        Placement::with_stages(device_of.collect(), vec![DeviceId(0), DeviceId(1)], BTreeMap::new());
    let evaluation = evaluate(&problem, &placement);
    let memory: Vec<f64> = evaluation.devices.iter().map(|device| device.memory_bytes).collect();
    let (seconds, peaks) = simulated(&problem, &placement, Schedule::GPipe, 1);
    assert_eq!((seconds, &peaks[..2]), (evaluation.value, &memory[..]));
}

/// Four layers, of which interleaved 1F1B runs the first and the third on one device, with a parameter that `readers`
/// share.
fn interleaved(readers: &[&str]) -> (Problem, Placement) {
    let mut builder = GraphBuilder::new("step");
    for index in 0..4 {
        for (letter, pass) in [("f", Pass::Forward), ("b", Pass::Backward)] {
            builder.operator(OperatorDocument {
                pass,
                colocation: Some(index.to_string()),
                seconds: BTreeMap::from([("gpu".to_owned(), 1.0)]),
                ..OperatorDocument::named(format!("{letter}{index}"))
            });
        }
    }
    for (from, to) in
        [("f0", "f1"), ("f1", "f2"), ("f2", "f3"), ("f3", "b3"), ("b3", "b2"), ("b2", "b1"), ("b1", "b0")]
    {
        builder.tensor(from, [to], 0.0);
    }
    builder.parameter(tied(readers));
    let objective = Throughput { schedule: Schedule::OneFOneB, microbatches: 4, ..Throughput::default() };
    let problem = Problem::new(builder.build().expect("a graph"), cluster(), objective);
    let problem = problem.expect("a problem");
    let device_of = problem.graph().operators().map(|op| {
        DeviceId(u32::from(problem.graph().operator(op).name[1..].parse::<u32>().expect("a number") > 1))
    });
    let placement =
        Placement::with_stages(device_of.collect(), vec![DeviceId(0), DeviceId(1)], BTreeMap::new());
    (problem, placement)
}

#[test]
fn chunks_of_a_device_share_its_copies() {
    // Both chunks of the first device read the parameter, and no other device does.
    let (problem, placement) = interleaved(&["f0", "f2"]);
    let (seconds, peaks) = simulated(&problem, &placement, Schedule::Interleaved, 2);
    // m + (p - 1)/v microbatches of 4 s.
    assert_eq!((seconds, &peaks[..2]), (18.0, &[4.0, 0.0][..]));

    // If the second device has a reader, both devices synchronise: a quarter of 2 (m − 1)/m · 4 s per microbatch, in
    // the first chunk of each device that reads the parameter.
    let (problem, placement) = interleaved(&["f2", "f0", "f1"]);
    let pipeline = pipeline(&problem, &placement, Schedule::Interleaved, 2).expect("a pipeline");
    let backward: Vec<f64> = pipeline.stages.iter().map(|stage| stage.times.backward).collect();
    let synchronised = 2.0 * 2.0 / 3.0 * 4.0 / 4.0;
    assert_eq!(backward, [1.0 + synchronised, 1.0 + synchronised, 1.0, 1.0]);
}
