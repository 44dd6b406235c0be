//! How fast each solver comes to what it answers, and to what others answer.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use stagewright::core::tolerance;
use stagewright::report::grid::{Column, Grid};
use stagewright::report::units::seconds;

use super::case::Row;
use super::summary::{Ground, best_values, ground, mean, objectives, show};
use super::table::median;
use crate::cli::error::CliError;

/// What a suite asks about convergence.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    /// Seconds of the solve at which values are compared.
    #[serde(default)]
    pub(super) seconds: Vec<f64>,
    /// Numbers of simulations at which values are compared, of solvers that count them.
    #[serde(default)]
    pub(super) simulations: Vec<u64>,
    /// Solvers whose answers others are waited for to reach.
    #[serde(default)]
    pub(super) reaches: Vec<String>,
}

/// A better plan of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Moment {
    /// Seconds since the solve began.
    elapsed_s: f64,
    /// Simulations by then.
    simulations: Option<u64>,
    value_s: f64,
}

/// The values of a file that `plan --convergence` has written, in their order.
pub(super) fn read(path: &Path) -> Result<Vec<Moment>, CliError> {
    #[derive(Deserialize)]
    struct Line {
        elapsed_s: f64,
        simulations: Option<u64>,
        value_s: Option<f64>,
    }
    let failed = |error: csv::Error| {
        CliError::new("B004", format!("cannot read how a run converged: {error}"))
            .at(path.display().to_string())
    };
    let mut moments = Vec::new();
    for line in csv::Reader::from_path(path).map_err(failed)?.into_deserialize() {
        let Line { elapsed_s, simulations, value_s } = line.map_err(failed)?;
        moments.extend(value_s.map(|value_s| Moment { elapsed_s, simulations, value_s }));
    }
    Ok(moments)
}

/// Up to where a run is looked at.
#[derive(Debug, Clone, Copy)]
enum Until {
    Seconds(f64),
    Simulations(u64),
}

impl Until {
    fn title(self) -> String {
        match self {
            Until::Seconds(limit) => format!("{limit} s"),
            Until::Simulations(limit) => format!("{limit} simulations"),
        }
    }

    fn has(self, moment: &Moment) -> bool {
        match self {
            Until::Seconds(limit) => moment.elapsed_s <= limit,
            Until::Simulations(limit) => moment.simulations.is_some_and(|count| count <= limit),
        }
    }

    /// The best plan of a run by then.
    fn value(self, row: &Row) -> Option<f64> {
        row.moments.iter().rfind(|moment| self.has(moment)).map(|moment| moment.value_s)
    }
}

/// When a run first had a plan no worse than a value.
fn reached(row: &Row, value: f64) -> Option<Moment> {
    let is_there = |moment: &&Moment| moment.value_s <= value || tolerance::same(moment.value_s, value);
    row.moments.iter().find(is_there).copied()
}

/// Tables for every objective, as Markdown.
pub(super) fn markdown(rows: &[Row], asked: &Asked) -> String {
    let mut text = String::new();
    for (objective, solvers) in objectives(rows) {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.objective == objective).collect();
        let title = if objective.is_empty() { String::new() } else { format!(", {objective}") };
        text += &after(&rows, &solvers, asked, &title);
        for leader in &asked.reaches {
            text += &reach(&rows, &solvers, leader, &title);
        }
    }
    text
}

/// The value of every solver over the best of the case, after a time or a number of simulations.
fn after(rows: &[&Row], solvers: &[&str], asked: &Asked, title: &str) -> String {
    let columns: Vec<Until> = (asked.seconds.iter().map(|&limit| Until::Seconds(limit)))
        .chain(asked.simulations.iter().map(|&limit| Until::Simulations(limit)))
        .collect();
    if columns.is_empty() {
        return String::new();
    }
    let best = best_values(rows.iter().copied());
    let titles: Vec<String> = columns.iter().map(|until| until.title()).collect();
    let figures = titles.iter().map(|title| (title.as_str(), Column::Figures));
    let mut grid = Grid::new(std::iter::once(("solver", Column::Names)).chain(figures));
    for solver in solvers {
        let own: Vec<&Row> = rows.iter().filter(|row| row.solver == *solver).copied().collect();
        let cell = |until: &Until| {
            let ratio = |row: &&Row| {
                let ratio = until.value(row)? / best.get(&ground(row))?;
                (ratio.is_finite() && ratio > 0.0).then(|| (row.files[0].clone(), ratio))
            };
            let ratios: Vec<(String, f64)> = own.iter().filter_map(ratio).collect();
            let count = if ratios.len() == own.len() {
                String::new()
            } else {
                format!(" [{} of {}]", ratios.len(), own.len())
            };
            mean(&ratios).map(|mean| format!("{:.4}{count}", mean.value)).unwrap_or_default()
        };
        grid.row(std::iter::once((*solver).to_owned()).chain(columns.iter().map(cell)));
    }
    format!(
        "\n## Convergence{title}\n\nGeometric means of the value so far over the best of the case at last; in brackets \
         the cases with a plan by then, where they are not all.\n\n{}",
        grid.markdown()
    )
}

