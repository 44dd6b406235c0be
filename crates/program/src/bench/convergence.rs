//! Convergence of solvers: value over time, and time to a target, which is the answer of a chosen solver.

use std::collections::BTreeMap;

use stagewright::core::tolerance;
use stagewright::report::grid::{Column, Grid};
use stagewright::report::units::seconds;
use stagewright::text;

use super::case::Row;
use super::moment::{Asked, Moment};
use super::summary::{Ground, best_values, ground, mean, objectives, ratio, show, title_of};
use super::table::median;

/// Measure of the effort of a solve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EffortMeasure {
    Seconds,
    Simulations,
}

impl EffortMeasure {
    /// The effort spent up to a moment; `None` if it was not counted.
    fn of(self, moment: &Moment) -> Option<f64> {
        match self {
            EffortMeasure::Seconds => Some(moment.elapsed_s),
            EffortMeasure::Simulations => moment.simulations.map(|count| count as f64),
        }
    }

    fn title(self, limit: f64) -> String {
        match self {
            EffortMeasure::Seconds => format!("{limit} s"),
            EffortMeasure::Simulations => format!("{limit} simulations"),
        }
    }

    /// The best value that a run found within an effort.
    fn value_by(self, limit: f64, row: &Row) -> Option<f64> {
        let is_by_then = |moment: &&Moment| self.of(moment).is_some_and(|effort| effort <= limit);
        row.moments.iter().rfind(is_by_then).map(|moment| moment.value_s)
    }
}

/// Number of intervals between the points of a curve.
const POINTS: usize = 120;

/// The geometric mean of the value so far, relative to the best of its case, as a function of the effort. The curve
/// starts when every case of the solver has a plan and ends at the last improvement. It is empty if efforts were not
/// counted, or if a case has no plan.
#[cfg_attr(not(feature = "plots"), expect(dead_code, reason = "only plots show it"))]
pub(super) fn curve(rows: &[&Row], solver: &str, effort: EffortMeasure) -> Vec<(f64, f64)> {
    let best = best_values(rows.iter().copied());
    let own: Vec<&Row> = rows.iter().filter(|row| row.solver == solver).copied().collect();
    let firsts: Option<Vec<f64>> =
        own.iter().map(|row| row.moments.first().and_then(|moment| effort.of(moment))).collect();
    let Some(from) = firsts.and_then(|firsts| firsts.into_iter().reduce(f64::max)) else { return Vec::new() };
    let lasts = own.iter().filter_map(|row| row.moments.last().and_then(|moment| effort.of(moment)));
    let to = lasts.fold(from, f64::max);
    if from <= 0.0 {
        return Vec::new();
    }
    let point = |index: usize| {
        // The last point is exact: rounding could miss it.
        let x = match index {
            POINTS => to,
            _ => from * (to / from).powf(index as f64 / POINTS as f64),
        };
        let over = |row: &&Row| ratio(effort.value_by(x, row)?, *best.get(&ground(row))?);
        let logs: Vec<f64> = own.iter().filter_map(over).map(f64::ln).collect();
        (!logs.is_empty()).then(|| (x, (logs.iter().sum::<f64>() / logs.len() as f64).exp()))
    };
    (0..=POINTS).filter_map(point).collect()
}

/// The first improvement of a run that reaches `value`, within the tolerance.
fn reached(row: &Row, value: f64) -> Option<Moment> {
    let is_there = |moment: &&Moment| moment.value_s <= value || tolerance::same(moment.value_s, value);
    row.moments.iter().find(is_there).copied()
}

/// Formats the tables of all objectives as Markdown.
pub(super) fn markdown(rows: &[Row], asked: &Asked) -> String {
    let mut text = String::new();
    for (objective, solvers) in objectives(rows) {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.objective == objective).collect();
        let title = title_of(objective);
        text += &after(&rows, &solvers, asked, &title);
        for leader in &asked.reaches {
            text += &reach(&rows, &solvers, leader, &title);
        }
    }
    text
}

