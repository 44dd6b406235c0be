//! The latency of calls, small enough to compute by hand.

use crate::documents;

use documents::{Case, figures, graph, hosted, offload, read};
use serde_json::json;
use stagewright_core::document::{GraphDocument, Pass, PlanDocument};
use stagewright_verify::Report;

fn case(graph: GraphDocument, plan: PlanDocument) -> Case {
    Case { graph, cluster: hosted(), pins: None, plan }
}

/// Value, and load, compute and communication of each device; the plan must have no violations.
fn timed(case: &Case) -> (f64, Vec<[f64; 3]>) {
    let report: Report = case.report();
    assert!(report.holds(), "{:?}", report.violations);
    let figures =
        report.devices.iter().map(|device| [device.load_s, device.compute_s, device.communication_s]);
    (report.value_s.expect("a value"), figures.collect())
}

/// a → b → c, of 2, 3 and 4 s; ab takes 1.5 s to move, bc 2.5.
fn chain() -> GraphDocument {
    graph(&[("a", 2.0), ("b", 3.0), ("c", 4.0)], &[("a", &["b"], 1.5), ("b", &["c"], 2.5)])
}

#[test]
fn from_the_host_and_back() {
    let plan = offload(1, &[("host0", "host", &[&["a", "c"]]), ("acc0", "acc", &[&["b"]])]);
    // a ends at 2, the call at 2 + 1.5 + 3 + 2.5, c at 9 + 4.
    assert_eq!(timed(&case(chain(), plan)), (13.0, vec![[6.0, 6.0, 0.0], [7.0, 3.0, 4.0]]));
}

#[test]
fn one_call_moves_nothing_within() {
    let plan = offload(1, &[("acc1", "acc", &[&["c", "a", "b"]])]);
    assert_eq!(timed(&case(chain(), plan)), (9.0, vec![[9.0, 9.0, 0.0]]));
}

#[test]
fn between_two_calls_of_one_accelerator_a_tensor_is_paid_twice() {
    let plan = offload(2, &[("acc0", "acc", &[&["a"], &["b", "c"]])]);
    // 2 + 1.5 out; 1.5 in + 3 + 4.
    assert_eq!(timed(&case(chain(), plan)), (12.0, vec![[12.0, 9.0, 3.0]]));
    let plan = offload(3, &[("acc0", "acc", &[&["a"], &["b"], &["c"]])]);
    assert_eq!(timed(&case(chain(), plan)), (17.0, vec![[17.0, 9.0, 8.0]]));
}

/// Two branches, p → q and r → s. Two accelerators cross over: each runs the first half of one branch and the
/// second half of the other.
fn branches() -> GraphDocument {
    graph(&[("p", 2.0), ("q", 4.0), ("r", 3.0), ("s", 5.0)], &[("p", &["q"], 1.0), ("r", &["s"], 2.0)])
}

#[test]
fn accelerators_feed_one_another_in_two_calls_each() {
    let plan = offload(2, &[("acc0", "acc", &[&["p"], &["s"]]), ("acc1", "acc", &[&["r"], &["q"]])]);
    // acc0: 2 + 1 = 3, then after r at 5: 5 + 2 + 5 = 12. acc1: 3 + 2 = 5, then after p at 3: 5 + 1 + 4 = 10.
    assert_eq!(timed(&case(branches(), plan)), (12.0, vec![[10.0, 7.0, 3.0], [10.0, 7.0, 3.0]]));
    // With one call each, they wait for each other.
    let plan = offload(1, &[("acc0", "acc", &[&["p", "s"]]), ("acc1", "acc", &[&["r", "q"]])]);
    assert_eq!(case(branches(), plan).broken(), ["calls"]);
}

#[test]
fn calls_of_one_accelerator_run_in_turn() {
    let value = |calls: &[&[&str]]| {
        let plan = offload(2, &[("acc0", "acc", calls), ("host0", "host", &[&["q", "s"]])]);
        timed(&case(branches(), plan)).0
    };
    // p ends at 3, q at 7; r at 3 + 5 = 8, s at 13. In the other order: s at 5 + 5, q at 8 + 4.
    assert_eq!(value(&[&["p"], &["r"]]), 13.0);
    assert_eq!(value(&[&["r"], &["p"]]), 12.0);
}

#[test]
fn a_host_runs_everything_at_once() {
    let plan = offload(1, &[("host0", "host", &[&["p", "r", "s"]]), ("host1", "host", &[&["q"]])]);
    // r and s end at 8, p and q concurrently at 6, and nothing moves between sockets.
    assert_eq!(timed(&case(branches(), plan)), (8.0, vec![[10.0, 10.0, 0.0], [4.0, 4.0, 0.0]]));
}

#[test]
fn a_tensor_is_brought_in_and_sent_out_once_a_call() {
    // h feeds x and y of one call, z of another accelerator and w of the host; x feeds y of its own call, w,
    // z and v, which is in the next call of its own accelerator.
    let graph = graph(
        &[("h", 1.0), ("x", 2.0), ("y", 3.0), ("v", 1.0), ("z", 2.0), ("w", 10.0)],
        &[("h", &["x", "y", "z", "w"], 4.0), ("x", &["y", "w", "z", "v"], 5.0), ("y", &[], 100.0)],
    );
    let plan = offload(
        2,
        &[
            ("acc0", "acc", &[&["x", "y"], &["v"]]),
            ("acc1", "acc", &[&["z"]]),
            ("host0", "host", &[&["h", "w"]]),
        ],
    );
    // h ends at 1. Call 0: 1 + 4 + 2 + 3 + 5 = 15; call 1: 15 + 5 + 1 = 21. acc1: 15 + 4 + 5 + 2 = 26. w: 15
    // + 10.
    let devices = vec![[20.0, 6.0, 14.0], [11.0, 2.0, 9.0], [11.0, 11.0, 0.0]];
    assert_eq!(timed(&case(graph, plan)), (26.0, devices));
}

