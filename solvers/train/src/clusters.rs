//! Random clusters for a graph: devices, links and memory in proportion to its demands.
//!
//! The difficulty of a placement depends not on the speed of the devices but on their capacity relative to the graph:
//! transfer seconds per second of computing, and memory per byte of persistent state. These ratios are drawn, and the
//! cluster's parameters are computed from them.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use stagewright_core::cluster::Cluster;
use stagewright_core::cost::CostTable;
use stagewright_core::document::{
    ClassDocument, ClusterDocument, GroupDocument, KindDocument, LinkDocument, ObjectiveKind,
};
use stagewright_core::graph::Graph;

use super::draw::{log_uniform, one_of};

/// The device classes of clusters: accelerators, other accelerators and hosts. Operators with measured times have a
/// time for each class.
pub const CLASSES: [&str; 3] = ["first", "second", "host"];
/// FLOP per second of the reference device.
pub(super) const REFERENCE_FLOPS: f64 = 1e13;
/// Memory bandwidth of the reference device in bytes per second.
pub(super) const REFERENCE_BANDWIDTH: f64 = 1e12;

/// Range of the communication ratio: the seconds to send every tensor once over a link, per second of all operators on
/// one device.
pub const COMMUNICATION: [f64; 2] = [0.01, 10.0];
/// Range of the speed of the second class relative to the first.
const SPEEDS: [f64; 2] = [0.25, 4.0];
/// Range of the speed of a host relative to the first class.
const HOST_SPEEDS: [f64; 2] = [0.05, 0.25];
/// Range of the total accelerator memory per byte of persistent state.
pub const ROOM: [f64; 2] = [1.3, 8.0];

/// Distribution of clusters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Proportions {
    /// Minimum and maximum number of devices.
    pub devices: [usize; 2],
    /// Transfer seconds per second of computing, as [`COMMUNICATION`].
    pub communication: [f64; 2],
    /// Memory per byte of persistent state, as [`ROOM`].
    pub room: [f64; 2],
    /// Whether all devices are identical.
    pub alike: bool,
}

/// Structure of a cluster, drawn before its parameters.
struct Layout {
    /// Devices of the two accelerator kinds.
    counts: [u32; 2],
    /// Whether the second kind has a different class.
    is_mixed: bool,
    /// Whether each kind forms its own group.
    is_grouped: bool,
    has_host: bool,
}

impl Layout {
    fn draw(rng: &mut ChaCha8Rng, proportions: &Proportions) -> Layout {
        let [least, largest] = proportions.devices;
        let devices = rng.random_range(least..=largest) as u32;
        if proportions.alike {
            return Layout { counts: [devices, 0], is_mixed: false, is_grouped: false, has_host: false };
        }
        let has_host = devices >= 3 && rng.random_bool(0.2);
        let accelerators = devices - u32::from(has_host);
        let is_mixed = accelerators >= 2 && rng.random_bool(0.4);
        let is_grouped = accelerators >= 4 && rng.random_bool(0.2);
        let second = if is_mixed || is_grouped { rng.random_range(1..accelerators) } else { 0 };
        Layout { counts: [accelerators - second, second], is_mixed, is_grouped, has_host }
    }
}

/// A random cluster for a graph. Its memory may still be too small for any placement, see [`with_more_memory`].
///
/// # Panics
/// If the range of devices is empty or starts at 0.
pub fn cluster(
    rng: &mut ChaCha8Rng,
    graph: &Graph,
    objective: ObjectiveKind,
    proportions: &Proportions,
) -> ClusterDocument {
    let layout = Layout::draw(rng, proportions);
    let mut cluster =
        ClusterDocument { classes: classes(rng), kinds: kinds(&layout), ..ClusterDocument::new("") };
    set_links(rng, graph, &mut cluster, &layout, proportions.communication);
    set_memory(rng, staying_bytes(graph, objective), &mut cluster, proportions.room);
    cluster
}

fn classes(rng: &mut ChaCha8Rng) -> BTreeMap<String, ClassDocument> {
    // Arithmetic per byte moved differs by an order of magnitude between devices.
    let balance = log_uniform(rng, 0.3, 3.0);
    let launch_overhead_s = if rng.random_bool(0.5) { 0.0 } else { log_uniform(rng, 1e-7, 1e-5) };
    let speeds =
        [1.0, log_uniform(rng, SPEEDS[0], SPEEDS[1]), log_uniform(rng, HOST_SPEEDS[0], HOST_SPEEDS[1])];
    let class = |speed: f64| ClassDocument {
        peak_flops: Some(REFERENCE_FLOPS * speed * balance),
        memory_bandwidth: Some(REFERENCE_BANDWIDTH * speed),
        launch_overhead_s,
        ..ClassDocument::default()
    };
    CLASSES.into_iter().zip(speeds).map(|(name, speed)| (name.to_owned(), class(speed))).collect()
}

