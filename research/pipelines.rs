//! Predicted and measured throughput of plans on this machine, with two processes on one core each.
//!
//! The models are those of `data/models`, with random weights. Each model is profiled first; then the plans predicted
//! from the profile are run. The plans of a model are the best contiguous one, those of expert rules and of METIS, the
//! worst cut of a linear order, and cuts in between; all of them with the links of this machine, and with links of 100
//! MB/s, for which other plans are best. Transfers happen between computations.
//!
//! Prints a table for each kind of link. Nothing else should run on the machine at the same time.
//!
//! The processes run the program, which must be built first:
//!
//!     cargo build --release --bin stagewright
//!     cargo bench -p stagewright-research --bench pipelines [-- MODEL…]

#![allow(clippy::print_stdout, reason = "an experiment prints its table")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;
use stagewright::core::cluster::{Cluster, DeviceId};
use stagewright::core::contraction::{UnitId, Units};
use stagewright::core::document::{
    ClassDocument, ClusterDocument, Communication, CostsDocument, KindDocument, LinkCostsDocument,
    LinkDocument, OperatorCostsDocument, Split, TransferKind,
};
use stagewright::core::evaluate::evaluate;
use stagewright::core::graph::Graph;
use stagewright::core::ids::Keyed;
use stagewright::core::objective::{Objective, Throughput};
use stagewright::core::placement::Placement;
use stagewright::core::problem::Problem;
use stagewright::costs::{Costs, Unmeasured, apply};
use stagewright::formats::onnx::Whole;
use stagewright::formats::{ImportOptions, import_model};
use stagewright::runtime::pipeline::{self, Host, Run};
use stagewright::runtime::profile::{Profile, links, profile};
use stagewright::runtime::protocol::{Optimization, Throttle};
use stagewright::runtime::weights::{Missing, gather};
use stagewright::runtime::{library, worker};
use stagewright::{Options, solve};

/// Models, with the batch for those that leave it open.
const MODELS: [(&str, Option<u64>); 7] = [
    ("models/resnet-50.onnx.gz", None),
    ("models/resnet-50-qdq.onnx.gz", None),
    ("models/convnext-tiny.onnx.gz", None),
    ("models/mobilenet-v2.onnx.gz", None),
    ("models/swin-t.onnx.gz", None),
    ("models/vit.onnx.gz", None),
    ("demo/gpt2.onnx", Some(1)),
];

/// Bytes per second of throttled links.
const SLOW: f64 = 100e6;

/// Timed runs of a model in its profile.
const RUNS: u32 = 20;

/// Runs of each plan.
const REPEATS: usize = 5;

/// Samples that are timed in each run.
const SAMPLES: u32 = 6;

/// Relative difference below which two predictions count as the same plan.
const DISTINCT: f64 = 0.05;

/// Solvers whose plans are run, with their names in the tables.
const RULES: [(&str, &str); 4] = [
    ("best contiguous", "dpl"),
    ("equal layers", "equal-layers"),
    ("equal time", "equal-time"),
    ("METIS", "graph-partition"),
];

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let library = match library::find(None) {
        Ok(library) => library,
        Err(error) => return println!("skipped: {error}; {}", error.help()),
    };
    // This bench runs from the folder `deps` beside the program.
    let program = std::env::current_exe().expect("a path").with_file_name("../stagewright");
    assert!(program.is_file(), "build {} first", program.display());
    let host = Host {
        program,
        arguments: vec!["worker".into()],
        library,
        optimization: Optimization::Basic,
        cores: worker::cores().into_iter().take(2).collect(),
        patience: Duration::from_secs(300),
        stop: Arc::new(|| false),
    };
    let link = links(&host).unwrap_or_else(|error| panic!("{error}"));
    println!("links: {link:?}\n");
    let start = Instant::now();
    let mut fast = Vec::new();
    let mut slow = Vec::new();
    for (file, batch) in MODELS {
        if wanted.is_empty() || wanted.iter().any(|name| file.contains(name.as_str())) {
            let model = Model::new(&host, file, batch);
            let throttle = Throttle { bandwidth: SLOW, latency_s: 0.0 };
            let here = model.problems(&link, None);
            let throttled = model.problems(&link, Some(throttle));
            fast.extend(model.rows(&host, &here, &throttled.contiguous, None));
            slow.extend(model.rows(&host, &throttled, &here.contiguous, Some(throttle)));
        }
    }
    table("links of this machine", &fast);
    table("links of 100 MB/s", &slow);
    println!("{:.0} s in all", start.elapsed().as_secs_f64());
}

