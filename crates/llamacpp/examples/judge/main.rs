//! Judges the formula of speed by published measurements.
//!
//! ```text
//! cargo run -p stagewright-llamacpp --example judge -- FILE [--leave-one-out]
//! ```
//!
//! FILE has the columns of `measured.csv`. A line a row says what was measured and what the shipped constants give, or why that
//! cannot be said; then come errors by class, of rows with experts on the host, and, as the last line, of all rows: their
//! number, the median of signed errors, and median and 90th percentile of errors without sign. With `--leave-one-out` the
//! constants are fitted again without each source in turn, and the rows of a source are judged by those.

#![allow(clippy::print_stdout, reason = "an example prints its result")]

mod devices;
mod fit;
mod models;
mod rows;
mod summary;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;

use rows::{Case, Row};
use summary::summary;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (options, files): (Vec<_>, Vec<_>) =
        arguments.iter().partition(|argument| argument.starts_with("--"));
    let [file] = files[..] else { return Err("give one file with the columns of measured.csv".into()) };
    let leaves_out = match options[..] {
        [] => false,
        [option] if option == "--leave-one-out" => true,
        _ => return Err("the only option is --leave-one-out".into()),
    };
    let rows = rows::read(Path::new(file)).map_err(|error| format!("{file}: {error}"))?;
    let cases: Vec<Result<Case, String>> = rows.iter().map(Row::case).collect();
    let known: Vec<&Case> = cases.iter().flatten().collect();
    let errors =
        if leaves_out { left_out_errors(&known) } else { known.iter().map(|case| case.error()).collect() };
    let mut remaining = errors.iter();
    for (row, case) in rows.iter().zip(&cases) {
        let setting = format!("{} | {} | {} | {}", row.devices, row.model, row.quant, row.flags);
        match case {
            Err(reason) => println!("{setting} | {} | - | {reason}", row.tg.unwrap_or(0.0)),
            Ok(case) => {
                let error = remaining.next().copied().unwrap_or(f64::NAN);
                let predicted = case.measured * (1.0 + error);
                println!("{setting} | {:.2} | {predicted:.2} | {:+.1}%", case.measured, 100.0 * error);
            }
        }
    }
    println!();
    groups(&known, &errors);
    println!("{}", summary(&errors));
    Ok(())
}

/// Errors of each case by constants that are fitted without its source.
fn left_out_errors(cases: &[&Case]) -> Vec<f64> {
    let sources: BTreeSet<&str> = cases.iter().map(|case| case.row.source.as_str()).collect();
    let fitted: BTreeMap<&str, fit::Values> = sources
        .into_iter()
        .map(|source| {
            let others: Vec<&Case> = cases.iter().copied().filter(|case| case.row.source != source).collect();
            (source, fit::fit(&others))
        })
        .collect();
    let all = fit::fit(cases);
    println!("constant | shipped | fitted to all rows");
    for ((name, shipped, ..), value) in fit::CONSTANTS.iter().zip(all) {
        println!("{name} | {shipped:.3e} | {value:.3e}");
    }
    println!();
    cases.iter().map(|case| fit::error(case, &fitted[case.row.source.as_str()])).collect()
}

/// Errors by class, of prompts by class, and of rows with experts on the host.
fn groups(cases: &[&Case], errors: &[f64]) {
    let mut classes: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut prompts: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (case, &error) in cases.iter().zip(errors) {
        classes.entry(&case.row.device_class).or_default().push(error);
        prompts.entry(&case.row.device_class).or_default().extend(case.prompt_error());
    }
    classes.iter().for_each(|(class, errors)| println!("{class}: {}", summary(errors)));
    for (class, errors) in prompts.iter().filter(|(_, errors)| !errors.is_empty()) {
        println!("prompts, {class}: {}", summary(errors));
    }
    let on_host = cases.iter().zip(errors).filter(|(case, _)| case.has_experts_on_host());
    println!("experts on the host: {}", summary(&on_host.map(|(_, &error)| error).collect::<Vec<_>>()));
}
