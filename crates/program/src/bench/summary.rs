//! Summary of each solver over all cases.
//!
//! Ratios are averaged by their geometric mean. Its interval is a 95% percentile bootstrap over inputs (Efron and
//! Tibshirani, *An Introduction to the Bootstrap*, 1993): the cases of one input, on all its clusters and seeds, are
//! drawn together, because they are not independent.

use std::collections::BTreeMap;

use rand::RngExt;
use stagewright::core::document::OriginDocument;
use stagewright::core::{seed, tolerance};
use stagewright::report::grid::{Column, Grid};
use stagewright::report::units::seconds;
use stagewright::text;

use super::case::Row;

/// Number of bootstrap samples.
const DRAWS: usize = 2000;
/// Fraction of the samples on either side of the interval.
const OUTSIDE: f64 = 0.025;

/// A mean of ratios with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mean {
    pub(super) value: f64,
    /// Interval of the mean; `None` if there are fewer than two inputs.
    pub(super) interval: Option<[f64; 2]>,
}

/// Results of one solver over all cases of one objective.
#[derive(Debug, Clone)]
pub(super) struct Summary {
    pub(super) objective: String,
    pub(super) solver: String,
    pub(super) cases: usize,
    /// Number of cases with a plan.
    pub(super) solved: usize,
    /// Number of cases in which no solver has a better plan.
    pub(super) best: usize,
    /// Value of the solver relative to the best of the case, for every case with a plan.
    #[cfg_attr(not(feature = "plots"), expect(dead_code, reason = "only plots show it"))]
    pub(super) ratios: Vec<f64>,
    pub(super) over_best: Option<Mean>,
    /// Mean value of the solver relative to the strongest bound of the case.
    pub(super) over_bound: Option<Mean>,
    /// Geometric mean of the solver's times.
    pub(super) seconds: Option<f64>,
}

/// Key that comparable cases share: everything but the solver.
pub(super) type Ground<'a> = (&'a str, &'a [String; 2], u64);

pub(super) fn ground(row: &Row) -> Ground<'_> {
    (&row.objective, &row.files, row.seed)
}

/// Ratio of two values; exactly 1 if they differ only by rounding, and `None` if it is not finite and positive.
pub(super) fn ratio(value: f64, other: f64) -> Option<f64> {
    let ratio = if tolerance::same(value, other) { 1.0 } else { value / other };
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

/// The best value of every case.
pub(super) fn best_values<'a>(rows: impl Iterator<Item = &'a Row>) -> BTreeMap<Ground<'a>, f64> {
    let mut best: BTreeMap<Ground<'_>, f64> = BTreeMap::new();
    for row in rows {
        if let Some(value) = row.value_s {
            let least = best.entry(ground(row)).or_insert(value);
            *least = least.min(value);
        }
    }
    best
}

/// The objectives, each with its solvers, in the order of their first cases.
pub(super) fn objectives(rows: &[Row]) -> Vec<(&str, Vec<&str>)> {
    let mut objectives: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows {
        let at = objectives.iter().position(|(objective, _)| *objective == row.objective);
        let at = at.unwrap_or_else(|| {
            objectives.push((&row.objective, Vec::new()));
            objectives.len() - 1
        });
        let solvers = &mut objectives[at].1;
        if !solvers.contains(&row.solver.as_str()) {
            solvers.push(&row.solver);
        }
    }
    objectives
}

