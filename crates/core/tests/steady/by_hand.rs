//! Pipelines whose steady state is known.

use std::collections::BTreeMap;

use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Communication, KindDocument, LinkDocument, OperatorDocument, Pass,
    Training,
};
use stagewright_core::evaluate::{Place, SteadyState, SteadyWork, steady};
use stagewright_core::graph::{GraphBuilder, OpId};
use stagewright_core::objective::{Objective, Throughput};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;

/// A pipeline with one stage per device, given the seconds of its forward operator and of its backward operator, if it
/// has one. A tensor of `seconds` seconds connects neighbouring stages.
fn pipeline(stages: &[(f64, Option<f64>)], seconds: f64, objective: Objective) -> Problem {
    let mut builder = GraphBuilder::new("pipeline");
    let mut operator = |name: String, pass, seconds, stage: usize| {
        builder.operator(OperatorDocument {
            pass,
            colocation: Some(format!("stage{stage}")),
            seconds: BTreeMap::from([("acc".to_owned(), seconds)]),
            parameter_bytes: if pass == Pass::Forward { 4.0 } else { 0.0 },
            ..OperatorDocument::named(name)
        });
    };
    for (stage, &(forward, _)) in stages.iter().enumerate() {
        operator(format!("f{stage}"), Pass::Forward, forward, stage);
    }
    for (stage, &(_, backward)) in stages.iter().enumerate() {
        if let Some(backward) = backward {
            operator(format!("b{stage}"), Pass::Backward, backward, stage);
        }
    }
    for (stage, &(_, backward)) in stages.iter().enumerate().skip(1) {
        builder.tensor(&format!("f{}", stage - 1), [format!("f{stage}").as_str()], seconds);
        if backward.is_some() {
            builder.tensor(&format!("b{stage}"), [format!("b{}", stage - 1).as_str()], seconds);
        }
    }
    if stages.last().is_some_and(|stage| stage.1.is_some()) {
        let last = stages.len() - 1;
        builder.tensor(&format!("f{last}"), [format!("b{last}").as_str()], 0.0);
    }
    let kind = KindDocument {
        reserve_bytes: None,
        name: "acc".into(),
        class: "acc".into(),
        count: 2 * stages.len() as u32,
        host: false,
        memory_bytes: None,
        link: Some(LinkDocument { latency_s: 0.0, bandwidth: 1.0 }),
        group: None,
        server: None,
        ram: None,
    };
    let cluster = Cluster::from_document(ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: BTreeMap::new(),
        kinds: vec![kind],
        groups: Vec::new(),
        matrix: None,
    });
    let graph = builder.build().expect("a sound graph");
    Problem::new(graph, cluster.expect("a sound cluster"), objective).expect("a problem")
}

/// The steady state with every stage on its own device, or on two if it is among `replicated`.
fn state(problem: &Problem, stages: u32, replicated: &[u32]) -> SteadyState {
    let graph = problem.graph();
    let stage = |op: OpId| graph.operator(op).name[1..].parse().expect("a number");
    let device_of = graph.operators().map(|op| DeviceId(stage(op))).collect();
    let replicas = replicated.iter().map(|&stage| (DeviceId(stage), 2)).collect();
    let order = (0..stages).map(DeviceId).collect();
    steady(problem, &Placement::with_stages(device_of, order, replicas)).expect("a steady state")
}

fn in_flight(state: &SteadyState) -> Vec<u32> {
    state.devices.iter().map(|device| device.in_flight).collect()
}

#[test]
fn a_batch_goes_through_stages_without_a_pause() {
    let problem = pipeline(&[(2.0, None), (5.0, None), (1.0, None)], 1.0, Objective::default());
    let state = state(&problem, 3, &[]);
    // 2 and 1, then 1, 5 and 1, then 1 and 1.
    assert_eq!((state.period, state.latency), (7.0, 3.0 + 7.0 + 2.0));
    assert_eq!((state.in_flight, in_flight(&state)), (2, vec![1, 1, 1]));
    let last = state.tasks.iter().find(|task| task.work == SteadyWork::Operator(OpId(2))).expect("it runs");
    assert_eq!((last.start, last.within(state.period)), (11.0, (4.0, 1)));
}

