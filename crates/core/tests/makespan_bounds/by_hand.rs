//! Values derived from the definitions by hand.

use stagewright_core::bound::makespan::Reach;
use stagewright_core::bound::{
    Bound, CriticalPath, Destructive, Energetic, Fluid, HeaviestUnit, OneMachine, strongest,
};
use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Execution, KindDocument, LinkDocument, OperatorDocument, PinTargets,
    PinsDocument,
};
use stagewright_core::graph::{GraphBuilder, OpId};
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::tolerance::{round_down, same};

use super::exhaustive::optimum;

/// Operators with their seconds and their classes, on devices `acc` whose links take one second per byte.
#[derive(Default)]
struct Small {
    operators: Vec<(f64, Option<&'static str>)>,
    tensors: Vec<(usize, Vec<usize>, f64)>,
    memory: Option<f64>,
    parameters: f64,
    pins: PinsDocument,
    execution: Execution,
}

impl Small {
    fn new(seconds: &[f64], tensors: &[(usize, &[usize], f64)]) -> Small {
        Small {
            operators: seconds.iter().map(|&seconds| (seconds, None)).collect(),
            tensors: tensors.iter().map(|&(from, to, bytes)| (from, to.to_vec(), bytes)).collect(),
            ..Small::default()
        }
    }