/// Summaries by objective and solver, each in the order of first cases.
pub(super) fn summaries(rows: &[Row]) -> Vec<Summary> {
    let best = best_values(rows.iter());
    let mut bound: BTreeMap<Ground<'_>, f64> = BTreeMap::new();
    for row in rows {
        if let Some(value) = row.bound_s {
            let most = bound.entry(ground(row)).or_insert(value);
            *most = most.max(value);
        }
    }
    let summary = |(objective, solver): (&str, &str)| {
        let rows = || rows.iter().filter(move |row| row.objective == objective && row.solver == solver);
        let over = |best: &BTreeMap<Ground<'_>, f64>| -> Vec<(String, f64)> {
            let over =
                |row: &Row| Some((row.files[0].clone(), ratio(row.value_s?, *best.get(&ground(row))?)?));
            rows().filter_map(over).collect()
        };
        let over_best = over(&best);
        let times: Vec<f64> = rows().map(|row| super::table::median(&row.seconds)).collect();
        Summary {
            objective: objective.into(),
            solver: solver.into(),
            cases: rows().count(),
            solved: rows().filter(|row| row.value_s.is_some()).count(),
            best: over_best.iter().filter(|(_, ratio)| *ratio <= 1.0).count(),
            over_bound: mean(&over(&bound)),
            over_best: mean(&over_best),
            ratios: over_best.into_iter().map(|(_, ratio)| ratio).collect(),
            seconds: geometric(&times),
        }
    };
    let each = |(objective, solvers): (&'_ str, Vec<&'_ str>)| -> Vec<Summary> {
        solvers.into_iter().map(|solver| summary((objective, solver))).collect()
    };
    objectives(rows).into_iter().flat_map(each).collect()
}

/// The group of an input: its file name without trailing numbers, which is the family of a random problem.
pub(super) fn group_of(input: &str) -> &str {
    let mut group = input;
    while let Some((rest, last)) = group.rsplit_once('-')
        && !last.is_empty()
        && last.bytes().all(|digit| digit.is_ascii_digit())
    {
        group = rest;
    }
    group
}

/// A table of each solver's value relative to the best value and to the bound, by group of inputs, as Markdown.
pub(super) fn markdown_by_group(rows: &[Row]) -> String {
    let mut groups: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    for row in rows {
        groups.entry(group_of(&row.input)).or_default().push(row.clone());
    }
    let mut grid = Grid::of(&[
        (Column::Names, &["group", "objective", "solver"]),
        (Column::Figures, &["cases", "value over the best", "value over the bound"]),
    ]);
    for (group, rows) in groups {
        for summary in summaries(&rows) {
            grid.row([
                group.to_owned(),
                summary.objective,
                summary.solver,
                summary.solved.to_string(),
                summary.over_best.map(show).unwrap_or_default(),
                summary.over_bound.map(show).unwrap_or_default(),
            ]);
        }
    }
    format!(
        "\n## By group\n\nInputs whose names differ in the numbers at their ends are a group.\n\n{}",
        grid.markdown()
    )
}

