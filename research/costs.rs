//! Effect of measured costs. Plans of the models in `data/models` are made with the roofline, with the closed forms of
//! the built-in devices, and with the tables of an installed `aiconfigurator-core`; the tables give the value of all
//! plans.
//!
//! ONNX models are cast to bf16, which the tables contain; a native model keeps its precision, and is left out if the
//! tables contain none of its operators. Plans are contiguous splits by `dpl` on four devices.
//!
//!     cargo bench -p stagewright-research --bench costs -- FOLDER

#![allow(clippy::print_stdout, reason = "an experiment prints its table")]

use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use stagewright::clusters;
use stagewright::core::cluster::Cluster;
use stagewright::core::document::{ClusterDocument, GraphDocument, Precision};
use stagewright::core::evaluate::evaluate;
use stagewright::core::graph::Graph;
use stagewright::core::objective::Objective;
use stagewright::core::placement::Placement;
use stagewright::core::problem::Problem;
use stagewright::costs::import::aiconfigurator;
use stagewright::costs::{Costs, Source, apply};
use stagewright::formats::{ImportOptions, detect, import_model};
use stagewright::{Options, solve};

/// Clusters, each with the systems in the tables that match its kinds of devices.
const DEVICES: [(&str, &[&str]); 3] =
    [("4xa100", &["a100_sxm"]), ("4xh100", &["h100_sxm"]), ("2xa100+2xh100", &["a100_sxm", "h100_sxm"])];

/// Time limit of a solve.
const LIMIT: Duration = Duration::from_secs(20);

fn main() {
    let folder = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let Some(folder) = folder else {
        return println!("skipped: give the folder of the installed package aiconfigurator_core");
    };
    println!(
        "| model | devices | by tables | roofline / tables | forms / tables | plan of roofline | plan of forms |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: |");
    let mut changed = [0, 0];
    let mut count = 0;
    for (devices, systems) in DEVICES {
        let cluster = clusters::find(devices).unwrap_or_else(|error| panic!("{error}"));
        let systems = systems.iter().map(|&system| system.to_owned());
        let classes = cluster.kinds.iter().map(|kind| kind.class.clone());
        let options = aiconfigurator::Options {
            systems: systems.clone().collect(),
            framework: None,
            classes: systems.zip(classes).collect(),
        };
        let imported =
            aiconfigurator::import(Path::new(&folder), &options).unwrap_or_else(|error| panic!("{error}"));
        let costs =
            Costs::new([("tables".to_owned(), imported.document)]).unwrap_or_else(|error| panic!("{error}"));
        for (name, graph) in models() {
            let Some(row) = Row::new(graph, &cluster, &costs) else { continue };
            count += 1;
            changed[0] += usize::from(row.loss_of_roofline > 0.0);
            changed[1] += usize::from(row.loss_of_forms > 0.0);
            println!(
                "| {name} | {devices} | {:.0}% | {:.2} | {:.2} | {} | {} |",
                100.0 * row.covered,
                row.roofline,
                row.forms,
                lost(row.loss_of_roofline),
                lost(row.loss_of_forms)
            );
        }
    }
    println!(
        "\n{} of {count} plans of the roofline and {} of the closed forms are not the best",
        changed[0], changed[1]
    );
}

fn lost(share: f64) -> String {
    if share > 0.0 { format!("{:.1}% slower", 100.0 * share) } else { "the same value".into() }
}

/// Values of a model's plans according to the tables.
struct Row {
    /// Share of the compute time that the tables price.
    covered: f64,
    /// Value predicted by the roofline, and by the closed forms, divided by the value that the tables give.
    roofline: f64,
    forms: f64,
    /// Slowdown of the plan made with the roofline, and of the plan made with the closed forms.
    loss_of_roofline: f64,
    loss_of_forms: f64,
}

impl Row {
    fn new(graph: GraphDocument, cluster: &ClusterDocument, costs: &Costs) -> Option<Row> {
        let mut measured = (graph.clone(), cluster.clone());
        let coverage = apply(&mut measured.0, &mut measured.1, costs);
        let measured = problem(measured.0, measured.1)?;
        let operators: Vec<_> = measured.graph().operators().collect();
        let (mut total, mut guessed) = (0.0, 0.0);
        for (number, kind) in cluster.kinds.iter().enumerate() {
            let seconds = |index: usize| measured.seconds(operators[index], number).unwrap_or(0.0);
            let seconds = coverage.seconds(&kind.class, seconds);
            total += seconds.values().sum::<f64>();
            guessed += seconds.get(&Source::Guessed).copied().unwrap_or(0.0);
        }
        let covered = 1.0 - guessed / total;
        if covered <= 0.0 {
            return None;
        }
        let mut plain = cluster.clone();
        plain.classes.values_mut().for_each(|class| class.fits.clear());
        let roofline = problem(graph.clone(), plain)?;
        let forms = problem(graph, cluster.clone())?;
        let (best, _) = plan(&measured)?;
        let value = |placement: &Placement| evaluate(&measured, placement).value;
        let (of_roofline, roofline_value) = plan(&roofline)?;
        let (of_forms, forms_value) = plan(&forms)?;
        // The heuristic orders of the three problems differ, so the best of all three plans is the reference.
        let least = value(&best).min(value(&of_roofline)).min(value(&of_forms));
        Some(Row {
            covered,
            roofline: roofline_value / value(&of_roofline),
            forms: forms_value / value(&of_forms),
            loss_of_roofline: value(&of_roofline) / least - 1.0,
            loss_of_forms: value(&of_forms) / least - 1.0,
        })
    }
}

fn problem(graph: GraphDocument, cluster: ClusterDocument) -> Option<Problem> {
    let (graph, cluster) = (Graph::from_document(graph).ok()?, Cluster::from_document(cluster).ok()?);
    Problem::new(graph, cluster, Objective::default()).ok()
}

fn plan(problem: &Problem) -> Option<(Placement, f64)> {
    let options = Options::default().solver_named("dpl").ok()?.time_limit(Some(LIMIT));
    let plan = solve(problem, &options).ok()?.plan?;
    Some((plan.placement.clone(), plan.value()))
}

/// The models in `data/models`.
fn models() -> Vec<(String, GraphDocument)> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("data/models");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("the folder is there").flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut models = Vec::new();
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "gz")) {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let mut bytes = Vec::new();
        let file = fs::File::open(path).expect("the model is there");
        MultiGzDecoder::new(file).read_to_end(&mut bytes).expect("the model is whole");
        let is_native = detect(&name, &bytes).is_ok_and(|format| format.entry().name == "native");
        let precision =
            (!is_native && !name.contains("qdq") && !name.contains("4-bit")).then_some(Precision::Bf16);
        let options = ImportOptions { precision, ..ImportOptions::default() };
        match import_model(&name, &bytes, &options) {
            Ok(imported) => models.push((name, imported.graph)),
            Err(error) => println!("{error}"),
        }
    }
    models
}
