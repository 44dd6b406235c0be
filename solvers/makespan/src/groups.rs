//! Sets of colocation classes that belong together, for moves larger than one class.
//!
//! The groups form a hierarchy: at its first level every class is a group, and each level merges pairs of groups of the
//! previous one, those with the most communication first (heavy-edge matching; Karypis and Kumar, "A fast and high
//! quality multilevel scheme for partitioning irregular graphs", SISC 1998). It ends when groups would have more than a
//! device's share of the work, or when nothing is left to merge.

use super::edges::{Edge, between_classes, merge_parallel};
use super::scene::Scene;
use stagewright_core::csr::Csr;

/// Maximum number of groups of a new level, relative to the previous one.
const MAX_OF_LEVEL: f64 = 0.95;
/// Maximum number of levels: each about halves the groups.
const MAX_LEVELS: usize = 24;

/// Groups of classes, level by level.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    levels: Vec<Level>,
}

#[derive(Debug, Clone)]
struct Level {
    group_of: Vec<u32>,
    count: usize,
    /// The classes of every group.
    classes: Csr<u32>,
}

impl Level {
    fn new(group_of: Vec<u32>, count: usize) -> Level {
        let mut members: Vec<(u32, u32)> = group_of.iter().copied().zip(0..).collect();
        members.sort_unstable();
        Level { group_of, count, classes: Csr::from_sorted(count, members.into_iter()) }
    }
}

impl Groups {
    /// The hierarchy of a scene. O(levels · edges log edges).
    pub(super) fn new(scene: &Scene<'_>) -> Groups {
        Groups::weighted(scene, |_, _| 1.0)
    }

    /// The hierarchy in which an edge between two classes counts for a fraction, from 0 to 1, of its communication.
    pub(super) fn weighted(scene: &Scene<'_>, share: impl Fn(u32, u32) -> f64) -> Groups {
        let graph = scene.graph();
        let classes = graph.class_count();
        let mut seconds = vec![0.0; classes];
        for op in graph.operators() {
            seconds[graph.class_of(op)] += scene.mean_seconds(op);
        }
        let most = seconds.iter().sum::<f64>() / scene.device_count().max(1) as f64;
        let mut edges = between_classes(scene);
        for (from, to, seconds) in &mut edges {
            *seconds *= share(*from, *to);
        }
        let mut levels = vec![Level::new((0..classes as u32).collect(), classes)];
        while let Some(last) = levels.last()
            && levels.len() < MAX_LEVELS
        {
            merge_both_directions(&mut edges);
            let merged = matched(last.count, &edges, &seconds, most);
            let count = merged.iter().max().map_or(0, |&most| most as usize + 1);
            if count as f64 > MAX_OF_LEVEL * last.count as f64 {
                break;
            }
            let group_of = last.group_of.iter().map(|&group| merged[group as usize]).collect();
            let mut merged_seconds = vec![0.0; count];
            for (group, &into) in merged.iter().enumerate() {
                merged_seconds[into as usize] += seconds[group];
            }
            seconds = merged_seconds;
            for edge in &mut edges {
                (edge.0, edge.1) = (merged[edge.0 as usize], merged[edge.1 as usize]);
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
    pub(super) fn around(&self, level: usize, class: usize) -> &[u32] {
        let Level { group_of, classes, .. } = &self.levels[level];
        classes.row(group_of[class] as usize)
    }
}

/// Merges the edges of each pair into one, from the lower to the higher group.
fn merge_both_directions(edges: &mut Vec<Edge>) {
    edges.retain(|edge| edge.0 != edge.1);
    for edge in edges.iter_mut() {
        (edge.0, edge.1) = (edge.0.min(edge.1), edge.0.max(edge.1));
    }
    merge_parallel(edges);
}

/// The merged group of every group, heaviest edges first.
fn matched(groups: usize, edges: &[Edge], seconds: &[f64], most: f64) -> Vec<u32> {
    const ALONE: u32 = u32::MAX;
    let mut heaviest: Vec<&Edge> = edges.iter().collect();
    heaviest.sort_by(|a, b| b.2.total_cmp(&a.2).then_with(|| (a.0, a.1).cmp(&(b.0, b.1))));
    let mut partner = vec![ALONE; groups];
    for &&(a, b, _) in &heaviest {
        let fits = seconds[a as usize] + seconds[b as usize] <= most;
        if fits && partner[a as usize] == ALONE && partner[b as usize] == ALONE {
            (partner[a as usize], partner[b as usize]) = (b, a);
        }
    }
    let mut into = vec![ALONE; groups];
    let mut count = 0;
    for group in 0..groups {
        let other = partner[group];
        into[group] = match other != ALONE && (other as usize) < group {
            true => into[other as usize],
            false => {
                count += 1;
                count - 1
            }
        };
    }
    into
}
