//! Joint plans of training steps: time, gap and predicted rate.
//!
//! | table | content |
//! | --- | --- |
//! | models | Llama 3, GPT-3, Mixtral and DeepSeek-V3 on 8 to 4,096 H100, and on half A100, half V100 |
//! | published | GPT models of Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM" (SC 2021), table 1, on A100: their degrees and ours under one cost model, beside the rate they report |
//! | schedules | interleaved 1F1B and zero-bubble beside 1F1B |
//! | piper | Piper's program on its BERT-32 (Tarnawski et al., NeurIPS 2021), under `STAGEWRIGHT_SHARED` |
//! | growth | time of the solve against the number of layers, of devices, and of operators in a layer |
//!
//! Rates are model FLOP per second relative to the peak of all devices: recomputation does not count. The published
//! rates include recomputation of the whole forward pass, and are therefore scaled by 3/4 here. The growth is drawn in
//! `target/joint-growth.svg`.
//!
//!     STAGEWRIGHT_SHARED=… cargo bench --no-default-features --bench joint

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use plotters::prelude::*;
use stagewright::clusters;
use stagewright::formats::layers::layer_names;
use stagewright::joint::iteration::{Problem, Request, Solution, solve};
use stagewright::joint::sample;
use stagewright::workloads::{Optimizer, Options, Precision, Size, Sizes, family};
use stagewright_core::document::{
    ClusterDocument, GraphDocument, Parallelism, Pass, PiperDocument, RecomputeWorkspace, Schedule,
};
use stagewright_core::memory;
use stagewright_core::solver::{Context, Limits, Settings, Silent};
use stagewright_core::tolerance;

fn main() {
    models();
    schedules();
    published();
    piper();
    growth();
}

/// A training step in half precision.
fn step(name: &str, variant: &str, sizes: &[(Size, u64)]) -> GraphDocument {
    let mut set = Sizes::default();
    for &(size, value) in [(Size::Batch, 1)].iter().chain(sizes) {
        set = set.with(size, value);
    }
    let options = Options {
        sizes: set,
        training: Some(Optimizer::Adam),
        precision: Precision::Bf16,
        ..Options::default()
    };
    let family = family(name).unwrap_or_else(|error| panic!("{error}"));
    family.generate(Some(variant), &options).unwrap_or_else(|error| panic!("{error}"))
}

fn cluster(graph: &GraphDocument, text: &str) -> ClusterDocument {
    let mut cluster = clusters::find(text).unwrap_or_else(|error| panic!("{error}"));
    for kind in &mut cluster.kinds {
        kind.reserve_bytes = Some(memory::reserve(graph, kind));
    }
    cluster
}

/// Requests tensor, data, pipeline and expert parallelism, ZeRO and recomputation under 1F1B, with the given degrees fixed.
fn request(given: &[(Parallelism, u32)], global_batch: u64) -> Request {
    let all = [
        Parallelism::Tp,
        Parallelism::Dp,
        Parallelism::Pp,
        Parallelism::Ep,
        Parallelism::Zero,
        Parallelism::Recompute,
    ];
    let mut parallel: BTreeMap<Parallelism, Option<u32>> =
        all.into_iter().map(|parallelism| (parallelism, None)).collect();
    parallel.extend(given.iter().map(|&(parallelism, degree)| (parallelism, Some(degree))));
    Request {
        parallel,
        global_batch,
        microbatch: None,
        schedules: vec![Schedule::OneFOneB],
        chunks: None,
        cut: None,
        runtime: None,
    }
}

/// Solves a problem on two threads. Returns the seconds that building and solving it took.
fn solved(graph: &GraphDocument, cluster: &ClusterDocument, request: Request) -> (Solution, f64) {
    let begun = Instant::now();
    let problem = Problem::new(graph, &layer_names(graph), cluster, request);
    let problem = problem.unwrap_or_else(|error| panic!("{error}"));
    let mut observer = Silent;
    let limits = Limits { time: Some(std::time::Duration::from_secs(60)), ..Limits::default() };
    let mut context = Context::new(Settings { limits, threads: 2, ..Settings::default() }, &mut observer);
    let solution = solve(&problem, &mut context).unwrap_or_else(|error| panic!("{error}"));
    (solution, begun.elapsed().as_secs_f64())
}

