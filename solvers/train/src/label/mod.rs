//! Labels: a few of the best placements that a short search finds, and a bound.
//!
//! A graph may have many good placements, and a policy that imitates only one of them learns an average. So a label
//! holds the best few that differ by more than a permutation of identical devices. Throughput is split exactly if the
//! lattice of ideals is small; makespan is searched by several methods.
//!
//! The effort is a time, or a number of simulations. A time limit gives the best labels that a machine can make within
//! it. Counted work leads to the same label for any speed, load and number of threads: the searches end after their
//! simulations, and the exact splitter after its steps.

mod best;
mod makespan;
mod throughput;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stagewright_core::code::Code;
use stagewright_core::document::ObjectiveKind;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Settings, Silent, SolveError};
use stagewright_core::tolerance;
use thiserror::Error;

use self::best::Best;
use super::instance::first_plan;
use crate::code::{D006, D007, D008, D009};

/// Maximum number of placements per label.
pub const MAX_PLANS: usize = 4;
/// Largest relative excess of a placement over the best one of its label.
pub const WORSE: f64 = 0.03;
/// Graphs of up to this many operators get the seconds of the effort; larger ones get proportionally more.
pub const SMALL: usize = 300;
/// Memory limit in bytes for the tables of the exact splitter.
const MEMORY: u64 = 512 << 20;

/// Search effort.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LabelEffort {
    /// Seconds on one thread for a graph of up to [`SMALL`] operators; larger graphs get proportionally more.
    Seconds(f64),
    /// Simulations of plans by all searches together, for a graph of any size; for throughput, the corresponding number
    /// of steps of the exact splitter.
    Simulations(u64),
}

impl LabelEffort {
    /// Largest valid number of seconds.
    pub const MOST_SECONDS: f64 = 1e6;
    /// Largest valid number of simulations.
    pub const MOST_SIMULATIONS: u64 = 1 << 40;

    /// The effort multiplied by a share.
    fn share(self, share: f64) -> LabelEffort {
        match self {
            LabelEffort::Seconds(seconds) => LabelEffort::Seconds(seconds * share),
            LabelEffort::Simulations(count) => {
                LabelEffort::Simulations(((count as f64 * share) as u64).max(1))
            }
        }
    }

    /// The limits of a search for plans of a problem with this effort.
    fn limits(self, problem: &Problem) -> Limits {
        let (time, simulations) = match self {
            LabelEffort::Seconds(seconds) => {
                let times = problem.graph().operator_count() as f64 / SMALL as f64;
                (Some(Duration::from_secs_f64(seconds * times.max(1.0))), None)
            }
            LabelEffort::Simulations(count) => (None, Some(count)),
        };
        Limits { time, memory: Some(MEMORY), gap: 0.0, simulations }
    }

    pub(super) fn check(self) -> Result<(), LabelError> {
        let is_valid = match self {
            LabelEffort::Seconds(seconds) => seconds > 0.0 && seconds <= LabelEffort::MOST_SECONDS,
            LabelEffort::Simulations(count) => (1..=LabelEffort::MOST_SIMULATIONS).contains(&count),
        };
        if is_valid { Ok(()) } else { Err(LabelError::Effort(self)) }
    }
}

/// Shows the effort and the range that its number must be in.
impl fmt::Display for LabelEffort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabelEffort::Seconds(seconds) => {
                write!(f, "{seconds} s, expected more than 0 and at most {}", LabelEffort::MOST_SECONDS)
            }
            LabelEffort::Simulations(count) => {
                write!(f, "{count} simulations, expected 1 to {}", LabelEffort::MOST_SIMULATIONS)
            }
        }
    }
}

/// Settings of labelling other than the effort.
#[derive(Debug, Clone)]
pub struct Work {
    /// Seed of the searches.
    pub seed: u64,
    /// Worker threads per solver.
    pub threads: usize,
    /// Interrupts the search.
    pub interrupt: Arc<AtomicBool>,
}