/// When every solver reaches what one answers.
fn reach(rows: &[&Row], solvers: &[&str], leader: &str, title: &str) -> String {
    let led: BTreeMap<Ground<'_>, &Row> =
        rows.iter().filter(|row| row.solver == leader).map(|row| (ground(row), *row)).collect();
    let mut grid = Grid::new([
        ("solver", Column::Names),
        ("cases", Column::Figures),
        ("reached", Column::Figures),
        ("seconds", Column::Figures),
        ("simulations", Column::Figures),
        ("times as fast", Column::Figures),
    ]);
    for solver in solvers.iter().filter(|solver| **solver != leader) {
        let pairs: Vec<(&Row, &Row, f64)> = rows
            .iter()
            .filter(|row| row.solver == *solver)
            .filter_map(|row| {
                let leader = *led.get(&ground(row))?;
                Some((*row, leader, leader.value_s?))
            })
            .collect();
        let there: Vec<(&Row, Moment, Option<Moment>)> = (pairs.iter())
            .filter_map(|(row, leader, value)| Some((*row, reached(row, *value)?, reached(leader, *value))))
            .collect();
        let ratio = |(row, own, leader): &(&Row, Moment, Option<Moment>)| {
            let ratio = (*leader)?.elapsed_s / own.elapsed_s;
            (ratio.is_finite() && ratio > 0.0).then(|| (row.files[0].clone(), ratio))
        };
        let ratios: Vec<(String, f64)> = there.iter().filter_map(ratio).collect();
        let middle = |mut list: Vec<f64>| {
            list.sort_by(f64::total_cmp);
            (!list.is_empty()).then(|| median(&list))
        };
        let counts = there.iter().filter_map(|(_, own, _)| own.simulations.map(|count| count as f64));
        grid.row([
            (*solver).to_owned(),
            pairs.len().to_string(),
            there.len().to_string(),
            middle(there.iter().map(|(_, own, _)| own.elapsed_s).collect()).map(seconds).unwrap_or_default(),
            middle(counts.collect()).map(|count| format!("{count:.0}")).unwrap_or_default(),
            mean(&ratios).map(show).unwrap_or_default(),
        ]);
    }
    format!(
        "\n## Reaching {leader}{title}\n\nCases in which a solver has a plan no worse than the answer of {leader}; medians \
         of the seconds and the simulations until then; and the geometric mean of the time that {leader} took to its \
         answer over the time until then, with its 95% interval over inputs.\n\n{}",
        grid.markdown()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(solver: &str, moments: &[(f64, u64, f64)]) -> Row {
        let moments: Vec<Moment> = moments
            .iter()
            .map(|&(elapsed_s, count, value_s)| Moment { elapsed_s, simulations: Some(count), value_s })
            .collect();
        Row {
            solver: solver.into(),
            value_s: moments.last().map(|moment| moment.value_s),
            files: ["a".into(), String::new()],
            moments,
            ..Row::default()
        }
    }

    #[test]
    fn values_are_those_by_then() {
        let asked = Asked { seconds: vec![1.0, 4.0], simulations: vec![10], reaches: vec!["slow".into()] };
        let rows = [
            row("quick", &[(0.5, 1, 8.0), (1.0, 20, 4.0), (2.0, 40, 2.0)]),
            row("slow", &[(2.0, 5, 6.0), (3.0, 9, 4.0)]),
        ];
        let text = markdown(&rows, &asked);
        assert!(text.contains("| quick | 2.0000 | 1.0000 | 4.0000 |"), "{text}");
        assert!(text.contains("| slow |  | 2.0000 | 2.0000 |"), "{text}");
        // It had the 4 s after 1 s and 20 simulations, the other after 3 s.
        assert!(text.contains("| quick | 1 | 1 | 1.00 s | 20 | 3.0000 |"), "{text}");
    }

    #[test]
    fn who_never_gets_there_has_no_time() {
        let asked = Asked { reaches: vec!["good".into()], ..Asked::default() };
        let text = markdown(&[row("good", &[(1.0, 1, 1.0)]), row("bad", &[(1.0, 1, 2.0)])], &asked);
        assert!(text.contains("| bad | 1 | 0 |  |  |  |"), "{text}");
    }
}
