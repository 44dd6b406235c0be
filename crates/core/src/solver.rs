//! The solver interface: a function from a problem and a context to a solution with its proof status.
//!
//! A solver never reads a file, prints, or keeps global state. It reports through an [`Observer`], and is stopped by
//! the limits of its context or by the observer. Being infeasible and running out of time are statuses, not errors.
//! [`Solver::run`] states the contract about limits, threads, determinism, events and results.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::bound::{Bound, CLOSED_FORMS, LowerBound, strongest_until};
use crate::document::PlanStatus;
use crate::evaluate::{Evaluation, Violation, evaluate};
use crate::objective::Objective;
use crate::placement::Placement;
use crate::problem::Problem;
use crate::tolerance;

pub use crate::stop::{Stop, StopReason};

/// A solver. Callers call [`Solver::solve`], implementers write [`Solver::run`].
pub trait Solver: Send + Sync {
    /// Stable name, which commands, plan documents and [`Solution::solver`] use for every problem.
    fn name(&self) -> &'static str;

    /// One-line description, a noun phrase.
    fn summary(&self) -> &'static str;

    /// The feature of an objective that the solver does not support, if any: a noun phrase that completes "solver `x`
    /// does not support …".
    ///
    /// The answer depends on the objective alone and takes no time, because the portfolio asks every solver. A graph or
    /// a cluster that is too large for the method is not refused here: `run` returns [`Status::Unknown`] with the
    /// reason.
    fn unsupported(&self, objective: &Objective) -> Option<&'static str>;

    /// Cargo feature that the solver needs and this build lacks, if any.
    fn missing_feature(&self) -> Option<&'static str> {
        None
    }

    /// Guarantees that the solver gives for every problem; by default those of a deterministic heuristic.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Solves a problem within the limits.
    ///
    /// No solver overrides this method, which makes the checks common to all solvers before it calls [`Solver::run`]. A
    /// solver that wraps another implements `run`, and in it calls `solve` of the inner solver.
    ///
    /// # Errors
    /// [`SolveError::Unsupported`] for an objective that the solver does not support, otherwise the errors of `run`.
    fn solve(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        match self.unsupported(problem.objective()) {
            None => self.run(problem, context),
            Some(what) => Err(SolveError::Unsupported { solver: self.name(), what: what.into() }),
        }
    }

    /// Solves a problem whose objective is supported. Only `solve` calls it.
    ///
    /// # Limits
    /// - Time and interrupts: the search polls [`Context::stop`] every few tenths of a second at most, in its workers
    ///   as well, and ends soon after a reason appears. A solver of one short pass need not poll, but passes the reason
    ///   on to its solution. The first plan may take longer than the limit if there would be no plan otherwise.
    /// - Memory: before the solver's own tables exceed [`Limits::memory`], it does without them or ends
    ///   ([`StopReason::Memory`]). The problem and the plans are not counted.
    /// - Gap: the search ends when [`Context::done`] or [`Context::gap_reached`] says so.
    /// - Simulations: respected by solvers that promise to do so ([`Capabilities::counts_simulations`]), ignored by
    ///   others.
    ///
    /// At any limit the result is the best plan and the best bound so far, never an error.
    ///
    /// # Threads
    /// Parallel work runs in [`Context::pool`] or [`Context::in_pool`], that is, on [`Context::threads`] workers, and
    /// has ended when `run` returns. Several solves may use one solver at the same time, so it keeps no state between
    /// them.
    ///
    /// # Determinism
    /// Equal problems, seeds, start plans and limits other than time lead to equal plans and bounds on any number of
    /// threads, unless [`Capabilities::deterministic_across_threads`] is false. So the size of a batch does not depend
    /// on the number of threads, results are merged in the order of their tasks, ties go to the first task, and every
    /// task has a random stream of its own, from [`Context::seed`] and the number of the task (`core::seed`).
    ///
    /// # Events
    /// All events are emitted by the thread that called `run`.
    /// - [`Event::Incumbent`] for every feasible plan that a search finds and that is better than all before
    ///   ([`Context::keep`]). None of them is better than the plan of the solution. A solver of one short pass may
    ///   leave its only plan to the solution.
    /// - [`Event::Bound`] for every stronger bound that holds for the whole problem ([`Context::raise`]).
    /// - [`Event::Simulations`] before the plans that these simulations have found, if the solver counts simulations.
    /// - [`Event::Phase`] and [`Event::Progress`] at any time.
    ///
    /// A solve that calls another solver gives it a context from [`Context::time_slice`] if the problem is the same,
    /// from [`Context::for_restriction`] if only the other's plans hold for this problem, and otherwise from
    /// [`Context::for_auxiliary`].
    ///
    /// # Returns
    /// A solution under the solver's own name. With a plan, [`Solution::with_plan`] makes it from a [`Plan`] that was
    /// evaluated on this problem and a bound that holds for every feasible placement. Without one,
    /// [`Solution::without_plan`] makes it with the reason: [`Status::Infeasible`] is a proof, everything else is
    /// [`Status::Unknown`]. [`Solution::stop`] has the limit that ended the search; it is `None` after a proof, and for
    /// a heuristic that has finished. A solver that starts from a given plan ([`Capabilities::starts_from_plan`])
    /// returns a plan that is no worse, if the given plan is feasible.
    ///
    /// # Errors
    /// If an invariant is broken, if threads cannot be started, or if a solver that is called fails.
    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError>;
}

