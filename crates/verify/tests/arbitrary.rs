//! Fuzzed documents: the checker returns a result and never panics.
//!
//! A document is decoded from random bytes, each of which selects one of a few names or numbers, so that names often
//! match and often don't. One byte sets how often values are absurd, so that some documents are well-formed and reach
//! the constraints.

use crate::documents;

use std::collections::BTreeMap;

use documents::{cluster, read};
use proptest::prelude::*;
use serde_json::json;
use stagewright_core::document::*;
use stagewright_verify::check;

struct Choices<'b> {
    bytes: std::slice::Iter<'b, u8>,
    absurd: u8,
}

impl Choices<'_> {
    fn next(&mut self) -> u8 {
        self.bytes.next().copied().unwrap_or(0)
    }

    fn of<T: Clone>(&mut self, options: &[T]) -> T {
        options[usize::from(self.next()) % options.len()].clone()
    }

    fn rarely(&mut self) -> bool {
        self.next() < self.absurd
    }

    fn number(&mut self) -> f64 {
        if self.rarely() {
            self.of(&[f64::NAN, -1.0, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e308, 5e-324])
        } else {
            self.of(&[0.0, 1.0, 2.5, 3.0, 1e9])
        }
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.next() % 2 == 1).then(|| make(self))
    }

    fn some<T>(&mut self, limit: u8, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.next() % (limit + 1)).map(|_| make(self)).collect()
    }

    fn schema(&mut self, right: &str) -> String {
        if self.rarely() { String::new() } else { right.to_owned() }
    }

    fn operator(&mut self) -> String {
        if self.rarely() {
            self.of(&["", "z", "acc0"]).to_owned()
        } else {
            self.of(&["a", "b", "c", "d"]).to_owned()
        }
    }

    fn class(&mut self) -> String {
        self.of(&["gpu", "tpu", ""]).to_owned()
    }

    fn kind(&mut self) -> String {
        self.of(&["acc", "far", "acc1", ""]).to_owned()
    }

    fn device(&mut self) -> String {
        self.of(&["acc0", "acc1", "far0", "acc10", "é0", "0", "4294967296", "", "acc99999999999999"])
            .to_owned()
    }

    fn table(&mut self) -> BTreeMap<String, f64> {
        self.some(3, |choices| (choices.class(), choices.number())).into_iter().collect()
    }

    fn graph(&mut self) -> GraphDocument {
        let mut operators: Vec<OperatorDocument> = ["a", "b", "c", "d"].map(OperatorDocument::named).into();
        for operator in &mut operators {
            if self.rarely() {
                operator.name = self.operator();
            }
            operator.pass = self.of(&[Pass::Forward, Pass::Backward, Pass::Update]);
            operator.colocation = self.maybe(|choices| choices.class());
            operator.seconds = self.table();
            if !self.rarely() {
                operator.seconds.extend([("gpu".to_owned(), 2.0), ("tpu".to_owned(), 3.0)]);
            }
            operator.flop = self.maybe(Self::number);
            operator.bytes_moved = self.maybe(Self::number);
            if self.rarely() {
                operator.unsupported = self.some(1, Self::class);
            }
            operator.parameter_bytes = self.number();
            operator.activation_bytes = self.number();
        }
        let tensors = self.some(5, |choices| {
            let (from, to) = choices.of(&[("a", "b"), ("a", "c"), ("b", "c"), ("b", "d"), ("c", "d")]);
            let mut tensor = TensorDocument {
                name: choices.maybe(Self::class),
                producer: from.to_owned(),
                consumers: vec![to.to_owned(), "d".to_owned()],
                bytes: choices.number(),
                seconds: choices.table(),
            };
            if choices.rarely() {
                tensor.producer = choices.operator();
                tensor.consumers = choices.some(3, Self::operator);
            }
            tensor
        });
        GraphDocument {
            schema: self.schema(GRAPH_SCHEMA),
            name: String::new(),
            operators,
            tensors,
            cluster: None,
            parameters: Vec::new(),
            batch: None,
            pipedream_skips: Vec::new(),
        }
    }

    fn link(&mut self) -> LinkDocument {
        LinkDocument { latency_s: self.number(), bandwidth: self.number() + 1.0 }
    }

    fn cluster(&mut self) -> ClusterDocument {
        let mut document = cluster();
        document.schema = self.schema(CLUSTER_SCHEMA);
        let class = |choices: &mut Self| {
            let class = ClassDocument {
                peaks: Default::default(),
                peak_flops: choices.maybe(|choices| choices.number() + 1.0),
                memory_bandwidth: choices.maybe(|choices| choices.number() + 1.0),
                launch_overhead_s: choices.number(),
                efficiency: choices.maybe(|choices| if choices.rarely() { 2.0 } else { 0.5 }),
                training_efficiency: choices.maybe(|choices| if choices.rarely() { 2.0 } else { 0.75 }),
                fits: Vec::new(),
                source: None,
            };
            (choices.class(), class)
        };
        document.classes = self.some(2, class).into_iter().collect();
        for kind in &mut document.kinds {
            if self.rarely() {
                kind.name = self.kind();
            }
            kind.class = if self.rarely() { self.class() } else { "gpu".to_owned() };
            kind.count = if self.rarely() { self.of(&[0, 1, 11, u32::MAX]) } else { 2 };
            kind.host = self.next() % 4 == 1;
            kind.memory_bytes = self.maybe(Self::number);
            kind.link = if self.rarely() { None } else { Some(self.link()) };
        }
        for group in &mut document.groups {
            group.uplink = self.link();
        }
        if self.next() % 4 == 1 {
            let devices = if self.rarely() {
                3
            } else {
                document.kinds.iter().map(|kind| kind.count.min(20) as usize).sum()
            };
            let mut rows = || (0..devices).map(|_| (0..devices).map(|_| self.number()).collect()).collect();
            document.matrix = Some(MatrixDocument { delay_s: rows(), seconds_per_byte: rows() });
        }
        document
    }

    fn pins(&mut self) -> PinsDocument {
        let pin = |choices: &mut Self| {
            let target =
                |choices: &mut Self| if choices.rarely() { choices.device() } else { "acc".to_owned() };
            let single = PinTargets::One(target(choices));
            (
                choices.operator(),
                choices.maybe(|choices| PinTargets::Any(choices.some(3, target))).unwrap_or(single),
            )
        };
        PinsDocument(self.some(2, pin).into_iter().collect())
    }

    fn limits(&mut self) -> (BTreeMap<String, MemoryPriceDocument>, Option<f64>) {
        let memory = self.some(2, |choices| {
            let (quantum_bytes, price) = (choices.number(), choices.number());
            (choices.kind(), MemoryPriceDocument { quantum_bytes, price })
        });
        (memory.into_iter().collect(), self.maybe(Self::number))
    }

    fn certificate(&mut self) -> CertificateDocument {
        match self.next() % 4 {
            0 => {
                let prices = self.some(3, |choices| (choices.kind(), choices.number()));
                let (memory, below_s) = self.limits();
                CertificateDocument::Fluid { prices: prices.into_iter().collect(), memory, below_s }
            }
            1 => CertificateDocument::HeaviestUnit { operator: self.operator() },
            2 => {
                let prices = self.some(3, |choices| (choices.kind(), choices.number()));
                let path = self.some(4, Self::operator);
                let windows = self.some(6, |choices| u32::from(choices.next()) % 8);
                let (memory, below_s) = self.limits();
                let prices = prices.into_iter().collect();
                CertificateDocument::Windows { prices, path, windows, memory, below_s }
            }
            _ => {
                let operators = || ["a", "b", "c", "d"].map(str::to_owned);
                let prices = operators().map(|operator| (operator, self.number()));
                let devices = self.some(3, |choices| (choices.device(), choices.number()));
                let mut order = if self.rarely() { self.some(5, Self::operator) } else { operators().into() };
                let turn = usize::from(self.next()) % order.len().max(1);
                order.rotate_left(turn);
                CertificateDocument::ColumnGeneration {
                    threshold_s: self.number(),
                    prices: prices.into(),
                    devices: devices.into_iter().collect(),
                    order,
                }
            }
        }
    }

    fn objective(&mut self) -> ObjectiveDocument {
        let mut objective = ObjectiveDocument {
            kind: self.of(&[ObjectiveKind::Throughput, ObjectiveKind::Latency, ObjectiveKind::Makespan]),
            split: self.of(&[Split::Contiguous, Split::Convex, Split::Free]),
            communication: self.of(&[Communication::Serial, Communication::Overlap, Communication::Duplex]),
            training: self.of(&[Training::Combined, Training::Separate]),
            schedule: self.of(&[Schedule::None, Schedule::GPipe, Schedule::OneFOneB]),
            microbatches: if self.rarely() { None } else { Some(self.of(&[1, 2, u32::MAX])) },
            max_replicas: self.maybe(|choices| choices.of(&[1, 2, u32::MAX])),
            calls: None,
            execution: if self.rarely() { Execution::ContentionFree } else { Execution::Ports },
            value_s: self.maybe(Self::number),
        };
        if objective.kind != ObjectiveKind::Throughput {
            if objective.kind == ObjectiveKind::Latency {
                objective.calls = self.maybe(|choices| choices.of(&[1, 2, u32::MAX]));
            }
            if !self.rarely() {
                objective.communication = Communication::Serial;
                objective.training = Training::Combined;
                objective.schedule = Schedule::None;
                objective.max_replicas = None;
            }
        } else if self.rarely() {
            objective.calls = self.maybe(|choices| choices.of(&[0, 1, 2]));
        }
        if objective.kind == ObjectiveKind::Makespan {
            objective.execution = self.of(&[Execution::Ports, Execution::ContentionFree]);
        }
        if !self.rarely() {
            match objective.schedule {
                Schedule::None => objective.microbatches = None,
                _ => objective.split = Split::Contiguous,
            }
        }
        objective
    }

    fn calls(&mut self, ops: &[String]) -> Option<Vec<Vec<String>>> {
        if self.rarely() {
            return self.maybe(|choices| choices.some(3, |choices| choices.some(3, Self::operator)));
        }
        let mut calls = vec![Vec::new(), Vec::new()];
        for operator in ops {
            calls[usize::from(self.next()) % 2].push(operator.clone());
        }
        calls.retain(|call| !call.is_empty() || self.rarely());
        Some(calls)
    }

    fn plan(&mut self) -> PlanDocument {
        let mut plan: PlanDocument = read(json!({
            "schema": PLAN_SCHEMA, "status": "feasible", "solver": "", "gap": null, "seconds": 0.0, "seed": 0,
            "objective": {"kind": "throughput", "split": "free", "communication": "serial",
                          "training": "combined", "value_s": null},
            "bound": {"value_s": null, "source": "none", "certificate": null}, "devices": []}));
        plan.schema = self.schema(PLAN_SCHEMA);
        plan.status = self.of(&[
            PlanStatus::Optimal,
            PlanStatus::Feasible,
            PlanStatus::Infeasible,
            PlanStatus::Unknown,
        ]);
        plan.objective = self.objective();
        let latency = plan.objective.kind == ObjectiveKind::Latency;
        plan.bound.value_s = self.maybe(Self::number);
        plan.bound.source = self.of(&["none", "critical-path"]).to_owned();
        plan.bound.certificate = self.maybe(Self::certificate);
        plan.gap = self.maybe(Self::number);
        plan.pins = self.pins();
        let mut homes = [Vec::new(), Vec::new(), Vec::new()];
        for operator in ["a", "b", "c", "d"] {
            if !self.rarely() {
                homes[usize::from(self.next()) % 3].push(operator.to_owned());
            }
        }
        for (ops, (name, kind)) in homes.into_iter().zip([("acc0", "acc"), ("acc1", "acc"), ("far0", "far")])
        {
            let odd = self.rarely();
            let stages = [None, if latency { None } else { Some(plan.devices.len() as u32) }];
            let calls = if latency || self.rarely() { self.calls(&ops) } else { None };
            plan.devices.push(DeviceDocument {
                name: if odd { self.device() } else { name.to_owned() },
                kind: if odd { self.kind() } else { kind.to_owned() },
                stage: if self.rarely() {
                    self.of(&[None, Some(0), Some(u32::MAX)])
                } else {
                    self.of(&stages)
                },
                replicas: if self.rarely() { self.of(&[0, 2, u32::MAX]) } else { 1 },
                calls,
                load_s: self.number(),
                compute_s: self.number(),
                communication_s: self.number(),
                memory_bytes: self.number(),
                ops,
            });
        }
        plan.priority = self.maybe(|choices| {
            let all = ["c", "a", "d", "b"].map(str::to_owned).to_vec();
            if choices.rarely() { choices.some(5, Self::operator) } else { all }
        });
        plan.uplinks = self.some(2, |choices| UplinkDocument {
            group: choices.of(&["server", ""]).to_owned(),
            load_s: choices.number(),
        });
        plan
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_documents_make_it_panic(absurd in prop::sample::select(vec![0u8, 0, 2, 10, 60]),
                                  bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut choices = Choices { bytes: bytes.iter(), absurd };
        let (graph, cluster) = (choices.graph(), choices.cluster());
        let (plan, pins) = (choices.plan(), choices.pins());
        for pins in [None, Some(&pins)] {
            match check(&graph, &cluster, pins, &plan) {
                Ok(report) => prop_assert!(report.violations.iter().all(|violation| !violation.message.is_empty())),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}
