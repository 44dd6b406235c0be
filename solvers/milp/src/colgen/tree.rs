//! Branch and price at a threshold: whether any partition into columns is a plan of this value or a lower
//! one.
//!
//! The root is the whole problem. A node whose relaxation is excluded is closed; one whose partition is a
//! plan of the threshold gives it, and lowers the threshold to just below its value, which closed nodes stay
//! closed for; any other is split by [`super::branch`], and where its partition is a plan above the threshold
//! that plan is told as well, since a threshold may lie far below the best plan known. When no node is left,
//! the threshold is excluded: no free split has that value or a lower one.
//!
//! Nodes are taken depth first, a few at a time: the deepest ones are relaxed side by side, and what they say
//! is taken in their order, so that neither plan nor verdict depends on the number of threads. A node that
//! has no room for its state graph, whose LP fails, or that is undecided in spite of its rules, stays open,
//! and with it the threshold.
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
    /// The threshold, lowered below every plan that was found at it.
    pub threshold: f64,
    /// Whether it is excluded.
    pub excluded: bool,
    /// The best plan, where one is better than the incumbent; it may be above the threshold.
    pub plan: Option<Plan>,
    /// Nodes that were relaxed.
    pub nodes: u64,
    /// Why the LP solver failed, at the first node where it did.
    pub failure: Option<LpError>,
}

/// What a node says.
enum Outcome {
    Closed,
    /// Its plan is at the threshold: a lower one is asked for, with these columns.
    Again(Arc<[Column]>),
    Split([Rules; 2], Arc<[Column]>),
    Undecided,
}

/// What is asked of a tree.
#[derive(Debug, Clone, Copy)]
pub struct Quest {
    /// The value to find or to exclude.
    pub threshold: f64,
    /// The value of the best plan known, infinite where there is none: better ones are told.
    pub incumbent: f64,
    /// Most nodes.
    pub most: u64,
}

/// Searches the tree of a threshold; `tell` is told of every plan that is better than the incumbent and than
/// those before it.
///
/// The verdict depends on the arguments other than the pool, unless `stop` ends the search.
pub fn search(
    ground: &Ground<'_>,
    columns: Arc<[Column]>,
    quest: Quest,
    pool: &ThreadPool,
    stop: &Stop,
    mut tell: impl FnMut(&Plan),
) -> Verdict {
    let Quest { threshold, incumbent: mut best, most } = quest;
    let mut verdict = Verdict { threshold, excluded: false, plan: None, nodes: 0, failure: None };
    let mut open = vec![Node { rules: Rules::default(), columns }];
    let mut undecided = false;
    while !open.is_empty() {
        let size = BATCH.min(open.len()).min((most - verdict.nodes) as usize);
        if size == 0 || stop.reason().is_some() {
            return verdict;
        }
        let batch = open.split_off(open.len() - size);
        let threshold = verdict.threshold;
        let visits: Vec<Result<(Outcome, Option<Plan>), LpError>> =
            pool.install(|| batch.par_iter().map(|node| visit(ground, node, threshold, stop)).collect());
        verdict.nodes += size as u64;
        for (node, visit) in batch.into_iter().zip(visits) {
            let (outcome, plan) = visit.unwrap_or_else(|error| {
                verdict.failure.get_or_insert(error);
                (Outcome::Undecided, None)
            });
            if let Some(plan) = plan {
                if is_at(&plan, verdict.threshold) {
                    verdict.threshold = verdict.threshold.min(plan.value() * (1.0 - JUST_BELOW));
                }
                if plan.value() < best {
                    tell(&plan);
                    best = plan.value();
                    verdict.plan = Some(plan);
                }
            }
            match outcome {
                Outcome::Closed => {}
                // Of two plans of one batch the node of the worse one is looked at again as well.
                Outcome::Again(columns) => open.push(Node { columns, ..node }),
                Outcome::Split([first, second], columns) => {
                    open.push(Node { rules: second, columns: columns.clone() });
                    open.push(Node { rules: first, columns });
                }
                Outcome::Undecided => undecided = true,
            }
        }
    }
    verdict.excluded = !undecided;
    verdict
}

/// Whether a plan is of a threshold or better.
fn is_at(plan: &Plan, threshold: f64) -> bool {
    plan.value() <= threshold * (1.0 + ROUNDING)
}

/// What a node says, and the plan that its partition is, whatever its value.
fn visit(
    ground: &Ground<'_>,
    node: &Node,
    threshold: f64,
    stop: &Stop,
) -> Result<(Outcome, Option<Plan>), LpError> {
    let task = Task { threshold, rounds: ROUNDS, pace: Pace::Brisk };
    let shares = match ground.relax(node, task, stop)? {
        Relaxed::Excluded => return Ok((Outcome::Closed, None)),
        Relaxed::Unknown => return Ok((Outcome::Undecided, None)),
        Relaxed::Open(shares) => shares,
    };
    let partition = shares.partition();
    let is_whole = partition.is_some();
    let plan = partition.and_then(|columns| ground.plan(columns));
    if plan.as_ref().is_some_and(|plan| is_at(plan, threshold)) {
        return Ok((Outcome::Again(shares.columns), plan));
    }
    let kinds = &ground.preparation.kinds;
    if let Some(rules) = fractional(&node.rules, kinds, ground.units, &shares.of) {
        return Ok((Outcome::Split(rules, shares.columns), plan));
    }
    let outcome = match unanswered(&node.rules, kinds, ground.units) {
        Branching::Two(rules) => Outcome::Split(rules, shares.columns),
        // The one partition that is left, and no plan of this value.
        Branching::Single if is_whole => Outcome::Closed,
        Branching::Single | Branching::Indistinct => Outcome::Undecided,
    };
    Ok((outcome, plan))
}
