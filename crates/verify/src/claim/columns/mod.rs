//! Replays a bound of column generation: prices at which the devices cannot hold all classes.
//!
//! Given are a threshold T, prices π_u ≥ 0 of the colocation classes and prices β_p ≥ 0 of the devices of each pool p.
//! Suppose that no set S of classes that a stage can run on r devices of pool p with a load of at most T has a value
//! above that of these devices: Σ_{u ∈ S} π_u ≤ r β_p. A plan of value T or less runs each class on one stage, and its
//! stages take at most n_p devices of pool p, so it would have Σ_u π_u ≤ Σ_p n_p β_p. If the classes are worth more
//! than the devices, there is no such plan, under any split rule. This is weak duality for the linear relaxation of
//! covering all classes by such sets (Gilmore and Gomory, 1961).
//!
//! The excess of the class prices over the device prices is first added to the device prices ([`dual`]). The
//! supposition is then checked stage by stage: the capacity of a stage is relaxed to sums over its classes and cut
//! tensors ([`stage`]), tensors become states along the order of the certificate ([`frontier`]), and a search decides
//! whether any set within these sums is worth more than its devices ([`search`]). All sums are integers: times are
//! rounded down, and prices are rounded before their first use. No rounding error follows, so any prices and any order
//! in a file prove a valid bound or nothing.
//!
//! # Limits
//!  Work is counted in steps of a nanosecond or two, and the replay stops after [`WORK`] steps; tables and lists of the
//! search take at most about a gibibyte. A question that is not decided within these limits stays open.

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

/// Maximum work steps of a replay: at most half a minute.
const WORK: u64 = 10_000_000_000;

/// Work steps to look up the cost of an operator or a tensor.
const LOOK_UP: usize = 256;

/// Remaining work steps.
struct Budget(u64);

impl Budget {
    /// Takes steps; `None` if fewer are left.
    fn spend(&mut self, steps: usize) -> Option<()> {
        self.0 = self.0.checked_sub(steps as u64)?;
        Some(())
    }
}

/// Replays the certificate.
pub(super) fn replay(problem: &Problem, evidence: &Evidence<'_>) -> Proof {
    let pools = Pools::new(&problem.cluster, &problem.pins);
    match Dual::read(problem, &pools, evidence) {
        Err(why) => Proof::Malformed(why),
        Ok(dual) => match no_set_is_worth_more(problem, &pools, &dual, &mut Budget(WORK)) {
            Some(true) => Proof::Bound(dual.threshold),
            Some(false) | None => Proof::Open,
        },
    }
}

/// Whether no set that a stage can hold has a value above that of its devices; `None` if the budget is exhausted.
fn no_set_is_worth_more(problem: &Problem, pools: &Pools, dual: &Dual, budget: &mut Budget) -> Option<bool> {
    let kind_of = |pool: usize| pools.list()[pool].kind;
    let mut used: Vec<usize> = (0..pools.list().len()).filter(|&pool| pools.list()[pool].count > 0).collect();
    used.sort_by_key(|&pool| kind_of(pool));
    for of_kind in used.chunk_by(|&a, &b| kind_of(a) == kind_of(b)) {
        let frontier = Frontier::new(problem, kind_of(of_kind[0]), &dual.place, budget)?;
        for &index in of_kind {
            let pool = &pools.list()[index];
            budget.spend(problem.graph.operators.len() * LOOK_UP)?;
            let load = Load::new(problem, pool, dual);
            for shape in Shape::all(problem.rules.max_replicas.min(pool.count)) {
                let goal = dual.devices[index].saturating_mul(u64::from(shape.devices));
                if !holds(&load, shape, &frontier, &dual.worth, goal, budget)? {
                    return Some(false);
                }
            }
        }
    }
    Some(true)
}

/// Whether no set of a shape has a value above the goal. The second sum is used only if the first alone does not
/// decide: with two sums, far more sets are incomparable.
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
