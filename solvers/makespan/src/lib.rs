//! The makespan of one step: schedulers and search on the simulator.
//!
//! A plan is a device for every operator and a priority among ready operators on a device; its cost is the simulated
//! makespan. List schedulers build a plan in one pass over the operators: [`HEFT`], [`CPOP`] and [`PEFT`] by ranks,
//! [`EARLIEST_TASK_FIRST`] and [`SMALL_COMMUNICATION`] by earliest start. They add operators to a partial schedule,
//! whose estimates guide them. [`MULTILEVEL`] moves clusters of operators along a hierarchy of partitions, [`BRKGA`]
//! breeds placements and priorities, [`ANNEALING`] and [`TABU`] walk from schedule to schedule, and [`OrderSplit`] cuts
//! linear orders. [`RANDOM_PLACEMENTS`] and [`ANNEALING_FROM_RANDOM`] are baselines for comparison.

mod annealing;
pub mod assigned;
mod choice;
mod cpop;
mod earliest_task_first;
mod edges;
mod exact;
mod fold;
mod genetic;
mod groups;
pub mod guidance;
mod heft;
mod impossible;
pub mod instance;
mod justify;
mod list;
mod moves;
mod multilevel;
mod order_split;
mod partial_schedule;
mod peft;
mod random;
pub mod rank;
mod rounds;
pub mod schedule;
mod search;
mod small_communication;
mod start;
mod tabu;

use stagewright_core::document::ObjectiveKind;
use stagewright_core::objective::Objective;
use stagewright_core::solver::Solver;

pub use annealing::{ANNEALING, anneal};
pub use cpop::CPOP;
pub use earliest_task_first::EARLIEST_TASK_FIRST;
pub use exact::Exact;
pub use fold::{Fold, SIMULATED};
pub use genetic::BRKGA;
pub use heft::HEFT;
pub use list::ListScheduler;
pub use multilevel::{ClusterId, Level, MULTILEVEL, acyclic_level_of, level_of};
pub use order_split::OrderSplit;
pub use peft::PEFT;
pub use random::{ANNEALING_FROM_RANDOM, RANDOM_PLACEMENTS};
pub use search::SearchSolver;
pub use small_communication::SMALL_COMMUNICATION;
pub use start::{LIST_SCHEDULES, starts};
pub use tabu::TABU;

/// Objectives that this crate does not support, if `objective` is one of them: all its solvers minimise the makespan.
pub fn unsupported(objective: &Objective) -> Option<&'static str> {
    (objective.kind() != ObjectiveKind::Makespan).then_some("objectives other than makespan")
}

/// All makespan solvers of this crate.
pub const SOLVERS: &[&dyn Solver] = &[
    &HEFT,
    &CPOP,
    &PEFT,
    &EARLIEST_TASK_FIRST,
    &SMALL_COMMUNICATION,
    &OrderSplit,
    &Fold,
    &Exact::UNLIMITED,
    &MULTILEVEL,
    &ANNEALING,
    &TABU,
    &BRKGA,
    &RANDOM_PLACEMENTS,
    &ANNEALING_FROM_RANDOM,
];
