use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, GRAPH_SCHEMA_2, KindDocument, LinkDocument, OperatorDocument,
    PinTargets, PinsDocument,
};
use stagewright_core::graph::{Graph, GraphBuilder};
use stagewright_core::objective::Objective;

use super::*;

const GIB: f64 = (1u64 << 30) as f64;

/// A chain of operators of 6 GiB, each measured on class `gpu`.
fn chain(length: usize, devices: u32, memory: f64, pins: PinsDocument) -> Problem {
    let mut builder = GraphBuilder::new("chain");
    for index in 0..length {
        builder.operator(OperatorDocument {
            seconds: [("gpu".into(), 1.0)].into(),
            parameter_bytes: 6.0 * GIB,
            ..OperatorDocument::named(format!("op{index}"))
        });
    }
    for index in 1..length {
        builder.tensor(&format!("op{}", index - 1), [format!("op{index}").as_str()], 1.0);
    }
    let kind = |name: &str, class: &str, count| KindDocument {
        reserve_bytes: None,
        name: name.into(),
        class: class.into(),
        count,
        host: false,
        memory_bytes: Some(memory),
        link: Some(LinkDocument { latency_s: 0.0, bandwidth: 1e9 }),
        group: None,
        server: None,
        ram: None,
    };
    let cluster = ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: Default::default(),
        kinds: vec![kind("acc", "gpu", devices), kind("other", "npu", 1)],
        groups: Vec::new(),
        matrix: None,
    };
    let graph = builder.build().expect("a chain is a graph");
    let cluster = Cluster::from_document(cluster).expect("the cluster is one");
    Problem::pinned(graph, cluster, Objective::default(), pins).expect("they make a problem")
}

fn run(problem: &Problem) -> Vec<Finding> {
    let effort = DiagnosisEffort {
        solver: Arc::new(crate::registry::named("dp").expect("it is registered")),
        time: Duration::from_secs(600),
        memory: None,
        threads: 1,
        interrupt: Arc::default(),
        reserve_is_given: false,
    };
    diagnose(problem, &effort)
}

#[test]
fn the_smallest_count_is_exact() {
    // Two operators fit on a device, so nine need five.
    let findings = run(&chain(9, 2, 16.0 * GIB, PinsDocument::default()));
    let expected = Finding::MoreDevices { kind: "acc".into(), count: 5, smallest: true };
    assert!(findings.contains(&expected), "{findings:?}");
}

#[test]
fn the_smallest_memory_is_bracketed() {
    // Nine operators on two devices: one of them must hold five operators of 6 GiB.
    let findings = run(&chain(9, 2, 16.0 * GIB, PinsDocument::default()));
    let bracket = findings.iter().find_map(|finding| match finding {
        Finding::MoreMemory { bytes, too_few: Some(too_few), .. } => Some((*too_few, *bytes)),
        _ => None,
    });
    let (too_few, enough) = bracket.expect("more memory helps");
    assert!(too_few < 30.0 * GIB && (30.0 * GIB..30.3 * GIB).contains(&enough), "{too_few} {enough}");
}

#[test]
fn a_unit_that_fits_nowhere_is_named() {
    let findings = run(&chain(2, 2, 4.0 * GIB, PinsDocument::default()));
    assert!(matches!(&findings[0], Finding::UnitTooLarge { unit, .. } if unit == "operator `op0`"));
    assert!(!findings.iter().any(|finding| matches!(finding, Finding::MoreDevices { .. })));
}

#[test]
fn a_pin_to_a_device_without_a_time_is_named() {
    let pins = PinsDocument([("op1".into(), PinTargets::One("other0".into()))].into());
    let findings = run(&chain(2, 2, 16.0 * GIB, pins));
    let text = findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert_eq!(text, "no device may run `op1`; its pin leaves out class gpu, which has a time for it");
}

/// A copy of the problem with a graph of version 2 and the given reserve.
fn with_reserve(problem: &Problem, reserve: Option<f64>) -> Problem {
    let mut document = problem.graph().document().clone();
    document.schema = GRAPH_SCHEMA_2.into();
    let graph = Graph::from_document(document).expect("a chain is a graph");
    let mut cluster = problem.cluster().document().clone();
    cluster.kinds.iter_mut().for_each(|kind| kind.reserve_bytes = reserve);
    let cluster = Cluster::from_document(cluster).expect("the cluster is one");
    Problem::new(graph, cluster, Objective::default()).expect("they make a problem")
}

/// Bytes per device found to be sufficient, and bytes proved insufficient.
fn enough(findings: &[Finding]) -> (f64, Option<f64>) {
    let more = findings.iter().find_map(|finding| match finding {
        Finding::MoreMemory { bytes, too_few, .. } => Some((*bytes, *too_few)),
        _ => None,
    });
    more.expect("more memory helps")
}

#[test]
fn a_reserve_that_leaves_no_memory_is_named() {
    let findings = run(&with_reserve(&chain(2, 2, 0.5 * GIB, PinsDocument::default()), Some(GIB)));
    let expected = Finding::Reserve { kind: "acc".into(), memory: 0.5 * GIB, reserve: GIB };
    assert!(findings.contains(&expected), "{findings:?}");
    // One operator on each device, with 1 GiB for the runtime.
    assert!((7.0 * GIB..7.1 * GIB).contains(&enough(&findings).0), "{findings:?}");
}

#[test]
fn enough_memory_has_the_default_reserve_of_its_size() {
    // Four operators of 6 GiB on each device, with 6% for the runtime, whether the reserve is explicit or not.
    for reserve in [None, Some(GIB)] {
        let findings = run(&with_reserve(&chain(8, 2, 8.0 * GIB, PinsDocument::default()), reserve));
        let (enough, too_few) = enough(&findings);
        let least = 24.0 * GIB / 0.94;
        assert!((least..1.006 * least).contains(&enough), "{findings:?}");
        assert!(too_few.is_some_and(|too_few| (0.994 * least..least).contains(&too_few)), "{findings:?}");
    }
}

#[test]
fn a_small_device_keeps_most_of_its_memory_without_a_reserve_in_the_cluster() {
    let mut problem = chain(2, 2, 128.0 * 1048576.0, PinsDocument::default()).graph().document().clone();
    problem.operators.iter_mut().for_each(|operator| operator.parameter_bytes = 100.0 * 1048576.0);
    problem.schema = GRAPH_SCHEMA_2.into();
    let graph = Graph::from_document(problem).expect("a chain is a graph");
    let cluster = chain(2, 1, 128.0 * 1048576.0, PinsDocument::default()).cluster().clone();
    let problem = Problem::new(graph, cluster, Objective::default());
    let findings = run(&problem.expect("they make a problem"));
    let expected = Finding::MoreDevices { kind: "acc".into(), count: 2, smallest: true };
    assert!(findings.contains(&expected), "{findings:?}");
    assert!(!findings.iter().any(|finding| matches!(finding, Finding::Reserve { .. })), "{findings:?}");
}