fn kinds(layout: &Layout) -> Vec<KindDocument> {
    let kind = |name: &str, class: &str, count: u32| KindDocument {
        class: class.into(),
        ..KindDocument::named(name, count)
    };
    let second = if layout.is_mixed { CLASSES[1] } else { CLASSES[0] };
    let mut kinds = vec![kind("first", CLASSES[0], layout.counts[0])];
    if layout.counts[1] > 0 {
        kinds.push(kind("second", second, layout.counts[1]));
    }
    if layout.has_host {
        kinds.push(KindDocument { host: true, ..kind("host", CLASSES[2], 1) });
    }
    kinds
}

/// Adds links to the accelerators and uplinks to the groups, with a random communication ratio.
fn set_links(
    rng: &mut ChaCha8Rng,
    graph: &Graph,
    cluster: &mut ClusterDocument,
    layout: &Layout,
    communication: [f64; 2],
) {
    let seconds = seconds_on_first(graph, cluster);
    let bytes: f64 = graph.tensors().map(|tensor| graph.bytes(tensor)).sum();
    let ratio = log_uniform(rng, communication[0], communication[1]);
    // A graph without work or without tensors gets an arbitrary link.
    let bandwidth =
        if seconds > 0.0 && bytes > 0.0 { bytes / (ratio * seconds) } else { REFERENCE_BANDWIDTH };
    let latency_s = match rng.random_bool(0.5) {
        true => 0.0,
        false => seconds / graph.operator_count().max(1) as f64 * log_uniform(rng, 1e-3, 0.3),
    };
    let second = if rng.random_bool(0.5) { 1.0 } else { log_uniform(rng, 0.25, 4.0) };
    let uplinks = [0; 2].map(|_| bandwidth * log_uniform(rng, 0.1, 2.0));
    let accelerators = cluster.kinds.iter_mut().filter(|kind| !kind.host);
    for ((index, kind), times) in accelerators.enumerate().zip([1.0, second]) {
        kind.link = Some(LinkDocument { latency_s, bandwidth: bandwidth * times });
        if layout.is_grouped {
            let name = format!("rack{index}");
            kind.group = Some(name.clone());
            let uplink = LinkDocument { latency_s, bandwidth: uplinks[index] };
            cluster.groups.push(GroupDocument { name, uplink });
        }
    }
}

/// Seconds of all operators on a device of the first kind.
fn seconds_on_first(graph: &Graph, cluster: &ClusterDocument) -> f64 {
    let mut alone = cluster.clone();
    alone.kinds.truncate(1);
    alone.kinds[0].link = Some(LinkDocument { latency_s: 0.0, bandwidth: 1.0 });
    let alone = Cluster::from_document(alone).expect("one kind with devices and a link is a cluster");
    let costs = CostTable::new(graph, &alone).expect("the kind has a link");
    graph.operators().filter_map(|op| costs.seconds(op, 0)).sum()
}

/// In three of five clusters, limits the memory of the devices to a multiple of the persistent state, drawn from the
/// range `room`.
fn set_memory(rng: &mut ChaCha8Rng, staying: f64, cluster: &mut ClusterDocument, room: [f64; 2]) {
    let room = log_uniform(rng, room[0], room[1]);
    let second = one_of(rng, &[0.5, 1.0, 2.0]);
    let host = one_of(rng, &[None, Some(4.0)]);
    if rng.random_bool(0.4) {
        return;
    }
    let accelerators = || cluster.kinds.iter().filter(|kind| !kind.host).zip([1.0, second]);
    let shares: f64 = accelerators().map(|(kind, share)| f64::from(kind.count) * share).sum();
    let share = room * staying / shares;
    for kind in &mut cluster.kinds {
        kind.memory_bytes = match (kind.host, kind.name.as_str()) {
            (true, _) => host.map(|times| times * share),
            (false, "second") => Some(second * share),
            (false, _) => Some(share),
        };
    }
}

/// Bytes of persistent state under any placement: parameters and optimiser state, and for throughput also workspace and
/// activations.
pub fn staying_bytes(graph: &Graph, objective: ObjectiveKind) -> f64 {
    let bytes_of = |op| {
        let operator = graph.operator(op);
        let stays = operator.parameter_bytes + operator.optimizer_bytes;
        match objective {
            ObjectiveKind::Throughput => stays + operator.workspace_bytes + operator.activation_bytes,
            ObjectiveKind::Latency | ObjectiveKind::Makespan => stays,
        }
    };
    let shared = graph.parameters().iter().map(|shared| shared.bytes + shared.optimizer_bytes);
    graph.operators().map(bytes_of).chain(shared).sum()
}

/// A copy of a cluster with its limited memories multiplied by `times`, but increased by at least `least` bytes per
/// device; `None` if no device has limited memory.
pub fn with_more_memory(cluster: &ClusterDocument, times: f64, least: f64) -> Option<ClusterDocument> {
    let mut larger = cluster.clone();
    let mut is_limited = false;
    for memory in larger.kinds.iter_mut().filter_map(|kind| kind.memory_bytes.as_mut()) {
        *memory = (*memory * times).max(*memory + least);
        is_limited = true;
    }
    is_limited.then_some(larger)
}
