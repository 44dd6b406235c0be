//! Importers and writers: round trips of small documents and of the published files.

#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use stagewright::formats::{
    Format, Imported, Notation, detect, import_cluster, import_graph, import_pins, import_plan,
    write_cluster, write_graph, write_plan, write_reference,
};
use stagewright_core::document::{
    ClassDocument, ClusterDocument, GraphDocument, GroupDocument, KindDocument, LinkDocument, MatrixDocument,
    Pass, PinTargets, PlanStatus,
};

/// A small training model: two colours with gradients, a backward node without a forward node, and a parameter without
/// costs.
const MODEL: &str = r#"{
  "maxSizePerFPGA": 4096.0, "maxFPGAs": 2.0, "maxCPUs": 1,
  "nodes": [
    {"id": 10, "name": "weights", "supportedOnFpga": 1, "cpuLatency": 0, "fpgaLatency": 0, "isBackwardNode": 0,
     "colorClass": 4, "size": 64},
    {"id": 11, "name": "matmul", "supportedOnFpga": true, "cpuLatency": 8.0, "fpgaLatency": 2.0,
     "isBackwardNode": false, "colorClass": 5, "layerId": 2},
    {"id": 13, "name": "lookup", "supportedOnFpga": false, "cpuLatency": 1.0, "fpgaLatency": 1e9,
     "isBackwardNode": false, "colorClass": 6},
    {"id": 14, "name": "lookup gradient", "supportedOnFpga": true, "cpuLatency": 2.0, "fpgaLatency": 1.0,
     "isBackwardNode": true, "colorClass": 6},
    {"id": 15, "name": "matmul gradient", "supportedOnFpga": true, "cpuLatency": 9.0, "fpgaLatency": 3.0,
     "isBackwardNode": 1, "colorClass": 5},
    {"id": 20, "supportedOnFpga": true, "cpuLatency": 0.5, "fpgaLatency": 0.5, "isBackwardNode": true}
  ],
  "edges": [
    {"sourceId": 10, "destId": 11, "cost": 0.25, "size": 64},
    {"sourceId": 11, "destId": 13, "cost": 0.5, "size": 8},
    {"sourceId": 11, "destId": 15, "cost": 0.5, "size": 32},
    {"sourceId": 11, "destId": 13, "cost": 0.5, "size": 16},
    {"sourceId": 13, "destId": 14, "cost": 0.75},
    {"sourceId": 14, "destId": 15, "cost": 0.75},
    {"sourceId": 15, "destId": 20, "cost": 0.125}
  ]
}"#;

fn model() -> Imported {
    import_graph("tiny.json", MODEL.as_bytes(), None).unwrap()
}

#[test]
fn a_reference_model_becomes_operators_tensors_and_a_cluster() {
    let Imported { graph, format, ids, .. } = model();
    assert_eq!((format, graph.name.as_str()), (Format::Reference, "tiny"));
    let names: Vec<&str> = graph.operators.iter().map(|operator| operator.name.as_str()).collect();
    assert_eq!(names, ["weights", "matmul", "lookup", "lookup gradient", "matmul gradient", "node20"]);
    let colocation: Vec<_> = graph.operators.iter().map(|operator| operator.colocation.as_deref()).collect();
    // The product absorbs the weights. The last gradient takes time, so it stays alone.
    let (five, six) = (Some("color5"), Some("color6"));
    assert_eq!(colocation, [five, five, six, six, five, None]);
    let matmul = &graph.operators[1];
    assert_eq!(matmul.seconds, BTreeMap::from([("acc".to_owned(), 2e-3), ("cpu".to_owned(), 8e-3)]));
    assert_eq!(matmul.layer.as_deref(), Some("layer2"));
    assert_eq!(graph.operators[2].unsupported, ["acc"]);
    assert_eq!(graph.operators[4].pass, Pass::Backward);
    assert_eq!(graph.operators[0].parameter_bytes, 64.0);
    assert_eq!(graph.tensors.len(), 5);
    let tensor = &graph.tensors[1];
    assert_eq!(tensor.producer, "matmul");
    assert_eq!(tensor.consumers, ["lookup", "matmul gradient"]);
    assert_eq!((tensor.bytes, &tensor.seconds), (32.0, &BTreeMap::from([("acc".to_owned(), 5e-4)])));
    let kinds = graph.cluster.unwrap().kinds;
    let summary: Vec<_> = kinds.iter().map(|k| (k.name.as_str(), k.count, k.host, k.memory_bytes)).collect();
    assert_eq!(summary, [("acc", 2, false, Some(4096.0)), ("cpu", 1, true, None)]);
    let ids = ids.unwrap();
    assert_eq!(ids.by_id[&20], 5);
    assert_eq!(ids.colors[0], Some(4), "ids keep the colour that absorption replaced");
}