/// The link of a device.
#[derive(Clone, Copy)]
enum Link<'a> {
    Measured(&'a [[f64; 2]]),
    Given(LinkDocument),
}

/// A profiled model.
struct Model {
    name: String,
    bytes: Vec<u8>,
    options: ImportOptions,
    whole: Whole,
    folder: tempfile::TempDir,
    profile: Profile,
}

impl Model {
    fn new(host: &Host, file: &str, batch: Option<u64>) -> Model {
        let path: PathBuf = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("data").join(file);
        let mut bytes = Vec::new();
        let opened = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        match file.ends_with(".gz") {
            true => MultiGzDecoder::new(opened).read_to_end(&mut bytes).expect("it is a gzip file"),
            false => {
                bytes = fs::read(&path).expect("it can be read");
                bytes.len()
            }
        };
        let options = ImportOptions { batch, ..ImportOptions::default() };
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let mut whole = Whole::new(file, &bytes, &options).unwrap_or_else(|error| panic!("{error}"));
        gather(&mut whole.model, None, Missing::Random(0), folder.path())
            .unwrap_or_else(|error| panic!("{error}"));
        let imported = import_model(file, &bytes, &options).unwrap_or_else(|error| panic!("{error}"));
        let work: BTreeMap<String, f64> = imported
            .graph
            .operators
            .iter()
            .map(|operator| {
                let work =
                    (operator.flop.unwrap_or(0.0) / 1e11).max(operator.bytes_moved.unwrap_or(0.0) / 1e10);
                (operator.name.clone(), work)
            })
            .collect();
        let share = |name: &str| work.get(name).copied().unwrap_or(0.0);
        let profile =
            profile(host, &whole, &share, RUNS, 0, folder.path()).unwrap_or_else(|error| panic!("{error}"));
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or(file)
            .trim_end_matches(".gz")
            .to_owned();
        Model { name, bytes, options, whole, folder, profile }
    }

    fn problem(&self, link: Link<'_>, objective: Objective) -> Problem {
        let mut graph =
            import_model(&self.name, &self.bytes, &self.options).expect("it was read before").graph;
        let mut cluster = ClusterDocument::new("this machine");
        cluster.classes.insert("cpu".into(), ClassDocument::default());
        let given = if let Link::Given(link) = link { Some(link) } else { None };
        cluster.kinds.push(KindDocument { link: given, ..KindDocument::named("cpu", 2) });
        let mut costs = CostsDocument::new("profile");
        costs.operators.push(OperatorCostsDocument {
            class: "cpu".into(),
            source: "profile".into(),
            seconds: self.profile.seconds.clone(),
            spread: BTreeMap::new(),
        });
        if let Link::Measured(rows) = link {
            costs.links.push(LinkCostsDocument {
                class: "cpu".into(),
                transfer: TransferKind::Send,
                devices: 2,
                between_servers: false,
                source: "ping".into(),
                rows: rows.to_vec(),
            });
        }
        let costs = Costs::new([("profile".to_owned(), costs)]).expect("a profile has times");
        apply(&mut graph, &mut cluster, &costs, Unmeasured::Stated);
        let graph = Graph::from_document(graph).expect("the importer makes graphs");
        let cluster = Cluster::from_document(cluster).expect("the cluster is complete");
        Problem::new(graph, cluster, objective).expect("every operator has seconds")
    }

    /// The problems of the model, with links unchanged or throttled.
    fn problems(&self, link: &[[f64; 2]], throttle: Option<Throttle>) -> Problems {
        let link = match throttle {
            None => Link::Measured(link),
            Some(Throttle { bandwidth, latency_s }) => Link::Given(LinkDocument { latency_s, bandwidth }),
        };
        let communication = Communication::Serial;
        let objective =
            |split| Objective::Throughput(Throughput { split, communication, ..Throughput::default() });
        Problems {
            contiguous: self.problem(link, objective(Split::Contiguous)),
            free: self.problem(link, objective(Split::Free)),
        }
    }

