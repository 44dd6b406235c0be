//! The makespan of one step: schedulers and search on the simulator.
//!
//! A plan is a device for every operator and an order in which those that are ready on a device go; what it takes is
//! what the simulator says. List schedulers make one in a single pass over the operators: [`Heft`], [`Cpop`] and
//! [`Peft`] by ranks, [`EarliestTaskFirst`] and [`SmallCommunication`] by what can start first. They put operators on
//! a chart, whose estimate guides them. [`Multilevel`] moves clusters of operators along a hierarchy of partitions,
//! [`Brkga`] breeds placements and priorities.

mod assigned;
mod chart;
mod cpop;
mod genetic;
mod heft;
mod list;
mod multilevel;
mod peft;
mod rank;
pub mod scene;
pub mod schedule;
mod start;

use stagewright_core::document::ObjectiveKind;
use stagewright_core::objective::Objective;
use stagewright_core::solver::{Capabilities, Solver};

pub use cpop::Cpop;
pub use genetic::Brkga;
pub use heft::Heft;
pub use multilevel::Multilevel;
pub use peft::Peft;

/// What every solver here takes.
const HEURISTIC: Capabilities = Capabilities { missing, exact: false, deterministic_across_threads: true };

fn missing(objective: &Objective) -> Option<&'static str> {
    (objective.kind != ObjectiveKind::Makespan).then_some("objectives other than makespan")
}

/// All solvers of the makespan here.
pub const SOLVERS: &[&dyn Solver] = &[&Heft, &Cpop, &Peft, &Multilevel, &Brkga];
