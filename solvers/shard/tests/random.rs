//! Random problems small enough for exhaustive enumeration.

use rand::{Rng, RngExt};
use stagewright_core::document::{
    FORBIDDEN_COST, StrategyEdgesDocument, StrategyNodesDocument, StrategyProblemDocument,
};
use stagewright_core::seed;
use stagewright_shard::Problem;

/// Random costs of the pairs of strategies: arbitrary, sums of two terms, or such that the first end determines the
/// second.
fn costs(rng: &mut impl Rng, rows: usize, columns: usize, is_dense: bool) -> Vec<i64> {
    // Determined nodes are merged, so nothing would remain of a dense problem with many of them.
    let shape = if is_dense { 2 } else { rng.random_range(0..4) };
    let terms: Vec<i64> = (0..rows + columns).map(|_| rng.random_range(0..20)).collect();
    let decided: Vec<usize> = (0..rows).map(|_| rng.random_range(0..columns)).collect();
    let mut cost = |row: usize, column: usize| match shape {
        0 => terms[row] + terms[rows + column],
        1 if decided[row] != column => FORBIDDEN_COST,
        1 => terms[row],
        _ if rng.random_bool(0.1) => FORBIDDEN_COST,
        _ => rng.random_range(0..50),
    };
    let mut costs = Vec::new();
    for row in 0..rows {
        costs.extend((0..columns).map(|column| cost(row, column)));
    }
    costs
}

/// The random problem drawn from a seed.
pub(crate) fn problem(number: u64) -> Problem {
    let rng = &mut seed::stream(7, number);
    let is_dense = rng.random_bool(0.4);
    let nodes = if is_dense { rng.random_range(4..8usize) } else { rng.random_range(1..8usize) };
    let fewest = if is_dense { 2 } else { 1 };
    let counts: Vec<usize> = (0..nodes).map(|_| rng.random_range(fewest..5)).collect();
    let list = |rng: &mut dyn Rng, count: usize, limit: i64| -> Vec<i64> {
        (0..count).map(|_| rng.random_range(0..=limit)).collect()
    };
    let mut document = StrategyProblemDocument {
        name: format!("random {number}"),
        nodes: StrategyNodesDocument {
            intervals: (0..nodes)
                .map(|_| {
                    let start = rng.random_range(0..8);
                    [start, start + rng.random_range(0..6)]
                })
                .collect(),
            costs: counts.iter().map(|&count| list(rng, count, 30)).collect(),
            usages: counts.iter().map(|&count| list(rng, count, 20)).collect(),
        },
        edges: StrategyEdgesDocument { nodes: Vec::new(), costs: Vec::new() },
        usage_limit: None,
    };
    if rng.random_bool(0.1) {
        let node = rng.random_range(0..nodes);
        document.nodes.costs[node][0] = FORBIDDEN_COST;
    }
    let density = if is_dense { 0.6 } else { 0.35 };
    for second in 1..nodes {
        for first in 0..second {
            while rng.random_bool(density) {
                let ends = if rng.random_bool(0.5) { [first, second] } else { [second, first] };
                document.edges.nodes.push(ends);
                document.edges.costs.push(costs(rng, counts[ends[0]], counts[ends[1]], is_dense));
            }
        }
    }
    let largest: i64 =
        document.nodes.usages.iter().map(|usages| usages.iter().max().copied().unwrap_or(0)).sum();
    if rng.random_bool(0.9) {
        document.usage_limit = Some(rng.random_range(largest / 3..=largest));
    }
    Problem::new(document).expect("random problems are sound")
}

/// Minimum cost of a plan, by enumeration.
pub(crate) fn optimum(problem: &Problem) -> Option<i64> {
    let counts: Vec<u32> = problem.document().nodes.costs.iter().map(|costs| costs.len() as u32).collect();
    let mut strategies = vec![0; counts.len()];
    let mut best = None;
    loop {
        let cost = problem.cost(&strategies);
        best = best.into_iter().chain(cost).min();
        let Some(position) = (0..counts.len()).find(|&index| strategies[index] + 1 < counts[index]) else {
            return best;
        };
        strategies[..position].fill(0);
        strategies[position] += 1;
    }
}
