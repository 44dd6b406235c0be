//! Fixtures of the rule tests: a chain of layers between an embedding and a head.

use std::collections::BTreeMap;

use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, GRAPH_SCHEMA, GraphDocument, KindDocument, LinkDocument,
    OperatorDocument, Split, TensorDocument,
};
use stagewright_core::graph::Graph;
use stagewright_core::objective::Throughput;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Plan, Silent, Solution, Solver, Status};

/// A model, the memory of an accelerator and the number of hosts.
#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) document: GraphDocument,
    pub(super) memory: Option<f64>,
    pub(super) hosts: u32,
    pub(super) split: Split,
}

impl Model {
    /// An embedding of 0.5 s, layers of 1 s and a head of 2 s, 1 byte of parameters each, in a chain of
    /// tensors of 1 byte; the host takes 10 times as long.
    pub(super) fn layers(count: usize) -> Model {
        let operator = |name: String, seconds: f64| OperatorDocument {
            layer: Some(name.clone()),
            seconds: [("acc".to_owned(), seconds), ("cpu".to_owned(), 10.0 * seconds)].into(),
            parameter_bytes: 1.0,
            ..OperatorDocument::named(name)
        };
        let mut operators = vec![operator("embedding".into(), 0.5)];
        operators.extend((0..count).map(|layer| operator(format!("layer.{layer}"), 1.0)));
        operators.push(operator("head".into(), 2.0));
        let mut document = GraphDocument {
            schema: GRAPH_SCHEMA.into(),
            name: "layers".into(),
            operators: Vec::new(),
            tensors: Vec::new(),
            cluster: None,
            parameters: Vec::new(),
            batch: None,
            pipedream_skips: Vec::new(),
        };
        for pair in operators.windows(2) {
            document.tensors.push(tensor(&pair[0].name, &pair[1].name));
        }
        document.operators = operators;
        Model { document, memory: None, hosts: 0, split: Split::Contiguous }
    }

    /// The operator with the given name.
    pub(super) fn operator(&mut self, name: &str) -> &mut OperatorDocument {
        self.document.operators.iter_mut().find(|operator| operator.name == name).expect("an operator")
    }

    /// The problem on `count` accelerators, over links of 8 bytes per second.
    pub(super) fn on(&self, count: u32) -> Problem {
        let kind = |name: &str, count, host| KindDocument {
            reserve_bytes: None,
            name: name.into(),
            class: name.into(),
            count,
            host,
            memory_bytes: self.memory.filter(|_| !host),
            link: Some(LinkDocument { latency_s: 0.0, bandwidth: 8.0 }),
            group: None,
            server: None,
            ram: None,
        };
        let cluster = Cluster::from_document(ClusterDocument {
            schema: CLUSTER_SCHEMA.into(),
            name: "accelerators".into(),
            classes: BTreeMap::new(),
            kinds: vec![kind("acc", count, false), kind("cpu", self.hosts, true)],
            groups: Vec::new(),
            matrix: None,
        });
        let graph = Graph::from_document(self.document.clone()).expect("a valid graph");
        let objective = Throughput { split: self.split, ..Throughput::default() };
        Problem::new(graph, cluster.expect("a valid cluster"), objective).expect("a valid problem")
    }
}

/// A tensor of 1 byte.
pub(super) fn tensor(producer: &str, consumer: &str) -> TensorDocument {
    TensorDocument {
        name: None,
        producer: producer.into(),
        consumers: vec![consumer.into()],
        bytes: 1.0,
        seconds: BTreeMap::new(),
    }
}

pub(super) fn solve(rule: &dyn Solver, problem: &Problem) -> Solution {
    let mut silent = Silent;
    let mut context = Context::new(Limits::default(), &mut silent);
    rule.solve(problem, &mut context).expect("a throughput problem")
}

pub(super) fn plan(rule: &dyn Solver, problem: &Problem) -> Plan {
    let solution = solve(rule, problem);
    solution.plan.unwrap_or_else(|| panic!("{}: {:?}", rule.name(), solution.reason))
}

/// Reason why there is no plan.
pub(super) fn reason(rule: &dyn Solver, problem: &Problem) -> String {
    let solution = solve(rule, problem);
    assert_eq!(solution.status, Status::Unknown);
    solution.reason.expect("a reason")
}

/// The names of the operators on a device.
pub(super) fn names(problem: &Problem, plan: &Plan, device: u32) -> Vec<String> {
    let graph = problem.graph();
    let here = graph.operators().filter(|&op| plan.placement.device_of(op) == DeviceId(device));
    here.map(|op| graph.operator(op).name.clone()).collect()
}
