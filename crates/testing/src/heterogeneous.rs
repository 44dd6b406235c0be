//! The 48 task graphs on heterogeneous devices published with GiPH (Hu et al., MLSys 2023), with the placement and the
//! makespan that its HEFT finds.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::path::PathBuf;

use serde::Deserialize;
use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Execution, KindDocument, LinkDocument, MatrixDocument, OperatorDocument,
};
use stagewright_core::graph::GraphBuilder;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;

#[derive(Deserialize)]
struct File {
    instances: Vec<Task>,
}

/// A task graph. An operator takes compute / speed seconds, an edge delay + bytes · seconds per byte.
#[derive(Deserialize)]
pub struct Task {
    /// Work of each operator.
    pub compute: Vec<f64>,
    /// Producer, consumer and bytes of each edge.
    pub edges: Vec<(u32, u32, f64)>,
    /// Work per second of each device.
    pub speed: Vec<f64>,
    /// Seconds of delay from device to device.
    pub delay: Vec<Vec<f64>>,
    /// Seconds per byte from device to device.
    pub sec_per_byte: Vec<Vec<f64>>,
    /// The devices that may run each operator.
    pub allowed: Vec<Vec<u32>>,
    /// The device of each operator in HEFT's schedule.
    pub heft_placement: Vec<u32>,
    /// The makespan of HEFT's schedule.
    pub heft_makespan: f64,
}

/// All published task graphs; `None`, with a message, if `STAGEWRIGHT_SHARED` is not set.
pub fn tasks() -> Option<Vec<Task>> {
    let Some(folder) = std::env::var_os("STAGEWRIGHT_SHARED").map(PathBuf::from) else {
        println!("skipped: STAGEWRIGHT_SHARED is not set");
        return None;
    };
    let path = folder.join("oracles/heterogeneous_tasks.json");
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let tasks = serde_json::from_slice::<File>(&bytes).expect("a sound file").instances;
    assert_eq!(tasks.len(), 48);
    Some(tasks)
}

impl Task {
    /// The makespan problem of the graph without contention. Each device is a kind of its own, and an operator has no
    /// seconds on devices that may not run it.
    pub fn problem(&self) -> Problem {
        let class = |device: usize| format!("class{device}");
        let mut builder = GraphBuilder::new("task");
        for (op, (compute, allowed)) in self.compute.iter().zip(&self.allowed).enumerate() {
            let on = |&device: &u32| (class(device as usize), compute / self.speed[device as usize]);
            let seconds = allowed.iter().map(on).collect();
            builder.operator(OperatorDocument { seconds, ..OperatorDocument::named(format!("o{op}")) });
        }
        for (from, to, bytes) in &self.edges {
            builder.tensor(&format!("o{from}"), [format!("o{to}").as_str()], *bytes);
        }
        let kind = |device| KindDocument {
            reserve_bytes: None,
            name: format!("device{device}-"),
            class: class(device),
            count: 1,
            host: false,
            memory_bytes: None,
            // The matrix gives the transfer times.
            link: Some(LinkDocument { latency_s: 0.0, bandwidth: 1.0 }),
            group: None,
            server: None,
            ram: None,
        };
        let (delay_s, seconds_per_byte) = (self.delay.clone(), self.sec_per_byte.clone());
        let cluster = Cluster::from_document(ClusterDocument {
            schema: CLUSTER_SCHEMA.into(),
            name: String::new(),
            classes: Default::default(),
            kinds: (0..self.speed.len()).map(kind).collect(),
            groups: Vec::new(),
            matrix: Some(MatrixDocument { delay_s, seconds_per_byte }),
        });
        let execution = Execution::ContentionFree;
        let objective = Objective::Makespan { execution };
        let graph = builder.build().expect("a sound graph");
        Problem::new(graph, cluster.expect("a sound cluster"), objective).expect("a sound problem")
    }

    /// The longest path with every operator on its fastest device.
    pub fn longest_path(&self, problem: &Problem) -> f64 {
        let graph = problem.graph();
        let mut end = vec![0.0f64; graph.operator_count()];
        for &op in graph.topological() {
            let begin = graph.predecessors(op).iter().map(|before| end[before.index()]).fold(0.0, f64::max);
            let speeds = self.allowed[op.index()].iter().map(|&device| self.speed[device as usize]);
            end[op.index()] = begin + self.compute[op.index()] / speeds.fold(0.0, f64::max);
        }
        end.into_iter().fold(0.0, f64::max)
    }
}