impl<S: Solver + ?Sized> Solver for &S {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn summary(&self) -> &'static str {
        (**self).summary()
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        (**self).unsupported(objective)
    }

    fn missing_feature(&self) -> Option<&'static str> {
        (**self).missing_feature()
    }

    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        (**self).run(problem, context)
    }
}

/// Guarantees of a solver.
#[derive(Debug, Clone, Copy)]
pub struct Capabilities {
    /// Whether the solver can prove optimality.
    pub exact: bool,
    /// Whether the result of the solver does not depend on the thread count.
    pub deterministic_across_threads: bool,
    /// Whether the solver respects a limit on simulations, apart from a few initial schedules.
    pub counts_simulations: bool,
    /// Whether the solver starts its search from a given plan ([`Context::warm_start`]).
    pub starts_from_plan: bool,
    /// Whether the seed can change the plan or the bound, if only because a limit cuts the search short.
    pub depends_on_seed: bool,
}

impl Default for Capabilities {
    /// A heuristic whose result does not depend on the thread count, on a given plan or on the seed.
    fn default() -> Self {
        Capabilities {
            exact: false,
            deterministic_across_threads: true,
            counts_simulations: false,
            starts_from_plan: false,
            depends_on_seed: false,
        }
    }
}

/// Limits of a solve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Wall-clock time; `None` means unlimited.
    pub time: Option<Duration>,
    /// Bytes that the solver's own tables may take; `None` means unlimited.
    pub memory: Option<u64>,
    /// Relative gap at which to stop.
    pub gap: f64,
    /// Maximum number of simulations, kept exactly or nearly, for solvers that count them; `None` means unlimited.
    pub simulations: Option<u64>,
}

impl Default for Limits {
    /// One minute, 8 GiB, no gap.
    fn default() -> Self {
        Limits { time: Some(Duration::from_secs(60)), memory: Some(8 << 30), gap: 0.0, simulations: None }
    }
}

/// Settings of a solve, in addition to the problem.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Limits of the solve.
    pub limits: Limits,
    /// Seed of every random choice.
    pub seed: u64,
    /// Number of worker threads; zero counts as one.
    pub threads: usize,
    /// Ends the solve once it is set.
    pub interrupt: Arc<AtomicBool>,
}

impl Default for Settings {
    /// The default limits, seed 0, one thread, and no interrupt.
    fn default() -> Self {
        Limits::default().into()
    }
}

impl From<Limits> for Settings {
    /// The limits with seed 0, one thread, and no interrupt.
    fn from(limits: Limits) -> Self {
        Settings { limits, seed: 0, threads: 1, interrupt: Arc::default() }
    }
}

/// Report of a running solver.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A phase begins.
    Phase {
        /// Name of the phase, for display.
        name: String,
    },
    /// A better placement.
    Incumbent {
        /// Value of the placement.
        value: f64,
    },
    /// Number of simulations. A solver that counts them reports it before the results of these simulations.
    Simulations {
        /// Simulations since the solve began.
        done: u64,
        /// Time of the last simulation.
        at: Instant,
    },
    /// A better lower bound.
    Bound {
        /// Value of the bound.
        value: f64,
        /// Source of the bound.
        source: &'static str,
    },
    /// Progress of the phase.
    Progress {
        /// Steps done.
        done: u64,
        /// Total number of steps, if known.
        total: Option<u64>,
    },
}