    /// Predicts and measures every plan, including the one that is best with the links of `other`.
    fn rows(
        &self,
        host: &Host,
        problems: &Problems,
        other: &Problem,
        throttle: Option<Throttle>,
    ) -> Vec<Row> {
        let problem = &problems.contiguous;
        let mut rows: Vec<Row> = Vec::new();
        for (rule, placement, predicted) in plans(problems, other) {
            if rows.iter().any(|row| (row.predicted / predicted - 1.0).abs() < DISTINCT) {
                continue;
            }
            let run = Run {
                devices: vec!["cpu0".into(), "cpu1".into()],
                placement: problem
                    .graph()
                    .operators()
                    .map(|op| (problem.graph().operator(op).name.clone(), placement.device_of(op).index()))
                    .collect(),
                samples: SAMPLES,
                seed: 0,
                communication: Communication::Serial,
                throttle: vec![throttle; 2],
                one_by_one: false,
                compare: false,
            };
            let mut measured: Vec<f64> = (0..REPEATS)
                .map(|_| {
                    let measured = pipeline::run(host, &self.whole, &run, self.folder.path());
                    measured.unwrap_or_else(|error| panic!("{}: {error}", self.name)).seconds_per_sample
                })
                .collect();
            measured.sort_by(f64::total_cmp);
            let row = Row { model: self.name.clone(), rule, predicted, measured };
            println!(
                "{} | {} | {:.1} ms | {:.1} ms | {:+.1}%",
                row.model,
                row.rule,
                1e3 * predicted,
                1e3 * row.median(),
                100.0 * row.error()
            );
            rows.push(row);
        }
        rows
    }
}

/// The problems that the plans of a model solve.
struct Problems {
    contiguous: Problem,
    free: Problem,
}

/// The placement that a solver finds.
fn planned(problem: &Problem, solver: &str) -> Option<Placement> {
    let options = Options::default()
        .solver_named(solver)
        .expect("a solver of the table")
        .time_limit(Some(Duration::from_secs(20)));
    Some(solve(problem, &options).ok()?.plan?.placement)
}

/// Plans with their values: those of rules, the best one with the links of `other`, and cuts of a linear order that
/// range from the best to the worst.
fn plans(problems: &Problems, other: &Problem) -> Vec<(String, Placement, f64)> {
    let problem = &problems.contiguous;
    let mut plans = Vec::new();
    for (name, solver) in RULES {
        let relaxed = if solver == "graph-partition" { &problems.free } else { problem };
        match planned(relaxed, solver) {
            Some(placement) => plans.push((name.to_owned(), placement)),
            None => println!("no plan of {name}"),
        }
    }
    plans.extend(planned(other, "dpl").map(|placement| ("best with the other links".to_owned(), placement)));
    let mut plans: Vec<_> = plans
        .into_iter()
        .map(|(name, placement)| {
            let value = evaluate(&problems.free, &placement).value;
            (name, placement, value)
        })
        .collect();
    let mut cuts = cuts(problem);
    cuts.sort_by(|left, right| left.1.total_cmp(&right.1));
    let (Some(best), Some((worst, value))) = (cuts.first().map(|cut| cut.1), cuts.last().cloned()) else {
        return plans;
    };
    plans.push(("worst cut".into(), worst, value));
    for share in [0.3, 0.65] {
        let wanted = best * (value / best).powf(share);
        let near =
            cuts.iter().min_by(|left, right| (left.1 - wanted).abs().total_cmp(&(right.1 - wanted).abs()));
        if let Some((placement, value)) = near {
            plans.push((format!("cut at {:.2} of the best", value / best), placement.clone(), *value));
        }
    }
    plans
}

