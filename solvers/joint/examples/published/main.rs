//! Judges the model of joint plans by published training runs.
//!
//! ```text
//! cargo run --release -p stagewright-joint --example published -- FOLDER [--rows] [--fit | --leave-one-out | --ablation | --choices]
//! ```
//!
//! FOLDER has some of `runs.csv`, `hagemann.csv`, `ultrascale.csv` and `foundry.csv`. Every row becomes a training graph, a cluster
//! and a joint plan with the constants of a runtime (`data/runtimes.toml`), and its seconds and bytes are compared with the
//! published ones; a row that cannot become a plan has a reason instead. The tables have, by file, the number of timed rows, the
//! share that can be expressed, the median of signed errors, and median and 90th percentile of errors without sign; the mean rank
//! correlation and regret over groups of rows with the same model, devices, sequence and batch; errors of memory, and trials that
//! are called feasible or infeasible by mistake. With `--rows` every row is printed as well. With `--fit` the constants are fitted
//! to all rows; with `--leave-one-out` rows of a source are judged by constants that are fitted without it. `--ablation`
//! leaves out the terms of the model one by one and fits the others again. `--choices` compares the planner's own plan for
//! every group with runs of the same degrees.

#![allow(clippy::print_stdout, reason = "an example prints its result")]

mod ablation;
mod case;
mod choices;
mod constants;
mod cut;
mod devices;
mod fit;
mod groups;
mod loss;
mod models;
mod rows;
mod runs;
mod slots;
mod summary;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;

use rayon::prelude::*;

use case::{Case, Outcome, Price, Problems};
use constants::Constants;
use rows::Run;

const USAGE: &str = "give a folder of published runs, and perhaps --rows, and one of --fit, --leave-one-out, --ablation and --choices";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (options, folders): (Vec<&str>, Vec<&str>) =
        arguments.iter().map(String::as_str).partition(|argument| argument.starts_with("--"));
    let options: BTreeSet<&str> = options.into_iter().collect();
    let [folder] = folders[..] else { return Err(USAGE.into()) };
    let modes = ["--fit", "--leave-one-out", "--ablation", "--choices"];
    let [fits, leaves_out, ablates, chooses] = modes.map(|option| options.contains(option));
    let is_known = options.iter().all(|option| *option == "--rows" || modes.contains(option));
    if !is_known || modes.iter().filter(|&mode| options.contains(mode)).count() > 1 {
        return Err(USAGE.into());
    }
    let shipped = Constants::shipped();
    let outcomes = outcomes(rows::read(Path::new(folder))?);
    let cases: Vec<&Case> = outcomes.iter().filter_map(|outcome| outcome.case.as_ref().ok()).collect();
    if ablates {
        ablation::print(&outcomes, &cases, &shipped);
        return Ok(());
    }
    if chooses {
        choices::print(&cases, &shipped);
        return Ok(());
    }
    let prices = if leaves_out {
        fit::left_out_prices(&cases, &shipped)
    } else if fits {
        let fitted = fit::fit(&cases, &slots::all(), &shipped);
        slots::print(&shipped, &fitted);
        price_all(&cases, &fitted)
    } else {
        price_all(&cases, &shipped)
    };
    let mut prices = prices.into_iter();
    let priced = outcomes.iter().map(|outcome| match &outcome.case {
        Ok(_) => prices.next().unwrap_or_else(|| Err("no price".into())),
        Err(reason) => Err(reason.clone()),
    });
    let priced: Vec<(&Outcome, Result<Price, String>)> = outcomes.iter().zip(priced).collect();
    if options.contains("--rows") {
        summary::print_rows(&priced);
    }
    summary::print(&priced);
    Ok(())
}

/// Runs with their questions. Runs with the same model and sequence share a graph.
fn outcomes(runs: Vec<Run>) -> Vec<Outcome> {
    let drawn: BTreeSet<_> = runs.iter().map(Run::drawn).collect();
    let drawn: Vec<_> = drawn.into_iter().collect();
    let drawings: BTreeMap<_, _> =
        drawn.into_par_iter().map(|drawn| (drawn.clone(), models::draw(&drawn))).collect();
    let mut problems = Problems::default();
    let outcome = |run: Run| {
        let case = Case::new(&run, &drawings[&run.drawn()], &mut problems);
        Outcome { case, run }
    };
    runs.into_iter().map(outcome).collect()
}

/// Prices of cases with the same constants.
fn price_all(cases: &[&Case], constants: &Constants) -> Vec<Result<Price, String>> {
    cases.par_iter().map(|case| case.price(constants)).collect()
}
