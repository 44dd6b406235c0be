//! Comparisons as tables.

use stagewright_core::text::visible;

use super::{Comparison, Degrees, Row, Status, facts};
use crate::grid::{BEST, Column, Grid};
use crate::throughput::figure;
use crate::units::{bytes, interval, name, percent, seconds};

/// Cell of a row in a column.
type Show = fn(&Comparison, &Row) -> String;

/// Table of the contenders on one model, one row each.
pub fn contenders(comparison: &Comparison) -> Grid {
    let memory: [(&str, Column, Show); 2] = [
        ("memory", Column::Figures, |_, row| shown(row.memory_bytes, bytes)),
        ("of it", Column::Figures, |_, row| shown(row.memory_share, percent)),
    ];
    let times: [(&str, Column, Show); 2] = [
        ("communication", Column::Figures, |_, row| shown(row.communication_s, seconds)),
        ("idle", Column::Figures, |_, row| shown(row.idle_share, percent)),
    ];
    let all = std::slice::from_ref(comparison);
    let has_degrees = has(all, |row| row.degrees.is_some());
    let mut columns = first_columns(all);
    columns.extend(figures(all, false));
    columns.extend(memory);
    columns.extend(if has_degrees { degree_columns(all) } else { times.to_vec() });
    columns.extend(rates(all));
    columns.push(("result", Column::Words, |_, row| result(row)));
    table(&columns, [(comparison, comparison.rows.iter().collect())])
}

/// The comparisons as a table of a paper in LaTeX, for `booktabs`: a row for each model and contender, in the order in which
/// the contenders entered, with the best value of each model in bold. Comments state how the table was made, and why some
/// contenders have no plan.
pub fn paper(comparisons: &[Comparison]) -> String {
    let mut columns = first_columns(comparisons);
    let has_models = comparisons.len() > 1;
    if has_models {
        columns.insert(0, ("model", Column::Names, |comparison, _| name(&comparison.model)));
    }
    columns.extend(figures(comparisons, true));
    if has(comparisons, |row| row.degrees.is_some()) {
        columns.extend(degree_columns(comparisons));
    }
    columns.extend(rates(comparisons));
    let groups = comparisons.iter().map(|comparison| (comparison, comparison.as_entered().collect()));
    let table = table(&columns, groups).latex(has_models);
    let mut comments = vec!["Needs \\usepackage{booktabs}.".to_owned()];
    let facts = facts(comparisons).into_iter();
    comments.extend(facts.map(|(name, fact)| format!("{name}: {}", visible(&fact))));
    comments.extend(reasons(comparisons).lines().map(str::to_owned));
    let comments: String = comments.iter().map(|line| format!("% {line}\n")).collect();
    comments + &table
}

