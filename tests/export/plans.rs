//! Plans and models for tests.

use std::collections::BTreeMap;

use stagewright::core::document::{
    ClusterDocument, DeviceDocument, GRAPH_SCHEMA, GraphDocument, OperatorDocument, Pass, PlanDocument,
    TensorDocument,
};
use stagewright::core::graph::Graph;
use stagewright::export::{Export, ExportError, Placed, target};
use stagewright::formats::import_plan_alone;
use stagewright::workloads::{Granularity, Options, Size, Sizes, family};

/// A device with its operators, in pipeline order.
pub(crate) fn device(name: &str, kind: &str, ops: &[&str]) -> DeviceDocument {
    DeviceDocument {
        name: name.into(),
        kind: kind.into(),
        stage: None,
        replicas: 1,
        calls: None,
        load_s: 0.0,
        compute_s: 0.0,
        communication_s: 0.0,
        memory_bytes: 0.0,
        ops: ops.iter().map(|&name| name.to_owned()).collect(),
    }
}

/// A plan of devices in stage order.
pub(crate) fn pipeline(mut devices: Vec<DeviceDocument>) -> PlanDocument {
    for (stage, device) in (0..).zip(&mut devices) {
        device.stage = Some(stage);
    }
    unordered(devices)
}

/// A plan of devices without an order.
pub(crate) fn unordered(devices: Vec<DeviceDocument>) -> PlanDocument {
    let document = serde_json::json!({
        "schema": "stagewright.plan/1", "status": "feasible", "solver": "test", "gap": null, "seconds": 0.0, "seed": 0,
        "objective": {"kind": "throughput", "split": "contiguous", "communication": "serial", "training": "combined",
            "value_s": null},
        "bound": {"value_s": null, "source": "none", "certificate": null},
        "devices": devices,
    });
    import_plan_alone("plan.json", document.to_string().as_bytes()).expect("it is a plan")
}

/// A forward operator in a layer.
pub(crate) fn operator(name: &str, layer: Option<&str>) -> OperatorDocument {
    OperatorDocument { layer: layer.map(str::to_owned), ..OperatorDocument::named(name) }
}

/// An operator of a given pass in a layer.
pub(crate) fn of_pass(name: &str, layer: Option<&str>, pass: Pass) -> OperatorDocument {
    OperatorDocument { pass, ..operator(name, layer) }
}

pub(crate) fn graph(operators: Vec<OperatorDocument>, edges: &[(&str, &str)]) -> Graph {
    let tensor = |&(from, to): &(&str, &str)| TensorDocument {
        name: None,
        producer: from.into(),
        consumers: vec![to.into()],
        bytes: 1.0,
        seconds: BTreeMap::new(),
    };
    let document = GraphDocument {
        schema: GRAPH_SCHEMA.into(),
        name: "test".into(),
        operators,
        tensors: edges.iter().map(tensor).collect(),
        cluster: None,
        parameters: Vec::new(),
        batch: None,
        pipedream_skips: Vec::new(),
    };
    Graph::from_document(document).expect("it is a graph")
}

/// A built-in workload at layer granularity.
pub(crate) fn workload(name: &str, variant: &str, layers: u64) -> Graph {
    workload_of(name, variant, layers, Granularity::Layer)
}

/// A built-in workload.
pub(crate) fn workload_of(name: &str, variant: &str, layers: u64, granularity: Granularity) -> Graph {
    let sizes = Sizes::default().with(Size::Batch, 1).with(Size::Layers, layers);
    let options = Options { sizes, granularity, ..Options::default() };
    let document = family(name).and_then(|family| family.generate(Some(variant), &options));
    Graph::from_document(document.unwrap_or_else(|error| panic!("{name}: {error}"))).expect("it is a graph")
}

/// A plan that assigns consecutive operators of a model to devices. `ends` contains, for each device but the last, the
/// first operator after it; the last device takes the rest.
pub(crate) fn cut_before(graph: &Graph, ends: &[&str]) -> PlanDocument {
    let names: Vec<&str> = graph.operators().map(|op| graph.operator(op).name.as_str()).collect();
    let mut cuts: Vec<usize> = ends
        .iter()
        .map(|end| names.iter().position(|name| name == end).expect("the operator is there"))
        .collect();
    cuts.insert(0, 0);
    cuts.push(names.len());
    let devices = cuts.windows(2).enumerate();
    pipeline(
        devices.map(|(index, cut)| device(&format!("acc{index}"), "acc", &names[cut[0]..cut[1]])).collect(),
    )
}

/// Exports a plan.
pub(crate) fn export(to: &str, plan: &PlanDocument, graph: Option<&Graph>) -> Result<Export, ExportError> {
    export_on(to, plan, graph, None)
}

pub(crate) fn export_on(
    to: &str,
    plan: &PlanDocument,
    graph: Option<&Graph>,
    cluster: Option<&ClusterDocument>,
) -> Result<Export, ExportError> {
    target(to)?.export(&Placed::new(plan, graph, cluster)?)
}

/// The text of an export that must succeed.
pub(crate) fn text(to: &str, plan: &PlanDocument, graph: Option<&Graph>) -> String {
    export(to, plan, graph).unwrap_or_else(|error| panic!("{to}: {error}")).text
}
