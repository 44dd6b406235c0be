//! Importers of models from other programs.

#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagewright::formats::{
    Format, Fusion, Gradients, ImportOptions, TimeUnit, detect, import_graph, import_model, torch,
    write_graph, write_reference,
};
use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    ClusterDocument, GraphDocument, KindDocument, LinkDocument, OperatorDocument, Pass, Precision,
};
use stagewright_core::graph::Graph;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Silent, Solver, Status};
use stagewright_dp::Dp;

fn shared(path: &str) -> Option<PathBuf> {
    let Some(root) = std::env::var_os("STAGEWRIGHT_SHARED") else {
        eprintln!("skipped: STAGEWRIGHT_SHARED does not say where the reference inputs are");
        return None;
    };
    Some(Path::new(&root).join("data").join(path))
}

fn import(label: &str, text: &[u8], options: &ImportOptions) -> GraphDocument {
    let graph = import_model(label, text, options).unwrap_or_else(|error| panic!("{error}")).graph;
    // Every imported model is a valid graph and survives a round trip.
    Graph::from_document(graph.clone()).unwrap_or_else(|error| panic!("{label}: {error}"));
    assert_eq!(import_graph("again", write_graph(&graph).as_bytes(), None).unwrap().graph, graph);
    graph
}

fn import_file(path: &Path, options: &ImportOptions) -> GraphDocument {
    import(&path.to_string_lossy(), &fs::read(path).expect("a readable file"), options)
}

fn operator<'a>(graph: &'a GraphDocument, name: &str) -> &'a OperatorDocument {
    let found = graph.operators.iter().find(|operator| operator.name == name);
    found.unwrap_or_else(|| panic!("no operator is called {name}"))
}

fn optimum(graph: &GraphDocument, cluster: &ClusterDocument) -> f64 {
    let graph = Graph::from_document(graph.clone()).expect("a graph");
    let cluster = Cluster::from_document(cluster.clone()).expect("a cluster");
    let problem = Problem::new(graph, cluster, Objective::default()).expect("a problem");
    let mut silent = Silent;
    let mut context = Context::new(Limits { time: None, ..Limits::default() }, &mut silent);
    let solution = Dp.solve(&problem, &mut context).expect("a contiguous problem");
    assert_eq!(solution.status, Status::Optimal);
    solution.value().expect("a plan")
}

const PROFILE: &str = "\
node1 -- Input0 -- forward_compute_time=5.0, backward_compute_time=1.0, activation_size=8.0, parameter_size=0.000
node2 -- LSTM(4, 4) -- forward_compute_time=2.0, backward_compute_time=4.0, activation_size=[16.0; 2.0], parameter_size=64.0
node3 -- Add(inplace) -- forward_compute_time=1.0, backward_compute_time=0.5, activation_size=32.0, parameter_size=0.0 -- stage_id=1
\tnode1 -- node2
\tnode1 -- node3
\tnode2 -- node3
";

#[test]
fn a_pipedream_profile_becomes_both_passes() {
    assert_eq!(detect("p", PROFILE.as_bytes()), Ok(Format::PipeDream));
    let graph = import("p", PROFILE.as_bytes(), &ImportOptions::default());
    let names: Vec<&str> = graph.operators.iter().map(|operator| operator.name.as_str()).collect();
    let backward = ["node1.backward", "node2.backward", "node3.backward"];
    assert_eq!(names, [["node1", "node2", "node3"], backward].concat());
    let lstm = operator(&graph, "node2");
    assert_eq!((lstm.kind.as_deref(), lstm.colocation.as_deref()), (Some("LSTM"), Some("node2")));
    assert_eq!(lstm.seconds, BTreeMap::from([("acc".to_owned(), 2e-3)]));
    assert_eq!((lstm.parameter_bytes, lstm.activation_bytes), (64.0, 18.0));
    let gradient = operator(&graph, "node2.backward");
    assert_eq!((gradient.pass, gradient.seconds["acc"]), (Pass::Backward, 4e-3));
    assert_eq!(graph.tensors[0].consumers, ["node2", "node3"]);
    assert_eq!((graph.tensors[1].producer.as_str(), graph.tensors[1].bytes), ("node1.backward", 8.0));
    // The time measured for an input is the time for loading data.
    assert_eq!(operator(&graph, "node1").seconds["acc"], 0.0);
    let kept = ImportOptions {
        keep_input_costs: true,
        time_unit: Some(TimeUnit::Microseconds),
        profile_class: Some("v100".into()),
        ..ImportOptions::default()
    };
    let graph = import("p", PROFILE.as_bytes(), &kept);
    assert_eq!(operator(&graph, "node1").seconds["v100"], 5e-6);
    // A module whose name begins like that of an input is not an input.
    let module = PROFILE.replace("Input0", "InputEmbedding(4)");
    let graph = import("p", module.as_bytes(), &ImportOptions::default());
    assert_eq!(operator(&graph, "node1").seconds["acc"], 5e-3);
}