fn table<'a>(
    columns: &[(&'static str, Column, Show)],
    groups: impl IntoIterator<Item = (&'a Comparison, Vec<&'a Row>)>,
) -> Grid {
    let mut grid = Grid::new(columns.iter().map(|&(heading, column, _)| (heading, column)));
    for (comparison, rows) in groups {
        for row in rows {
            grid.row(columns.iter().map(|(_, _, show)| show(comparison, row)));
        }
    }
    grid
}

fn has(comparisons: &[Comparison], is_so: impl Fn(&Row) -> bool) -> bool {
    comparisons.iter().flat_map(|comparison| &comparison.rows).any(is_so)
}

fn shown(value: Option<f64>, show: fn(f64) -> String) -> String {
    value.map(show).unwrap_or_default()
}

/// The contender and its split, if there are several.
fn first_columns(comparisons: &[Comparison]) -> Vec<(&'static str, Column, Show)> {
    let mut splits =
        comparisons.iter().flat_map(|comparison| &comparison.rows).filter(|row| row.value_s.is_some());
    let first = splits.next().map(|row| row.split);
    let has_splits = splits.any(|row| Some(row.split) != first);
    let mut columns: Vec<(&'static str, Column, Show)> =
        vec![("contender", Column::Names, |_, row| name(&row.name))];
    if has_splits {
        let split: Show = |_, row| row.split.map(|split| split.name().into()).unwrap_or_default();
        columns.push(("split", Column::Words, split));
    }
    columns
}

/// Values, bounds and times; with `is_paper`, also the best known value, and the outcome in place of a missing value.
fn figures(comparisons: &[Comparison], is_paper: bool) -> Vec<(&'static str, Column, Show)> {
    let mut columns: Vec<(&'static str, Column, Show)> = vec![match is_paper {
        true => ("value", Column::Figures, |comparison, row| match row.value_s {
            Some(_) => marked(comparison, row),
            None => row.status.name().into(),
        }),
        false => ("value", Column::Figures, marked),
    }];
    if comparisons.iter().any(|comparison| comparison.baseline.is_some()) {
        columns.push(("speed-up", Column::Figures, |_, row| shown(row.speedup, times)));
    }
    if is_paper {
        columns
            .push(("best known", Column::Figures, |comparison, _| shown(comparison.best_known_s, seconds)));
    }
    columns.push(("bound", Column::Figures, |_, row| shown(row.bound_s, seconds)));
    columns.push(("gap", Column::Figures, |_, row| shown(row.gap, percent)));
    columns.push(("time", Column::Figures, |_, row| shown(row.seconds, seconds)));
    columns
}

/// Samples and tokens per second, if they are known.
fn rates(comparisons: &[Comparison]) -> Vec<(&'static str, Column, Show)> {
    let samples = |row: &Row| row.throughput.as_ref()?.samples_per_s;
    let tokens = |row: &Row| row.throughput.as_ref()?.tokens_per_s;
    let mut columns: Vec<(&'static str, Column, Show)> = Vec::new();
    if has(comparisons, |row| samples(row).is_some()) {
        columns.push(("samples/s", Column::Figures, |_, row| {
            shown(row.throughput.as_ref().and_then(|rate| rate.samples_per_s), figure)
        }));
    }
    if has(comparisons, |row| tokens(row).is_some()) {
        columns.push(("tokens/s", Column::Figures, |_, row| {
            shown(row.throughput.as_ref().and_then(|rate| rate.tokens_per_s), figure)
        }));
    }
    columns
}

/// Degrees of parallelism; context parallelism, groups of shards and states on hosts only if a plan has them.
fn degree_columns(comparisons: &[Comparison]) -> Vec<(&'static str, Column, Show)> {
    let uses = |degree: fn(&Degrees) -> Option<u32>| {
        has(comparisons, |row| row.degrees.as_ref().is_some_and(|degrees| degree(degrees).is_some()))
    };
    let columns: [(&'static str, Column, Show, bool); 10] = [
        ("stages", Column::Figures, |_, row| degree(row, |degrees| Some(degrees.stages)), true),
        ("tp", Column::Figures, |_, row| degree(row, tensor), true),
        ("cp", Column::Words, |_, row| degree(row, context), uses(|degrees| degrees.context)),
        ("dp", Column::Figures, |_, row| degree(row, |degrees| degrees.data), true),
        ("ep", Column::Figures, |_, row| degree(row, |degrees| degrees.expert), true),
        ("ZeRO", Column::Figures, |_, row| degree(row, |degrees| degrees.zero), true),
        (
            "shards",
            Column::Figures,
            |_, row| degree(row, |degrees| degrees.shards),
            uses(|degrees| degrees.shards),
        ),
        (
            "offload",
            Column::Figures,
            |_, row| degree(row, |degrees| degrees.offload),
            uses(|degrees| degrees.offload),
        ),
        ("microbatch", Column::Figures, |_, row| degree(row, |degrees| degrees.microbatch), true),
        ("schedule", Column::Words, |_, row| degree(row, |degrees| Some(degrees.schedule?.name())), true),
    ];
    columns
        .into_iter()
        .filter(|column| column.3)
        .map(|(name, column, show, _)| (name, column, show))
        .collect()
}

/// A degree of parallelism of a row, empty without a plan.
fn degree<T: ToString>(row: &Row, figure: impl Fn(&Degrees) -> Option<T>) -> String {
    let degrees = row.degrees.as_ref().filter(|degrees| degrees.stages > 0);
    degrees.and_then(figure).map(|figure| figure.to_string()).unwrap_or_default()
}

fn tensor(degrees: &Degrees) -> Option<String> {
    Some(degrees.tensor.iter().map(u32::to_string).collect::<Vec<_>>().join("/"))
}

fn context(degrees: &Degrees) -> Option<String> {
    let exchange = degrees.exchange.map(|exchange| format!(" {}", exchange.name()));
    degrees.context.map(|context| format!("{context}{}", exchange.unwrap_or_default()))
}

/// The value of a row with its interval, marked if it is the best; empty without a plan.
fn marked(comparison: &Comparison, row: &Row) -> String {
    let mark = if row.is_as_good_as(comparison.best()) { BEST } else { "" };
    value(row).map(|value| format!("{mark}{value}")).unwrap_or_default()
}

/// The value of a row with its interval, and how many of its runs have a plan if not all have.
pub(crate) fn value(row: &Row) -> Option<String> {
    let value = row.value_s?;
    let text = row.interval_s.map_or_else(|| seconds(value), |half| interval(value, half));
    Some(text + &some(row))
}

/// The share of the runs with a plan, such as ` (2 of 3)`; empty if all have one.
pub(crate) fn some(row: &Row) -> String {
    match row.is_complete() {
        true => String::new(),
        false => format!(" ({} of {})", row.solved(), row.runs.len()),
    }
}

/// Outcome of a contender in a few words.
fn result(row: &Row) -> String {
    match row.status {
        Status::Solved(_) if row.solved() > 0 && !row.is_complete() => {
            format!("{} for {} of {} seeds", row.status.name(), row.solved(), row.runs.len())
        }
        Status::Invalid if row.breaks.is_empty() => "invalid".into(),
        Status::Invalid => format!("breaks {}", row.breaks.join(", ")),
        Status::Given => "as given".into(),
        Status::Solved(_) | Status::Unsupported | Status::Failed => row.status.name().into(),
    }
}

/// Reasons why contenders have no plan, or none for some seed, one line each.
pub fn reasons(comparisons: &[Comparison]) -> String {
    let is_single = comparisons.len() == 1;
    let reasons = comparisons.iter().flat_map(|comparison| {
        let rows = comparison.rows.iter().filter(|row| row.solved() == 0 || !row.is_complete());
        rows.filter_map(move |row| {
            let first = row.reason.as_deref()?.lines().next()?;
            let model = if is_single { String::new() } else { format!("{}, ", name(&comparison.model)) };
            Some(format!("{model}{}: {}\n", name(&row.name), visible(first)))
        })
    });
    reasons.collect()
}

/// Table of values for several models: one row per model, one column per contender with its value and, after a comma, the gap to
/// the bound; then the best known value and the bound, and in the last row each contender's geometric mean speed-up over the
/// baseline.
pub fn models(comparisons: &[Comparison]) -> Grid {
    let mut names: Vec<&str> = Vec::new();
    for row in comparisons.iter().flat_map(|comparison| &comparison.entered) {
        if !names.contains(&row.as_str()) {
            names.push(row);
        }
    }
    let columns = names.iter().map(|&name| (name, Column::Figures));
    let of_question = [("best known", Column::Figures), ("bound", Column::Figures)];
    let mut grid = Grid::new([("model", Column::Names)].into_iter().chain(columns).chain(of_question));
    let row_of =
        |comparison: &'_ Comparison, name: &str| comparison.rows.iter().position(|row| row.name == name);
    for comparison in comparisons {
        let best = comparison.best();
        let cells = names.iter().map(|name| {
            let Some(row) = row_of(comparison, name).map(|index| &comparison.rows[index]) else {
                return String::new();
            };
            let Some(value) = value(row) else { return row.status.name().into() };
            if row.status == Status::Invalid {
                return format!("({value})");
            }
            let mark = if row.is_as_good_as(best) { BEST } else { "" };
            let gap = row.gap.map(|gap| format!(", {}", percent(gap))).unwrap_or_default();
            format!("{mark}{value}{gap}")
        });
        let known = [comparison.best_known_s, comparison.bound_s].map(|value| shown(value, seconds));
        grid.row([name(&comparison.model)].into_iter().chain(cells).chain(known));
    }
    if comparisons.iter().any(|comparison| comparison.baseline.is_some()) {
        let means = names.iter().map(|name| {
            let speedups = comparisons.iter().filter_map(|comparison| {
                let row = &comparison.rows[row_of(comparison, name)?];
                row.speedup
                    .filter(|&speedup| speedup > 0.0 && row.status != Status::Invalid && row.is_complete())
            });
            let (sum, count) = speedups.fold((0.0, 0u32), |(sum, count), each| (sum + each.ln(), count + 1));
            match count {
                0 => String::new(),
                count => format!("{} of {count}", times((sum / f64::from(count)).exp())),
            }
        });
        let blank = [String::new(), String::new()];
        grid.row(["mean speed-up".to_owned()].into_iter().chain(means).chain(blank));
    }
    grid
}

fn times(factor: f64) -> String {
    format!("{factor:.3}×")
}
