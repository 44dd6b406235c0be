//! Coarsening: clusters of clusters with an acyclic precedence.
//!
//! # When a clustering is acyclic
//!
//! Let t assign an integer to every cluster such that t(v) ≥ t(u) + 1 along every edge (u, v): a *level function*. Give
//! every new cluster C a base b(C) with t(u) ∈ {b(C), b(C) + 1} for its members; those at b(C) are *lower*, the others
//! *upper*. If no edge leads from a lower member of C to an upper member of another C' with the same base, the new
//! clusters are acyclic.
//!
//! *Proof.* Let edges (uᵢ, vᵢ₊₁) with vᵢ, uᵢ ∈ Cᵢ form a cycle of k ≥ 2 clusters. Each raises t by at least 1, and
//! within a cluster t(uᵢ) ≥ t(vᵢ) − 1. Over the cycle the changes of t sum to zero, so every edge raises it by exactly
//! 1 and every uᵢ is one below vᵢ: lower in Cᵢ, with vᵢ upper. Then edge (uᵢ, vᵢ₊₁) leads from lower to upper, and
//! t(vᵢ₊₁) = t(uᵢ) + 1 gives both clusters the same base, a contradiction. ∎
//!
//! With t the top level and clusters with a single base and two levels this is the theorem of Herrmann, Kho, Uçar, Kaya
//! and Çatalyürek, "Acyclic partitioning of large directed acyclic graphs", CCGrid 2017, which underlies dagP's
//! clustering with forbidden edges. Since any level function is valid, rounds alternate between the earliest and the
//! latest levels: a weight that is read late, or a gradient that nothing else needs, is on a level next to its
//! neighbours in one of the two.
//!
//! # How clusters are chosen
//!
//! In random order, each single cluster joins the neighbour across its heaviest link (Karypis and Kumar, 1998) whose
//! cluster may take it: acyclic by the rule above, not too heavy, and with a pool that can run all members. To check
//! the rule, every cluster stores the new cluster that is adjacent to it in the forbidden way, or a mark that several
//! are.

use rand::Rng;
use rand::seq::SliceRandom;
use stagewright_core::cluster::DeviceId;
use stagewright_core::ids::Keyed;

use super::finest::Finest;
use super::level::{ClusterId, Level};

/// Fraction of clusters left above which a round counts as a miss; two misses in a row end coarsening.
const MAX_LEFT: f64 = 0.95;
/// Maximum weight of a cluster, relative to the mean of the coarsest level.
const HEAVIEST: f64 = 1.5;

/// Marks for no cluster and for several clusters.
const NONE: ClusterId = ClusterId(u32::MAX);
const MANY: ClusterId = ClusterId(u32::MAX - 1);

/// Limits on clusters.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    /// Number of clusters at which coarsening ends.
    pub(super) fewest: usize,
    /// Maximum mean seconds of a new cluster.
    pub(super) seconds: f64,
    /// Maximum bytes of a new cluster.
    pub(super) bytes: f64,
}

impl Limits {
    /// Limits that keep enough clusters for balanced devices.
    pub(super) fn new(finest: &Finest<'_, '_>, fewest: usize) -> Limits {
        let (instance, classes) = (finest.instance(), finest.classes());
        let all: f64 = classes.ids().map(|class| classes.mean(class)).sum();
        let memory = instance.problem().cluster().devices().map(|device| instance.memory(device));
        let bytes: f64 = classes.ids().map(|class| classes.bytes(class)).sum();
        let share = 1.0 / fewest.max(1) as f64;
        Limits {
            fewest,
            seconds: HEAVIEST * all * share,
            bytes: (HEAVIEST * bytes * share).max(0.25 * memory.fold(f64::INFINITY, f64::min)),
        }
    }
}

/// The levels, finest first. If devices are given for all operators, only clusters on the same device are merged.
pub(super) fn hierarchy(
    finest: &Finest<'_, '_>,
    limits: &Limits,
    together: Option<&[DeviceId]>,
    rng: &mut dyn Rng,
) -> Vec<Level> {
    let mut levels = finest.levels(together);
    let mut is_late = false;
    let mut misses = 0;
    while let Some(level) = levels.last()
        && level.len() > limits.fewest
        && misses < 2
    {
        let Some(heights) = heights(level, is_late) else { break };
        let devices = together.map(|device_of| level.devices(finest.instance(), device_of));
        let (coarse, count) = cluster(level, &heights, limits, devices.as_ref(), rng);
        if count as f64 > MAX_LEFT * level.len() as f64 {
            misses += 1;
        } else {
            misses = 0;
            let contracted = level.contracted(&coarse, count);
            levels.push(contracted);
        }
        is_late = !is_late;
    }
    levels
}

