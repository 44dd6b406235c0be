//! What bounds prove: their rounding, and that there is no plan.

use stagewright_core::document::ServingGoal;
use stagewright_core::tolerance::VALUE_RELATIVE;
use stagewright_serving::Problem;

use crate::program::Program;

/// By how much, relatively, a bound is weakened, so that other orders of its sums prove it too.
const MARGIN: f64 = 1e-10;

/// The bound in the direction of the goal, weakened by the margin; whole for devices, unless weights have a price.
pub(crate) fn claimed(problem: &Problem, highest: f64) -> f64 {
    let weaker = highest + MARGIN * highest.abs();
    match problem.question.goal {
        ServingGoal::Throughput | ServingGoal::Cache => weaker,
        ServingGoal::Devices if is_whole(problem) => (-weaker - 1e-6).ceil(),
        ServingGoal::Devices | ServingGoal::Price => -weaker,
    }
}

/// Whether all values are whole numbers.
pub(crate) fn is_whole(problem: &Problem) -> bool {
    problem.question.goal == ServingGoal::Devices && problem.question.start.is_none()
}

/// The value that a plan without replicas has, up to which others are worth nothing; `None` if there is a load to be served. It is the
/// rounding of the largest rates, and a token, of which every replica has more.
fn idle(problem: &Problem, program: &Program) -> Option<f64> {
    let question = &problem.question;
    let is_load = question.concurrency.is_some() || question.rate.is_some();
    match question.goal {
        ServingGoal::Throughput => Some(VALUE_RELATIVE * program.most_flow),
        ServingGoal::Cache if !is_load => Some(1.0),
        ServingGoal::Cache | ServingGoal::Devices | ServingGoal::Price => None,
    }
}

/// Whether a plan is worth more than none.
pub(crate) fn is_worth_it(problem: &Problem, program: &Program, value: f64) -> bool {
    problem.question.start.is_none() || idle(problem, program).is_none_or(|idle| value > idle)
}

/// Whether a bound is beyond what any plan has.
pub(crate) fn is_impossible(problem: &Problem, program: &Program, bound: f64) -> bool {
    if let Some(idle) = idle(problem, program) {
        return bound <= idle;
    }
    match problem.question.goal {
        ServingGoal::Throughput | ServingGoal::Cache => bound < -weights(problem),
        ServingGoal::Devices | ServingGoal::Price => bound > available(problem) + weights(problem),
    }
}

/// All devices, or their price.
pub(crate) fn available(problem: &Problem) -> f64 {
    let price = |name: &str| match problem.question.goal {
        ServingGoal::Price => problem.question.prices.get(name).copied().unwrap_or(0.0),
        _ => 1.0,
    };
    problem.fleet.kinds.iter().map(|kind| kind.count as f64 * price(&kind.name)).sum()
}

/// The price of as many weights as all devices hold.
fn weights(problem: &Problem) -> f64 {
    let Some(start) = &problem.question.start else { return 0.0 };
    let gigabytes = problem.fleet.kinds.iter().map(|kind| kind.count as f64 * kind.device.memory / 1e9);
    start.price_per_gb * gigabytes.sum::<f64>()
}
