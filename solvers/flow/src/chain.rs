//! Plans of one chain: every layer on one node.

use crate::problem::{Problem, longest};
use crate::routing::Ranges;

/// The chain with the largest flow that a greedy choice finds, or `None` if it finds no chain. The nodes that can hold most
/// layers come first, so the chain has the fewest nodes; `max_hops` limits them. O(rates · log rates + log rates · nodes²).
pub(crate) fn best_chain(problem: &Problem, max_hops: usize) -> Option<Ranges> {
    let mut flows: Vec<f64> = problem.types.iter().flat_map(|kind| kind.rates.iter().copied()).collect();
    if !problem.is_ample {
        flows.extend(
            problem.links.iter().chain(&problem.source).chain(&problem.sink).filter(|&&rate| rate > 0.0),
        );
    }
    flows.sort_by(f64::total_cmp);
    flows.dedup();
    let (mut low, mut high) = (0, flows.len());
    let mut best = None;
    while low < high {
        let middle = usize::midpoint(low, high);
        match chain(problem, flows[middle], max_hops) {
            Some(ranges) => {
                best = Some(ranges);
                low = middle + 1;
            }
            None => high = middle,
        }
    }
    best
}

/// A chain that serves `flow`.
fn chain(problem: &Problem, flow: f64, max_hops: usize) -> Option<Ranges> {
    let longest = |node: usize| longest(&problem.rates[node], flow);
    let mut nodes: Vec<(usize, usize)> =
        (0..problem.nodes()).map(|node| (longest(node), node)).filter(|(layers, _)| *layers > 0).collect();
    nodes.sort_by(|a, b| b.cmp(a).then(a.1.cmp(&b.1)));
    let starts = nodes.iter().copied().filter(|&(_, node)| problem.source[node] >= flow);
    // A start from each of a few nodes: the network may be one in which most of them lead nowhere.
    starts.take(8).find_map(|start| grow(problem, flow, max_hops, &nodes, start))
}

/// Chains of the nodes that serve one of the largest possible flows, as if links limited nothing. Neighbours that are
/// linked well come before others, so few links are narrow. For each flow the nodes that can hold most layers come first.
pub(crate) fn loose_chains(problem: &Problem, count: usize) -> Vec<Ranges> {
    let mut flows: Vec<f64> = problem.types.iter().flat_map(|kind| kind.rates.iter().copied()).collect();
    flows.sort_by(|a, b| b.total_cmp(a));
    flows.dedup();
    // The larger the flow, the fewer layers fit.
    let first = flows.partition_point(|&flow| loose_chain(problem, flow).is_none());
    flows[first..].iter().take(count).filter_map(|&flow| loose_chain(problem, flow)).collect()
}

fn loose_chain(problem: &Problem, flow: f64) -> Option<Ranges> {
    let longest = |node: usize| longest(&problem.rates[node], flow);
    let mut free: Vec<usize> = (0..problem.nodes()).filter(|&node| longest(node) > 0).collect();
    if free.iter().map(|&node| longest(node)).sum::<usize>() < problem.layers {
        return None;
    }
    let mut ranges = vec![(0, 0); problem.nodes()];
    let (mut done, mut last) = (0, None);
    while done < problem.layers {
        let linked =
            |node: usize| last.map_or(problem.source[node], |before| problem.link(before, node)).min(flow);
        let next = free.iter().copied().enumerate().max_by(|&(i, a), &(j, b)| {
            linked(a).total_cmp(&linked(b)).then(longest(a).cmp(&longest(b))).then(j.cmp(&i))
        });
        let (index, node) = next?;
        free.remove(index);
        let layers = longest(node).min(problem.layers - done);
        ranges[node] = (done, layers);
        done += layers;
        last = Some(node);
    }
    Some(ranges)
}

/// Appends the node that can hold most layers, among those that are linked to the last one. The last node must reach the sink.
fn grow(
    problem: &Problem,
    flow: f64,
    max_hops: usize,
    nodes: &[(usize, usize)],
    start: (usize, usize),
) -> Option<Ranges> {
    let mut ranges = vec![(0, 0); problem.nodes()];
    let mut is_free = vec![true; problem.nodes()];
    let (mut done, mut hops, mut last) = (0, 0, start);
    loop {
        let (longest, node) = last;
        is_free[node] = false;
        let layers = longest.min(problem.layers - done);
        ranges[node] = (done, layers);
        (done, hops) = (done + layers, hops + 1);
        let reaches = problem.sink[node] >= flow;
        if done == problem.layers && reaches {
            return has_rates(problem, &ranges, flow).then_some(ranges);
        }
        if hops >= max_hops || done == problem.layers {
            return None;
        }
        let mut next =
            nodes.iter().copied().filter(|&(_, other)| is_free[other] && problem.link(node, other) >= flow);
        last = next.next()?;
    }
}

/// Whether the nodes serve the flow with their layers: a node that serves it with k layers may not do so with fewer, if its
/// rates are not monotone.
fn has_rates(problem: &Problem, ranges: &Ranges, flow: f64) -> bool {
    let mut nodes = ranges.iter().zip(&problem.rates).filter(|(range, _)| range.1 > 0);
    nodes.all(|(&(_, layers), rates)| rates[layers - 1] >= flow)
}
