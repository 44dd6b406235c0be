//! Costs of units in flat arrays, by position in a topological order.

use stagewright_core::contraction::{NetId, UnitId, Units};
use stagewright_core::graph::OpId;
use stagewright_core::id;
use stagewright_core::ids::{Keyed, places};
use stagewright_core::problem::Problem;

use super::ideals::Position;
use crate::latency::host::Hosts;

id! {
    /// Index in [`Costs`] of a pool of accelerators.
    pub(super) PoolId;
}

/// Costs of the units, and of the nets between them.
#[derive(Debug)]
pub(super) struct Costs {
    /// Costs on each pool of accelerators.
    pub(super) pools: Keyed<PoolId, PoolCosts>,
    /// Seconds on the hosts: the longest path within the unit; NaN if no host can run it.
    pub(super) host: Keyed<Position, f64>,
    pub(super) bytes: Keyed<Position, f64>,
    pub(super) predecessors: Keyed<Position, Vec<Position>>,
    /// Nets that each unit produces, and nets that it reads.
    pub(super) made: Keyed<Position, Vec<NetId>>,
    pub(super) read: Keyed<Position, Vec<NetId>>,
    /// Position of the producer of each net, and number of its readers.
    pub(super) producer: Keyed<NetId, Position>,
    pub(super) readers: Keyed<NetId, u32>,
    /// Minimum seconds from the start of a unit to the end of the sample, on the cheapest pools and without transfers.
    pub(super) tail: Keyed<Position, f64>,
}

/// Costs on one pool of accelerators.
#[derive(Debug, Default)]
pub(super) struct PoolCosts {
    /// The pool.
    pub(super) pool: usize,
    /// Maximum number of calls on the devices of the pool.
    pub(super) most: u32,
    /// Memory available to one call, in bytes.
    pub(super) memory: f64,
    /// Seconds of each unit; NaN if the pool cannot run it.
    pub(super) seconds: Keyed<Position, f64>,
    /// Transfer time of each net.
    pub(super) transfer: Keyed<NetId, f64>,
}

impl Costs {
    /// Arranges the costs along an order, for `calls` calls of each accelerator.
    pub(super) fn new(
        problem: &Problem,
        units: &Units,
        order: &Keyed<Position, UnitId>,
        calls: u32,
    ) -> Costs {
        let position: Keyed<_, Position> = places(order);
        let along = |units: &[UnitId]| {
            let mut along: Vec<Position> = units.iter().map(|&unit| position[unit]).collect();
            along.sort_unstable();
            along
        };
        let each = || order.iter().copied();
        let nets = units.nets();
        let accelerators = problem.pools().iter().enumerate().filter(|(_, spec)| !spec.host);
        let pools: Keyed<PoolId, PoolCosts> = accelerators
            .map(|(pool, spec)| PoolCosts {
                pool,
                most: spec.count().min(u32::try_from(units.len()).unwrap_or(u32::MAX)).saturating_mul(calls),
                memory: spec.memory / f64::from(calls),
                seconds: each().map(|unit| units.seconds(unit, pool).unwrap_or(f64::NAN)).collect(),
                transfer: nets.ids().map(|net| units.transfer(net, pool)).collect(),
            })
            .collect();
        let hosts = Hosts::new(problem);
        let rank = places(problem.graph().topological());
        let host: Keyed<Position, f64> =
            each().map(|unit| host_path(problem, units.members(unit), &hosts, &rank)).collect();
        let mut tail = Keyed::filled(0.0f64, order.len());
        for position in order.ids().rev() {
            let own = pools.iter().map(|pool| pool.seconds[position]).fold(host[position], f64::min);
            let successors = along(units.successors(order[position]));
            let after = successors.iter().map(|&next| tail[next]).fold(0.0, f64::max);
            tail[position] = if own.is_nan() { after } else { own + after };
        }
        let is_made = |unit: UnitId, net: NetId| nets[net].producer == unit;
        let nets_of = |unit: UnitId, made: bool| {
            units.nets_of(unit).iter().copied().filter(|&net| is_made(unit, net) == made).collect()
        };
        Costs {
            pools,
            host,
            bytes: each().map(|unit| units.bytes(unit, 1)).collect(),
            predecessors: each().map(|unit| along(units.predecessors(unit))).collect(),
            made: each().map(|unit| nets_of(unit, true)).collect(),
            read: each().map(|unit| nets_of(unit, false)).collect(),
            producer: nets.iter().map(|net| position[net.producer]).collect(),
            readers: nets.ids().map(|net| units.pins(net).len() as u32 - 1).collect(),
            tail,
        }
    }
}

/// Seconds of the longest path through the operators of a unit on their hosts; NaN if an operator has no host. `rank`
/// is the position of each operator in a topological order.
fn host_path(problem: &Problem, members: &[OpId], hosts: &Hosts, rank: &Keyed<OpId, u32>) -> f64 {
    if let [op] = members {
        return hosts.seconds(*op).unwrap_or(f64::NAN);
    }
    let graph = problem.graph();
    let mut ready: rustc_hash::FxHashMap<OpId, f64> = rustc_hash::FxHashMap::default();
    let mut sorted: Vec<_> = members.to_vec();
    sorted.sort_unstable_by_key(|&op| rank[op]);
    let mut longest = 0.0f64;
    for op in sorted {
        let Some(own) = hosts.seconds(op) else { return f64::NAN };
        let inputs = graph.predecessors(op).iter().filter_map(|before| ready.get(before));
        let finish = inputs.copied().fold(0.0, f64::max) + own;
        ready.insert(op, finish);
        longest = longest.max(finish);
    }
    longest
}
