//! Serving plans on 6 to 4,095 devices of three kinds: time, gap and check.
//!
//! The question of `docs/serving.md`, section "Growth", for the shapes of Llama 3 70B and DeepSeek-V3: what `plan` and `check` do, without
//! reading files. Times are the shortest of three runs, because other load on the machine only adds time. A plan that its check
//! refuses, or a bound that it does not prove, ends the bench with an error. Writes `target/serving-growth.csv` and
//! `target/serving-growth.svg`:
//!
//!     cargo bench --profile dev --no-default-features --features milp --bench growth             # all sizes
//!     cargo bench --profile dev --no-default-features --features milp --bench growth -- 12 48    # devices

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

use std::fs;
use std::time::Instant;

use plotters::prelude::*;
use stagewright_core::document::{RequestClassDocument, ServingGoal, ServingMode, ServingQuestionDocument};
use stagewright_core::solver::{Context, Settings, Silent, Status};
use stagewright_formats::clusters;
use stagewright_replicas::solve;
use stagewright_serving::{Problem, Verdict, check};
use stagewright_structure::huggingface::{self, Reading};

const DENSE: &str = r#"{"model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64,
    "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256, "torch_dtype": "bfloat16"}"#;
const EXPERTS: &str = include_str!("../data/configurations/deepseek-v3/config.json");

/// Devices of all three kinds together.
const DEVICES: [u64; 11] = [6, 12, 24, 48, 96, 192, 384, 768, 1536, 3072, 4095];
const RUNS: usize = 3;
const THREADS: usize = 2;

/// The smallest gap of the drawing, in percent; those below are drawn as 0.
const LEAST_GAP: f64 = 1e-3;

/// Results for a number of devices.
struct Row {
    devices: u64,
    value: f64,
    gap: f64,
    seconds: f64,
    check_seconds: f64,
    source: &'static str,
    certificate: usize,
}

fn main() {
    // Cargo passes its own flags.
    let mut sizes: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = DEVICES.to_vec();
    }
    println!("| model | devices | requests/s | gap | seconds | check, seconds | evidence | its kB |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: |");
    let lines = [("dense", DENSE), ("experts", EXPERTS)].map(|(name, configuration)| {
        let rows: Vec<Row> =
            sizes.iter().filter_map(|&devices| measured(name, configuration, devices)).collect();
        (name, rows)
    });
    let path = "target/serving-growth";
    fs::write(format!("{path}.csv"), csv(&lines)).expect("room");
    draw(&lines, &format!("{path}.svg")).expect("room");
    println!("\nwritten: {path}.csv, {path}.svg");
}

/// Plans and checks, and prints a line; `None` if it is proved that no replica fits.
fn measured(name: &str, configuration: &str, devices: u64) -> Option<Row> {
    let each = devices / 3;
    let cluster = clusters::find(&format!("{each}xh100+{each}xl40s+{each}xa100")).expect("a cluster");
    let structure = huggingface::read("config.json", configuration.as_bytes(), None, &Reading::default());
    let structure = structure.expect("a configuration");
    let problem =
        Problem::new("question", (name, &structure), ("cluster", &cluster), question()).expect("a problem");
    let mut seconds = f64::INFINITY;
    let mut solution = None;
    for _ in 0..RUNS {
        let mut silent = Silent;
        let mut context = Context::new(Settings { threads: THREADS, ..Settings::default() }, &mut silent);
        let begun = Instant::now();
        solution = Some(solve(&problem, &mut context).expect("threads"));
        seconds = seconds.min(begun.elapsed().as_secs_f64());
    }
    let solution = solution.expect("a run");
    let plan = solution.document(&problem, &cluster, seconds);
    let begun = Instant::now();
    let report = check(&problem, &plan);
    let check_seconds = begun.elapsed().as_secs_f64();
    assert!(report.holds(), "{name} on {devices} devices: {:?}", report.violations);
    assert!(
        matches!(report.bound, Verdict::Verified { .. }),
        "{name} on {devices} devices: {:?}",
        report.bound
    );
    let Some((value, gap)) = plan.value.zip(plan.gap) else {
        assert_eq!(solution.status, Status::Infeasible, "{name} on {devices} devices");
        println!(
            "| {name} | {devices} | none | | {seconds:.3} | {check_seconds:.3} | {} | |",
            solution.source()
        );
        return None;
    };
    let row = Row {
        devices: 3 * each,
        value,
        gap: 100.0 * gap,
        seconds,
        check_seconds,
        source: solution.source(),
        certificate: serde_json::to_string(&plan.bound.certificate).expect("a document").len(),
    };
    println!(
        "| {name} | {} | {:.4} | {:.3}% | {seconds:.3} | {check_seconds:.3} | {} | {} |",
        row.devices,
        row.value,
        row.gap,
        row.source,
        row.certificate / 1000
    );
    Some(row)
}

