//! A level: the graph of some clusters of colocation classes.
//!
//! It has two relations between clusters. *Links* are the mean seconds of communication if two clusters are separated;
//! they define cuts. *Edges* are an acyclic precedence; they define orders.

use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::OpId;

use super::super::edges::{Edge, between_classes, merge_parallel};
use super::super::scene::Scene;
use stagewright_core::csr::Csr;

/// Fraction of the memory for tensors in the estimate of a cluster's bytes.
const FOR_TENSORS: f64 = 0.8;

/// The graph of some clusters.
#[derive(Debug, Clone)]
pub struct Level {
    pools: usize,
    /// By cluster and pool; infinite if the cluster cannot run there.
    seconds: Vec<f64>,
    mean: Vec<f64>,
    bytes: Vec<f64>,
    links: Csr<(u32, f64)>,
    next: Csr<(u32, f64)>,
    previous: Csr<(u32, f64)>,
    /// The cluster of every colocation class.
    cluster_of: Vec<u32>,
}

/// Rows from sorted edges.
fn links_of(rows: usize, edges: &[Edge]) -> Csr<(u32, f64)> {
    Csr::from_sorted(rows, edges.iter().map(|&(from, to, seconds)| (from, (to, seconds))))
}

impl Level {
    /// The level of the colocation classes with their tensors as edges, which may be cyclic. O(pools · operators + pins
    /// log pins).
    pub(super) fn of_classes(scene: &Scene<'_>) -> Level {
        let graph = scene.graph();
        let (classes, pools) = (graph.class_count(), scene.pool_count());
        let mut seconds = vec![0.0; classes * pools];
        let mut mean = vec![0.0; classes];
        for op in graph.operators() {
            let class = graph.class_of(op);
            mean[class] += scene.mean_seconds(op);
            for pool in 0..pools {
                seconds[class * pools + pool] += scene.seconds_on(op, pool);
            }
        }
        let alone = (0..classes as u32).collect();
        Level::of_edges(pools, seconds, mean, bytes(scene), between_classes(scene), alone)
    }

    fn of_edges(
        pools: usize,
        seconds: Vec<f64>,
        mean: Vec<f64>,
        bytes: Vec<f64>,
        mut edges: Vec<Edge>,
        cluster_of: Vec<u32>,
    ) -> Level {
        edges.retain(|edge| edge.0 != edge.1);
        merge_parallel(&mut edges);
        let next = links_of(mean.len(), &edges);
        let mut both: Vec<Edge> = edges.iter().map(|&(from, to, seconds)| (to, from, seconds)).collect();
        merge_parallel(&mut both);
        let previous = links_of(mean.len(), &both);
        both.append(&mut edges);
        merge_parallel(&mut both);
        let links = links_of(mean.len(), &both);
        Level { pools, seconds, mean, bytes, links, next, previous, cluster_of }
    }

    /// Replaces the edges.
    pub(super) fn precede(&mut self, edges: &[(u32, u32)]) {
        let between = |from: u32, to: u32| {
            let links = self.links.row(from as usize);
            links.binary_search_by_key(&to, |link| link.0).map_or(0.0, |at| links[at].1)
        };
        let mut edges: Vec<Edge> = edges.iter().map(|&(from, to)| (from, to, between(from, to))).collect();
        merge_parallel(&mut edges);
        self.next = links_of(self.len(), &edges);
        let mut reversed: Vec<Edge> = edges.iter().map(|&(from, to, seconds)| (to, from, seconds)).collect();
        merge_parallel(&mut reversed);
        self.previous = links_of(self.len(), &reversed);
    }

    /// The level of `count` larger clusters, where `coarse` maps each cluster to the larger one. O(clusters · pools +
    /// edges log edges).
    pub fn contracted(&self, coarse: &[u32], count: usize) -> Level {
        let mut seconds = vec![0.0; count * self.pools];
        let (mut mean, mut bytes) = (vec![0.0; count], vec![0.0; count]);
        for (cluster, &into) in coarse.iter().enumerate() {
            let into = into as usize;
            mean[into] += self.mean[cluster];
            bytes[into] += self.bytes[cluster];
            for pool in 0..self.pools {
                seconds[into * self.pools + pool] += self.seconds[cluster * self.pools + pool];
            }
        }
        let contract = |rows: &Csr<(u32, f64)>| -> Vec<Edge> {
            let row = |from: usize| {
                let coarsened =
                    move |&(to, seconds): &(u32, f64)| (coarse[from], coarse[to as usize], seconds);
                rows.row(from).iter().map(coarsened)
            };
            (0..self.len()).flat_map(row).filter(|edge| edge.0 != edge.1).collect()
        };
        let cluster_of = self.cluster_of.iter().map(|&cluster| coarse[cluster as usize]).collect();
        let edges = contract(&self.next);
        let mut level = Level::of_edges(self.pools, seconds, mean, bytes, edges, cluster_of);
        // Links are more than edges if the edges are not those of the tensors.
        let mut links = contract(&self.links);
        merge_parallel(&mut links);
        level.links = links_of(count, &links);
        level
    }