/// A level function: the earliest levels, counted from the sources, or the latest, counted from the sinks. O(edges).
pub(super) fn heights(level: &Level, is_late: bool) -> Option<Keyed<ClusterId, u32>> {
    let order = level.order()?;
    let mut heights = Keyed::filled(0, level.len());
    if !is_late {
        for &cluster in &order {
            for &(next, _) in level.next(cluster) {
                heights[next] = heights[next].max(heights[cluster] + 1);
            }
        }
        return Some(heights);
    }
    for &cluster in order.iter().rev() {
        for &(before, _) in level.previous(cluster) {
            heights[before] = heights[before].max(heights[cluster] + 1);
        }
    }
    let highest = heights.iter().copied().max().unwrap_or(0);
    heights.iter_mut().for_each(|height| *height = highest - *height);
    Some(heights)
}

/// A clustering under construction.
struct Clustering<'a> {
    level: &'a Level,
    heights: &'a Keyed<ClusterId, u32>,
    cluster_of: Keyed<ClusterId, ClusterId>,
    base: Keyed<ClusterId, u32>,
    seconds: Keyed<ClusterId, f64>,
    /// Seconds by new cluster and pool.
    on_pool: Vec<f64>,
    bytes: Keyed<ClusterId, f64>,
    /// For a cluster as a lower member: the new cluster of the same base with an upper member after it; `NONE` if there
    /// is no such cluster, `MANY` if there are several.
    upper_near: Keyed<ClusterId, ClusterId>,
    /// For a cluster as an upper member: the new cluster of the same base with a lower member before it; `NONE` if
    /// there is no such cluster, `MANY` if there are several.
    lower_near: Keyed<ClusterId, ClusterId>,
}

/// Maps every cluster to its new cluster; returns the map and the number of new clusters. O(edges + links · pools).
pub(super) fn cluster(
    level: &Level,
    heights: &Keyed<ClusterId, u32>,
    limits: &Limits,
    devices: Option<&Keyed<ClusterId, DeviceId>>,
    rng: &mut dyn Rng,
) -> (Keyed<ClusterId, ClusterId>, usize) {
    let count = level.len();
    let mut order: Vec<ClusterId> = level.ids().collect();
    order.shuffle(rng);
    let mut clustering = Clustering {
        level,
        heights,
        cluster_of: Keyed::filled(NONE, count),
        base: Keyed::default(),
        seconds: Keyed::default(),
        on_pool: Vec::new(),
        bytes: Keyed::default(),
        upper_near: Keyed::filled(NONE, count),
        lower_near: Keyed::filled(NONE, count),
    };
    for &cluster in &order {
        if clustering.cluster_of[cluster] != NONE {
            continue;
        }
        let mut best: Option<(f64, ClusterId)> = None;
        for &(other, weight) in level.links(cluster) {
            let is_together = devices.is_none_or(|devices| devices[cluster] == devices[other]);
            if is_together
                && best.is_none_or(|(heaviest, _)| weight > heaviest)
                && clustering.may_join(cluster, other, limits)
            {
                best = Some((weight, other));
            }
        }
        if let Some((_, other)) = best {
            clustering.join(cluster, other);
        }
    }
    let mut made = clustering.base.len();
    for cluster in clustering.cluster_of.iter_mut() {
        if *cluster == NONE {
            *cluster = ClusterId::new(made);
            made += 1;
        }
    }
    (clustering.cluster_of, made)
}