fn geometric(values: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = values.iter().filter(|&&value| value > 0.0).map(|value| value.ln()).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// Sum and count of the logarithms of each input's ratios.
pub(super) fn by_input(ratios: &[(String, f64)]) -> Vec<(f64, f64)> {
    let mut inputs: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (input, ratio) in ratios {
        let entry = inputs.entry(input).or_default();
        *entry = (entry.0 + ratio.ln(), entry.1 + 1.0);
    }
    inputs.into_values().collect()
}

/// The geometric mean of ratios, with its bootstrap interval over inputs.
pub(super) fn mean(ratios: &[(String, f64)]) -> Option<Mean> {
    let all: Vec<f64> = ratios.iter().map(|(_, ratio)| *ratio).collect();
    let value = geometric(&all)?;
    let inputs = by_input(ratios);
    if inputs.len() < 2 {
        return Some(Mean { value, interval: None });
    }
    let mut draws = seed::stream(0, 0);
    let mut means: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let drawn = (0..inputs.len()).map(|_| inputs[draws.random_range(0..inputs.len())]);
            let (sum, count) = drawn.fold((0.0, 0.0), |all, input| (all.0 + input.0, all.1 + input.1));
            (sum / count).exp()
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let outside = (OUTSIDE * DRAWS as f64) as usize;
    Some(Mean { value, interval: Some([means[outside], means[DRAWS - 1 - outside]]) })
}

/// Figures of the tables by solver.
const MEANS: &str = "Geometric means with 95% intervals over inputs.";

/// Formats the tables of all objectives as Markdown.
pub(super) fn markdown(summaries: &[Summary]) -> String {
    let tables = of_objectives(summaries).map(|(objective, grid)| {
        format!("\n## By solver{}\n\n{MEANS}\n\n{}", title_of(objective), grid.markdown())
    });
    tables.collect()
}

/// Formats the tables of all objectives as LaTeX, with comments that state the suite, the program and the objectives.
pub(super) fn latex(summaries: &[Summary], suite: &str, origin: &OriginDocument) -> String {
    let words = [origin.command.as_deref(), origin.date.as_deref()];
    let mut comments = vec!["Needs \\usepackage{booktabs}.".to_owned(), text::visible(suite).into_owned()];
    comments.extend([MEANS.to_owned(), format!("stagewright {}", origin.version)]);
    comments.extend(words.into_iter().flatten().map(|word| text::visible(word).into_owned()));
    let head: String = comments.iter().map(|line| format!("% {line}\n")).collect();
    let tables = of_objectives(summaries).map(|(objective, grid)| {
        let objective = if objective.is_empty() { "default" } else { objective };
        format!("% objective: {}\n{}", text::visible(objective), grid.latex(false))
    });
    head + &tables.collect::<Vec<_>>().join("\n")
}

/// The objectives with their tables.
fn of_objectives(summaries: &[Summary]) -> impl Iterator<Item = (&str, Grid)> {
    summaries.chunk_by(|left, right| left.objective == right.objective).map(|group| {
        let mut grid = Grid::of(&[
            (Column::Names, &["solver"]),
            (
                Column::Figures,
                &["cases", "with a plan", "best", "value over the best", "value over the bound", "time"],
            ),
        ]);
        for summary in group {
            let shown = |mean: Option<Mean>| mean.map(show).unwrap_or_default();
            grid.row([
                summary.solver.clone(),
                summary.cases.to_string(),
                summary.solved.to_string(),
                summary.best.to_string(),
                shown(summary.over_best),
                shown(summary.over_bound),
                summary.seconds.map(seconds).unwrap_or_default(),
            ]);
        }
        (group[0].objective.as_str(), grid)
    })
}

/// End of the heading of a table about one objective.
pub(super) fn title_of(objective: &str) -> String {
    if objective.is_empty() { String::new() } else { format!(", {}", text::markdown(objective)) }
}

pub(super) fn show(mean: Mean) -> String {
    match mean.interval {
        Some([from, to]) => format!("{:.4} ({from:.4} to {to:.4})", mean.value),
        None => format!("{:.4}", mean.value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(input: &str, solver: &str, value: Option<f64>) -> Row {
        Row {
            files: [input.into(), String::new()],
            solver: solver.into(),
            value_s: value,
            bound_s: Some(1.0),
            seconds: vec![0.5],
            ..Row::default()
        }
    }

    #[test]
    fn means_are_over_the_best_of_each_case() {
        let rows = [
            row("a", "one", Some(2.0)),
            row("a", "two", Some(4.0)),
            row("b", "one", Some(8.0)),
            row("b", "two", Some(1.0)),
            row("c", "two", None),
        ];
        let summaries = summaries(&rows);
        let [one, two] = &summaries[..] else { panic!("{summaries:?}") };
        assert_eq!((one.cases, one.solved, one.best), (2, 2, 1));
        assert_eq!((two.cases, two.solved, two.best), (3, 2, 1));
        let (first, second) = (one.over_best.expect("a mean"), two.over_best.expect("a mean"));
        assert!((first.value - 8f64.sqrt()).abs() < 1e-12, "{first:?}");
        assert!((second.value - 2f64.sqrt()).abs() < 1e-12, "{second:?}");
        let [from, to] = first.interval.expect("two inputs");
        assert!(from >= 1.0 - 1e-12 && from <= first.value && first.value <= to && to <= 8.0 + 1e-9);
        assert!((one.over_bound.expect("a mean").value - 4.0).abs() < 1e-12);
    }

    #[test]
    fn groups_are_names_without_the_numbers_at_their_ends() {
        assert_eq!(group_of("inception-v3-102-0"), "inception-v3");
        assert_eq!(group_of("layered"), "layered");
        assert_eq!(group_of("7"), "7");
    }

    #[test]
    fn one_input_has_no_interval() {
        let summaries = summaries(&[row("a", "one", Some(2.0))]);
        assert_eq!(summaries[0].over_best, Some(Mean { value: 1.0, interval: None }));
        assert!(markdown(&summaries).contains("| one | 1 | 1 | 1 | 1.0000 | 2.0000 | 500.00 ms |"));
    }
}
