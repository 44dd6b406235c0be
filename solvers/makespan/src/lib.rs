//! The makespan of one step: schedulers and search on the simulator.
//!
//! A plan is a device for every operator and a priority among ready operators on a device; its cost is the simulated
//! makespan. List schedulers build a plan in one pass over the operators: [`Heft`], [`Cpop`] and [`Peft`] by ranks,
//! [`EarliestTaskFirst`] and [`SmallCommunication`] by earliest start. They place operators on a chart, whose estimates
//! guide them. [`Multilevel`] moves clusters of operators along a hierarchy of partitions, [`Brkga`] breeds placements
//! and priorities, [`Annealing`] and [`Tabu`] walk from schedule to schedule, and [`OrderSplit`] cuts linear orders.
//! [`RandomPlacements`] and [`AnnealingFromRandom`] are baselines for comparison.

mod annealing;
pub mod assigned;
mod chart;
mod cpop;
mod earliest_task_first;
mod edges;
mod genetic;
mod groups;
pub mod guidance;
mod heft;
mod list;
mod moves;
mod multilevel;
mod order_split;
mod peft;
mod random;
pub mod rank;
mod rounds;
pub mod scene;
pub mod schedule;
mod search;
mod small_communication;
mod start;
mod tabu;

use stagewright_core::document::ObjectiveKind;
use stagewright_core::objective::Objective;
use stagewright_core::solver::Solver;

pub use annealing::{Annealing, anneal};
pub use cpop::Cpop;
pub use earliest_task_first::EarliestTaskFirst;
pub use genetic::Brkga;
pub use heft::Heft;
pub use multilevel::{Level, Multilevel, acyclic_level_of, level_of};
pub use order_split::OrderSplit;
pub use peft::Peft;
pub use random::{AnnealingFromRandom, RandomPlacements};
pub use small_communication::SmallCommunication;
pub use start::starts;
pub use tabu::Tabu;

fn missing(objective: &Objective) -> Option<&'static str> {
    (objective.kind() != ObjectiveKind::Makespan).then_some("objectives other than makespan")
}

/// All makespan solvers of this module.
pub const SOLVERS: &[&dyn Solver] = &[
    &Heft,
    &Cpop,
    &Peft,
    &EarliestTaskFirst,
    &SmallCommunication,
    &OrderSplit,
    &Multilevel,
    &Annealing,
    &Tabu,
    &Brkga,
    &RandomPlacements,
    &AnnealingFromRandom,
];
