//! The main tables of the documentation, reproduced at a reduced budget and compared with the pages.
//!
//! | table | page | budget |
//! | --- | --- | --- |
//! | joint plans | `docs/measurements.md` | exact: the same plans |
//! | makespan of training steps on 2 devices | `docs/measurements.md` | `auto` for 30 s instead of 60 s |
//! | well-known models on four A100 | `docs/models.md` | the same plans |
//! | five small models on 2 P100 | `docs/learned-systems.md` | rules and list scheduling as they are, searches for 5 s instead of 30 s; left out while the page says that its graphs are of earlier cost rules |
//!
//! Figures are read from the pages, so that none is stored twice. A ratio is the figure here over the figure shipped;
//! beyond the tolerance of its row the bench fails. No time is compared.
//!
//!     make reproduce

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

/// Largest relative difference of figures that are computed in the same way; pages show four digits or more.
const SAME: f64 = 0.001;
/// Largest relative difference where the page shows three digits after the point of a stage as short as 0.172 ms.
const ROUNDED: f64 = 0.004;
/// Largest relative difference of searches that run for a shorter time.
const SEARCHED: f64 = 0.08;
/// Limit on a search of a small model.
const SHORT: &str = "5s";
/// Limit on a search of a larger model.
const HALF: &str = "30s";
/// Limit on a solver that ends by itself.
const LONG: &str = "60s";

/// Words under a heading of a page whose tables are of graphs that no program makes any more.
const EARLIER: &str = "priced by the first cost rules";

/// Figures of all tables: a page that lost rows must not pass.
const ROWS: usize = 101;

