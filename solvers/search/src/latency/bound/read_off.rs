//! The placement that the recursion suggests.

use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::OpId;
use stagewright_core::ids::Keyed;
use stagewright_core::placement::Placement;
use stagewright_core::solver::Stop;
use stagewright_core::tolerance::round_down;

use super::chain::{Chain, Levels};
use super::ideals::IdealId;
use super::least;
use super::nodes::NodeId;

/// Reads a placement off the levels, from the end, consumers before producers. An operator that a host can finish by
/// its deadline runs there. Otherwise it goes into the call that finishes it the earliest, on a separate device, if a
/// device is left and the call is disjoint from those before it. The result must be evaluated: it may be infeasible or
/// worse than expected, since the calls may wait for one another in a cycle, or for longer than the recursion assumed.
/// `None` if calls were not counted by pool, or if an operator would need a host and has none.
///
/// O(operators · (ideals + pairs above one ideal)); `None` if stopped.
pub(super) fn placement(chain: &Chain<'_>, levels: &Levels, stop: &Stop) -> Option<Placement> {
    let strides = levels.strides.as_ref()?;
    let graph = chain.offload.graph();
    let mut node_of = Keyed::filled(None, chain.groups.len());
    chain.nodes.group.enumerate().for_each(|(node, &group)| node_of[group] = Some(node));
    let mut calls: Vec<Call> = Vec::new();
    let mut used = vec![0; chain.nodes.accelerators.len()];
    let mut called = Keyed::filled(false, chain.nodes.len());
    let last = Demand { deadline: levels.value(), level: levels.levels.len() - 1 };
    let mut demands = Keyed::filled(last, graph.operator_count());
    for &op in graph.topological().iter().rev() {
        let node = node_of[chain.groups.of[op]];
        if node.is_some_and(|node| called[node]) {
            continue;
        }
        if stop.reason().is_some() {
            return None;
        }
        let Demand { deadline, level } = demands[op];
        let ready = &levels.levels[level].ready;
        let waits = graph.predecessors(op).iter().map(|&input| ready[input]).fold(0.0, f64::max);
        let late = round_down(waits + chain.host[op]) > deadline;
        let call =
            node.filter(|_| late).and_then(|node| Call::find(chain, levels, strides, level, node, &used));
        match call.filter(|call| !call.nodes.iter().any(|&node| called[node])) {
            Some(call) => {
                used[call.pool] += 1;
                let demand = Demand { deadline: call.start, level: call.level };
                for &node in &call.nodes {
                    called[node] = true;
                    for &op in &chain.groups.members[chain.nodes.group[node]] {
                        let inputs = graph.predecessors(op).iter();
                        inputs.for_each(|&input| demands[input].tighten(demand));
                    }
                }
                calls.push(call);
            }
            None => {
                let demand = Demand { deadline: waits.max(deadline - chain.host[op]), level };
                graph.predecessors(op).iter().for_each(|&input| demands[input].tighten(demand));
            }
        }
    }
    assemble(chain, &calls)
}

/// Deadline of an operator, and the level of the calls left for it.
#[derive(Clone, Copy)]
struct Demand {
    deadline: f64,
    level: usize,
}

impl Demand {
    fn tighten(&mut self, other: Demand) {
        self.deadline = self.deadline.min(other.deadline);
        self.level = self.level.min(other.level);
    }
}

struct Call {
    /// Index among the accelerators.
    pool: usize,
    start: f64,
    /// Level of the nodes that the call waits for.
    level: usize,
    nodes: Vec<NodeId>,
}

impl Call {
    /// The call that contains a node and ends the earliest, on a pool with a device left.
    fn find(
        chain: &Chain<'_>,
        levels: &Levels,
        strides: &[(usize, usize)],
        level: usize,
        node: NodeId,
        used: &[usize],
    ) -> Option<Call> {
        let mut best: Option<(f64, usize, usize, IdealId)> = None;
        for (pool, accelerator) in chain.nodes.accelerators.iter().enumerate() {
            let (stride, calls) = strides[pool];
            let devices = chain.offload.problem().pools()[accelerator.pool].devices.len();
            if (level / stride).is_multiple_of(calls + 1) || used[pool] == devices {
                continue;
            }
            let earlier = level - stride;
            let after = &levels.levels[earlier].after;
            for (ideal, &start) in after.enumerate() {
                let row = chain.least[pool].row(ideal);
                let Ok(found) = row.binary_search_by_key(&node, |entry| entry.0) else { continue };
                let end = start + row[found].1;
                if best.is_none_or(|best| end < best.0) {
                    best = Some((end, pool, earlier, ideal));
                }
            }
        }
        let (_, pool, level, ideal) = best.filter(|best| best.0.is_finite())?;
        let accelerator = &chain.nodes.accelerators[pool];
        let nodes = least::lightest(chain.nodes, chain.ideals, accelerator, ideal, node)?;
        Some(Call { pool, start: levels.levels[level].after[ideal], level, nodes })
    }
}

/// The placement with every call on a separate device and all other operators on hosts.
fn assemble(chain: &Chain<'_>, calls: &[Call]) -> Option<Placement> {
    let problem = chain.offload.problem();
    let mut device_of: Keyed<OpId, Option<DeviceId>> = Keyed::filled(None, problem.graph().operator_count());
    let mut used = vec![0; chain.nodes.accelerators.len()];
    for call in calls {
        let pool = &problem.pools()[chain.nodes.accelerators[call.pool].pool];
        let device = *pool.devices.get(used[call.pool])?;
        used[call.pool] += 1;
        for &node in &call.nodes {
            for &op in &chain.groups.members[chain.nodes.group[node]] {
                device_of[op] = Some(device);
            }
        }
    }
    for members in chain.groups.members.iter() {
        if members.iter().all(|&op| device_of[op].is_some()) {
            continue;
        }
        let runs = |pool: &usize| {
            problem.pools()[*pool].host
                && members.iter().all(|&op| chain.offload.seconds(op, *pool).is_some())
        };
        let total =
            |pool: &usize| -> f64 { members.iter().filter_map(|&op| chain.offload.seconds(op, *pool)).sum() };
        let hosts = (0..problem.pools().len()).filter(runs);
        let host = hosts.min_by(|a, b| total(a).total_cmp(&total(b)))?;
        let device = *problem.pools()[host].devices.first()?;
        members.iter().for_each(|&op| device_of[op] = Some(device));
    }
    let device_of: Vec<DeviceId> = device_of.iter().copied().collect::<Option<_>>()?;
    let calls = vec![0; device_of.len()];
    Some(Placement::with_calls(device_of, calls))
}
