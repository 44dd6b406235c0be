//! The recursion over the last call.

use stagewright_core::call_timing::Offload;
use stagewright_core::graph::OpId;
use stagewright_core::ids::{Id, Keyed};
use stagewright_core::solver::Stop;

use super::ideals::{IdealId, Ideals};
use super::least::Least;
use super::nodes::{GroupId, Groups, NodeId, Nodes};

/// Maximum number of stored values; beyond it, the calls of all pools are counted together.
const MAX_VALUES: usize = 1 << 24;

/// Seconds of every operator on a host that can run its group; infinite without such a host, zero if the
/// group is left out.
fn host_seconds(offload: &Offload<'_>, groups: &Groups, nodes: &Nodes) -> Keyed<OpId, f64> {
    let mut seconds = Keyed::filled(0.0, offload.graph().operator_count());
    let pools = offload.problem().pools().iter().enumerate();
    let hosts: Vec<usize> =
        pools.filter(|(_, spec)| spec.host && spec.count() > 0).map(|(pool, _)| pool).collect();
    for &group in nodes.group.iter() {
        let members = &groups.members[group];
        members.iter().for_each(|&op| seconds[op] = f64::INFINITY);
        for &pool in &hosts {
            if let Some(all) = members.iter().map(|&op| offload.seconds(op, pool)).collect::<Option<Vec<_>>>()
            {
                for (&op, own) in members.iter().zip(all) {
                    seconds[op] = own.min(seconds[op]);
                }
            }
        }
    }
    seconds
}

/// The recursion F with its inputs.
pub(super) struct Chain<'a> {
    pub(super) offload: &'a Offload<'a>,
    pub(super) groups: &'a Groups,
    pub(super) nodes: &'a Nodes,
    pub(super) ideals: &'a Ideals,
    /// Minimum loads of calls, by accelerator pool.
    pub(super) least: &'a [Least],
    pub(super) host: Keyed<OpId, f64>,
}

/// Earliest ready times with a given number of calls.
pub(super) struct Level {
    pub(super) ready: Keyed<OpId, f64>,
    /// Earliest start of a call that waits for an ideal, by ideal.
    pub(super) after: Keyed<IdealId, f64>,
}

/// The levels: one for each number of calls by pool, or only the last if calls are counted together.
pub(super) struct Levels {
    pub(super) levels: Vec<Level>,
    /// Per pool, the stride in levels of one more call, and the maximum number of calls.
    pub(super) strides: Option<Vec<(usize, usize)>>,
}

impl Levels {
    /// Earliest time at which everything is ready; infinite if no placement exists.
    pub(super) fn value(&self) -> f64 {
        self.levels.last().map_or(0.0, |level| largest(&level.ready))
    }
}

