//! Initial partitioning: devices for the clusters of the coarsest level.
//!
//! Two methods, each with several seeds:
//!
//! - *Growing* (the greedy graph growing of dagP, for any number of parts in one run). Clusters are taken in a
//!   topological order: among those whose predecessors are taken, the one that communicates most with the growing part;
//!   when the part has its device's share of the work, the next begins. Parts are therefore acyclic. Fewer parts than
//!   devices are tried as well, on the fastest devices, since fewer cuts mean less communication.
//! - *Earliest finish*, HEFT over clusters: in order of decreasing upward rank, each to the device on which it would
//!   end first. Parts need not be acyclic.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use rand::{Rng, RngExt};
use stagewright_core::cluster::DeviceId;
use stagewright_core::ids::Keyed;
use stagewright_core::tolerance;

use super::super::instance::Instance;
use super::level::{ClusterId, Level};

/// Maximum relative perturbation of estimates, for every seed but the first.
const BLUR: f64 = 0.3;

/// Assignment of clusters to devices so far.
struct Filling<'a, 'p> {
    instance: &'a Instance<'p>,
    level: &'a Level,
    /// Seconds of work, and bytes.
    busy: Keyed<DeviceId, f64>,
    bytes: Keyed<DeviceId, f64>,
    device_of: Keyed<ClusterId, Option<DeviceId>>,
}

impl<'a, 'p> Filling<'a, 'p> {
    fn new(instance: &'a Instance<'p>, level: &'a Level) -> Filling<'a, 'p> {
        let devices = instance.device_count();
        let (busy, bytes) = (Keyed::filled(0.0, devices), Keyed::filled(0.0, devices));
        Filling { instance, level, busy, bytes, device_of: Keyed::filled(None, level.len()) }
    }

    fn seconds(&self, cluster: ClusterId, device: DeviceId) -> f64 {
        self.level.seconds(cluster, self.instance.problem().pool_of(device))
    }

    fn has_room(&self, cluster: ClusterId, device: DeviceId) -> bool {
        let bytes = self.bytes[device] + self.level.bytes(cluster);
        self.seconds(cluster, device).is_finite() && tolerance::fits(bytes, self.instance.memory(device))
    }

    fn put(&mut self, cluster: ClusterId, device: DeviceId) {
        self.busy[device] += self.seconds(cluster, device);
        self.bytes[device] += self.level.bytes(cluster);
        self.device_of[cluster] = Some(device);
    }

    /// The cheapest device with room; if none has room, the device with the most room among those that can run the
    /// cluster.
    fn cheapest(&self, cluster: ClusterId, mut cost: impl FnMut(DeviceId) -> f64) -> Option<DeviceId> {
        let mut best: Option<(f64, DeviceId)> = None;
        for device in self.instance.problem().cluster().devices() {
            if self.has_room(cluster, device) {
                let cost = cost(device);
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, device));
                }
            }
        }
        let room = |device: DeviceId| self.instance.memory(device) - self.bytes[device];
        best.map(|(_, device)| device).or_else(|| {
            let capable = self.instance.problem().cluster().devices();
            capable
                .filter(|&device| self.seconds(cluster, device).is_finite())
                .max_by(|&a, &b| room(a).total_cmp(&room(b)).then(b.cmp(&a)))
        })
    }

    fn finish(self) -> Option<Keyed<ClusterId, DeviceId>> {
        self.device_of.iter().copied().collect()
    }
}

/// A cluster that may be taken, ordered by its communication with the growing part.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    exchanged: f64,
    /// Position in the order of the level; ties go to the first.
    place: u32,
    cluster: ClusterId,
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> Ordering {
        self.exchanged.total_cmp(&other.exchanged).then(other.place.cmp(&self.place))
    }
}

/// The devices with their speeds, fastest first. The speed is work per second; zero for a device that can run nothing.
pub(super) fn by_speed(instance: &Instance<'_>, level: &Level) -> Vec<(DeviceId, f64)> {
    let speed = |device: DeviceId| {
        let pool = instance.problem().pool_of(device);
        let can = level.ids().filter(|&cluster| level.seconds(cluster, pool).is_finite());
        let (work, seconds) = can.fold((0.0, 0.0), |(work, seconds), cluster| {
            (work + level.mean(cluster), seconds + level.seconds(cluster, pool))
        });
        if seconds > 0.0 { work / seconds } else { 0.0 }
    };
    let mut devices: Vec<(DeviceId, f64)> =
        instance.problem().cluster().devices().map(|device| (device, speed(device))).collect();
    devices.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    devices
}

/// Grows parts for some devices, one after the other; a cluster that does not fit its part goes to the least busy
/// device with room. O(clusters · (log + devices) + links log).
pub(super) fn grow(
    instance: &Instance<'_>,
    level: &Level,
    parts: &[(DeviceId, f64)],
    rng: Option<&mut dyn Rng>,
) -> Option<Keyed<ClusterId, DeviceId>> {
    let order = level.order()?;
    let mut place: Keyed<ClusterId, u32> = Keyed::filled(0, level.len());
    for (position, &cluster) in (0..).zip(&order) {
        place[cluster] = position;
    }
    if let Some(rng) = rng {
        // Breaks ties in random order.
        place.iter_mut().for_each(|place| *place = rng.random());
    }
    let work: f64 = level.ids().map(|cluster| level.mean(cluster)).sum();
    let speeds: f64 = parts.iter().map(|part| part.1).sum();
    let mut growth = Growth::new(instance, level, order, place);
    // Cumulative work at which the current part ends.
    let (mut part, mut until, mut taken) = (0, 0.0, 0.0);
    let mut next_part = true;
    loop {
        if std::mem::take(&mut next_part) {
            let share = if speeds > 0.0 { parts[part].1 / speeds } else { 1.0 };
            until += work * share;
            growth.begin_part();
        }
        let Some(cluster) = growth.next() else { break };
        let wanted = parts[part].0;
        let filling = &mut growth.filling;
        let device = match filling.has_room(cluster, wanted) {
            true => wanted,
            false => filling.cheapest(cluster, |device| filling.busy[device])?,
        };
        filling.put(cluster, device);
        taken += level.mean(cluster);
        growth.release(cluster, wanted);
        if device == wanted {
            growth.attract(cluster);
        }
        if taken >= until && part + 1 < parts.len() {
            part += 1;
            next_part = true;
        }
    }
    growth.filling.finish()
}

