//! Exports of well-known models in `data/models`: the importers find the parameters and the FLOP that PyTorch
//! counts, and plans on four GPUs use all of them and pass the checker.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use stagewright::clusters;
use stagewright::formats::{ImportOptions, import_model};
use stagewright::registry::BOUNDS;
use stagewright::report::document::{Provenance, plan_document};
use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{GraphDocument, ObjectiveKind, Split};
use stagewright_core::evaluate::evaluate;
use stagewright_core::graph::{Graph, TensorId};
use stagewright_core::objective::{Objective, Throughput};
use stagewright_core::problem::Problem;
use stagewright_core::simulate::simulate_all;
use stagewright_core::solver::{Context, Limits, Plan, Silent, Solver};
use stagewright_search::Dpl;
use stagewright_verify::check;

/// Largest relative deviation from the FLOP that PyTorch counts, which cover only products, convolutions and attention.
/// The elementwise operators of MobileNet add more than a twentieth.
const FLOP_TOLERANCE: f64 = 0.06;
/// Bytes of a rotary table with 64 angles for each of 256 tokens.
const LARGEST_TABLE: f64 = 4.0 * 256.0 * 64.0;
/// A model whose experts use grouped products, which PyTorch's counter omits.
const WITHOUT_EXPERTS: &str = "mixtral-2l.json.gz";

#[derive(Deserialize)]
struct Table {
    model: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    file: String,
    route: String,
    parameters: u64,
    parameter_bytes: f64,
    flop: f64,
}

/// Bytes of the tensors that enter and leave a device.
fn crossing_bytes(problem: &Problem, plan: &Plan, device: DeviceId) -> f64 {
    let graph = problem.graph();
    let is_here = |op| plan.placement.device_of(op) == device;
    let crosses = |tensor: &TensorId| {
        let readers = graph.consumers(*tensor);
        match is_here(graph.producer(*tensor)) {
            true => !readers.iter().all(|&reader| is_here(reader)),
            false => readers.iter().any(|&reader| is_here(reader)),
        }
    };
    graph.tensors().filter(crosses).map(|tensor| graph.bytes(tensor)).sum()
}

fn folder() -> PathBuf {
    Path::new(crate::ROOT).join("data/models")
}

/// Every model in the table, imported.
fn models() -> Vec<(Row, GraphDocument)> {
    let text = fs::read_to_string(folder().join("models.toml")).expect("the table is there");
    let rows = toml::from_str::<Table>(&text).expect("the table is TOML").model;
    let read = |row: Row| {
        let mut bytes = Vec::new();
        let compressed = fs::File::open(folder().join(&row.file)).expect("the model is there");
        flate2::read::GzDecoder::new(compressed).read_to_end(&mut bytes).expect("the model is whole");
        let imported = import_model(&row.file, &bytes, &ImportOptions::default());
        (row, imported.unwrap_or_else(|error| panic!("{error}")).graph)
    };
    rows.into_iter().map(read).collect()
}

#[test]
fn parameters_and_flop_are_those_of_the_framework() {
    let models = models();
    assert!(models.len() >= 19, "{} models", models.len());
    for (row, graph) in models {
        let own: f64 = graph.operators.iter().map(|operator| operator.parameter_bytes).sum();
        let shared: f64 =
            graph.parameters.iter().filter(|entry| entry.trained).map(|entry| entry.bytes).sum();
        // An export may store a buffer, the frequencies or angles of a rotary table, like a weight.
        let buffers = own + shared - row.parameter_bytes;
        assert!((0.0..=LARGEST_TABLE).contains(&buffers), "{}: {buffers} bytes more", row.file);
        let flop: f64 = graph.operators.iter().filter_map(|operator| operator.flop).sum();
        let is_close = (flop / row.flop - 1.0).abs() <= FLOP_TOLERANCE;
        assert!(is_close || row.file == WITHOUT_EXPERTS, "{}: {flop} of {}", row.file, row.flop);
    }
}

/// Environment variable that makes the test rewrite the table.
const WRITE: &str = "STAGEWRIGHT_WRITE_MODELS";
/// Minimum ratio of the bound for free splits to the value of a contiguous plan.
const SHARE: f64 = 0.9;
/// Models whose ratio is below `SHARE`: two layers of experts on four devices, in which one product of each layer is
/// 72% of a device's load; and a model that takes 172 microseconds, 15% of which are transfers.
const SHORT: [&str; 2] = ["mixtral-2l.json.gz", "resnet-50-qdq.onnx.gz"];
/// A model whose step projects the keys and values of cross-attentions early, while a device still waits for its
/// decoder layers.
const EAGER: &str = "t5.json.gz";

