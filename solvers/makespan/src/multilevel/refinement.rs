//! Refinement of the cut: clusters at the boundary move to the device that they communicate with most.
//!
//! A pass in the manner of Fiduccia and Mattheyses ("A linear-time heuristic for improving network partitions", DAC
//! 1982), for many devices: among all clusters that have not moved yet, the move with the largest reduction of the cut
//! is made, even if that is negative, and at the end the moves after the best point are undone. No device may become
//! busier than the busiest device was at the start, nor exceed its memory. An acyclic partition is a good start, but a
//! makespan does not require one, so moves may make the partition cyclic.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use stagewright_core::cluster::DeviceId;
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;
use stagewright_core::tolerance;

use super::super::instance::Instance;
use super::level::{ClusterId, Level};

/// Moves without a new best after which a pass ends.
const PATIENCE: usize = 100;
/// Maximum number of passes.
const PASSES: usize = 4;
/// Maximum number of links of a movable cluster: its best move is recomputed at every move of a neighbour.
const HUB: usize = 300;

/// A move, ordered by its reduction of the cut.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Move {
    gain: f64,
    cluster: ClusterId,
    to: DeviceId,
    /// Version of the cluster's links for which the gain was computed.
    version: u32,
}

impl Eq for Move {}

impl PartialOrd for Move {
    fn partial_cmp(&self, other: &Move) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Move {
    fn cmp(&self, other: &Move) -> Ordering {
        self.gain.total_cmp(&other.gain).then(other.cluster.cmp(&self.cluster)).then(other.to.cmp(&self.to))
    }
}

/// The partition of a level under refinement.
struct Partition<'a, 'p> {
    problem: &'p Problem,
    level: &'a Level,
    devices: &'a mut Keyed<ClusterId, DeviceId>,
    busy: Keyed<DeviceId, f64>,
    bytes: Keyed<DeviceId, f64>,
    memory: Keyed<DeviceId, f64>,
    /// Maximum seconds of work on any device.
    busiest: f64,
    /// Communication of the current cluster with each device; zero between uses.
    exchanged: Keyed<DeviceId, f64>,
    touched: Vec<DeviceId>,
}

/// Lowers the cut of a partition. O(passes · Σ degree · log), apart from updates at neighbours of neighbours.
pub(super) fn refine(instance: &Instance<'_>, level: &Level, devices: &mut Keyed<ClusterId, DeviceId>) {
    let problem = instance.problem();
    let count = instance.device_count();
    let (mut busy, mut bytes) = (Keyed::filled(0.0, count), Keyed::filled(0.0, count));
    for (cluster, &device) in devices.enumerate() {
        busy[device] += level.seconds(cluster, problem.pool_of(device));
        bytes[device] += level.bytes(cluster);
    }
    let busiest = busy.iter().copied().fold(0.0, f64::max);
    let mut partition = Partition {
        problem,
        level,
        devices,
        busy,
        bytes,
        memory: problem.cluster().devices().map(|device| instance.memory(device)).collect(),
        busiest,
        exchanged: Keyed::filled(0.0, count),
        touched: Vec::new(),
    };
    for _ in 0..PASSES {
        if !partition.pass() {
            break;
        }
    }
}

impl Partition<'_, '_> {
    /// One pass. Returns whether the cut is lower.
    fn pass(&mut self) -> bool {
        let count = self.level.len();
        let mut has_moved = Keyed::<ClusterId, _>::filled(false, count);
        let mut versions = Keyed::<ClusterId, _>::filled(0, count);
        let mut heap: BinaryHeap<Move> =
            self.level.ids().filter_map(|cluster| self.best_move(cluster, 0)).collect();
        let mut done: Vec<(ClusterId, DeviceId)> = Vec::new();
        let (mut gained, mut largest, mut until) = (0.0f64, 0.0f64, 0);
        while let Some(next) = heap.pop() {
            let cluster = next.cluster;
            if has_moved[cluster] || versions[cluster] != next.version {
                continue;
            }
            if !self.has_room(cluster, next.to) {
                // Another device may have room, or this one may later, but each cluster gets only one attempt.
                has_moved[cluster] = true;
                continue;
            }
            has_moved[cluster] = true;
            done.push((cluster, self.devices[cluster]));
            self.shift(cluster, next.to);
            gained += next.gain;
            if gained > largest + tolerance::VALUE_RELATIVE * largest.abs() {
                (largest, until) = (gained, done.len());
            } else if done.len() > until + PATIENCE {
                break;
            }
            for link in 0..self.level.links(cluster).len() {
                let neighbour = self.level.links(cluster)[link].0;
                if !has_moved[neighbour] {
                    versions[neighbour] += 1;
                    heap.extend(self.best_move(neighbour, versions[neighbour]));
                }
            }
        }
        for &(cluster, from) in done[until..].iter().rev() {
            self.shift(cluster, from);
        }
        until > 0
    }

    /// The move of a cluster that lowers the cut most; ties go to the first. `None` if no other device is possible.
    fn best_move(&mut self, cluster: ClusterId, version: u32) -> Option<Move> {
        let links = self.level.links(cluster);
        if links.len() > HUB {
            return None;
        }
        for &(neighbour, seconds) in links {
            let device = self.devices[neighbour];
            if self.exchanged[device] == 0.0 && seconds > 0.0 {
                self.touched.push(device);
            }
            self.exchanged[device] += seconds;
        }
        let here = self.exchanged[self.devices[cluster]];
        let mut best: Option<Move> = None;
        for touched in 0..self.touched.len() {
            let to = self.touched[touched];
            let gain = self.exchanged[to] - here;
            if to != self.devices[cluster]
                && best.is_none_or(|best| gain > best.gain)
                && self.has_room(cluster, to)
            {
                best = Some(Move { gain, cluster, to, version });
            }
        }
        for device in self.touched.drain(..) {
            self.exchanged[device] = 0.0;
        }
        best
    }

    fn has_room(&self, cluster: ClusterId, to: DeviceId) -> bool {
        let seconds = self.level.seconds(cluster, self.problem.pool_of(to));
        let bytes = self.bytes[to] + self.level.bytes(cluster);
        self.busy[to] + seconds <= self.busiest && tolerance::fits(bytes, self.memory[to])
    }

    fn shift(&mut self, cluster: ClusterId, to: DeviceId) {
        let from = std::mem::replace(&mut self.devices[cluster], to);
        self.busy[from] -= self.level.seconds(cluster, self.problem.pool_of(from));
        self.busy[to] += self.level.seconds(cluster, self.problem.pool_of(to));
        self.bytes[from] -= self.level.bytes(cluster);
        self.bytes[to] += self.level.bytes(cluster);
    }
}
