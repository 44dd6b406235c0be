//! The lower bounds of [`BOUNDS`] on a problem, for everyone who shows or uses one.
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

/// The bounds that apply by name, in the order of the registry, as far as they can be computed before `stop` applies.
/// `None` for a bound without a value, because some operator cannot run anywhere or the time was too short.
pub fn by_name(problem: &Problem, stop: &Stop) -> Vec<(&'static str, Option<LowerBound>)> {
    let applying = BOUNDS.iter().filter(|bound| bound.applies(problem));
    applying.map(|bound| (bound.name(), established(*bound, problem, stop))).collect()
}

/// The strongest bound that applies, the trivial one if none has a value. Without a time limit, bounds that improve with
/// time end at a limit on their work, the same on every machine.
pub fn strongest(problem: &Problem, stop: &Stop) -> LowerBound {
    strongest_until(BOUNDS, problem, stop, |_| false)
}

/// The [`strongest`] bound without a time limit, until `time` has passed or an interrupt comes. Returns the strongest bound so
/// far, and whether the time was too short; if not, the bound is the same on every machine.
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

/// Interval at which an interrupt and the clock are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A solver whose answers count all bounds of the registry.
///
/// An exact solver computes them when its own search takes long, and the rest after it. Others start with them, so that
/// they end when a plan reaches one.
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