#[test]
fn gradients_can_take_the_way_back() {
    let options = ImportOptions { gradients: Gradients::Reversed, ..ImportOptions::default() };
    let graph = import("p", PROFILE.as_bytes(), &options);
    let ends: Vec<(&str, Vec<&str>, f64)> = graph
        .tensors
        .iter()
        .map(|t| (t.producer.as_str(), t.consumers.iter().map(String::as_str).collect(), t.bytes))
        .collect();
    let expected: [(&str, &[&str], f64); 6] = [
        ("node1", &["node2", "node3", "node1.backward"], 8.0),
        ("node2.backward", &["node1.backward"], 8.0),
        ("node3.backward", &["node1.backward"], 8.0),
        ("node2", &["node3", "node2.backward"], 18.0),
        ("node3.backward", &["node2.backward"], 18.0),
        ("node3", &["node3.backward"], 32.0),
    ];
    assert_eq!(ends, expected.map(|(producer, consumers, bytes)| (producer, consumers.to_vec(), bytes)));
}

#[test]
fn a_profile_of_inference_has_one_pass() {
    let text = PROFILE.replace("backward_compute_time=1.0", "backward_compute_time=0.0");
    let text = text.replace("backward_compute_time=4.0", "backward_compute_time=0");
    let text = text.replace("backward_compute_time=0.5", "backward_compute_time=0.0");
    let graph = import("p", text.as_bytes(), &ImportOptions::default());
    assert_eq!((graph.operators.len(), graph.tensors.len()), (3, 2));
    assert_eq!(operator(&graph, "node2").colocation, None);
}

/// Link bandwidth for which the reference package's file of this profile was made, in bytes per second.
const LINK: f64 = 2_147_483_648.0 * 1e3;

/// The name that this importer gives a node of the reference file: `node77grad` becomes `node77.backward`.
fn own_name(reference: &str) -> String {
    reference.strip_suffix("grad").map_or(reference.to_owned(), |node| format!("{node}.backward"))
}

#[test]
fn pipedream_and_the_reference_package_agree_on_resnet50() {
    let Some(profile) = shared("pipedream/resnet50.txt") else { return };
    let Some(reference) = shared("msr/throughput/layer_resnet50_training.json") else { return };
    let options = ImportOptions { keep_input_costs: true, ..ImportOptions::default() };
    let profile = import_file(&profile, &options);
    let reference = import_file(&reference, &ImportOptions::default());
    let close = |found: f64, expected: f64| (found - expected).abs() <= 1e-12 * expected.abs();
    assert_eq!(profile.operators.len(), reference.operators.len());
    for expected in &reference.operators {
        let found = operator(&profile, &own_name(&expected.name));
        assert!(close(found.seconds["acc"], expected.seconds["acc"]), "{found:?}, {expected:?}");
        assert_eq!(found.pass, expected.pass);
        let memory = found.parameter_bytes + found.activation_bytes + found.workspace_bytes;
        // A reference node states all memory as one number, with parameters and activations on both passes.
        assert!(close(memory, expected.parameter_bytes), "{found:?}, {expected:?}");
    }
    assert_eq!(profile.tensors.len(), reference.tensors.len());
    let tensors: BTreeMap<&str, _> = profile.tensors.iter().map(|t| (t.producer.as_str(), t)).collect();
    for expected in &reference.tensors {
        let found = tensors[own_name(&expected.producer).as_str()];
        assert!(close(found.bytes / LINK, expected.seconds["acc"]), "{found:?}, {expected:?}");
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        let consumers = expected.consumers.iter().map(|name| own_name(name)).collect();
        assert_eq!(sorted(found.consumers.clone()), sorted(consumers));
    }
    // The optimum is the same on the same devices. The reference's processor takes ten times as long; the profile does
    // not contain its times.
    let cluster = reference.cluster.clone().expect("its own cluster");
    let mut own = profile;
    for operator in &mut own.operators {
        let seconds = operator.seconds["acc"];
        operator.seconds.insert("cpu".into(), 10.0 * seconds);
    }
    let mut linked = cluster.clone();
    linked.kinds[0].link = Some(LinkDocument { latency_s: 0.0, bandwidth: LINK });
    let (found, expected) = (optimum(&own, &linked), optimum(&reference, &cluster));
    assert!(close(found, expected), "{found} and {expected}");
    assert!((found - 78.6318e-3).abs() <= 1e-5 * found, "{found}: not the published optimum");
}

