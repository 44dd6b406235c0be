//! A run of HiGHS that keeps its bound no matter how it ends.
//!
//! HiGHS runs on a thread of its own, which the caller watches. An interrupt returns immediately, and the abandoned run
//! ends at its own time and node limits. HiGHS uses a single thread, since the results of its parallel search depend on
//! timing.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use good_lp::solvers::highs::HighsProblem;
use highs::{HighsModelStatus, HighsSolutionStatus};
use stagewright_core::solver::Stop;
use thiserror::Error;

use crate::choice::Choices;

/// Relative amount by which a bound of HiGHS is reduced before it is claimed.
pub const TOLERANCE: f64 = 1e-6;
/// Absolute tolerance of HiGHS for rows and integers; its tolerance for reduced costs is a tenth of this. The value is
/// about 100 in the model's unit, and every column is between 0 and 1 or between 0 and the value.
const FEASIBILITY: f64 = 1e-9;
/// Further reduction of a bound per column, in the model's unit: the error that reduced costs within their tolerance
/// may hide.
const PER_COLUMN: f64 = 1e-9;
/// Time between two checks of the clock.
const LOOK: Duration = Duration::from_millis(10);
/// Fraction of the time that is withheld from HiGHS, because it checks its clock late.
const MARGIN: f64 = 0.03;
/// Time after the limit in which HiGHS may still return its result.
const GRACE: Duration = Duration::from_millis(300);

/// An integer program over choices that minimises a time.
pub trait Model: Send + 'static {
    /// A choice of an item.
    type Choice: Copy + Eq + Send + 'static;

    /// The program for HiGHS.
    fn into_highs(self) -> HighsProblem;

    /// The choices.
    fn choices(&self) -> &Choices<Self::Choice>;

    /// Whether there are no integer columns, for choices or otherwise.
    fn is_linear(&self) -> bool {
        self.choices().are_made()
    }

    /// Number of columns.
    fn columns(&self) -> usize;

    /// Seconds per unit of the model's time.
    fn unit_seconds(&self) -> f64;
}

/// Failure of HiGHS.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("HiGHS returned {0}")]
pub struct RunError(pub String);

/// Limits and parameters of a run.
#[derive(Debug, Clone, Copy)]
pub struct RunEffort {
    /// Time limit.
    pub time: Option<Duration>,
    /// Limit on nodes of the search tree; `None` means unlimited.
    pub nodes: Option<u32>,
    /// Relative gap at which the run ends.
    pub gap: f64,
    /// Random seed of HiGHS.
    pub seed: u64,
}

/// Termination status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Proved optimal, up to the tolerance.
    Optimal,
    /// Proved infeasible: nothing satisfies the rows.
    Infeasible,
    /// A limit was reached.
    Limit,
    /// Abandoned: the run did not end, and may still be running.
    Abandoned,
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome<C> {
    /// Termination status.
    pub ending: Ending,
    /// A lower bound on the value, in seconds, lowered by [`TOLERANCE`].
    pub bound: Option<f64>,
    /// The choices of the best plan.
    pub chosen: Option<Vec<C>>,
    /// Number of nodes of the search tree.
    pub nodes: u64,
}

impl<C> Outcome<C> {
    /// Result of a run whose limit was reached before the run began.
    pub(crate) const NOTHING: Self = Outcome { ending: Ending::Limit, bound: None, chosen: None, nodes: 0 };
}

/// Solves a model, starting from the columns of a plan if given. Only the integer columns of the plan matter; HiGHS
/// completes the others.
///
/// # Errors
/// If HiGHS rejects the model or fails.
pub fn solve<M: Model>(
    model: M,
    start: Option<Vec<f64>>,
    effort: RunEffort,
    stop: &Stop,
) -> Result<Outcome<M::Choice>, RunError> {
    let time = match (effort.time, stop.remaining()) {
        (Some(time), Some(left)) => Some(time.min(left)),
        (time, left) => time.or(left),
    };
    let deadline = time.and_then(|time| Instant::now().checked_add(time));
    let (send, receive) = channel();
    let run = move || {
        // After an interrupt there is no receiver.
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
                    return Ok(Outcome { ending: Ending::Abandoned, ..Outcome::NOTHING });
                }
            }
        }
    }
}

fn run<M: Model>(
    model: M,
    start: Option<Vec<f64>>,
    effort: RunEffort,
    deadline: Option<Instant>,
) -> Result<Outcome<M::Choice>, RunError> {
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
        // Building the model took part of the time.
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
