//! A small valid problem and plan for the tests to corrupt, and helpers for their reports.
//!
//! The graph is the chain a → b → c:
//!
//! | operator | seconds on gpu | on tpu | parameters | optimiser | activations | workspace |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | a | 2 | can't | 10 | 20 | 5 | 1 |
//! | b | 3 | 3 | 4 | | | |
//! | c | 4 | 4 | 6 | | 3 | |
//!
//! with tensors `ab` of 10 bytes and `bc` of 20. The cluster has two devices `acc` of class gpu (latency 0.5 s, 10
//! bytes/s, 100 bytes of memory) in the group `server`, whose uplink has latency 1 s and 20 bytes/s, and one device
//! `far` of class tpu (10 bytes/s, 50 bytes of memory) in no group. So a transfer takes
//!
//! | tensor | acc | far | uplink |
//! | --- | --- | --- | --- |
//! | ab | 0.5 + 10/10 = 1.5 | 1 | 1 + 10/20 = 1.5 |
//! | bc | 0.5 + 20/10 = 2.5 | 2 | 1 + 20/20 = 2 |

#![allow(dead_code, reason = "each test binary uses its own part of it")]

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stagewright_core::document::{ClusterDocument, GraphDocument, ObjectiveKind, PinsDocument, PlanDocument};
use stagewright_verify::{CheckError, Report};

/// A problem with a plan.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) graph: GraphDocument,
    pub(crate) cluster: ClusterDocument,
    pub(crate) pins: Option<PinsDocument>,
    pub(crate) plan: PlanDocument,
}

impl Case {
    pub(crate) fn check(&self) -> Result<Report, CheckError> {
        stagewright_verify::check(&self.graph, &self.cluster, self.pins.as_ref(), &self.plan)
    }

    /// The report; the documents must describe a problem.
    pub(crate) fn report(&self) -> Report {
        self.check().expect("the documents describe a problem")
    }

    /// Names of the violation kinds, each once.
    pub(crate) fn broken(&self) -> Vec<&'static str> {
        let mut kinds: Vec<_> = self.report().violations.iter().map(|violation| violation.kind).collect();
        kinds.sort();
        kinds.dedup();
        kinds.into_iter().map(|kind| kind.name()).collect()
    }

    /// Code of the error; the documents must be invalid.
    pub(crate) fn error(&self) -> &'static str {
        self.check().expect_err("the documents describe no problem").code().name
    }
}

/// The report, which must have no violations.
pub(crate) fn sound(case: &Case) -> Report {
    let report = case.report();
    assert!(report.holds(), "{:?}", report.violations);
    report
}

/// The value of a sound plan.
pub(crate) fn value(case: &Case) -> f64 {
    sound(case).value_s.expect("a value")
}

/// The memory of the devices of a sound plan.
pub(crate) fn peaks(case: &Case) -> Vec<f64> {
    sound(case).devices.iter().map(|device| device.memory_bytes).collect()
}

pub(crate) fn read<T: DeserializeOwned>(document: Value) -> T {
    serde_json::from_value(document).expect("a document")
}

pub(crate) fn chain() -> GraphDocument {
    read(json!({
        "schema": "stagewright.graph/1",
        "operators": [
            {"name": "a", "seconds": {"gpu": 2.0}, "parameter_bytes": 10.0, "optimizer_bytes": 20.0,
             "activation_bytes": 5.0, "workspace_bytes": 1.0},
            {"name": "b", "seconds": {"gpu": 3.0, "tpu": 3.0}, "parameter_bytes": 4.0},
            {"name": "c", "seconds": {"gpu": 4.0, "tpu": 4.0}, "parameter_bytes": 6.0, "activation_bytes": 3.0}
        ],
        "tensors": [
            {"name": "ab", "producer": "a", "consumers": ["b"], "bytes": 10.0},
            {"name": "bc", "producer": "b", "consumers": ["c"], "bytes": 20.0}
        ]
    }))
}

pub(crate) fn cluster() -> ClusterDocument {
    read(json!({
        "schema": "stagewright.cluster/1",
        "kinds": [
            {"name": "acc", "class": "gpu", "count": 2, "memory_bytes": 100.0, "group": "server",
             "link": {"latency_s": 0.5, "bandwidth": 10.0}},
            {"name": "far", "class": "tpu", "count": 1, "memory_bytes": 50.0, "link": {"bandwidth": 10.0}}
        ],
        "groups": [{"name": "server", "uplink": {"latency_s": 1.0, "bandwidth": 20.0}}]
    }))
}

