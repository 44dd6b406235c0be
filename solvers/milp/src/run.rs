//! A run of HiGHS that keeps its bound whatever ends it.
//!
//! HiGHS runs on a thread of its own, which this one watches: an interrupt returns at once, and the run it
//! leaves behind ends with its own limits of time and nodes. It uses one thread, since what its parallel
//! search finds depends on timing.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use good_lp::solvers::highs::HighsProblem;
use highs::{HighsModelStatus, HighsSolutionStatus};
use stagewright_core::solver::Stop;
use thiserror::Error;

use crate::choice::Choices;

/// By how much a bound of HiGHS is lowered before it is claimed, relative to it.
pub const TOLERANCE: f64 = 1e-6;
/// The tolerance of HiGHS for rows and integers, absolute; that of reduced costs is a tenth of it. The value
/// is about 100 in the model's unit, and every column lies between 0 and 1 or between 0 and the value.
const FEASIBILITY: f64 = 1e-9;
/// By how much a bound is lowered further for every column, in the model's unit: what reduced costs within
/// their tolerance may hide.
const PER_COLUMN: f64 = 1e-9;
/// Time between two looks at the clock; the part of its time that HiGHS does not get, because it is late to
/// look at its own; and time after the limit in which it may still hand over what it has.
const LOOK: Duration = Duration::from_millis(10);
const MARGIN: f64 = 0.03;
const GRACE: Duration = Duration::from_millis(500);

/// A program in which each of several things has one of some choices, and what is minimised takes time.
pub trait Model: Send + 'static {
    /// The program for HiGHS.
    fn into_highs(self) -> HighsProblem;

    /// What is chosen.
    fn choices(&self) -> &Choices;

    /// Whether nothing is to be decided, here or in any other integer column.
    fn is_linear(&self) -> bool {
        self.choices().are_made()
    }

    /// Number of columns.
    fn columns(&self) -> usize;

    /// Seconds in one of the model's units of time.
    fn unit_seconds(&self) -> f64;
}

/// HiGHS failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("HiGHS answered {0}")]
pub struct RunError(pub String);

/// How long and how far to search.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Most time.
    pub time: Option<Duration>,
    /// Most nodes of the search tree; none is no limit.
    pub nodes: Option<u32>,
    /// Relative gap at which to end.
    pub gap: f64,
    /// Seed of its random choices.
    pub seed: u64,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With a proof, up to the tolerance.
    Optimal,
    /// With the proof that nothing fits the rows.
    Infeasible,
    /// At a limit.
    Limit,
    /// Not at all: it was given up, and may still run.
    Abandoned,
}

/// What a run found.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// A lower bound on the value, seconds, lowered by [`TOLERANCE`].
    pub bound: Option<f64>,
    /// The choices of the best plan.
    pub chosen: Option<Vec<u32>>,
    /// Nodes of the search tree.
    pub nodes: u64,
}

/// Solves a model, from the columns of a plan where they are given. Only the integer ones count, HiGHS
/// completes them.
///
/// # Errors
/// Where HiGHS does not take the model or fails.
pub fn solve(
    model: impl Model,
    start: Option<Vec<f64>>,
    effort: Effort,
    stop: &Stop,
) -> Result<Outcome, RunError> {
    let time = match (effort.time, stop.remaining()) {
        (Some(time), Some(left)) => Some(time.min(left)),
        (time, left) => time.or(left),
    };
    let deadline = time.and_then(|time| Instant::now().checked_add(time));
    let (send, receive) = channel();
    let run = move || {
        // Nobody listens after an interrupt.
        let _ = send.send(run(model, start, effort, deadline));
    };
    std::thread::Builder::new()
        .name("highs".into())
        .spawn(run)
        .map_err(|error| RunError(error.to_string()))?;
    loop {
        match receive.recv_timeout(LOOK) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Disconnected) => return Err(RunError("nothing".into())),
            Err(RecvTimeoutError::Timeout) => {
                let interrupted = stop.is_interrupted();
                if interrupted || deadline.is_some_and(|deadline| Instant::now() > deadline + GRACE) {
                    return Ok(Outcome { ending: Ending::Abandoned, bound: None, chosen: None, nodes: 0 });
                }
            }
        }
    }
}

fn run(
    model: impl Model,
    start: Option<Vec<f64>>,
    effort: Effort,
    deadline: Option<Instant>,
) -> Result<Outcome, RunError> {
    let (choices, unit_seconds, is_linear) =
        (model.choices().clone(), model.unit_seconds(), model.is_linear());
    let slack = PER_COLUMN * model.columns() as f64;
    let failed = |what: &dyn std::fmt::Debug| RunError(format!("{what:?}"));
    let mut program = model.into_highs().try_into_inner().map_err(|error| failed(&error))?;
    program.make_quiet();
    program.set_option("threads", 1);
    program.set_option("parallel", "off");
    program.set_option("random_seed", (effort.seed % (1 << 31)) as i32);
    program.set_option("mip_rel_gap", effort.gap.max(TOLERANCE));
    program.set_option("mip_abs_gap", 0.0);
    program.set_option("mip_feasibility_tolerance", FEASIBILITY);
    if let Some(nodes) = effort.nodes {
        program.set_option("mip_max_nodes", nodes.min(i32::MAX as u32) as i32);
    }
    if let Some(start) = &start {
        program.try_set_solution(Some(start), None, None, None).map_err(|error| failed(&error))?;
    }
    if let Some(deadline) = deadline {
        // Writing the model took its part.
        let left = deadline.saturating_duration_since(Instant::now());
        program.set_option("time_limit", left.as_secs_f64() * (1.0 - MARGIN));
    }
    let solved = program.try_solve().map_err(|error| failed(&error))?;
    let ending = match solved.status() {
        HighsModelStatus::Optimal | HighsModelStatus::ModelEmpty => Ending::Optimal,
        HighsModelStatus::Infeasible => Ending::Infeasible,
        HighsModelStatus::ReachedTimeLimit
        | HighsModelStatus::ReachedIterationLimit
        | HighsModelStatus::ReachedSolutionLimit
        | HighsModelStatus::ReachedInterrupt
        | HighsModelStatus::ReachedMemoryLimit
        | HighsModelStatus::ObjectiveBound
        | HighsModelStatus::ObjectiveTarget => Ending::Limit,
        other => return Err(failed(&other)),
    };
    let dual = match is_linear {
        true => Some(solved.objective_value()).filter(|_| ending == Ending::Optimal),
        false => solved.double_info_value(c"mip_dual_bound").ok(),
    };
    let dual = dual.filter(|bound| bound.is_finite());
    let bound = dual
        .filter(|_| ending != Ending::Infeasible)
        .map(|bound| (bound * (1.0 - TOLERANCE) - slack).max(0.0) * unit_seconds);
    let nodes = solved.int_info_value(c"mip_node_count").map_or(0, |nodes| nodes.max(0) as u64);
    let found = solved.primal_solution_status() == HighsSolutionStatus::Feasible;
    let chosen = found.then(|| choices.read(solved.get_solution().columns()));
    Ok(Outcome { ending, bound, chosen, nodes })
}
