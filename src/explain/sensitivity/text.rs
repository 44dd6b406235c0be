//! Text form of a sensitivity.

use super::{Boundary, Sensitivity};
use crate::report::grid::{Column, Grid};
use crate::report::units::{name, percent, seconds};

impl Sensitivity {
    /// The sensitivity as lines of text.
    pub(in crate::explain) fn lines(&self) -> Vec<String> {
        let off = percent(self.deviation);
        let mut lines = vec![match (self.interval_s, self.seen_s) {
            (Some([low, high]), _) => {
                format!("{} to {} if every cost is off by at most {off}", seconds(low), seconds(high))
            }
            (None, Some([low, high])) => format!(
                "{} to {} in {} samples of costs off by at most {off}; other costs may give values outside",
                seconds(low),
                seconds(high),
                self.samples
            ),
            (None, None) => "unknown".into(),
        }];
        if self.samples > 0 {
            let better = match self.better {
                0 => "no better plan is known in any".into(),
                better => format!("a better plan is known in {better}"),
            };
            let solved = match self.solved {
                solved if solved == self.samples => "all were solved to optimality".into(),
                solved => format!("{solved} were solved to optimality"),
            };
            lines.push(format!("{better} of {} samples of such costs; {solved}", self.samples));
        }
        if let Some(drawn) = &self.drawn {
            let possible = match drawn.largest_possible_loss {
                Some(possible) if possible > drawn.largest_loss + 1e-6 => {
                    format!("; by the bounds at most {}", percent(possible))
                }
                Some(_) => String::new(),
                None => "; some draws have no bound".into(),
            };
            lines.push(format!(
                "regret over {} draws of independent errors: median {}, largest {}{possible}",
                drawn.draws,
                percent(drawn.median_loss),
                percent(drawn.largest_loss),
            ));
        }
        lines.extend(self.missing.iter().cloned());
        lines
    }

    /// The cases and the boundaries, if there are any.
    pub(in crate::explain) fn grids(&self) -> Vec<Grid> {
        let mut grids = Vec::new();
        if !self.cases.is_empty() {
            let mut grid = Grid::of(&[
                (Column::Words, &["if"]),
                (Column::Figures, &["this plan", "best plan known", "no plan below", "regret"]),
            ]);
            for case in &self.cases {
                grid.row([
                    case.costs.clone(),
                    seconds(case.value_s),
                    seconds(case.best_s),
                    case.bound_s.map_or_else(|| "none".into(), seconds),
                    percent(case.loss),
                ]);
            }
            grids.push(grid);
        }
        if !self.boundaries.is_empty() {
            let mut grid = Grid::of(&[
                (Column::Names, &["boundary after", "and before"]),
                (Column::Figures, &["samples that move it", "median regret", "largest regret"]),
            ]);
            for boundary in &self.boundaries {
                grid.row(row(boundary));
            }
            grids.push(grid);
        }
        grids
    }
}

fn row(boundary: &Boundary) -> [String; 5] {
    [
        name(&boundary.before),
        name(&boundary.after),
        boundary.moved.to_string(),
        percent(boundary.median_loss),
        percent(boundary.largest_loss),
    ]
}
