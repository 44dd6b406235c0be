//! One call from a problem to a plan.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Observer, Settings, Silent, Solution, SolveError, Solver};
use stagewright_core::uncertainty::Uncertainty;
use thiserror::Error;

use crate::bounds::Proving;
use crate::portfolio::{NoSolver, auto};
use crate::registry;

/// How far costs may be off, for a robust plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Robustness {
    /// By a given deviation.
    Given(Uncertainty),
    /// By the spread of the learned seconds of the problem.
    Learned {
        /// Maximum number of sources that are off at once.
        budget: u32,
    },
}

/// Options of [`solve`]: by default the solver that `auto` chooses, one minute, 8 GiB, all cores and seed 0.
#[derive(Clone)]
pub struct Options {
    pub(crate) settings: Settings,
    warm_start: Option<Placement>,
    solver: Option<Arc<dyn Solver>>,
    pub(crate) robust: Option<Robustness>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            settings: Settings {
                threads: std::thread::available_parallelism().map_or(1, usize::from),
                ..Settings::default()
            },
            warm_start: None,
            solver: None,
            robust: None,
        }
    }
}

impl Options {
    /// Wall-clock time after which the solver returns its best plan and bound; `None` means unlimited.
    #[must_use]
    pub fn time_limit(mut self, limit: Option<Duration>) -> Self {
        self.settings.limits.time = limit;
        self
    }

    /// Bytes that the solver's tables may take; `None` means unlimited.
    #[must_use]
    pub fn memory_limit(mut self, bytes: Option<u64>) -> Self {
        self.settings.limits.memory = bytes;
        self
    }

    /// Relative gap between value and bound at which to stop, such as 0.01 for one percent.
    #[must_use]
    pub fn gap(mut self, gap: f64) -> Self {
        self.settings.limits.gap = gap;
        self
    }

    /// Seed of every random choice.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Worker threads, at least 1.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.settings.threads = threads.max(1);
        self
    }

    /// A placement to start from, for solvers that use one.
    #[must_use]
    pub fn warm_start(mut self, placement: Placement) -> Self {
        self.warm_start = Some(placement);
        self
    }

    /// A flag that ends the solve when set; the best plan and bound so far are returned.
    #[must_use]
    pub fn interrupt(mut self, flag: Arc<AtomicBool>) -> Self {
        self.settings.interrupt = flag;
        self
    }

    /// A custom solver, or one of the solver crates.
    #[must_use]
    pub fn solver(mut self, solver: impl Solver + 'static) -> Self {
        self.solver = Some(Arc::new(solver));
        self
    }

    /// Uncertainty of the costs: the plan then minimises the worst case. Only tasks use this.
    #[must_use]
    pub fn robust(mut self, robustness: Option<Robustness>) -> Self {
        self.robust = robustness;
        self
    }

    /// Maximum number of plans to simulate, for solvers that count simulations; `None` means unlimited.
    #[must_use]
    pub fn simulations(mut self, count: Option<u64>) -> Self {
        self.settings.limits.simulations = count;
        self
    }

    /// The context of a solve that starts now.
    pub(crate) fn context<'a>(&self, observer: &'a mut dyn Observer) -> Context<'a> {
        let mut context = Context::new(self.settings.clone(), observer);
        context.warm_start.clone_from(&self.warm_start);
        context
    }

    /// A solver of [`registry::SOLVERS`].
    ///
    /// # Errors
    /// An unknown name.
    pub fn solver_named(self, name: &str) -> Result<Self, Error> {
        let solver = registry::named(name).ok_or_else(|| Error::UnknownSolver { name: name.to_owned() })?;
        Ok(self.solver(solver))
    }
}

/// Reasons why a problem was not solved.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// No solver has this name.
    #[error("unknown solver `{name}`")]
    UnknownSolver {
        /// The name.
        name: String,
    },
    /// No solver supports the objective.
    #[error(transparent)]
    NoSolver(#[from] NoSolver),
    /// The solver does not support the objective, or failed.
    #[error(transparent)]
    Solve(#[from] SolveError),
}

/// Solves a problem.
///
/// ```
/// use stagewright::prelude::*;
///
/// let mut graph = GraphBuilder::new("two layers");
/// for name in ["first", "second"] {
///     graph.operator(operator(name).seconds("gpu", 1e-3));
/// }
/// graph.tensor("first", ["second"], 1e6);
/// let mut cluster = ClusterBuilder::new("two GPUs");
/// cluster.kind(devices("gpu", 2).link(1e10, 0.0));
///
/// let problem = Problem::new(graph.build()?, cluster.build()?, Objective::default())?;
/// let solution = solve(&problem, &Options::default())?;
/// // One layer on each GPU, which also sends or receives a megabyte.
/// assert_eq!((solution.status, solution.value()), (Status::Optimal, Some(1.1e-3)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// An objective that the solver (or, if none was chosen, every solver) does not support; a defect of a solver.
/// Infeasibility and limits are statuses of the solution.
pub fn solve(problem: &Problem, options: &Options) -> Result<Solution, Error> {
    solve_observed(problem, options, &mut Silent)
}

/// Solves a problem with an observer, which receives plans and bounds as they are found and may stop the solve.
///
/// # Errors
/// An objective that the solver (or, if none was chosen, every solver) does not support; a defect of a solver.
/// Infeasibility and limits are statuses of the solution.
pub fn solve_observed(
    problem: &Problem,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Solution, Error> {
    let chosen: Arc<dyn Solver> = match &options.solver {
        Some(solver) => solver.clone(),
        None => Arc::new(auto(problem.objective())?.solver),
    };
    Ok(Proving(&*chosen).solve(problem, &mut options.context(observer))?)
}
