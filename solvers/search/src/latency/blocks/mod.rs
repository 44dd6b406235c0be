//! Block dynamic program: the best total order of calls and host segments.
//!
//! A chain of ideals ∅ = I₀ ⊂ I₁ ⊂ … ⊂ V cuts the model into blocks. A block runs as one call of an accelerator, at the
//! cost of its load, or on the hosts, at the cost of its longest path; it starts when all blocks before it are done. So
//!
//! ```text
//! f(I, calls made) = min over ideals J ⊂ I of f(J, calls before) + min(load(I \ J), host path(I \ J))
//! ```
//!
//! is the latency of the best plan of this shape. The value is never below the actual latency of the plan, in which
//! blocks of separate branches may overlap; on a chain of operators every plan has this shape, and the value is the
//! optimum.
//!
//! From an ideal J the supersets are walked depth first, adding units by increasing position, so that each superset is
//! visited once, with the sums of the call and the host path updated incrementally (`walk`). A walk ends where memory
//! and the value to beat exclude both the call and the host segment. Over all enumerated ideals it takes O(pairs of
//! ideals · (pins of a unit + calls)); over the prefixes of one order, O(units² · …).

mod costs;
mod ideals;
mod table;
mod walk;

pub use ideals::Ideals;

use rayon::prelude::*;
use stagewright_core::calls::{assign, assign_if_missing};
use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Plan, Result, Stop};
use stagewright_core::tolerance;

use super::greedy;
use super::host::Hosts;
use crate::one_device::everything_on;
use crate::order;
use costs::Costs;
use table::{Block, Table};
use walk::Walker;

/// Maximum number of calls per accelerator in the program; local search may find more.
const MAX_CALLS: u32 = 4;

/// Limits of a run.
#[derive(Debug, Clone, Copy)]
struct Limits<'a> {
    stop: &'a Stop,
    /// Bytes of tables; `None` means unlimited.
    memory: Option<u64>,
    /// Only plans below this value are searched.
    below: f64,
    threads: usize,
}

/// The outcome of a run.
enum Outcome {
    /// The best plan that is a chain of blocks, below the requested value.
    Best(Placement),
    /// No chain of blocks is below the requested value.
    None,
    /// Ended by a time or memory limit.
    Stopped,
}

/// The best plan over a set of ideals, each accelerator making up to `calls` calls, each with an equal share of its
/// memory.
fn blocks(
    problem: &Problem,
    units: &Units,
    ideals: &Ideals,
    calls: u32,
    limits: Limits<'_>,
    pool: &rayon::ThreadPool,
) -> Outcome {
    let costs = Costs::new(problem, units, ideals.order(), calls);
    let Some(mut table) = Table::new(&costs, ideals, limits.threads.max(1), limits.memory) else {
        return Outcome::Stopped;
    };
    let workers = table.workers();
    let mut walkers: Vec<Walker> = (0..workers).map(|_| Walker::new(units, &costs, ideals, limits)).collect();
    for level in ideals.levels() {
        table.settle(level.clone());
        let (settled, pending) = table.split();
        let mut shares: Vec<_> = walkers.iter_mut().zip(pending).collect();
        // Neighbours in a level have similar costs, so they are dealt out in turn.
        let stopped = pool.install(|| {
            shares.par_iter_mut().enumerate().any(|(share, (walker, pending))| {
                let mut mine = level.clone().skip(share).step_by(workers);
                mine.any(|from| walker.expand(from, settled, pending).is_err())
            })
        });
        if stopped {
            return Outcome::Stopped;
        }
    }
    match table.read(limits.below) {
        Some(blocks) => Outcome::Best(placement(problem, units, &costs, ideals, &blocks, calls)),
        None => Outcome::None,
    }
}

