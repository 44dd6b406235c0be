//! Exit codes.

use std::process::ExitCode;

/// Outcome of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done; with `--gap`, the gap was reached.
    Done,
    /// `check` found a violation.
    Violation,
    /// Bad usage or bad input.
    BadInput,
    /// Proved infeasible.
    Infeasible,
    /// A plan was found, but not with the requested gap.
    GapNotReached,
    /// A table of `bench` is incomplete, because an interrupt came before all cases were run.
    Partial,
    /// A limit or an interrupt ended the work with no result.
    NoPlan,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Violation => 1,
            Exit::BadInput => 2,
            Exit::Infeasible => 3,
            Exit::GapNotReached | Exit::Partial => 4,
            Exit::NoPlan => 5,
        })
    }
}
