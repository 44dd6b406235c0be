//! Prices of nodes at which no plan serves more than a flow.
//!
//! A node with k layers is one of those through which tokens reach each of these layers. With price π of the node it costs
//! π / k there, so the covers of all layers cost at most the sum of the prices of all nodes. Prices at which the cheapest covers
//! cost more prove that no plan serves more than the flow. The best prices are the dual of a linear program over covers (a
//! configuration program, Gilmore and Gomory 1961), whose rows are generated.

use highs::{Col, HighsModelStatus, RowProblem, Sense};
use stagewright_core::solver::Stop;

use crate::cover::{Cover, Members};
use crate::problem::{Problem, Type, longest_above};

/// Number of rounds of generated rows.
const ROUNDS: usize = 200;

/// Share of the largest price below which a price is none.
const NEGLIGIBLE: f64 = 1e-9;

/// By how much, relatively, covers must cost more than the sum of the prices.
const MARGIN: f64 = 1e-7;

/// The claim that prices must prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The covers of all layers cost too much.
    AnyCovers,
    /// The covers of all layers cost too much as soon as a layer has a cover of several nodes.
    SharedLayer,
}

/// Prices of nodes that prove a claim for a flow; `None` if none were found. The prices of all nodes add up to 1.
pub(crate) fn prices(problem: &Problem, flow: f64, claim: Claim, stop: &Stop) -> Option<Vec<f64>> {
    let layers = problem.layers as f64;
    let counts: Vec<f64> = problem.types.iter().map(|kind| kind.nodes.len() as f64).collect();
    let mut covers: [Vec<Cover>; 2] = [Vec::new(), Vec::new()];
    for (kind, Type { rates, .. }) in problem.types.iter().enumerate() {
        let longest = longest_above(rates, flow);
        if longest > 0 {
            covers[0].push(vec![(kind, longest, 1.0)]);
        }
    }
    let total: f64 = counts.iter().sum();
    let mut by_type = vec![1.0 / total; counts.len()];
    for _ in 0..ROUNDS {
        if stop.reason().is_some() {
            return None;
        }
        let members = Members::new(&problem.types, &by_type);
        let (single, cover) = members.cheapest(flow, 1)?;
        // A layer that only one node serves has a cover of that node alone.
        let (proved, group, new) = match claim {
            Claim::AnyCovers => (layers * single, 0, cover),
            Claim::SharedLayer => {
                let alone = problem.types.iter().zip(&by_type).filter_map(|(kind, &price)| {
                    let longest = longest_above(&kind.rates, flow);
                    (longest > 0).then(|| price / longest as f64)
                });
                let alone = alone.fold(f64::INFINITY, f64::min);
                let (several, shared) = members.cheapest(flow, 2)?;
                let cheapest = alone.min(several);
                ((layers - 1.0) * cheapest + several, 1, shared)
            }
        };
        if proved > 1.0 + MARGIN {
            let mut prices = vec![0.0; problem.nodes()];
            for (kind, &price) in problem.types.iter().zip(&by_type) {
                for &node in &kind.nodes {
                    prices[node] = price;
                }
            }
            return Some(prices);
        }
        let is_new = !new.is_empty() && !covers[group].contains(&new);
        if is_new {
            covers[group].push(new);
        }
        let (found, limit) = solve(&counts, &covers, layers, claim)?;
        if limit <= 1.0 || (!is_new && found == by_type) {
            return None;
        }
        by_type = found;
    }
    None
}

/// The best prices of types for the given covers, and what they would prove: the largest cost of all layers.
fn solve(counts: &[f64], covers: &[Vec<Cover>; 2], layers: f64, claim: Claim) -> Option<(Vec<f64>, f64)> {
    let mut program = RowProblem::default();
    let prices: Vec<Col> = counts.iter().map(|_| program.add_column(0.0, 0.0..)).collect();
    // Cost of any cover, and of one of several nodes. No cover costs more than all nodes do.
    let weights = match claim {
        Claim::AnyCovers => (layers, 0.0),
        Claim::SharedLayer => (layers - 1.0, 1.0),
    };
    let any = program.add_column(weights.0, 0.0..=1.0);
    let shared = program.add_column(weights.1, 0.0..=2.0);
    program.add_row(1.0..=1.0, prices.iter().copied().zip(counts.iter().copied()));
    if claim == Claim::SharedLayer {
        program.add_row(0.0.., [(shared, 1.0), (any, -1.0)]);
    }
    for (cost, covers) in [any, shared].into_iter().zip(covers) {
        for cover in covers {
            let mut share = vec![0.0; counts.len()];
            for &(kind, layers, copies) in cover {
                share[kind] += copies / layers as f64;
            }
            let row = prices.iter().copied().zip(share).filter(|(_, share)| *share > 0.0);
            program.add_row(0.0.., row.chain([(cost, -1.0)]));
        }
    }
    let mut model = program.try_optimise(Sense::Maximise).ok()?;
    model.make_quiet();
    model.set_option("threads", 1);
    model.set_option("parallel", "off");
    let solved = model.try_solve().ok()?;
    if solved.status() != HighsModelStatus::Optimal {
        return None;
    }
    let columns = solved.get_solution().columns().to_vec();
    let limit = weights.0 * columns[counts.len()] + weights.1 * columns[counts.len() + 1];
    let mut found: Vec<f64> = columns[..counts.len()].iter().map(|price| price.max(0.0)).collect();
    // A price that is negligible could be rounded to another when it is divided.
    let largest = found.iter().copied().fold(0.0, f64::max);
    found.iter_mut().filter(|price| **price < NEGLIGIBLE * largest).for_each(|price| *price = 0.0);
    // Rounding must not raise the sum of the prices.
    let sum: f64 = found.iter().zip(counts).map(|(price, count)| price * count).sum();
    found.iter_mut().for_each(|price| *price /= sum);
    (sum > 0.0).then_some((found, limit))
}