    /// Number of clusters.
    pub fn len(&self) -> usize {
        self.mean.len()
    }

    /// Whether there are no clusters.
    pub fn is_empty(&self) -> bool {
        self.mean.is_empty()
    }

    /// Number of pools.
    pub fn pool_count(&self) -> usize {
        self.pools
    }

    /// Seconds of a cluster on a pool; infinite if the cluster cannot run there.
    pub fn seconds(&self, cluster: usize, pool: usize) -> f64 {
        self.seconds[cluster * self.pools + pool]
    }

    /// Mean seconds of a cluster over the devices that may run its operators.
    pub fn mean(&self, cluster: usize) -> f64 {
        self.mean[cluster]
    }

    /// Bytes of a cluster: its parameters and optimiser state, and a part of its outputs.
    pub fn bytes(&self, cluster: usize) -> f64 {
        self.bytes[cluster]
    }

    /// The clusters that communicate with a cluster, ascending, with the mean seconds of communication.
    pub fn links(&self, cluster: usize) -> &[(u32, f64)] {
        self.links.row(cluster)
    }

    /// Successors of a cluster, with the mean seconds of communication.
    pub fn next(&self, cluster: usize) -> &[(u32, f64)] {
        self.next.row(cluster)
    }

    /// Predecessors of a cluster, with the mean seconds of communication.
    pub fn previous(&self, cluster: usize) -> &[(u32, f64)] {
        self.previous.row(cluster)
    }

    /// The cluster of a colocation class.
    pub fn cluster_of(&self, class: usize) -> usize {
        self.cluster_of[class] as usize
    }

    /// The clusters in a topological order, if there is one.
    pub fn order(&self) -> Option<Vec<u32>> {
        let mut waits: Vec<usize> = (0..self.len()).map(|cluster| self.previous(cluster).len()).collect();
        let mut order: Vec<u32> =
            (0..self.len() as u32).filter(|&cluster| waits[cluster as usize] == 0).collect();
        let mut at = 0;
        while let Some(&cluster) = order.get(at) {
            at += 1;
            for &(next, _) in self.next(cluster as usize) {
                waits[next as usize] -= 1;
                if waits[next as usize] == 0 {
                    order.push(next);
                }
            }
        }
        (order.len() == self.len()).then_some(order)
    }

    /// The operators of every cluster.
    pub(super) fn operators(&self, scene: &Scene<'_>) -> Csr<OpId> {
        let graph = scene.graph();
        let mut members: Vec<(u32, OpId)> =
            graph.operators().map(|op| (self.cluster_of[graph.class_of(op)], op)).collect();
        members.sort_unstable();
        Csr::from_sorted(self.len(), members.iter().copied())
    }

    /// The device of every cluster, taken from its first class.
    pub fn devices(&self, scene: &Scene<'_>, device_of: &[DeviceId]) -> Vec<DeviceId> {
        let graph = scene.graph();
        let mut devices = vec![DeviceId(0); self.len()];
        for class in (0..graph.class_count()).rev() {
            devices[self.cluster_of(class)] = device_of[graph.class(class)[0].index()];
        }
        devices
    }

    /// The device of every operator, given the devices of the clusters.
    pub fn project(&self, scene: &Scene<'_>, devices: &[DeviceId]) -> Vec<DeviceId> {
        let graph = scene.graph();
        graph.operators().map(|op| devices[self.cluster_of(graph.class_of(op))]).collect()
    }

    /// A level of clusters without costs, for tests that depend on edges only.
    #[cfg(test)]
    pub(super) fn of_graph(count: usize, edges: &[(u32, u32)], weight: impl Fn(usize) -> f64) -> Level {
        let edges = edges.iter().enumerate().map(|(at, &(from, to))| (from, to, weight(at))).collect();
        let alone = (0..count as u32).collect();
        Level::of_edges(1, vec![1.0; count], vec![1.0; count], vec![1.0; count], edges, alone)
    }
}

/// Bytes of every class: parameters and optimiser state, and the fraction of its outputs that the devices could hold if
/// all outputs existed at the same time.
fn bytes(scene: &Scene<'_>) -> Vec<f64> {
    let graph = scene.graph();
    let mut made = vec![0.0; graph.class_count()];
    for tensor in graph.tensors() {
        made[graph.class_of(graph.producer(tensor))] += graph.bytes(tensor);
    }
    let fixed: f64 = (0..made.len()).map(|class| scene.fixed_bytes(class)).sum();
    let room: f64 = scene.problem().cluster().devices().map(|device| scene.memory(device)).sum();
    let all: f64 = made.iter().sum();
    let share = if all > 0.0 { (FOR_TENSORS * (room - fixed) / all).clamp(0.0, 1.0) } else { 0.0 };
    made.iter().enumerate().map(|(class, made)| scene.fixed_bytes(class) + share * made).collect()
}
