//! The program of a scope in variables and rows; see [`super`] for what they say.

use good_lp::solvers::highs::{HighsProblem, highs};
use good_lp::{Constraint, Expression, ProblemVariables, SolverModel};

use super::reach::Reach;
use super::scope::Scope;
use super::writer::Writer;
use crate::choice::Choices;
use crate::run::Model;

/// By how much more than the known value a plan may be worth, which is rounding.
pub(super) const SLACK: f64 = 1e-9;

/// What is known before the program is solved.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// A lower bound on the value, seconds.
    pub low: f64,
    /// The value of a plan, or of any plan that loses no time; finite.
    pub high: f64,
}

/// Rows that a program may do without.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rows {
    /// Those of the order of calls, for the whole of a problem alone: in a part calls have their names.
    pub order: bool,
    /// Those that exclude every cycle, however short.
    pub positions: bool,
}

/// The program.
pub struct CallsModel {
    pub(super) variables: ProblemVariables,
    pub(super) rows: Vec<Constraint>,
    pub(super) objective: Expression,
    pub(super) choices: Choices,
    /// Column of the variable that says whether an open call comes after another.
    pub(super) follows: Vec<(u32, u32, usize)>,
    pub(super) unit_seconds: f64,
}

impl CallsModel {
    /// The program of a scope. O(calls · (operators + edges) · (seats of a block + calls)).
    pub fn new(scope: &Scope<'_>, reach: &Reach, range: Range, rows: Rows) -> CallsModel {
        let mut writer = Writer::new(scope, reach, range);
        writer.add_paths();
        if rows.order {
            writer.add_order();
        }
        if rows.positions {
            writer.add_positions();
        }
        writer.write()
    }

    /// The columns of a start from a seat for every block. `follows` says whether the second of two open
    /// calls waits for the first.
    pub fn start(&self, chosen: &[u32], follows: impl Fn(u32, u32) -> bool) -> Vec<f64> {
        let mut columns = vec![0.0; self.variables.len()];
        self.choices.write(chosen, &mut columns);
        for &(one, next, column) in &self.follows {
            columns[column] = f64::from(u8::from(follows(one, next)));
        }
        columns
    }
}

impl Model for CallsModel {
    fn into_highs(self) -> HighsProblem {
        let mut program = self.variables.minimise(self.objective).using(highs);
        for row in self.rows {
            program.add_constraint(row);
        }
        program
    }

    fn choices(&self) -> &Choices {
        &self.choices
    }

    fn is_linear(&self) -> bool {
        self.choices.are_made() && self.follows.is_empty()
    }

    fn columns(&self) -> usize {
        self.variables.len()
    }

    fn unit_seconds(&self) -> f64 {
        self.unit_seconds
    }
}