/// All cuts of a linear order into two stages.
fn cuts(problem: &Problem) -> Vec<(Placement, f64)> {
    let units = Units::contiguous(problem, &[]);
    let mut awaited: Keyed<UnitId, usize> = Keyed::filled(0, units.len());
    units.ids().for_each(|unit| units.successors(unit).iter().for_each(|&next| awaited[next] += 1));
    let mut open: Vec<UnitId> = units.ids().rev().filter(|&unit| awaited[unit] == 0).collect();
    let mut device_of = vec![DeviceId::new(1); problem.graph().operator_count()];
    let mut cuts = Vec::new();
    while let Some(unit) = open.pop() {
        units.members(unit).iter().for_each(|op| device_of[op.index()] = DeviceId::new(0));
        for &next in units.successors(unit) {
            awaited[next] -= 1;
            if awaited[next] == 0 {
                open.push(next);
            }
        }
        let placement = Placement::new(device_of.clone());
        let evaluation = evaluate(problem, &placement);
        if evaluation.is_feasible() && placement.used().len() == 2 {
            cuts.push((placement, evaluation.value));
        }
    }
    cuts
}

/// A plan that was run.
struct Row {
    model: String,
    rule: String,
    predicted: f64,
    /// Seconds per sample of every repeat, ascending.
    measured: Vec<f64>,
}

impl Row {
    fn median(&self) -> f64 {
        self.measured[self.measured.len() / 2]
    }

    fn error(&self) -> f64 {
        self.predicted / self.median() - 1.0
    }
}

fn table(title: &str, rows: &[Row]) {
    println!("\n### {title}\n");
    println!("| model | plan | predicted, ms | measured, ms | of {REPEATS} runs | error |");
    println!("| --- | --- | ---: | ---: | ---: | ---: |");
    for row in rows {
        let (low, high) = (row.measured[0], row.measured[row.measured.len() - 1]);
        println!(
            "| {} | {} | {:.1} | {:.1} | {:.1} to {:.1} | {:+.1}% |",
            row.model,
            row.rule,
            1e3 * row.predicted,
            1e3 * row.median(),
            1e3 * low,
            1e3 * high,
            100.0 * row.error()
        );
    }
    let mut errors: Vec<f64> = rows.iter().map(|row| row.error().abs()).collect();
    errors.sort_by(f64::total_cmp);
    if let (Some(middle), Some(worst)) = (errors.get(errors.len() / 2), errors.last()) {
        println!("\n{} plans: median error {:.1}%, worst {:.1}%", rows.len(), 100.0 * middle, 100.0 * worst);
    }
    // Plans of different models are not comparable, so slowdowns are ranked within each model.
    let mut names: Vec<&str> = rows.iter().map(|row| row.model.as_str()).collect();
    names.dedup();
    let mut pooled = (Vec::new(), Vec::new());
    for name in names {
        let own: Vec<&Row> = rows.iter().filter(|row| row.model == name).collect();
        let predicted: Vec<f64> = own.iter().map(|row| row.predicted).collect();
        let measured: Vec<f64> = own.iter().map(|row| row.median()).collect();
        println!(
            "rank correlation of {name}: {:.2} of {} plans",
            correlation(&predicted, &measured),
            own.len()
        );
        let least = |numbers: &[f64]| numbers.iter().copied().fold(f64::INFINITY, f64::min);
        pooled.0.extend(predicted.iter().map(|value| value / least(&predicted)));
        pooled.1.extend(measured.iter().map(|value| value / least(&measured)));
    }
    println!(
        "rank correlation of all, each relative to the best of its model: {:.2}",
        correlation(&pooled.0, &pooled.1)
    );
}

/// Spearman's rank correlation; equal numbers share their mean rank.
fn correlation(left: &[f64], right: &[f64]) -> f64 {
    let ranks = |numbers: &[f64]| -> Vec<f64> {
        let rank = |number: &f64| {
            let below = numbers.iter().filter(|it| *it < number).count() as f64;
            let equal = numbers.iter().filter(|it| *it == number).count() as f64;
            below + 0.5 * (equal - 1.0)
        };
        numbers.iter().map(rank).collect()
    };
    let (left, right) = (ranks(left), ranks(right));
    let mean = (left.len() as f64 - 1.0) / 2.0;
    let product: f64 = left.iter().zip(&right).map(|(a, b)| (a - mean) * (b - mean)).sum();
    let square = |ranks: &[f64]| ranks.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>();
    product / (square(&left) * square(&right)).sqrt()
}
