//! The price of weights that replicas load, where others run already (`docs/serving.md`, section "From a running plan").

use stagewright_core::document::{ServingGoal, ServingQuestionDocument};
use stagewright_core::tolerance::VALUE_RELATIVE;

use crate::fleet::Problem;
use crate::replica::Replica;

/// Bytes of a gigabyte.
const GIGABYTE: f64 = 1e9;

/// Bytes of the weights of a replica on all its devices.
pub(super) fn weights(replica: &Replica) -> f64 {
    replica.stages().iter().map(|stage| stage.parallel().devices() as f64 * stage.weight_bytes()).sum()
}

/// Price of a byte of weights that is loaded, in the unit of the goal; 0 without replicas that run.
pub(super) fn byte_price(problem: &Problem) -> f64 {
    problem.question.start.as_ref().map_or(0.0, |start| start.price_per_gb / GIGABYTE)
}

/// The highest price that any plan pays for weights, rounded up: no device holds more of them than its memory.
pub(super) fn highest_price(problem: &Problem) -> f64 {
    let bytes: f64 = problem.fleet.kinds.iter().map(|kind| kind.count as f64 * kind.device.memory).sum();
    byte_price(problem) * bytes * (1.0 + VALUE_RELATIVE)
}

/// Whether a plan with this value is worth more than no replicas at all, which is an alternative if no load has to be served. Caches
/// of any replica have more than a token.
pub(super) fn is_worth_it(question: &ServingQuestionDocument, value: f64) -> bool {
    let is_load = question.concurrency.is_some() || question.rate.is_some();
    match question.goal {
        ServingGoal::Throughput => value > 0.0,
        ServingGoal::Cache => is_load || value > 1.0,
        ServingGoal::Devices | ServingGoal::Price => true,
    }
}