#[test]
fn every_pass_counts_alike() {
    let plan = offload(1, &[("host0", "host", &[&["a", "c"]]), ("acc0", "acc", &[&["b"]])]);
    let mut case = case(chain(), plan);
    for passes in
        [[Pass::Forward, Pass::Backward, Pass::Update], [Pass::Update, Pass::Forward, Pass::Backward]]
    {
        case.graph.operators.iter_mut().zip(passes).for_each(|(operator, pass)| operator.pass = pass);
        assert_eq!(timed(&case).0, 13.0);
    }
}

#[test]
fn links_and_measured_seconds_as_for_throughput() {
    let plan = offload(1, &[("host0", "host", &[&["a", "c"]]), ("acc0", "acc", &[&["b"]])]);
    let mut case = case(chain(), plan);
    case.cluster.kinds[0].link = read(json!({"latency_s": 0.25, "bandwidth": 2.0}));
    // 2, then 0.25 + 0.75 + 3 + 0.25 + 1.25, then 4.
    assert_eq!(timed(&case).0, 11.5);
    case.graph.tensors[0].seconds = read(json!({"gpu": 0.5}));
    assert_eq!(timed(&case).0, 11.0);
}

#[test]
fn uplinks_play_no_part() {
    let plan = offload(1, &[("host0", "host", &[&["a", "c"]]), ("acc0", "acc", &[&["b"]])]);
    let mut case = case(chain(), plan);
    case.cluster.groups = read(json!([{"name": "server", "uplink": {"latency_s": 50.0, "bandwidth": 1.0}}]));
    case.cluster.kinds[0].group = Some("server".to_owned());
    assert_eq!(timed(&case).0, 13.0);
    assert!(case.report().uplinks.is_empty());
    case.plan.status = read(json!("feasible"));
    case.plan.objective.value_s = Some(13.0);
    figures(&mut case.plan, 0, [6.0, 6.0, 0.0, 0.0]);
    figures(&mut case.plan, 1, [7.0, 3.0, 4.0, 0.0]);
    for (load, broken) in [("0.0", &[][..]), ("54.0", &["uplink-figures"])] {
        case.plan.uplinks =
            serde_json::from_str(&format!(r#"[{{"group": "server", "load_s": {load}}}]"#)).unwrap();
        assert_eq!(case.broken(), broken);
    }
    case.plan.uplinks[0].group = "pod".to_owned();
    assert_eq!(case.broken(), ["uplink-figures"]);
}

#[test]
fn memory_counts_once_over_all_calls() {
    let plan = offload(3, &[("acc0", "acc", &[&["a"], &["b"], &["c"]])]);
    let mut case = case(chain(), plan);
    case.graph.operators[0].parameter_bytes = 50.0;
    case.graph.operators[0].optimizer_bytes = 20.0;
    case.graph.operators[1].activation_bytes = 20.0;
    case.graph.operators[2].workspace_bytes = 10.0;
    assert_eq!(case.report().devices[0].memory_bytes, 100.0);
    assert_eq!(case.broken(), [""; 0]);
    case.graph.operators[2].workspace_bytes = 11.0;
    assert_eq!(case.broken(), ["memory"]);
    // Memory is checked even if the calls give no value.
    case.plan.devices[0].calls = None;
    assert_eq!(case.broken(), ["memory", "calls"]);
}

#[test]
fn the_split_rule_is_not_read() {
    // a and c on acc0 with b between them: neither convex nor contiguous, but feasible in two calls.
    for split in ["contiguous", "convex", "free"] {
        let plan = offload(2, &[("acc0", "acc", &[&["a"], &["c"]]), ("acc1", "acc", &[&["b"]])]);
        let mut case = case(chain(), plan);
        case.plan.objective.split = read(json!(split));
        // 2 + 1.5, 1.5 + 3 + 2.5, 2.5 + 4
        assert_eq!(timed(&case).0, 17.0);
    }
}

#[test]
fn colocation_is_per_accelerator() {
    let mut case = case(chain(), offload(2, &[("acc0", "acc", &[&["a", "b"], &["c"]])]));
    for operator in [0, 2] {
        case.graph.operators[operator].colocation = Some("pair".to_owned());
    }
    assert_eq!(case.broken(), [""; 0]);
    case.plan = offload(1, &[("acc0", "acc", &[&["a", "b"]]), ("acc1", "acc", &[&["c"]])]);
    assert_eq!(case.broken(), ["colocation"]);
}

#[test]
fn nothing_to_run_takes_no_time() {
    let mut plan = offload(1, &[]);
    plan.status = read(json!("feasible"));
    plan.objective.value_s = Some(0.0);
    assert_eq!(timed(&case(graph(&[], &[]), plan)), (0.0, vec![]));
}
