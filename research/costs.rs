//! Effect of measured costs. Plans of the models in `data/models` are made with the roofline, with the closed forms of
//! the devices and with those of other devices, with learned costs, and with the tables of an installed
//! `aiconfigurator-core`; the tables give the value of all plans. A checkpoint replaces the shipped one: that of
//! `make bench-costs` has not seen the devices.
//!
//! ONNX models are cast to bf16, which the tables contain; a native model keeps its precision, and is left out if the
//! tables contain none of its operators. Plans are contiguous splits by `dpl` on four devices.
//!
//!     cargo bench -p stagewright-research --bench costs -- FOLDER [CHECKPOINT]

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
use stagewright::costs::{Costs, Source, Unmeasured, apply};
use stagewright::formats::{ImportOptions, detect, import_model};
use stagewright::learned_costs::{Estimator, checkpoint};
use stagewright::{Options, solve};

/// Clusters, each with the systems in the tables that match its kinds of devices.
const DEVICES: [(&str, &[&str]); 3] =
    [("4xa100", &["a100_sxm"]), ("4xh100", &["h100_sxm"]), ("2xa100+2xh100", &["a100_sxm", "h100_sxm"])];

/// Time limit of a solve.
const LIMIT: Duration = Duration::from_secs(20);

/// The ways of pricing that are compared with the tables.
const WAYS: [&str; 4] = ["roofline", "own forms", "forms of others", "learned"];

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let Some(folder) = arguments.next() else {
        return println!("skipped: give the folder of the installed package aiconfigurator_core");
    };
    let estimator = arguments.next().map(|file| {
        let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
        Estimator::new(checkpoint::read(&bytes).unwrap_or_else(|error| panic!("{file}: {error}")).0)
    });
    let estimator = estimator.as_ref().unwrap_or_else(|| Estimator::shipped());
    println!("| model | devices | by tables | value / tables: {0} | loss: {0} |", WAYS.join(", "));
    println!("| --- | --- | ---: | ---: | ---: |");
    let mut losses = [const { Vec::new() }; 4];
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
            let Some(row) = Row::new(&graph, &cluster, &costs, estimator) else { continue };
            let values = row.ways.map(|way| format!("{:.2}", way.value)).join(", ");
            let lost = row.ways.map(|way| format!("{:.1}%", 100.0 * way.loss)).join(", ");
            println!("| {name} | {devices} | {:.0}% | {values} | {lost} |", 100.0 * row.covered);
            losses.iter_mut().zip(row.ways).for_each(|(losses, way)| losses.push(way.loss));
        }
    }
    println!();
    for (way, mut losses) in WAYS.into_iter().zip(losses) {
        losses.sort_by(f64::total_cmp);
        let lost = losses.iter().filter(|loss| **loss > 0.0).count();
        let mean = losses.iter().sum::<f64>() / losses.len() as f64;
        let most = losses.last().copied().unwrap_or_default();
        println!(
            "{way}: {lost} of {} plans are not the best; loss {:.2}% on average, {:.1}% at most",
            losses.len(),
            100.0 * mean,
            100.0 * most
        );
    }
}

/// A plan that was made with one way of pricing.
#[derive(Clone, Copy)]
struct Way {
    /// Value that the way predicts, divided by the value that the tables give.
    value: f64,
    /// Slowdown of the plan.
    loss: f64,
}

/// Values of a model's plans according to the tables.
struct Row {
    /// Share of the compute time that the tables price.
    covered: f64,
    ways: [Way; 4],
}

impl Row {
    fn new(
        graph: &GraphDocument,
        cluster: &ClusterDocument,
        costs: &Costs,
        estimator: &Estimator,
    ) -> Option<Row> {
        let mut measured = (graph.clone(), cluster.clone());
        let coverage = apply(&mut measured.0, &mut measured.1, costs, Unmeasured::Stated);
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
        let priced = |unmeasured| {
            let (mut graph, mut cluster) = (graph.clone(), plain.clone());
            apply(&mut graph, &mut cluster, &Costs::default(), unmeasured);
            problem(graph, cluster)
        };
        let ways = [
            priced(Unmeasured::Stated)?,
            problem(graph.clone(), cluster.clone())?,
            priced(Unmeasured::Closed)?,
            priced(Unmeasured::Learned(estimator))?,
        ];
        let (best, _) = plan(&measured)?;
        let value = |placement: &Placement| evaluate(&measured, placement).value;
        let plans: Vec<(Placement, f64)> = ways.iter().map(plan).collect::<Option<_>>()?;
        // The heuristic orders of the problems differ, so the best of all plans is the reference.
        let least = plans.iter().map(|(placement, _)| value(placement)).fold(value(&best), f64::min);
        let way = |(placement, predicted): &(Placement, f64)| Way {
            value: predicted / value(placement),
            loss: value(placement) / least - 1.0,
        };
        Some(Row { covered, ways: std::array::from_fn(|index| way(&plans[index])) })
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
