//! Strategy problems, validated.

use stagewright_core::code::Code;
use stagewright_core::document::{FORBIDDEN_COST, StrategyProblemDocument};
use thiserror::Error;

use crate::code::Y::*;

/// Maximum sum of the allowed costs, so that every sum of costs fits into 64 bits.
const LARGEST_COST: i128 = 1 << 62;
/// Maximum sum of the usages. Integers and their sums up to here are exact in double precision.
const LARGEST_USAGE: i128 = 1 << 53;

/// A strategy problem whose columns fit together.
#[derive(Debug, Clone)]
pub struct Problem(StrategyProblemDocument);

/// A document that does not describe a strategy problem.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// Columns of different lengths.
    #[error("{column} has {found} entries, but {expected} are needed")]
    Length {
        /// The column.
        column: String,
        /// Length of the column.
        found: usize,
        /// Length of the other columns.
        expected: usize,
    },
    /// A node without strategies.
    #[error("node {node} has no strategy")]
    NoStrategy {
        /// The node.
        node: usize,
    },
    /// A number out of range.
    #[error("{place} is {value}, but must be {range}")]
    Range {
        /// Location of the number.
        place: String,
        /// The number.
        value: i64,
        /// Allowed range.
        range: &'static str,
    },
    /// An interval that ends before it begins.
    #[error("the interval of node {node} ends at {end}, before it begins at {start}")]
    Interval {
        /// The node.
        node: usize,
        /// First time of the interval.
        start: i64,
        /// First time after the interval.
        end: i64,
    },
    /// An end of an edge that does not exist, or both ends the same node.
    #[error("edge {edge} joins nodes {first} and {second}, but must join two of the {nodes} nodes")]
    Ends {
        /// The edge.
        edge: usize,
        /// First end of the edge.
        first: usize,
        /// Second end of the edge.
        second: usize,
        /// Number of nodes.
        nodes: usize,
    },
    /// Sums out of range.
    #[error("the {what} add up to {total}, but at most {most} is supported")]
    Total {
        /// `costs` or `usages`.
        what: &'static str,
        /// The largest possible sum.
        total: i128,
        /// The largest supported sum.
        most: i128,
    },
}

impl ProblemError {
    /// Stable code; `data/errors.md` explains it.
    pub fn code(&self) -> Code {
        match self {
            ProblemError::Length { .. } => Y001,
            ProblemError::NoStrategy { .. } => Y002,
            ProblemError::Range { .. } => Y003,
            ProblemError::Interval { .. } => Y004,
            ProblemError::Ends { .. } => Y005,
            ProblemError::Total { .. } => Y006,
        }
        .into()
    }

    /// Advice for the user.
    pub fn help(&self) -> &'static str {
        match self {
            ProblemError::Total { .. } => "scale the numbers down, or write 10^18 for what is not allowed",
            _ => "correct the file, or check that the program that wrote it finished",
        }
    }
}

