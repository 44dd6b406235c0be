//! Choice of nodes: all of them, or the critical path and the heaviest other nodes.

use stagewright_core::call_timing::Offload;
use stagewright_core::ids::Keyed;
use stagewright_core::solver::Stop;

use super::CallChainEffort;
use super::ideals::Ideals;
use super::least::Least;
use super::nodes::{GroupId, Groups, Nodes};

/// Maximum number of nodes.
const MAX_NODES: usize = 1 << 10;

/// Selected nodes with the loads of the calls over them.
pub(super) struct Choice {
    pub(super) groups: Groups,
    pub(super) nodes: Nodes,
    pub(super) ideals: Ideals,
    /// Minimum loads of calls, by accelerator pool.
    pub(super) least: Vec<Least>,
}

impl Choice {
    /// The choice of as many nodes as the effort allows, found by repeatedly halving the number of nodes beyond the
    /// path: a path alone has only as many ideals as nodes. `None` if stopped.
    pub(super) fn new(offload: &Offload<'_>, effort: CallChainEffort, stop: &Stop) -> Option<Choice> {
        let groups = Groups::new(offload, stop)?;
        let ranking = Ranking::new(offload, &groups);
        let mut count = groups.len().min(MAX_NODES);
        loop {
            let (nodes, ideals) = ranking.most_listed(offload, &groups, count, effort, stop)?;
            let mut left = effort.steps;
            let accelerators = nodes.accelerators.iter();
            let least: Option<Vec<Least>> = accelerators
                .map(|accelerator| Least::new(&nodes, &ideals, accelerator, &mut left, stop))
                .collect();
            if let Some(least) = least {
                return Some(Choice { groups, nodes, ideals, least });
            }
            if stop.reason().is_some() {
                return None;
            }
            // Without nodes there are no steps, so this terminates.
            count = if nodes.len() > ranking.path {
                ranking.path + (nodes.len() - ranking.path) / 2
            } else {
                nodes.len() / 2
            };
        }
    }
}

/// The groups, most important first.
struct Ranking {
    order: Vec<GroupId>,
    /// Number of leading groups that form the path.
    path: usize,
}

impl Ranking {
    /// Ranks the groups of the heaviest path first, then the others, both by weight: the minimum seconds over the
    /// pools, plus the maximum seconds of the outputs over any link.
    fn new(offload: &Offload<'_>, groups: &Groups) -> Ranking {
        let graph = offload.graph();
        let pools = offload.problem().pools().len();
        let weight: Keyed<GroupId, f64> = groups
            .members
            .iter()
            .map(|members| {
                let mut weight = 0.0;
                for &op in members {
                    let seconds = (0..pools).filter_map(|pool| offload.seconds(op, pool));
                    weight += seconds.min_by(f64::total_cmp).unwrap_or(0.0);
                    for &tensor in graph.outputs(op) {
                        weight += (0..pools).map(|pool| offload.transfer(tensor, pool)).fold(0.0, f64::max);
                    }
                }
                weight
            })
            .collect();
        let mut longest = weight.clone();
        let mut next = Keyed::filled(None, groups.len());
        for group in groups.members.ids().rev() {
            let successors = groups.successors(group).iter().copied();
            next[group] = successors.max_by(|&a, &b| longest[a].total_cmp(&longest[b]));
            longest[group] += next[group].map_or(0.0, |other| longest[other]);
        }
        let mut on_path = Keyed::filled(false, groups.len());
        let first = groups.members.ids().max_by(|&a, &b| longest[a].total_cmp(&longest[b]));
        let path = std::iter::successors(first, |&group| next[group])
            .inspect(|&group| on_path[group] = true)
            .count();
        let mut order: Vec<GroupId> = groups.members.ids().collect();
        order.sort_by(|&a, &b| on_path[b].cmp(&on_path[a]).then(weight[b].total_cmp(&weight[a])));
        Ranking { order, path }
    }

    /// The largest prefix of at most `count` nodes whose number of ideals the effort allows.
    fn most_listed(
        &self,
        offload: &Offload<'_>,
        groups: &Groups,
        count: usize,
        effort: CallChainEffort,
        stop: &Stop,
    ) -> Option<(Nodes, Ideals)> {
        let list = |count: usize| {
            let mut keep = Keyed::filled(false, groups.len());
            self.order[..count].iter().for_each(|&group| keep[group] = true);
            let nodes = Nodes::new(offload, groups, &keep);
            let ideals = Ideals::list(&nodes, effort.ideals.max(1), stop)?;
            Some((nodes, ideals))
        };
        if let Some(all) = list(count) {
            return Some(all);
        }
        let (mut best, mut low, mut high) = (None, 0, count);
        while high - low > 1 && stop.reason().is_none() {
            let middle = low + (high - low) / 2;
            match list(middle) {
                Some(found) => (best, low) = (Some(found), middle),
                None => high = middle,
            }
        }
        best.or_else(|| list(0)).filter(|_| stop.reason().is_none())
    }
}
