//! A level: the graph of some clusters of colocation classes.
//!
//! A level has two relations between clusters. *Links* carry the mean communication time in seconds of two clusters
//! that are separated; the cost of a cut is computed from them. *Edges* form an acyclic precedence relation, which every
//! order respects.

use stagewright_core::cluster::DeviceId;
use stagewright_core::csr::Csr;
use stagewright_core::graph::{ClassId, OpId};
use stagewright_core::ids::{Id, Keyed};

use super::super::edges::{Edge, between_classes, merge_parallel};
use super::super::instance::Instance;

/// Fraction of a device's memory that is available to tensors, for the estimate of a cluster's bytes.
const FOR_TENSORS: f64 = 0.8;

stagewright_core::id! {
    /// Index of a cluster in its level.
    pub ClusterId;
}

/// The graph of some clusters.
#[derive(Debug, Clone)]
pub struct Level {
    pools: usize,
    /// Seconds by cluster and pool; infinite if the cluster cannot run there.
    seconds: Vec<f64>,
    mean: Keyed<ClusterId, f64>,
    bytes: Keyed<ClusterId, f64>,
    links: Csr<(ClusterId, f64)>,
    next: Csr<(ClusterId, f64)>,
    previous: Csr<(ClusterId, f64)>,
    /// The cluster of every colocation class.
    cluster_of: Keyed<ClassId, ClusterId>,
}

/// Adjacency rows built from sorted edges.
fn links_of(rows: usize, edges: &[Edge<ClusterId>]) -> Csr<(ClusterId, f64)> {
    Csr::from_sorted(rows, edges.iter().map(|&(from, to, seconds)| (from, (to, seconds))))
}

impl Level {
    /// The level of the colocation classes with their tensors as edges, which may be cyclic. O(pools · operators + pins
    /// log pins).
    pub(super) fn of_classes(instance: &Instance<'_>) -> Level {
        let graph = instance.graph();
        let (classes, pools) = (graph.class_count(), instance.pool_count());
        let mut seconds = vec![0.0; classes * pools];
        let alone: Keyed<ClassId, ClusterId> = ClusterId::first(classes).collect();
        let mut mean = Keyed::filled(0.0, classes);
        for op in graph.operators() {
            let class = alone[graph.class_of(op)];
            mean[class] += instance.mean_seconds(op);
            for pool in 0..pools {
                seconds[class.index() * pools + pool] += instance.seconds_on(op, pool);
            }
        }
        let between = |(from, to, seconds)| (alone[from], alone[to], seconds);
        let edges = between_classes(instance).into_iter().map(between).collect();
        Level::of_edges(pools, seconds, mean, bytes(instance), edges, alone)
    }

    fn of_edges(
        pools: usize,
        seconds: Vec<f64>,
        mean: Keyed<ClusterId, f64>,
        bytes: Keyed<ClusterId, f64>,
        mut edges: Vec<Edge<ClusterId>>,
        cluster_of: Keyed<ClassId, ClusterId>,
    ) -> Level {
        edges.retain(|edge| edge.0 != edge.1);
        merge_parallel(&mut edges);
        let next = links_of(mean.len(), &edges);
        let mut both: Vec<_> = edges.iter().map(|&(from, to, seconds)| (to, from, seconds)).collect();
        merge_parallel(&mut both);
        let previous = links_of(mean.len(), &both);
        both.append(&mut edges);
        merge_parallel(&mut both);
        let links = links_of(mean.len(), &both);
        Level { pools, seconds, mean, bytes, links, next, previous, cluster_of }
    }

    /// Replaces the edges of the precedence.
    pub(super) fn precede(&mut self, edges: &[(ClusterId, ClusterId)]) {
        let between = |from: ClusterId, to: ClusterId| {
            let links = self.links.row(from);
            links.binary_search_by_key(&to, |link| link.0).map_or(0.0, |index| links[index].1)
        };
        let mut edges: Vec<_> = edges.iter().map(|&(from, to)| (from, to, between(from, to))).collect();
        merge_parallel(&mut edges);
        self.next = links_of(self.len(), &edges);
        let mut reversed: Vec<_> = edges.iter().map(|&(from, to, seconds)| (to, from, seconds)).collect();
        merge_parallel(&mut reversed);
        self.previous = links_of(self.len(), &reversed);
    }

    /// The level of `count` larger clusters, where `coarse` maps each cluster to the larger one. O(clusters · pools +
    /// edges log edges).
    pub fn contracted(&self, coarse: &Keyed<ClusterId, ClusterId>, count: usize) -> Level {
        let mut seconds = vec![0.0; count * self.pools];
        let (mut mean, mut bytes) = (Keyed::filled(0.0, count), Keyed::filled(0.0, count));
        for (cluster, &into) in coarse.enumerate() {
            mean[into] += self.mean[cluster];
            bytes[into] += self.bytes[cluster];
            for pool in 0..self.pools {
                seconds[into.index() * self.pools + pool] += self.seconds(cluster, pool);
            }
        }
        let contract = |rows: &Csr<(ClusterId, f64)>| -> Vec<Edge<ClusterId>> {
            let row = |from: ClusterId| {
                let coarsened = move |&(to, seconds): &(ClusterId, f64)| (coarse[from], coarse[to], seconds);
                rows.row(from).iter().map(coarsened)
            };
            self.ids().flat_map(row).filter(|edge| edge.0 != edge.1).collect()
        };
        let cluster_of = self.cluster_of.iter().map(|&cluster| coarse[cluster]).collect();
        let edges = contract(&self.next);
        let mut level = Level::of_edges(self.pools, seconds, mean, bytes, edges, cluster_of);
        // There are more links than edges if the edges are not those of the tensors.
        let mut links = contract(&self.links);
        merge_parallel(&mut links);
        level.links = links_of(count, &links);
        level
    }

