//! Choice variables: each item has one of several choices. An item with a single choice is a constant; any other item
//! has a binary column for each choice.

use good_lp::{Expression, Variable};

/// The columns of the choices.
#[derive(Debug, Clone, Default)]
pub struct Choices<C> {
    /// `[item]`: choices with their columns; empty if there is only one choice.
    pub(crate) columns: Vec<Vec<(C, usize)>>,
    /// `[item]`: first choice of the item.
    pub(crate) first: Vec<C>,
}

impl<C: Copy + Eq> Choices<C> {
    /// Whether every item has only one choice.
    pub(crate) fn are_made(&self) -> bool {
        self.columns.iter().all(Vec::is_empty)
    }

    /// The choice of each item in a solution.
    pub(crate) fn read(&self, values: &[f64]) -> Vec<C> {
        let chosen = |(columns, first): (&Vec<(C, usize)>, &C)| {
            let largest = columns.iter().max_by(|a, b| values[a.1].total_cmp(&values[b.1]));
            largest.map_or(*first, |&(choice, _)| choice)
        };
        self.columns.iter().zip(&self.first).map(chosen).collect()
    }

    /// Sets the column of the chosen choice of each item to one.
    pub(crate) fn write(&self, chosen: &[C], values: &mut [f64]) {
        for (columns, choice) in self.columns.iter().zip(chosen) {
            for &(_, column) in columns.iter().filter(|(own, _)| own == choice) {
                values[column] = 1.0;
            }
        }
    }
}

/// A variable or a constant.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Term {
    Constant(f64),
    Variable(Variable),
}

impl Term {
    pub(crate) fn expression(self) -> Expression {
        match self {
            Term::Constant(value) => value.into(),
            Term::Variable(variable) => variable.into(),
        }
    }

    pub(crate) fn is_zero(self) -> bool {
        matches!(self, Term::Constant(0.0))
    }
}