/// Seconds that the model FLOP of a batch take at the peak of all devices of the cluster.
fn seconds_at_peak(graph: &GraphDocument, cluster: &ClusterDocument, batch: u64) -> f64 {
    let passes = graph.operators.iter().filter(|operator| operator.pass != Pass::Update);
    let flop: f64 = passes.filter_map(|operator| operator.flop).sum();
    let samples = graph.batch.map_or(1.0, |batch| batch.samples.get() as f64);
    let peaks = cluster.kinds.iter().map(|kind| {
        f64::from(kind.count)
            * cluster.classes.get(&kind.class).and_then(|class| class.peak_flops).unwrap_or(0.0)
    });
    flop / samples * batch as f64 / peaks.sum::<f64>()
}

/// Family, variant and sizes of a model.
type Sized = (&'static str, &'static str, &'static [(Size, u64)]);

/// Models in the tables.
const MODELS: [Sized; 6] = [
    ("llama", "3-8b", &[(Size::Sequence, 8192)]),
    ("llama", "3-70b", &[(Size::Sequence, 8192)]),
    ("llama", "3-405b", &[(Size::Sequence, 8192)]),
    ("gpt", "3-175b", &[]),
    ("mixtral", "8x7b", &[]),
    ("deepseek", "v3", &[]),
];

fn models() {
    println!(
        "| model | devices | iteration | gap | of the peak | stages, tp, dp, ep, ZeRO, microbatch | time |"
    );
    println!("| --- | --- | ---: | ---: | ---: | --- | ---: |");
    for (name, variant, sizes) in MODELS {
        let graph = step(name, variant, sizes);
        for devices in [
            "8xh100",
            "64xh100",
            "512xh100",
            "4096xh100",
            "8xa100+8xv100-32gb",
            "32xa100+32xv100-32gb",
            "256xa100+256xv100-32gb",
        ] {
            let cluster = cluster(&graph, devices);
            let (solution, seconds) = solved(&graph, &cluster, request(&[], 2048));
            println!(
                "| {name} {variant} | {devices} | {} | {seconds:.3} s |",
                figures(&graph, &cluster, &solution, 2048)
            );
        }
    }
    println!();
}

/// Compares the schedules one by one, with a batch of two samples per device, so that the ramp of a pipeline matters.
fn schedules() {
    let others = [Schedule::ZeroBubble, Schedule::Interleaved, Schedule::DualPipeV];
    let names = others.map(|schedule| format!("{} | gap | time", schedule.name())).join(" | ");
    println!("| model | devices | 1f1b | {names} |");
    println!("| --- | --- |{}", " ---: |".repeat(1 + 3 * others.len()));
    for (name, variant, sizes) in MODELS {
        let graph = step(name, variant, sizes);
        for (devices, batch) in
            [("64xh100", 128), ("512xh100", 1024), ("4096xh100", 8192), ("256xa100+256xv100-32gb", 1024)]
        {
            let cluster = cluster(&graph, devices);
            let Some(plain) = solved(&graph, &cluster, request(&[], batch)).0.value else { continue };
            let cells = others.map(|schedule| {
                let request = Request { schedules: vec![schedule], ..request(&[], batch) };
                let (solution, seconds) = solved(&graph, &cluster, request);
                match solution.value.zip(solution.bound) {
                    Some((value, bound)) => {
                        let longer = 100.0 * (value / plain - 1.0);
                        let gap = 100.0 * tolerance::gap(value, bound);
                        format!("{longer:+.2}% | {gap:.2}% | {seconds:.2} s")
                    }
                    None => format!("{:?} | | {seconds:.2} s", solution.status),
                }
            });
            println!("| {name} {variant} | {devices} | {plain:.3} s | {} |", cells.join(" | "));
        }
    }
    println!();
}

/// Cells of a table row that describe a solution.
fn figures(graph: &GraphDocument, cluster: &ClusterDocument, solution: &Solution, batch: u64) -> String {
    let (Some(value), Some(bound)) = (solution.value, solution.bound) else {
        return format!("{:?} | | | ", solution.status);
    };
    let gap = 100.0 * tolerance::gap(value, bound);
    let rate = 100.0 * seconds_at_peak(graph, cluster, batch) / value;
    format!("{value:.3} s | {gap:.2}% | {rate:.1}% | {}", degrees(solution))
}

fn degrees(solution: &Solution) -> String {
    let Some(execution) = &solution.execution else { return "no plan".into() };
    let mut tensor: Vec<u32> = solution.stages.iter().map(|stage| stage.tensor).collect();
    tensor.dedup();
    format!(
        "{}, {}, {}, {}, {}, {}",
        solution.stages.len(),
        tensor.iter().map(u32::to_string).collect::<Vec<_>>().join("/"),
        execution.data,
        execution.expert,
        execution.zero,
        execution.microbatch
    )
}

/// Published runs: width, layers, tensor and pipeline parallelism, devices, batch, and share of the peak in percent.
const PUBLISHED: [(u64, u64, u32, u32, u32, u64, f64); 10] = [
    (2304, 24, 1, 1, 32, 512, 44.0),
    (3072, 30, 2, 1, 64, 512, 44.0),
    (4096, 36, 4, 1, 128, 512, 46.0),
    (6144, 40, 8, 1, 256, 1024, 43.0),
    (8192, 48, 8, 2, 512, 1536, 44.0),
    (10_240, 60, 8, 4, 1024, 1792, 45.0),
    (12_288, 80, 8, 8, 1536, 2304, 47.0),
    (16_384, 96, 8, 16, 1920, 2160, 50.0),
    (20_480, 105, 8, 35, 2520, 2520, 52.0),
    (25_600, 128, 8, 64, 3072, 3072, 52.0),
];

fn published() {
    println!(
        "| width, layers, A100 | published | its degrees, predicted | ours, predicted | our degrees | gap |"
    );
    println!("| --- | ---: | ---: | ---: | --- | ---: |");
    for (hidden, layers, tensor, stages, devices, batch, reported) in PUBLISHED {
        let sizes = [(Size::Hidden, hidden), (Size::Layers, layers), (Size::Vocabulary, 51_200)];
        let graph = step("gpt", "3-13b", &sizes);
        let cluster = cluster(&graph, &format!("{devices}xa100"));
        let rate = |solution: &Solution| match solution.value {
            Some(value) => format!("{:.1}%", 100.0 * seconds_at_peak(&graph, &cluster, batch) / value),
            None => format!("{:?}", solution.status),
        };
        // The third configuration recomputes everything.
        let given = [
            (Parallelism::Tp, tensor),
            (Parallelism::Pp, stages),
            (Parallelism::Dp, devices / tensor / stages),
            (Parallelism::Zero, 0),
            (Parallelism::Recompute, 2),
        ];
        let plan = |given: &[(Parallelism, u32)]| {
            let request = request(given, batch);
            solved(&graph, &cluster, request).0
        };
        let (theirs, ours) = (plan(&given), plan(&[]));
        let gap = ours.value.zip(ours.bound).map_or(0.0, |(value, bound)| tolerance::gap(value, bound));
        println!(
            "| {hidden}, {layers}, {devices} | {:.1}% | {} | {} | {} | {:.2}% |",
            0.75 * reported,
            rate(&theirs),
            rate(&ours),
            degrees(&ours),
            100.0 * gap
        );
    }
    println!();
}

fn piper() {
    let Some(shared) = std::env::var_os("STAGEWRIGHT_SHARED") else {
        println!("STAGEWRIGHT_SHARED is not set: no table of Piper's program\n");
        return;
    };
    let folder = Path::new(&shared).join("data/piper");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a readable file");
    let document: PiperDocument = serde_json::from_str(&read("bert32a100.json")).expect("a model");
    println!("| memory, devices, batch | Piper's program | the same | time | one layer at a time | time |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for line in
        read("known-joint.csv").lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()))
    {
        let row: Vec<f64> = line.split(',').map(|number| number.parse().expect("a number")).collect();
        let document = PiperDocument {
            max_memory_per_device: row[0] * f64::from(1 << 30),
            max_devices: row[1] as u32,
            microbatches: Some(row[2] as u32),
            bandwidth: 25.0 * f64::from(1 << 30),
            ..document.clone()
        };
        let solved = [RecomputeWorkspace::Sum, RecomputeWorkspace::Max].map(|workspace| {
            let terms = sample::Terms {
                workspace,
                tensor: true,
                data: true,
                pipeline: true,
                recompute: true,
                per_second: 1.0,
            };
            let begun = Instant::now();
            let problem = sample::Problem::new(&document, terms).expect("a problem");
            let mut observer = Silent;
            let mut context = Context::new(Settings { threads: 2, ..Settings::default() }, &mut observer);
            let solution = sample::solve(&problem, &mut context).expect("a solution");
            let seconds = begun.elapsed().as_secs_f64();
            format!("{:.9} s | {:.1} ms", solution.value.expect("a plan"), 1e3 * seconds)
        });
        println!("| {}, {}, {} | {:.9} s | {} | {} |", row[0], row[1], row[2], row[3], solved[0], solved[1]);
    }
    println!();
}

