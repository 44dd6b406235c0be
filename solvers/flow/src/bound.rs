//! Upper bounds on the flow of every plan.

use stagewright_core::document::LayerCertificateDocument;
use stagewright_core::solver::Stop;

use crate::prices::{Claim, prices};
use crate::problem::{Problem, longest_above};
use crate::solution::Bound;

/// Steps of a bisection.
const BISECTIONS: usize = 40;
/// Share of layers and nodes that rounding may change.
const ROUNDING: f64 = 2e-11;
/// Relative width at which a bisection ends.
const WIDTH: f64 = 1e-6;

/// The bound of hops: each token passes at most `max_hops` nodes, and as many of their layers as the model has, so at any price λ of a
/// hop Σ (k − λ) · min(rate with k layers / F, 1) over the nodes is at least layers − λ · hops. With λ = 0 it needs no limit of
/// hops. The price is found by golden section; every price gives a bound. O(rates · log²).
pub(crate) fn of_hops(problem: &Problem, max_hops: Option<u32>, stop: &Stop) -> Bound {
    let bound = |price: f64| {
        let flow = at_price(problem, max_hops, price);
        Bound { flow, certificate: LayerCertificateDocument::Hops { flow, price } }
    };
    let mut best = bound(0.0);
    let Some(hops) = max_hops else { return best };
    let (mut low, mut high) = (0.0, problem.layers as f64 / f64::from(hops.max(1)));
    let ratio = (5f64.sqrt() - 1.0) / 2.0;
    let mut inner = [high - ratio * (high - low), low + ratio * (high - low)].map(&bound);
    for _ in 0..40 {
        if stop.reason().is_some() {
            break;
        }
        let is_left = inner[0].flow <= inner[1].flow;
        let better = &inner[usize::from(!is_left)];
        if better.flow < best.flow {
            best = better.clone();
        }
        let [left, right] = inner;
        if is_left {
            high = low + ratio * (high - low);
            inner = [bound(high - ratio * (high - low)), left];
        } else {
            low = high - ratio * (high - low);
            inner = [right, bound(low + ratio * (high - low))];
        }
    }
    best
}

/// Whether the bound of hops proves, at a price of a hop, that no plan serves more than `flow`. What rounding could change
/// proves nothing.
fn excludes(problem: &Problem, max_hops: Option<u32>, price: f64, flow: f64) -> bool {
    let work = problem.types.iter().map(|kind| kind.nodes.len() as f64 * node_work(&kind.rates, price, flow));
    let needed = problem.layers as f64 - price * max_hops.map_or(0.0, f64::from);
    let slack = ROUNDING * (problem.layers + problem.nodes()) as f64 * (1.0 + price);
    work.sum::<f64>() + slack < needed
}

/// The largest (k − price) · min(rate with k layers / flow, 1), or 0.
fn node_work(rates: &[f64], price: f64, flow: f64) -> f64 {
    let share = |rate: f64| if rate >= flow { 1.0 } else { rate / flow };
    let work = rates.iter().enumerate().map(|(index, &rate)| (index as f64 + 1.0 - price) * share(rate));
    work.fold(0.0, f64::max)
}

/// The least flow that the bound excludes at a price. The layers that nodes do for a token become fewer as the flow grows, so all
/// larger flows are excluded as well.
fn at_price(problem: &Problem, max_hops: Option<u32>, price: f64) -> f64 {
    let fastest: f64 = (0..problem.nodes()).map(|node| problem.fastest(node)).sum();
    let (mut low, mut high) = (0.0, 2.0 * fastest * problem.layers as f64);
    if excludes(problem, max_hops, price, 0.0) {
        return 0.0;
    }
    if !excludes(problem, max_hops, price, high) {
        return f64::INFINITY;
    }
    for _ in 0..100 {
        if high - low <= 1e-10 * high {
            break;
        }
        let middle = f64::midpoint(low, high);
        if excludes(problem, max_hops, price, middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// The evidence that no plan serves more than `flow`, by prices of covers or of a chain.
fn at_flow(problem: &Problem, flow: f64, stop: &Stop) -> Option<Bound> {
    if let Some(prices) = prices(problem, flow, Claim::AnyCovers, stop) {
        return Some(Bound { flow, certificate: LayerCertificateDocument::Prices { flow, prices } });
    }
    if is_chain_possible(problem, flow) {
        return None;
    }
    let prices = prices(problem, flow, Claim::SharedLayer, stop)?;
    Some(Bound { flow, certificate: LayerCertificateDocument::Chain { flow, prices } })
}

/// The evidence that a plan serves as much as any can. Its flow is a little above that of the plan, in which sums of rates may be
/// rounded down.
pub(crate) fn at_plan(problem: &Problem, value: f64, stop: &Stop) -> Option<Bound> {
    at_flow(problem, value * (1.0 + 1e-10), stop)
}

/// Tightens a bound by bisection between the flow of a plan and the bound. Every step that succeeds is a bound; a step that
/// fails says nothing.
pub(crate) fn tighten(problem: &Problem, value: f64, mut bound: Bound, stop: &Stop) -> Bound {
    let mut low = value;
    for _ in 0..BISECTIONS {
        if bound.flow - low <= WIDTH * bound.flow || stop.reason().is_some() {
            break;
        }
        let middle = f64::midpoint(low, bound.flow);
        match at_flow(problem, middle, stop) {
            Some(better) => bound = better,
            None => low = middle,
        }
    }
    bound
}

/// Whether nodes that are connected by links of more than `flow` can hold all layers in one chain that serves more than it.
fn is_chain_possible(problem: &Problem, flow: f64) -> bool {
    let count = problem.nodes();
    let longest: Vec<usize> = problem.rates.iter().map(|rates| longest_above(rates, flow)).collect();
    let mut group: Vec<Option<usize>> = vec![None; count];
    for start in 0..count {
        if group[start].is_some() || longest[start] == 0 {
            continue;
        }
        let (mut layers, mut open) = (0, vec![start]);
        group[start] = Some(start);
        while let Some(node) = open.pop() {
            layers += longest[node];
            for other in 0..count {
                let is_linked = problem.link(node, other) > flow || problem.link(other, node) > flow;
                if is_linked && group[other].is_none() && longest[other] > 0 {
                    group[other] = Some(start);
                    open.push(other);
                }
            }
        }
        if layers >= problem.layers {
            return true;
        }
    }
    false
}
