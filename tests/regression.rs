//! Regression tests, each named after the cause of the defect.

use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, GraphDocument, GroupDocument, KindDocument, LinkDocument,
    OperatorDocument, Pass, PinTargets, PinsDocument, Schedule, TensorDocument, Training,
};
use stagewright_core::evaluate::{Violation, evaluate};
use stagewright_core::graph::{Graph, GraphBuilder};
use stagewright_core::objective::{Objective, Throughput};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Silent, Solution, Solver, Status, StopReason};
use stagewright_core::tolerance::same;
use stagewright_dp::Dp;
use stagewright_search::usage::UsageSpace;
use stagewright_search::{Dpl, Local, OneDevice, PipeDream};

/// `count` devices of class `acc` with unlimited memory.
fn devices(count: u32) -> Cluster {
    Cluster::from_document(ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: Default::default(),
        kinds: vec![KindDocument {
            reserve_bytes: None,
            name: "acc".into(),
            class: "acc".into(),
            count,
            host: false,
            memory_bytes: None,
            link: Some(LinkDocument { latency_s: 0.0, bandwidth: 1.0 }),
            group: None,
            server: None,
            ram: None,
        }],
        groups: Vec::new(),
        matrix: None,
    })
    .expect("a valid cluster")
}

fn operator(name: &str, pass: Pass, class: &str, seconds: f64) -> OperatorDocument {
    OperatorDocument {
        pass,
        colocation: Some(class.into()),
        seconds: [("acc".into(), seconds)].into(),
        ..OperatorDocument::named(name)
    }
}

fn tensor(from: &str, to: &str, seconds: f64) -> TensorDocument {
    TensorDocument {
        name: None,
        producer: from.into(),
        consumers: vec![to.into()],
        bytes: 0.0,
        seconds: [("acc".into(), seconds)].into(),
    }
}

fn problem(graph: Graph, devices_count: u32, objective: Objective) -> Problem {
    Problem::new(graph, devices(devices_count), objective).expect("a valid problem")
}

fn solve(solver: &dyn Solver, problem: &Problem) -> Solution {
    solve_within(solver, problem, Limits::default().memory)
}

fn solve_within(solver: &dyn Solver, problem: &Problem, memory: Option<u64>) -> Solution {
    let limits = Limits { time: None, memory, ..Limits::default() };
    let mut silent = Silent;
    let mut context = Context::new(limits, &mut silent);
    solver.solve(problem, &mut context).expect("an answer")
}

/// Tenths have no exact binary representation: 0.2 + 0.3 + 0.1 depends on the order of summation.
#[test]
fn separate_sweep_ends_with_decimal_costs() {
    let mut builder = GraphBuilder::new("tenths");
    let (forward, backward) = ([0.2, 0.1, 0.2], [0.6, 0.6, 1.0]);
    for index in 0..3 {
        let class = format!("c{index}");
        builder.operator(operator(&format!("f{index}"), Pass::Forward, &class, forward[index]));
        builder.operator(operator(&format!("b{index}"), Pass::Backward, &class, backward[index]));
    }
    builder.timed_tensor(tensor("f0", "f1", 0.3)).timed_tensor(tensor("f1", "f2", 0.2));
    let objective = Throughput { training: Training::Separate, ..Throughput::default() };
    let problem = problem(builder.build().expect("a graph"), 3, objective.into());
    // One operator per device: the forward loads are 0.5, 0.6 and 0.4, and the largest backward load is 1.
    for solver in [&Dpl as &dyn Solver, &Dp] {
        let solution = solve(solver, &problem);
        assert_eq!(solution.stop, None, "{}", solver.name());
        let value = solution.value().expect("a plan");
        assert!(same(value, 1.6), "{}: {value}", solver.name());
        assert_eq!(solver.name() == "dp", solution.status == Status::Optimal);
    }
}

/// X has no forward operator, so W and V must precede it. The solver dropped this constraint when it merged X with Y,
/// which has one.
#[test]
fn pipedream_keeps_mirrored_constraints_of_merged_classes() {
    let mut builder = GraphBuilder::new("mirrored");
    for name in ["Yf", "Wf", "Vf"] {
        builder.operator(operator(name, Pass::Forward, &name[..1], 1.0));
    }
    for name in ["Yb", "Xb", "Wb", "Vb"] {
        builder.operator(operator(name, Pass::Backward, &name[..1], 1.0));
    }
    for (from, to) in [("Xb", "Wb"), ("Yb", "Wb"), ("Xb", "Vb"), ("Yb", "Vb")] {
        builder.timed_tensor(tensor(from, to, 0.0));
    }
    let problem = problem(builder.build().expect("a graph"), 3, Objective::default());
    // X and Y merge and take three seconds on one device. W and V precede them and take two seconds each.
    assert_eq!(solve(&PipeDream, &problem).value(), Some(3.0));
}