#[test]
fn published_profiles_are_graphs() {
    let Some(folder) = shared("pipedream") else { return };
    let expected = [
        ("alexnet", 23, 23),
        ("gnmt", 48, 58),
        ("inception_v3", 326, 362),
        ("nasnetamobile", 921, 1078),
        ("resnet50", 177, 193),
        ("vgg16", 41, 41),
    ];
    for (name, nodes, edges) in expected {
        for gradients in [Gradients::Mirrored, Gradients::Reversed] {
            let options = ImportOptions { gradients, ..ImportOptions::default() };
            let graph = import_file(&folder.join(format!("{name}.txt")), &options);
            let forward = graph.operators.iter().filter(|operator| operator.pass == Pass::Forward);
            let inputs =
                forward.clone().filter(|operator| operator.kind.as_deref().unwrap().starts_with("Input"));
            assert!(inputs.clone().count() > 0 && inputs.clone().all(|input| input.seconds["acc"] == 0.0));
            assert_eq!(forward.count(), nodes, "{name}");
            let pins = graph.tensors.iter().filter(|tensor| !tensor.producer.ends_with(".backward"));
            let pins: usize = pins
                .map(|tensor| tensor.consumers.iter().filter(|name| !name.ends_with(".backward")).count())
                .sum();
            assert_eq!(pins, edges, "{name}");
        }
    }
}

#[test]
fn a_piper_model_needs_a_unit_and_has_a_cluster() {
    let Some(path) = shared("piper/bert32a100.json") else { return };
    let bytes = fs::read(&path).expect("a readable file");
    assert_eq!(import_graph("m", &bytes, None).unwrap_err().code, "M005");
    let options = ImportOptions { time_unit: Some(TimeUnit::Seconds), ..ImportOptions::default() };
    let graph = import_file(&path, &options);
    let raw: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let nodes = raw["nodes"].as_array().unwrap();
    assert_eq!(graph.operators.len(), nodes.len());
    for (operator, node) in graph.operators.iter().zip(nodes) {
        let way = &node["TMPCs"]["1"][0];
        let number = |field: &str| way[field].as_f64().unwrap();
        assert_eq!(operator.seconds["acc"], number("timePerSample"));
        assert_eq!(operator.parameter_bytes + operator.optimizer_bytes, number("memoryUsageB"));
        assert_eq!(operator.activation_bytes, number("memoryUsageA"));
    }
    let edges = raw["edges"].as_array().unwrap();
    let pins: usize = graph.tensors.iter().map(|tensor| tensor.consumers.len()).sum();
    assert_eq!(pins, edges.len());
    // The file is for forward and backward pass together: the time of a node covers both.
    let first = &graph.tensors[0];
    assert_eq!(first.bytes, 2.0 * edges[0]["communicationCost"].as_f64().unwrap());
    let cluster = graph.cluster.clone().expect("its own cluster");
    let KindDocument { count, memory_bytes, link, .. } = cluster.kinds[0].clone();
    assert_eq!((count, memory_bytes, link.unwrap().bandwidth), (10, Some(8e10), 2.5e10));
    let (value, work) =
        (optimum(&graph, &cluster), graph.operators.iter().map(|o| o.seconds["acc"]).sum::<f64>());
    assert!(value >= work / 10.0 && value <= work, "{value} of {work}");
    // The format of the authors' earlier package has one tensor per node.
    assert_eq!(write_reference("m", &graph).unwrap_err().code, "R017");
}

const PIPER: &str = r#"{"maxDevices": 2, "maxMemoryPerDevice": 1e9, "bandwidth": 1e9, "mbsInBatch": 4, "nodes": [
  {"id": 0, "name": "a", "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 1.0, "parameterSize": 8, "memoryUsageA": 1,
    "memoryUsageB": 16, "syncTimeFw": {}, "syncTimeBw": {"3": 0.0}}], "2": []}},
  {"id": 3, "TMPCs": {"1": [{"timePerSample": 2.5, "parameterSize": 8, "memoryUsageA": 1, "memoryUsageB": 4,
    "syncTimeFw": {"0": 0.0}}]}}],
  "edges": [{"sourceId": 0, "destId": 3, "communicationCost": 64.0}]}"#;

const COSTS: &str = r#"# A dump of RunMetadata.cost_graph
node { name: "_SOURCE" id: 0 }
node {
  name: "dense/kernel" id: 2 control_input: 0
  output_info { size: 64 alias_input_port: -1 shape { dim { size: 16 } } dtype: DT_FLOAT }
  persistent_memory_size: 64
}
node { name: "dense/kernel/read" id: 3 input_info { preceding_node: 2 } output_info { size: 64 } }
node <
  name: 'dense/MatMul', id: 4
  input_info: { preceding_node: 3 preceding_port: 0 }
  output_info { size: 32 } output_info { size: 8 }
  compute_cost: 17; temporary_memory_size: 128 is_final: false
>
node { name: "gradients/dense/MatMul_grad/MatMul" id: 5 input_info { preceding_node: 4 preceding_port: 1 }
       output_info { size: 16 } compute_cost: 20 }
node { name: "clip" id: 6 input_info { preceding_node: 5 } control_input: [4, 5] compute_cost: 1 }
"#;