#[test]
fn forward_and_backward_passes_alternate_as_under_1f1b() {
    for stages in 1..9 {
        let problem = pipeline(&vec![(1.0, Some(2.0)); stages], 0.0, Objective::default());
        let state = state(&problem, stages as u32, &[]);
        assert_eq!((state.period, state.latency), (3.0, 3.0 * stages as f64));
        let depth: Vec<u32> = (1..=stages as u32).rev().collect();
        assert_eq!((state.in_flight, in_flight(&state)), (stages as u32, depth));
    }
}

#[test]
fn communication_that_overlaps_keeps_several_batches_on_a_device() {
    let value_of = |communication| {
        let objective = Throughput { communication, ..Throughput::default() };
        state(&pipeline(&[(4.0, None), (3.0, None), (4.0, None)], 2.0, objective.into()), 3, &[])
    };
    // Two seconds to send, and on the middle device two more to receive, at the same time as the compute.
    let duplex = value_of(Communication::Duplex);
    assert_eq!((duplex.period, duplex.latency), (4.0, 4.0 + 2.0 + 2.0 + 3.0 + 2.0 + 2.0 + 4.0));
    assert_eq!(in_flight(&duplex), [2, 2, 2]);
    // The middle device can only send once it has received for the next batch.
    let overlap = value_of(Communication::Overlap);
    assert_eq!((overlap.period, overlap.latency), (4.0, 4.0 + 2.0 + 2.0 + 4.0 + 2.0 + 2.0 + 4.0));
    assert_eq!(overlap.devices[1].load, 4.0);
}

#[test]
fn passes_lie_where_no_batch_waits() {
    for (communication, depth) in [(Communication::Serial, [2, 2, 1]), (Communication::Duplex, [2, 2, 2])] {
        let objective = Throughput { communication, ..Throughput::default() };
        let stages = [(1.0, Some(2.0)), (2.0, Some(1.0)), (10.0, Some(10.0))];
        let state = state(&pipeline(&stages, 0.5, objective.into()), 3, &[]);
        let moved = 2.0 * 2.0 * (0.5 + 0.5);
        assert_eq!(state.latency, 26.0 + moved, "{communication:?}");
        assert_eq!(in_flight(&state), depth, "{communication:?}");
    }
}

#[test]
fn separate_passes_have_a_part_of_the_period_each() {
    let objective = Throughput { training: Training::Separate, ..Throughput::default() };
    let state = state(&pipeline(&[(3.0, Some(1.0)), (2.0, Some(4.0))], 0.0, objective.into()), 2, &[]);
    assert_eq!(state.period, 3.0 + 4.0);
    let starts: Vec<f64> =
        state.tasks.iter().filter(|task| task.seconds > 0.0).map(|task| task.start).collect();
    // The second stage no longer fits right after the first, nor the first right after the second.
    assert_eq!(starts, [0.0, 7.0, 10.0, 17.0]);
    assert_eq!((state.latency, in_flight(&state)), (18.0, vec![3, 1]));
}

#[test]
fn replicas_share_every_batch_and_synchronise_alone() {
    for communication in [Communication::Serial, Communication::Duplex] {
        let objective = Throughput { communication, max_replicas: 2, ..Throughput::default() };
        let state = state(&pipeline(&[(6.0, Some(4.0)), (2.0, Some(3.0))], 0.0, objective.into()), 2, &[0]);
        // Half of ten seconds, plus twice half of four bytes in each direction.
        assert_eq!((state.period, state.devices[0].load, state.devices[0].synchronised), (9.0, 9.0, 4.0));
        let [forward, backward, sync] =
            [SteadyWork::Operator(OpId(0)), SteadyWork::Operator(OpId(2)), SteadyWork::Synchronise].map(
                |work| {
                    let mut tasks = state.tasks.iter();
                    let task = tasks
                        .find(|task| (task.place, task.work) == (Place::Device(0), work))
                        .expect("it runs");
                    (task.start, task.seconds)
                },
            );
        // The backward pass runs after the forward pass of the next batch.
        assert_eq!((forward, backward, sync), ((0.0, 3.0), (12.0, 2.0), (14.0, 4.0)));
        assert_eq!((state.latency, state.in_flight, in_flight(&state)), (18.0, 2, vec![2, 1]));
    }
}