/// Receives events and may stop the solve by returning `Break`.
pub trait Observer {
    /// Receives one event.
    fn event(&mut self, event: &Event) -> ControlFlow<()>;
}

/// An observer that ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _: &Event) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Share of the remaining time that bounds may take.
pub const BOUNDS_SHARE: f64 = 0.1;

/// Everything about a solve except the problem.
pub struct Context<'a> {
    /// Limits of the solve.
    pub limits: Limits,
    /// A placement to start from.
    pub warm_start: Option<Placement>,
    /// The bounds that [`Context::establish`] computes, cheapest first; by default, the closed forms.
    pub bounds: &'static [&'static dyn Bound],
    seed: u64,
    threads: usize,
    stop: Stop,
    observer: &'a mut dyn Observer,
    reports: Reports,
    started: Instant,
}

/// End of a solve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The plan is proved optimal.
    Proof,
    /// A reason ended the solve before a proof.
    Stop(StopReason),
}

impl End {
    /// The reason that ended the solve before a proof, if any.
    pub fn reason(self) -> Option<StopReason> {
        match self {
            End::Proof => None,
            End::Stop(reason) => Some(reason),
        }
    }
}

/// Events of a solve within another that hold for the whole problem and are forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reports {
    None,
    AllButBounds,
    All,
}

impl<'a> Context<'a> {
    /// A context whose clock starts now.
    pub fn new(settings: impl Into<Settings>, observer: &'a mut dyn Observer) -> Self {
        let Settings { limits, seed, threads, interrupt } = settings.into();
        Context {
            limits,
            warm_start: None,
            bounds: &CLOSED_FORMS,
            seed,
            threads: threads.max(1),
            stop: Stop::new(limits.time, interrupt),
            observer,
            reports: Reports::All,
            started: Instant::now(),
        }
    }

    /// Seed of every random choice.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Adds a number to the seed, so that different parts of the work explore differently.
    pub fn shift_seed(&mut self, by: u64) {
        self.seed = self.seed.wrapping_add(by);
    }

    /// Worker threads, at least 1.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Reports an event; a `Break` from the observer stops the solve.
    pub fn emit(&mut self, event: Event) {
        let is_told = match self.reports {
            Reports::All => true,
            Reports::AllButBounds => !matches!(event, Event::Bound { .. }),
            Reports::None => false,
        };
        if is_told && self.observer.event(&event).is_break() {
            self.stop.interrupt();
        }
    }

    /// The stop signal.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Time since the context was made.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether a value and a bound are close enough to stop.
    pub fn gap_reached(&self, value: f64, bound: f64) -> bool {
        self.limits.gap > 0.0 && tolerance::gap(value, bound) <= self.limits.gap
    }

    /// Whether a plan with this value needs no further search: the gap is closed, or small enough to stop.
    pub fn is_enough(&self, value: f64, bound: f64) -> bool {
        tolerance::gap(value, bound) == 0.0 || self.gap_reached(value, bound)
    }

    /// Reason why a solve that has a plan with this value must end before a proof, if any.
    pub fn end(&self, value: f64, bound: f64) -> Option<StopReason> {
        if self.gap_reached(value, bound) { Some(StopReason::Gap) } else { self.stop.reason() }
    }

    /// The end of a solve with this plan and this bound, if the solve should end now.
    pub fn done(&self, best: Option<&Plan>, bound: f64) -> Option<End> {
        match best {
            Some(plan) if tolerance::gap(plan.value(), bound) == 0.0 => Some(End::Proof),
            Some(plan) => self.end(plan.value(), bound).map(End::Stop),
            None => self.stop.reason().map(End::Stop),
        }
    }

    /// Keeps a plan that is better than the best one, and reports it. Returns whether the plan was better.
    pub fn keep(&mut self, best: &mut Option<Plan>, plan: Option<Plan>) -> bool {
        let better = |plan: &Plan| best.as_ref().is_none_or(|best| plan.value() < best.value());
        let Some(plan) = plan.filter(better) else { return false };
        self.emit(Event::Incumbent { value: plan.value() });
        *best = Some(plan);
        true
    }

