//! Heads and tails: lower bounds on the time before, in and after an operator, over all placements.
//!
//! A path meets a call in one interval, since calls are convex, and a call takes as long as all its operators. Along
//! any path the times of the operators therefore add up, each at the fastest of its seats, no matter which operators
//! share a call. With `before(v)` the longest such path into v and `after(v)` the longest such path out of v,
//! `before(v) + p_v ≤ ready_v`, and `before(v) + p_v + after(v)` is a lower bound on the value of every plan that runs
//! v at a seat where it takes p_v.

use stagewright_core::graph::OpId;

use super::scope::{Block, Moment, Scope};
use super::seats::SeatId;

/// Relative excess over the known value that counts as rounding.
pub(super) const SLACK: f64 = 1e-9;

/// Number of rounds that exclude seats, each round with the reduced domains of the previous one.
const EXCLUSIONS: usize = 2;

/// Heads and tails, seconds by operator.
#[derive(Debug, Clone)]
pub struct Reach {
    before: Vec<f64>,
    own: Vec<f64>,
    after: Vec<f64>,
    longest: f64,
}

impl Reach {
    /// Computes heads and tails in O(operators · seats + edges).
    pub fn new(scope: &Scope<'_>) -> Reach {
        let graph = scope.offload.graph();
        let least = |op: OpId| match (scope.block_of(op), scope.outside(op)) {
            (Some(block), _) => {
                let domain = scope.blocks[block].domain.iter();
                domain.map(|&seat| scope.seconds(op, seat)).fold(f64::INFINITY, f64::min)
            }
            // Outside operators count as zero: it is not known which operators of a call are on a path.
            _ => 0.0,
        };
        let own: Vec<f64> = graph.operators().map(least).collect();
        let mut before = vec![0.0f64; own.len()];
        let mut after = vec![0.0f64; own.len()];
        for &op in graph.topological() {
            let done = |member: &OpId| before[member.index()] + own[member.index()];
            before[op.index()] = match scope.outside(op) {
                Some((_, Moment::Known(start))) => start,
                _ => graph.predecessors(op).iter().map(done).fold(0.0, f64::max),
            };
        }
        for &op in graph.topological().iter().rev() {
            let rest = |next: OpId| match scope.outside(next) {
                Some((node, Moment::Last(tail))) => match scope.outside(op) {
                    Some((here, _)) if here == node => 0.0,
                    _ => tail,
                },
                _ => own[next.index()] + after[next.index()],
            };
            after[op.index()] = graph.successors(op).iter().map(|&next| rest(next)).fold(0.0, f64::max);
        }
        let through = |op: OpId| before[op.index()] + own[op.index()] + after[op.index()];
        let decided = graph.operators().filter(|&op| scope.block_of(op).is_some());
        let longest = decided.map(through).fold(0.0, f64::max);
        Reach { before, own, after, longest }
    }

    /// Longest path through decided operators: a lower bound on the value of every plan.
    pub fn longest(&self) -> f64 {
        self.longest
    }

    /// Longest path into an operator.
    pub(super) fn before(&self, op: OpId) -> f64 {
        self.before[op.index()]
    }

    /// Longest path to the end of an operator.
    pub(super) fn ready(&self, op: OpId) -> f64 {
        self.before[op.index()] + self.own[op.index()]
    }

    /// Longest path out of an operator.
    pub(super) fn after(&self, op: OpId) -> f64 {
        self.after[op.index()]
    }

    /// Longest path from the start of an operator.
    pub(super) fn from(&self, op: OpId) -> f64 {
        self.own[op.index()] + self.after[op.index()]
    }

    /// Domains without the seats at which no plan has a value of `high` or less; `None` if some block is left without a
    /// seat.
    pub fn exclude(&self, scope: &Scope<'_>, high: f64) -> Option<Vec<Vec<SeatId>>> {
        let of_block = |block: &Block| {
            let limit = high * (1.0 + SLACK);
            let fits = |seat: SeatId| {
                block
                    .ops
                    .iter()
                    .all(|&op| self.before(op) + scope.seconds(op, seat) + self.after(op) <= limit)
            };
            let kept: Vec<SeatId> = block.domain.iter().copied().filter(|&seat| fits(seat)).collect();
            (!kept.is_empty()).then_some(kept)
        };
        scope.blocks.iter().map(of_block).collect()
    }
}

impl<'a> Scope<'a> {
    /// The scope without the seats at which no plan has a value of `high` or less.
    pub fn excluding(&self, high: f64) -> Scope<'a> {
        let mut scope = self.clone();
        for _ in 0..EXCLUSIONS {
            let Some(domains) = Reach::new(&scope).exclude(&scope, high) else { break };
            for (block, domain) in scope.blocks.iter_mut().zip(domains) {
                block.domain = domain;
            }
        }
        scope
    }
}
