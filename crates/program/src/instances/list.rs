//! `instances list`: all instances with their known values and bounds.

use serde::Serialize;
use stagewright::report::grid::{Column, Grid};
use stagewright::report::units::{percent, seconds};

use super::entry::Entry;
use super::library::Library;
use crate::args::ListArguments;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;

/// An instance in JSON.
#[derive(Serialize)]
struct Row<'e> {
    #[serde(flatten)]
    entry: &'e Entry,
    gap: Option<f64>,
}

pub(super) fn run(library: &Library, arguments: &ListArguments) -> Result<Exit> {
    let entries = &library.index.instances;
    if arguments.json {
        let rows: Vec<Row<'_>> = entries.iter().map(|entry| Row { entry, gap: entry.gap() }).collect();
        output::data(&output::json(&rows)?)?;
        return Ok(Exit::Done);
    }
    let mut grid = Grid::of(&[
        (Column::Keys, &["name"]),
        (Column::Details, &["operators", "devices"]),
        (Column::Words, &["objective"]),
        (Column::Figures, &["value"]),
        (Column::Details, &["bound", "gap"]),
        (Column::Keys, &["status"]),
    ]);
    for entry in entries {
        let shown = |value: Option<f64>| value.map(|value| amount(entry, value)).unwrap_or_default();
        grid.row([
            entry.name.clone(),
            entry.operators.to_string(),
            entry.devices.map(|count| count.to_string()).unwrap_or_default(),
            entry.objective(),
            shown(entry.value),
            shown(entry.bound),
            entry.gap().map(percent).unwrap_or_default(),
            entry.status.name().to_owned(),
        ]);
    }
    output::result(&grid.text(output::width()))?;
    Ok(Exit::Done)
}

/// Formats a value or bound of an instance: seconds, or the cost of a strategy problem, which has no devices.
pub(super) fn amount(entry: &Entry, value: f64) -> String {
    match entry.devices {
        Some(_) => seconds(value),
        None => format!("{value:.0}"),
    }
}