    /// Keeps a bound that is stronger than the strongest one, and reports it.
    pub fn raise(&mut self, strongest: &mut LowerBound, bound: LowerBound) {
        if bound.value > strongest.value {
            self.emit(Event::Bound { value: bound.value, source: bound.source });
            *strongest = bound;
        }
    }

    /// Raises a bound by those of [`Context::bounds`] that apply, cheapest first. Takes at most a tenth of the
    /// remaining time, and ends once a plan of value `best` needs no further search.
    pub fn establish(&mut self, problem: &Problem, best: Option<f64>, bound: &mut LowerBound) {
        let is_enough = |bound: &LowerBound| best.is_some_and(|value| self.is_enough(value, bound.value));
        if is_enough(bound) {
            return;
        }
        let stop = self.stop.within(self.stop.remaining().map(|left| left.mul_f64(BOUNDS_SHARE)));
        let found = strongest_until(self.bounds, problem, &stop, is_enough);
        self.raise(bound, found);
    }

    /// Context for a part of the work, which ends after a share of the remaining time. It has the same observer, and
    /// interrupting either context ends both.
    pub fn time_slice(&mut self, share: f64) -> Context<'_> {
        self.time_slice_without(Duration::ZERO, share)
    }

    /// Context for a part of the work, which ends after a share of the time that remains beyond a reserve. It has the
    /// same observer, and interrupting either context ends both.
    pub fn time_slice_without(&mut self, reserve: Duration, share: f64) -> Context<'_> {
        let time = self.stop.remaining().map(|left| left.saturating_sub(reserve).mul_f64(share));
        let stop = self.stop.within(time);
        Context { limits: Limits { time, ..self.limits }, stop, ..self.same() }
    }

    /// Context for a restriction of the problem, whose plans are also plans for the whole problem. Its bounds do not
    /// hold for the whole problem and are not reported.
    pub fn for_restriction(&mut self) -> Context<'_> {
        Context { reports: self.reports.min(Reports::AllButBounds), ..self.same() }
    }

    /// Context for an auxiliary problem, whose plans and bounds do not hold for the whole problem, for example because
    /// its objective differs. None of its events are reported.
    pub fn for_auxiliary(&mut self) -> Context<'_> {
        Context { reports: Reports::None, ..self.same() }
    }

    fn same(&mut self) -> Context<'_> {
        Context {
            limits: self.limits,
            warm_start: self.warm_start.clone(),
            bounds: self.bounds,
            seed: self.seed,
            threads: self.threads,
            stop: self.stop.clone(),
            observer: &mut *self.observer,
            reports: self.reports,
            started: self.started,
        }
    }

    /// Creates a thread pool with the context's number of worker threads.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn pool(&self) -> Result<rayon::ThreadPool, SolveError> {
        thread_pool(self.threads)
    }

    /// Runs `work` with the context's number of worker threads.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn in_pool<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, SolveError> {
        Ok(self.pool()?.install(work))
    }
}

/// Creates a thread pool with a number of worker threads, at least one.
///
/// # Errors
/// If the threads cannot be started.
pub fn thread_pool(threads: usize) -> Result<rayon::ThreadPool, SolveError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build();
    pool.map_err(|error| SolveError::Threads(error.to_string()))
}

/// Proof status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The placement is optimal within [`tolerance::OPTIMAL_RELATIVE`].
    Optimal,
    /// There is a placement, with a gap.
    Feasible,
    /// There is no placement.
    Infeasible,
    /// No placement was found, and infeasibility was not proved.
    Unknown,
}

impl From<Status> for PlanStatus {
    fn from(status: Status) -> PlanStatus {
        match status {
            Status::Optimal => PlanStatus::Optimal,
            Status::Feasible => PlanStatus::Feasible,
            Status::Infeasible => PlanStatus::Infeasible,
            Status::Unknown => PlanStatus::Unknown,
        }
    }
}

/// The outcome of a solve.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// Name of the solver.
    pub solver: &'static str,
    /// Proof status.
    pub status: Status,
    /// The placement with its evaluation by [`evaluate`].
    pub plan: Option<Plan>,
    /// The lower bound; meaningless if the problem is infeasible.
    pub bound: LowerBound,
    /// Reason why the solve ended before a proof.
    pub stop: Option<StopReason>,
    /// Reason why there is no placement, or what the search for it omitted.
    pub reason: Option<String>,
    /// Solver counters by name.
    pub statistics: Vec<(&'static str, u64)>,
}

