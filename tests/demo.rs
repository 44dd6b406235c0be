//! The demo model matches its description: `data/demo/README.md` states formulas, and this file evaluates them.

use std::path::Path;

use stagewright::core::document::{
    CLUSTER_SCHEMA, GRAPH_SCHEMA, GraphDocument, OperatorDocument, Pass, TensorDocument,
};
use stagewright::formats::{import_cluster, write_graph};

const BATCH: f64 = 256.0;
const JOINT: f64 = 512.0;
const HALF: f64 = 2.0;
const ADAM: f64 = 12.0;

struct Tower {
    name: &'static str,
    layers: usize,
    width: f64,
    heads: f64,
    tokens: f64,
    rows: f64,
    /// Whether the embedding is a matrix product, as for patches, rather than a table look-up.
    dense: bool,
}

const TOWERS: [Tower; 2] = [
    Tower { name: "image", layers: 12, width: 768.0, heads: 12.0, tokens: 197.0, rows: 768.0, dense: true },
    Tower { name: "text", layers: 12, width: 512.0, heads: 8.0, tokens: 77.0, rows: 49408.0, dense: false },
];

/// A forward operator, described by the quantities of the README.
struct Spec {
    name: String,
    kind: &'static str,
    parameters: f64,
    flop: f64,
    kept: f64,
    input: f64,
    output: f64,
}

fn chain(tower: &Tower) -> Vec<Spec> {
    let Tower { name, layers, width: d, heads: a, tokens: s, rows: v, dense } = *tower;
    let hidden = HALF * BATCH * s * d;
    let mut specs = vec![Spec {
        name: format!("{name}.embedding"),
        kind: "embedding",
        parameters: v * d + s * d,
        flop: if dense { 2.0 * BATCH * s * v * d } else { BATCH * s * d },
        kept: if dense { HALF * BATCH * s * v } else { HALF * BATCH * s },
        input: 0.0,
        output: hidden,
    }];
    for layer in 0..layers {
        specs.push(Spec {
            name: format!("{name}.layer.{layer}"),
            kind: "transformer-layer",
            parameters: 12.0 * d * d,
            flop: BATCH * (24.0 * s * d * d + 4.0 * s * s * d),
            kept: BATCH * s * d * (34.0 + 5.0 * a * s / d),
            input: hidden,
            output: hidden,
        });
    }
    specs.push(Spec {
        name: format!("{name}.projection"),
        kind: "matmul",
        parameters: d * JOINT,
        flop: 2.0 * BATCH * d * JOINT,
        kept: hidden,
        input: hidden,
        output: HALF * BATCH * JOINT,
    });
    specs
}

fn model() -> GraphDocument {
    let towers: Vec<Vec<Spec>> = TOWERS.iter().map(chain).collect();
    let loss = Spec {
        name: "loss".into(),
        kind: "contrastive-loss",
        parameters: 0.0,
        flop: 4.0 * BATCH * BATCH * JOINT,
        kept: 4.0 * BATCH * BATCH,
        input: 2.0 * HALF * BATCH * JOINT,
        output: 0.0,
    };
    let specs: Vec<&Spec> = towers.iter().flatten().chain([&loss]).collect();
    let mut operators = Vec::new();
    for spec in &specs {
        operators.push(operator(spec, Pass::Forward));
    }
    for spec in specs.iter().rev() {
        operators.push(operator(spec, Pass::Backward));
    }
    let mut tensors = Vec::new();
    for tower in &towers {
        for (from, to) in tower.iter().zip(tower.iter().skip(1).chain([&loss])) {
            tensors.push(tensor(from.name.clone(), vec![to.name.clone(), backward(&to.name)], from.output));
            // A gradient has the size of its tensor.
            tensors.push(tensor(backward(&to.name), vec![backward(&from.name)], from.output));
        }
    }
    GraphDocument {
        schema: GRAPH_SCHEMA.into(),
        name: "two-tower contrastive training, batch 256".into(),
        operators,
        tensors,
        cluster: None,
        parameters: Vec::new(),
        batch: None,
        pipedream_skips: Vec::new(),
    }
}

fn backward(name: &str) -> String {
    format!("{name}.backward")
}

fn operator(spec: &Spec, pass: Pass) -> OperatorDocument {
    let forward = pass == Pass::Forward;
    let times = if forward { 1.0 } else { 2.0 };
    let weights = HALF * spec.parameters;
    OperatorDocument {
        kind: Some(spec.kind.into()),
        pass,
        colocation: Some(spec.name.clone()),
        layer: Some(spec.name.clone()),
        flop: Some(times * spec.flop),
        bytes_moved: Some(times * (weights + spec.kept + spec.input + spec.output)),
        parameter_bytes: if forward { weights } else { 0.0 },
        optimizer_bytes: if forward { ADAM * spec.parameters } else { 0.0 },
        activation_bytes: if forward { spec.kept } else { 0.0 },
        workspace_bytes: if forward { 0.0 } else { weights },
        ..OperatorDocument::named(if forward { spec.name.clone() } else { backward(&spec.name) })
    }
}

fn tensor(producer: String, consumers: Vec<String>, bytes: f64) -> TensorDocument {
    TensorDocument { name: None, producer, consumers, bytes, seconds: Default::default() }
}

#[test]
fn the_model_follows_from_its_hyperparameters() {
    let path = Path::new(crate::ROOT).join("data/demo/model.json");
    let text = write_graph(&model());
    if std::env::var_os("STAGEWRIGHT_WRITE_DEMO").is_some() {
        std::fs::write(&path, &text).expect("the file can be written");
    }
    assert_eq!(std::fs::read_to_string(&path).expect("the file is there"), text);
}

#[test]
fn the_cluster_states_a_source_for_every_class() {
    let path = Path::new(crate::ROOT).join("data/demo/cluster.toml");
    let bytes = std::fs::read(path).expect("the file is there");
    let cluster = import_cluster("cluster.toml", &bytes).expect("it is a cluster");
    assert_eq!(cluster.schema, CLUSTER_SCHEMA);
    assert!(cluster.classes.values().all(|class| class.source.is_some()));
}
