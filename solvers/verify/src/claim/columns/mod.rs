//! Replays a bound of column generation: prices at which the devices cannot hold everything.
//!
//! Let a threshold T, prices π_u ≥ 0 of the colocation classes and prices β_p ≥ 0 of the devices of each pool p be
//! given. Suppose that no set S of classes which a stage on r devices of pool p may run with a load of at most T is
//! worth more than r of these devices: Σ_{u ∈ S} π_u ≤ r β_p. A plan of value T or less runs each class on one stage,
//! and its stages take at most n_p devices of pool p, so it would have Σ_u π_u ≤ Σ_p n_p β_p. Where the classes are
//! worth more than the devices there is no such plan, under any split rule. This is weak duality for the linear
//! relaxation of the cover of all classes by such sets (Gilmore and Gomory, 1961).
//!
//! What the classes are worth beyond the devices is first added to the prices of the devices ([`dual`]). The
//! supposition is then checked stage by stage: what a stage may hold is relaxed to sums over its classes and the
//! tensors it cuts ([`stage`]), tensors to statuses along the order of the certificate ([`frontier`]), and a search
//! tells whether any set within these sums is worth more than its devices ([`search`]). All sums are of whole
//! numbers: times rounded down, prices rounded before anything is made of them. So nothing is lost to rounding after
//! that, and any prices and any order that a file may give prove a bound or nothing.
//!
//! # Limits
//!
//! The work is counted, a nanosecond or two a step, and ends the replay after [`WORK`] steps; tables and lists of the
//! search take at most about a gibibyte. What is not decided within them is left open.

mod dual;
mod frontier;
mod search;
mod stage;

pub(super) use dual::Evidence;

use dual::Dual;
use frontier::Frontier;
use search::{ATTEMPTS, Answer, Question};
use stage::{Load, Shape};

use super::certificate::Proof;
use crate::read::{Pools, Problem};

/// Most steps of a replay: half a minute at most.
const WORK: u64 = 10_000_000_000;

/// Steps of work to look up what an operator or a tensor takes.
const LOOK_UP: usize = 256;

/// What is left of the work.
struct Budget(u64);

impl Budget {
    /// Takes steps; none where fewer are left.
    fn spend(&mut self, steps: usize) -> Option<()> {
        self.0 = self.0.checked_sub(steps as u64)?;
        Some(())
    }
}

/// Replays the certificate.
pub(super) fn replay(problem: &Problem, evidence: &Evidence<'_>) -> Proof {
    let pools = Pools::of(&problem.cluster, &problem.pins);
    match Dual::read(problem, &pools, evidence) {
        Err(why) => Proof::Malformed(why),
        Ok(dual) => match no_set_is_worth_more(problem, &pools, &dual, &mut Budget(WORK)) {
            Some(true) => Proof::Bound(dual.threshold),
            Some(false) | None => Proof::Open,
        },
    }
}

/// Whether no set that a stage may hold is worth more than its devices; none where the work ran out.
fn no_set_is_worth_more(problem: &Problem, pools: &Pools, dual: &Dual, budget: &mut Budget) -> Option<bool> {
    let kind_of = |at: usize| pools.list()[at].kind;
    let mut used: Vec<usize> = (0..pools.list().len()).filter(|&at| pools.list()[at].count > 0).collect();
    used.sort_by_key(|&at| kind_of(at));
    for of_kind in used.chunk_by(|&a, &b| kind_of(a) == kind_of(b)) {
        let frontier = Frontier::new(problem, kind_of(of_kind[0]), &dual.place, budget)?;
        for &at in of_kind {
            let pool = &pools.list()[at];
            budget.spend(problem.graph.operators.len() * LOOK_UP)?;
            let load = Load::new(problem, pool, dual);
            for shape in Shape::all(problem.rules.max_replicas.min(pool.count)) {
                let goal = dual.devices[at].saturating_mul(u64::from(shape.devices));
                if !holds(&load, shape, &frontier, &dual.worth, goal, budget)? {
                    return Some(false);
                }
            }
        }
    }
    Some(true)
}

/// Whether no set of a shape is worth more than the goal. The second sum is heeded only where the first alone does not
/// show it: with two, far more sets are incomparable.
fn holds(
    load: &Load,
    shape: Shape,
    frontier: &Frontier,
    worth: &[u64],
    goal: u64,
    budget: &mut Budget,
) -> Option<bool> {
    let heeding: &[bool] = if load.has_second() { &[false, true] } else { &[false] };
    for &second in heeding {
        let steps = load.steps(shape, frontier, second, budget)?;
        let question = Question { frontier, steps: &steps, worth, goal };
        for attempt in ATTEMPTS {
            match question.ask(attempt, budget)? {
                Answer::NoSet => return Some(true),
                Answer::SomeSet => break,
                Answer::TooManySets => {}
            }
        }
    }
    Some(false)
}