/// A line of the plot: its name, and pairs of size and seconds.
type Line = (&'static str, Vec<(f64, f64)>);

fn growth() {
    println!("| what grows | size | time |\n| --- | ---: | ---: |");
    let mut lines: Vec<Line> = Vec::new();
    let mut measure = |name: &'static str, sizes: &[u64], run: &dyn Fn(u64) -> f64| {
        let mut line = Vec::new();
        for &size in sizes {
            // The minimum of three runs, because other load on the machine only adds time.
            let seconds = (0..3).map(|_| run(size)).fold(f64::INFINITY, f64::min);
            println!("| {name} | {size} | {:.2} ms |", 1e3 * seconds);
            line.push((size as f64, seconds));
        }
        lines.push((name, line));
    };
    let time = |graph: &GraphDocument, devices: &str| {
        let cluster = cluster(graph, devices);
        let request = request(&[], 2048);
        solved(graph, &cluster, request).1
    };
    let llama = |layers: u64| step("llama", "3-70b", &[(Size::Layers, layers), (Size::Sequence, 8192)]);
    measure("layers of Llama 3 on 512 H100", &[12, 24, 48, 96, 192], &|layers| {
        time(&llama(layers), "512xh100")
    });
    let graph = llama(80);
    measure("H100 for Llama 3 70B", &[64, 128, 256, 512, 1024, 2048, 4096], &|devices| {
        time(&graph, &format!("{devices}xh100"))
    });
    measure("A100 and as many V100 for Llama 3 70B", &[32, 64, 128, 256, 512], &|devices| {
        time(&graph, &format!("{devices}xa100+{devices}xv100-32gb"))
    });
    let mixtures = [("llama", "3-8b"), ("mixtral", "8x7b"), ("deepseek", "v3")];
    let graphs: Vec<GraphDocument> =
        mixtures.iter().map(|&(name, variant)| step(name, variant, &[(Size::Layers, 27)])).collect();
    let operators: Vec<u64> = graphs.iter().map(|graph| graph.operators.len() as u64 / 27).collect();
    measure("operators of a layer, 27 layers on 512 H100", &operators, &|size| {
        let index = operators.iter().position(|&count| count == size).expect("a size");
        time(&graphs[index], "512xh100")
    });
    match draw(&lines, Path::new("target/joint-growth.svg")) {
        Ok(()) => println!("\ndrawn in target/joint-growth.svg"),
        Err(error) => println!("\nnot drawn: {error}"),
    }
}

/// Draws the lines with logarithmic axes.
fn draw(lines: &[Line], path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::new(path, (900, 520)).into_drawing_area();
    root.fill(&WHITE)?;
    let points = || lines.iter().flat_map(|line| line.1.iter());
    let range = |coordinate: fn(&(f64, f64)) -> f64| {
        let least = points().map(coordinate).fold(f64::INFINITY, f64::min);
        let largest = points().map(coordinate).fold(0.0, f64::max);
        (least * 0.8..largest * 1.25).log_scale()
    };
    let mut chart = ChartBuilder::on(&root)
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(range(|point| point.0), range(|point| point.1))?;
    chart.configure_mesh().x_desc("size").y_desc("seconds").draw()?;
    for (index, (name, line)) in lines.iter().enumerate() {
        let colour = Palette99::pick(index).mix(1.0);
        chart
            .draw_series(LineSeries::new(line.iter().copied(), colour.stroke_width(2)))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour));
    }
    chart.configure_series_labels().background_style(WHITE).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
}
