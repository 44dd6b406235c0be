//! Branch and price at a threshold: whether any partition into columns is a plan of this value or a lower
//! one.
//!
//! The root is the whole problem. A node whose relaxation is excluded is closed; one whose partition is a
//! plan gives it, and lowers the threshold to just below its value, which closed nodes stay closed for; any
//! other is split by [`super::branch`]. When no node is left, the threshold is excluded: no free split has
//! that value or a lower one.
//!
//! Nodes are taken depth first, a few at a time: the deepest ones are relaxed side by side, and what they say
//! is taken in their order, so that neither plan nor verdict depends on the number of threads. A node that
//! has no room for its state graph, or is undecided in spite of its rules, stays open, and with it the
//! threshold.
//!
//! Literature: Ryan and Foster, "An integer programming approach to scheduling" (1981); Barnhart, Johnson,
//! Nemhauser, Savelsbergh and Vance, "Branch-and-price: column generation for solving huge integer programs"
//! (Operations Research, 1998).

use std::sync::Arc;

use rayon::ThreadPool;
use rayon::prelude::*;
use stagewright_core::solver::{Plan, Stop};

use super::ascent::JUST_BELOW;
use super::branch::{Branching, fractional, unanswered};
use super::generation::Pace;
use super::master::LpError;
use super::node::{Ground, Node, Relaxed, Task};
use super::rules::{Column, Rules};

/// Nodes that are relaxed side by side.
pub const BATCH: usize = 4;
/// Rounds of each form of the relaxation of a node, after which it is split as it is.
const ROUNDS: u64 = 60;
/// Relative excess of a plan's value over the threshold that is rounding.
const ROUNDING: f64 = 1e-10;

/// What became of a threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The threshold, lowered below the plan where there is one.
    pub threshold: f64,
    /// Whether it is excluded.
    pub excluded: bool,
    /// The best plan of the threshold asked for.
    pub plan: Option<Plan>,
    /// Nodes that were relaxed.
    pub nodes: u64,
}

/// What a node says.
enum Outcome {
    Closed,
    Plan(Plan),
    Split([Rules; 2], Arc<[Column]>),
    Undecided,
}

/// Searches the tree of a threshold, with at most `most` nodes; `tell` is told of every plan, each better
/// than the one before.
///
/// The verdict depends on the arguments other than the pool, unless `stop` ends the search.
///
/// # Errors
/// Where the LP solver fails.
pub fn search(
    ground: &Ground<'_>,
    columns: Arc<[Column]>,
    threshold: f64,
    most: u64,
    pool: &ThreadPool,
    stop: &Stop,
    mut tell: impl FnMut(&Plan),
) -> Result<Verdict, LpError> {
    let mut verdict = Verdict { threshold, excluded: false, plan: None, nodes: 0 };
    let mut open = vec![Node { rules: Rules::default(), columns }];
    let mut undecided = false;
    while !open.is_empty() {
        let size = BATCH.min(open.len()).min((most - verdict.nodes) as usize);
        if size == 0 || stop.reason().is_some() {
            return Ok(verdict);
        }
        let batch = open.split_off(open.len() - size);
        let threshold = verdict.threshold;
        let outcomes: Vec<Result<Outcome, LpError>> =
            pool.install(|| batch.par_iter().map(|node| visit(ground, node, threshold, stop)).collect());
        verdict.nodes += size as u64;
        for (node, outcome) in batch.into_iter().zip(outcomes) {
            match outcome? {
                Outcome::Closed => {}
                Outcome::Plan(plan) => {
                    // Two plans of one batch: the node of the worse one is looked at again all the same.
                    if plan.value() <= verdict.threshold * (1.0 + ROUNDING) {
                        tell(&plan);
                        verdict.threshold = plan.value() * (1.0 - JUST_BELOW);
                        verdict.plan = Some(plan);
                    }
                    open.push(node);
                }
                Outcome::Split([first, second], columns) => {
                    open.push(Node { rules: second, columns: columns.clone() });
                    open.push(Node { rules: first, columns });
                }
                Outcome::Undecided => undecided = true,
            }
        }
    }
    verdict.excluded = !undecided;
    Ok(verdict)
}

fn visit(ground: &Ground<'_>, node: &Node, threshold: f64, stop: &Stop) -> Result<Outcome, LpError> {
    let task = Task { threshold, rounds: ROUNDS, pace: Pace::Brisk };
    let shares = match ground.relax(node, task, stop)? {
        Relaxed::Excluded => return Ok(Outcome::Closed),
        Relaxed::Unknown => return Ok(Outcome::Undecided),
        Relaxed::Open(shares) => shares,
    };
    let partition = shares.partition();
    let is_whole = partition.is_some();
    let plan = partition.and_then(|columns| ground.plan(columns));
    if let Some(plan) = plan.filter(|plan| plan.value() <= threshold * (1.0 + ROUNDING)) {
        return Ok(Outcome::Plan(plan));
    }
    let kinds = &ground.preparation.kinds;
    if let Some(rules) = fractional(&node.rules, kinds, ground.units, &shares.of) {
        return Ok(Outcome::Split(rules, shares.columns));
    }
    Ok(match unanswered(&node.rules, kinds, ground.units) {
        Branching::Two(rules) => Outcome::Split(rules, shares.columns),
        // The one partition that is left, and no plan of this value.
        Branching::Single if is_whole => Outcome::Closed,
        Branching::Single | Branching::Indistinct => Outcome::Undecided,
    })
}