/// The best known placements of a problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    /// The value of the best placement found, in seconds.
    pub value: f64,
    /// Lower bound on the value of every placement, in seconds.
    pub bound: f64,
    /// Whether the value and the bound are equal.
    pub proved: bool,
    /// The best distinct placements, the best first: at least one and at most [`MAX_PLANS`], none worse than the best
    /// by more than [`WORSE`].
    pub plans: Vec<Labelled>,
}

/// A placement and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled {
    /// Value of the placement, in seconds.
    pub value: f64,
    /// The placement: with stages for throughput, with a priority for makespan.
    pub placement: Placement,
}

/// Reason why a problem has no label.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum LabelError {
    /// An effort out of its range.
    #[error("the effort is {0}")]
    Effort(LabelEffort),
    /// An objective that is not supported.
    #[error("labels support only the throughput of contiguous splits and the makespan")]
    Objective,
    /// No placement that fits the memory was found.
    #[error("no placement that fits the devices was found")]
    NoPlan,
    /// A solver failed.
    #[error(transparent)]
    Solver(#[from] SolveError),
}

impl LabelError {
    /// Stable error code.
    pub fn code(&self) -> Code {
        match self {
            LabelError::Effort(_) => D006,
            LabelError::Objective => D007,
            LabelError::NoPlan => D008,
            LabelError::Solver(_) => D009,
        }
        .into()
    }

    /// A hint for fixing the error.
    pub fn help(&self) -> &'static str {
        match self {
            LabelError::Effort(_) => {
                "give the seconds for a graph of up to 300 operators, such as 0.3, or simulations, such as 20000"
            }
            LabelError::Objective => "change the objective",
            LabelError::NoPlan => "give the devices more memory, or the search more effort",
            LabelError::Solver(_) => "report it with the recipe and the number of the instance",
        }
    }
}

/// Labels a problem. `None` if interrupted, because a partial label is worse than the complete one.
///
/// Apart from a first plan and the bound, which are quick to compute, the search ends after the seconds or simulations
/// of the effort. Every placement is feasible and has the stated value, and the bound is valid. With seconds, the
/// quality of a label depends on the machine; with simulations, the label depends on the problem, the effort and the
/// seed only.
///
/// # Errors
/// If the effort is invalid or the problem cannot be labelled.
pub fn label(problem: &Problem, effort: &LabelEffort, work: &Work) -> Result<Option<Label>, LabelError> {
    effort.check()?;
    let search = match problem.objective().kind() {
        ObjectiveKind::Throughput => throughput::search,
        ObjectiveKind::Makespan => makespan::search,
        ObjectiveKind::Latency => return Err(LabelError::Objective),
    };
    let mut best = Best::new(problem);
    if let Some(plan) = first_plan(problem)? {
        best.take_plan(plan);
    }
    search(&mut best, *effort, work)?;
    if work.interrupt.load(std::sync::atomic::Ordering::Relaxed) {
        return Ok(None);
    }
    let (plans, bound) = best.finish();
    let value = plans.first().ok_or(LabelError::NoPlan)?.value;
    // A bound above the value is due to rounding and is clamped to it.
    let bound = bound.min(value);
    Ok(Some(Label { value, bound, proved: tolerance::gap(value, bound) == 0.0, plans }))
}

/// Runs a closure with a context of the given limits, starting from a placement if there is one.
fn within<T>(
    work: &Work,
    turn: u64,
    limits: Limits,
    from: Option<Placement>,
    run: impl FnOnce(&mut Context<'_>) -> T,
) -> T {
    let mut silent = Silent;
    let (seed, threads) = (work.seed.wrapping_add(turn), work.threads);
    let settings = Settings { limits, seed, threads, interrupt: work.interrupt.clone() };
    let mut context = Context::new(settings, &mut silent);
    context.warm_start = from;
    run(&mut context)
}
