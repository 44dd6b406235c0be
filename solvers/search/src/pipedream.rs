//! PipeDream's split as a baseline: merge biconnected components, then split a linear order.
//!
//! PipeDream (Narayanan et al., SOSP 2019) partitions a chain of layers. Its published planner turns a graph into a
//! chain by merging branches; the NeurIPS 2020 comparison does so through the biconnected components of the contracted
//! graph: all operators that send a tensor inside a component share a device. Tensors out of input and mask layers,
//! which would merge nearly everything, are left out of this step only; these layers are chosen by hand and given with
//! the graph (`pipedream_skips`).
//!
//! The merged graph is split optimally along one depth-first order, which respects the precedence that the split rule
//! imposes on the classes before the merge.

use rustc_hash::FxHashSet;
use stagewright_core::bound::strongest_before;
use stagewright_core::contraction::Units;
use stagewright_core::document::Schedule;
use stagewright_core::graph::ClassId;
use stagewright_core::ids::Keyed;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Result, Solution, SolveError, Solver};

use crate::dpl::{Line, Positions, Room, first_stages, plan_of, unsupported_for_contiguous_dp};
use crate::order;

/// The PipeDream-style baseline.
#[derive(Debug, Clone, Copy, Default)]
pub struct PipeDream;

impl Solver for PipeDream {
    fn name(&self) -> &'static str {
        "pipedream"
    }

    fn summary(&self) -> &'static str {
        "merge biconnected components, then split one linear order (baseline)"
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        unsupported(objective)
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
        let merged = merged_classes(problem);
        // PipeDream balances the stages regardless of the schedule.
        let objective = problem.objective().bottleneck(problem.cluster().group_count() > 0);
        let balanced = problem
            .with_objective(objective)
            .map_err(|error| SolveError::Invariant(format!("the problem has no relaxation: {error}")))?;
        let units = Units::with_fused(&balanced, &merged);
        let room = Room::new(&balanced, &units, context.limits.memory);
        let order = order::depth_first(&units);
        let positions = Positions::new(&balanced, &units, &order);
        let line = |space| Line { order: &order, positions: &positions, space };
        let best = room
            .space
            .as_ref()
            .and_then(|space| first_stages(&balanced, &units, line(space), context.stop()))
            .map(|(_, stages)| plan_of(problem, &units, &stages))
            .transpose()?;
        let bound = strongest_before(problem, context.stop());
        let stop = context.stop().reason();
        Ok(room.solution(self.name(), best, bound, stop, "no split of the merged chain fits the devices"))
    }
}

fn unsupported(objective: &Objective) -> Option<&'static str> {
    match objective.rules().schedule {
        // The work that this schedule defers is neither in the balanced loads nor in their memory.
        Schedule::ZeroBubble => Some("schedules other than gpipe and 1f1b"),
        _ => unsupported_for_contiguous_dp(objective),
    }
}

/// Pairs of colocation classes that share a device because both send inside one biconnected component.
fn merged_classes(problem: &Problem) -> Vec<(ClassId, ClassId)> {
    let graph = problem.graph();
    // A node is a colocation class in one pass: forward and backward halves are merged separately.
    let node = |op| 2 * graph.class_of(op).0 + u32::from(!graph.is_forward(op));
    let skips: FxHashSet<&str> = graph.document().pipedream_skips.iter().map(String::as_str).collect();
    let skipped: FxHashSet<u32> =
        graph.operators().filter(|&op| skips.contains(graph.operator(op).name.as_str())).map(node).collect();
    let mut edges: Keyed<u32, (u32, u32)> = Keyed::default();
    for tensor in graph.tensors() {
        let from = node(graph.producer(tensor));
        if skipped.contains(&from) {
            continue;
        }
        let to = graph.consumers(tensor).iter().map(|&op| node(op));
        edges.extend(to.filter(|&to| to != from).map(|to| (from, to)));
    }
    edges.sort_unstable();
    edges.dedup();

    let mut pairs = Vec::new();
    for component in biconnected_components(2 * graph.class_count(), &edges) {
        let mut senders = component.iter().map(|&edge| ClassId(edges[edge].0 / 2));
        if let Some(first) = senders.next() {
            pairs.extend(senders.filter(|&sender| sender != first).map(|sender| (first, sender)));
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// The biconnected components of the undirected graph over `edges`, as lists of edge indices (Tarjan 1972, iterative).
/// O(nodes + edges).
fn biconnected_components(nodes: usize, edges: &[(u32, u32)]) -> Vec<Vec<u32>> {
    const UNSEEN: u32 = u32::MAX;
    let mut adjacent: Keyed<u32, Vec<(u32, u32)>> = Keyed::filled(Vec::new(), nodes);
    for (edge, &(from, to)) in (0..).zip(edges) {
        adjacent[from].push((to, edge));
        adjacent[to].push((from, edge));
    }
    let mut entry = Keyed::filled(UNSEEN, nodes);
    let mut low = entry.clone();
    let mut seen_edge = Keyed::filled(false, edges.len());
    let mut time = 0;
    let mut open: Vec<u32> = Vec::new();
    let mut components = Vec::new();
    // (node, next neighbour to visit, length of `open` below the edge that led here)
    let mut stack: Vec<(u32, usize, usize)> = Vec::new();
    for root in adjacent.ids() {
        if entry[root] != UNSEEN {
            continue;
        }
        (entry[root], low[root]) = (time, time);
        time += 1;
        stack.push((root, 0, 0));
        while let Some(&mut (node, ref mut next, below)) = stack.last_mut() {
            if let Some(&(neighbour, edge)) = adjacent[node].get(*next) {
                *next += 1;
                if std::mem::replace(&mut seen_edge[edge], true) {
                    continue;
                }
                let depth = open.len();
                open.push(edge);
                if entry[neighbour] == UNSEEN {
                    (entry[neighbour], low[neighbour]) = (time, time);
                    time += 1;
                    stack.push((neighbour, 0, depth));
                } else {
                    low[node] = low[node].min(entry[neighbour]);
                }
                continue;
            }
            stack.pop();
            if let Some(&(parent, _, _)) = stack.last() {
                low[parent] = low[parent].min(low[node]);
                if low[node] >= entry[parent] {
                    components.push(open.split_off(below));
                }
            }
        }
    }
    components
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_triangles_that_share_a_node_are_two_components() {
        let edges = [(0, 1), (0, 2), (1, 2), (2, 3), (2, 4), (3, 4), (4, 5)];
        let mut found = biconnected_components(6, &edges);
        for component in &mut found {
            component.sort_unstable();
        }
        found.sort();
        assert_eq!(found, [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
    }
}
