//! Tables of errors.

use std::collections::BTreeMap;

use super::case::{Outcome, Price};
use super::rows::Status;

/// A row with its price, or the reason that it has none.
type Priced<'a> = (&'a Outcome, Result<Price, String>);

/// Rows of a group whose ranking is judged.
const LEAST_OF_GROUP: usize = 4;

/// Prints a line for every row.
pub(crate) fn print_rows(priced: &[Priced]) {
    println!("| run | predicted s | measured s | ratio | predicted GB | measured GB |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for (Outcome { run, .. }, price) in priced {
        let known = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
        match price {
            Ok(price) => println!(
                "| {} | {:.3} | {} | {} | {:.1} | {} |",
                run.id,
                price.seconds,
                known(run.timed()),
                known(run.timed().map(|measured| price.seconds / measured)),
                price.memory_bytes / 1e9,
                known(run.memory.map(|memory| memory / 1e9)),
            ),
            Err(reason) => println!("| {} | {reason} | {} | | | |", run.id, known(run.timed())),
        }
    }
    println!();
}

/// Prints all tables.
pub(crate) fn print(priced: &[Priced]) {
    let mut files: BTreeMap<&str, Vec<&Priced>> = BTreeMap::new();
    for row in priced {
        files.entry(row.0.run.file).or_default().push(row);
    }
    let total = [("total", priced.iter().collect())];
    let files: Vec<(&str, Vec<&Priced>)> = files.into_iter().chain(total).collect();
    println!("| seconds | n | expressed | signed | median | p90 | ρ | regret | groups |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    files.iter().for_each(|(name, rows)| print_seconds(name, rows));
    println!("\n| memory | n | signed | median | p90 | oom, feasible | failed, feasible | ran, infeasible |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    files.iter().for_each(|(name, rows)| print_memory(name, rows));
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in priced.iter().filter_map(|(_, price)| price.as_ref().err()) {
        *reasons.entry(reason).or_default() += 1;
    }
    println!("\n| reason for no price | rows |\n| --- | ---: |");
    reasons.iter().for_each(|(reason, count)| println!("| {reason} | {count} |"));
}

/// Groups of runs of one model on the same devices, each with predicted and measured seconds, that are large enough to
/// rank.
fn groups(rows: &[&Priced]) -> Vec<Vec<(f64, f64)>> {
    let mut groups: BTreeMap<_, Vec<(f64, f64)>> = BTreeMap::new();
    for (Outcome { run, .. }, price) in rows {
        if let (Some(measured), Ok(price)) = (run.timed(), price) {
            let key = (run.file, &run.name, &run.gpu, run.gpus, run.sequence, run.batch);
            groups.entry(key).or_default().push((price.seconds, measured));
        }
    }
    groups.into_values().filter(|rows| rows.len() >= LEAST_OF_GROUP).collect()
}

/// The mean of a figure of groups; a dash without any.
fn mean(groups: &[Vec<(f64, f64)>], of_group: fn(&[(f64, f64)]) -> f64) -> String {
    match groups.len() {
        0 => "-".to_owned(),
        count => format!("{:.3}", groups.iter().map(|rows| of_group(rows)).sum::<f64>() / count as f64),
    }
}

/// Errors of the seconds of rows.
fn errors(rows: &[&Priced]) -> Vec<f64> {
    let measured =
        rows.iter().filter_map(|(outcome, price)| Some((outcome.run.timed()?, price.as_ref().ok()?)));
    measured.map(|(measured, price)| price.seconds / measured - 1.0).collect()
}

/// Errors of the bytes of rows.
fn errors_of_bytes(rows: &[&Priced]) -> Vec<f64> {
    let measured = rows.iter().filter_map(|(outcome, price)| {
        let measured = outcome.run.memory.filter(|&memory| memory > 0.0)?;
        Some(price.as_ref().ok()?.memory_bytes / measured - 1.0)
    });
    measured.collect()
}

/// Cells for a line of the ablation.
pub(crate) fn short(priced: &[Priced]) -> String {
    let all: Vec<&Priced> = priced.iter().collect();
    let absolute = |errors: Vec<f64>| errors.into_iter().map(f64::abs).collect::<Vec<f64>>();
    let seconds = absolute(errors(&all));
    let of_file = |file: &str| {
        let rows: Vec<&Priced> =
            all.iter().copied().filter(|(outcome, _)| outcome.run.file == file).collect();
        let groups = groups(&rows);
        format!("{} | {}", mean(&groups, rank_correlation), mean(&groups, regret))
    };
    format!(
        "{:.1}% | {:.1}% | {} | {} | {:.1}%",
        100.0 * quantile(seconds.clone(), 0.5),
        100.0 * quantile(seconds, 0.9),
        of_file("hagemann.csv"),
        of_file("ultrascale.csv"),
        100.0 * quantile(absolute(errors_of_bytes(&all)), 0.5)
    )
}

fn print_seconds(name: &str, rows: &[&Priced]) {
    let timed: Vec<&Priced> =
        rows.iter().copied().filter(|(outcome, _)| outcome.run.timed().is_some()).collect();
    let errors = errors(&timed);
    let expressed = 100.0 * errors.len() as f64 / timed.len().max(1) as f64;
    let groups = groups(&timed);
    println!(
        "| {name} | {} | {expressed:.1}% | {} | {} | {} | {} |",
        timed.len(),
        quantiles(&errors),
        mean(&groups, rank_correlation),
        mean(&groups, regret),
        groups.len()
    );
}

fn print_memory(name: &str, rows: &[&Priced]) {
    let errors = errors_of_bytes(rows);
    let mistakes = |status: Status, is_mistake: fn(bool) -> bool| {
        let judged = rows.iter().filter(|(outcome, _)| outcome.run.status == status);
        let fits = judged.filter_map(|(_, price)| Some(price.as_ref().ok()?.fits()));
        let fits: Vec<bool> = fits.collect();
        format!("{} of {}", fits.iter().filter(|&&fits| is_mistake(fits)).count(), fits.len())
    };
    println!(
        "| {name} | {} | {} | {} | {} | {} |",
        errors.len(),
        quantiles(&errors),
        mistakes(Status::OutOfMemory, |fits| fits),
        mistakes(Status::Failed, |fits| fits),
        mistakes(Status::Ran, |fits| !fits)
    );
}

/// Cells with the median of errors, and the median and 90th percentile of errors without sign.
fn quantiles(errors: &[f64]) -> String {
    if errors.is_empty() {
        return "- | - | -".into();
    }
    let absolute: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    let percent = |errors: &[f64], share| 100.0 * quantile(errors.to_vec(), share);
    format!(
        "{:+.1}% | {:.1}% | {:.1}%",
        percent(errors, 0.5),
        percent(&absolute, 0.5),
        percent(&absolute, 0.9)
    )
}

/// A quantile, between neighbours in proportion; 0 of nothing.
fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let position = share * values.len().saturating_sub(1) as f64;
    let value = |index: f64| values.get(index as usize).copied().unwrap_or(0.0);
    let (low, high) = (value(position.floor()), value(position.ceil()));
    low + (high - low) * position.fract()
}

/// Ranks of values, equal values in their order.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&left, &right| values[left].total_cmp(&values[right]));
    let mut ranks = vec![0.0; values.len()];
    order.into_iter().enumerate().for_each(|(rank, index)| ranks[index] = rank as f64);
    ranks
}

/// Spearman's correlation of predicted and measured seconds.
fn rank_correlation(rows: &[(f64, f64)]) -> f64 {
    let (predicted, measured): (Vec<f64>, Vec<f64>) = rows.iter().copied().unzip();
    let count = rows.len() as f64;
    let apart = ranks(&predicted)
        .iter()
        .zip(ranks(&measured))
        .map(|(left, right)| (left - right).powi(2))
        .sum::<f64>();
    1.0 - 6.0 * apart / (count * (count * count - 1.0))
}

/// Measured seconds of the plan that is predicted to be the fastest, over those of the fastest plan.
fn regret(rows: &[(f64, f64)]) -> f64 {
    let chosen = rows.iter().min_by(|left, right| left.0.total_cmp(&right.0));
    let fastest = rows.iter().map(|&(_, measured)| measured).fold(f64::INFINITY, f64::min);
    chosen.map_or(f64::NAN, |&(_, measured)| measured / fastest)
}