#[test]
fn a_cost_graph_is_read_with_passes_and_colocation_from_names() {
    assert_eq!(detect("c", COSTS.as_bytes()), Ok(Format::CostGraph));
    let marked = "\u{feff}".to_owned() + COSTS.trim_start_matches(|c| c != '\n').trim_start();
    assert_eq!(detect("c", marked.as_bytes()), Ok(Format::CostGraph), "with a byte order mark");
    let graph = import("c", COSTS.as_bytes(), &ImportOptions::default());
    assert_eq!(graph.operators.len(), 5, "the ends of the executor's graph are no operators");
    let product = operator(&graph, "dense/MatMul");
    assert_eq!((product.seconds["acc"], product.workspace_bytes), (17e-6, 128.0));
    assert_eq!(product.layer.as_deref(), Some("dense"));
    let gradient = operator(&graph, "gradients/dense/MatMul_grad/MatMul");
    assert_eq!((gradient.pass, gradient.colocation.as_deref()), (Pass::Backward, Some("dense/MatMul")));
    assert_eq!(product.colocation.as_deref(), Some("dense/MatMul"));
    assert_eq!(operator(&graph, "dense/kernel/read").colocation.as_deref(), Some("dense/kernel"));
    assert_eq!(operator(&graph, "dense/kernel").parameter_bytes, 64.0);
    assert_eq!(operator(&graph, "clip").pass, Pass::Backward, "it reads a gradient");
    let tensors: Vec<_> =
        graph.tensors.iter().map(|t| (t.producer.as_str(), t.bytes, t.name.is_some())).collect();
    let gradient = gradient.name.as_str();
    assert_eq!(
        tensors,
        [
            ("dense/kernel", 64.0, true),
            ("dense/kernel/read", 64.0, true),
            ("dense/MatMul", 8.0, true),
            ("dense/MatMul", 0.0, false),
            (gradient, 16.0, true),
            (gradient, 0.0, false),
        ]
    );
}

const IR: &str = r#"<?xml version="1.0"?>
<net name="net" version="11">
  <layers>
    <layer id="0" name="image" type="Parameter" version="opset1"><data shape="1,3,8,8" element_type="f32"/>
      <output><port id="0" precision="FP32"><dim>1</dim><dim>3</dim><dim>8</dim><dim>8</dim></port></output></layer>
    <layer id="1" name="half" type="Const" version="opset1"><data element_type="f16" shape="16,3,3,3"/>
      <output><port id="0" precision="FP16"><dim>16</dim><dim>3</dim><dim>3</dim><dim>3</dim></port></output></layer>
    <layer id="2" name="weights" type="Convert" version="opset1">
      <input><port id="0" precision="FP16"><dim>16</dim><dim>3</dim><dim>3</dim><dim>3</dim></port></input>
      <output><port id="1" precision="FP32"><dim>16</dim><dim>3</dim><dim>3</dim><dim>3</dim></port></output></layer>
    <layer id="5" name="block/conv" type="Convolution" version="opset1"><data strides="1, 1"/>
      <input><port id="0" precision="FP32"><dim>1</dim><dim>3</dim><dim>8</dim><dim>8</dim></port>
             <port id="1" precision="FP32"><dim>16</dim><dim>3</dim><dim>3</dim><dim>3</dim></port></input>
      <output><port id="2" precision="FP32"><dim>1</dim><dim>16</dim><dim>6</dim><dim>6</dim></port></output></layer>
    <layer id="6" name="block/relu" type="ReLU" version="opset1">
      <input><port id="0" precision="FP32"><dim>1</dim><dim>16</dim><dim>6</dim><dim>6</dim></port></input>
      <output><port id="1" precision="FP32"><dim>1</dim><dim>16</dim><dim>6</dim><dim>6</dim></port></output></layer>
    <layer id="7" name="out" type="Result" version="opset1">
      <input><port id="0" precision="FP32"><dim>1</dim><dim>16</dim><dim>6</dim><dim>6</dim></port></input></layer>
  </layers>
  <edges>
    <edge from-layer="1" from-port="0" to-layer="2" to-port="0"/>
    <edge from-layer="0" from-port="0" to-layer="5" to-port="0"/>
    <edge from-layer="2" from-port="1" to-layer="5" to-port="1"/>
    <edge from-layer="5" from-port="2" to-layer="6" to-port="0"/>
    <edge from-layer="6" from-port="1" to-layer="7" to-port="0"/>
  </edges>
</net>
"#;

