//! Steps of 10⁴ to 10⁶ operators: reading, planning and memory.
//!
//! The training step of GNMT-8 with four sentences of growing length on eight A100. Each line is a process of its own,
//! so that its peak of memory is its own. `auto` has twenty seconds. Writes `target/scale.csv` and `target/scale.svg`; the
//! models go to `target/scale`:
//!
//!     cargo bench --no-default-features --bench scale                 # all sizes
//!     cargo bench --no-default-features --bench scale -- 15 75        # tokens

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use plotters::prelude::*;
use stagewright::clusters;
use stagewright::core::cluster::Cluster;
use stagewright::core::document::Execution;
use stagewright::core::graph::Graph;
use stagewright::core::objective::Objective;
use stagewright::core::problem::Problem;
use stagewright::formats::{import_graph, write_graph, write_packed};
use stagewright::workloads::{self, Optimizer, Size, Sizes, family};
use stagewright::{Options, solve};

/// Tokens of a sentence, for about 10,000 to 1,000,000 operators.
const TOKENS: [u64; 5] = [15, 50, 150, 500, 1535];
const BATCH: u64 = 4;
const CLUSTER: &str = "8xa100";
const LIMIT: Duration = Duration::from_secs(20);
const FOLDER: &str = "target/scale";
/// The argument with which the bench starts itself for a line.
const LINE: &str = "--line";

/// Figures of a file, in seconds and bytes.
#[derive(Debug, Clone, Copy)]
struct Row {
    operators: f64,
    file: f64,
    read: f64,
    problem: f64,
    plan: f64,
    value: f64,
    gap: f64,
    memory: f64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == LINE) {
        return measure(Path::new(&arguments[at + 1]));
    }
    let mut tokens: Vec<u64> = arguments.iter().filter_map(|word| word.parse().ok()).collect();
    if tokens.is_empty() {
        tokens = TOKENS.to_vec();
    }
    fs::create_dir_all(FOLDER).expect("a folder");
    println!("| operators | file | read, s | problem, s | `auto`, s | value, ms | gap | memory, GiB |");
    println!("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut lines = [("JSON", Vec::new()), ("packed", Vec::new())];
    for tokens in tokens {
        let mut options =
            workloads::Options { training: Some(Optimizer::Adam), ..workloads::Options::default() };
        options.sizes = Sizes::default().with(Size::Batch, BATCH).with(Size::Sequence, tokens);
        let graph = family("gnmt").expect("a family").generate(Some("8"), &options).expect("a graph");
        for (name, rows) in &mut lines {
            let file = format!("{FOLDER}/gnmt-{tokens}.{}", if *name == "JSON" { "json" } else { "msgpack" });
            let bytes = if *name == "JSON" { write_graph(&graph).into_bytes() } else { write_packed(&graph) };
            fs::write(&file, bytes).expect("room");
            let row = in_a_process(&file);
            println!(
                "| {:.0} | {name}, {:.1} MB | {:.2} | {:.2} | {:.1} | {:.2} | {:.1}% | {:.2} |",
                row.operators,
                row.file / 1e6,
                row.read,
                row.problem,
                row.plan,
                1e3 * row.value,
                100.0 * row.gap,
                row.memory / f64::from(1 << 30)
            );
            rows.push(row);
        }
    }
    fs::write("target/scale.csv", csv(&lines)).expect("room");
    draw(&lines).expect("room");
    println!("\nwritten: target/scale.csv, target/scale.svg");
}

/// Reads and plans a model, and prints the figures.
fn measure(file: &Path) {
    let begun = Instant::now();
    let bytes = fs::read(file).expect("a file");
    let document = import_graph("model", &bytes, None).expect("a model").graph;
    let graph = Graph::from_document(document).expect("a graph");
    let read = begun.elapsed().as_secs_f64();
    let size = bytes.len();
    drop(bytes);
    let begun = Instant::now();
    let cluster = Cluster::from_document(clusters::find(CLUSTER).expect("a cluster")).expect("a cluster");
    let objective = Objective::Makespan { execution: Execution::Ports };
    let problem = Problem::new(graph, cluster, objective).expect("a problem");
    let made = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let solution =
        solve(&problem, &Options::default().time_limit(Some(LIMIT)).threads(2)).expect("no defect");
    let planned = begun.elapsed().as_secs_f64();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    let figures = [
        problem.graph().operator_count() as f64,
        size as f64,
        read,
        made,
        planned,
        solution.value().unwrap_or(f64::NAN),
        solution.gap().unwrap_or(1.0),
        1024.0 * peak.unwrap_or(0.0),
    ];
    println!("figures {}", figures.map(|figure| figure.to_string()).join(" "));
}

fn in_a_process(file: &str) -> Row {
    let program = std::env::current_exe().expect("a program");
    let output = Command::new(program).args([LINE, file]).output().expect("a process");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("figures "));
    let line = line.unwrap_or_else(|| panic!("{file}: {}", String::from_utf8_lossy(&output.stderr)));
    let figures: Vec<f64> = line.split(' ').filter_map(|figure| figure.parse().ok()).collect();
    let &[operators, file, read, problem, plan, value, gap, memory] = figures.as_slice() else {
        panic!("eight figures: {line}")
    };
    Row { operators, file, read, problem, plan, value, gap, memory }
}

type Line = (&'static str, Vec<Row>);

fn csv(lines: &[Line]) -> String {
    let mut text = "format,operators,file_bytes,read_s,problem_s,plan_s,value_s,gap,peak_bytes\n".to_owned();
    for (name, rows) in lines {
        for Row { operators, file, read, problem, plan, value, gap, memory } in rows {
            text += &format!("{name},{operators},{file},{read},{problem},{plan},{value},{gap},{memory}\n");
        }
    }
    text
}

/// Seconds of reading and peak of memory by operators, all axes logarithmic.
fn draw(lines: &[Line]) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::new("target/scale.svg", (900, 760)).into_drawing_area();
    root.fill(&WHITE)?;
    let (upper, lower) = root.split_vertically(380);
    for (area, name, figure) in [
        (&upper, "seconds to read", (|row: &Row| row.read + row.problem) as fn(&Row) -> f64),
        (&lower, "peak memory, GiB", |row: &Row| row.memory / f64::from(1 << 30)),
    ] {
        let rows = || lines.iter().flat_map(|(_, rows)| rows);
        let range = |figure: &dyn Fn(&Row) -> f64| {
            let (low, high) = rows()
                .map(figure)
                .fold((f64::INFINITY, 0.0_f64), |(low, high), it| (low.min(it), high.max(it)));
            0.7 * low..1.5 * high
        };
        let mut chart = ChartBuilder::on(area)
            .margin(16)
            .x_label_area_size(40)
            .y_label_area_size(70)
            .build_cartesian_2d(range(&|row| row.operators).log_scale(), range(&figure).log_scale())?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc("operators")
            .x_label_formatter(&|operators| format!("{operators:.0}"))
            .y_desc(name)
            .draw()?;
        for ((name, rows), colour) in lines.iter().zip([BLUE, RED]) {
            let points = rows.iter().map(|row| (row.operators, figure(row)));
            let series = chart.draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))?;
            series.label(*name).legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour));
        }
        chart.configure_series_labels().background_style(WHITE).border_style(BLACK).draw()?;
    }
    root.present()?;
    Ok(())
}