/// A mask, a rotary table or a tied embedding is no obstacle: every model divides among four GPUs nearly as well as in
/// a free split, and a step of the plan takes the memory that the plan states.
#[test]
fn every_model_divides_among_four_devices() {
    let cluster = clusters::find("4xa100").expect("a built-in device");
    let mut page = String::from(HEADER);
    for (row, graph) in models() {
        let graph = Graph::from_document(graph).unwrap_or_else(|error| panic!("{}: {error}", row.file));
        let cluster = Cluster::from_document(cluster.clone()).expect("a sound cluster");
        let problem = Problem::new(graph, cluster, Objective::default()).expect("a problem");
        let mut silent = Silent;
        let mut context = Context::new(Limits { time: None, ..Limits::default() }, &mut silent);
        let solution = Dpl.solve(&problem, &mut context).expect("a contiguous problem");
        let plan = solution.plan.as_ref().unwrap_or_else(|| panic!("{}: {:?}", row.file, solution.reason));
        assert_eq!(plan.evaluation.devices.len(), 4, "{}", row.file);
        assert_eq!(evaluate(&problem, &plan.placement), plan.evaluation, "{}", row.file);
        let provenance = Provenance { solver: "dpl".into(), seconds: 0.0, seed: 0 };
        let document = plan_document(&problem, &solution, provenance);
        let report = check(problem.graph().document(), problem.cluster().document(), None, &document)
            .unwrap_or_else(|error| panic!("{}: {error}", row.file));
        assert!(report.violations.is_empty(), "{}: {:?}", row.file, report.violations);

        let free = Throughput { split: Split::Free, ..Throughput::default() };
        let free = problem.with_objective(free).expect("a problem");
        let bounds =
            BOUNDS.iter().filter(|bound| bound.applies(&free)).filter_map(|bound| bound.compute(&free));
        let bound = bounds.map(|bound| bound.value).fold(0.0, f64::max);
        let share = bound / plan.evaluation.value;
        assert!(share >= SHARE || SHORT.contains(&row.file.as_str()), "{}: {share} of the bound", row.file);

        let step = problem.with_objective(ObjectiveKind::Makespan).expect("a problem");
        let played = plan.placement.as_step(problem.graph(), ObjectiveKind::Throughput);
        let peaks = &simulate_all(&step, &[played])[0].peak_bytes;
        let mut above = 0.0_f64;
        for load in &plan.evaluation.devices {
            let excess = peaks[load.device.index()] - load.memory_bytes;
            let in_transit = crossing_bytes(&problem, plan, load.device);
            let is_explained = excess <= in_transit || row.file == EAGER;
            assert!(is_explained, "{}: {excess} bytes more, {in_transit} sent", row.file);
            above = above.max(excess / load.memory_bytes);
        }

        let flop: f64 =
            problem.graph().document().operators.iter().filter_map(|operator| operator.flop).sum();
        let largest = plan.evaluation.devices.iter().map(|load| load.memory_bytes).fold(0.0, f64::max);
        page += &format!(
            "| {} | {} | {} | {:.1} | {:+.2}% | {:.3} | {:.1}% | {:.2} | {:+.2}% |\n",
            row.file.trim_end_matches(".gz"),
            row.route,
            row.parameters,
            flop / 1e9,
            (flop / row.flop - 1.0) * 100.0,
            plan.evaluation.value * 1e3,
            share * 100.0,
            largest / 1e9,
            above * 100.0,
        );
    }
    let path = Path::new(crate::ROOT).join("docs/models.md");
    let shown = fs::read_to_string(&path).expect("the page is there");
    // The section about configurations is compared by the tests of the crate that reads them.
    let (table, section) = shown.split_once(SECTION).expect("a section about configurations");
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, format!("{page}{SECTION}{section}")).expect("the page can be written");
    }
    assert_eq!(table, page, "write it with {WRITE}=1");
}

/// Start of the section below the table.
const SECTION: &str = "\n## Configurations\n";

/// Text of the page above its table.
const HEADER: &str = "# Well-known models

Exports of well-known models, as frameworks write them (`data/models`), planned on four A100s. `cargo test --test integration models` generates
this table and compares it with the page. No time in it is measured.

| column | meaning |
| --- | --- |
| parameters | parameters that PyTorch counts, each once; the importers find the same bytes, and in four files up to 64 KiB of rotary tables more |
| GFLOP | all FLOP of a step |
| of PyTorch's | difference to the count of `torch.utils.flop_counter`, which covers products, convolutions and attention only, and not the grouped products of experts |
| plan, ms | slowest stage of a contiguous split by `--solver dpl` |
| of the bound | strongest bound of any free split, contiguous or not, divided by that stage; a bound need not be attainable |
| memory | memory in use on the fullest device, in GB |
| in a step | largest excess of a device's peak in the simulated step over its memory in the plan |

`explain` names the cause of the two shares below 90%: a layer of experts is a single product, with 72% of the load of its device;
and transfers take 15% of 172 µs.

The step can need more memory than the plan because it holds a tensor in transit at both ends until it has arrived, where the plan
counts it from its first reader on; and because a waiting device runs whatever is ready: in T5, the keys and values of
cross-attentions ahead of their turn.

| model | by | parameters | GFLOP | of PyTorch's | plan, ms | of the bound | memory | in a step |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
";