#[test]
fn an_openvino_model_is_priced_by_its_shapes() {
    assert_eq!(detect("m", IR.as_bytes()), Ok(Format::OpenVino));
    let graph = import("m", IR.as_bytes(), &ImportOptions::default());
    let names: Vec<&str> = graph.operators.iter().map(|operator| operator.name.as_str()).collect();
    assert_eq!(names, ["block/conv", "block/relu"]);
    let convolution = &graph.operators[0];
    assert_eq!(convolution.flop, Some(2.0 * 576.0 * 27.0));
    assert_eq!(convolution.bytes_moved, Some(4.0 * (192.0 + 576.0) + 2.0 * 432.0));
    assert_eq!(convolution.parameter_bytes, 2.0 * 432.0, "as it is stored, in half precision");
    assert_eq!(convolution.layer.as_deref(), Some("block"));
    assert_eq!(convolution.precision, Some(Precision::Fp32));
    assert_eq!(graph.operators[1].flop, Some(576.0));
    assert_eq!(graph.operators[1].launches, Some(0.0), "in the kernel of the convolution");
    // The tensor between the two operators stays in registers; the output is stored.
    let tensors: Vec<(usize, f64)> = graph.tensors.iter().map(|t| (t.consumers.len(), t.bytes)).collect();
    assert_eq!(tensors, [(1, 0.0), (0, 4.0 * 576.0)]);

    let half = ImportOptions { precision: Some(Precision::Fp16), ..ImportOptions::default() };
    let half = import("m", IR.as_bytes(), &half);
    assert_eq!(half.operators[0].precision, Some(Precision::Fp16));
    assert_eq!(half.operators[0].bytes_moved, Some(2.0 * (192.0 + 432.0 + 576.0)));

    let apart = ImportOptions { fusion: Fusion::Off, ..ImportOptions::default() };
    let apart = import("m", IR.as_bytes(), &apart);
    assert_eq!((apart.operators[1].launches, apart.tensors[0].bytes), (None, 4.0 * 576.0));
}

/// The batch is the dimension that a layout marks as samples, or else the first dimension.
#[test]
fn samples_of_openvino_are_where_its_layout_says() {
    let laid_out = |layout: &str| {
        let info = format!(
            "<rt_info><attribute name=\"layout\" version=\"0\" layout=\"{layout}\"/></rt_info></port>"
        );
        let text = IR.replacen("</port>", &info, 1);
        assert_ne!(text, IR);
        let batch = import("m", text.as_bytes(), &ImportOptions::default()).batch;
        batch.map(|batch| (batch.samples.get(), batch.tokens))
    };
    assert_eq!(laid_out("[N,C,H,W]"), Some((1, None)));
    assert_eq!(laid_out("[C,N,...]"), Some((3, None)));
    assert_eq!(laid_out("[?,...,N]"), Some((8, None)));
    for none in ["[H,W,C,?]", "[?,...]", "[?,?,?,?,N]"] {
        assert_eq!(laid_out(none), None, "{none}");
    }
    let batch = import("m", IR.as_bytes(), &ImportOptions::default()).batch.expect("the first dimension");
    assert_eq!((batch.samples.get(), batch.tokens), (1, None));
}

/// Two products read the same table, one of them through a view. Weights of four bits are scaled where they are read.
#[test]
fn weights_of_openvino_are_shared_and_held_as_they_are_stored() {
    let port = |id: usize, precision: &str, dims: &[usize]| {
        let dims: String = dims.iter().map(|dim| format!("<dim>{dim}</dim>")).collect();
        format!("<port id=\"{id}\" precision=\"{precision}\">{dims}</port>")
    };
    let mut layers = String::new();
    let mut edges = String::new();
    let mut layer = |id: usize, kind: &str, inputs: &[(usize, String)], output: String| {
        let mut ports = String::new();
        for (place, (source, port)) in inputs.iter().enumerate() {
            ports += port;
            edges += &format!(
                "<edge from-layer=\"{source}\" from-port=\"9\" to-layer=\"{id}\" to-port=\"{place}\"/>"
            );
        }
        layers += &format!(
            "<layer id=\"{id}\" name=\"l{id}\" type=\"{kind}\"><input>{ports}</input><output>{output}</output></layer>"
        );
    };
    let (x, table) = ([64, 256], [256, 256]);
    layer(0, "Parameter", &[], port(9, "FP16", &x));
    layer(1, "Const", &[], port(9, "FP16", &table));
    layer(2, "MatMul", &[(0, port(0, "FP16", &x)), (1, port(1, "FP16", &table))], port(9, "FP16", &x));
    layer(3, "Reshape", &[(2, port(0, "FP16", &x))], port(9, "FP16", &[8, 8, 256]));
    layer(
        4,
        "MatMul",
        &[(3, port(0, "FP16", &[8, 8, 256])), (1, port(1, "FP16", &table))],
        port(9, "FP16", &[8, 8, 256]),
    );
    layer(5, "Const", &[], port(9, "U4", &table));
    layer(6, "Convert", &[(5, port(0, "U4", &table))], port(9, "FP16", &table));
    layer(7, "Const", &[], port(9, "FP16", &[256, 1]));
    layer(
        8,
        "Multiply",
        &[(6, port(0, "FP16", &table)), (7, port(1, "FP16", &[256, 1]))],
        port(9, "FP16", &table),
    );
    layer(
        10,
        "MatMul",
        &[(4, port(0, "FP16", &[8, 8, 256])), (8, port(1, "FP16", &table))],
        port(9, "FP16", &[8, 8, 256]),
    );
    layer(11, "Result", &[(10, port(0, "FP16", &[8, 8, 256]))], String::new());
    let text =
        format!("<net name=\"n\" version=\"11\"><layers>{layers}</layers><edges>{edges}</edges></net>");
    let graph = import("m", text.as_bytes(), &ImportOptions::default());
    let names: Vec<&str> = graph.operators.iter().map(|operator| operator.name.as_str()).collect();
    assert_eq!(names, ["l2", "l3", "l4", "l10"], "constants are folded");
    let [shared] = graph.parameters.as_slice() else { panic!("{:?}", graph.parameters) };
    assert_eq!((shared.name.as_str(), shared.bytes, shared.trained), ("l1", 131_072.0, true));
    assert_eq!(shared.readers, ["l2", "l4"]);
    let last = operator(&graph, "l10");
    assert_eq!(last.parameter_bytes, 32_768.0 + 512.0, "numbers of four bits, and scales");
    assert_eq!(last.bytes_moved, Some(2.0 * 2.0 * 16_384.0 + 33_280.0));
    let view = operator(&graph, "l3");
    assert_eq!((view.launches, view.bytes_moved), (Some(0.0), Some(0.0)));
    assert_eq!(view.colocation, operator(&graph, "l2").colocation);
    // The product after the view reads the output of the first one.
    let read = graph.tensors.iter().find(|tensor| tensor.consumers == ["l4"]).expect("it reads something");
    assert_eq!((read.producer.as_str(), read.bytes), ("l2", 32_768.0));
}

