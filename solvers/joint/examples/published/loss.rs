//! Errors that a fit minimises: of seconds, and of bytes and feasibility.

use std::collections::BTreeMap;

use super::case::{Case, Price};
use super::rows::Status;

/// Largest error of a row, so that rows outside the model have no pull.
const MOST: f64 = 1.0;

/// Ratio of bytes over memory, as a logarithm, from which a plan is clearly infeasible.
const SOFTNESS: f64 = 0.05;

/// Weight of a run that is called infeasible by mistake, over that of a failed trial called feasible.
const INFEASIBLE: f64 = 3.0;

/// Sources whose memory is not judged: plans of Mist offload, and AMP says how much memory a card has, but not how much its
/// runs leave of it.
const WITHOUT_MEMORY: [&str; 2] = ["amp", "mist-l4"];

/// Sums by source weigh by the square root of its rows.
fn mean(errors: impl Iterator<Item = (String, f64, f64)>) -> f64 {
    let mut sources: BTreeMap<String, (f64, f64, f64)> = BTreeMap::new();
    for (source, weight, error) in errors {
        let (count, weights, sum) = sources.entry(source).or_default();
        (*count, *weights, *sum) = (*count + 1.0, *weights + weight, *sum + weight * error);
    }
    let scaled = |(count, weights, sum): &(f64, f64, f64)| (weights / count.sqrt(), sum / count.sqrt());
    let (weights, sum) = sources
        .values()
        .map(scaled)
        .fold((0.0, 0.0), |(left, right), (weight, error)| (left + weight, right + error));
    if weights > 0.0 { sum / weights } else { 0.0 }
}

/// Mean error of seconds, where several kinds of GPUs and guesses weigh less.
pub(crate) fn seconds(cases: &[&Case], prices: &[Result<Price, String>]) -> f64 {
    mean(cases.iter().zip(prices).filter_map(|(case, price)| {
        let (measured, price) = (case.run.timed()?, price.as_ref().ok()?);
        let of_kinds = if case.machines.generations.len() > 1 { 0.3 } else { 1.0 };
        let weight = of_kinds * if case.run.is_guess { 0.5 } else { 1.0 };
        Some((case.run.source.clone(), weight, (price.seconds / measured).ln().abs().min(MOST)))
    }))
}

/// Mean error of bytes, and the smooth share of mistakes about feasibility.
pub(crate) fn memory(cases: &[&Case], prices: &[Result<Price, String>]) -> f64 {
    let judged = cases.iter().zip(prices).filter_map(|(case, price)| Some((*case, *price.as_ref().ok()?)));
    let judged: Vec<(&Case, Price)> =
        judged.filter(|(case, _)| !WITHOUT_MEMORY.contains(&case.run.source.as_str())).collect();
    let bytes = mean(judged.iter().filter_map(|(case, price)| {
        let measured = case.run.memory.filter(|&memory| memory > 0.0)?;
        Some((case.run.source.clone(), 1.0, (price.memory_bytes / measured).ln().abs().min(MOST)))
    }));
    let mistakes = |status: Status, sign: f64| {
        let rows = judged.iter().filter(|(case, _)| case.run.status == status);
        let over = rows.map(|(case, price)| sign * (price.memory_bytes / case.machines.memory).ln());
        let shares: Vec<f64> = over.map(|over| 1.0 / (1.0 + (-over / SOFTNESS).exp())).collect();
        shares.iter().sum::<f64>() / shares.len().max(1) as f64
    };
    bytes + INFEASIBLE * mistakes(Status::Ran, 1.0) + mistakes(Status::OutOfMemory, -1.0)
}