fn main() -> ExitCode {
    let started = Instant::now();
    let mut tables =
        Tables { folder: tempfile::tempdir().expect("a folder for the models"), rows: 0, beyond: Vec::new() };
    println!("| page | row | figure here | figure shipped | ratio | tolerance |");
    println!("| --- | --- | ---: | ---: | ---: | ---: |");
    tables.joint();
    tables.makespan();
    tables.models();
    tables.systems();
    let (rows, beyond) = (tables.rows, &tables.beyond);
    println!(
        "\n{rows} figures in {:.0} s, {} beyond their tolerance",
        started.elapsed().as_secs_f64(),
        beyond.len()
    );
    beyond.iter().for_each(|row| println!("beyond: {row}"));
    if beyond.is_empty() && rows >= ROWS { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The rows below the header of a table that starts with `header`; cells without Markdown of code.
fn table(page: &str, header: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join("docs").join(page)).expect("a page");
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim_start_matches("| ").trim_end_matches(" |");
        line.split(" | ").map(|cell| cell.trim_matches('`').to_owned()).collect()
    };
    let below = text.lines().skip_while(|line| !line.starts_with(header)).skip(2);
    below.take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// Whether the tables under the heading of a table are of graphs that no program makes any more.
fn is_earlier(page: &str, header: &str) -> bool {
    let text = std::fs::read_to_string(root().join("docs").join(page)).expect("a page");
    let before = text.split_once(header).expect("the table").0;
    before.rsplit("\n## ").next().is_some_and(|section| section.contains(EARLIER))
}

/// The number at the start of a cell.
fn figure(cell: &str) -> Option<f64> {
    cell.split([' ', ',']).next()?.parse().ok()
}

struct Tables {
    folder: TempDir,
    rows: usize,
    beyond: Vec<String>,
}

impl Tables {
    /// Prints a row. No value means infeasible.
    fn row(&mut self, page: &str, row: &str, here: Option<f64>, shipped: Option<f64>, tolerance: f64) {
        let ratio = match (here, shipped) {
            (Some(here), Some(shipped)) => here / shipped,
            (None, None) => 1.0,
            _ => f64::NAN,
        };
        let shown = |figure: Option<f64>| figure.map_or("none".to_owned(), |figure| format!("{figure:.6}"));
        println!("| {page} | {row} | {} | {} | {ratio:.5} | {tolerance} |", shown(here), shown(shipped));
        self.rows += 1;
        let is_close = (ratio - 1.0).abs() <= tolerance;
        if !is_close {
            self.beyond.push(format!("{page}: {row}"));
        }
    }

    /// The file of a workload.
    fn workload(&self, words: &str) -> PathBuf {
        let file = self.folder.path().join(format!("{}.json", words.replace(' ', "_")));
        if !file.exists() {
            let made = Command::new(env!("CARGO_BIN_EXE_stagewright"))
                .arg("workload")
                .args(words.split(' '))
                .arg("--out")
                .arg(&file)
                .output()
                .expect("the program starts");
            assert!(made.status.success(), "{words}: {}", String::from_utf8_lossy(&made.stderr));
        }
        file
    }

    /// Plans a model; returns the value in seconds, if there is a plan.
    fn plan(&self, model: &Path, words: &str) -> Option<f64> {
        let planned = Command::new(env!("CARGO_BIN_EXE_stagewright"))
            .arg("plan")
            .arg(model)
            .args(words.split(' '))
            .arg("--json")
            .output()
            .expect("the program starts");
        let plan: Value = serde_json::from_slice(&planned.stdout)
            .unwrap_or_else(|_| panic!("{words}: {}", String::from_utf8_lossy(&planned.stderr)));
        plan["objective"]["value_s"].as_f64()
    }

    fn joint(&mut self) {
        for cells in table("measurements.md", "| model | devices | iteration |") {
            let (model, devices) = (&cells[0], &cells[1]);
            let (family, variant) = model.split_once(' ').expect("a family and a variant");
            let sequence = if family == "llama" { " --sequence 8192" } else { "" };
            let words =
                format!("{family} --variant {variant} --training --precision bf16 --batch 1{sequence}");
            let options = format!(
                "--cluster {devices} --parallel tp,dp,pp,ep,zero,recompute --global-batch 2048 --time-limit {LONG}"
            );
            let here = self.plan(&self.workload(&words), &options);
            self.row("measurements.md", &format!("{model} on {devices}"), here, figure(&cells[2]), SAME);
        }
    }

    fn makespan(&mut self) {
        // The names of the page, with the arguments of `make bench-makespan`.
        let models = [
            ("AmoebaNet-D", "amoebanet-d --batch 32"),
            ("BERT-base", "bert --variant base --batch 16"),
            ("GNMT-2", "gnmt --variant 2 --batch 128"),
            ("Inception-v3", "inception-v3 --batch 32"),
            ("Mixtral, two layers", "mixtral --batch 1 --layers 2"),
            ("NASNet-A", "nasnet-a --batch 32"),
            ("RNNLM-2", "rnnlm --batch 64"),
            ("Transformer-XL", "transformer-xl --batch 16"),
            ("WaveNet", "wavenet --batch 8"),
        ];
        for cells in table("measurements.md", "| step (`make bench-makespan`) |") {
            let words = models.iter().find(|model| model.0 == cells[0]).expect("a model of the suite").1;
            let model = self.workload(&format!("{words} --training"));
            let options = format!(
                "--cluster 2xv100-32gb:fp32@nvlink --objective makespan --time-limit {HALF} --threads 2"
            );
            let here = self.plan(&model, &options).map(|seconds| 1e3 * seconds);
            self.row(
                "measurements.md",
                &format!("{}, 2 devices", cells[0]),
                here,
                figure(&cells[1]),
                SEARCHED,
            );
        }
    }

    fn models(&mut self) {
        for cells in table("models.md", "| model | by |") {
            let model = root().join("data/models").join(format!("{}.gz", cells[0]));
            let options = format!("--cluster 4xa100 --solver dpl --time-limit {LONG}");
            let here = self.plan(&model, &options).map(|seconds| 1e3 * seconds);
            self.row("models.md", &cells[0], here, figure(&cells[5]), ROUNDED);
        }
    }

    fn systems(&mut self) {
        let models = [
            "inception-v3 --batch 32",
            "resnet --variant 50 --batch 32",
            "bert --variant base --batch 16",
            "transformer-xl --variant 2 --batch 16",
            "wavenet --variant 2 --batch 8",
        ];
        let solvers = [
            ("one-device", SAME),
            ("layer-per-device", SAME),
            ("equal-time", SAME),
            ("heft", SAME),
            ("multilevel", SEARCHED),
            ("auto", SEARCHED),
        ];
        let header = "| solver | Inception-v3 | ResNet-50 |";
        if is_earlier("learned-systems.md", header) {
            println!("| learned-systems.md | of earlier graphs | | | | |");
            self.rows += solvers.len() * models.len();
            return;
        }
        for cells in table("learned-systems.md", header) {
            let Some(&(solver, tolerance)) = solvers.iter().find(|solver| solver.0 == cells[0]) else {
                continue;
            };
            for (words, cell) in models.iter().zip(&cells[1..]) {
                let model = self.workload(&format!("{words} --training"));
                let options = format!(
                    "--cluster 2xp100:fp32@nvlink --objective makespan --solver {solver} --time-limit {SHORT} --threads 2"
                );
                let here = self.plan(&model, &options).map(|seconds| 1e3 * seconds);
                self.row("learned-systems.md", &format!("{solver}: {words}"), here, figure(cell), tolerance);
            }
        }
    }
}
