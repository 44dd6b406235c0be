//! Paired comparison of one solver with each of the others.
//!
//! Values are compared on the same input, cluster, objective and seed. Wilcoxon's signed-rank test ("Individual
//! comparisons by ranking methods", Biometrics Bulletin 1945) tests whether the logarithms of the ratios are symmetric
//! around zero. The sample consists of inputs: cases of one input are not independent, so only their mean counts.

use std::collections::BTreeMap;

use stagewright::report::grid::{Column, Grid};
use stagewright::text;

use super::case::Row;
use super::summary::{Mean, by_input, mean, ratio, show, title_of};

/// Minimum number of nonzero differences at which the normal approximation is used.
const FEWEST: usize = 10;

/// The comparison of the solver under study with another solver.
#[derive(Debug, Clone)]
pub(super) struct Paired {
    pub(super) objective: String,
    pub(super) solver: String,
    /// Number of cases in which both solvers have a plan; the next fields count those in which the solver under study
    /// is better and worse.
    pub(super) cases: usize,
    pub(super) better: usize,
    pub(super) worse: usize,
    /// Mean ratio between the value of the solver under study and that of the other solver.
    pub(super) ratio: Option<Mean>,
    /// Two-sided p-value of Wilcoxon's signed-rank test.
    pub(super) p: Option<f64>,
}

/// Compares one solver with every other solver, in the order of their first cases.
pub(super) fn paired(rows: &[Row], looked_at: &str) -> Vec<Paired> {
    let key =
        |row: &'_ Row| -> (String, [String; 2], u64) { (row.objective.clone(), row.files.clone(), row.seed) };
    let mut own = BTreeMap::new();
    for row in rows.iter().filter(|row| row.solver == looked_at) {
        own.insert(key(row), row.value_s);
    }
    let mut order: Vec<(&str, &str)> = Vec::new();
    for row in rows.iter().filter(|row| row.solver != looked_at) {
        let pair = (row.objective.as_str(), row.solver.as_str());
        if !order.contains(&pair) {
            order.push(pair);
        }
    }
    let one = |(objective, solver): (&str, &str)| {
        let of = rows.iter().filter(|row| row.objective == objective && row.solver == solver);
        let over = |row: &Row| {
            let value = own.get(&key(row)).copied().flatten()?;
            Some((row.files[0].clone(), ratio(value, row.value_s?)?))
        };
        let ratios: Vec<(String, f64)> = of.filter_map(over).collect();
        let means: Vec<f64> = by_input(&ratios).into_iter().map(|(sum, count)| sum / count).collect();
        Paired {
            objective: objective.into(),
            solver: solver.into(),
            cases: ratios.len(),
            better: ratios.iter().filter(|(_, ratio)| *ratio < 1.0).count(),
            worse: ratios.iter().filter(|(_, ratio)| *ratio > 1.0).count(),
            p: signed_ranks(&means),
            ratio: mean(&ratios),
        }
    };
    order.into_iter().map(one).collect()
}

/// The two-sided p-value of Wilcoxon's signed-rank test that differences are symmetric around zero, using the normal
/// approximation with corrections for ties and continuity. Zero differences do not count; `None` if fewer than ten
/// differences remain.
fn signed_ranks(differences: &[f64]) -> Option<f64> {
    let mut left: Vec<f64> = differences.iter().copied().filter(|difference| *difference != 0.0).collect();
    if left.len() < FEWEST {
        return None;
    }
    left.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let count = left.len() as f64;
    let (mut positive, mut ties, mut at) = (0.0, 0.0, 0);
    while at < left.len() {
        let end = at + left[at..].iter().take_while(|other| other.abs() == left[at].abs()).count();
        let tied = (end - at) as f64;
        // Ranks from 1; ties share their mean rank.
        let rank = (at + 1 + end) as f64 / 2.0;
        positive += rank * left[at..end].iter().filter(|difference| **difference > 0.0).count() as f64;
        ties += tied * tied * tied - tied;
        at = end;
    }
    let mean = count * (count + 1.0) / 4.0;
    let variance = count * (count + 1.0) * (2.0 * count + 1.0) / 24.0 - ties / 48.0;
    let away = ((positive - mean).abs() - 0.5).max(0.0);
    Some(libm::erfc(away / (2.0 * variance).sqrt()))
}

/// Formats the tables of all objectives as Markdown.
pub(super) fn markdown(pairs: &[Paired], looked_at: &str) -> String {
    let mut text = String::new();
    for group in pairs.chunk_by(|left, right| left.objective == right.objective) {
        let objective = &group[0].objective;
        let (title, looked_at) = (title_of(objective), text::markdown(looked_at));
        text.push_str(&format!(
            "\n## {looked_at} against each{title}\n\nGeometric mean of its value over theirs with 95% intervals over \
             inputs; p by Wilcoxon's signed-rank test over inputs.\n\n"
        ));
        let mut grid = Grid::of(&[
            (Column::Names, &["against"]),
            (Column::Figures, &["cases", "better", "worse", "ratio", "p"]),
        ]);
        for pair in group {
            grid.row([
                pair.solver.clone(),
                pair.cases.to_string(),
                pair.better.to_string(),
                pair.worse.to_string(),
                pair.ratio.map(show).unwrap_or_default(),
                pair.p.map(|p| format!("{p:.1e}")).unwrap_or_default(),
            ]);
        }
        text.push_str(&grid.markdown());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(input: usize, solver: &str, value: f64) -> Row {
        Row {
            files: [format!("input {input}"), String::new()],
            solver: solver.into(),
            value_s: Some(value),
            ..Row::default()
        }
    }

    #[test]
    fn ranks_agree_with_a_worked_example() {
        // The positive ranks sum to 39 of 55, so z = (39 - 27.5 - 0.5) / sqrt(96.25).
        let p = signed_ranks(&[1.1, -0.2, 0.9, 0.4, -0.7, 1.5, -0.3, 0.8, 0.6, -1.0]).expect("ten differ");
        assert!((p - 0.26219).abs() < 5e-6, "{p}");
        assert_eq!(signed_ranks(&[1.0; 9]), None);
    }

    #[test]
    fn pairs_are_of_the_same_case() {
        let mut rows = Vec::new();
        for input in 0..12 {
            rows.push(row(input, "hero", 1.0));
            rows.push(row(input, "other", if input == 0 { 0.5 } else { 2.0 }));
            rows.push(row(input, "twin", 1.0));
        }
        rows.push(row(99, "other", 1.0));
        let pairs = paired(&rows, "hero");
        let [other, twin] = &pairs[..] else { panic!("{pairs:?}") };
        assert_eq!((other.cases, other.better, other.worse), (12, 11, 1));
        assert!(other.p.is_some_and(|p| p < 0.05), "{other:?}");
        assert_eq!((twin.cases, twin.better, twin.worse, twin.p), (12, 0, 0, None));
        assert!(markdown(&pairs, "hero").contains("| twin | 12 | 0 | 0 | 1.0000"));
    }
}
