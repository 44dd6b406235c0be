//! Labels: a few of the best placements that a short search finds, and a bound.
//!
//! A policy that imitates one placement of a graph that has many good ones learns an average of them, so a label holds the
//! best few that differ by more than the names of identical devices. Throughput is split exactly where the lattice of
//! ideals is small, makespan is searched by several methods.

mod best;
mod makespan;
mod throughput;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stagewright_core::document::ObjectiveKind;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Silent, SolveError};
use stagewright_core::tolerance;
use thiserror::Error;

use self::best::Best;
use super::instance::first_plan;

/// Most placements of a label.
pub const MOST_PLANS: usize = 4;
/// How much worse than the best a placement of a label may be, relative to the best.
pub const WORSE: f64 = 0.03;
/// Operators up to which a label takes the seconds of its effort; above it takes more in proportion.
pub const SMALL: usize = 300;
/// Bytes that the tables of the exact splitter may take.
const MEMORY: u64 = 512 << 20;

/// How long to search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effort {
    /// Seconds on one thread for a graph of up to [`SMALL`] operators; for a larger one more in proportion.
    pub seconds: f64,
}

impl Effort {
    /// Most seconds that mean anything.
    pub const MOST: f64 = 1e6;

    /// The time for a problem.
    pub(super) fn time(&self, problem: &Problem) -> Duration {
        let times = problem.graph().operator_count() as f64 / SMALL as f64;
        Duration::from_secs_f64(self.seconds * times.max(1.0))
    }

    pub(super) fn check(&self) -> Result<(), LabelError> {
        match self.seconds > 0.0 && self.seconds <= Effort::MOST {
            true => Ok(()),
            false => Err(LabelError::Effort { seconds: self.seconds }),
        }
    }
}

/// How a label is made besides what it takes.
#[derive(Debug, Clone)]
pub struct Work {
    /// Seed of the searches.
    pub seed: u64,
    /// Worker threads of each solver.
    pub threads: usize,
    /// Ends the search from outside.
    pub interrupt: Arc<AtomicBool>,
}

/// What is known of the best placements of a problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    /// The value of the best placement found, in seconds.
    pub value: f64,
    /// No placement is better than this, in seconds.
    pub bound: f64,
    /// Whether the two are the same.
    pub proved: bool,
    /// The best placements that differ, the best first: at least one and at most [`MOST_PLANS`], none worse than the best
    /// by more than [`WORSE`].
    pub plans: Vec<Labelled>,
}

/// A placement and what it is worth.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled {
    /// Its value, in seconds.
    pub value: f64,
    /// The placement: with its stages for throughput, with its priority for makespan.
    pub placement: Placement,
}

/// Why there is no label.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum LabelError {
    /// A time that is none.
    #[error("the effort is {seconds} s, expected more than 0 and at most {}", Effort::MOST)]
    Effort {
        /// The seconds.
        seconds: f64,
    },
    /// An objective that is not labelled.
    #[error("labels are for the throughput of contiguous splits and for the makespan")]
    Objective,
    /// No placement was found that fits the memory.
    #[error("no placement that fits the devices was found")]
    NoPlan,
    /// A solver failed.
    #[error(transparent)]
    Solver(#[from] SolveError),
}

impl LabelError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            LabelError::Effort { .. } => "D006",
            LabelError::Objective => "D007",
            LabelError::NoPlan => "D008",
            LabelError::Solver(_) => "D009",
        }
    }

    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            LabelError::Effort { .. } => "give the seconds for a graph of up to 300 operators, such as 0.3",
            LabelError::Objective => "change the objective",
            LabelError::NoPlan => "give the devices more memory, or the search more seconds",
            LabelError::Solver(_) => "report it with the recipe and the number of the instance",
        }
    }
}

/// Labels a problem. None where it was interrupted: what is there by then is worse than what would have been.
///
/// Beyond a first plan and the bound, which take moments, the search ends after the seconds of the effort. How good a
/// label is depends on the machine, but every placement of it is feasible and worth what it says, and the bound is one.
///
/// # Errors
/// An effort or a problem that cannot be labelled.
pub fn label(problem: &Problem, effort: &Effort, work: &Work) -> Result<Option<Label>, LabelError> {
    effort.check()?;
    let search = match problem.objective().kind {
        ObjectiveKind::Throughput => throughput::search,
        ObjectiveKind::Makespan => makespan::search,
        ObjectiveKind::Latency => return Err(LabelError::Objective),
    };
    let mut best = Best::new(problem);
    if let Some(plan) = first_plan(problem)? {
        best.take_plan(plan);
    }
    search(&mut best, effort.time(problem), work)?;
    if work.interrupt.load(std::sync::atomic::Ordering::Relaxed) {
        return Ok(None);
    }
    let (plans, bound) = best.finish();
    let value = plans.first().ok_or(LabelError::NoPlan)?.value;
    // A bound above the value by rounding alone is the value.
    let bound = bound.min(value);
    Ok(Some(Label { value, bound, proved: tolerance::gap(value, bound) == 0.0, plans }))
}

/// Runs something with a context of so much time, from a placement if there is one.
fn within<T>(
    work: &Work,
    turn: u64,
    time: Duration,
    from: Option<Placement>,
    run: impl FnOnce(&mut Context<'_>) -> T,
) -> T {
    let mut silent = Silent;
    let limits = Limits { time: Some(time), memory: Some(MEMORY), gap: 0.0, simulations: None };
    let mut context = Context::new(limits, work.interrupt.clone(), &mut silent);
    context.seed = work.seed.wrapping_add(turn);
    context.threads = work.threads.max(1);
    context.warm_start = from;
    run(&mut context)
}
