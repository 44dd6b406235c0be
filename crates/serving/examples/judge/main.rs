//! Judges predicted times of serving by published measurements.
//!
//! ```text
//! cargo run -p stagewright-serving --example judge -- FILE [COSTS] [--summary] [--fit] [--leave-one-out] [--calibration]
//! ```
//!
//! COSTS is a document of `stagewright costs import`, whose products are used where they are measured. FILE has the
//! columns of `silicon.csv`. A line a row says what was measured and what the shipped constants give, or why that
//! cannot be said; then come errors by mode and engine beside the peer's, uncalibrated and with a factor a model, system and
//! engine that is fitted on other configurations, and rows that ran but are called out of memory. `--fit` fits the constants to
//! all rows, `--leave-one-out` fits them without each model in turn and judges the rows of a model by those, and
//! `--calibration` prints the factors of all rows as a document. `--summary` leaves out the lines of rows.

#![allow(clippy::print_stdout, reason = "an example prints its result")]

mod calibrate;
mod cases;
mod constants;
mod fit;
mod models;
mod report;
mod rows;
mod summary;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;

use calibrate::Scope;
use cases::{Case, Outcome};
use constants::{unknowns, values};
use models::Models;
use report::Errors;
use stagewright_costs::Costs;
use stagewright_costs::import::native;
use stagewright_serving::{Engine, engines};

const OPTIONS: [&str; 4] = ["--summary", "--fit", "--leave-one-out", "--calibration"];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (options, files): (Vec<_>, Vec<_>) =
        arguments.iter().partition(|argument| argument.starts_with("--"));
    let (file, costs) = match files[..] {
        [file] => (file, None),
        [file, costs] => (file, Some(read_costs(costs)?)),
        _ => {
            return Err(
                "give a file with the columns of silicon.csv, and perhaps one of measured costs".into()
            );
        }
    };
    if let Some(option) = options.iter().find(|option| !OPTIONS.contains(&option.as_str())) {
        return Err(format!("`{option}` is none of {}", OPTIONS.join(", ")).into());
    }
    let has = |option: &str| options.iter().any(|given| *given == option);
    let rows = rows::read(Path::new(file)).map_err(|error| format!("{file}: {error}"))?;
    let mut models = Models::with_costs(costs);
    let mut engines: Vec<Engine> = engines().to_vec();
    let cases: Vec<Result<Case, String>> =
        rows.iter().map(|row| Case::new(row, &mut models, &engines)).collect();
    let known: Vec<&Case> = cases.iter().flatten().collect();
    if has("--fit") {
        let shipped = values(&engines);
        engines = fit::fit(&known, &models, &engines);
        println!("constant | engine | prior | shipped | fitted");
        for ((unknown, shipped), value) in unknowns(&engines).iter().zip(shipped).zip(values(&engines)) {
            let engine = unknown.engine.map_or("all", |index| &engines[index].name);
            let (name, prior) = (unknown.constant.name, unknown.constant.prior);
            println!("{name} | {engine} | {prior:.3e} | {shipped:.3e} | {value:.3e}");
        }
    }
    let errors: Vec<Errors> = if has("--leave-one-out") {
        left_out_errors(&known, &models, &engines)
    } else {
        known.iter().map(|case| case.errors(&models, &engines)).collect()
    };
    if !has("--summary") {
        lines(&rows, &cases, &errors);
    }
    let peers: Vec<Errors> = known.iter().map(|case| case.peer_errors()).collect();
    report::groups("uncalibrated", &known, &errors, &peers);
    for (scope, what) in [(Scope::Model, "model"), (Scope::Checkpoint, "checkpoint")] {
        let title = format!("one factor a {what}, system and engine, from other configurations");
        let [errors, peers] = [&errors, &peers].map(|errors| calibrate::calibrated(&known, errors, scope));
        report::groups(&title, &known, &errors, &peers);
    }
    memory(&known, &models, &engines);
    if has("--calibration") {
        println!("\n{}", calibrate::calibration(&known, &errors).write());
    }
    Ok(())
}

/// Measured costs of a file, as `stagewright costs import` writes them.
fn read_costs(path: &str) -> Result<Costs, Box<dyn Error>> {
    let document = native::import(path, &std::fs::read(path)?)?;
    Ok(Costs::new([(path.to_owned(), document)])?)
}

/// Prints a line for each row: what it is of, measured and predicted milliseconds, or why there is no prediction.
fn lines(rows: &[rows::Row], cases: &[Result<Case, String>], errors: &[Errors]) {
    let mut remaining = errors.iter();
    for (row, case) in rows.iter().zip(cases) {
        let what =
            format!("{} | {} | {} | {} | {}", row.row, row.backend, row.model_path, row.system, row.mode);
        match case {
            Err(reason) => println!("{what} | - | {reason}"),
            Ok(case) => {
                let [ttft, tpot] = case.measured.map(|seconds| 1e3 * seconds);
                let Some(&[Some(early), Some(later)]) = remaining.next() else {
                    println!("{what} | TTFT {ttft:.1}, TPOT {tpot:.2} | out of memory");
                    continue;
                };
                println!(
                    "{what} | TTFT {ttft:.1} {:.1} ({:+.0}%) | TPOT {tpot:.2} {:.2} ({:+.0}%)",
                    ttft * (1.0 + early),
                    100.0 * early,
                    tpot * (1.0 + later),
                    100.0 * later
                );
            }
        }
    }
}

/// Errors of each case by constants that are fitted without its model.
fn left_out_errors(cases: &[&Case], models: &Models, engines: &[Engine]) -> Vec<Errors> {
    let name =
        |case: &Case| models.get(case.model).hidden.to_bits() ^ models.get(case.model).layers.len() as u64;
    let names: BTreeSet<u64> = cases.iter().map(|case| name(case)).collect();
    let without: BTreeMap<u64, Vec<Engine>> = names
        .into_iter()
        .map(|left_out| {
            let others: Vec<&Case> = cases.iter().copied().filter(|case| name(case) != left_out).collect();
            (left_out, fit::fit(&others, models, engines))
        })
        .collect();
    let error = |case: &&Case| case.errors(models, without.get(&name(case)).map_or(engines, Vec::as_slice));
    cases.iter().map(error).collect()
}

/// Prints how many configurations that ran are called out of memory, and how many have requests that wait for memory.
fn memory(cases: &[&Case], models: &Models, engines: &[Engine]) {
    let outcomes: Vec<Outcome> = cases.iter().filter_map(|case| case.predict(models, engines).ok()).collect();
    let refused = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::OutOfMemory)).count();
    let is_waiting =
        |outcome: &&Outcome| matches!(outcome, Outcome::Predicted(prediction) if prediction.waiting > 0.0);
    let waiting = outcomes.iter().filter(is_waiting).count();
    let share = |count: usize| 100.0 * count as f64 / outcomes.len().max(1) as f64;
    println!(
        "\nout of memory: {refused} of {} rows ({:.1}%); batch beyond the cache, so that requests wait: {waiting} ({:.1}%)",
        outcomes.len(),
        share(refused),
        share(waiting)
    );
}
