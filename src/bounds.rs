//! The lower bounds of [`BOUNDS`] on a problem, for every part of the program that shows or uses one.
//!
//! Commands, reports, checks and Python all request bounds here, and solvers through their [`Context`], so a problem has
//! one strongest bound everywhere. Results are stored with the problem and not computed again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use stagewright_core::bound::{LowerBound, established, strongest_until};
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Capabilities, Context, Result, Solution, Solver, Status, Stop};

use crate::registry::BOUNDS;

/// Values of all applicable bounds with their names, in the order of the registry, as far as they can be computed
/// before `stop` applies. `None` for a bound without a value, because some operator cannot run anywhere or the time was
/// too short.
pub fn by_name(problem: &Problem, stop: &Stop) -> Vec<(&'static str, Option<LowerBound>)> {
    let applying = BOUNDS.iter().filter(|bound| bound.applies(problem));
    applying.map(|bound| (bound.name(), established(*bound, problem, stop))).collect()
}

/// The strongest bound that applies, or the trivial one if none has a value. Without a time limit, bounds that improve
/// with time end after a fixed amount of work, so the result is the same on every machine.
pub fn strongest(problem: &Problem, stop: &Stop) -> LowerBound {
    strongest_until(BOUNDS, problem, stop, |_| false)
}

/// The [`strongest`] bound, computed until `time` has passed or an interrupt arrives. Returns the strongest bound so
/// far, and whether the time was too short; if it was not, the bound is the same on every machine.
pub fn strongest_within(problem: &Problem, time: Duration, interrupt: &AtomicBool) -> (LowerBound, bool) {
    let end = Arc::new(AtomicBool::new(false));
    let stop = Stop::new(None, end.clone());
    let began = Instant::now();
    let (sender, done) = channel::<()>();
    thread::scope(|scope| {
        let watch = scope.spawn(move || {
            while done.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let is_late = began.elapsed() >= time;
                if is_late || interrupt.load(Ordering::Relaxed) {
                    end.store(true, Ordering::Relaxed);
                    return is_late;
                }
            }
            false
        });
        let bound = strongest(problem, &stop);
        drop(sender);
        (bound, watch.join().unwrap_or(false))
    })
}

/// Interval at which the clock and the interrupt flag are polled.
const LOOK: Duration = Duration::from_millis(50);

/// A solver whose answers take all bounds of the registry into account.
///
/// An exact solver computes bounds when its own search takes long, and the remaining ones after the search. Other
/// solvers compute them before the search, so that they can stop once a plan reaches the strongest.
pub struct Proving<S>(pub S);

impl<S: Solver> Solver for Proving<S> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn summary(&self) -> &'static str {
        self.0.summary()
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        self.0.unsupported(objective)
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
        context.bounds = BOUNDS;
        if !self.capabilities().exact {
            context.establish(problem, None, &mut LowerBound::TRIVIAL.clone());
        }
        let mut solution = self.0.solve(problem, context)?;
        if solution.status == Status::Infeasible || solution.status == Status::Optimal {
            return Ok(solution);
        }
        context.establish(problem, solution.value(), &mut solution.bound);
        let Some(plan) = solution.plan else { return Ok(solution) };
        plan.check_bound(&solution.bound)?;
        let proved = Solution::with_plan(solution.solver, plan, solution.bound, solution.stop);
        let reason = solution.reason.filter(|_| proved.status != Status::Optimal);
        Ok(Solution { reason, statistics: solution.statistics, ..proved })
    }
}