/// A stage pinned to one device was scored as if on two, and beat the optimum of the solvers, which keep it on one.
#[test]
fn replicas_stay_where_the_pins_are() {
    let mut builder = GraphBuilder::new("pinned");
    builder.operator(operator("a", Pass::Forward, "A", 4.0));
    let graph = builder.build().expect("a graph");
    let pins = PinsDocument([("a".into(), PinTargets::One("acc0".into()))].into());
    let objective = Throughput { max_replicas: 2, ..Throughput::default() };
    let problem = Problem::pinned(graph, devices(2), objective, pins).expect("a valid problem");
    let solution = solve(&Dp, &problem);
    assert_eq!((solution.status, solution.value()), (Status::Optimal, Some(4.0)));
    let first = DeviceId(0);
    let twice = Placement::with_stages(vec![first], vec![first], [(first, 2)].into());
    let violations = evaluate(&problem, &twice).violations;
    assert_eq!(violations, [Violation::Pool { devices: "acc0".into(), used: 2, count: 1 }]);
}

/// The objective allows one device per stage, although the kind has two.
#[test]
fn replicas_are_counted_against_the_objective() {
    let mut builder = GraphBuilder::new("single");
    builder.operator(operator("a", Pass::Forward, "A", 4.0));
    let problem = problem(builder.build().expect("a graph"), 2, Objective::default());
    let first = DeviceId(0);
    for replicas in [0, 2] {
        let placement = Placement::with_stages(vec![first], vec![first], [(first, replicas)].into());
        let violations = evaluate(&problem, &placement).violations;
        assert_eq!(violations, [Violation::Replicas { device: "acc0".into(), replicas, most: 1 }]);
    }
}

/// A model that does not fit on one device may fit on several. So this is neither a proof of infeasibility nor a defect
/// of the solver.
#[test]
fn one_device_that_does_not_fit_proves_nothing_for_more() {
    let graph = || {
        let mut builder = GraphBuilder::new("heavy");
        builder.operator(OperatorDocument { parameter_bytes: 2.0, ..operator("a", Pass::Forward, "A", 1.0) });
        builder.operator(OperatorDocument { parameter_bytes: 2.0, ..operator("b", Pass::Forward, "B", 1.0) });
        builder.build().expect("a graph")
    };
    for (count, status) in [(1, Status::Infeasible), (2, Status::Unknown)] {
        let mut cluster = devices(count).document().clone();
        cluster.kinds[0].memory_bytes = Some(3.0);
        let cluster = Cluster::from_document(cluster).expect("a valid cluster");
        let problem = Problem::new(graph(), cluster, Objective::default());
        let problem = problem.expect("a valid problem");
        let solution = solve(&OneDevice, &problem);
        assert_eq!((solution.status, solution.stop), (status, None));
        let reason = solution.reason.expect("a reason");
        assert_eq!(reason, "no single device runs the whole model: acc0 needs 4 B of 3 B");
        let expected = if count == 1 { Status::Infeasible } else { Status::Optimal };
        assert_eq!(solve(&Dp, &problem).status, expected);
    }
}

/// A chain of 40 operators on two kinds of 20 devices: 441 usages at 41 positions, 434 kB of tables at 24
/// bytes per state.
fn long_chain() -> Problem {
    let mut builder = GraphBuilder::new("chain");
    for index in 0..40 {
        builder.operator(operator(&format!("f{index}"), Pass::Forward, &format!("c{index}"), 1.0));
        if index > 0 {
            builder.timed_tensor(tensor(&format!("f{}", index - 1), &format!("f{index}"), 0.0));
        }
    }
    let mut cluster = devices(20).document().clone();
    cluster.kinds.push(KindDocument { name: "other".into(), ..cluster.kinds[0].clone() });
    let cluster = Cluster::from_document(cluster).expect("a valid cluster");
    let graph = builder.build().expect("a graph");
    Problem::new(graph, cluster, Objective::default()).expect("a valid problem")
}

/// The number of states used to be constant, regardless of the memory limit.
#[test]
fn tables_follow_the_memory_limit() {
    let problem = long_chain();
    for solver in [&Dpl as &dyn Solver, &PipeDream] {
        let enough = solve_within(solver, &problem, Some(4 * 441 * 41 * 24));
        assert_eq!((enough.value(), enough.stop, enough.reason), (Some(1.0), None, None));
        // There is space for 24 usages. The largest square within that is 16: 0 to 3 devices of each kind.
        let short = solve_within(solver, &problem, Some(4 * 24 * 41 * 24));
        assert_eq!((short.value(), short.stop), (Some(7.0), Some(StopReason::Memory)));
        let reason = short.reason.expect("a reason");
        let left_out = "planned on 3 of the 20 devices of kind `acc` and 3 of the 20 devices of kind `other`";
        assert!(reason.ends_with(left_out), "{reason}");
        // One device of each kind would need 4 usages.
        let none = solve_within(solver, &problem, Some(4 * 3 * 41 * 24));
        if solver.name() == "dpl" {
            // Filling the devices one after the other needs no tables.
            assert_eq!((none.status, none.value()), (Status::Optimal, Some(1.0)));
            continue;
        }
        assert_eq!((none.status, none.stop), (Status::Unknown, Some(StopReason::Memory)));
        let reason = none.reason.expect("a reason");
        assert!(reason.ends_with("too little even for one device of each pool"), "{reason}");
    }
}

