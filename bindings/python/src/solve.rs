//! Solving, while the lock is released and signals are checked.

use std::ffi::CString;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use serde::Deserialize;
use stagewright::code::{U001, U003, U004, X001};
use stagewright::core::code::Code;
use stagewright::core::placement::Placement;
use stagewright::core::solver::{Event, Observer};
use stagewright::failure::Failure;
use stagewright::formats::sibling;
use stagewright::nearest::instead;
use stagewright::report::convergence::Convergence;
use stagewright::report::document::Provenance;
use stagewright::solve::{Error, solve_observed};
use stagewright::{Options, portfolio, registry};

use crate::failure::Result;
use crate::interrupt::until_interrupted;
use crate::placements::single;
use crate::plan::{Plan, Shared};
use crate::problem::Problem;

/// Arguments of [`plan`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    solver: String,
    time_limit: Option<f64>,
    memory_limit: Option<u64>,
    gap: f64,
    seed: u64,
    threads: Option<usize>,
}

/// Largest time limit in seconds: a century.
const LONGEST: f64 = 3e9;

impl Given {
    /// The options, and the solver's label for the plan.
    fn options(&self, shared: &Shared) -> Result<(Options, String), Failure> {
        let wrong = |argument: &str, cause: String, help: &str| {
            Err(Failure::new(U001, cause).at(argument).help(help))
        };
        let mut options = Options::default().memory_limit(self.memory_limit).gap(self.gap).seed(self.seed);
        if !(0.0..1.0).contains(&self.gap) {
            return wrong("gap", format!("the gap is {}", self.gap), "give a share such as 0.01");
        }
        options = match self.time_limit {
            None => options.time_limit(None),
            Some(seconds) if (0.0..=LONGEST).contains(&seconds) => {
                options.time_limit(Some(Duration::from_secs_f64(seconds)))
            }
            Some(seconds) => {
                return wrong("time_limit", format!("{seconds} seconds"), "give a positive number, or None");
            }
        };
        match self.threads {
            Some(0) => return wrong("threads", "0 threads".into(), "give at least 1"),
            Some(threads) => options = options.threads(threads),
            None => {}
        }
        let objective = shared.problem.objective();
        if self.solver == "auto" {
            let choice = portfolio::auto(objective)
                .map_err(|error| Failure::new(U004, error.to_string()).at("solver"))?;
            let label = format!("{} (auto: {})", choice.solver.name(), choice.rule);
            return Ok((options, label));
        }
        let options = options.solver_named(&self.solver).map_err(|error| {
            let known = registry::SOLVERS.iter().map(|entry| entry.solver.name());
            let help = format!(
                "{}; auto chooses one; `stagewright.solvers()` lists all",
                instead(&self.solver, known)
            );
            Failure::new(U003, error.to_string()).at("solver").help(help)
        })?;
        Ok((options, self.solver.clone()))
    }
}

/// Records improvements of values and bounds.
struct Recorder {
    started: Instant,
    convergence: Convergence,
}

impl Observer for Recorder {
    fn event(&mut self, event: &Event) -> ControlFlow<()> {
        let elapsed = self.started.elapsed().as_secs_f64();
        match event {
            Event::Incumbent { value } => self.convergence.value(elapsed, *value),
            Event::Bound { value, .. } => self.convergence.bound(elapsed, *value),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Solves a problem. Ctrl-C ends the solve with its best plan; a second Ctrl-C raises `KeyboardInterrupt`.
#[pyfunction]
#[pyo3(signature = (problem, arguments, start=None, start_plan=None))]
pub(crate) fn plan(
    py: Python<'_>,
    problem: &Problem,
    arguments: &str,
    start: Option<PyReadonlyArray1<'_, u16>>,
    start_plan: Option<&Plan>,
) -> Result<Plan> {
    let shared = problem.inner.clone();
    let given: Given = crate::failure::arguments(arguments)?;
    let (mut options, label) = given.options(&shared)?;
    let is_given = start.is_some() || start_plan.is_some();
    if let Some(start) = start {
        options = options.warm_start(single(&shared.problem, &start, None)?);
    } else if let Some(plan) = start_plan {
        options = options.warm_start(carried(py, &shared, plan)?);
    }
    let named = registry::named(&given.solver).filter(|_| is_given);
    if named.is_some_and(|solver| !solver.capabilities().starts_from_plan) {
        warn(py, &format!("`{}` does not start from a plan, so `start` has no effect", given.solver))?;
    }
    let of_thread = shared.clone();
    let ((solution, recorder), _) = until_interrupted(py, move |interrupt| {
        let mut recorder = Recorder { started: Instant::now(), convergence: Convergence::default() };
        let solution = solve_observed(&of_thread.problem, &options.interrupt(interrupt), &mut recorder);
        (solution, recorder)
    })?;
    let solution = solution.map_err(|error| failed(&error))?;
    let seconds = recorder.started.elapsed().as_secs_f64();
    let provenance = Provenance { solver: label, seconds, seed: given.seed };
    Ok(py.detach(|| Plan::from_solution(shared, &solution, provenance, recorder.convergence)))
}

/// The placement of a plan for this problem, or for a sibling of its model. Warns if operators have no counterpart, or
/// if the placement is not feasible.
fn carried(py: Python<'_>, shared: &Shared, plan: &Plan) -> Result<Placement> {
    let problem = &shared.problem;
    let found = py.detach(|| sibling::start(problem, &plan.document));
    let found = found.map_err(|error| Failure::placement("start", &error))?;
    for text in py.detach(|| found.notes(problem)) {
        warn(py, &text)?;
    }
    Ok(found.placement)
}

fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    let category = py.import("stagewright.errors")?.getattr("StagewrightWarning")?;
    PyErr::warn(py, &category, &CString::new(text).unwrap_or_default(), 2)
}

fn failed(error: &Error) -> Failure {
    let code: Code = match error {
        Error::UnknownSolver { .. } => U003.into(),
        Error::NoSolver(_) | Error::Solve(stagewright::core::solver::SolveError::Unsupported { .. }) => {
            U004.into()
        }
        _ => X001.into(),
    };
    Failure::new(code, error.to_string())
        .at("solver")
        .help("`stagewright.solvers(problem)` lists those that support it")
}

/// The solvers that support the objective of a problem, or all solvers.
#[pyfunction]
#[pyo3(signature = (problem=None))]
pub(crate) fn solvers(problem: Option<&Problem>) -> Vec<&'static str> {
    match problem {
        Some(problem) => registry::supporting(problem.inner.problem.objective()),
        None => registry::SOLVERS.iter().map(|entry| entry.solver.name()).collect(),
    }
}