/// The clusters that a growing part may take next.
struct Growth<'a, 'p> {
    level: &'a Level,
    filling: Filling<'a, 'p>,
    /// Tie-breaking rank of every cluster among those that communicate equally with the part.
    place: Keyed<ClusterId, u32>,
    /// Seconds of communication between every cluster and the part.
    exchanged: Keyed<ClusterId, f64>,
    /// Number of predecessors of every cluster that are not taken yet.
    waits: Keyed<ClusterId, usize>,
    /// Clusters whose predecessors are taken.
    ready: Vec<ClusterId>,
    /// Clusters by their communication with the part; only the last entry of each cluster is valid.
    heap: BinaryHeap<Candidate>,
}

impl<'a, 'p> Growth<'a, 'p> {
    fn new(
        instance: &'a Instance<'p>,
        level: &'a Level,
        order: Vec<ClusterId>,
        place: Keyed<ClusterId, u32>,
    ) -> Growth<'a, 'p> {
        let waits: Keyed<ClusterId, usize> =
            level.ids().map(|cluster| level.previous(cluster).len()).collect();
        Growth {
            level,
            filling: Filling::new(instance, level),
            place,
            exchanged: Keyed::filled(0.0, level.len()),
            ready: order.into_iter().filter(|&cluster| waits[cluster] == 0).collect(),
            waits,
            heap: BinaryHeap::new(),
        }
    }

    /// Begins a part, with which no cluster communicates yet.
    fn begin_part(&mut self) {
        self.heap.clear();
        self.ready.retain(|&cluster| self.filling.device_of[cluster].is_none());
        for index in 0..self.ready.len() {
            self.push(self.ready[index], 0.0);
        }
    }

    /// Sets the communication of a cluster with the part.
    fn push(&mut self, cluster: ClusterId, exchanged: f64) {
        self.exchanged[cluster] = exchanged;
        self.heap.push(Candidate { exchanged, place: self.place[cluster], cluster });
    }

    /// The cluster that communicates most with the part.
    fn next(&mut self) -> Option<ClusterId> {
        while let Some(Candidate { exchanged, cluster, .. }) = self.heap.pop() {
            if self.filling.device_of[cluster].is_none() && exchanged >= self.exchanged[cluster] {
                return Some(cluster);
            }
        }
        None
    }

    /// Makes the clusters ready that waited only for `cluster`, which was taken. The part is on `device`.
    fn release(&mut self, cluster: ClusterId, device: DeviceId) {
        let level = self.level;
        for &(next, _) in level.next(cluster) {
            self.waits[next] -= 1;
            if self.waits[next] == 0 {
                self.ready.push(next);
                let links = level.links(next).iter();
                let mine = links.filter(|link| self.filling.device_of[link.0] == Some(device));
                self.push(next, mine.map(|link| link.1).sum());
            }
        }
    }

    /// Adds the communication of other clusters with a cluster that the part has taken.
    fn attract(&mut self, cluster: ClusterId) {
        let level = self.level;
        for &(other, seconds) in level.links(cluster) {
            let is_ready = self.waits[other] == 0 && self.filling.device_of[other].is_none();
            let is_next = level.next(cluster).binary_search_by_key(&other, |next| next.0).is_ok();
            if is_ready && !is_next {
                self.push(other, self.exchanged[other] + seconds);
            }
        }
    }
}

/// HEFT over clusters, with randomly perturbed estimates if a generator is given. O(clusters · devices · degree).
pub(super) fn earliest_finish(
    instance: &Instance<'_>,
    level: &Level,
    mut rng: Option<&mut dyn Rng>,
) -> Option<Keyed<ClusterId, DeviceId>> {
    let mut order = level.order()?;
    let mut rank = Keyed::filled(0.0f64, level.len());
    for &cluster in order.iter().rev() {
        let after = |&(next, seconds): &(ClusterId, f64)| seconds + rank[next];
        let after = level.next(cluster).iter().map(after).fold(0.0, f64::max);
        rank[cluster] = level.mean(cluster) + after;
    }
    order.sort_by(|&a, &b| rank[b].total_cmp(&rank[a]));
    let mut filling = Filling::new(instance, level);
    let mut end = Keyed::filled(0.0f64, level.len());
    let mut free = Keyed::filled(0.0f64, instance.device_count());
    for &cluster in &order {
        let ready = |device: DeviceId| {
            let arrival = |&(before, seconds): &(ClusterId, f64)| {
                let is_here = filling.device_of[before] == Some(device);
                end[before] + if is_here { 0.0 } else { seconds }
            };
            level.previous(cluster).iter().map(arrival).fold(0.0, f64::max)
        };
        let finish = |device: DeviceId| ready(device).max(free[device]) + filling.seconds(cluster, device);
        let device = filling.cheapest(cluster, |device| {
            let blur = rng.as_mut().map_or(1.0, |rng| rng.random_range(1.0 - BLUR..1.0 + BLUR));
            finish(device) * blur
        })?;
        end[cluster] = finish(device);
        free[device] = end[cluster];
        filling.put(cluster, device);
    }
    filling.finish()
}