#[test]
fn spaces_are_cut_no_further_than_they_have_to() {
    let problem = long_chain();
    for limit in [4, 8, 9, 15, 16, 100, 440, 441, 1000] {
        let space = UsageSpace::fitting(&problem, 40, limit).expect("one device of each kind fits");
        let devices = space.limit(0);
        assert_eq!(space.limit(1), devices);
        assert!(space.len() <= limit);
        assert!(devices == 20 || (devices as usize + 2).pow(2) > limit, "{devices} for {limit}");
    }
    assert!(UsageSpace::fitting(&problem, 40, 3).is_none());
    assert_eq!(UsageSpace::size(&problem, 40), 441.0);
}

/// Under GPipe, the slowest resource may be an uplink in the forward pass and a device in the backward pass.
#[test]
fn an_uplink_of_one_pass_and_a_device_of_the_other_do_not_add_up() {
    let mut builder = GraphBuilder::new("two stages");
    for (name, pass, seconds) in [
        ("f0", Pass::Forward, 1.0),
        ("f1", Pass::Forward, 1.0),
        ("b1", Pass::Backward, 10.0),
        ("b0", Pass::Backward, 10.0),
    ] {
        builder.operator(OperatorDocument {
            pass,
            colocation: Some(name[1..].into()),
            seconds: [("acc".into(), seconds)].into(),
            ..OperatorDocument::named(name)
        });
    }
    for (producer, consumer, bytes) in [("f0", "f1", 10.0), ("f1", "b1", 0.0), ("b1", "b0", 0.0)] {
        builder.timed_tensor(TensorDocument {
            name: None,
            producer: producer.into(),
            consumers: vec![consumer.into()],
            bytes,
            seconds: [("acc".into(), 0.0)].into(),
        });
    }
    let kind = |name: &str| KindDocument {
        server: None,
        ram: None,
        reserve_bytes: None,
        name: name.into(),
        class: "acc".into(),
        count: 1,
        host: false,
        memory_bytes: None,
        link: None,
        group: Some(name.into()),
    };
    let group = |name: &str| GroupDocument {
        name: name.into(),
        uplink: LinkDocument { latency_s: 0.0, bandwidth: 1.0 },
    };
    let cluster = Cluster::from_document(ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: Default::default(),
        kinds: vec![kind("left"), kind("right")],
        groups: vec![group("left"), group("right")],
        matrix: None,
    })
    .expect("a valid cluster");
    let objective = Throughput { schedule: Schedule::GPipe, microbatches: 8, ..Throughput::default() };
    let graph = builder.build().expect("a valid graph");
    let problem = Problem::new(graph, cluster, objective).expect("a valid problem");
    let device_of = [0, 1, 1, 0].map(DeviceId).to_vec();
    let stages = [0, 1].map(DeviceId).to_vec();
    let placement = Placement::with_stages(device_of, stages, Default::default());
    let iteration = evaluate(&problem, &placement);
    assert!(iteration.is_feasible(), "{:?}", iteration.violations);
    // Fill and drain of one forward and one backward pass, plus eight microbatches of each.
    assert!(same(iteration.value, 99.0), "{}", iteration.value);
    let relaxed =
        problem.with_objective(Objective::from(objective).bottleneck(true)).expect("a valid objective");
    let bottleneck = evaluate(&relaxed, &placement).value;
    assert!(8.0 * bottleneck <= iteration.value, "{bottleneck}");
}

/// Sums bound the memory of live tensors only from below, so the best chain by sums may have a call that does not fit.
/// No other chain used to be tried then.
#[test]
fn a_call_that_sums_of_memory_admit_hides_no_other_chain() {
    let document = serde_json::json!({
        "schema": "stagewright.graph/2",
        "operators": [
            {"name": "a", "seconds": {"acc": 1.0}, "workspace_bytes": 1.0},
            {"name": "b", "seconds": {"acc": 1.0}, "workspace_bytes": 9.0},
        ],
        "tensors": [
            {"producer": "a", "consumers": [], "bytes": 2.0},
            {"producer": "a", "consumers": ["b"], "bytes": 1.0},
        ],
        "cluster": {"schema": CLUSTER_SCHEMA, "kinds": [
            {"name": "acc", "class": "acc", "count": 2, "memory_bytes": 10.0, "reserve_bytes": 0.0,
             "link": {"bandwidth": 1.0}},
        ]},
    });
    let document: GraphDocument = serde_json::from_value(document).expect("a document");
    let cluster = Cluster::from_document(document.cluster.clone().expect("its cluster")).expect("a cluster");
    let graph = Graph::from_document(document).expect("a graph");
    let objective = Objective::Latency { calls: 1 };
    let problem = Problem::new(graph, cluster, objective).expect("a problem");
    for solver in [&Dp as &dyn Solver, &Local] {
        let value = solve(solver, &problem).value();
        assert!(value.is_some_and(|value| same(value, 4.0)), "{}: {value:?}", solver.name());
    }
}