/// Version 10 states only the types of outputs: inputs have the type of their source.
#[test]
fn openvino_inputs_without_a_type_have_that_of_their_source() {
    let half = IR.replace("FP32", "FP16").replace("f32", "f16");
    let untyped: String = half
        .split_inclusive("</input>")
        .map(|part| match part.split_once("<input>") {
            Some((before, input)) => format!("{before}<input>{}", input.replace(" precision=\"FP16\"", "")),
            None => part.to_owned(),
        })
        .collect();
    assert_ne!(untyped, half);
    let import = |text: &str| import("m", text.as_bytes(), &ImportOptions::default());
    assert_eq!(import(&untyped), import(&half));
    assert_eq!(import(&untyped).operators[0].bytes_moved, Some(2.0 * (192.0 + 432.0 + 576.0)));
}

#[test]
fn recurrent_layers_of_openvino_multiply_every_weight_in_every_step() {
    let port = |id: usize, dims: &[usize]| {
        let dims: String = dims.iter().map(|dim| format!("<dim>{dim}</dim>")).collect();
        format!("<port id=\"{id}\" precision=\"FP32\">{dims}</port>")
    };
    let flop = |kind: &str, inputs: &[&[usize]]| {
        let ports: String = inputs.iter().enumerate().map(|(id, dims)| port(id, dims)).collect();
        let data = port(0, inputs[0]);
        let text = format!(
            "<net name=\"n\" version=\"11\"><layers>\
             <layer id=\"0\" name=\"x\" type=\"Parameter\"><output>{data}</output></layer>\
             <layer id=\"1\" name=\"r\" type=\"{kind}\"><input>{ports}</input></layer></layers>\
             <edges><edge from-layer=\"0\" from-port=\"0\" to-layer=\"1\" to-port=\"0\"/></edges></net>"
        );
        import(kind, text.as_bytes(), &ImportOptions::default()).operators[0].flop
    };
    let state: &[usize] = &[2, 2, 6];
    let lstm: [&[usize]; 7] = [&[2, 5, 3], state, state, &[2], &[2, 24, 3], &[2, 24, 6], &[2, 24]];
    assert_eq!(flop("LSTMSequence", &lstm), Some(2.0 * 10.0 * 2.0 * 24.0 * 9.0));
    let gru: [&[usize]; 6] = [&[2, 5, 3], state, &[2], &[2, 18, 3], &[2, 18, 6], &[2, 18]];
    assert_eq!(flop("GRUSequence", &gru), Some(2.0 * 10.0 * 2.0 * 18.0 * 9.0));
    let cell: [&[usize]; 6] = [&[2, 3], &[2, 6], &[2, 6], &[24, 3], &[24, 6], &[24]];
    assert_eq!(flop("LSTMCell", &cell), Some(2.0 * 2.0 * 24.0 * 9.0));
    assert_eq!(flop("RNNCell", &[&[2, 3], &[2, 6], &[6, 3], &[6, 6], &[6]]), Some(2.0 * 2.0 * 6.0 * 9.0));
}

