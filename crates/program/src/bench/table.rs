//! The table as Markdown and as CSV.

use stagewright::code::X001;
use stagewright::report::grid::{Column, Grid};
use stagewright::report::units::{bytes, percent, seconds};
use stagewright::text;

use super::case::Row;
use super::suite::Suite;
use crate::error::{CliError, Result};

/// The median of a list in ascending order.
pub(super) fn median(ascending: &[f64]) -> f64 {
    let middle = ascending.len() / 2;
    match ascending {
        [] => 0.0,
        list if list.len() % 2 == 1 => list[middle],
        list => 0.5 * (list[middle - 1] + list[middle]),
    }
}

/// Difference between the largest and the smallest number of a list in ascending order.
fn spread(ascending: &[f64]) -> f64 {
    match ascending {
        [first, .., last] => last - first,
        _ => 0.0,
    }
}

/// The table for display. `cases` is the number of cases in the suite; if rows are missing, the suite was interrupted.
pub(super) fn markdown(suite: &Suite, rows: &[Row], cases: usize) -> String {
    let mut text = format!(
        "# {}\n\nOne process a run, {} run(s) a case, {} thread(s). The time is end to end; solving is the solver's \
         part of it.\n\n",
        text::markdown(&suite.name),
        suite.repeat,
        suite.threads
    );
    let cut_off = rows.iter().filter(|row| row.is_cut_off).count();
    let run = rows.iter().filter(|row| row.is_run()).count();
    let is_partial = cut_off > 0 || run < cases;
    if is_partial {
        let fewer = match cut_off {
            0 => String::new(),
            count => format!(", {count} of them fewer than {} times", suite.repeat),
        };
        let why = if rows.len() < cases || cut_off > 0 { "Interrupted" } else { "Partial" };
        text.push_str(&format!("{why}: {run} of {cases} case(s) were run{fewer}.\n\n"));
    }
    let runs: &[&str] = if is_partial { &["runs"] } else { &[] };
    let mut grid = Grid::of(&[
        (Column::Words, &["input", "rules", "solver"]),
        (Column::Figures, &["operators"]),
        (Column::Words, &["status"]),
        (Column::Figures, &["value", "bound", "gap", "time", "spread", "solving", "peak memory", "ratio"]),
        (Column::Figures, runs),
    ]);
    for row in rows {
        let cells = cells(row);
        grid.row(cells.into_iter().chain(is_partial.then(|| row.seconds.len().to_string())));
    }
    text.push_str(&grid.markdown());
    let total: f64 = rows.iter().map(|row| median(&row.seconds)).sum();
    text.push_str(&format!("\n{run} case(s), {} in all (sum of medians).\n", seconds(total)));
    text
}

/// Cells of a row, except for its number of runs.
fn cells(row: &Row) -> [String; 13] {
    let input = match row.cluster.is_empty() {
        true => row.input.clone(),
        false => format!("{} on {}", row.input, row.cluster),
    };
    let rules = match row.seed {
        0 => row.objective.clone(),
        seed => format!("{} seed {seed}", row.objective),
    };
    let amount = |value: f64| if row.is_cost { format!("{value:.0}") } else { seconds(value) };
    let or_blank = |value: Option<f64>, show: &dyn Fn(f64) -> String| value.map(show).unwrap_or_default();
    [
        input,
        rules,
        row.solver.clone(),
        row.operators.map(|count| count.to_string()).unwrap_or_default(),
        [row.status.as_str(), row.mark].join(if row.mark.is_empty() { "" } else { ", " }),
        or_blank(row.value_s, &amount),
        or_blank(row.bound_s, &amount),
        or_blank(row.gap, &percent),
        seconds(median(&row.seconds)),
        seconds(spread(&row.seconds)),
        seconds(median(&row.solving)),
        or_blank(row.peak_bytes.map(|bytes| bytes as f64), &bytes),
        or_blank(row.ratio, &|ratio| format!("{ratio:.6}")),
    ]
}

/// Columns of the CSV file.
const HEADER: &str = "input,cluster,objective,solver,seed,status,value_s,bound_s,gap,median_s,spread_s,peak_memory_bytes,\
                      ratio,operators,solving_s,runs";

/// Formats the rows as CSV for programs, in SI units. The status of a case that was not run says so.
pub(super) fn csv(rows: &[Row]) -> Result<String> {
    let failed = |error: &dyn std::fmt::Display| CliError::new(X001, format!("cannot write CSV: {error}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEADER.split(',')).map_err(|error| failed(&error))?;
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for row in rows {
        let runs = row.seconds.len();
        writer
            .write_record([
                row.input.clone(),
                row.cluster.clone(),
                row.objective.clone(),
                row.solver.clone(),
                row.seed.to_string(),
                row.status.clone(),
                number(row.value_s),
                number(row.bound_s),
                number(row.gap),
                number((runs > 0).then(|| median(&row.seconds))),
                number((runs > 0).then(|| spread(&row.seconds))),
                row.peak_bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
                number(row.ratio),
                row.operators.map(|count| count.to_string()).unwrap_or_default(),
                number((!row.solving.is_empty()).then(|| median(&row.solving))),
                runs.to_string(),
            ])
            .map_err(|error| failed(&error))?;
    }
    let bytes = writer.into_inner().map_err(|error| failed(&error))?;
    String::from_utf8(bytes).map_err(|error| failed(&error))
}