impl<'a> Chain<'a> {
    pub(super) fn new(
        offload: &'a Offload<'a>,
        groups: &'a Groups,
        nodes: &'a Nodes,
        ideals: &'a Ideals,
        least: &'a [Least],
    ) -> Chain<'a> {
        Chain { offload, groups, nodes, ideals, least, host: host_seconds(offload, groups, nodes) }
    }

    /// F for all available calls; `None` if stopped.
    pub(super) fn levels(&self, stop: &Stop) -> Option<Levels> {
        // No chain has more calls than there are nodes.
        let limit = |calls: u64| calls.min(self.nodes.len() as u64) as usize;
        let apart: Vec<usize> = self.nodes.accelerators.iter().map(|pool| limit(pool.calls)).collect();
        let levels = apart.iter().try_fold(1usize, |levels, &calls| levels.checked_mul(calls + 1));
        match levels.filter(|levels| {
            levels.saturating_mul(self.ideals.len() + self.offload.graph().operator_count()) <= MAX_VALUES
        }) {
            Some(levels) => self.counted_apart(&apart, levels, stop),
            None => {
                let all =
                    self.nodes.accelerators.iter().fold(0u64, |sum, pool| sum.saturating_add(pool.calls));
                self.counted_together(limit(all), stop)
            }
        }
    }

    /// A level for each number of calls by pool.
    fn counted_apart(&self, limits: &[usize], count: usize, stop: &Stop) -> Option<Levels> {
        let stride = |stride: &mut usize, &calls: &usize| {
            Some((std::mem::replace(stride, *stride * (calls + 1)), calls))
        };
        let strides: Vec<(usize, usize)> = limits.iter().scan(1, stride).collect();
        let mut levels: Vec<Level> = Vec::with_capacity(count);
        for state in 0..count {
            let mut called = Keyed::filled(f64::INFINITY, self.nodes.len());
            for (pool, &(stride, calls)) in strides.iter().enumerate() {
                if state / stride % (calls + 1) > 0 {
                    self.call(pool, &levels[state - stride].after, &mut called);
                }
            }
            let level = self.level(&called);
            // With one pool, if one more call changes nothing, no further call does.
            let settled = strides.len() == 1 && levels.last().is_some_and(|last| last.ready == level.ready);
            levels.push(level);
            if settled {
                break;
            }
            if stop.reason().is_some() {
                return None;
            }
        }
        Some(Levels { levels, strides: Some(strides) })
    }

    /// A level for each total number of calls, until one more changes nothing.
    fn counted_together(&self, limit: usize, stop: &Stop) -> Option<Levels> {
        let mut level = self.level(&Keyed::filled(f64::INFINITY, self.nodes.len()));
        for _ in 0..limit {
            let mut called = Keyed::filled(f64::INFINITY, self.nodes.len());
            (0..self.least.len()).for_each(|pool| self.call(pool, &level.after, &mut called));
            let next = self.level(&called);
            let settled = next.ready == level.ready;
            level = next;
            if settled {
                break;
            }
            if stop.reason().is_some() {
                return None;
            }
        }
        Some(Levels { levels: vec![level], strides: None })
    }

    fn level(&self, called: &Keyed<NodeId, f64>) -> Level {
        let ready = self.ready(called);
        Level { after: self.after(&ready), ready }
    }

    /// Earliest end of a call of a pool, by node, given the earliest starts `after` each ideal.
    fn call(&self, pool: usize, after: &Keyed<IdealId, f64>, called: &mut Keyed<NodeId, f64>) {
        for (ideal, &start) in after.enumerate() {
            for &(node, load) in self.least[pool].row(ideal) {
                let end = &mut called[node];
                *end = end.min(start + load);
            }
        }
    }

    /// Earliest ready time of each operator, if a call that contains its node can end at `called`.
    fn ready(&self, called: &Keyed<NodeId, f64>) -> Keyed<OpId, f64> {
        let graph = self.offload.graph();
        let mut by_group = Keyed::filled(f64::INFINITY, self.groups.len());
        self.nodes.group.iter().zip(called.iter()).for_each(|(&group, &end)| by_group[group] = end);
        let mut ready = Keyed::filled(0.0f64, graph.operator_count());
        for &op in graph.topological() {
            let inputs = graph.predecessors(op).iter().map(|&from| ready[from]).fold(0.0, f64::max);
            let called = by_group[self.groups.of[op]];
            // An operator is never ready before its inputs.
            ready[op] = (inputs + self.host[op]).min(called.max(inputs));
        }
        ready
    }

    /// For each ideal, the earliest time at which a call that waits for the ideal can start.
    fn after(&self, ready: &Keyed<OpId, f64>) -> Keyed<IdealId, f64> {
        let graph = self.offload.graph();
        let node_ready = |&group: &GroupId| {
            let read = |op: &&OpId| graph.successors(**op).iter().any(|&next| self.groups.of[next] != group);
            let members = self.groups.members[group].iter().filter(read);
            let earliest = members.map(|&op| ready[op]).fold(f64::INFINITY, f64::min);
            // No call waits for a group without readers.
            if self.groups.successors(group).is_empty() { 0.0 } else { earliest }
        };
        let by_node: Keyed<NodeId, f64> = self.nodes.group.iter().map(node_ready).collect();
        let mut after = Keyed::filled(0.0f64, self.ideals.len());
        for ideal in IdealId::first(self.ideals.len()).skip(1) {
            let last = self.ideals.parent(ideal);
            after[ideal] = after[last.ideal].max(by_node[last.node]);
        }
        after
    }
}

fn largest(ready: &[f64]) -> f64 {
    ready.iter().copied().fold(0.0, f64::max)
}