impl Problem {
    /// Validates a document. O(numbers of the document).
    ///
    /// # Errors
    /// If columns do not fit together or numbers are out of range.
    pub fn new(document: StrategyProblemDocument) -> Result<Problem, ProblemError> {
        let StrategyProblemDocument { nodes, edges, usage_limit, .. } = &document;
        let count = nodes.costs.len();
        let length = |column: String, found: usize, expected: usize| match found == expected {
            true => Ok(()),
            false => Err(ProblemError::Length { column, found, expected }),
        };
        let natural = |place: &dyn Fn(usize) -> String, values: &[i64]| match values
            .iter()
            .position(|&value| value < 0)
        {
            Some(index) => {
                Err(ProblemError::Range { place: place(index), value: values[index], range: "0 or more" })
            }
            None => Ok(()),
        };
        length("problem.nodes.intervals".into(), nodes.intervals.len(), count)?;
        length("problem.nodes.usages".into(), nodes.usages.len(), count)?;
        length("problem.edges.costs".into(), edges.costs.len(), edges.nodes.len())?;
        if let Some(limit) = *usage_limit {
            natural(&|_| "problem.usage_limit".into(), &[limit])?;
        }
        let allowed_most = |values: &[i64]| {
            i128::from(values.iter().copied().filter(|&value| value < FORBIDDEN_COST).max().unwrap_or(0))
        };
        let (mut costs, mut usages) = (0i128, 0i128);
        for (node, strategies) in nodes.costs.iter().enumerate() {
            if strategies.is_empty() {
                return Err(ProblemError::NoStrategy { node });
            }
            length(format!("problem.nodes.usages[{node}]"), nodes.usages[node].len(), strategies.len())?;
            natural(&|strategy| format!("problem.nodes.costs[{node}][{strategy}]"), strategies)?;
            natural(&|strategy| format!("problem.nodes.usages[{node}][{strategy}]"), &nodes.usages[node])?;
            let [start, end] = nodes.intervals[node];
            if end < start {
                return Err(ProblemError::Interval { node, start, end });
            }
            costs += allowed_most(strategies);
            usages += i128::from(nodes.usages[node].iter().copied().max().unwrap_or(0));
        }
        for (edge, &[first, second]) in edges.nodes.iter().enumerate() {
            if first >= count || second >= count || first == second {
                return Err(ProblemError::Ends { edge, first, second, nodes: count });
            }
            let entries = nodes.costs[first].len() * nodes.costs[second].len();
            length(format!("problem.edges.costs[{edge}]"), edges.costs[edge].len(), entries)?;
            natural(&|index| format!("problem.edges.costs[{edge}][{index}]"), &edges.costs[edge])?;
            costs += allowed_most(&edges.costs[edge]);
        }
        for (what, total, limit) in [("costs", costs, LARGEST_COST), ("usages", usages, LARGEST_USAGE)] {
            if total > limit {
                return Err(ProblemError::Total { what, total, most: limit });
            }
        }
        Ok(Problem(document))
    }

    /// The document.
    pub fn document(&self) -> &StrategyProblemDocument {
        &self.0
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.0.nodes.costs.len()
    }

    /// The cost of a choice of one strategy for every node, `None` if part of it is not allowed, and the largest usage
    /// at any time. O(nodes log nodes + edges).
    ///
    /// # Panics
    /// If there is not exactly one strategy for each node.
    pub fn evaluate(&self, strategies: &[u32]) -> (Option<i64>, i64) {
        let StrategyProblemDocument { nodes, edges, .. } = &self.0;
        assert_eq!(strategies.len(), self.node_count(), "a strategy for every node");
        let of_nodes = nodes.costs.iter().zip(strategies).map(|(costs, &strategy)| costs[strategy as usize]);
        let of_edges = edges.nodes.iter().zip(&edges.costs).map(|(&[first, second], costs)| {
            let columns = nodes.costs[second].len();
            costs[strategies[first] as usize * columns + strategies[second] as usize]
        });
        let cost = of_nodes
            .chain(of_edges)
            .try_fold(0, |sum: i64, cost| (cost < FORBIDDEN_COST).then(|| sum + cost));
        // At the same time, ends precede starts, so that freed usage is available.
        let mut changes: Vec<(i64, i64)> = Vec::with_capacity(2 * self.node_count());
        for (node, &[start, end]) in
            nodes.intervals.iter().enumerate().filter(|(_, [start, end])| start < end)
        {
            let usage = nodes.usages[node][strategies[node] as usize];
            changes.extend([(start, usage), (end, -usage)]);
        }
        changes.sort_unstable();
        let peak = changes
            .iter()
            .scan(0, |sum, change| {
                *sum += change.1;
                Some(*sum)
            })
            .max();
        (cost, peak.unwrap_or(0).max(0))
    }

    /// Whether any allowed cost is at least `cutoff`.
    pub(crate) fn exceeds(&self, cutoff: i64) -> bool {
        let costs = self.0.nodes.costs.iter().chain(&self.0.edges.costs).flatten();
        costs.into_iter().any(|cost| (cutoff..FORBIDDEN_COST).contains(cost))
    }

    /// The cost of a choice of one strategy for every node; `None` if it is not a plan. O(nodes log nodes + edges).
    pub fn cost(&self, strategies: &[u32]) -> Option<i64> {
        let (cost, peak) = self.evaluate(strategies);
        cost.filter(|_| self.0.usage_limit.is_none_or(|limit| peak <= limit))
    }
}