/// Random mutations of valid files: parts are changed, cut, repeated, and inserted elsewhere.
#[test]
fn mutilated_files_are_errors_or_graphs_and_no_crash() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let sound = [
        (Format::PipeDream, PROFILE),
        (Format::CostGraph, COSTS),
        (Format::OpenVino, IR),
        (Format::Piper, PIPER),
    ];
    let (mut errors, mut graphs) = (0, 0);
    for (format, text) in sound {
        for _ in 0..4000 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..rng.random_range(1..4) {
                let from = rng.random_range(0..bytes.len());
                let to = rng.random_range(from..bytes.len().min(from + 40));
                match rng.random_range(0..4) {
                    0 => bytes[from] = rng.random_range(b' '..=b'~'),
                    1 => drop(bytes.drain(from..to)),
                    2 => bytes.extend_from_within(from..to),
                    _ => {
                        let part = bytes[from..to].to_vec();
                        let offset = rng.random_range(0..bytes.len());
                        bytes.splice(offset..offset, part);
                    }
                }
            }
            let options = ImportOptions {
                format: Some(format),
                time_unit: Some(TimeUnit::Seconds),
                gradients: Gradients::Reversed,
                ..ImportOptions::default()
            };
            match import_model("mutilated", &bytes, &options) {
                Ok(imported) => {
                    graphs += 1;
                    let again = import_graph("again", write_graph(&imported.graph).as_bytes(), None);
                    assert_eq!(again.expect("what is written is read").graph, imported.graph);
                }
                Err(error) => {
                    errors += 1;
                    assert!(error.to_string().starts_with("error["), "{error}");
                }
            }
        }
    }
    assert!(errors > 500 && graphs > 500, "{errors} errors and {graphs} graphs are no test");
}

/// Nesting deeper than any stack allows, in every text format.
#[test]
fn depth_is_an_error_and_no_crash() {
    let deep = 1_000_000;
    let bombs = [
        (Format::CostGraph, "node { a ".to_owned() + &"{ b ".repeat(deep)),
        (Format::CostGraph, "node { a: [] ".to_owned() + &"a: [] ".repeat(deep)),
        (Format::OpenVino, "<net>".to_owned() + &"<a>".repeat(deep)),
        (Format::OpenVino, "<net>".to_owned() + &"<a></".repeat(deep)),
        (Format::OpenVino, "<net>".to_owned() + &"<a b=\"/>\">".repeat(deep)),
        (Format::OpenVino, "<net ".to_owned() + &"a=\"\" ".repeat(deep) + "/>"),
        (Format::OpenVino, "<net>".to_owned() + &"<a>".repeat(deep) + &"</a>".repeat(deep) + "</net>"),
        (Format::Piper, "{\"mbsInBatch\": 1, \"comment\": ".to_owned() + &"[".repeat(deep)),
        (Format::PipeDream, " -- ".repeat(deep) + "forward_compute_time="),
    ];
    for (format, bomb) in bombs {
        let options = ImportOptions { format: Some(format), ..ImportOptions::default() };
        let error = import_model("bomb", bomb.as_bytes(), &options).unwrap_err();
        assert!(matches!(error.code.name, "M006" | "F002"), "{format:?}: {error}");
    }
}

#[test]
fn a_chain_of_a_million_operators_is_a_graph() {
    let mut text = String::new();
    for index in 0..1_000_000 {
        text += &format!(
            "n{index} -- ReLU -- forward_compute_time=1, backward_compute_time=0, activation_size=8, parameter_size=0\n"
        );
    }
    for index in 1..1_000_000 {
        text += &format!("\tn{} -- n{index}\n", index - 1);
    }
    let graph = import_graph("chain", text.as_bytes(), None).unwrap().graph;
    assert_eq!(graph.tensors.len(), 999_999);
    Graph::from_document(graph).expect("a graph");
}

/// Runs the script for PyTorch on a model if PyTorch is installed; if only Python is, the script is parsed. The program
/// is `STAGEWRIGHT_PYTHON`, or else `python3`.
#[test]
fn the_torch_exporter_writes_graphs() {
    let python = std::env::var_os("STAGEWRIGHT_PYTHON").unwrap_or_else(|| "python3".into());
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let script = folder.path().join("stagewright_exporter.py");
    fs::write(&script, torch::EXPORTER).expect("there is room for a file");
    let run = |code: &str| Command::new(&python).args(["-B", "-c", code]).current_dir(folder.path()).output();
    match run("import ast; ast.parse(open('stagewright_exporter.py').read())") {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => {
            eprintln!("skipped: there is no Python");
            return;
        }
    }
    if !run("import torch.export").is_ok_and(|output| output.status.success()) {
        eprintln!("skipped beyond its syntax: PyTorch is not installed");
        return;
    }
    let model = "
import torch, stagewright_exporter
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 16, 3)
        self.norm = torch.nn.BatchNorm2d(16)
        self.first = torch.nn.Linear(576, 576, bias=False)
        self.second = torch.nn.Linear(576, 576, bias=False)
        self.second.weight = self.first.weight
    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x))).flatten(1)
        return self.second(torch.relu(self.first(x)))
