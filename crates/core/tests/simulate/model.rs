//! Small models and clusters.

use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Execution, GroupDocument, KindDocument, LinkDocument, MatrixDocument,
    OperatorDocument, PinsDocument, TensorDocument,
};
use stagewright_core::graph::{GraphBuilder, OpId};
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::simulate::{Flow, Simulator, Timeline};

/// A link with a latency and a time per byte.
pub(crate) fn link(latency_s: f64, seconds_per_byte: f64) -> LinkDocument {
    LinkDocument { latency_s, bandwidth: 1.0 / seconds_per_byte }
}

/// A kind whose class has the same name.
pub(crate) fn kind(name: &str, count: u32, link: LinkDocument, group: Option<&str>) -> KindDocument {
    KindDocument {
        server: None,
        ram: None,
        reserve_bytes: None,
        name: name.into(),
        class: name.into(),
        count,
        host: false,
        memory_bytes: None,
        link: Some(link),
        group: group.map(Into::into),
    }
}

pub(crate) fn host(count: u32, group: Option<&str>) -> KindDocument {
    KindDocument { host: true, link: None, ..kind("host", count, link(0.0, 1.0), group) }
}

/// A model on a cluster, to which operators and tensors are added.
pub(crate) struct Model {
    pub(crate) operators: Vec<OperatorDocument>,
    pub(crate) tensors: Vec<TensorDocument>,
    pub(crate) kinds: Vec<KindDocument>,
    pub(crate) groups: Vec<GroupDocument>,
    pub(crate) matrix: Option<MatrixDocument>,
    pub(crate) pins: PinsDocument,
}

impl Model {
    /// A model without operators, on devices of the given kinds.
    pub(crate) fn on(kinds: Vec<KindDocument>) -> Model {
        let (operators, tensors, groups) = (Vec::new(), Vec::new(), Vec::new());
        Model { operators, tensors, kinds, groups, matrix: None, pins: PinsDocument::default() }
    }

    pub(crate) fn group(mut self, name: &str, uplink: LinkDocument) -> Model {
        self.groups.push(GroupDocument { name: name.into(), uplink });
        self
    }

    /// Adds an operator that takes `seconds` on every device; returns its number.
    pub(crate) fn operator(&mut self, seconds: f64) -> usize {
        let number = self.operators.len();
        let seconds = self.kinds.iter().map(|kind| (kind.class.clone(), seconds)).collect();
        self.operators.push(OperatorDocument { seconds, ..OperatorDocument::named(format!("op{number}")) });
        number
    }

    pub(crate) fn tensor(&mut self, from: usize, to: &[usize], bytes: f64) -> usize {
        self.tensors.push(TensorDocument {
            name: None,
            producer: format!("op{from}"),
            consumers: to.iter().map(|op| format!("op{op}")).collect(),
            bytes,
            seconds: Default::default(),
        });
        self.tensors.len() - 1
    }

    pub(crate) fn problem(&self) -> Problem {
        self.problem_under(Execution::Ports)
    }

    pub(crate) fn problem_under(&self, execution: Execution) -> Problem {
        let mut builder = GraphBuilder::new("model");
        for operator in &self.operators {
            builder.operator(operator.clone());
        }
        for tensor in &self.tensors {
            builder.timed_tensor(tensor.clone());
        }
        let cluster = ClusterDocument {
            schema: CLUSTER_SCHEMA.into(),
            name: String::new(),
            classes: Default::default(),
            kinds: self.kinds.clone(),
            groups: self.groups.clone(),
            matrix: self.matrix.clone(),
        };
        let objective = Objective::Makespan { execution };
        let cluster = Cluster::from_document(cluster).expect("a sound cluster");
        Problem::pinned(builder.build().expect("a sound graph"), cluster, objective, self.pins.clone())
            .expect("a sound problem")
    }
}

pub(crate) fn devices(devices: &[u32]) -> Vec<DeviceId> {
    devices.iter().copied().map(DeviceId).collect()
}

pub(crate) fn ops(ops: &[u32]) -> Vec<OpId> {
    ops.iter().copied().map(OpId).collect()
}

/// Runs a flow.
pub(crate) fn run(flow: &Flow) -> Timeline {
    Simulator::new().run(flow).clone()
}

/// Start and end of every operator.
pub(crate) fn operators(timeline: &Timeline) -> Vec<[f64; 2]> {
    timeline.operators().iter().map(|span| [span.start, span.end]).collect()
}

/// Start and end of every transfer.
pub(crate) fn transfers(timeline: &Timeline) -> Vec<[f64; 2]> {
    timeline.transfers().iter().map(|span| [span.start, span.end]).collect()
}