    fn on(self, count: u32) -> Problem {
        let mut builder = GraphBuilder::new("small");
        for (index, (seconds, class)) in self.operators.iter().enumerate() {
            builder.operator(OperatorDocument {
                seconds: [("acc".into(), *seconds)].into(),
                colocation: class.map(Into::into),
                parameter_bytes: self.parameters,
                ..OperatorDocument::named(format!("o{index}"))
            });
        }
        for (from, to, bytes) in &self.tensors {
            let readers: Vec<String> = to.iter().map(|to| format!("o{to}")).collect();
            builder.tensor(&format!("o{from}"), readers.iter().map(String::as_str), *bytes);
        }
        let kind = KindDocument {
            reserve_bytes: None,
            name: "acc".into(),
            class: "acc".into(),
            count,
            host: false,
            memory_bytes: self.memory,
            link: Some(LinkDocument { latency_s: 0.0, bandwidth: 1.0 }),
            group: None,
            server: None,
            ram: None,
        };
        let cluster = Cluster::from_document(ClusterDocument {
            schema: CLUSTER_SCHEMA.into(),
            name: String::new(),
            classes: Default::default(),
            kinds: vec![kind],
            groups: Vec::new(),
            matrix: None,
        });
        let objective = Objective::Makespan { execution: self.execution };
        let graph = builder.build().expect("a sound graph");
        Problem::pinned(graph, cluster.expect("a sound cluster"), objective, self.pins)
            .expect("a sound problem")
    }
}

fn value(bound: &dyn Bound, problem: &Problem) -> f64 {
    bound.compute(problem).expect("everything can run").value
}

#[test]
fn a_chain_is_its_own_path() {
    let problem = Small::new(&[1.0, 2.0, 3.0], &[(0, &[1], 1.0), (1, &[2], 1.0)]).on(2);
    assert_eq!(value(&Fluid, &problem), round_down(3.0));
    assert_eq!(value(&HeaviestUnit, &problem), round_down(3.0));
    assert_eq!(value(&CriticalPath, &problem), round_down(6.0));
    assert_eq!(value(&OneMachine, &problem), round_down(6.0));
    let reach = Reach::new(&problem).expect("everything can run");
    let ends: Vec<[f64; 3]> = (0..3)
        .map(|op| [reach.head(OpId(op), 0), reach.seconds(OpId(op), 0), reach.tail(OpId(op), 0)])
        .collect();
    assert_eq!(ends, [[0.0, 1.0, 5.0], [1.0, 2.0, 3.0], [3.0, 3.0, 0.0]]);
}

/// A source, four branches of two operators, and a join, so far apart that one device runs everything. A proof that the
/// sets of operators on this device include the first operators of the branches has to look beyond the inputs of the
/// join.
#[test]
fn what_is_too_far_is_on_one_device() {
    let branches: Vec<(usize, Vec<usize>, f64)> =
        (0..4).flat_map(|index| [(1 + index, vec![5 + index], 100.0), (5 + index, vec![9], 100.0)]).collect();
    let mut small =
        Small::new(&[1.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0], &[(0, &[1, 2, 3, 4], 100.0)]);
    small.tensors.extend(branches);
    let problem = small.on(4);
    assert_eq!(value(&CriticalPath, &problem), round_down(5.0));
    assert_eq!(value(&OneMachine, &problem), round_down(14.0));
}

/// Seven readers of one tensor: on the second device no reader can start before 11, by which time one device has run
/// everything.
#[test]
fn devices_that_start_late_do_less() {
    let problem = Small::new(&[1.0; 8], &[(0, &[1, 2, 3, 4, 5, 6, 7], 10.0)]).on(2);
    assert_eq!(value(&Fluid, &problem), round_down(4.0));
    assert_eq!(value(&Energetic, &problem), round_down(8.0));
}

/// Many operators between a source and a join, with short transfers: two devices share them, starting at 1 and at 2,
/// and one of the devices must finish its share one second before the join begins.
#[test]
fn work_between_heads_and_tails() {
    let middle: Vec<usize> = (1..=8).collect();
    let mut small = Small::new(&[1.0; 10], &[]);
    small.tensors.push((0, middle.clone(), 1.0));
    small.tensors.extend(middle.iter().map(|&operator| (operator, vec![9], 0.0)));
    let problem = small.on(2);
    // Ten seconds of work on two devices, one of which can start at 2 and must stop 1 before the end.
    assert_eq!(value(&Energetic, &problem), round_down(6.5));
    assert!(value(&Energetic, &problem) > value(&OneMachine, &problem).max(value(&Fluid, &problem)));
    assert_eq!(strongest(&problem).source, "energetic");
}

/// A class of two operators, with another operator between them that is too far from any other device: 1 + 5 + 1 on one
/// device. Then a class of two operators with tails: whichever of them runs last, 2 + 2 and a tail of 3.
#[test]
fn a_class_runs_on_one_device() {
    let mut small = Small::new(&[1.0, 5.0, 1.0], &[(0, &[1], 3.0), (1, &[2], 3.0)]);
    (small.operators[0].1, small.operators[2].1) = (Some("ends"), Some("ends"));
    let problem = small.on(2);
    assert_eq!(value(&OneMachine, &problem), round_down(7.0));
    assert!(same(optimum(&problem).expect("a placement"), 7.0));

    let mut small = Small::new(&[2.0, 2.0, 3.0, 3.0], &[(0, &[2], 0.0), (1, &[3], 0.0)]);
    (small.operators[0].1, small.operators[1].1) = (Some("pair"), Some("pair"));
    let problem = small.on(3);
    assert_eq!(value(&HeaviestUnit, &problem), round_down(4.0));
    assert_eq!(value(&CriticalPath, &problem), round_down(5.0));
    assert_eq!(value(&OneMachine, &problem), round_down(7.0));
    assert!(same(optimum(&problem).expect("a placement"), 7.0));
}

/// Two tensors between operators that are pinned to different devices: transferred one after the other through ports,
/// at the same time without contention.
#[test]
fn ports_carry_one_tensor_after_another() {
    let apart = |execution| {
        let mut small = Small::new(&[1.0, 1.0], &[(0, &[1], 2.0), (0, &[1], 3.0)]);
        small.pins.0.insert("o0".into(), PinTargets::One("acc0".into()));
        small.pins.0.insert("o1".into(), PinTargets::One("acc1".into()));
        Small { execution, ..small }.on(2)
    };
    for (execution, expected) in [(Execution::Ports, 7.0), (Execution::ContentionFree, 5.0)] {
        let problem = apart(execution);
        assert_eq!(value(&OneMachine, &problem), round_down(expected));
        assert!(same(optimum(&problem).expect("a placement"), expected));
    }
}

/// Three readers of a tensor on two devices: two of them must run one after the other. Bounds miss this if they ignore
/// that a device runs whole operators, and that each operator must be on one of the two devices.
#[test]
fn what_is_apart_from_one_of_two_devices_is_together() {
    for bytes in [0.0, 1e-9] {
        let problem = Small::new(&[1.0, 10.0, 10.0, 10.0], &[(0, &[1, 2, 3], bytes)]).on(2);
        assert!(same(optimum(&problem).expect("a step"), 21.0));
        assert!(strongest(&problem).value < 17.0);
        let value = value(&Destructive, &problem);
        assert!((20.9..=21.0).contains(&value), "{value}");
    }
}

/// If every operator fits somewhere but all of them do not fit together, every target is refuted.
#[test]
fn operators_that_fit_only_alone_have_no_destructive_bound() {
    let small = Small::new(&[1.0, 1.0], &[(0, &[1], 1.0)]);
    let problem = Small { memory: Some(8.0), parameters: 6.0, ..small }.on(1);
    assert!(Reach::new(&problem).is_some() && optimum(&problem).is_none());
    assert_eq!(Destructive.compute(&problem), None);
}

/// If an operator fits nowhere, there is no placement to bound.
#[test]
fn an_operator_that_fits_nowhere_has_no_bound() {
    let sized = |memory| {
        let small = Small::new(&[1.0, 1.0], &[(0, &[1], 1.0)]);
        Small { memory: Some(memory), parameters: 4.0, ..small }.on(2)
    };
    // A device that runs one of the operators holds its parameters and the tensor.
    assert!(Reach::new(&sized(4.0)).is_none() && OneMachine.compute(&sized(4.0)).is_none());
    assert!(Reach::new(&sized(5.0)).is_some() && optimum(&sized(5.0)).is_some());
}

#[test]
fn nothing_to_run_takes_no_time() {
    let problem = Small::new(&[], &[]).on(2);
    assert_eq!(strongest(&problem).value, 0.0);
}