#[test]
fn a_split_of_forward_nodes_takes_their_gradients_along() {
    let split = r#"{"fpgas": [{"load": -1, "nodes": []}, {"load": "?", "nodes": [20, 11, 10]}],
                    "cpus": [{"nodes": [13]}], "maxLoad": -1}"#;
    let plan = import_plan("split.json", split.as_bytes(), &model()).unwrap();
    assert_eq!((plan.status, plan.objective.value_s), (PlanStatus::Unknown, None));
    let devices: Vec<_> =
        plan.devices.iter().map(|d| (d.name.as_str(), d.kind.as_str(), d.ops.clone())).collect();
    assert_eq!(devices[0].0, "acc1", "a device without nodes keeps its number");
    assert_eq!(devices[0].2, ["weights", "matmul", "matmul gradient", "node20"]);
    assert_eq!((devices[1].0, devices[1].1), ("cpu0", "cpu"));
    assert_eq!(devices[1].2, ["lookup", "lookup gradient"]);
    let again = import_plan("plan.json", write_plan(&plan).as_bytes(), &model()).unwrap();
    assert_eq!(again, plan);
}

#[test]
fn a_split_needs_a_model_with_ids() {
    let native = import_graph("m", write_graph(&model().graph).as_bytes(), None).unwrap();
    let error = import_plan("s", br#"{"cpus": []}"#, &native).unwrap_err();
    assert_eq!(error.code, "S006");
}

#[test]
fn a_model_reads_back_as_it_was_written() {
    let graph = model().graph;
    let text = write_graph(&graph);
    assert_eq!(detect("m", text.as_bytes()), Ok(Format::Native));
    assert_eq!(import_graph("m", text.as_bytes(), Some(Format::Native)).unwrap().graph, graph);
    assert_eq!(write_graph(&graph), text);
}

#[test]
fn a_model_survives_the_reference_format() {
    let graph = model().graph;
    let text = write_reference("tiny.json", &graph).unwrap();
    let again = import_graph("tiny.json", text.as_bytes(), None).unwrap().graph;
    // The format cannot state the time of a node on a device that does not support it.
    let mut expected = graph;
    expected.operators[2].seconds.insert("acc".to_owned(), 0.0);
    assert_eq!(again, expected);
}

#[test]
fn what_the_reference_format_cannot_say_is_an_error() {
    type Spoil = fn(&mut GraphDocument);
    let cases: [(&str, Spoil); 11] = [
        ("R011", |graph| graph.cluster = None),
        ("R012", |graph| graph.cluster.as_mut().unwrap().kinds[1].host = false),
        ("R013", |graph| {
            graph.operators[1].seconds.clear();
            graph.operators[1].flop = Some(1.0);
        }),
        ("R013", |graph| graph.operators[1].unsupported = vec!["cpu".to_owned()]),
        ("R014", |graph| graph.tensors.push(graph.tensors[0].clone())),
        ("R015", |graph| graph.tensors[0].seconds.clear()),
        ("R016", |graph| graph.tensors[0].consumers = vec!["nobody".to_owned()]),
        ("R012", |graph| graph.cluster.as_mut().unwrap().kinds[1].memory_bytes = Some(5.0)),
        ("R017", |graph| graph.operators[0].pass = Pass::Update),
        ("R017", |graph| graph.operators[0].activation_bytes = 4.0),
        ("R017", |graph| graph.schema = "stagewright.graph/2".to_owned()),
    ];
    for (code, spoil) in cases {
        let mut graph = model().graph;
        spoil(&mut graph);
        assert_eq!(write_reference("m", &graph).unwrap_err().code, code);
    }
}

fn cluster() -> ClusterDocument {
    let link = LinkDocument { latency_s: 2e-6, bandwidth: 3e11 };
    let kind = |name: &str, host: bool| KindDocument {
        server: None,
        ram: None,
        reserve_bytes: None,
        name: name.to_owned(),
        class: name.to_owned(),
        count: 4,
        host,
        memory_bytes: (!host).then_some(8e10),
        link: (!host).then_some(link),
        group: Some("server".to_owned()),
    };
    let class = ClassDocument {
        peaks: Default::default(),
        peak_flops: Some(3.12e14),
        memory_bandwidth: Some(0.1 + 0.2),
        launch_overhead_s: 1e-6,
        efficiency: None,
        training_efficiency: Some(0.75),
        fits: Vec::new(),
        source: Some("a \"data sheet\"".to_owned()),
    };
    ClusterDocument {
        schema: "stagewright.cluster/1".to_owned(),
        name: "test".to_owned(),
        classes: BTreeMap::from([("gpu.80".to_owned(), class)]),
        kinds: vec![kind("gpu.80", false), kind("cpu", true)],
        groups: vec![GroupDocument { name: "server".to_owned(), uplink: link }],
        matrix: Some(MatrixDocument {
            delay_s: vec![vec![0.0, 1e-9], vec![1.0 / 3.0, 0.0]],
            seconds_per_byte: vec![vec![]],
        }),
    }
}

#[test]
fn a_cluster_reads_back_as_it_was_written() {
    for notation in [Notation::Json, Notation::Toml] {
        let text = write_cluster(&cluster(), notation);
        assert_eq!(import_cluster("c", text.as_bytes()).as_ref(), Ok(&cluster()), "{text}");
        assert_eq!(write_cluster(&cluster(), notation), text);
    }
}

#[test]
fn pins_are_read_in_both_notations() {
    let toml = import_pins("p", b"\"enc.0\" = \"acc0\"\nhead = [\"acc\", \"cpu\"]\n").unwrap();
    let json = import_pins("p", br#"{"head": ["acc", "cpu"], "enc.0": "acc0"}"#).unwrap();
    assert_eq!(toml, json);
    assert_eq!(toml.0["enc.0"], PinTargets::One("acc0".to_owned()));
}

/// Files in a folder of the reference inputs; empty if these are not available.
fn shared(folder: &str) -> Vec<PathBuf> {
    let Some(root) = std::env::var_os("STAGEWRIGHT_SHARED") else {
        eprintln!("skipped: STAGEWRIGHT_SHARED does not say where the reference inputs are");
        return Vec::new();
    };
    let folder = Path::new(&root).join("data/msr").join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}

fn read(file: &Path) -> Imported {
    let bytes = fs::read(file).unwrap();
    import_graph(&file.to_string_lossy(), &bytes, None).unwrap_or_else(|error| panic!("{error}"))
}

/// For every operator, the index of the first operator of its colocation class.
fn classes(imported: &Imported) -> Vec<usize> {
    let mut first = BTreeMap::new();
    let operators = imported.graph.operators.iter().enumerate();
    operators
        .map(|(i, o)| o.colocation.as_ref().map_or(i, |name| *first.entry(name.clone()).or_insert(i)))
        .collect()
}

#[test]
fn published_models_are_read_whole() {
    for file in [shared("throughput"), shared("latency")].concat() {
        let raw: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let imported = read(&file);
        let graph = &imported.graph;
        let nodes = raw["nodes"].as_array().unwrap();
        assert_eq!(graph.operators.len(), nodes.len(), "{}", file.display());
        // The published files have no duplicate edges.
        let pins: usize = graph.tensors.iter().map(|tensor| tensor.consumers.len()).sum();
        assert_eq!(pins, raw["edges"].as_array().unwrap().len());
        let names: BTreeSet<&str> = graph.operators.iter().map(|operator| operator.name.as_str()).collect();
        assert_eq!(names.len(), nodes.len());
        let total: f64 = nodes.iter().map(|node| node["fpgaLatency"].as_f64().unwrap()).sum();
        let seconds: f64 = graph.operators.iter().map(|operator| operator.seconds["acc"]).sum();
        assert!((seconds * 1e3 - total).abs() <= 1e-9 * total);
        // Absorption only merges colour classes, and never splits one.
        let classes = classes(&imported);
        let mut class_of_color = BTreeMap::new();
        for (color, class) in imported.ids.as_ref().unwrap().colors.iter().zip(&classes) {
            if let Some(color) = color {
                assert_eq!(class_of_color.entry(color).or_insert(class), &class);
            }
        }
        let text = write_graph(graph);
        assert_eq!(&import_graph("m", text.as_bytes(), None).unwrap().graph, graph);
    }
}

#[test]
fn published_models_survive_the_reference_format() {
    for file in shared("throughput") {
        let imported = read(&file);
        let text = write_reference("m", &imported.graph).unwrap();
        let again = import_graph("m", text.as_bytes(), None).unwrap();
        assert_eq!(classes(&again), classes(&imported), "{}", file.display());
        assert_eq!(again.graph.tensors.len(), imported.graph.tensors.len());
        for (a, b) in again.graph.operators.iter().zip(&imported.graph.operators) {
            assert_eq!((&a.name, a.pass, &a.layer), (&b.name, b.pass, &b.layer));
            assert!((a.seconds["acc"] - b.seconds["acc"]).abs() <= 1e-15 * b.seconds["acc"]);
        }
    }
}

#[test]
fn published_expert_splits_place_every_operator_once() {
    for file in shared("experts") {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        // The expert splits are for layer graphs. By colocation, a split for inference also fits the training graph.
        let folder = file.parent().unwrap().parent().unwrap().join("throughput");
        let own = folder.join(format!("layer_{name}"));
        let training = folder.join(format!("layer_{}", name.replace("inference", "training")));
        let models: BTreeSet<PathBuf> = [own, training].into_iter().filter(|model| model.exists()).collect();
        assert!(!models.is_empty(), "no model for {}", file.display());
        let bytes = fs::read(&file).unwrap();
        for model in models {
            let model = read(&model);
            let plan = import_plan(&name, &bytes, &model).unwrap_or_else(|error| panic!("{error}"));
            let placed: Vec<&String> = plan.devices.iter().flat_map(|device| &device.ops).collect();
            assert_eq!(placed.len(), model.graph.operators.len());
            assert_eq!(placed.iter().collect::<BTreeSet<_>>().len(), placed.len());

            // The split gives the same plan without its backward nodes.
            let mut split: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            let by_id = &model.ids.as_ref().unwrap().by_id;
            for kind in ["fpgas", "cpus"] {
                for machine in split[kind].as_array_mut().unwrap() {
                    let pass =
                        |id: &serde_json::Value| model.graph.operators[by_id[&id.as_i64().unwrap()]].pass;
                    machine["nodes"].as_array_mut().unwrap().retain(|id| pass(id) == Pass::Forward);
                }
            }
            let forward = import_plan("forward", split.to_string().as_bytes(), &model).unwrap();
            assert_eq!(forward, plan);
        }
    }
}

#[test]
fn the_fuzzer_starts_from_sound_files() {
    let seeds = Path::new(crate::ROOT).join("tests/fuzz/seeds");
    let sound = Path::new(crate::ROOT).join("data/malformed/with/model.json");
    let model = read(&sound);
    for kind in ["graph", "plan", "cluster", "pins"] {
        for entry in fs::read_dir(seeds.join(kind)).unwrap() {
            let path = entry.unwrap().path();
            let (label, bytes) = (path.to_string_lossy().into_owned(), fs::read(&path).unwrap());
            let error = match kind {
                "graph" => import_graph(&label, &bytes, None).err(),
                "plan" => import_plan(&label, &bytes, &model).err(),
                "cluster" => import_cluster(&label, &bytes).err(),
                _ => import_pins(&label, &bytes).err(),
            };
            assert_eq!(error, None);
        }
    }
}