impl Clustering<'_> {
    /// Whether a single cluster may join another cluster or the new cluster that contains it.
    fn may_join(&self, left: ClusterId, right: ClusterId, limits: &Limits) -> bool {
        let (heights, level, pools) = (self.heights, self.level, self.level.pool_count());
        if heights[left].abs_diff(heights[right]) > 1 {
            return false;
        }
        let cluster = self.cluster_of[right];
        if cluster == NONE {
            let base = heights[left].min(heights[right]);
            let can = |pool| (level.seconds(left, pool) + level.seconds(right, pool)).is_finite();
            return self.is_acyclic(left, base, NONE)
                && self.is_acyclic(right, base, NONE)
                && level.mean(left) + level.mean(right) <= limits.seconds
                && level.bytes(left) + level.bytes(right) <= limits.bytes
                && (0..pools).any(can);
        }
        let base = self.base[cluster];
        let can = |pool: usize| {
            (level.seconds(left, pool) + self.on_pool[cluster.index() * pools + pool]).is_finite()
        };
        (heights[left] == base || heights[left] == base + 1)
            && self.is_acyclic(left, base, cluster)
            && level.mean(left) + self.seconds[cluster] <= limits.seconds
            && level.bytes(left) + self.bytes[cluster] <= limits.bytes
            && (0..pools).any(can)
    }

    /// Whether a cluster may join a new cluster with the given base: no other new cluster of this base is adjacent to
    /// the joining cluster in the forbidden way.
    fn is_acyclic(&self, joining: ClusterId, base: u32, cluster: ClusterId) -> bool {
        let near =
            if self.heights[joining] == base { self.upper_near[joining] } else { self.lower_near[joining] };
        near == NONE || near == cluster
    }

    fn join(&mut self, left: ClusterId, right: ClusterId) {
        if self.cluster_of[right] == NONE {
            let cluster = self.base.push(self.heights[left].min(self.heights[right]));
            self.seconds.push(0.0);
            self.bytes.push(0.0);
            self.on_pool.resize(self.on_pool.len() + self.level.pool_count(), 0.0);
            self.add(right, cluster);
        }
        self.add(left, self.cluster_of[right]);
    }

    fn add(&mut self, member: ClusterId, cluster: ClusterId) {
        let (level, pools) = (self.level, self.level.pool_count());
        self.cluster_of[member] = cluster;
        self.seconds[cluster] += level.mean(member);
        self.bytes[cluster] += level.bytes(member);
        for pool in 0..pools {
            self.on_pool[cluster.index() * pools + pool] += level.seconds(member, pool);
        }
        let base = self.base[cluster];
        let is_lower = self.heights[member] == base;
        let (neighbours, height, near) = match is_lower {
            true => (level.next(member), base + 1, &mut self.lower_near),
            false => (level.previous(member), base, &mut self.upper_near),
        };
        for &(neighbour, _) in neighbours {
            let near = &mut near[neighbour];
            if self.heights[neighbour] == height && *near != cluster {
                *near = if *near == NONE { cluster } else { MANY };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use stagewright_core::ids::Id;
    use stagewright_core::seed;

    use super::*;

    const NO_LIMITS: Limits = Limits { fewest: 1, seconds: f64::INFINITY, bytes: f64::INFINITY };

    /// A random acyclic graph whose numbering is not topological.
    fn graph(rng: &mut dyn Rng) -> (usize, Vec<(ClusterId, ClusterId)>) {
        let count = rng.random_range(1..60);
        let mut order: Vec<ClusterId> = ClusterId::first(count).collect();
        order.shuffle(rng);
        let density = rng.random_range(0.01..0.3);
        let mut edges = Vec::new();
        for to in 1..count {
            for from in 0..to {
                if rng.random_bool(density) {
                    edges.push((order[from], order[to]));
                }
            }
        }
        (count, edges)
    }

    #[test]
    fn every_level_is_acyclic() {
        let (mut merged, mut many) = (0, 0);
        for number in 0..2000 {
            let mut rng = seed::stream(3, number);
            let (count, edges) = graph(&mut rng);
            let weights: Vec<f64> = edges.iter().map(|_| rng.random_range(0.0..1.0)).collect();
            let mut level = Level::of_graph(count, &edges, |index| weights[index]);
            let limits = Limits { seconds: f64::from(rng.random_range(2..10)), ..NO_LIMITS };
            for round in 0..8 {
                let heights = heights(&level, round % 2 == 1).expect("an acyclic level");
                let raises = |cluster: ClusterId| {
                    level.next(cluster).iter().all(|&(next, _)| heights[next] > heights[cluster])
                };
                assert!(level.ids().all(raises), "{number}: not a level function");
                let (coarse, count) = cluster(&level, &heights, &limits, None, &mut rng);
                assert!(coarse.iter().all(|cluster| cluster.index() < count), "{number}");
                merged += level.len() - count;
                level = level.contracted(&coarse, count);
                assert!(level.order().is_some(), "{number}: round {round} made a cycle");
                assert!(
                    level.ids().all(|cluster| level.mean(cluster) <= limits.seconds),
                    "{number}: too heavy"
                );
                many += usize::from(level.ids().any(|cluster| level.mean(cluster) > 2.0));
            }
        }
        assert!(merged > 20_000 && many > 1000, "{merged} merged, {many} with clusters of more than two");
    }

    #[test]
    fn a_chain_becomes_one_cluster() {
        let edges: Vec<(ClusterId, ClusterId)> =
            (0..99).map(|index| (ClusterId(index), ClusterId(index + 1))).collect();
        let mut level = Level::of_graph(100, &edges, |_| 1.0);
        let mut rng = seed::stream(4, 0);
        for round in 0..20 {
            let heights = heights(&level, round % 2 == 1).expect("an acyclic level");
            let (coarse, count) = cluster(&level, &heights, &NO_LIMITS, None, &mut rng);
            level = level.contracted(&coarse, count);
        }
        assert_eq!(level.len(), 1);
    }

    #[test]
    fn two_edges_that_cross_are_not_both_contracted() {
        // Contracting 0 → 2 and 1 → 3 would put each of the two clusters before the other.
        let edges = [(0, 2), (0, 3), (1, 2), (1, 3)].map(|(from, to)| (ClusterId(from), ClusterId(to)));
        let level = Level::of_graph(4, &edges, |index| [9.0, 1.0, 1.0, 9.0][index]);
        for number in 0..20 {
            let heights = heights(&level, false).expect("an acyclic level");
            let (coarse, count) = cluster(&level, &heights, &NO_LIMITS, None, &mut seed::stream(5, number));
            assert!(level.contracted(&coarse, count).order().is_some());
        }
    }
}