/// The best plan over the prefixes of several orders, and over a warm start; `None` if no plan fits. It is no worse
/// than the hosts alone, each accelerator alone, and accelerators filled in turn.
///
/// # Errors
/// If worker threads cannot be started, and for broken invariants.
pub fn over_orders(problem: &Problem, units: &Units, context: &mut Context<'_>) -> Result<Option<Plan>> {
    let mut best: Option<Plan> = None;
    let warm = context.warm_start.take().map(|warm| assign_if_missing(problem, warm));
    context.keep(&mut best, warm.and_then(|warm| Plan::try_new(problem, warm).ok()));
    // Immediate plans, in case a limit cuts the program short.
    let capable = |pool: &usize| problem.graph().operators().all(|op| problem.seconds(op, *pool).is_some());
    let alone = (0..problem.pools().len()).filter(capable);
    let alone = alone.map(|pool| assign(problem, &everything_on(problem, problem.pools()[pool].devices[0])));
    for simple in greedy::fill(problem).into_iter().chain(alone) {
        if context.stop().reason().is_some() && best.is_some() {
            break;
        }
        context.keep(&mut best, Plan::try_new(problem, simple).ok());
    }
    let mut tried: Vec<Vec<UnitId>> = Vec::new();
    for rule in order::PLAIN {
        if context.stop().reason().is_some() {
            break;
        }
        let order = rule.order(problem, units);
        if tried.contains(&order) {
            continue;
        }
        tried.push(order.clone());
        over_ideals(problem, units, &Ideals::prefixes(order), &mut best, context)?;
    }
    Ok(best)
}

/// Coverage of a search over a set of ideals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Complete: there is no better chain of blocks.
    Whole,
    /// Complete except for chains that are worse than one that overfills a host, since the program ignores the memory
    /// of hosts.
    WithoutHostMemory,
    /// Incomplete: cut off by a time or memory limit.
    Cut,
}

/// Improves a plan over a set of ideals.
///
/// With q calls per accelerator the program runs once for each number of calls up to q, since it splits an
/// accelerator's memory evenly among its calls: more calls mean more and smaller blocks.
///
/// # Errors
/// If worker threads cannot be started, and for broken invariants.
pub fn over_ideals(
    problem: &Problem,
    units: &Units,
    ideals: &Ideals,
    best: &mut Option<Plan>,
    context: &mut Context<'_>,
) -> Result<Extent> {
    let mut extent = Extent::Whole;
    for calls in 1..=problem.objective().calls().min(MAX_CALLS) {
        let limits = Limits {
            stop: &context.stop().clone(),
            memory: context.limits.memory,
            below: best
                .as_ref()
                .map_or(f64::INFINITY, |plan| plan.value() * (1.0 - tolerance::OPTIMAL_RELATIVE)),
            threads: context.threads(),
        };
        match blocks(problem, units, ideals, calls, limits, &context.pool()?) {
            Outcome::Best(placement) => match Plan::try_new(problem, placement) {
                Ok(plan) => {
                    context.keep(best, Some(plan));
                }
                Err(_) if extent == Extent::Whole => extent = Extent::WithoutHostMemory,
                Err(_) => {}
            },
            Outcome::None => {}
            Outcome::Stopped => extent = Extent::Cut,
        }
    }
    Ok(extent)
}

/// The placement of a chain of blocks: one device after the other, each with its calls in order.
fn placement(
    problem: &Problem,
    units: &Units,
    costs: &Costs,
    ideals: &Ideals,
    blocks: &[Block],
    calls: u32,
) -> Placement {
    let hosts = Hosts::new(problem);
    let mut device_of = vec![DeviceId(u32::MAX); problem.graph().operator_count()];
    let mut call_of = vec![0; device_of.len()];
    let mut made = vec![0u32; problem.pools().len()];
    for block in blocks {
        let members = ideals.difference(block.from, block.to);
        let ops = members.flat_map(|position| units.members(ideals.order()[position]));
        match block.pool {
            Some(pool) => {
                let pool = costs.pools[pool].pool;
                let device = problem.pools()[pool].devices[(made[pool] / calls) as usize];
                for op in ops {
                    device_of[op.index()] = device;
                    call_of[op.index()] = made[pool] % calls;
                }
                made[pool] += 1;
            }
            None => {
                for &op in ops {
                    device_of[op.index()] =
                        hosts.device(op).expect("a block on hosts has units they can run");
                }
            }
        }
    }
    Placement::with_calls(device_of, call_of)
}
