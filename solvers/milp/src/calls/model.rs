//! The program of a scope in variables and rows; see [`super`] for their meaning.

use good_lp::solvers::highs::{HighsProblem, highs};
use good_lp::{Constraint, Expression, ProblemVariables, SolverModel};
use stagewright_core::solver::Stop;

use super::reach::Reach;
use super::scope::{CallId, Scope};
use super::seats::SeatId;
pub use super::writer::Range;
use super::writer::Writer;
use crate::choice::Choices;
use crate::run::Model;

/// Optional rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rows {
    /// Rows of the order of calls; only for a whole problem, since in a part of a plan calls keep their names.
    pub order: bool,
    /// Rows that exclude every cycle, however short.
    pub positions: bool,
}

/// The program.
pub struct CallsModel {
    variables: ProblemVariables,
    rows: Vec<Constraint>,
    objective: Expression,
    choices: Choices<SeatId>,
    /// Two open calls, and the column of the variable that is 1 if the second waits for the first.
    follows: Vec<(CallId, CallId, usize)>,
    unit_seconds: f64,
}

impl CallsModel {
    /// Builds the program of a scope; `None` on stop. O(calls · (operators + edges) · (seats of a block + calls)).
    pub fn new<'a>(
        scope: &'a Scope<'a>,
        reach: &'a Reach,
        range: Range,
        rows: Rows,
        stop: &Stop,
    ) -> Option<CallsModel> {
        let mut writer = Writer::new(scope, reach, range);
        let steps: [fn(&mut Writer<'a>); 7] = [
            Writer::seats,
            Writer::times,
            Writer::tensors,
            Writer::calls,
            Writer::memory,
            Writer::edges,
            Writer::add_paths,
        ];
        let on_request =
            [(rows.order, Writer::add_order as fn(&mut Writer<'a>)), (rows.positions, Writer::add_positions)];
        let requested = on_request.into_iter().filter(|&(requested, _)| requested).map(|(_, step)| step);
        for step in steps.into_iter().chain(requested) {
            if stop.reason().is_some() {
                return None;
            }
            step(&mut writer);
        }
        Some(CallsModel {
            objective: writer.value.into(),
            variables: writer.variables,
            rows: writer.rows,
            choices: Choices {
                columns: writer.choices,
                first: scope.blocks.iter().map(|block| block.domain[0]).collect(),
            },
            follows: writer.follows,
            unit_seconds: writer.unit,
        })
    }

    /// Column values of a warm start with the given seat for every block. `follows` returns whether the
    /// second of two open calls waits for the first.
    pub fn start(&self, chosen: &[SeatId], follows: impl Fn(CallId, CallId) -> bool) -> Vec<f64> {
        let mut columns = vec![0.0; self.variables.len()];
        self.choices.write(chosen, &mut columns);
        for &(call, next, column) in &self.follows {
            columns[column] = f64::from(u8::from(follows(call, next)));
        }
        columns
    }
}

impl Model for CallsModel {
    type Choice = SeatId;

    fn into_highs(self) -> HighsProblem {
        let mut program = self.variables.minimise(self.objective).using(highs);
        for row in self.rows {
            program.add_constraint(row);
        }
        program
    }

    fn choices(&self) -> &Choices<SeatId> {
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