    /// Number of clusters.
    pub fn len(&self) -> usize {
        self.mean.len()
    }

    /// The clusters.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = ClusterId> + ExactSizeIterator + Clone + use<> {
        ClusterId::first(self.len())
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
    pub fn seconds(&self, cluster: ClusterId, pool: usize) -> f64 {
        self.seconds[cluster.index() * self.pools + pool]
    }

    /// Mean seconds of a cluster over the devices that may run its operators.
    pub fn mean(&self, cluster: ClusterId) -> f64 {
        self.mean[cluster]
    }

    /// Bytes of a cluster: its parameters and optimiser state, and a part of its outputs.
    pub fn bytes(&self, cluster: ClusterId) -> f64 {
        self.bytes[cluster]
    }

    /// The clusters that communicate with a cluster, ascending, with the mean seconds of communication.
    pub fn links(&self, cluster: ClusterId) -> &[(ClusterId, f64)] {
        self.links.row(cluster)
    }

    /// Successors of a cluster, with the mean seconds of communication.
    pub fn next(&self, cluster: ClusterId) -> &[(ClusterId, f64)] {
        self.next.row(cluster)
    }

    /// Predecessors of a cluster, with the mean seconds of communication.
    pub fn previous(&self, cluster: ClusterId) -> &[(ClusterId, f64)] {
        self.previous.row(cluster)
    }

    /// The cluster of a colocation class.
    pub fn cluster_of(&self, class: ClassId) -> ClusterId {
        self.cluster_of[class]
    }

    /// The clusters in a topological order, if there is one.
    pub fn order(&self) -> Option<Vec<ClusterId>> {
        let mut waits: Keyed<ClusterId, usize> =
            self.ids().map(|cluster| self.previous(cluster).len()).collect();
        let mut order: Vec<ClusterId> = self.ids().filter(|&cluster| waits[cluster] == 0).collect();
        let mut next = 0;
        while let Some(&cluster) = order.get(next) {
            next += 1;
            for &(next, _) in self.next(cluster) {
                waits[next] -= 1;
                if waits[next] == 0 {
                    order.push(next);
                }
            }
        }
        (order.len() == self.len()).then_some(order)
    }

    /// The operators of every cluster.
    pub(super) fn operators(&self, instance: &Instance<'_>) -> Csr<OpId> {
        let graph = instance.graph();
        let mut members: Vec<(ClusterId, OpId)> =
            graph.operators().map(|op| (self.cluster_of[graph.class_of(op)], op)).collect();
        members.sort_unstable();
        Csr::from_sorted(self.len(), members.iter().copied())
    }

    /// The device of every cluster, taken from its first class.
    pub fn devices(&self, instance: &Instance<'_>, device_of: &[DeviceId]) -> Keyed<ClusterId, DeviceId> {
        let graph = instance.graph();
        let mut devices = Keyed::filled(DeviceId(0), self.len());
        for class in graph.class_ids().rev() {
            devices[self.cluster_of(class)] = device_of[graph.class(class)[0].index()];
        }
        devices
    }

    /// The device of every operator, given the devices of the clusters.
    pub fn project(&self, instance: &Instance<'_>, devices: &Keyed<ClusterId, DeviceId>) -> Vec<DeviceId> {
        let graph = instance.graph();
        graph.operators().map(|op| devices[self.cluster_of(graph.class_of(op))]).collect()
    }

    /// A level of clusters without costs, for tests that depend on edges only.
    #[cfg(test)]
    pub(super) fn of_graph(
        count: usize,
        edges: &[(ClusterId, ClusterId)],
        weight: impl Fn(usize) -> f64,
    ) -> Level {
        let edges = edges.iter().enumerate().map(|(index, &(from, to))| (from, to, weight(index))).collect();
        let (ones, alone) = (vec![1.0; count], ClusterId::first(count).collect());
        Level::of_edges(1, ones.clone(), ones.clone().into(), ones.into(), edges, alone)
    }
}

/// Bytes of every class: parameters and optimiser state, and the fraction of its outputs that the devices could hold if
/// all outputs existed at the same time.
fn bytes(instance: &Instance<'_>) -> Keyed<ClusterId, f64> {
    let graph = instance.graph();
    let mut made = Keyed::filled(0.0, graph.class_count());
    for tensor in graph.tensors() {
        made[graph.class_of(graph.producer(tensor))] += graph.bytes(tensor);
    }
    let fixed: f64 = graph.class_ids().map(|class| instance.fixed_bytes(class)).sum();
    let room: f64 = instance.problem().cluster().devices().map(|device| instance.memory(device)).sum();
    let all: f64 = made.iter().sum();
    let share = if all > 0.0 { (FOR_TENSORS * (room - fixed) / all).clamp(0.0, 1.0) } else { 0.0 };
    made.enumerate().map(|(class, made)| instance.fixed_bytes(class) + share * made).collect()
}
