//! Comparisons as tables.

use super::{Comparison, Row, Status};
use crate::grid::{Column, Grid};
use crate::units::{bytes, name, percent, seconds};
use stagewright_core::text::visible;

/// Mark of the best value.
const BEST: &str = "* ";

/// Table of the contenders on one model, one row each.
pub fn contenders(comparison: &Comparison) -> Grid {
    let rows = &comparison.rows;
    let has_splits = rows.windows(2).any(|pair| pair[0].split != pair[1].split);
    let has_degrees = rows.iter().any(|row| row.degrees.is_some());
    let has_speedups = comparison.baseline.is_some();
    let mut columns = vec![("contender", Column::Names)];
    columns.extend(has_splits.then_some(("split", Column::Words)));
    columns.push(("value", Column::Figures));
    columns.extend(has_speedups.then_some(("speed-up", Column::Figures)));
    let figures = ["bound", "gap", "time", "memory", "of it"];
    columns.extend(figures.map(|name| (name, Column::Figures)));
    match has_degrees {
        true => {
            let degrees = ["stages", "tp", "dp", "ep", "ZeRO", "microbatch"];
            columns.extend(degrees.map(|name| (name, Column::Figures)));
            columns.push(("schedule", Column::Words));
        }
        false => columns.extend(["communication", "idle"].map(|name| (name, Column::Figures))),
    }
    columns.push(("result", Column::Words));
    let mut grid = Grid::new(columns);
    let best = comparison.best();
    for row in rows {
        let mark = if row.is_as_good_as(best) { BEST } else { "" };
        let mut cells = vec![name(&row.name)];
        if has_splits {
            cells.push(row.split.map(|split| split.name().into()).unwrap_or_default());
        }
        cells.push(row.value_s.map(|value| format!("{mark}{}", seconds(value))).unwrap_or_default());
        if has_speedups {
            cells.push(row.speedup.map(times).unwrap_or_default());
        }
        let shown = |value: Option<f64>, show: &dyn Fn(f64) -> String| value.map(show).unwrap_or_default();
        cells.extend([
            shown(row.bound_s, &seconds),
            shown(row.gap, &percent),
            shown(row.seconds, &seconds),
            shown(row.memory_bytes, &bytes),
            shown(row.memory_share, &percent),
        ]);
        match has_degrees {
            true => cells.extend(degrees(row)),
            false => cells.extend([shown(row.communication_s, &seconds), shown(row.idle_share, &percent)]),
        }
        cells.push(result(row));
        grid.row(cells);
    }
    grid
}

/// Degrees of parallelism of a row, empty without a plan.
fn degrees(row: &Row) -> [String; 7] {
    let Some(degrees) = row.degrees.as_ref().filter(|degrees| degrees.stages > 0) else {
        return std::array::from_fn(|_| String::new());
    };
    let number = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
    let tensor: Vec<String> = degrees.tensor.iter().map(u32::to_string).collect();
    [
        degrees.stages.to_string(),
        tensor.join("/"),
        number(degrees.data),
        number(degrees.expert),
        number(degrees.zero),
        number(degrees.microbatch),
        degrees.schedule.map(|schedule| schedule.name().to_owned()).unwrap_or_default(),
    ]
}

/// Outcome of a contender in a few words.
fn result(row: &Row) -> String {
    match row.status {
        Status::Invalid if row.breaks.is_empty() => "invalid".into(),
        Status::Invalid => format!("breaks {}", row.breaks.join(", ")),
        Status::Given => "as given".into(),
        Status::Solved(_) => row.status.name().into(),
    }
}

/// Reasons why contenders have no plan, one line each.
pub fn reasons(comparison: &Comparison) -> String {
    let rows = comparison.rows.iter().filter(|row| row.value_s.is_none());
    let reasons = rows.filter_map(|row| {
        let first = row.reason.as_deref()?.lines().next()?;
        Some(format!("{}: {}\n", name(&row.name), visible(first)))
    });
    reasons.collect()
}

/// Table of values for several models: one row per model, one column per contender, and in the last row each
/// contender's geometric mean speed-up over the baseline.
pub fn models(comparisons: &[Comparison]) -> Grid {
    let mut names: Vec<&str> = Vec::new();
    for row in comparisons.iter().flat_map(|comparison| &comparison.entered) {
        if !names.contains(&row.as_str()) {
            names.push(row);
        }
    }
    let columns = names.iter().map(|&name| (name, Column::Figures));
    let mut grid = Grid::new([("model", Column::Names)].into_iter().chain(columns));
    let row_of =
        |comparison: &'_ Comparison, name: &str| comparison.rows.iter().position(|row| row.name == name);
    for comparison in comparisons {
        let best = comparison.best();
        let cells = names.iter().map(|name| {
            let Some(row) = row_of(comparison, name).map(|index| &comparison.rows[index]) else {
                return String::new();
            };
            match row.value_s {
                Some(value) if row.status == Status::Invalid => format!("({})", seconds(value)),
                Some(value) if row.is_as_good_as(best) => format!("{BEST}{}", seconds(value)),
                Some(value) => seconds(value),
                None => row.status.name().into(),
            }
        });
        grid.row([name(&comparison.model)].into_iter().chain(cells));
    }
    if comparisons.iter().any(|comparison| comparison.baseline.is_some()) {
        let means = names.iter().map(|name| {
            let speedups = comparisons.iter().filter_map(|comparison| {
                let row = &comparison.rows[row_of(comparison, name)?];
                row.speedup.filter(|&speedup| speedup > 0.0 && row.status != Status::Invalid)
            });
            let (sum, count) = speedups.fold((0.0, 0u32), |(sum, count), each| (sum + each.ln(), count + 1));
            match count {
                0 => String::new(),
                count => format!("{} of {count}", times((sum / f64::from(count)).exp())),
            }
        });
        grid.row(["mean speed-up".to_owned()].into_iter().chain(means));
    }
    grid
}

fn times(factor: f64) -> String {
    format!("{factor:.3}×")
}