/// A table of each solver's value relative to the best of the case, after given times or numbers of simulations.
fn after(rows: &[&Row], solvers: &[&str], asked: &Asked, title: &str) -> String {
    let seconds = asked.seconds.iter().map(|&limit| (EffortMeasure::Seconds, limit));
    let simulations = asked.simulations.iter().map(|&limit| (EffortMeasure::Simulations, limit as f64));
    let columns: Vec<(EffortMeasure, f64)> = seconds.chain(simulations).collect();
    if columns.is_empty() {
        return String::new();
    }
    let best = best_values(rows.iter().copied());
    let titles: Vec<String> = columns.iter().map(|(effort, limit)| effort.title(*limit)).collect();
    let figures = titles.iter().map(|title| (title.as_str(), Column::Figures));
    let mut grid = Grid::new(std::iter::once(("solver", Column::Names)).chain(figures));
    for solver in solvers {
        let own: Vec<&Row> = rows.iter().filter(|row| row.solver == *solver).copied().collect();
        let cell = |&(effort, limit): &(EffortMeasure, f64)| {
            let over = |row: &&Row| {
                Some((row.files[0].clone(), ratio(effort.value_by(limit, row)?, *best.get(&ground(row))?)?))
            };
            let ratios: Vec<(String, f64)> = own.iter().filter_map(over).collect();
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

/// A table of each solver's time to reach the answer of `leader`.
fn reach(rows: &[&Row], solvers: &[&str], leader: &str, title: &str) -> String {
    let led: BTreeMap<Ground<'_>, &Row> =
        rows.iter().filter(|row| row.solver == leader).map(|row| (ground(row), *row)).collect();
    let mut grid = Grid::of(&[
        (Column::Names, &["solver"]),
        (Column::Figures, &["cases", "reached", "seconds", "simulations", "times as fast", "times as few"]),
    ]);
    for solver in solvers.iter().filter(|solver| **solver != leader) {
        let own = rows.iter().filter(|row| row.solver == *solver);
        let pairs: Vec<(&Row, &Row, f64)> = own
            .filter_map(|row| {
                let leader = *led.get(&ground(row))?;
                Some((*row, leader, leader.value_s?))
            })
            .collect();
        // The moments at which the solver and the leader reached the target.
        let there: Vec<(&Row, Moment, Moment)> = pairs
            .iter()
            .filter_map(|(row, leader, value)| Some((*row, reached(row, *value)?, reached(leader, *value)?)))
            .collect();
        let middle = |effort: EffortMeasure| {
            let mut list: Vec<f64> = there.iter().filter_map(|(_, own, _)| effort.of(own)).collect();
            list.sort_by(f64::total_cmp);
            (!list.is_empty()).then(|| median(&list))
        };
        let faster = |effort: EffortMeasure| {
            let ratio = |(row, own, leader): &(&Row, Moment, Moment)| {
                let ratio = effort.of(leader)? / effort.of(own)?;
                (ratio.is_finite() && ratio > 0.0).then(|| (row.files[0].clone(), ratio))
            };
            let ratios: Vec<(String, f64)> = there.iter().filter_map(ratio).collect();
            mean(&ratios).map(show).unwrap_or_default()
        };
        grid.row([
            (*solver).to_owned(),
            pairs.len().to_string(),
            there.len().to_string(),
            middle(EffortMeasure::Seconds).map(seconds).unwrap_or_default(),
            middle(EffortMeasure::Simulations).map(|count| format!("{count:.0}")).unwrap_or_default(),
            faster(EffortMeasure::Seconds),
            faster(EffortMeasure::Simulations),
        ]);
    }
    let leader = text::markdown(leader);
    format!(
        "\n## Reaching {leader}{title}\n\nCases in which a solver has a plan no worse than the answer of {leader}; medians \
         of the seconds and the simulations until then; and the geometric means of the seconds and the simulations that \
         {leader} took to its answer over those until then, with 95% intervals over inputs. All but the first two columns \
         are of the cases in which it was reached.\n\n{}",
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
        // `quick` reached a value of 4 after 1 s and 20 simulations, `slow` after 3 s and 9.
        assert!(text.contains("| quick | 1 | 1 | 1.0000 s | 20 | 3.0000 | 0.4500 |"), "{text}");
    }

    #[test]
    fn who_never_gets_there_has_no_time() {
        let asked = Asked { reaches: vec!["good".into()], ..Asked::default() };
        let text = markdown(&[row("good", &[(1.0, 1, 1.0)]), row("bad", &[(1.0, 1, 2.0)])], &asked);
        assert!(text.contains("| bad | 1 | 0 |  |  |  |  |"), "{text}");
    }
}
