//! Branch and price at a threshold: decides whether any partition into columns is a plan whose value is at most the
//! threshold.
//!
//! The root is the whole problem. A node whose relaxation is excluded is closed. A node whose partition is a
//! plan within the threshold yields that plan, and the threshold drops to just below its value; closed nodes
//! stay closed. Any other node is split by [`super::branch`]; if its partition is a plan above the threshold,
//! that plan is reported too, since a threshold may be far below the best known plan. When no node is left,
//! the threshold is excluded: no free split has that value or a lower one.
//!
//! Nodes are taken depth first, a few at a time: the deepest nodes are relaxed in parallel and their results taken in
//! order, so that neither plan nor verdict depends on the number of threads. If a node's state graph does not fit, its
//! LP fails, or it stays undecided in spite of its rules, the node remains open, and so does the threshold.
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

/// Number of nodes relaxed in parallel.
pub const BATCH: usize = 4;
/// Maximum number of rounds for each form of a node's relaxation, after which the node is split anyway.
const ROUNDS: u64 = 60;
/// Relative excess of a plan's value over the threshold that counts as rounding.
const ROUNDING: f64 = 1e-10;

/// Outcome of the search at a threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The threshold, lowered below every plan found within it.
    pub threshold: f64,
    /// Whether the threshold is excluded.
    pub excluded: bool,
    /// Best plan, if better than the incumbent; its value may exceed the threshold.
    pub plan: Option<Plan>,
    /// Number of nodes relaxed.
    pub nodes: u64,
    /// First failure of the LP solver, if any.
    pub failure: Option<LpError>,
}

/// Outcome of a node.
enum Outcome {
    Closed,
    /// The plan of the node is within the threshold: visit the node again at a lower threshold, with these columns.
    Again(Arc<[Column]>),
    Split([Rules; 2], Arc<[Column]>),
    Undecided,
}

/// Task of a tree search.
#[derive(Debug, Clone, Copy)]
pub struct Quest {
    /// The threshold at which to find a plan, or to exclude every plan.
    pub threshold: f64,
    /// Value of the best known plan, infinite if there is none; better plans are reported.
    pub incumbent: f64,
    /// Maximum number of nodes.
    pub most: u64,
}

/// Searches the tree of a threshold. Calls `tell` for every plan that is better than the incumbent and all earlier
/// plans.
///
/// The verdict depends on all arguments except the pool, unless `stop` ends the search.
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
                // If one batch yields two plans, the node of the worse plan is visited again too.
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

/// Whether a plan's value is within a threshold, up to rounding.
fn is_at(plan: &Plan, threshold: f64) -> bool {
    plan.value() <= threshold * (1.0 + ROUNDING)
}

/// Visits a node; returns its outcome and the plan of its partition, whatever its value.
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
        // The only partition left is not a plan within the threshold.
        Branching::Single if is_whole => Outcome::Closed,
        Branching::Single | Branching::Indistinct => Outcome::Undecided,
    };
    Ok((outcome, plan))
}
