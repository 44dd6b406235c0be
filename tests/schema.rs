//! The published JSON schemas match the documents, and written documents satisfy them.
//!
//! After a change to a document, run `STAGEWRIGHT_WRITE_SCHEMAS=1 cargo test --test integration schema`.

use std::fs;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, schema_for};
use serde_json::{Value, json};
use stagewright::formats::{
    Notation, import_cluster, import_graph, import_plan, write_cluster, write_graph, write_plan,
};
use stagewright::structure::Structure;
use stagewright_core::document::{
    ClusterDocument, CostsDocument, GraphDocument, JointPlanDocument, LayerFlowDocument, LayerPlanDocument,
    LocalPlanDocument, PinsDocument, PlanDocument, ProblemDocument, ServingPlanDocument, StrategiesDocument,
    StrategyPlanDocument,
};

fn path(name: &str) -> PathBuf {
    Path::new(crate::ROOT).join(format!("data/schema/{name}.schema.json"))
}

fn published(name: &str) -> Value {
    let path = path(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

fn regenerate<T: JsonSchema>(name: &str) {
    let schema = schema_for!(T).to_value();
    if std::env::var_os("STAGEWRIGHT_WRITE_SCHEMAS").is_some() {
        let text = serde_json::to_string_pretty(&schema).unwrap();
        fs::write(path(name), text + "\n").unwrap();
    }
    assert_eq!(
        published(name),
        schema,
        "data/schema/{name}.schema.json is out of date: run STAGEWRIGHT_WRITE_SCHEMAS=1 cargo test --test integration schema"
    );
}

#[test]
fn schemas_are_up_to_date() {
    regenerate::<GraphDocument>("graph");
    regenerate::<ClusterDocument>("cluster");
    regenerate::<PlanDocument>("plan");
    regenerate::<ProblemDocument>("problem");
    regenerate::<CostsDocument>("costs");
    regenerate::<PinsDocument>("pins");
    regenerate::<StrategiesDocument>("strategies");
    regenerate::<StrategyPlanDocument>("strategy-plan");
    regenerate::<LayerFlowDocument>("layer-flow");
    regenerate::<LayerPlanDocument>("layer-plan");
    regenerate::<ServingPlanDocument>("serving-plan");
    regenerate::<JointPlanDocument>("joint-plan");
    regenerate::<LocalPlanDocument>("local-plan");
    regenerate::<Structure>("structure");
}

fn assert_valid(name: &str, document: &str) {
    let validator = jsonschema::validator_for(&published(name)).unwrap();
    let document: Value = serde_json::from_str(document).unwrap();
    let faults: Vec<String> =
        validator.iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(faults.is_empty(), "{name}: {faults:#?}");
}

fn assert_invalid(name: &str, document: &Value) {
    let validator = jsonschema::validator_for(&published(name)).unwrap();
    assert!(!validator.is_valid(document), "{name} accepts {document}");
}

#[test]
fn written_documents_satisfy_their_schemas() {
    let model = br#"{"maxSizePerFPGA": 1, "maxFPGAs": 2, "maxCPUs": 1, "edges": [
        {"sourceId": 1, "destId": 2, "cost": 0.5}, {"sourceId": 2, "destId": 3, "cost": 0.5}], "nodes": [
        {"id": 1, "supportedOnFpga": 1, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": 0, "colorClass": 1},
        {"id": 2, "supportedOnFpga": 0, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": 0, "layerId": 4},
        {"id": 3, "supportedOnFpga": 1, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": 1}]}"#;
    let model = import_graph("model", model, None).unwrap();
    assert_valid("graph", &write_graph(&model.graph));
    let cluster = model.graph.cluster.as_ref().unwrap();
    assert_valid("cluster", &write_cluster(cluster, Notation::Json));
    let plan = import_plan("split", br#"{"cpus": [{"nodes": [2]}], "fpgas": [{"nodes": [1, 3]}]}"#, &model);
    assert_valid("plan", &write_plan(&plan.unwrap()));
    let cluster = r#"
        schema = "stagewright.cluster/1"
        classes.gpu = { peak_flops = 1e15, memory_bandwidth = 2e12, efficiency = 0.5 }
        kinds = [{ name = "gpu", class = "gpu", count = 8, link = { bandwidth = 3e11 }, group = "box" }]
        groups = [{ name = "box", uplink = { latency_s = 1e-5, bandwidth = 1e10 } }]
        matrix = { delay_s = [[0.0]], seconds_per_byte = [[0.0]] }"#;
    let cluster = import_cluster("cluster", cluster.as_bytes()).unwrap();
    assert_valid("cluster", &write_cluster(&cluster, Notation::Json));
    assert_valid("pins", r#"{"matmul": "acc0", "lookup": ["cpu", "acc"]}"#);
}

#[test]
fn every_plan_that_the_contract_allows_satisfies_the_schema() {
    let mut plan = json!({
        "schema": "stagewright.plan/1", "status": "optimal", "solver": "dp", "seconds": 0.21, "seed": 0, "gap": 0.0,
        "objective": {"kind": "makespan", "split": "free", "communication": "duplex", "training": "separate",
                      "schedule": "1f1b", "microbatches": 8, "max_replicas": 2, "value_s": 0.03},
        "bound": {"value_s": 0.03, "source": "fluid", "certificate": null},
        "stop": "time", "pins": {"a": "acc0"}, "priority": ["a", "b"], "uplinks": [{"group": "box", "load_s": 0.1}],
        "devices": [{"name": "acc0", "kind": "acc", "stage": 0, "replicas": 1, "calls": [["a"], ["b"]],
                     "load_s": 0.1, "compute_s": 0.1, "communication_s": 0.0, "memory_bytes": 10.0,
                     "ops": ["a", "b"]}]
    });
    let model =
        import_graph("model", br#"{"schema": "stagewright.graph/1", "operators": []}"#, None).unwrap();
    let certificates = [
        json!({"kind": "fluid", "prices": {"acc": 1.0}}),
        json!({"kind": "fluid", "prices": {"acc": 1.0}, "below_s": 0.04,
               "memory": {"acc": {"quantum_bytes": 1e9, "price": 0.01}}}),
        json!({"kind": "windows", "prices": {"acc": 1.0}, "path": ["a", "b"], "windows": [2],
               "memory": {"acc": {"quantum_bytes": 1e9, "price": 0.01}}}),
        json!({"kind": "heaviest-unit", "operator": "a"}),
        json!({"kind": "column-generation", "threshold_s": 0.03, "prices": {"a": 1.5}, "devices": {"acc0": 0.5},
               "order": ["b", "a"]}),
    ];
    for certificate in certificates {
        plan["bound"]["certificate"] = certificate;
        let read = import_plan("plan", plan.to_string().as_bytes(), &model).unwrap();
        assert_valid("plan", &write_plan(&read));
        assert_eq!(serde_json::from_str::<Value>(&write_plan(&read)).unwrap(), plan);
    }
}

#[test]
fn schemas_reject_what_the_importers_reject() {
    assert_invalid("graph", &json!({"schema": "stagewright.graph/1"}));
    assert_invalid("graph", &json!({"schema": "x", "operators": [{"name": "a", "secnods": {}}]}));
    assert_invalid("cluster", &json!({"schema": "x", "kinds": [{"name": "a", "class": "a", "count": -1}]}));
    assert_invalid("pins", &json!({"a": 3}));
    assert_invalid("plan", &json!({}));
    assert_invalid("strategies", &json!({"problem": {"nodes": {}}}));
    assert_invalid("strategy-plan", &json!([0, 1]));
    assert_invalid("joint-plan", &json!({"schema": "stagewright.joint-plan/1", "stages": []}));
}