/// `--serve --input 4096 --output 512 --ttft 4s --tpot 100ms`.
fn question() -> ServingQuestionDocument {
    ServingQuestionDocument {
        engine: "vllm".into(),
        classes: vec![RequestClassDocument { input: 4096, output: 512, shared_prefix: 0, share: 1.0 }],
        concurrency: None,
        rate: None,
        ttft_s: Some(4.0),
        tpot_s: Some(0.1),
        goal: ServingGoal::Throughput,
        modes: vec![ServingMode::Aggregated, ServingMode::Disaggregated],
        cache: None,
        chunk: None,
        memory_share: None,
        max_batch: None,
        max_stages: 4,
        speculation: None,
        prices: [].into(),
        factors: [].into(),
        limits: Default::default(),
        costs: Vec::new(),
        start: None,
    }
}

type Line = (&'static str, Vec<Row>);

fn csv(lines: &[Line]) -> String {
    let mut text =
        "model,devices,requests_per_s,gap_percent,seconds,check_seconds,evidence,certificate_bytes\n"
            .to_owned();
    for (name, rows) in lines {
        for row in rows {
            let Row { devices, value, gap, seconds, check_seconds, source, certificate } = row;
            text +=
                &format!("{name},{devices},{value},{gap},{seconds},{check_seconds},{source},{certificate}\n");
        }
    }
    text
}

/// Seconds and gaps by devices, all axes logarithmic.
fn draw(lines: &[Line], path: &str) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::new(path, (900, 760)).into_drawing_area();
    root.fill(&WHITE)?;
    let (upper, lower) = root.split_vertically(380);
    chart(lines, &upper, "seconds", &|seconds| format!("{seconds}"), |row| row.seconds)?;
    let gap = |gap: &f64| if *gap <= 1.01 * LEAST_GAP { "0".to_owned() } else { format!("{gap}%") };
    chart(lines, &lower, "gap", &gap, |row| row.gap.max(LEAST_GAP))?;
    root.present()?;
    Ok(())
}

fn chart(
    lines: &[Line],
    area: &DrawingArea<SVGBackend, plotters::coord::Shift>,
    name: &str,
    words: &dyn Fn(&f64) -> String,
    figure: impl Fn(&Row) -> f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let rows = || lines.iter().flat_map(|(_, rows)| rows);
    let (least, most) =
        rows().map(&figure).fold((f64::INFINITY, 0.0_f64), |(low, high), it| (low.min(it), high.max(it)));
    // Whole decades have labels, the first one if it is within the axis.
    let decades = 0.99 * 10_f64.powf(least.log10().floor())..10_f64.powf((1.01 * most).log10().ceil());
    let devices = rows().map(|row| row.devices as f64);
    let (first, last) = devices.fold((f64::INFINITY, 0.0_f64), |(low, high), it| (low.min(it), high.max(it)));
    let mut chart = ChartBuilder::on(area)
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d((0.8 * first..1.25 * last).log_scale(), decades.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("devices")
        .x_label_formatter(&|devices| format!("{devices:.0}"))
        .y_desc(name)
        .y_label_formatter(&words)
        .draw()?;
    for (index, (name, rows)) in lines.iter().enumerate() {
        let colour = Palette99::pick(index).mix(1.0);
        let points: Vec<(f64, f64)> = rows.iter().map(|row| (row.devices as f64, figure(row))).collect();
        chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    Ok(())
}