/// A placement with its evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The placement.
    pub placement: Placement,
    /// Evaluation of the placement.
    pub evaluation: Evaluation,
}

impl Plan {
    /// Evaluates a placement that must be feasible.
    ///
    /// # Errors
    /// [`SolveError::Invariant`] if the placement is infeasible, which is a defect of the solver that made it.
    pub fn new(problem: &Problem, placement: Placement) -> Result<Plan, SolveError> {
        Plan::try_new(problem, placement).map_err(|broken| SolveError::infeasible(&broken))
    }

    /// Evaluates a placement that need not be feasible.
    ///
    /// # Errors
    /// The first violated constraint.
    pub fn try_new(problem: &Problem, placement: Placement) -> Result<Plan, Violation> {
        let mut evaluation = evaluate(problem, &placement);
        match evaluation.violations.is_empty() {
            true => Ok(Plan { placement, evaluation }),
            false => Err(evaluation.violations.swap_remove(0)),
        }
    }

    /// Value of the plan.
    pub fn value(&self) -> f64 {
        self.evaluation.value
    }

    /// Checks that the plan does not refute a bound.
    ///
    /// # Errors
    /// [`SolveError::Invariant`] if the value of the plan is below the bound.
    pub fn check_bound(&self, bound: &LowerBound) -> Result<(), SolveError> {
        let (bound, value) = (bound.value, self.value());
        match bound > value * (1.0 + tolerance::VALUE_RELATIVE) {
            true => Err(SolveError::Invariant(format!("a plan of {value} s below the bound of {bound} s"))),
            false => Ok(()),
        }
    }
}

impl Solution {
    /// The outcome with a placement. It is optimal iff the bound closes the gap; only then can the bound be exhausted.
    pub fn with_plan(
        solver: &'static str,
        plan: Plan,
        bound: LowerBound,
        stop: Option<StopReason>,
    ) -> Solution {
        // A bound that exceeds the value only by rounding equals the value.
        let bound = LowerBound { value: bound.value.min(plan.value()), ..bound };
        let status =
            if tolerance::gap(plan.value(), bound.value) == 0.0 { Status::Optimal } else { Status::Feasible };
        let stop = if status == Status::Optimal { None } else { stop };
        let source = match (bound.source, status) {
            (LowerBound::SEARCHED, Status::Optimal) => LowerBound::EXHAUSTED,
            (LowerBound::EXHAUSTED, Status::Feasible) => LowerBound::SEARCHED,
            (source, _) => source,
        };
        let bound = LowerBound { source, ..bound };
        Solution { solver, status, plan: Some(plan), bound, stop, reason: None, statistics: Vec::new() }
    }

    /// The outcome without a placement.
    pub fn without_plan(
        solver: &'static str,
        status: Status,
        bound: LowerBound,
        stop: Option<StopReason>,
        reason: String,
    ) -> Solution {
        Solution { solver, status, plan: None, bound, stop, reason: Some(reason), statistics: Vec::new() }
    }

    /// The value, if there is a placement.
    pub fn value(&self) -> Option<f64> {
        self.plan.as_ref().map(Plan::value)
    }

    /// The gap, if there is a placement.
    pub fn gap(&self) -> Option<f64> {
        self.value().map(|value| tolerance::gap(value, self.bound.value))
    }
}

/// The result of a solve or a part of it.
pub type Result<T, E = SolveError> = std::result::Result<T, E>;

/// Error that prevents any solution.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SolveError {
    /// A problem outside the solver's capabilities.
    #[error("solver `{solver}` does not support {what}")]
    Unsupported {
        /// The solver.
        solver: &'static str,
        /// The unsupported feature.
        what: String,
    },
    /// Worker threads that could not be started.
    #[error("cannot start worker threads: {0}")]
    Threads(String),
    /// A broken invariant, which is a defect of the solver, not of the input.
    #[error("internal error: {0}; please report it with the input")]
    Invariant(String),
}

impl SolveError {
    /// A placement that should have been feasible.
    pub fn infeasible(broken: &Violation) -> SolveError {
        SolveError::Invariant(format!("an infeasible placement: {broken}"))
    }
}
