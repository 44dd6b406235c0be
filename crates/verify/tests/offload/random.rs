//! Random problems, placements and calls, and their mutations.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use stagewright_core::document::PlanStatus;

use super::documents::{self, Case, offload, read};
use super::simulation::Outcome;

pub(crate) const ACCELERATORS: usize = 3;
/// Name, kind and index of the class among gpu, tpu and cpu: three accelerators, of which the last is of
/// another kind, and two hosts.
pub(crate) const DEVICES: [(&str, &str, usize); 5] =
    [("acc0", "acc", 0), ("acc1", "acc", 0), ("far0", "far", 1), ("host0", "host", 2), ("host1", "host", 2)];

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) from: usize,
    pub(crate) to: BTreeSet<usize>,
    bytes: u8,
}

/// A problem with operators in topological order, and their placement.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    pub(crate) seconds: Vec<[u8; 3]>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) device_of: Vec<usize>,
    /// Calls of each accelerator.
    pub(crate) calls: Vec<Vec<Vec<usize>>>,
}

pub(crate) fn random() -> impl Strategy<Value = Random> {
    (2usize..10).prop_flat_map(|n| {
        let tensor = (0..n - 1).prop_flat_map(move |from| {
            (prop::collection::btree_set(from + 1..n, 0..4), any::<u8>())
                .prop_map(move |(to, bytes)| Tensor { from, to, bytes })
        });
        (
            prop::collection::vec(any::<[u8; 3]>(), n),
            prop::collection::vec(any::<u8>(), n),
            prop::collection::vec(tensor, 0..16),
            prop::collection::vec(0..DEVICES.len(), n),
            prop::collection::vec(0usize..3, n),
            any::<bool>(),
        )
            .prop_map(|(seconds, bytes, tensors, device_of, draws, in_order)| {
                let calls = (0..ACCELERATORS).map(|device| into_calls(device, &device_of, &draws, in_order));
                let calls = calls.collect();
                Random { seconds, bytes, tensors, device_of, calls }
            })
    })
}

/// Calls of a device: if `in_order`, the operators in order, with a new call wherever the draw is zero;
/// otherwise each operator in the drawn call.
fn into_calls(device: usize, device_of: &[usize], draws: &[usize], in_order: bool) -> Vec<Vec<usize>> {
    let mut calls = vec![Vec::new(); 3];
    for operator in (0..device_of.len()).filter(|&operator| device_of[operator] == device) {
        if !in_order {
            calls[draws[operator]].push(operator);
        } else {
            if draws[operator] == 0 {
                calls.push(Vec::new());
            }
            calls.last_mut().unwrap().push(operator);
        }
    }
    calls.retain(|call| !call.is_empty());
    calls
}

impl Random {
    pub(crate) fn seconds(&self, operator: usize) -> u64 {
        u64::from(self.seconds[operator][DEVICES[self.device_of[operator]].2])
    }

    /// Seconds to move a tensor: 1 + bytes on `acc`, 2 · bytes on `far`.
    pub(crate) fn transfer(tensor: &Tensor, device: usize) -> u64 {
        match DEVICES[device].1 {
            "acc" => 1 + u64::from(tensor.bytes),
            "far" => 2 * u64::from(tensor.bytes),
            host => panic!("{host} moves nothing"),
        }
    }

    pub(crate) fn case(&self) -> Case {
        let name = |operator: &usize| format!("o{operator}");
        let names = |operators: &mut dyn Iterator<Item = usize>| -> Vec<String> {
            operators.map(|operator| name(&operator)).collect()
        };
        let passes = ["forward", "backward", "update"];
        let operators: Vec<Value> = (0..self.seconds.len())
            .map(|operator| {
                let [gpu, tpu, cpu] = self.seconds[operator];
                json!({"name": name(&operator), "seconds": {"gpu": gpu, "tpu": tpu, "cpu": cpu},
                       "parameter_bytes": self.bytes[operator], "pass": passes[operator % 3]})
            })
            .collect();
        let tensors: Vec<Value> = self
            .tensors
            .iter()
            .map(|Tensor { from, to, bytes }| {
                json!({"producer": name(from), "consumers": names(&mut to.iter().copied()), "bytes": bytes})
            })
            .collect();
        let mut plan = offload(self.seconds.len() as u32, &[]);
        for (device, (device_name, kind, _)) in DEVICES.iter().enumerate() {
            let ops =
                names(&mut (0..self.seconds.len()).filter(|&operator| self.device_of[operator] == device));
            let calls: Option<Vec<Vec<String>>> = self
                .calls
                .get(device)
                .map(|calls| calls.iter().map(|call| names(&mut call.iter().copied())).collect());
            plan.devices.push(read(json!({
                "name": device_name, "kind": kind, "stage": null, "replicas": 1, "calls": calls, "load_s": 0.0,
                "compute_s": 0.0, "communication_s": 0.0, "memory_bytes": 0.0, "ops": ops})));
        }
        Case {
            graph: read(json!({"schema": "stagewright.graph/1", "operators": operators, "tensors": tensors})),
            cluster: read(json!({"schema": "stagewright.cluster/1", "kinds": [
                {"name": "acc", "class": "gpu", "count": 2, "link": {"latency_s": 1.0, "bandwidth": 1.0}},
                {"name": "far", "class": "tpu", "count": 1, "link": {"bandwidth": 0.5}},
                {"name": "host", "class": "cpu", "count": 2, "host": true}]})),
            pins: None,
            plan,
        }
    }

    /// The case, claiming the figures of an outcome.
    pub(crate) fn claiming(&self, outcome: &Outcome) -> Case {
        let mut case = self.case();
        case.plan.status = PlanStatus::Feasible;
        case.plan.objective.value_s = Some(outcome.value as f64);
        for (device, figures) in outcome.devices.iter().enumerate() {
            let [compute, communication, bytes] = figures.map(|figure| figure as f64);
            documents::figures(
                &mut case.plan,
                device,
                [compute + communication, compute, communication, bytes],
            );
        }
        case
    }

    /// Moves an operator to a device: into the call with this number if there is one, otherwise into a new call.
    pub(crate) fn moved(&self, operator: usize, device: usize, call: usize) -> Random {
        let mut moved = self.clone();
        for calls in &mut moved.calls {
            calls.iter_mut().for_each(|call| call.retain(|&other| other != operator));
        }
        moved.device_of[operator] = device;
        if let Some(calls) = moved.calls.get_mut(device) {
            match calls.get_mut(call) {
                Some(call) => call.push(operator),
                None => calls.push(vec![operator]),
            }
        }
        for calls in &mut moved.calls {
            calls.retain(|call| !call.is_empty());
        }
        moved
    }

    /// Swaps a call of a device with the next one.
    pub(crate) fn swapped(&self, device: usize, call: usize) -> Option<Random> {
        let mut swapped = self.clone();
        let calls = swapped.calls.get_mut(device).filter(|calls| call + 1 < calls.len())?;
        calls.swap(call, call + 1);
        Some(swapped)
    }
}