net, image = Net(), torch.randn(2, 3, 8, 8)
program = torch.export.export(net.eval(), (image,))
stagewright_exporter.write(program, 'model.json', name='net')
stagewright_exporter.write(program, 'kernels.json', fuse=False)
stagewright_exporter.write_training_step(net, (image,), 'step.json', loss=lambda made: made.square().mean())
stagewright_exporter.write(program, 'measured.json', device_class='host', device='cpu')
";
    let output = run(model).expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let graph = import_file(&folder.path().join("model.json"), &ImportOptions::default());
    let flop = |kind: &str| {
        let of_kind = graph.operators.iter().filter(|operator| operator.kind.as_deref() == Some(kind));
        of_kind.map(|operator| operator.flop.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(flop("convolution"), [2.0 * (2.0 * 576.0) * 27.0 + 2.0 * 576.0]);
    assert_eq!(flop("mm"), [2.0 * 2.0 * 576.0 * 576.0; 2]);
    let weights = |graph: &GraphDocument| {
        let own: f64 = graph.operators.iter().map(|operator| operator.parameter_bytes).sum();
        own + graph.parameters.iter().filter(|entry| entry.trained).map(|entry| entry.bytes).sum::<f64>()
    };
    let bytes = 4.0 * (16.0 * 27.0 + 16.0 + 32.0 + 576.0 * 576.0);
    assert_eq!(weights(&graph), bytes);
    let names: Vec<&str> = graph.operators.iter().map(|operator| operator.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "conv/convolution",
            "norm/_native_batch_norm_legit_no_training",
            "norm/relu",
            "first/mm",
            "first/relu",
            "second/mm"
        ]
    );
    let launches =
        |graph: &GraphDocument| graph.operators.iter().map(|o| o.launches.unwrap_or(1.0)).sum::<f64>();
    assert_eq!(launches(&graph), 3.0);
    let tied: Vec<_> = graph.parameters.iter().filter(|entry| entry.trained).collect();
    assert_eq!(tied[0].readers, ["first/mm", "second/mm"]);
    assert_eq!(tied.len(), 1);
    assert!(graph.tensors.iter().any(|tensor| tensor.producer == "second/mm" && tensor.consumers.is_empty()));

    let measured = import_file(&folder.path().join("measured.json"), &ImportOptions::default());
    assert_eq!(measured.operators.len(), graph.operators.len());
    for (with, without) in measured.operators.iter().zip(&graph.operators) {
        assert!(with.seconds["host"] > 0.0, "{}", with.name);
        assert_eq!((with.flop, with.launches), (without.flop, without.launches));
        assert!(without.seconds.is_empty());
    }

    let kernels = import_file(&folder.path().join("kernels.json"), &ImportOptions::default());
    assert_eq!(launches(&kernels), 6.0);
    let moved = |graph: &GraphDocument| graph.operators.iter().map(|o| o.bytes_moved.unwrap()).sum::<f64>();
    assert!(moved(&graph) < moved(&kernels));

    let step = import_file(&folder.path().join("step.json"), &ImportOptions::default());
    assert_eq!(weights(&step), bytes);
    let of_pass = |pass| step.operators.iter().filter(move |operator| operator.pass == pass);
    // There are five weights. The tied one has two copies, whose gradients are not added up.
    let updates: Vec<_> = of_pass(Pass::Update).collect();
    assert_eq!(updates.len(), 6);
    assert_eq!(updates.iter().filter(|operator| operator.layer.as_deref() == Some("first")).count(), 1);
    assert_eq!(updates.iter().filter(|operator| operator.layer.as_deref() == Some("second")).count(), 1);
    let homes: BTreeSet<_> = of_pass(Pass::Forward).map(|o| o.colocation.as_deref()).collect();
    for operator in of_pass(Pass::Backward).chain(of_pass(Pass::Update)) {
        assert!(
            operator.colocation.is_some() && homes.contains(&operator.colocation.as_deref()),
            "{operator:?}"
        );
    }
    let colocation = |name: &str| &step.operators.iter().find(|o| o.name == name).unwrap().colocation;
    assert_ne!(colocation("first/mm"), colocation("second/mm"));
    // The forward pass, and twice its FLOP for the gradients of the input and of the weight.
    let products = step.operators.iter().filter(|o| o.kind.as_deref() == Some("mm"));
    assert_eq!(products.map(|o| o.flop.unwrap()).sum::<f64>(), 6.0 * 2.0 * 2.0 * 576.0 * 576.0);
}
