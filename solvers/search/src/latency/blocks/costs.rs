//! Costs of units in flat arrays, by position in a topological order.

use stagewright_core::contract::Units;
use stagewright_core::graph::OpId;
use stagewright_core::problem::Problem;

use crate::latency::host::Hosts;

/// Costs of the units, and of the nets between them.
#[derive(Debug)]
pub(super) struct Costs {
    /// Costs on each pool of accelerators.
    pub(super) pools: Vec<PoolCosts>,
    /// Seconds on the hosts: the longest path within the unit; NaN if no host can run it.
    pub(super) host: Vec<f64>,
    pub(super) bytes: Vec<f64>,
    pub(super) predecessors: Vec<Vec<u32>>,
    /// Nets that each unit produces, and nets that it reads.
    pub(super) made: Vec<Vec<u32>>,
    pub(super) read: Vec<Vec<u32>>,
    /// Position of the producer of each net, and number of its readers.
    pub(super) producer: Vec<u32>,
    pub(super) readers: Vec<u32>,
    /// Minimum seconds from the start of a unit to the end, on the cheapest pools and without transfers.
    pub(super) tail: Vec<f64>,
}

/// Costs on one pool of accelerators.
#[derive(Debug)]
pub(super) struct PoolCosts {
    /// The pool.
    pub(super) pool: usize,
    /// Maximum number of calls of its devices.
    pub(super) most: u32,
    /// Bytes for one call.
    pub(super) memory: f64,
    /// NaN if the pool cannot run the unit.
    pub(super) seconds: Vec<f64>,
    /// By net.
    pub(super) transfer: Vec<f64>,
}

impl Costs {
    /// Arranges the costs along an order, for `calls` calls of each accelerator.
    pub(super) fn new(problem: &Problem, units: &Units, order: &[u32], calls: u32) -> Costs {
        let mut position = vec![0u32; units.len()];
        for (at, &unit) in (0..).zip(order) {
            position[unit as usize] = at;
        }
        let along = |numbers: &[u32]| {
            let mut along: Vec<u32> = numbers.iter().map(|&unit| position[unit as usize]).collect();
            along.sort_unstable();
            along
        };
        let each = || order.iter().map(|&unit| unit as usize);
        let nets = units.nets();
        let accelerators = problem.pools().iter().enumerate().filter(|(_, spec)| !spec.host);
        let pools: Vec<PoolCosts> = accelerators
            .map(|(pool, spec)| PoolCosts {
                pool,
                most: spec.count().min(u32::try_from(units.len()).unwrap_or(u32::MAX)).saturating_mul(calls),
                memory: spec.memory / f64::from(calls),
                seconds: each().map(|unit| units.seconds(unit, pool).unwrap_or(f64::NAN)).collect(),
                transfer: (0..nets.len()).map(|net| units.transfer(net, pool)).collect(),
            })
            .collect();
        let hosts = Hosts::new(problem);
        let mut rank = vec![0u32; problem.graph().operator_count()];
        for (at, &op) in (0..).zip(problem.graph().topological()) {
            rank[op.index()] = at;
        }
        let host: Vec<f64> =
            each().map(|unit| host_path(problem, units.members(unit), &hosts, &rank)).collect();
        let mut tail = vec![0.0f64; order.len()];
        for at in (0..order.len()).rev() {
            let own = pools.iter().map(|pool| pool.seconds[at]).fold(host[at], f64::min);
            let successors = along(units.successors(order[at] as usize));
            let after = successors.iter().map(|&next| tail[next as usize]).fold(0.0, f64::max);
            tail[at] = if own.is_nan() { after } else { own + after };
        }
        let is_made = |unit: usize, net: u32| nets[net as usize].producer as usize == unit;
        let of = |unit: usize, made: bool| {
            units.nets_of(unit).iter().copied().filter(|&net| is_made(unit, net) == made).collect()
        };
        Costs {
            pools,
            host,
            bytes: each().map(|unit| units.bytes(unit, 1)).collect(),
            predecessors: each().map(|unit| along(units.predecessors(unit))).collect(),
            made: each().map(|unit| of(unit, true)).collect(),
            read: each().map(|unit| of(unit, false)).collect(),
            producer: nets.iter().map(|net| position[net.producer as usize]).collect(),
            readers: (0..nets.len()).map(|net| units.pins(net).len() as u32 - 1).collect(),
            tail,
        }
    }
}

/// Seconds of the longest path through the operators of a unit on their hosts; NaN if an operator has no host. `rank`
/// is their position in a topological order.
fn host_path(problem: &Problem, members: &[OpId], hosts: &Hosts, rank: &[u32]) -> f64 {
    if let [op] = members {
        return hosts.seconds(*op).unwrap_or(f64::NAN);
    }
    let graph = problem.graph();
    let mut ready: rustc_hash::FxHashMap<u32, f64> = rustc_hash::FxHashMap::default();
    let mut sorted: Vec<_> = members.to_vec();
    sorted.sort_unstable_by_key(|&op| rank[op.index()]);
    let mut longest = 0.0f64;
    for op in sorted {
        let Some(own) = hosts.seconds(op) else { return f64::NAN };
        let inputs = graph.predecessors(op).iter().filter_map(|before| ready.get(&before.0));
        let finish = inputs.copied().fold(0.0, f64::max) + own;
        ready.insert(op.0, finish);
        longest = longest.max(finish);
    }
    longest
}
