//! Sets of colocation classes that belong together, for moves larger than one class.
//!
//! The groups form a hierarchy: at its first level every class is a group, and each level merges pairs of groups of the
//! previous one, those with the most communication first (heavy-edge matching; Karypis and Kumar, "A fast and high
//! quality multilevel scheme for partitioning irregular graphs", SISC 1998). It ends when groups would exceed a
//! device's share of the work, or when nothing is left to merge.

use stagewright_core::csr::Csr;
use stagewright_core::graph::ClassId;
use stagewright_core::ids::Keyed;

use super::edges::{Edge, between_classes, merge_parallel};
use super::instance::Instance;

/// Maximum number of groups of a new level, relative to the previous one.
const MAX_OF_LEVEL: f64 = 0.95;
/// Maximum number of levels, each of which about halves the number of groups.
const MAX_LEVELS: usize = 24;

stagewright_core::id! {
    /// Index of a group in its level.
    GroupId;
}

/// Groups of classes, level by level.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    levels: Vec<Level>,
}

#[derive(Debug, Clone)]
struct Level {
    group_of: Keyed<ClassId, GroupId>,
    count: usize,
    /// The classes of every group.
    classes: Csr<ClassId>,
}

impl Level {
    fn new(group_of: Keyed<ClassId, GroupId>, count: usize) -> Level {
        let mut members: Vec<(GroupId, ClassId)> = group_of.iter().copied().zip(group_of.ids()).collect();
        members.sort_unstable();
        Level { group_of, count, classes: Csr::from_sorted(count, members.into_iter()) }
    }
}

impl Groups {
    /// The hierarchy of an instance. O(levels · edges log edges).
    pub(super) fn new(instance: &Instance<'_>) -> Groups {
        Groups::weighted(instance, |_, _| 1.0)
    }

    /// The hierarchy in which an edge between two classes counts for a fraction, from 0 to 1, of its communication.
    pub(super) fn weighted(instance: &Instance<'_>, share: impl Fn(ClassId, ClassId) -> f64) -> Groups {
        let graph = instance.graph();
        let classes = graph.class_count();
        let alone = |class: ClassId| GroupId(class.0);
        let mut seconds = Keyed::filled(0.0, classes);
        for op in graph.operators() {
            seconds[alone(graph.class_of(op))] += instance.mean_seconds(op);
        }
        let limit = seconds.iter().sum::<f64>() / instance.device_count().max(1) as f64;
        let weighted = |(from, to, seconds)| (alone(from), alone(to), seconds * share(from, to));
        let mut edges: Vec<_> = between_classes(instance).into_iter().map(weighted).collect();
        let mut levels = vec![Level::new(graph.class_ids().map(alone).collect(), classes)];
        while let Some(last) = levels.last()
            && levels.len() < MAX_LEVELS
        {
            merge_both_directions(&mut edges);
            let merged = matched(&edges, &seconds, limit);
            let count = merged.iter().max().map_or(0, |largest| largest.index() + 1);
            if count as f64 > MAX_OF_LEVEL * last.count as f64 {
                break;
            }
            let group_of = last.group_of.iter().map(|&group| merged[group]).collect();
            let mut merged_seconds = Keyed::filled(0.0, count);
            for (group, &into) in merged.enumerate() {
                merged_seconds[into] += seconds[group];
            }
            seconds = merged_seconds;
            for edge in &mut edges {
                (edge.0, edge.1) = (merged[edge.0], merged[edge.1]);
            }
            levels.push(Level::new(group_of, count));
        }
        Groups { levels }
    }

    /// Number of levels, at least one.
    pub(super) fn level_count(&self) -> usize {
        self.levels.len()
    }

    /// The classes of the group that a class belongs to at a level.
    pub(super) fn around(&self, level: usize, class: ClassId) -> &[ClassId] {
        let Level { group_of, classes, .. } = &self.levels[level];
        classes.row(group_of[class])
    }
}

/// Merges the edges of each pair of groups, in both directions, into one edge from the lower to the higher group.
fn merge_both_directions(edges: &mut Vec<Edge<GroupId>>) {
    edges.retain(|edge| edge.0 != edge.1);
    for edge in edges.iter_mut() {
        (edge.0, edge.1) = (edge.0.min(edge.1), edge.0.max(edge.1));
    }
    merge_parallel(edges);
}

/// For each group, the merged group that it becomes a part of. Groups are matched along the heaviest edges first.
fn matched(edges: &[Edge<GroupId>], seconds: &Keyed<GroupId, f64>, limit: f64) -> Keyed<GroupId, GroupId> {
    const ALONE: GroupId = GroupId(u32::MAX);
    let mut heaviest: Vec<&Edge<GroupId>> = edges.iter().collect();
    heaviest.sort_by(|a, b| b.2.total_cmp(&a.2).then_with(|| (a.0, a.1).cmp(&(b.0, b.1))));
    let mut partner = Keyed::filled(ALONE, seconds.len());
    for &&(a, b, _) in &heaviest {
        if seconds[a] + seconds[b] <= limit && partner[a] == ALONE && partner[b] == ALONE {
            (partner[a], partner[b]) = (b, a);
        }
    }
    let mut into = Keyed::filled(ALONE, seconds.len());
    let mut count = 0;
    for (group, &other) in partner.enumerate() {
        // The highest index stands for no partner.
        into[group] = match other < group {
            true => into[other],
            false => {
                count += 1;
                GroupId(count - 1)
            }
        };
    }
    into
}