/// A plan without claims, from the name, kind and operators of each device, in pipeline order.
pub(crate) fn placement(devices: &[(&str, &str, &[&str])]) -> PlanDocument {
    let devices: Vec<Value> = devices
        .iter()
        .enumerate()
        .map(|(stage, (name, kind, ops))| {
            json!({"name": name, "kind": kind, "stage": stage, "replicas": 1, "calls": null, "load_s": 0.0,
                   "compute_s": 0.0, "communication_s": 0.0, "memory_bytes": 0.0, "ops": ops})
        })
        .collect();
    read(json!({
        "schema": "stagewright.plan/1", "status": "unknown", "solver": "hand",
        "objective": {"kind": "throughput", "split": "contiguous", "communication": "serial",
                      "training": "combined", "value_s": null},
        "bound": {"value_s": null, "source": "none", "certificate": null},
        "gap": null, "seconds": 0.0, "seed": 0, "devices": devices
    }))
}

/// A plan for latency without claims, with at most `max_calls` calls for each accelerator, from the name and kind of each
/// device and the operators of its calls in order. A device of kind `host` makes no calls and runs all its listed
/// operators.
pub(crate) fn offload(max_calls: u32, devices: &[(&str, &str, &[&[&str]])]) -> PlanDocument {
    let mut plan = placement(&[]);
    plan.objective.kind = ObjectiveKind::Latency;
    plan.objective.calls = Some(max_calls);
    for &(name, kind, calls) in devices {
        let ops = calls.concat();
        let calls = (kind != "host").then_some(calls);
        plan.devices.push(read(json!({
            "name": name, "kind": kind, "stage": null, "replicas": 1, "calls": calls, "load_s": 0.0,
            "compute_s": 0.0, "communication_s": 0.0, "memory_bytes": 0.0, "ops": ops})));
    }
    plan
}

/// Two accelerators `acc` of class gpu, with links of 1 byte/s, and a host with two sockets of class cpu.
pub(crate) fn hosted() -> ClusterDocument {
    read(json!({
        "schema": "stagewright.cluster/1",
        "kinds": [
            {"name": "acc", "class": "gpu", "count": 2, "memory_bytes": 100.0, "link": {"bandwidth": 1.0}},
            {"name": "host", "class": "cpu", "count": 2, "host": true}
        ]
    }))
}

/// A graph of operators, each with its seconds on every class, and of tensors with producer, consumers and bytes, which
/// on [`hosted`] equal the seconds of a transfer.
pub(crate) fn graph(operators: &[(&str, f64)], tensors: &[(&str, &[&str], f64)]) -> GraphDocument {
    let operators: Vec<Value> = operators
        .iter()
        .map(|(name, seconds)| json!({"name": name, "seconds": {"gpu": seconds, "cpu": seconds}}))
        .collect();
    let tensors: Vec<Value> = tensors
        .iter()
        .map(|(producer, consumers, bytes)| {
            json!({"producer": producer, "consumers": consumers, "bytes": bytes})
        })
        .collect();
    read(json!({"schema": "stagewright.graph/1", "operators": operators, "tensors": tensors}))
}

/// The chain with a and b on acc0 and c on far0, and every figure claimed:
///
/// - acc0: compute 2 + 3 = 5, communication 2.5 (sends bc), load 7.5, memory 36 + 4 = 40;
/// - far0: compute 4, communication 2 (receives bc), load 6, memory 9;
/// - uplink of `server`: 2 (bc crosses it).
pub(crate) fn valid() -> Case {
    let mut plan = placement(&[("acc0", "acc", &["a", "b"]), ("far0", "far", &["c"])]);
    plan.status = read(json!("feasible"));
    plan.objective.value_s = Some(7.5);
    plan.uplinks = read(json!([{"group": "server", "load_s": 2.0}]));
    figures(&mut plan, 0, [7.5, 5.0, 2.5, 40.0]);
    figures(&mut plan, 1, [6.0, 4.0, 2.0, 9.0]);
    Case { graph: chain(), cluster: cluster(), pins: None, plan }
}

/// Sets the claimed load, compute, communication and memory of a device.
pub(crate) fn figures(
    plan: &mut PlanDocument,
    device: usize,
    [load, compute, communication, memory]: [f64; 4],
) {
    let device = &mut plan.devices[device];
    device.load_s = load;
    device.compute_s = compute;
    device.communication_s = communication;
    device.memory_bytes = memory;
}
