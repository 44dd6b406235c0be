//! Input features of the network, free of scale.
//!
//! Every feature is a share or the logarithm of a ratio, so a graph in milliseconds and one in hours, or on devices
//! twice as fast, look the same to the network. No feature depends on the number of devices or on the order in which
//! devices or units are listed.

pub mod kinds;
mod read;

use stagewright_core::cluster::DeviceId;
use stagewright_core::ids::{Id, Keyed};
use stagewright_makespan::ClusterId;

pub use read::input;

/// Version of the features. Checkpoints trained on another version are rejected.
pub const FEATURES: u32 = 1;
/// Features of a unit.
pub const UNIT: usize = 21 + kinds::KINDS;
/// Features of an edge.
pub const EDGE: usize = 6;
/// Features of a device.
pub const DEVICE: usize = 9;
/// Features of a pair of a unit and a device.
pub const PAIR: usize = 5;
/// Features of the whole graph.
pub const GRAPH: usize = 10;

/// Everything that the network reads: a subject and a plan to improve on.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// Number of units.
    pub units: usize,
    /// Number of devices.
    pub devices: usize,
    /// [`UNIT`] features per unit.
    pub unit: Vec<f32>,
    /// The edges.
    pub edges: Vec<(ClusterId, ClusterId)>,
    /// [`EDGE`] features per edge.
    pub edge: Vec<f32>,
    /// [`DEVICE`] features per device.
    pub device: Vec<f32>,
    /// [`PAIR`] features per unit and device.
    pub pair: Vec<f32>,
    /// [`GRAPH`] features.
    pub graph: Vec<f32>,
    /// Device of every unit in the plan to improve on.
    pub home: Keyed<ClusterId, DeviceId>,
    /// Whether a unit can run on a device, by unit and device.
    pub capable: Vec<bool>,
    /// The units, each after its predecessors.
    pub order: Vec<ClusterId>,
}

impl Input {
    /// Renames units and devices: unit `u` becomes `unit_to[u]`, and devices likewise. An equivariant network must give
    /// the same output up to these names.
    ///
    /// # Panics
    /// If these are not permutations.
    pub fn renamed(
        &self,
        unit_to: &Keyed<ClusterId, ClusterId>,
        device_to: &Keyed<DeviceId, DeviceId>,
    ) -> Input {
        let mut pair = vec![0.0; self.pair.len()];
        let mut capable = vec![false; self.capable.len()];
        for (unit, &unit_to) in unit_to.iter().enumerate() {
            for (device, &device_to) in device_to.iter().enumerate() {
                let from = unit * self.devices + device;
                let to = unit_to.index() * self.devices + device_to.index();
                pair[to * PAIR..(to + 1) * PAIR].copy_from_slice(&self.pair[from * PAIR..(from + 1) * PAIR]);
                capable[to] = self.capable[from];
            }
        }
        let mut home = Keyed::filled(DeviceId(0), self.units);
        for (&unit, &device) in unit_to.iter().zip(self.home.iter()) {
            home[unit] = device_to[device];
        }
        Input {
            units: self.units,
            devices: self.devices,
            unit: moved(&self.unit, UNIT, unit_to),
            edges: self.edges.iter().map(|&(a, b)| (unit_to[a], unit_to[b])).collect(),
            edge: self.edge.clone(),
            device: moved(&self.device, DEVICE, device_to),
            pair,
            graph: self.graph.clone(),
            home,
            capable,
            order: self.order.iter().map(|&unit| unit_to[unit]).collect(),
        }
    }
}

/// Rows of features, with row i moved to `to[i]`.
fn moved(rows: &[f32], width: usize, to: &[impl Id]) -> Vec<f32> {
    let mut moved = vec![0.0; rows.len()];
    for (row, &to) in to.iter().enumerate() {
        let to = to.index() * width;
        moved[to..to + width].copy_from_slice(&rows[row * width..(row + 1) * width]);
    }
    moved
}
